//! When may a freed place be used again?
//!
//! Source: design decision 6. Once nothing durable names it, no read that began before is still under
//! way, and its TRIM, if it gets one, is over.

use crate::device::Purpose;
use crate::engine::Engine;
use crate::map::{Run, Slot};
use crate::mutant::Mutant;
use crate::port::IoOp;
use tandem_block::BLOCK_BYTES;

/// Slots that nothing names, waiting for the reads that may still use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limbo {
    pub run: Run,
    pub after_read: u64,
}

/// Freed runs of at least this many slots are trimmed before they are used again: the drive's own
/// GC gains from whole flash blocks, not from single pages (guess).
const TRIM_SLOTS_MIN: u32 = 32;

impl Engine {
    /// A read of a place begins: the place is not reused before it ends.
    pub(crate) fn begin_read(&mut self) -> u64 {
        self.reads_issued += 1;
        self.reads_done.push_back(false);
        self.reads_issued - 1
    }

    pub(crate) fn end_read(&mut self, number: u64) {
        let index = (number - self.reads_base) as usize;
        self.reads_done[index] = true;
        while self.reads_done.front() == Some(&true) {
            self.reads_done.pop_front();
            self.reads_base += 1;
        }
    }

    /// Slots that were freed become allocatable once the reads before them are over, and trimmed
    /// if they are many.
    #[inline]
    pub(crate) fn release_limbo(&mut self) {
        if self.map.has_freed() {
            let freed = self.map.take_freed();
            self.free_after_commit(freed);
        }
        while let Some(&Limbo { run, after_read }) = self.limbo.front() {
            if after_read > self.reads_base && !self.breaks(Mutant::ReuseUnderRead) {
                break;
            }
            self.limbo.pop_front();
            let region = *self.map.slots().region(run.slot);
            if !region.is_log && run.count >= TRIM_SLOTS_MIN && !self.is_fixed() {
                let op = IoOp::Trim {
                    offset_bytes: region.address(run.slot),
                    length_bytes: u64::from(run.count) * BLOCK_BYTES,
                };
                self.submit(region.device, op, Purpose::Trim(run));
            } else {
                self.release_run(run);
            }
        }
    }

    /// Nothing durable names these slots any more.
    pub(crate) fn free_after_commit(&mut self, slots: Vec<Slot>) {
        let after_read = self.reads_issued;
        for slot in slots {
            if let Some(last) = self.limbo.back_mut()
                && last.after_read == after_read
                && last.run.slot + last.run.count == slot
                && self.map.slots().region(slot).first != slot
            {
                last.run.count += 1;
                continue;
            }
            self.limbo.push_back(Limbo { run: Run { slot, count: 1 }, after_read });
        }
    }

    /// A trim ended, well or not: the slots hold nothing that anyone wants.
    pub(crate) fn trimmed(&mut self, run: Run) {
        self.release_run(run);
    }

    fn release_run(&mut self, run: Run) {
        let is_log = self.map.slots().is_log(run.slot);
        for slot in run.slot..run.slot + run.count {
            self.map.release(slot);
            if is_log {
                let device = self.map.slots().region(slot).device;
                let log = self.devices[usize::from(device.0)].log.as_mut();
                log.expect("log slots belong to a log").release(slot);
            }
        }
        self.starved = false;
    }
}
