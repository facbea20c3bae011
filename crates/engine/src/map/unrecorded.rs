//! Checksums of slots that no record names yet.
//!
//! What a record names has its checksum in the table of blocks (`checksums`). What was written since has it here,
//! until a batch takes it. Slots are written in runs, so sixteen that follow each other are kept together.

use super::FixedState;
use super::slots::Slot;
use hashbrown::HashMap;

/// Slots that are kept together.
const TOGETHER: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// Which of the slots have a checksum, a bit for each.
    known: u16,
    checksums: [u32; TOGETHER as usize],
}

/// The checksums.
#[derive(Clone, Debug, Default)]
pub(super) struct Unrecorded {
    chunks: HashMap<u64, Chunk, FixedState>,
}

#[inline]
fn split(slot: Slot) -> (u64, usize) {
    (slot / TOGETHER, (slot % TOGETHER) as usize)
}

impl Unrecorded {
    /// The checksum of a slot that no record names.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<u32> {
        if self.chunks.is_empty() {
            return None;
        }
        let (chunk, at) = split(slot);
        let chunk = self.chunks.get(&chunk)?;
        (chunk.known >> at & 1 == 1).then_some(chunk.checksums[at])
    }

    /// The slot was written.
    ///
    /// # Panics
    /// If it was before, and nobody has taken that.
    #[inline]
    pub(super) fn set(&mut self, slot: Slot, checksum: u32) {
        let (chunk, at) = split(slot);
        let chunk = self.chunks.entry(chunk).or_default();
        assert!(chunk.known >> at & 1 == 0, "slot {slot} is written once before a record names it");
        chunk.known |= 1 << at;
        chunk.checksums[at] = checksum;
    }

    /// A record names the slot, or nothing does any more.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        let (number, at) = split(slot);
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        chunk.known &= !(1 << at);
        if chunk.known == 0 {
            self.chunks.remove(&number);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_its_checksum_until_it_is_taken() {
        let mut sums = Unrecorded::default();
        for slot in [3, 15, 16, 1 << 39] {
            sums.set(slot, slot as u32 + 1);
        }
        assert_eq!(
            [3, 15, 16, 1 << 39, 4].map(|slot| sums.get(slot)),
            [Some(4), Some(16), Some(17), Some(1), None]
        );
        sums.remove(3);
        sums.remove(4);
        assert_eq!((sums.get(3), sums.get(15), sums.chunks.len()), (None, Some(16), 3));
        sums.remove(15);
        assert_eq!(sums.chunks.len(), 2, "what is empty takes no memory");
        sums.set(3, 9);
        assert_eq!(sums.get(3), Some(9));
    }

    #[test]
    #[should_panic(expected = "written once")]
    fn a_slot_is_not_written_twice() {
        let mut sums = Unrecorded::default();
        sums.set(3, 1);
        sums.set(3, 1);
    }
}
