//! What may each sector of a volume hold?
//!
//! Every write, zeroing and trim of a volume has a number, the moment at which it was handed in and the
//! one at which it was answered, on a clock that only counts. A write is *over* when a later one, handed
//! in after its answer, was answered itself. Then:
//!
//! - a read shows a write that was handed in before the read's answer and was not over when the read was
//!   handed in: the acknowledged version, or one of those that are in flight beside it;
//! - after a crash a sector holds a write that is not over by one that is durable: nothing older than
//!   what was flushed;
//! - a snapshot shows what a read at that moment could, and for ever the same.
//!
//! What fails may be there or not, until something later is answered.

use std::fmt::Write as _;
use std::time::Instant;

/// Not yet.
const OPEN: u64 = u64::MAX;
/// Versions of a sector above which those that cannot be seen any more are forgotten.
const FORGET_ABOVE: usize = 12;
/// Requests of a block that are told of a violation, from the newest on.
const TOLD_MAX: usize = 40;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes its number into each sector.
    Write,
    /// Leaves zeroes.
    Zero,
    /// Leaves zeroes, too.
    Trim,
}

/// Why a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    /// It carried FUA, or its volume is strict.
    Itself,
    /// A FLUSH that was handed in at this moment has ended.
    Flush(u64),
    /// The server ended cleanly behind it.
    Stop,
    /// It was there before anything.
    Ever,
}

/// A write of any kind.
#[derive(Clone, Debug)]
struct Change {
    kind: Kind,
    first: u64,
    count: u64,
    /// Moments on the clock.
    issued: u64,
    ended: u64,
    /// Answered without an error.
    ok: bool,
    durable: Option<Durable>,
    connection: usize,
    at: Instant,
}

/// A read, or something else that sees the volume, under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    issued: u64,
}

/// A FLUSH under way.
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    issued: u64,
}

/// What a sector shows: zeroes, or the version of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Zero,
    Version(u64),
}

/// Knows what every sector of a volume may hold.
pub struct History {
    clock: u64,
    /// By number; the first one is what was there before anything.
    changes: Vec<Change>,
    /// Numbers of the changes of each sector that may still be seen, in the order of their numbers.
    sectors: Vec<Vec<u32>>,
    /// Answered, and not known to be durable.
    unflushed: Vec<u32>,
    /// Moments at which what is under way began, oldest first.
    looks: Vec<u64>,
    /// Every write is durable when it is answered.
    is_strict: bool,
    began: Instant,
}

impl History {
    /// A volume of zeroes.
    pub fn new(sectors: u64, is_strict: bool) -> History {
        let began = Instant::now();
        let zeroes = Change {
            kind: Kind::Zero,
            first: 0,
            count: sectors,
            issued: 0,
            ended: 0,
            ok: true,
            durable: Some(Durable::Ever),
            connection: 0,
            at: began,
        };
        History {
            clock: 0,
            changes: vec![zeroes],
            sectors: vec![vec![0]; sectors as usize],
            unflushed: Vec::new(),
            looks: Vec::new(),
            is_strict,
            began,
        }
    }

