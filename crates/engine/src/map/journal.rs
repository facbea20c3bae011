//! Where in the ring does the next journal unit go, and how full is it?
//!
//! Units lie one behind the other and never wrap: one that does not fit before the end begins at
//! the start. Positions only rise; the place on the drive is the position modulo the ring.

use tandem_block::BLOCK_BYTES;

/// The ring of one metadata home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    bytes: u64,
    head: u64,
    tail: u64,
    next_sequence: u64,
}

/// Where a unit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    /// Offset within the ring.
    pub(crate) offset: u64,
    /// The unit's number.
    pub(crate) sequence: u64,
}

impl Journal {
    /// An empty ring of `bytes`, whose first unit has `sequence` and lies at `offset`.
    pub(crate) fn new(bytes: u64, offset: u64, sequence: u64) -> Self {
        assert!(offset < bytes.max(1));
        Journal { bytes, head: offset, tail: offset, next_sequence: sequence }
    }

    /// A ring whose live units, if there are any, begin at `tail_offset` and end at `head_offset`.
    pub(crate) fn recovered(
        bytes: u64,
        tail_offset: u64,
        head_offset: u64,
        next_sequence: u64,
        has_units: bool,
    ) -> Self {
        assert!(tail_offset < bytes && head_offset <= bytes, "both lie in the ring");
        // units that end where they begin fill the ring
        let is_ahead = head_offset > tail_offset || head_offset == tail_offset && !has_units;
        let head = if is_ahead { head_offset } else { head_offset + bytes };
        Journal { bytes, head, tail: tail_offset, next_sequence }
    }

    /// Number of the next unit.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Where the next unit would go, and its position, if it is as long as `length`; `None` if the
    /// ring is too full.
    fn fit(&self, length: u64) -> Option<u64> {
        assert!(self.head >= self.tail, "what is live ends behind its beginning");
        let offset = self.head % self.bytes;
        let start =
            if offset + length > self.bytes { self.head + self.bytes - offset } else { self.head };
        (start + length - self.tail <= self.bytes).then_some(start)
    }

    /// Is there room for units of these lengths, in this order?
    #[cfg(test)]
    pub(crate) fn has_room(&self, lengths: impl Iterator<Item = u64>) -> bool {
        let mut probe = *self;
        for length in lengths {
            match probe.fit(length) {
                Some(start) => probe.head = start + length,
                None => return false,
            }
        }
        true
    }

    /// Takes the place of the next unit.
    ///
    /// # Panics
    /// If there is no room: callers ask `has_room` first.
    pub(crate) fn place(&mut self, length: u64) -> UnitPlace {
        assert!(length > 0, "a unit has a header");
        assert!(length.is_multiple_of(BLOCK_BYTES), "a unit fills whole blocks");
        let start = self.fit(length).expect("callers ask has_room first");
        assert!(start >= self.head, "positions only rise");
        self.head = start + length;
        self.next_sequence += 1;
        assert!(self.used_bytes() <= self.bytes, "no unit lies over one that is needed");
        assert!(start % self.bytes + length <= self.bytes, "a unit does not go over the end");
        UnitPlace { offset: start % self.bytes, sequence: self.next_sequence - 1 }
    }

    /// Position of the next unit, and where it would begin: a checkpoint remembers both.
    pub(crate) fn mark(&self) -> (u64, u64) {
        (self.head, self.head % self.bytes)
    }

    /// Everything before this position is in a durable checkpoint.
    pub(crate) fn cut(&mut self, position: u64) {
        assert!(position >= self.tail && position <= self.head, "cuts only move forward");
        self.tail = position;
    }

    /// Bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.head - self.tail
    }

    /// Bytes that commits may use: a quarter of the ring is for headers, padding, and what is lost at its end.
    pub(crate) fn room_for_commits(&self) -> u64 {
        assert!(self.used_bytes() <= self.bytes, "the journal uses what its ring has");
        (self.bytes - self.used_bytes()).saturating_sub(self.bytes / 4)
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_was_found_is_empty_or_full_where_both_ends_meet() {
        for (tail, head, has_units, used) in [
            (8192, 8192, false, 0),
            (8192, 8192, true, 40_960),
            (8192, 12_288, true, 4096),
            (8192, 4096, true, 36_864),
            (0, 40_960, true, 40_960),
            (0, 0, true, 40_960),
        ] {
            let ring = Journal::recovered(40_960, tail, head, 9, has_units);
            assert_eq!(ring.used_bytes(), used, "{tail} to {head}, {has_units}");
            assert_eq!(ring.has_room([4096].into_iter()), used < 40_960);
        }
    }

    #[test]
    fn units_wrap_whole_and_never_overrun_the_tail() {
        let mut ring = Journal::new(10 * 4096, 0, 1);
        assert_eq!(ring.place(4 * 4096), UnitPlace { offset: 0, sequence: 1 });
        assert_eq!(ring.place(4 * 4096), UnitPlace { offset: 4 * 4096, sequence: 2 });
        let (mark, _) = ring.mark();
        // two blocks are left before the end, four are wanted: only after a cut
        assert!(!ring.has_room([4 * 4096].into_iter()));
        ring.cut(mark);
        assert!(ring.has_room([4 * 4096].into_iter()));
        assert_eq!(ring.place(4 * 4096), UnitPlace { offset: 0, sequence: 3 });
        assert!(ring.has_room([4 * 4096].into_iter()));
        assert!(!ring.has_room([4 * 4096, 4096].into_iter()));
    }
}
