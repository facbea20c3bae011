//! How does a leg that is behind get what it lacks?
//!
//! Source: requirements I14, B9. Piece by piece from the other leg, while the pair serves; nothing that
//! touches a piece under way is written. Both legs are written to meanwhile, and the one that lacks
//! nothing is read.

use super::cache::Cache;
use super::commands::Commands;
use super::config;
use super::flight::Flight;
use super::journal::Journal;
use super::roles::{Death, Phase, Roles};
use super::stale::Stale;
use super::survivor::Survivor;
use crate::port::IoOp;
use crate::replicas::piece::{Piece, Pieces, Read};
use tandem_block::{BLOCK_BYTES, Duration, Instant, IoError, PayloadId};

/// Bytes in a second while users are served: half of what an old SATA SSD writes (guess).
const BYTES_PER_S: u64 = 100_000_000;
/// After so many bytes what was reached is put on record, so that a crash does not begin again.
const RECORDED_BYTES: u64 = 1 << 30;
/// After something that cannot be read the copy rests so long (guess).
const SKIPPED_REST: Duration = Duration::from_s(1);

/// What has to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Both legs are flushed, and then what is equal by now goes on record.
    FlushBoth,
    /// The lead has what it was behind in: it is flushed.
    FlushLead,
}

/// What a piece that could not be read means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The pair cannot start.
    Start(IoError),
    /// The leg that it was read from is dead.
    Leg,
    /// A block of data is lost there. The other leg keeps what it has, and counts as equal.
    Block,
}

#[derive(Clone, Debug)]
pub(super) struct Resync {
    /// What each leg lacks: it is not read there.
    stale: [Stale; 2],
    pieces: Pieces,
    /// Which leg gets the piece that is claimed.
    target: usize,
    /// What could not be read and has no checksum: the leg lacks it until it is written, or can be read.
    skipped: Stale,
    /// Where the engine has data, each block with a checksum; known when it serves.
    data: (u64, u64),
    unrecorded_bytes: u64,
    /// Legs that were flushed since the last piece.
    flushed: [bool; 2],
    recording: bool,
    /// The other leg lacks everything, not only what a crash left in doubt.
    all: bool,
    /// What the engine has taken for the truth since the start, and the leg that is behind lacks: it is
    /// copied first, and no FLUSH is answered before. Only with a journal.
    wanted: Stale,
    /// The engine does not serve yet: what it reads it takes for the truth.
    is_recovering: bool,
    /// Bytes copied.
    copied_bytes: u64,
}

impl Resync {
    pub(crate) fn new() -> Resync {
        Resync {
            stale: Default::default(),
            pieces: Pieces::new(),
            target: 0,
            skipped: Stale::default(),
            data: (0, 0),
            unrecorded_bytes: 0,
            flushed: [false; 2],
            recording: false,
            all: false,
            wanted: Stale::default(),
            is_recovering: true,
            copied_bytes: 0,
        }
    }

    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    pub(crate) fn stale(&self) -> &[Stale; 2] {
        &self.stale
    }

