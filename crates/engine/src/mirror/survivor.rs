//! What does a leg lack that serves alone, and what does its record say of that?
//!
//! Source: requirements I14, B9. Where the other one died while this one was still behind, some of the
//! latest data are on the dead one alone. A later start must know of it: alone this leg would show old
//! data, and beside a dead one that came back it would write old data over the new. So the record of
//! who serves alone lists what it lacks. What is written there afterwards leaves the list:
//!
//! ```text
//! written ─▶ the survivor is flushed ─▶ its record says so ─▶ FLUSH and FUA are answered
//! ```
//! Earlier, and old data could be shown after a crash; later, and what is brought from the one that
//! came back would lie over what was promised.

use super::flush::Then;
use super::record::Why;
use super::stale::Stale;
use super::{Ended, Mirror};
use crate::format::pair::EXTENTS_MAX;
use crate::mutant::Mutant;
use crate::port::{Command, IoId};
use std::collections::BTreeSet;
use tandem_block::IoError;

/// An answer that promises something which the record does not say yet.
#[derive(Clone, Debug)]
struct Held {
    ended: Ended,
    /// What a write with FUA wrote; a FLUSH has made durable what it promises.
    extent: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Survivor {
    /// What the record on it says that it lacks; the first one is about to.
    missing: Stale,
    /// Of that: what the cache holds, or its own buffer, since the other one died.
    in_ram: Stale,
    /// All of that was written and flushed.
    is_covered: bool,
    /// Of what it lacked: written to since.
    written: Stale,
    /// … and a flush is under way
    settling: Stale,
    /// … and durable: the next record says so.
    durable: Stale,
    held: Vec<Held>,
    recording: Option<Recording>,
}

/// What becomes true with the record that is being written.
#[derive(Clone, Debug, Default)]
struct Recording {
    durable: Stale,
    answers: Vec<Ended>,
}

impl Survivor {
    /// Would a power cut now lose what only the dead leg has, although it need not?
    pub fn is_exposed(&self) -> bool {
        !self.in_ram.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.recording.is_none()
    }

    /// A flush of it begins.
    fn flush_begins(&mut self) {
        self.settling.add_all(&std::mem::take(&mut self.written));
    }

    /// It ended well.
    fn flush_ends(&mut self, covers: bool) {
        self.durable.add_all(&std::mem::take(&mut self.settling));
        self.is_covered |= covers;
    }

    /// Does a FLUSH that has made durable everything promise more than the record says?
    fn owes(&self) -> bool {
        self.is_exposed() || !self.durable.is_empty() || self.recording.is_some()
    }

    fn is_durable(&self, held: &Held) -> bool {
        held.extent.is_none_or(|(start, end)| {
            !self.written.touches(start, end) && !self.settling.touches(start, end)
        })
    }

    /// Takes the answers out that promise nothing which is not durable.
    fn take_durable(&mut self) -> Vec<Ended> {
        let held = std::mem::take(&mut self.held);
        let (durable, rest) = held.into_iter().partition(|held| self.is_durable(held));
        self.held = rest;
        let durable: Vec<Held> = durable;
        durable.into_iter().map(|held| held.ended).collect()
    }

    /// What the next record says that it lacks.
    fn next_missing(&self) -> Stale {
        let mut missing = self.missing.clone();
        if let Some(recording) = &self.recording {
            missing.remove_all(&recording.durable);
        }
        missing
    }
}

/// Extents for a record, and the regions of those that do not fit: what is only known by region is
/// never copied, so a start that would need it is refused.
fn listed(
    missing: &Stale,
    regions: impl Fn(u64, u64) -> std::ops::RangeInclusive<u32>,
) -> (BTreeSet<u32>, Vec<(u64, u64)>) {
    let extents = missing.parts().take(EXTENTS_MAX).map(|(from, to)| (from, to - from)).collect();
    let rest = missing.parts().skip(EXTENTS_MAX).flat_map(|(from, to)| regions(from, to));
    (rest.collect(), extents)
}

impl Mirror {
    /// The other leg is written off: what does this one lack? Asked while the cache still knows what
    /// each of them had.
    pub(super) fn begin_alone(&mut self, survivor: usize, led: bool) {
        self.survivor = Survivor::default();
        if !self.durable {
            return;
        }
        // a journal has what is in RAM
        let mut in_ram = match (self.journal.is_on(), led) {
            (true, _) => Stale::default(),
            (false, true) => self.leads_alone(survivor),
            (false, false) => self.records.behind.clone(),
        };
        in_ram.remove_all(&self.stale[survivor]);
        self.survivor.missing = self.stale[survivor].clone();
        self.survivor.missing.add_all(&in_ram);
        self.survivor.in_ram = in_ram;
    }

    /// Where may the leg that leads have made durable what the other one has not? By region, since it is
    /// known only for so long as the cache takes to be written.
    fn leads_alone(&self, other: usize) -> Stale {
        use super::cache::Progress;
        let lacking = self.cache.iter().map(|(_, entry)| entry);
        let lacking =
            lacking.filter(|entry| !entry.is_trim && entry.progress[other] != Progress::Done);
        let mut regions = self.records.marks.clone();
        for entry in lacking {
            regions.extend(self.records.regions(entry.offset, entry.end()));
        }
        let mut alone = Stale::default();
        for region in regions {
            let (start, end) = self.records.region(region);
            alone.add(start, end.min(self.capacity_bytes));
        }
        // there the other one is right, and the lead was about to be told
        alone.remove_all(&self.records.behind);
        alone
    }

