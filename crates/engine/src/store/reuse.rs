//! Deferred free: when can slots that nothing names any more be allocated again?
//!
//! Source: design decision 6. A freed slot is used again once nothing durable names it, no command names
//! it (`pins`), and its TRIM, if it gets one, is over.

use crate::io::DeviceIo;
use crate::map::{Map, Run, Slot};
use crate::mutant::Mutant;
use crate::owner::{MetadataIo, Owner};
use crate::port::IoOp;
use tandem_block::BLOCK_BYTES;

/// Freed runs of at least this many slots are trimmed before they are used again: the drive's own
/// GC gains from whole flash blocks, not from single pages (guess).
const TRIM_SLOTS_MIN: u64 = 32;

/// Slots that nothing durable names.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredFree {
    /// They became free since they were looked at.
    fresh: Vec<Run>,
    /// A command still names them.
    pinned: Vec<Run>,
}

impl DeferredFree {
    /// All of them.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.fresh.iter().chain(&self.pinned).copied()
    }

    /// Are there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.pinned.is_empty()
    }

    /// Freed slots become allocatable where no command names them, and are trimmed first if they are many.
    #[inline]
    pub(crate) fn release_freed(&mut self, map: &mut Map, io: &mut DeviceIo) {
        if map.has_freed() {
            let freed = map.take_freed();
            self.free_after_commit(freed, map);
        }
        if self.is_empty() {
            return;
        }
        self.release_unpinned(map, io);
    }

    fn release_unpinned(&mut self, map: &mut Map, io: &mut DeviceIo) {
        let mut has_ended = false;
        for device in io.drives_mut() {
            has_ended |= device.queue.pins_mut().take_freed();
        }
        if has_ended {
            let waiting = std::mem::take(&mut self.pinned);
            self.fresh.extend(waiting);
        }
        let reuses = io.breaks(Mutant::ReuseUnderRead);
        for run in std::mem::take(&mut self.fresh) {
            assert!(run.count > 0, "slots were freed");
            let region = *map.slots().region(run.slot);
            assert!(region.contains(run.slot + (run.count - 1)), "a run lies on one drive");
            let pins = io[region.device].queue.pins_mut();
            let first_block = region.address(run.slot) / BLOCK_BYTES;
            if reuses || !pins.touches(first_block, run.count) {
                self.release_or_trim(run, map, io);
                continue;
            }
            for (part, is_free) in pins.split(run, first_block) {
                if is_free {
                    self.release_or_trim(part, map, io);
                } else {
                    self.pinned.push(part);
                }
            }
        }
    }

    fn release_or_trim(&self, run: Run, map: &mut Map, io: &mut DeviceIo) {
        let region = *map.slots().region(run.slot);
        if !region.is_log && run.count >= TRIM_SLOTS_MIN && !io.is_fixed() {
            let op = IoOp::Trim {
                offset_bytes: region.address(run.slot),
                length_bytes: run.count * BLOCK_BYTES,
            };
            io.submit(region.device, op, Owner::Metadata(MetadataIo::Trim(run)));
        } else {
            self.release_run(run, map, io);
        }
    }

    /// Nothing durable names these slots any more.
    pub(crate) fn free_after_commit(&mut self, slots: Vec<Slot>, map: &Map) {
        for slot in slots {
            assert!(!map.slots().is_recorded(slot), "a record that is durable names slot {slot}");
            assert!(!map.slots().is_place(slot), "no block lies in slot {slot}");
            if let Some(last) = self.fresh.last_mut()
                && last.slot + last.count == slot
                && map.slots().region(slot).first != slot
            {
                last.count += 1;
                continue;
            }
            self.fresh.push(Run { slot, count: 1 });
        }
    }

    /// A trim ended, well or not: the slots hold nothing that anyone wants.
    pub(crate) fn trimmed(&self, run: Run, map: &mut Map, io: &mut DeviceIo) {
        assert!(!map.slots().is_log(run.slot), "logs are not trimmed");
        assert!(run.count >= TRIM_SLOTS_MIN, "short runs are not trimmed");
        self.release_run(run, map, io);
    }

    fn release_run(&self, run: Run, map: &mut Map, io: &mut DeviceIo) {
        let is_log = map.slots().is_log(run.slot);
        for slot in run.slot..run.slot + run.count {
            map.release(slot);
            if is_log {
                let device = map.slots().region(slot).device;
                let log = io[device].log.as_mut();
                log.expect("log slots belong to a log").release(slot);
            }
        }
        io.note_space();
    }
}