    /// Is a piece that touches this under way?
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        self.pieces.covers((start, end))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.pieces.claimed().is_none() && !self.recording
    }

    /// Does no leg lack anything?
    pub(crate) fn are_equal(&self) -> bool {
        self.stale.iter().all(Stale::is_empty)
    }

    pub(crate) fn is_readable(&self, leg: usize, start: u64, end: u64, roles: &Roles) -> bool {
        roles.is_alive(leg) && !self.stale[leg].touches(start, end)
    }

    /// The leg that may be asked for these bytes: this one, unless it is behind there.
    pub(crate) fn readable_leg(
        &self,
        first: usize,
        (start, end): (u64, u64),
        roles: &Roles,
    ) -> Option<usize> {
        [first, 1 - first].into_iter().find(|&leg| self.is_readable(leg, start, end, roles))
    }

    /// What of this a leg lacks.
    pub(crate) fn lacks_within(&self, leg: usize, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.stale[leg].within(start, end)
    }

    /// A FLUSH waits until this is copied.
    pub(crate) fn holds_flushes(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Legs that live and do not lack everything, a bit for each.
    pub(crate) fn members(&self, roles: &Roles) -> u8 {
        let lacks_all = |leg: usize| self.all && leg != roles.lead();
        (0..2).filter(|&leg| roles.is_alive(leg) && !lacks_all(leg)).map(|leg| 1 << leg).sum()
    }

    /// Blocks of data that could not be read. The leg that was behind has there what it had.
    pub(crate) fn unreadable_blocks(&self) -> u64 {
        self.pieces.unreadable_blocks()
    }

    /// The engine serves; it has data here.
    pub(crate) fn engine_runs(&mut self, data: (u64, u64)) {
        self.is_recovering = false;
        self.data = data;
    }

    /// The engine reads this, and may take for the truth what only the lead has there: what a crash cut
    /// short, or what it said before it was flushed.
    pub(crate) fn adopt(
        &mut self,
        (start, end): (u64, u64),
        meta: bool,
        roles: &Roles,
        journal: &Journal,
    ) {
        let other = roles.other();
        let behind = journal.is_on() && roles.is_alive(other) && !self.all;
        if !behind || !(meta || self.is_recovering) {
            return;
        }
        for (from, to) in self.stale[other].within(start, end) {
            self.wanted.add(from, to);
        }
    }

    /// A leg lacks nothing of this any more.
    pub(crate) fn is_new_there(
        &mut self,
        leg: usize,
        (start, end): (u64, u64),
        roles: &Roles,
        survivor: &mut Survivor,
    ) {
        self.stale[leg].remove(start, end);
        if leg != roles.lead() {
            self.wanted.remove(start, end);
        } else if roles.is_alone() {
            survivor.has(start, end);
        }
    }
}

/// Begin and end.
impl Resync {
    /// What the legs lack at the start; `all`: the one that does not lead lacks everything.
    pub(crate) fn resumes(&mut self, lead: usize, [leads, other]: [Stale; 2], all: bool) {
        self.all = !other.is_empty() && all;
        (self.stale[lead], self.stale[1 - lead]) = (leads, other);
    }

    /// The leg that does not lead lacks this too.
    pub(crate) fn lacks(&mut self, leg: usize, more: &Stale) {
        self.stale[leg].add_all(more);
    }

    /// A leg that is behind cannot be brought what it lacks in another way.
    pub(crate) fn lacks_all(&mut self) {
        self.all = true;
    }

    /// A leg died: there is nothing to copy any more. A piece's buffer goes with the command that is
    /// under way for it.
    pub(crate) fn leg_died(&mut self, death: Death, has_journal: bool) {
        let wanted = std::mem::take(&mut self.wanted);
        if has_journal && !self.all && death.led && death.served {
            // the journal has brought it all that was flushed before the start; what it lacks of the rest
            // nobody was told of, but for this
            self.stale[death.survivor] = wanted;
        }
        self.stale[death.leg] = Stale::default();
        self.recording = false;
        self.flushed = [false; 2];
    }
}

/// Pieces.
impl Resync {
    pub(crate) fn due(&self, roles: &Roles, now: Instant) -> Instant {
        if self.is_idle() && self.wants_piece(roles).is_some() {
            Some(self.pieces.rests_until()).filter(|&at| at > now).unwrap_or(Instant::NEVER)
        } else {
            Instant::NEVER
        }
    }

    /// The leg that is behind, if both live: first the lead, which nothing else can be built on.
    fn wants_piece(&self, roles: &Roles) -> Option<usize> {
        let phase = matches!(roles.phase(), Phase::Restoring | Phase::Serving);
        if roles.is_alone() || !phase || roles.blocks_all() {
            return None;
        }
        let other = (roles.phase() == Phase::Serving).then_some(roles.other());
        let legs = std::iter::once(roles.lead()).chain(other);
        legs.into_iter().find(|&leg| !self.stale[leg].is_empty())
    }