    /// Sectors of the volume.
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A write is handed in; its number is what its sectors shall hold.
    pub fn issue(&mut self, kind: Kind, first: u64, count: u64, connection: usize) -> u64 {
        let (issued, at) = (self.tick(), Instant::now());
        let (ended, ok, durable) = (OPEN, false, None);
        let number = self.changes.len() as u64;
        self.changes.push(Change {
            kind,
            first,
            count,
            issued,
            ended,
            ok,
            durable,
            connection,
            at,
        });
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.push(number as u32);
        }
        number
    }

    /// A write was answered; with `fua` it was to be durable then.
    pub fn answer(&mut self, number: u64, ok: bool, fua: bool) {
        let ended = self.tick();
        let is_strict = self.is_strict;
        let change = &mut self.changes[number as usize];
        (change.ended, change.ok) = (ended, ok);
        change.durable = (ok && (fua || is_strict)).then_some(Durable::Itself);
        if ok && change.durable.is_none() {
            self.unflushed.push(number as u32);
        }
        let (first, count) = (change.first as usize, change.count as usize);
        for sector in first..first + count {
            if self.sectors[sector].len() > FORGET_ABOVE {
                self.forget(sector);
            }
        }
    }

    /// A FLUSH is handed in.
    pub fn begin_flush(&mut self) -> Flush {
        Flush { issued: self.tick() }
    }

    /// A FLUSH was answered well: what was answered before it was handed in is durable.
    pub fn flushed(&mut self, flush: Flush) {
        let changes = &mut self.changes;
        self.unflushed.retain(|number| {
            let change = &mut changes[*number as usize];
            let is_before = change.ended < flush.issued;
            change.durable = is_before.then_some(Durable::Flush(flush.issued));
            !is_before
        });
    }

    /// A read is handed in.
    pub fn begin_look(&mut self) -> Look {
        let issued = self.tick();
        self.looks.push(issued);
        Look { issued }
    }

    /// It was answered, or will not be.
    pub fn end_look(&mut self, look: Look) {
        self.looks.retain(|issued| *issued != look.issued);
    }

    /// May a read that is answered now show this?
    pub fn may_show(&self, look: Look, sector: u64, shown: Shown) -> bool {
        self.seen(sector, shown).any(|change| !self.is_over(change, sector, look.issued))
    }

    /// What a read that is answered now may show of a sector.
    pub fn possible(&self, look: Look, sector: u64) -> Vec<Shown> {
        let numbers = self.sectors[sector as usize].iter().copied();
        let seen = numbers
            .filter(|number| !self.is_over(&self.changes[*number as usize], sector, look.issued));
        let mut possible: Vec<Shown> = seen.map(|number| self.shown(number)).collect();
        possible.dedup();
        possible
    }

    /// What a crash may leave of a sector.
    pub fn possible_after_crash(&self, sector: u64) -> Vec<Shown> {
        let numbers = self.sectors[sector as usize].iter().copied();
        let left = numbers.filter(|number| self.may_be_left(sector, *number));
        let mut possible: Vec<Shown> = left.map(|number| self.shown(number)).collect();
        possible.dedup();
        possible
    }

    fn shown(&self, number: u32) -> Shown {
        match self.changes[number as usize].kind {
            Kind::Write => Shown::Version(u64::from(number)),
            Kind::Zero | Kind::Trim => Shown::Zero,
        }
    }

    /// The changes of a sector that would show this.
    fn seen(&self, sector: u64, shown: Shown) -> impl Iterator<Item = &Change> {
        let numbers = self.sectors[sector as usize].iter().copied();
        let fits = numbers.filter(move |number| self.shown(*number) == shown);
        fits.map(|number| &self.changes[number as usize])
    }

    /// Was a change written over, by one that had been answered at this moment?
    fn is_over(&self, change: &Change, sector: u64, moment: u64) -> bool {
        self.sectors[sector as usize].iter().any(|number| {
            let later = &self.changes[*number as usize];
            later.ok && later.issued > change.ended && later.ended < moment
        })
    }

    fn may_be_left(&self, sector: u64, number: u32) -> bool {
        let change = &self.changes[number as usize];
        !self.sectors[sector as usize].iter().any(|number| {
            let later = &self.changes[*number as usize];
            later.durable.is_some() && later.issued > change.ended
        })
    }

    /// Forgets what neither a read nor a crash can show any more.
    fn forget(&mut self, sector: usize) {
        let oldest = self.looks.iter().copied().min().unwrap_or(self.clock);
        let kept: Vec<u32> = self.sectors[sector]
            .iter()
            .copied()
            .filter(|number| {
                let change = &self.changes[*number as usize];
                self.may_be_left(sector as u64, *number)
                    || !self.is_over(change, sector as u64, oldest)
            })
            .collect();
        self.sectors[sector] = kept;
    }

    /// The server is gone: what was not answered may be there or not.
    pub fn crashed(&mut self) {
        let ended = self.tick();
        self.looks.clear();
        self.unflushed.clear();
        for change in self.changes.iter_mut().filter(|change| change.ended == OPEN) {
            change.ended = ended;
        }
    }

    /// The server has ended cleanly: all that was answered is durable.
    pub fn stopped(&mut self) {
        for number in std::mem::take(&mut self.unflushed) {
            self.changes[number as usize].durable = Some(Durable::Stop);
        }
        self.crashed();
    }

    /// May a sector hold this after a crash?
    pub fn may_be_found(&self, sector: u64, shown: Shown) -> bool {
        let numbers = self.sectors[sector as usize].iter().copied();
        let mut fits = numbers.filter(|number| self.shown(*number) == shown);
        fits.any(|number| self.may_be_left(sector, number))
    }

    /// After a crash a sector holds this, and from now on that is its durable version.
    pub fn found(&mut self, sector: u64, shown: Shown) {
        let numbers = self.sectors[sector as usize].iter().copied();
        // the newest that fits: zeroes may have been written several times
        let newest = numbers.filter(|number| self.shown(*number) == shown).max();
        // of the same write other blocks may be gone, so this says nothing of them
        self.sectors[sector as usize] = vec![newest.unwrap_or(0)];
    }

    /// All writes, zeroings and trims of a range of sectors, the newest last, and how each ended.
    pub fn tell(&self, first: u64, count: u64) -> String {
        let touches =
            |change: &&Change| change.first < first + count && first < change.first + change.count;
        let all: Vec<_> = self.changes.iter().enumerate().filter(|(_, it)| touches(it)).collect();
        let mut text = String::new();
        let left_out = all.len().saturating_sub(TOLD_MAX);
        if left_out > 0 {
            let _ = writeln!(text, "    {left_out} before");
        }
        for (number, change) in all.into_iter().skip(left_out) {
            let Change { kind, first, count, issued, ended, connection, .. } = change;
            let end = match (*ended, change.ok, change.durable) {
                (OPEN, ..) => "in flight".to_owned(),
                (ended, false, _) => format!("failed or was not answered by {ended}"),
                (ended, true, None) => format!("answered at {ended}"),
                (ended, true, Some(why)) => format!("answered at {ended}, durable by {why:?}"),
            };
            let after_ms = change.at.duration_since(self.began).as_millis();
            let last = first + count.saturating_sub(1);
            let _ = writeln!(
                text,
                "    {number}: {kind:?} of sectors {first} to {last} on connection {connection}, \
                 handed in at {issued} ({after_ms} ms), {end}"
            );
        }
        let _ = writeln!(text, "    it is {} now", self.clock);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(history: &mut History) -> u64 {
        history.issue(Kind::Write, 0, 8, 0)
    }

    fn written(history: &mut History) -> u64 {
        let number = write(history);
        history.answer(number, true, false);
        number
    }

    fn possible(history: &mut History) -> Vec<Shown> {
        let look = history.begin_look();
        history.end_look(look);
        history.possible(look, 3)
    }

    #[test]
    fn a_read_shows_the_acknowledged_version_or_one_in_flight() {
        let mut history = History::new(64, false);
        assert_eq!(possible(&mut history), [Shown::Zero]);
        let one = written(&mut history);
        assert_eq!(possible(&mut history), [Shown::Version(one)]);
        let two = write(&mut history);
        assert_eq!(possible(&mut history), [Shown::Version(one), Shown::Version(two)]);
        // a read that began while the second was in flight may show either, one from after it may not
        let early = history.begin_look();
        history.answer(two, true, false);
        assert!(history.may_show(early, 3, Shown::Version(one)));
        assert!(history.may_show(early, 3, Shown::Version(two)));
        assert!(!history.may_show(early, 3, Shown::Zero));
        assert_eq!(possible(&mut history), [Shown::Version(two)]);
        // one that began before a third was handed in may show that, too
        let three = write(&mut history);
        assert!(history.may_show(early, 3, Shown::Version(three)));
        assert!(!history.may_show(early, 9, Shown::Version(three)));
    }

    #[test]
    fn two_in_flight_may_end_in_either_order() {
        let mut history = History::new(64, false);
        let (one, two) = (write(&mut history), write(&mut history));
        history.answer(two, true, false);
        history.answer(one, true, false);
        assert_eq!(possible(&mut history), [Shown::Version(one), Shown::Version(two)]);
        let three = written(&mut history);
        assert_eq!(possible(&mut history), [Shown::Version(three)]);
    }

    #[test]
    fn a_crash_leaves_nothing_older_than_what_was_flushed() {
        let mut history = History::new(64, false);
        let one = written(&mut history);
        let flush = history.begin_flush();
        let two = written(&mut history);
        history.flushed(flush);
        let three = write(&mut history);
        history.crashed();
        let left = [one, two, three].map(Shown::Version);
        assert_eq!(history.possible_after_crash(3), left);
        assert!(!history.may_be_found(3, Shown::Zero));
        assert!(history.may_be_found(9, Shown::Zero));
        history.found(3, Shown::Version(two));
        assert_eq!(possible(&mut history), [Shown::Version(two)]);
        history.crashed();
        assert_eq!(history.possible_after_crash(3), [Shown::Version(two)]);
        // of a write some blocks may be there and others not
        assert_eq!(history.possible_after_crash(4), left);
        history.found(4, Shown::Version(three));
        history.found(5, Shown::Version(one));
        assert_eq!(history.possible_after_crash(6), left);
    }

    #[test]
    fn fua_strict_and_a_clean_stop_are_durable() {
        let mut history = History::new(64, false);
        let one = write(&mut history);
        history.answer(one, true, true);
        let two = written(&mut history);
        history.crashed();
        assert_eq!(history.possible_after_crash(3), [one, two].map(Shown::Version));
        let mut history = History::new(64, true);
        written(&mut history);
        let two = written(&mut history);
        history.crashed();
        assert_eq!(history.possible_after_crash(3), [Shown::Version(two)]);
        let mut history = History::new(64, false);
        let one = written(&mut history);
        history.stopped();
        assert_eq!(history.possible_after_crash(3), [Shown::Version(one)]);
    }

    #[test]
    fn what_failed_may_be_there_until_something_later_is_answered() {
        let mut history = History::new(64, false);
        let one = written(&mut history);
        let failed = write(&mut history);
        history.answer(failed, false, false);
        assert_eq!(possible(&mut history), [one, failed].map(Shown::Version));
        let zero = history.issue(Kind::Trim, 0, 8, 0);
        history.answer(zero, true, false);
        assert_eq!(possible(&mut history), [Shown::Zero]);
    }

    /// What is forgotten is what could not be seen: with and without it the answers are the same.
    #[test]
    fn forgetting_changes_nothing() {
        let mut history = History::new(64, false);
        let old = history.begin_look();
        let first = write(&mut history);
        for _ in 0..3 * FORGET_ABOVE {
            written(&mut history);
        }
        let flush = history.begin_flush();
        history.flushed(flush);
        for _ in 0..3 * FORGET_ABOVE {
            written(&mut history);
        }
        // the read that began before all of them may show any, and so may the write that is in flight
        assert!(history.possible(old, 3).len() > 6 * FORGET_ABOVE);
        history.end_look(old);
        let last = written(&mut history);
        assert_eq!(possible(&mut history), [first, last].map(Shown::Version));
        assert_eq!(history.possible_after_crash(3).len(), 3 * FORGET_ABOVE + 3);
        history.answer(first, true, false);
        let flush = history.begin_flush();
        history.flushed(flush);
        let last = written(&mut history);
        assert!(history.sectors[3].len() <= 3, "{:?}", history.sectors[3]);
        assert_eq!(possible(&mut history), [Shown::Version(last)]);
    }
}
