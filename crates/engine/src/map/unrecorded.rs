//! Checksums of slots that no record names yet.
//!
//! What a record names has its checksum in the table of blocks (`checksums`). What was written since has it here,
//! until a batch takes it. Slots are written in runs, so those that follow each other are kept together.

use super::FixedState;
use super::slots::Slot;
use hashbrown::HashMap;

/// Slots that are kept together.
const TOGETHER: u64 = 64;
/// No chunk.
const NO_CHUNK: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Chunk {
    /// Which of the slots have a checksum, a bit for each.
    known: u64,
    checksums: [u32; TOGETHER as usize],
}

/// The checksums.
#[derive(Clone, Debug)]
pub(super) struct Unrecorded {
    /// Where each chunk stands.
    places: HashMap<u64, u32, FixedState>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    /// The chunk that was asked for last: slots come in runs.
    last: (u64, u32),
}

impl Default for Unrecorded {
    /// None.
    fn default() -> Self {
        let (places, last) = (HashMap::default(), (NO_CHUNK, 0));
        Unrecorded { places, chunks: Vec::new(), free: Vec::new(), last }
    }
}

#[inline]
fn split(slot: Slot) -> (u64, usize) {
    (slot / TOGETHER, (slot % TOGETHER) as usize)
}

impl Unrecorded {
    #[inline]
    fn place(&self, chunk: u64) -> Option<usize> {
        if self.last.0 == chunk {
            return Some(self.last.1 as usize);
        }
        self.places.get(&chunk).map(|place| *place as usize)
    }

    /// The checksum of a slot that no record names.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let (chunk, at) = split(slot);
        let chunk = &self.chunks[self.place(chunk)?];
        (chunk.known >> at & 1 == 1).then_some(chunk.checksums[at])
    }

    /// The slot was written.
    ///
    /// # Panics
    /// If it was before, and nobody has taken that.
    #[inline]
    pub(super) fn set(&mut self, slot: Slot, checksum: u32) {
        let (number, at) = split(slot);
        let place = self.place(number).unwrap_or_else(|| self.new_chunk(number));
        self.last = (number, place as u32);
        let chunk = &mut self.chunks[place];
        assert!(chunk.known >> at & 1 == 0, "slot {slot} is written once before a record names it");
        chunk.known |= 1 << at;
        chunk.checksums[at] = checksum;
    }

    fn new_chunk(&mut self, number: u64) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk { known: 0, checksums: [0; TOGETHER as usize] });
            self.chunks.len() as u32 - 1
        });
        self.places.insert(number, place);
        place as usize
    }

    /// A record names the slot, or nothing does any more.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) {
        let (number, at) = split(slot);
        let Some(place) = self.place(number) else { return };
        let chunk = &mut self.chunks[place];
        chunk.known &= !(1 << at);
        self.last = (number, place as u32);
        if chunk.known == 0 {
            self.places.remove(&number);
            self.free.push(place as u32);
            self.last = (NO_CHUNK, 0);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.places.allocation_size() + self.chunks.capacity() * size_of::<Chunk>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_its_checksum_until_it_is_taken() {
        let mut sums = Unrecorded::default();
        for slot in [3, 63, 64, 1 << 39] {
            sums.set(slot, slot as u32 + 1);
        }
        let found = [3, 63, 64, 1 << 39, 4].map(|slot| sums.get(slot));
        assert_eq!(found, [Some(4), Some(64), Some(65), Some(1), None]);
        sums.remove(3);
        sums.remove(4);
        assert_eq!((sums.get(3), sums.get(63), sums.places.len()), (None, Some(64), 3));
        sums.remove(63);
        assert_eq!((sums.places.len(), sums.free.len()), (2, 1), "what is empty is used again");
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
