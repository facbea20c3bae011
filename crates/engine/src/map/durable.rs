//! What of the places that were written does a flush of their drive cover?
//!
//! Source: design decisions 6 and 8. A record names durable places only. SSDs are flushed by every
//! commit; a hard drive is not, so its log's places are kept until a flush of it has ended.

use super::{Entry, Logical, Map, NONE, Slot};

impl Map {
    /// Notes that a write to `slot` was durable when it was acknowledged (FUA).
    pub(crate) fn note_durable(&mut self, slot: Slot) {
        assert!(
            self.slots.is_place(slot),
            "a write that has just ended is the newest of its block"
        );
        self.durable.insert(slot);
    }

    /// Notes that a log slot was written, by this write of its drive, which has not been flushed since.
    pub(crate) fn note_log_volatile(&mut self, slot: Slot, write: u64) {
        self.log_volatile.insert(slot, write);
    }

    /// Notes that a flush of its drive has covered what this write left in this log slot.
    pub(crate) fn note_log_durable(&mut self, slot: Slot, write: u64) {
        assert!(self.slots.is_log(slot), "hard drives are flushed for their logs");
        if self.log_volatile.get(&slot) == Some(&write) {
            self.log_volatile.remove(&slot);
        }
        let device = self.slots.region(slot).device;
        self.pending.hdd_durable[usize::from(device.0)] = true;
    }

    /// The next batch looks at everything that waits for hard drives, whether or not any of it has
    /// durable: blocks that were overwritten since are still in those queues.
    pub(crate) fn look_at_logs(&mut self) {
        self.pending.hdd_durable.fill(true);
    }

    /// Is the log slot written but not flushed?
    pub(crate) fn is_log_volatile(&self, slot: Slot) -> bool {
        self.log_volatile.contains_key(&slot)
    }

    /// Does the log slot hold what this write of its drive left there, and is it not flushed?
    pub(crate) fn is_log_volatile_by(&self, slot: Slot, write: u64) -> bool {
        self.log_volatile.get(&slot) == Some(&write)
    }

    /// The SSD slot of a block that may be written home now: its only place, recorded, while the
    /// recorded home is not valid. Its record must be durable too, which the caller knows.
    pub(crate) fn writeback_source(&self, block: Logical) -> Option<Slot> {
        let entry = self.entry(block);
        let slot = entry.ssd;
        if slot == NONE || entry != Entry::in_slot(slot, false) || self.leaves.recorded_home(block)
        {
            return None;
        }
        debug_assert!(self.slots.is_place(slot), "what is written home is the newest");
        self.slots.is_recorded(slot).then_some(slot)
    }

    /// The same for a block in a log.
    pub(crate) fn log_source(&self, block: Logical, slot: Slot) -> bool {
        self.entry(block) == Entry::in_slot(slot, true)
            && !self.leaves.recorded_home(block)
            && self.slots.is_recorded(slot)
            && !self.log_volatile.contains_key(&slot)
    }
}
