//! What does the map do for drives that leave and come?

use super::{Entry, Logical, Map, NONE, Slot, SlotRegion};
use tandem_block::DeviceId;

impl Map {
    /// Nothing new shall go to the SSD at this position, or it may again.
    pub(crate) fn close_ssd(&mut self, ssd: usize, closed: bool) {
        self.closed[ssd] = closed;
        let open = || self.allocators.iter().zip(&self.closed).filter(|(_, closed)| !**closed);
        self.ssd_free = open().map(|(a, _)| a.free_count()).sum();
        self.ssd_slots = open().map(|(a, _)| a.slot_count()).sum();
    }

    /// Another drive has taken the place of this one, on which nothing lies; its slots begin there.
    pub(crate) fn bay_region(&mut self, device: DeviceId, offset_bytes: u64) -> SlotRegion {
        self.slots.bay_region(device, offset_bytes)
    }

    /// Slots of the SSD at this position that hold something, or that a crash would find something in.
    pub(crate) fn ssd_used(&self, ssd: usize) -> u64 {
        let allocator = &self.allocators[ssd];
        assert!(allocator.free_count() <= allocator.slot_count(), "no more is free than there is");
        allocator.slot_count() - allocator.free_count()
    }

    /// A block's place on an SSD moves to another slot with the same contents. False, and nothing is
    /// changed, if it is not there any more.
    pub(crate) fn move_place(
        &mut self,
        block: Logical,
        (from, to): (Slot, Slot),
        checksum: u32,
    ) -> bool {
        assert!(!self.slots.is_log(to), "a place on an SSD moves to an SSD");
        let entry = self.leaves.get(block);
        if from == NONE || entry.ssd != from {
            return false;
        }
        self.leaves.replace(block, Entry { ssd: to, ..entry });
        self.displace(block, from);
        self.assign_whole(to, block, checksum);
        true
    }
}
