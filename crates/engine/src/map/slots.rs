//! What lies in each 4 KiB slot of an SSD or of an HDD log?
//!
//! Source: design decision 7. A slot is one block of data space outside the homes. All slots of all
//! drives share one numbering, so that a place fits 32 bits (16 TiB of SSD and log per set).
//! Eight bytes a slot: the owner (a logical block) and the CRC-32C of the contents, in tables of their
//! own, since a search looks at owners alone. Both begin as zeroes, so that slots that were never used
//! take no memory.

use super::bits::Bits;
use tandem_block::{BLOCK_BYTES, DeviceId, Table};

/// Number of a slot, over all drives of the set.
pub type Slot = u64;
/// Number of a logical block, over all objects of the set.
pub type Logical = u64;
/// No slot, or no owner.
pub const NONE: u64 = u64::MAX;

/// Numbers of blocks and slots on the drives are below this one, which stands for `NONE` there.
pub(crate) const NUMBERS_END: u64 = u32::MAX as u64;

/// The number of a block or slot, or `NONE`, as it stands on a drive.
///
/// # Panics
/// If a set cannot have that many: the layout has looked.
pub(crate) fn number_to_disk(number: u64) -> u32 {
    if number == NONE {
        return u32::MAX;
    }
    assert!(number < NUMBERS_END, "blocks and slots are numbered as the format can");
    number as u32
}

/// The number of a block or slot, or `NONE`, from a drive.
pub(crate) fn number_from_disk(number: u32) -> u64 {
    if number == u32::MAX { NONE } else { u64::from(number) }
}

/// The slots of one drive: a contiguous part of the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRegion {
    /// Which drive.
    pub device: DeviceId,
    /// Is it an HDD log?
    pub(crate) is_log: bool,
    /// Number of its first slot.
    pub first: Slot,
    /// How many.
    pub count: u64,
    /// Where its first slot lies on the drive, in bytes.
    pub(crate) offset_bytes: u64,
}

impl SlotRegion {
    /// Does the slot lie in this region?
    pub(crate) const fn contains(&self, slot: Slot) -> bool {
        slot >= self.first && slot - self.first < self.count
    }

    /// Where the slot lies on its drive, in bytes.
    pub const fn address(&self, slot: Slot) -> u64 {
        assert!(self.contains(slot), "a slot has an address in its own region");
        self.offset_bytes + (slot - self.first) * BLOCK_BYTES
    }
}

/// Owners, checksums and the recorded state of every slot.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// The complement of each slot's owner: zero is `NONE`.
    owners: Table<u32>,
    checksums: Table<u32>,
    /// Named by the newest journal batch (or an older one) and not displaced by it.
    recorded: Bits,
    /// A current place of its owner. Slots that were left keep their owner, so that leaving one
    /// touches no more than a bit.
    current: Bits,
    regions: Vec<SlotRegion>,
    log_first: Slot,
}

impl Slots {
    /// Slots for these regions, which must be numbered without gaps, SSDs before logs.
    pub(crate) fn new(regions: Vec<SlotRegion>) -> Self {
        let mut next = 0u64;
        let mut log_seen = false;
        for region in &regions {
            assert_eq!(region.first, next, "slot regions must be numbered without gaps");
            assert!(!log_seen || region.is_log, "SSD regions come before log regions");
            log_seen |= region.is_log;
            next = next.checked_add(region.count).expect("checked by the layout");
        }
        assert!(next < NUMBERS_END, "at most 2^32 - 1 slots");
        let log_first = regions.iter().find(|r| r.is_log).map_or(next, |r| r.first);
        let total = next as usize;
        Slots {
            owners: Table::new(total),
            checksums: Table::new(total),
            recorded: Bits::new(total),
            current: Bits::new(total),
            regions,
            log_first,
        }
    }

