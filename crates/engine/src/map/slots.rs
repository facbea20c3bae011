//! What lies in each 4 KiB slot of an SSD or of an HDD log?
//!
//! Source: design decision 7. A slot is one block of data space outside the homes. All slots of all
//! drives share one numbering, so that a place fits 32 bits (16 TiB of SSD and log per set).
//! Eight bytes a slot: the owner (a logical block) and the CRC-32C of the contents.

use super::bits::Bits;
use tandem_block::DeviceId;

/// Number of a slot, over all drives of the set.
pub type Slot = u32;
/// Number of a logical block, over all objects of the set.
pub type Logical = u32;
/// No slot, or no owner.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Content {
    owner: Logical,
    checksum: u32,
}

/// The slots of one drive: a contiguous part of the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRegion {
    /// Which drive.
    pub device: DeviceId,
    /// Is it an HDD log?
    pub is_log: bool,
    /// Number of its first slot.
    pub first: Slot,
    /// How many.
    pub count: u32,
    /// Where its first slot lies on the drive, in bytes.
    pub offset_bytes: u64,
}

impl SlotRegion {
    /// Does the slot lie in this region?
    pub const fn contains(&self, slot: Slot) -> bool {
        slot >= self.first && slot - self.first < self.count
    }

    /// Where the slot lies on its drive, in bytes.
    pub const fn address(&self, slot: Slot) -> u64 {
        self.offset_bytes + (slot - self.first) as u64 * tandem_block::BLOCK_BYTES
    }
}

/// Owners, checksums and the recorded state of every slot.
#[derive(Clone, Debug)]
pub struct Slots {
    contents: Vec<Content>,
    /// Named by the newest journal batch (or an older one) and not displaced by it.
    recorded: Bits,
    regions: Vec<SlotRegion>,
    log_first: Slot,
}

impl Slots {
    /// Slots for these regions, which must be numbered without gaps, SSDs before logs.
    pub fn new(regions: Vec<SlotRegion>) -> Self {
        let mut next = 0u32;
        let mut log_seen = false;
        for region in &regions {
            assert_eq!(region.first, next, "slot regions must be numbered without gaps");
            assert!(!log_seen || region.is_log, "SSD regions come before log regions");
            log_seen |= region.is_log;
            next = next.checked_add(region.count).expect("checked by the layout");
        }
        assert!(next < NONE, "at most 2^32 - 1 slots");
        let log_first = regions.iter().find(|r| r.is_log).map_or(next, |r| r.first);
        let total = next as usize;
        Slots {
            contents: vec![Content { owner: NONE, checksum: 0 }; total],
            recorded: Bits::new(total),
            regions,
            log_first,
        }
    }

    /// How many slots there are in all.
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    /// Who owns the slot, or `NONE`.
    #[inline]
    pub fn owner(&self, slot: Slot) -> Logical {
        self.contents[slot as usize].owner
    }

    /// The CRC-32C (or token digest) of the slot's block.
    #[inline]
    pub fn checksum(&self, slot: Slot) -> u32 {
        self.contents[slot as usize].checksum
    }

    /// Gives the slot to a logical block.
    #[inline]
    pub fn assign(&mut self, slot: Slot, owner: Logical, checksum: u32) {
        debug_assert_ne!(owner, NONE);
        self.contents[slot as usize] = Content { owner, checksum };
    }

    /// Takes the slot from its owner.
    #[inline]
    pub fn clear(&mut self, slot: Slot) {
        self.contents[slot as usize] = Content { owner: NONE, checksum: 0 };
        self.recorded.set(slot as usize, false);
    }

    /// Is the slot named by a journal batch that was composed?
    #[inline]
    pub fn is_recorded(&self, slot: Slot) -> bool {
        self.recorded.get(slot as usize)
    }

    /// Notes that a composed batch names the slot.
    #[inline]
    pub fn set_recorded(&mut self, slot: Slot, value: bool) {
        self.recorded.set(slot as usize, value);
    }

    /// Does the slot belong to an HDD log?
    #[inline]
    pub fn is_log(&self, slot: Slot) -> bool {
        slot >= self.log_first
    }

    /// Number of the first log slot.
    pub fn first_log(&self) -> Slot {
        self.log_first
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
    pub fn memory_bytes(&self) -> usize {
        self.contents.capacity() * size_of::<Content>() + self.recorded.memory_bytes()
    }
}