    /// Reads the next piece, if it is its time and neither metadata nor anything else is being written
    /// there.
    pub(crate) fn run(
        &mut self,
        roles: &Roles,
        has_meta: impl Fn(u64, u64) -> bool,
        cache: &Cache,
        commands: &mut Commands,
    ) -> Option<Step> {
        let (now, is_serving) = (commands.now(), roles.phase() == Phase::Serving);
        if roles.has_laggard() && self.are_equal() && self.is_idle() && is_serving {
            return Some(self.begin_record());
        }
        let rests = self.pieces.rests_until() > now;
        if !self.is_idle() || (rests && self.wanted.is_empty()) {
            return None;
        }
        let leg = self.wants_piece(roles)?;
        let (start, end) = self.next_range(leg, roles);
        let source = 1 - leg;
        let busy = (0..2).any(|leg| cache.busy(start, end, leg));
        if has_meta(start, end) || busy || self.stale[source].touches(start, end) {
            return None; // asked again with the next completion
        }
        let length_bytes = end - start;
        let takes = Duration::from_ns(length_bytes * 1_000_000_000 / BYTES_PER_S);
        if is_serving {
            self.pieces.rest_until(now + takes);
        }
        self.target = leg;
        self.pieces.claim((start, end), now);
        let op = IoOp::Read {
            offset_bytes: commands.place(start),
            length_bytes,
            into: self.buffer(length_bytes, commands),
            into_offset_bytes: 0,
        };
        commands.send(roles, source, op, Flight::ResyncRead);
        None
    }

    /// What of a leg that is behind is copied next: first what was taken for the truth, last what could
    /// not be read before.
    fn next_range(&mut self, leg: usize, roles: &Roles) -> (u64, u64) {
        let wanted = self.wanted.first(BLOCK_BYTES).filter(|_| leg != roles.lead());
        let (start, _) = wanted.or_else(|| self.first_lacking(leg)).expect("it lacks something");
        let bytes_max = self.pieces.bytes_max(start, config::RESYNC_BYTES);
        let lacking = if wanted.is_some() { &self.wanted } else { &self.stale[leg] };
        let mut range = lacking.within(start, start + bytes_max)[0];
        if let Some(skipped) = self.skipped.within(range.0, range.1).first()
            && skipped.0 > range.0
        {
            range.1 = skipped.0;
        }
        range
    }

    fn first_lacking(&mut self, leg: usize) -> Option<(u64, u64)> {
        if !self.skipped.is_empty() {
            let mut lacking = self.stale[leg].clone();
            lacking.remove_all(&self.skipped);
            if let Some(first) = lacking.first(BLOCK_BYTES) {
                return Some(first);
            }
            self.skipped = Stale::default();
        }
        self.stale[leg].first(BLOCK_BYTES)
    }

    /// A buffer for the piece that is claimed.
    fn buffer(&mut self, length_bytes: u64, commands: &mut Commands) -> PayloadId {
        let buffer = commands.name_buffer();
        if commands.has_contents() {
            commands.reserve(buffer, length_bytes);
        }
        self.pieces.send(buffer).buffer
    }