    /// The slots of a drive lie from another byte of it on: another one has taken its place.
    pub(crate) fn bay_region(&mut self, device: DeviceId, offset_bytes: u64) -> SlotRegion {
        let mut regions = self.regions.iter_mut();
        let region = regions.find(|region| region.device == device).expect("it has slots");
        assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "slots lie on whole blocks");
        region.offset_bytes = offset_bytes;
        *region
    }

    /// How many slots there are in all.
    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Who owns the slot, or owned it last; `NONE` if nobody ever did.
    #[inline]
    pub fn owner(&self, slot: Slot) -> Logical {
        number_from_disk(!self.owners[slot as usize])
    }

    /// The CRC-32C (or token digest) of the slot's block, also when it has lost its owner: reads may
    /// still be under way.
    #[inline]
    pub fn checksum(&self, slot: Slot) -> u32 {
        self.checksums[slot as usize]
    }

    /// Asks memory for all that is known of a slot.
    #[inline]
    pub(crate) fn prefetch(&self, slot: Slot) {
        self.owners.prefetch(slot as usize);
        self.checksums.prefetch(slot as usize);
        self.recorded.prefetch(slot as usize);
        self.current.prefetch(slot as usize);
    }

    /// Gives the slot to a logical block.
    #[inline]
    pub(crate) fn assign(&mut self, slot: Slot, owner: Logical, checksum: u32) {
        debug_assert_ne!(owner, NONE);
        assert!(!self.is_recorded(slot), "slot {slot} keeps what a record names there");
        assert!(!self.is_place(slot), "slot {slot} is given to one block at a time");
        self.owners[slot as usize] = !number_to_disk(owner);
        self.checksums[slot as usize] = checksum;
        self.current.set(slot as usize, true);
    }

    /// The owner has left the slot: it is current no more.
    #[inline]
    pub(crate) fn leave(&mut self, slot: Slot) {
        assert!(self.is_place(slot), "slot {slot} is left once");
        self.current.set(slot as usize, false);
    }

    /// Is the slot a current place of this block?
    #[inline]
    pub fn is_current(&self, slot: Slot, block: Logical) -> bool {
        self.current.get(slot as usize) && self.owner(slot) == block
    }

    /// Is the slot a current place of any block?
    #[inline]
    pub(crate) fn is_place(&self, slot: Slot) -> bool {
        self.current.get(slot as usize)
    }

    /// Takes the slot from its owner.
    #[inline]
    pub(crate) fn disown(&mut self, slot: Slot) {
        assert!(!self.is_place(slot), "slot {slot} was left before it has no owner");
        self.owners[slot as usize] = !number_to_disk(NONE);
    }

    /// Is the slot named by a journal batch that was composed?
    #[inline]
    pub(crate) fn is_recorded(&self, slot: Slot) -> bool {
        self.recorded.get(slot as usize)
    }

    /// Notes that a composed batch names the slot.
    #[inline]
    pub(crate) fn set_recorded(&mut self, slot: Slot, value: bool) {
        self.recorded.set(slot as usize, value);
    }

    /// Does the slot belong to an HDD log?
    #[inline]
    pub(crate) fn is_log(&self, slot: Slot) -> bool {
        slot >= self.log_first
    }

    /// The region that holds the slot.
    pub fn region(&self, slot: Slot) -> &SlotRegion {
        self.regions.iter().find(|r| r.contains(slot)).expect("every slot lies in a region")
    }

    /// All regions.
    pub fn regions(&self) -> &[SlotRegion] {
        &self.regions
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.owners.memory_bytes()
            + self.checksums.memory_bytes()
            + self.recorded.memory_bytes()
            + self.current.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_a_drive() {
        for number in [0, 1, NUMBERS_END - 1, NONE] {
            assert_eq!(number_from_disk(number_to_disk(number)), number);
        }
        assert_eq!(number_to_disk(NONE), u32::MAX);
    }

    #[test]
    #[should_panic(expected = "numbered as the format can")]
    fn a_number_that_the_format_has_not_is_not_written() {
        number_to_disk(NUMBERS_END);
    }
}