    /// Both are dead: nothing is promised any more.
    pub(super) fn end_alone(&mut self) {
        let Survivor { held, recording, .. } = std::mem::take(&mut self.survivor);
        let answers = recording.map(|recording| recording.answers).unwrap_or_default();
        let after = std::mem::take(&mut self.records.after);
        let held = held.into_iter().map(|held| held.ended);
        let leg = self.legs[self.lead];
        for Ended { io, .. } in held.chain(answers).chain(after) {
            self.end(io, Err(IoError::Dead(leg)), Vec::new());
        }
    }

    /// The survivor lacks nothing of this any more, once it is flushed.
    pub(super) fn survivor_has(&mut self, start: u64, end: u64) {
        for (from, to) in self.survivor.missing.within(start, end) {
            self.survivor.written.add(from, to);
        }
    }

    pub(super) fn survivor_flush_begins(&mut self, leg: usize) {
        if self.is_alone() && leg == self.lead {
            self.survivor.flush_begins();
        }
    }

    pub(super) fn survivor_flushed(&mut self, leg: usize, then: Option<Then>) {
        if self.is_alone() && leg == self.lead {
            self.survivor.flush_ends(then == Some(Then::Covered));
        }
    }

    /// Answers what promises that something is durable: a write with FUA of this extent, or a FLUSH
    /// that has made durable everything before it.
    pub(super) fn promise(&mut self, io: IoId, extent: Option<(u64, u64)>, checksums: Vec<u32>) {
        let owes = match extent {
            Some((start, end)) => self.survivor.missing.touches(start, end),
            None => self.survivor.owes(),
        };
        if owes && self.is_alone() && !self.breaks(Mutant::PairPromiseBeforeRecord) {
            let ended = Ended { io, status: Ok(()), checksums, bytes: Vec::new() };
            self.survivor.held.push(Held { ended, extent });
        } else {
            self.answer(io, Ok(()), checksums);
        }
    }

    /// Tells the survivor's record what it lacks no longer, and lets answers go.
    pub(super) fn run_survivor(&mut self, out: &mut Vec<Command>) {
        let alone = self.is_alone() && self.alive[self.lead];
        if !alone || self.records.blocks_all() || self.records.is_writing() {
            return;
        }
        let survivor = &mut self.survivor;
        if survivor.is_exposed() && !survivor.is_covered {
            return;
        }
        if survivor.is_exposed() || !survivor.durable.is_empty() {
            let mut durable = std::mem::take(&mut survivor.durable);
            durable.add_all(&survivor.in_ram);
            let answers = survivor.take_durable();
            survivor.recording = Some(Recording { durable, answers });
            self.write_record(Why::Alone, out);
            return;
        }
        for ended in survivor.take_durable() {
            self.answer(ended.io, ended.status, ended.checksums);
        }
        if !self.survivor.held.is_empty() && self.flushes.is_unflushed(self.lead) {
            self.flush_leg(self.lead, Then::Narrowed);
        }
    }

    /// A record of who serves alone is durable.
    pub(super) fn survivor_is_on_record(&mut self) {
        let Some(Recording { durable, answers }) = self.survivor.recording.take() else { return };
        self.survivor.missing.remove_all(&durable);
        self.survivor.in_ram = Stale::default();
        for Ended { io, status, checksums, .. } in answers {
            self.answer(io, status, checksums);
        }
    }

    /// What a record of who serves alone says of what it lacks: regions and extents. At the end of its
    /// life all is flushed that was written.
    pub(super) fn alone_lacks(&self, why: Why) -> (BTreeSet<u32>, Vec<(u64, u64)>) {
        if self.breaks(Mutant::PairAloneIsWhole) {
            return Default::default();
        }
        let missing = match why {
            Why::Stop => self.stale[self.lead].clone(),
            _ => self.survivor.next_missing(),
        };
        listed(&missing, |from, to| self.records.regions(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(parts: &[(u64, u64)]) -> Stale {
        let mut stale = Stale::default();
        parts.iter().for_each(|&(from, to)| stale.add(from, to));
        stale
    }

    fn held(extent: Option<(u64, u64)>) -> Held {
        let ended = Ended { io: IoId(1), status: Ok(()), checksums: vec![], bytes: vec![] };
        Held { ended, extent }
    }

    /// Only what a flush began after counts as durable by it.
    #[test]
    fn what_is_written_while_a_flush_is_under_way_waits_for_the_next() {
        let mut survivor = Survivor { written: stale(&[(0, 10)]), ..Survivor::default() };
        survivor.flush_begins();
        survivor.written.add(20, 30);
        survivor.held.extend([held(Some((0, 10))), held(Some((20, 30))), held(None)]);
        survivor.flush_ends(false);
        assert_eq!(survivor.durable, stale(&[(0, 10)]));
        assert_eq!(survivor.take_durable().len(), 2, "the second one is not durable");
        survivor.flush_begins();
        assert!(survivor.take_durable().is_empty());
        survivor.flush_ends(false);
        assert_eq!(survivor.take_durable().len(), 1);
    }

    #[test]
    fn what_does_not_fit_a_record_is_told_by_region() {
        let regions = |from: u64, to: u64| (from / 1_000) as u32..=((to - 1) / 1_000) as u32;
        let parts: Vec<(u64, u64)> = (0..EXTENTS_MAX as u64).map(|i| (i * 2, i * 2 + 1)).collect();
        let mut missing = stale(&parts);
        assert_eq!(listed(&missing, regions).0, BTreeSet::new());
        let end = EXTENTS_MAX as u64 * 2;
        missing.add(end + 5_000, end + 5_001);
        let (marks, extents) = listed(&missing, regions);
        assert_eq!(extents.len(), EXTENTS_MAX);
        assert_eq!(marks, BTreeSet::from([((end + 5_000) / 1_000) as u32]));
    }
}