    /// A piece was read, or could not be.
    pub(crate) fn read(
        &mut self,
        status: Result<(), IoError>,
        roles: &Roles,
        commands: &mut Commands,
    ) -> Option<Unread> {
        let Piece { range: (start, end), buffer, .. } = self.pieces.claimed()?;
        match status {
            // nobody is served without it
            Err(error) if roles.phase() == Phase::Restoring => {
                self.drop_piece(commands);
                return Some(Unread::Start(error));
            }
            Err(IoError::Dead(_)) => {
                self.drop_piece(commands);
                return Some(Unread::Leg);
            }
            // a leg that is silent now may have it
            Err(IoError::NoAnswer(_)) => {
                self.skip_piece(commands);
                return None;
            }
            // what a dead leg could not read is not lost: it may come back
            Err(_) if roles.is_alone() => {
                self.drop_piece(commands);
                return None;
            }
            Ok(()) if !roles.is_alive(self.target) => {
                self.drop_piece(commands);
                return None;
            }
            Ok(()) | Err(_) => {}
        }
        let checked = self.data.0 <= start && end <= self.data.1;
        match self.pieces.read(status, checked) {
            Read::Whole => {}
            Read::ByBlocks => {
                self.drop_piece(commands);
                return None;
            }
            Read::Lost => {
                self.skip_piece(commands);
                return None;
            }
            // what the other leg has there may be sound: its checksum tells it from data
            Read::Unreadable => return Some(Unread::Block),
        }
        let op = IoOp::Write {
            offset_bytes: commands.place(start),
            length_bytes: end - start,
            from: buffer,
            from_offset_bytes: 0,
            fua: false,
        };
        self.copied_bytes += end - start;
        commands.send(roles, self.target, op, Flight::ResyncWrite);
        None
    }

    /// What cannot be read cannot be copied: it is as lost as it was on one drive. Others come first.
    fn skip_piece(&mut self, commands: &mut Commands) {
        if let Some((start, end)) = self.take_piece(commands) {
            self.wanted.remove(start, end);
            self.skipped.add(start, end);
            self.pieces.rest_until(commands.now() + SKIPPED_REST);
        }
    }

    /// A piece was written, or the leg that it was written to failed. Returns its bytes.
    pub(crate) fn take_piece(&mut self, commands: &mut Commands) -> Option<(u64, u64)> {
        let piece = self.pieces.claimed()?;
        self.drop_piece(commands);
        Some(piece.range)
    }

    /// A leg has a piece. What has to be done when it is one of many, or the last one?
    pub(crate) fn written(&mut self, (start, end): (u64, u64), roles: &Roles) -> Option<Step> {
        self.unrecorded_bytes += end - start;
        if roles.phase() == Phase::Restoring {
            return self.stale[roles.lead()].is_empty().then_some(Step::FlushLead);
        }
        (self.unrecorded_bytes >= RECORDED_BYTES && !roles.is_alone()).then(|| self.begin_record())
    }

    fn drop_piece(&mut self, commands: &mut Commands) {
        if let Some(piece) = self.pieces.take()
            && commands.has_contents()
        {
            commands.release(piece.buffer);
        }
    }
}

/// Records.
impl Resync {
    fn begin_record(&mut self) -> Step {
        self.unrecorded_bytes = 0;
        self.recording = true;
        self.flushed = [false; 2];
        Step::FlushBoth
    }

    /// Does what was reached wait for its record?
    pub(crate) fn is_recording(&self) -> bool {
        self.recording
    }

    /// A leg was flushed after a piece.
    pub(crate) fn is_flushed(&mut self, leg: usize) {
        self.flushed[leg] = true;
    }

    /// May what was reached go on record?
    pub(crate) fn is_ready(&self) -> bool {
        self.recording && self.flushed == [true; 2]
    }

    /// It is being written.
    pub(crate) fn record_begins(&mut self) {
        self.flushed = [false; 2];
    }

