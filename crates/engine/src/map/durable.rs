//! What of the places that were written does a flush of their drive cover?
//!
//! Source: design decisions 6 and 8. A record names durable places only. SSDs are flushed by every
//! commit; a hard drive is not, so its log's places are kept until a flush of it has ended.

use super::entry::{HOME, LOG, SSD};
use super::{Entry, Logical, Map, NONE, Slot};
use tandem_block::DeviceId;

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

    /// Is there anything that waits for this hard drive?
    pub(crate) fn awaits_hdd(&self, device: DeviceId) -> bool {
        !self.pending.hdd[usize::from(device.0)].is_empty()
    }

    /// Is the log slot written but not flushed?
    pub(crate) fn is_log_volatile(&self, slot: Slot) -> bool {
        self.log_volatile.contains_key(&slot)
    }

    /// Does the log slot hold what this write of its drive left there, and is it not flushed?
    pub(crate) fn is_log_volatile_by(&self, slot: Slot, write: u64) -> bool {
        self.log_volatile.get(&slot) == Some(&write)
    }

    /// Is the block in a log that its drive was flushed for since?
    #[inline]
    pub(crate) fn is_safe_in_log(&self, block: Logical) -> bool {
        let log = self.leaves.get(block).log;
        log != NONE && !self.log_volatile.contains_key(&log)
    }

    /// The SSD slot of a block that has another durable place, so that it may be given up: a home that a record
    /// names, or a log that was flushed.
    pub(crate) fn spare_copy(&self, block: Logical) -> Option<Slot> {
        let entry = self.leaves.get(block);
        if entry.ssd == NONE || entry.fragmented {
            return None;
        }
        let is_home = entry.home && self.leaves.recorded_home(block);
        debug_assert!(self.slots.is_place(entry.ssd), "a copy lies in a place of its block");
        (is_home || self.is_safe_in_log(block)).then_some(entry.ssd)
    }

    /// Does the block lie on an SSD, and neither at home nor, durable, in a log?
    pub(crate) fn is_alone_on_ssd(&self, block: Logical) -> bool {
        let state = self.leaves.state(block);
        state & (SSD | HOME) == SSD && (state & LOG == 0 || !self.is_safe_in_log(block))
    }

    /// Slots of SSDs that hold copies which may be given up, at least so many. Of copies beside places in logs it
    /// is not counted which logs were flushed for.
    pub(crate) fn spare_copies(&self) -> u64 {
        self.leaves.population().clean_ssd + self.copies_beside_logs()
    }

    /// Are there certainly copies on SSDs that stay beside places in logs?
    pub(crate) fn has_copies_beside_logs(&self) -> bool {
        self.copies_beside_logs() > 0
    }

    /// At least so many: the others may be of tails.
    fn copies_beside_logs(&self) -> u64 {
        self.leaves.population().log_copies().saturating_sub(self.log_volatile.len() as u64)
    }

    /// The block has a place in a log that a flush has covered just now, and a copy on an SSD that stays. A record
    /// that calls the log volatile is not true any more: after a crash the log is believed, once another one says so.
    pub(crate) fn note_copy_settled(&mut self, block: Logical) {
        let entry = self.leaves.get(block);
        assert!(entry.ssd != NONE && entry.log != NONE, "a copy stays beside a place in a log");
        assert!(!self.log_volatile.contains_key(&entry.log), "a flush has covered the log");
        if self.slots.is_recorded(entry.log) {
            self.settled.insert(block);
        }
    }

    /// The SSD slot of a block that may be written home now: its only place, recorded, while the
    /// recorded home is not valid. Its record must be durable too, which the caller knows.
    pub(crate) fn writeback_source(&self, block: Logical) -> Option<Slot> {
        let entry = self.leaves.get(block);
        let slot = entry.ssd;
        if slot == NONE || entry != Entry::in_slot(slot, false) || self.leaves.recorded_home(block)
        {
            return None;
        }
        debug_assert!(self.slots.is_place(slot), "what is written home is the newest");
        self.slots.is_recorded(slot).then_some(slot)
    }

    /// The same for a block in a log, with or without a copy on an SSD.
    pub(crate) fn log_source(&self, block: Logical, slot: Slot) -> bool {
        let entry = self.leaves.get(block);
        Entry { ssd: NONE, ..entry } == Entry::in_slot(slot, true)
            && !self.leaves.recorded_home(block)
            && self.slots.is_recorded(slot)
            && !self.log_volatile.contains_key(&slot)
    }
}
