//! When is a slot free again?
//!
//! Source: design decision 6. The map says which slots nothing names any more. They come back here when no
//! command names them either.

use super::{Map, Run, Slot};

impl Map {
    /// Takes the slots that nothing names any more. Each must come back with `release` once no I/O
    /// uses it.
    pub fn take_freed(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.freed)
    }

    /// Are there slots to take?
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Makes an SSD slot allocatable again; a log slot only loses its owner (its segment is
    /// recycled as a whole).
    pub fn release(&mut self, slot: Slot) {
        assert!(!self.slots.is_recorded(slot), "slot {slot} is still recorded");
        assert!(!self.slots.is_place(slot), "slot {slot} was left before it is released");
        debug_assert!(!self.durable.contains(&slot), "a slot that is released waits for no record");
        if !self.masks.is_empty() {
            self.masks.remove(&slot);
        }
        if self.slots.is_log(slot) {
            self.slots.disown(slot);
        } else {
            self.release_unused(Run { slot, count: 1 });
        }
    }

    /// Gives back slots that were allocated and never assigned.
    pub fn release_unused(&mut self, run: Run) {
        let first = run.slot;
        assert!(run.count > 0, "slots are given back");
        assert!(!self.slots.is_recorded(first), "no record names slot {first}");
        assert!(!self.slots.is_place(first), "no block lies in slot {first}");
        let mut base = 0;
        for (allocator, closed) in self.allocators.iter_mut().zip(&self.closed) {
            if first < base + allocator.slot_count() {
                if !closed {
                    self.ssd_free += u64::from(run.count);
                    assert!(self.ssd_free <= self.ssd_slots, "no more is free than there is");
                }
                return allocator.release(run);
            }
            base += allocator.slot_count();
        }
        unreachable!("SSD slots come first in the numbering");
    }
}