    /// It is durable. Do the legs take turns from now on? Then: did one of them lack everything?
    pub(crate) fn is_on_record(&mut self, roles: &Roles) -> Option<bool> {
        self.recording = false;
        (roles.has_laggard() && self.are_equal()).then(|| std::mem::take(&mut self.all))
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands::PairDrives;
    use super::super::config::PairConfig;
    use super::*;
    use crate::port::Command;
    use tandem_block::DeviceId;

    fn behind(parts: &[(u64, u64)]) -> Resync {
        let mut resync = Resync::new();
        let mut other = Stale::default();
        parts.iter().for_each(|&(from, to)| other.add(from, to));
        resync.resumes(0, [Stale::default(), other], false);
        resync
    }

    /// Who may be asked, by who is read, and what is asked for.
    #[test]
    fn a_leg_that_is_behind_is_read_elsewhere() {
        let mut roles = Roles::new(&PairConfig::default(), true);
        let resync = behind(&[(100, 200)]);
        for (reader, start, end, want) in
            [(0, 0, 1_000, Some(0)), (1, 0, 100, Some(1)), (1, 199, 300, Some(0))]
        {
            roles.resumes(reader, [true; 2]);
            let leg = resync.readable_leg(roles.reader(), (start, end), &roles);
            assert_eq!(leg, want, "{start}..{end}");
        }
        roles.is_absent(0);
        assert_eq!(resync.readable_leg(roles.reader(), (150, 160), &roles), None);
    }

    const BLOCK: u64 = BLOCK_BYTES;

    /// A pair that serves while its second leg is behind.
    fn pair() -> (Commands, Roles) {
        let drives = PairDrives {
            index: 0,
            legs: [DeviceId(0), DeviceId(1)],
            journal: DeviceId(2),
            has_records: false,
            contents: true,
        };
        let mut roles = Roles::new(&PairConfig::default(), true);
        roles.serves(Instant::ZERO);
        roles.set_laggard(true);
        (Commands::new(drives), roles)
    }

    /// What is sent until nothing is left to do: what is read from the lead and what is written.
    fn copied(resync: &mut Resync, bad: &[u64], steps: u64) -> Vec<(&'static str, u64, u64)> {
        let (mut commands, roles) = pair();
        let mut told = Vec::new();
        for second in 0..steps {
            commands.begins(Instant::from_ns(second * 1_000_000_000));
            resync.run(&roles, |_, _| false, &Cache::default(), &mut commands);
            let mut out = Vec::new();
            commands.take_out(&mut out);
            let Some(Command::Submit(io)) = out.pop() else { continue };
            let IoOp::Read { offset_bytes: from, length_bytes, .. } = io.op else { continue };
            out.clear();
            let to = from + length_bytes;
            told.push(("read", from / BLOCK, to / BLOCK));
            let is_bad = bad.iter().any(|block| from < (block + 1) * BLOCK && block * BLOCK < to);
            let status = if is_bad { Err(IoError::Device(DeviceId(0))) } else { Ok(()) };
            let unread = resync.read(status, &roles, &mut commands);
            commands.take_out(&mut out);
            let is_written = matches!(out.pop(), Some(Command::Submit(_)));
            assert!(!(is_written && unread.is_some()), "what was not read is not written");
            if is_written || unread == Some(Unread::Block) {
                told.push((if is_written { "write" } else { "left" }, from / BLOCK, to / BLOCK));
                let range = resync.take_piece(&mut commands).expect("it was written");
                resync.is_new_there(1, range, &roles, &mut Survivor::default());
                resync.written(range, &roles);
            }
            commands.take_out(&mut Vec::new());
        }
        told
    }

    /// Block 0 is metadata, and no checksum tells what is there: it is asked for last, and again.
    #[test]
    fn a_bad_block_keeps_nothing_else() {
        let mut resync = behind(&[(0, 4 * BLOCK), (6 * BLOCK, 8 * BLOCK)]);
        resync.engine_runs((BLOCK, 100 * BLOCK));
        let told = copied(&mut resync, &[0, 2], 12);
        let want = [
            ("read", 0, 4),
            ("read", 0, 1),
            ("read", 1, 2),
            ("write", 1, 2),
            ("read", 2, 3),
            ("left", 2, 3),
            ("read", 3, 4),
            ("write", 3, 4),
            ("read", 6, 8),
            ("write", 6, 8),
            ("read", 0, 1),
            ("read", 0, 1),
        ];
        assert_eq!(told[..12], want);
        assert_eq!((resync.unreadable_blocks(), resync.stale()[1].bytes()), (1, BLOCK));
        // it can be read after all
        assert_eq!(copied(&mut resync, &[], 20), [("read", 0, 1), ("write", 0, 1)]);
        assert!(resync.are_equal());
    }

    /// Seen: the source died under the piece that a record is due after. Its flush never came, and the pair
    /// never stopped.
    #[test]
    fn a_leg_that_lives_alone_waits_for_no_record_of_two() {
        for (is_dead, want) in [(false, Some(Step::FlushBoth)), (true, None)] {
            let (_, mut roles) = pair();
            let mut resync = behind(&[(0, 2 * RECORDED_BYTES)]);
            if is_dead {
                roles.leg_dies(0, IoError::Dead(DeviceId(0)), 0);
            }
            assert_eq!(resync.written((0, RECORDED_BYTES), &roles), want);
            assert_eq!(resync.is_idle(), is_dead);
        }
    }

    /// How a block ends while both legs live, and when one of them died meanwhile: is it written?
    #[test]
    fn a_death_ends_the_copy() {
        const BAD: Result<(), IoError> = Err(IoError::Device(DeviceId(0)));
        const SILENT: Result<(), IoError> = Err(IoError::NoAnswer(DeviceId(0)));
        const DEAD: Result<(), IoError> = Err(IoError::Dead(DeviceId(0)));
        let table = [
            (None, Ok(()), (true, None)),
            (None, BAD, (false, Some(Unread::Block))),
            (None, SILENT, (false, None)),
            (None, DEAD, (false, Some(Unread::Leg))),
            (Some(0), Ok(()), (true, None)),
            (Some(0), BAD, (false, None)),
            (Some(1), Ok(()), (false, None)),
            (Some(1), BAD, (false, None)),
        ];
        for (dead, status, want) in table {
            let (mut commands, mut roles) = pair();
            let mut resync = behind(&[(BLOCK, 2 * BLOCK)]);
            resync.engine_runs((0, 100 * BLOCK));
            resync.run(&roles, |_, _| false, &Cache::default(), &mut commands);
            if let Some(leg) = dead {
                roles.leg_dies(leg, IoError::Dead(DeviceId(leg as u8)), 0);
            }
            commands.take_out(&mut Vec::new());
            let failure = resync.read(status, &roles, &mut commands);
            let mut out = Vec::new();
            commands.take_out(&mut out);
            let is_written = out.iter().any(|sent| matches!(sent, Command::Submit(_)));
            assert_eq!((is_written, failure), want, "{dead:?} {status:?}");
        }
    }

    #[test]
    fn what_is_written_meanwhile_is_copied_no_more() {
        let mut resync = behind(&[(0, BLOCK)]);
        let told = copied(&mut resync, &[0], 2);
        assert_eq!(told, [("read", 0, 1), ("read", 0, 1)], "nobody knows yet where data is");
        let roles = Roles::new(&PairConfig::default(), true);
        resync.is_new_there(1, (0, BLOCK), &roles, &mut Survivor::default());
        assert!(resync.are_equal() && resync.unreadable_blocks() == 0);
    }

    /// What the engine took for the truth is what a survivor lacks, if a journal brought it the rest.
    #[test]
    fn the_lead_dies_while_the_other_one_is_behind() {
        let journal = Journal::new(&PairConfig::default(), DeviceId(2));
        for (has_journal, want) in [(true, vec![]), (false, vec![(100, 200)])] {
            let mut roles = Roles::new(&PairConfig::default(), true);
            roles.serves(Instant::ZERO);
            let mut resync = behind(&[(100, 200)]);
            resync.adopt((0, 150), true, &roles, &journal);
            assert!(!resync.holds_flushes(), "there is no journal");
            let death = roles.leg_dies(0, IoError::Dead(DeviceId(0)), 0).expect("it lived");
            resync.leg_died(death, has_journal);
            assert_eq!(resync.stale()[1].parts().collect::<Vec<_>>(), want);
        }
    }
}
