//! Does the journal fill faster than the checkpoint under way is written?
//!
//! The journal is cut when a checkpoint ends. If it is full before that, every commit waits, and so does each FLUSH. So
//! writes are slowed down early: the share of its free room that is used may be ahead of the share of the checkpoint that
//! is written, but only a little.

use crate::map::journal::Journal;
use crate::map::marks::Marks;

/// Commands of a checkpoint in flight at once, and while writes of users wait for it (guess).
const IN_FLIGHT_MAX: u32 = 4;
const IN_FLIGHT_BEHIND_MAX: u32 = 16;
/// Pages of the table of objects in flight at once: composing one takes some 20 us.
pub(super) const TABLE_IN_FLIGHT_MAX: u32 = 1;
/// The journal may be ahead by this share of its ring. As much is left for commits behind the last page (guess).
const AHEAD_SHARE: u64 = 16;

/// How far a round of checkpoints is, and how much room it found in the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Groups that had changed when it began. Each has a page of checksums, and one with places.
    groups: u64,
    carried: u64,
    placed: u64,
    /// Position in the journal, and bytes behind it that writes may fill.
    from: u64,
    room_bytes: u64,
}

impl Pace {
    /// A round begins. `kept_bytes`: of the journal, for changes of objects.
    pub(super) fn of(dirty: &Marks, kept_bytes: u64, journal: &Journal) -> Pace {
        // commits that somebody waits for go on while the rest of the checkpoint is written
        let taken_bytes = kept_bytes + journal.ring_bytes() / AHEAD_SHARE;
        let room_bytes = journal.room_for_commits().saturating_sub(taken_bytes);
        Pace { groups: dirty.count(), carried: 0, placed: 0, from: journal.mark().0, room_bytes }
    }

    /// Checksums were carried into a page. `is_of_round`: of a group that had changed when the round began.
    pub(super) fn note_carried(&mut self, is_of_round: bool) {
        self.carried += u64::from(is_of_round);
    }

    /// Has no other page of the round checksums to carry?
    pub(super) fn note_carried_all(&mut self, has_all: bool) {
        if has_all {
            self.carried = self.groups;
        }
    }

    /// Places of so many groups in all are on their way to the drives.
    pub(super) fn note_placed(&mut self, groups: u64) {
        assert!(self.placed <= groups && groups <= self.groups, "a round writes a group once");
        self.placed = groups;
    }

    /// Commands in flight at once.
    pub(super) fn in_flight_max(&self, journal: &Journal) -> u32 {
        if self.is_outrun(journal) { IN_FLIGHT_BEHIND_MAX } else { IN_FLIGHT_MAX }
    }

    /// Shall the journal fill more slowly?
    #[inline]
    pub(super) fn is_outrun(&self, journal: &Journal) -> bool {
        let filled = journal.mark().0 - self.from;
        let (done, all) = (u128::from(self.carried + self.placed), u128::from(2 * self.groups));
        let in_step = (u128::from(self.room_bytes) * done).checked_div(all);
        let in_step = in_step.map_or(self.room_bytes, |bytes| bytes as u64);
        filled > (in_step + journal.ring_bytes() / AHEAD_SHARE).min(self.room_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u64 = 64 << 20;
    const MIB: u64 = 1 << 20;

    fn with_used(bytes: u64) -> Journal {
        let mut journal = Journal::new(RING, 0, 1);
        journal.place(bytes);
        journal
    }

    /// A round of 100 groups finds 32 MiB in use. So commits can use 16 MiB of the 64, of which 4 are left, and 2 are kept
    /// for objects. Writes may be 4 MiB ahead.
    #[test]
    fn the_journal_fills_no_faster_than_the_checkpoint_is_written() {
        let mut dirty = Marks::new(1000);
        (0..100).for_each(|group| dirty.mark(group * 10));
        for (carried, placed, filled_mib, is_outrun) in [
            (0, 0, 4, false),
            (0, 0, 5, true),
            (50, 0, 6, false),
            (50, 0, 7, true),
            (100, 0, 9, false),
            (100, 0, 10, true),
            (100, 50, 10, false),
            (100, 50, 11, true),
            (100, 100, 10, false),
            // the rest is for commits that somebody waits for
            (100, 100, 11, true),
        ] {
            let mut journal = with_used(32 * MIB);
            let mut pace = Pace::of(&dirty, 2 * MIB, &journal);
            (0..carried).for_each(|_| pace.note_carried(true));
            pace.note_carried(false);
            pace.note_placed(placed);
            journal.place(filled_mib * MIB);
            let case = format!("{carried} carried, {placed} placed, {filled_mib} MiB");
            assert_eq!(pace.is_outrun(&journal), is_outrun, "{case}");
        }
    }

    /// Groups without new checksums are none to wait for.
    #[test]
    fn a_round_without_checksums_is_half_done_when_it_looks_at_places() {
        let mut dirty = Marks::new(8);
        dirty.mark(3);
        let mut journal = with_used(32 * MIB);
        let mut pace = Pace::of(&dirty, 0, &journal);
        journal.place(10 * MIB);
        assert!(pace.is_outrun(&journal));
        pace.note_carried_all(false);
        assert!(pace.is_outrun(&journal));
        pace.note_carried_all(true);
        assert!(!pace.is_outrun(&journal));
        let nothing = Pace::of(&Marks::new(8), 0, &journal);
        assert!(!nothing.is_outrun(&journal), "one in which nothing changed");
    }
}
