//! What the map holds, counted: for audits, and for those who ask how much.

use super::logical::{FRAGMENTS, LOG, SSD};
use super::{Allocator, Hinted, Logical, Map, Population, Slot};

impl Map {
    /// Bytes of memory held, by part.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + self.index.memory_bytes()
            + self.logical.memory_bytes()
            + self.allocators.iter().map(Allocator::memory_bytes).sum::<usize>()
    }

    /// Places kept only because the newer ones are not recorded yet.
    pub(crate) fn displaced_count(&self) -> usize {
        self.displaced.len()
    }

    /// Blocks and the recorded places that they have left.
    pub(crate) fn displaced_slots(&self) -> impl Iterator<Item = (Logical, Slot)> + '_ {
        self.displaced.iter()
    }

    /// Slots that nothing names and that nobody has taken yet.
    pub(crate) fn freed_slots(&self) -> &[Slot] {
        &self.freed
    }

    /// Slots that a record names.
    pub(crate) fn recorded_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.slots.len() as Slot).filter(|slot| self.slots.is_recorded(*slot))
    }

    fn blocks(&self) -> impl Iterator<Item = (Logical, u8)> + '_ {
        (0..self.logical.block_count() as Logical).map(|block| (block, self.logical.get(block)))
    }

    /// How many slots the blocks name.
    pub(crate) fn named_slots(&self) -> u64 {
        let of = |(block, bits): (Logical, u8)| {
            let places = u64::from(bits & SSD != 0) + u64::from(bits & LOG != 0);
            let fragments =
                if bits & FRAGMENTS != 0 { self.fragments(block).len() as u64 } else { 0 };
            places + fragments
        };
        self.blocks().map(of).sum()
    }

    /// Blocks by place, counted one by one.
    pub(crate) fn population_found(&self) -> Population {
        let mut found = Population::default();
        self.blocks().for_each(|(_, bits)| found.count(bits, true));
        found
    }

    /// Blocks that wait for no hard drive before they are recorded: as counted, and one by one.
    pub(crate) fn pending_counts(&self) -> (u64, u64) {
        let count =
            |queue: &[Hinted]| -> u64 { queue.iter().map(|hinted| hinted.touch.count).sum() };
        (self.pending_blocks, count(&self.pending.ready) + count(&self.pending.ssd))
    }
}
