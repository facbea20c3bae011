//! Slots of a leaf, one behind the other, in four bytes each or in five.
//!
//! A slot is a drive and a number there. In most pools both have room in 32 bits, as many for each as the pool needs.

use super::slots::{DRIVES_MAX, SLOT_BITS, Slot, SlotRegion, first_slot};
use tandem_block::DeviceId;

/// How slots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    /// Bits of a number on a drive.
    number_bits: u32,
    /// Bytes of a slot.
    width: usize,
}

/// Bits of a number below this one.
const fn bits_below(end: u64) -> u32 {
    u64::BITS - end.saturating_sub(1).leading_zeros()
}

impl Packing {
    /// For slots of these drives.
    pub(super) fn of(regions: &[SlotRegion]) -> Self {
        let slots = regions.iter().map(|region| region.count).max().unwrap_or(0);
        let drives = regions.iter().map(|region| u64::from(region.device.0) + 1).max().unwrap_or(0);
        let number_bits = bits_below(slots);
        assert!(number_bits <= SLOT_BITS && drives <= DRIVES_MAX, "a slot has a number");
        let width = if number_bits + bits_below(drives) <= 32 { 4 } else { 5 };
        Packing { number_bits, width }
    }

    #[inline]
    fn pack(self, slot: Slot) -> u64 {
        let (drive, number) = (slot >> SLOT_BITS, slot & ((1 << SLOT_BITS) - 1));
        let packed = drive << self.number_bits | number;
        assert!(
            number >> self.number_bits == 0 && packed >> (8 * self.width) == 0,
            "slot {slot} is of a drive of this map"
        );
        packed
    }

    #[inline]
    fn unpack(self, packed: u64) -> Slot {
        let number = packed & ((1 << self.number_bits) - 1);
        first_slot(DeviceId((packed >> self.number_bits) as u8)) + number
    }
}

/// Bytes that the allocator takes for itself, and of which what it gives is a multiple.
const ALLOCATOR_BYTES: usize = 8;
const ALLOCATED_BYTES: usize = 16;

/// Bytes that the allocator takes for so many.
pub(super) const fn allocated(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        bytes => (bytes + ALLOCATOR_BYTES).next_multiple_of(ALLOCATED_BYTES),
    }
}

/// Room for so many bytes and a few more: what the allocator gives anyway.
const fn room(bytes: usize) -> usize {
    allocated(bytes) - ALLOCATOR_BYTES
}

/// The slots.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotList {
    bytes: Vec<u8>,
}

impl SlotList {
    #[inline]
    pub(super) fn get(&self, at: usize, packing: Packing) -> Slot {
        let mut packed = [0; 8];
        let from = at * packing.width;
        // two lengths that are known make two loads each
        if packing.width == 4 {
            packed[..4].copy_from_slice(&self.bytes[from..from + 4]);
        } else {
            packed[..5].copy_from_slice(&self.bytes[from..from + 5]);
        }
        packing.unpack(u64::from_le_bytes(packed))
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, slot: Slot, packing: Packing) {
        let packed = packing.pack(slot).to_le_bytes();
        let from = at * packing.width;
        if packing.width == 4 {
            self.bytes[from..from + 4].copy_from_slice(&packed[..4]);
        } else {
            self.bytes[from..from + 5].copy_from_slice(&packed[..5]);
        }
    }

    /// Makes room for more slots, from this one on. Room grows by an eighth: memory goes with what is used.
    pub(super) fn insert(&mut self, at: usize, more: usize, packing: Packing) {
        let (at, more, used) = (at * packing.width, more * packing.width, self.bytes.len());
        assert!(at <= used, "a slot stands behind others, or before");
        if used + more > self.bytes.capacity() {
            self.bytes.reserve_exact(room(used + more + used / 8) - used);
        }
        self.bytes.resize(used + more, 0);
        self.bytes.copy_within(at..used, at + more);
    }

    /// Takes slots out. Room is given back when much has left.
    pub(super) fn remove(&mut self, at: usize, count: usize, packing: Packing) {
        self.bytes.drain(at * packing.width..(at + count) * packing.width);
        let used = self.bytes.len();
        if used == 0 {
            self.bytes = Vec::new();
        } else if room(used + used / 2) < self.bytes.capacity() {
            self.bytes.shrink_to(room(used + used / 8));
        }
    }

    /// Asks memory for a slot.
    #[inline]
    pub(super) fn prefetch(&self, at: usize, packing: Packing) {
        tandem_block::prefetch(&self.bytes, at * packing.width);
    }

    /// Bytes of memory held, with the allocator's own.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        allocated(self.bytes.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::DRIVE_SLOTS_MAX;
    use super::*;
    use tandem_block::{BLOCK_BYTES, Rng, TIB};

    fn regions(drives: &[(u8, u64)]) -> Vec<SlotRegion> {
        let region = |&(drive, count)| SlotRegion::new(DeviceId(drive), false, count, 0);
        drives.iter().map(region).collect()
    }

    #[test]
    fn a_slot_takes_four_bytes_where_its_pool_has_room_in_them() {
        let tib = TIB / BLOCK_BYTES;
        // (drive and slots, bytes)
        for (drives, width) in [
            (&[(0, 1)][..], 4),
            (&[(0, tib), (15, tib)], 4),
            (&[(0, tib), (16, 10)], 5),
            (&[(0, tib + 1), (15, 10)], 5),
            (&[(0, 4 * tib), (39, tib / 100)], 5),
            (&[(0, DRIVE_SLOTS_MAX), (63, DRIVE_SLOTS_MAX)], 5),
            (&[], 4),
        ] {
            let packing = Packing::of(&regions(drives));
            assert_eq!(packing.width, width, "{drives:?}");
            for &(drive, count) in drives {
                for slot in [first_slot(DeviceId(drive)), first_slot(DeviceId(drive)) + count - 1] {
                    assert_eq!(packing.unpack(packing.pack(slot)), slot, "{drives:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "of a drive of this map")]
    fn a_slot_of_no_drive_is_not_kept() {
        let packing = Packing::of(&regions(&[(0, 10), (1, 10)]));
        SlotList { bytes: vec![0; 8] }.set(1, 16, packing);
    }

    /// Against a plain list.
    #[test]
    fn a_list_is_what_a_plain_one_is() {
        for packing in [&[(0, 1000), (7, 900)][..], &[(0, 1000), (60, 1 << 30)]] {
            let packing = Packing::of(&regions(packing));
            let (mut list, mut plain, mut rng) = (SlotList::default(), Vec::new(), Rng::new(8));
            for round in 0..3000u64 {
                let grows = rng.chance_ppm(if round < 1500 { 700_000 } else { 300_000 });
                let at = rng.below(plain.len() as u64 + 1) as usize;
                let more = rng.between(1, 2) as usize;
                if grows {
                    list.insert(at, more, packing);
                    for i in 0..more {
                        let slot = first_slot(DeviceId(rng.below(2) as u8 * 7)) + rng.below(900);
                        list.set(at + i, slot, packing);
                        plain.insert(at + i, slot);
                    }
                } else if at + more <= plain.len() {
                    list.remove(at, more, packing);
                    plain.drain(at..at + more);
                }
                let most = allocated(plain.len() * packing.width * 3 / 2) + 2 * ALLOCATED_BYTES;
                assert!(list.memory_bytes() <= most, "{} slots", plain.len());
            }
            let all: Vec<Slot> = (0..plain.len()).map(|at| list.get(at, packing)).collect();
            assert_eq!(all, plain);
        }
    }
}
