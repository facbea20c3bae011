//! Which SSD slots are free, and which come next?
//!
//! Next fit over a bitmap: the drive sees writes that move through its address space in order and
//! skip what lives. Old slots are therefore the ones just ahead of the cursor. Rebuilt at recovery.

use super::bits::Bits;
use super::slots::{Slot, SlotRegion};

/// Free space of one SSD.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    first: Slot,
    /// A set bit is a free slot.
    free: Bits,
    free_count: u64,
    cursor: usize,
}

/// A run of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First slot.
    pub(crate) slot: Slot,
    /// How many; at least 1.
    pub(crate) count: u64,
}

impl Allocator {
    /// Everything free.
    pub(crate) fn new(region: &SlotRegion) -> Self {
        let mut free = Bits::new(region.count as usize);
        free.set_run(0, region.count as usize, true);
        Allocator { first: region.first, free, free_count: region.count, cursor: 0 }
    }

    /// Is the slot of this SSD?
    #[inline]
    pub(crate) fn has(&self, slot: Slot) -> bool {
        slot >= self.first && slot - self.first < self.slot_count()
    }

    /// Free slots.
    pub(crate) fn free_count(&self) -> u64 {
        self.free_count
    }

    /// All slots.
    pub(crate) fn slot_count(&self) -> u64 {
        self.free.len() as u64
    }

    /// Takes up to `wanted` contiguous slots: the first free run from the cursor on, cut to size.
    /// `None` if nothing is free.
    pub(crate) fn allocate(&mut self, wanted: u64) -> Option<Run> {
        assert!(wanted > 0, "an allocation of nothing");
        if self.free_count == 0 {
            return None;
        }
        let length = self.free.len();
        let start = match self.free.next_set(self.cursor, length) {
            Some(start) => start,
            None => self.free.next_set(0, length).expect("the count says that some slot is free"),
        };
        let limit = (start + wanted as usize).min(length);
        let end = self.free.next_clear(start, limit).unwrap_or(limit);
        let count = end - start;
        assert!(count > 0 && count <= wanted as usize, "a run of free slots, cut to size");
        if count == 1 {
            self.free.set(start, false);
        } else {
            self.free.set_run(start, count, false);
        }
        assert!(count as u64 <= self.free_count, "what is free is counted");
        self.free_count -= count as u64;
        self.cursor = if end == length { 0 } else { end };
        Some(Run { slot: self.first + start as Slot, count: count as u64 })
    }

    /// Takes exactly this slot, at recovery.
    pub(crate) fn take(&mut self, slot: Slot) {
        let index = (slot - self.first) as usize;
        assert!(slot >= self.first && index < self.free.len(), "slot {slot} is of another drive");
        assert!(self.free.get(index), "slot {slot} has two owners");
        self.free.set(index, false);
        assert!(self.free_count > 0, "what is free is counted");
        self.free_count -= 1;
    }

    /// Gives slots back.
    pub(crate) fn release(&mut self, run: Run) {
        assert!(run.slot >= self.first, "slot {} is of another drive", run.slot);
        let index = (run.slot - self.first) as usize;
        assert!(index + run.count as usize <= self.free.len(), "a run lies on one drive");
        for offset in 0..run.count as usize {
            assert!(!self.free.get(index + offset), "slot {} freed twice", run.slot);
        }
        self.free.set_run(index, run.count as usize, true);
        self.free_count += run.count;
        assert!(self.free_count <= self.slot_count(), "no more is free than there is");
    }

    /// Free slots, counted one by one.
    pub(crate) fn free_found(&self) -> u64 {
        self.free.count() as u64
    }

    /// Is the slot free?
    pub(crate) fn is_free(&self, slot: Slot) -> bool {
        self.free.get((slot - self.first) as usize)
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.free.memory_bytes()
    }
}
