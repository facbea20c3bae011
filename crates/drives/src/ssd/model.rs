//! When will this SSD answer? Next-free timestamps per die, per link and for the controller.
//!
//! Source: models §6.1; design decision 4.
//!
//! A write is acknowledged once its data has crossed the link and the write buffer has room. A
//! full unit is programmed on the next die in turn; before that, garbage collection takes its due.
//!
//! Divergence from a real drive:
//! - one GC event occupies all dies at once, and there is none in idle time;
//! - pages are 4 KiB: a write of part of a page also reads the page, and programs it whole. Its die is
//!   busy for that. The acknowledgement waits for it only where the spec says so (`part_page_waits`);
//! - a unit that is not full is programmed only by a flush or a FUA write, padded;
//! - TRIM of part of a page does nothing; wear, bad blocks and map misses are not modelled.

use super::command::CommandPath;
use super::dies::Dies;
use super::flash_map::{FlashMap, NO_UNIT};
use super::initial::SsdState;
use super::scattered::Scattered;
use super::slc::SlcCache;
use super::write_buffer::WriteBuffer;
use crate::ledger::Ledger;
use crate::rate::Divider;
use crate::spec::SsdSpec;
use tandem_block::{
    BLOCK_BYTES, Drive, DriveEvent, DriveEventKind, DriveOp, DriveOpKind, Instant, IoError,
    Outcome, Rng,
};

/// A modelled SSD.
#[derive(Clone, Debug)]
pub struct SsdModel {
    map: FlashMap,
    dies: Dies,
    die_of: Divider,
    plane_of: Divider,
    die_count: u32,
    /// The die that takes the next unit.
    next_die: u32,
    buffer: WriteBuffer,
    path: CommandPath,
    scattered: Scattered,
    slc: Option<SlcCache>,
    unit_pages: u32,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    transfer_ns: u64,
    /// Moving one page between die and controller.
    page_transfer_ns: u64,
    flush_base_ns: u64,
    trim_ns: u64,
    part_pages_wait: bool,
    /// When the pages of the open unit that were written in part are whole.
    merged_ns: u64,
    gc: GcRule,
    /// When the last command was answered.
    last_ns: u64,
    host_pages: u64,
    gc_pages: u64,
    padding_pages: u64,
    ledger: Ledger,
}

/// When the next GC event is due.
#[derive(Clone, Copy, Debug)]
struct GcRule {
    low_lines: usize,
    batch_lines: u32,
    high_lines: usize,
    gap_pages: i64,
    /// Host pages until the next event.
    credit_pages: i64,
    /// Between the beginning of a cluster and `high_lines`.
    clustering: bool,
}

impl SsdModel {
    /// A drive in this state.
    ///
    /// # Panics
    /// If the spec was built by hand and makes no sense.
    pub fn new(spec: &SsdSpec, state: SsdState, seed: u64, keep_events: bool) -> Self {
        let unit_pages = spec.unit_pages();
        let mut map =
            FlashMap::new(spec.host_pages(), spec.line_pages(), unit_pages, spec.line_count());
        let unit_bytes = spec.unit.get().0;
        let (program_ns, read_ns) = (spec.program.get().0, spec.read.get().0);
        let mut slc = spec
            .slc
            .as_ref()
            .map(|slc| SlcCache::new(slc, unit_bytes, program_ns, read_ns, spec.dies.get()));
        if state != SsdState::Fresh
            && let Some(slc) = &mut slc
        {
            slc.fill();
        }
        map.fill(state, spec.gc.low_lines.get() as usize, &mut Rng::new(seed));
        SsdModel {
            map,
            dies: Dies::new(spec.dies.get(), spec.planes(), spec.suspend.as_ref()),
            plane_of: Divider::new(spec.planes()),
            die_of: Divider::new(spec.dies.get()),
            die_count: spec.dies.get(),
            next_die: 0,
            buffer: WriteBuffer::new(spec.buffer_units.get(), unit_pages),
            path: CommandPath::new(spec),
            scattered: Scattered::new(spec),
            slc,
            unit_pages,
            read_ns,
            program_ns,
            erase_ns: spec.erase.get().0,
            transfer_ns: spec.transfer.get().0,
            page_transfer_ns: spec.transfer.get().0 / u64::from(unit_pages),
            flush_base_ns: spec.flush_base.get().0,
            trim_ns: spec.trim.get().0,
            part_pages_wait: spec.part_pages_wait(),
            merged_ns: 0,
            gc: GcRule {
                low_lines: spec.gc.low_lines.get() as usize,
                batch_lines: spec.gc.batch_lines.get(),
                high_lines: spec.gc.high_lines.get() as usize,
                gap_pages: i64::from(spec.gc.gap_pages.get()),
                credit_pages: 0,
                clustering: false,
            },
            last_ns: 0,
            host_pages: 0,
            gc_pages: 0,
            padding_pages: 0,
            ledger: Ledger::new(keep_events),
        }
    }

    #[cfg(test)]
    pub(super) fn map(&self) -> &FlashMap {
        &self.map
    }

    /// Lines that hold nothing.
    pub fn free_lines(&self) -> usize {
        self.map.free_lines()
    }

    /// Bytes of the SLC cache in use; 0 without one.
    pub fn slc_used_bytes(&self) -> u64 {
        let units = self.slc.as_ref().map_or(0, |slc| slc.used_units);
        units * u64::from(self.unit_pages) * BLOCK_BYTES
    }

    /// Pages moved by garbage collection so far.
    pub fn gc_pages(&self) -> u64 {
        self.gc_pages
    }

    /// Pages left unused because a flush closed a unit early.
    pub fn padding_pages(&self) -> u64 {
        self.padding_pages
    }

    fn write(&mut self, now_ns: u64, op: &DriveOp, fua: bool) -> (u64, Option<u64>) {
        let (first, last) = pages(op);
        let mut done = self.path.write(now_ns, op.length_bytes);
        let merged_ns = self.merge_ends(op, done);
        if self.part_pages_wait {
            done = done.max(merged_ns);
        }
        let mut durable = None;
        let mut latest_end = 0;
        for page in first..=last {
            let (admitted, full) = self.buffer.take(done);
            done = admitted;
            self.map.write(page);
            durable = None;
            if full {
                latest_end = latest_end.max(self.program_unit(done));
                durable = Some(latest_end);
            }
        }
        if self.part_pages_wait && durable.is_none() {
            self.merged_ns = self.merged_ns.max(merged_ns);
        }
        self.host_pages += u64::from(last - first) + 1;
        if fua {
            if let Some(end) = self.close_unit(done) {
                latest_end = latest_end.max(end);
            }
            done = done.max(latest_end);
            durable = Some(done);
        }
        let answered = self.scattered.answer(op.offset_bytes, op.length_bytes, done);
        (answered, durable.map(|at_ns| at_ns.max(answered)))
    }

    /// Reads what a write, whose data is there at `at_ns`, leaves of its first and last page. Returns when
    /// both are whole; 0 if nothing is read.
    #[inline]
    fn merge_ends(&mut self, op: &DriveOp, at_ns: u64) -> u64 {
        let (first, last) = pages(op);
        let end_bytes = op.offset_bytes + op.length_bytes;
        let begins_within = !op.offset_bytes.is_multiple_of(BLOCK_BYTES);
        let mut whole_ns = 0;
        if begins_within {
            whole_ns = self.read_for_merge(first, at_ns);
        }
        let ends_in_its_first_page = first == last && begins_within;
        if !end_bytes.is_multiple_of(BLOCK_BYTES) && !ends_in_its_first_page {
            whole_ns = whole_ns.max(self.read_for_merge(last, at_ns));
        }
        whole_ns
    }

    /// Part of a page is written: the rest of it is read from its die, if it is there. Returns when it
    /// was read; 0 if it is not read.
    fn read_for_merge(&mut self, page: u32, at_ns: u64) -> u64 {
        if let Some(physical) = self.map.find(page) {
            let place = self.map.locate(physical);
            if place.host_unit == NO_UNIT || !self.buffer.holds(place.host_unit, at_ns) {
                let die = self.place_on_dies(place.unit_in_line);
                return self.dies.read(die, at_ns, self.read_ns + self.page_transfer_ns);
            }
        }
        0
    }

    /// The die of a unit of a line, and the plane: units go to the dies in turn, and those of a die to its planes.
    #[inline]
    fn place_on_dies(&self, unit_in_line: u32) -> (u32, u32) {
        let (row, die) = self.die_of.divide(unit_in_line);
        (die, self.plane_of.divide(row).1)
    }

    /// The open unit is full, and all its pages have arrived at `at_ns`. Returns when it will be
    /// on the flash.
    fn program_unit(&mut self, at_ns: u64) -> u64 {
        let at_ns = at_ns.max(std::mem::take(&mut self.merged_ns));
        self.reclaim_if_due(at_ns);
        let program_ns = match &mut self.slc {
            Some(slc) => slc.program(),
            None => self.program_ns,
        };
        let end = self.dies.program(self.next_die, at_ns, self.transfer_ns + program_ns);
        self.next_die += 1;
        if self.next_die == self.die_count {
            self.next_die = 0;
        }
        self.buffer.programmed(end);
        end
    }

    /// Pads the open unit and programs it. Returns when it will be on the flash; `None` if no unit
    /// is open.
    fn close_unit(&mut self, now_ns: u64) -> Option<u64> {
        let missing = self.buffer.missing_pages();
        if missing == 0 {
            return None;
        }
        self.map.skip(missing);
        self.padding_pages += u64::from(missing);
        Some(self.program_unit(now_ns.max(self.buffer.gate_ns())))
    }

    #[inline]
    fn reclaim_if_due(&mut self, at_ns: u64) {
        let free = self.map.free_lines();
        let gc = &mut self.gc;
        if free > gc.low_lines && !gc.clustering {
            return;
        }
        gc.credit_pages -= i64::from(self.unit_pages);
        let in_clusters = gc.high_lines > 0;
        if in_clusters {
            gc.clustering = free < gc.high_lines;
        }
        if gc.credit_pages <= 0 && (!in_clusters || gc.clustering) {
            self.reclaim(at_ns);
        }
    }

    /// One GC event: a batch of victims, and more if fewer than two lines are free.
    fn reclaim(&mut self, at_ns: u64) {
        let step_ns = self.read_ns + 2 * self.transfer_ns + self.program_ns;
        let (mut busy_ns, mut operations) = (0, 0);
        let mut victims = 0;
        while victims < self.gc.batch_lines || self.map.free_lines() < 2 {
            victims += 1;
            let Some(moved) = self.map.reclaim() else { break };
            // Whole units are read and programmed, all dies at work.
            let units = moved / self.unit_pages;
            busy_ns += u64::from(units) * step_ns / u64::from(self.die_count) + self.erase_ns;
            operations += units / self.die_count + 1;
            self.gc_pages += u64::from(moved);
            if self.gc.high_lines == 0 {
                self.gc.credit_pages += i64::from(self.map.line_pages - moved);
            }
        }
        if self.gc.high_lines > 0 {
            self.gc.credit_pages = self.gc.gap_pages;
        }
        let start = self.dies.occupy_all(at_ns, busy_ns, operations);
        self.ledger.note(start, start + busy_ns, DriveEventKind::GarbageCollection);
    }

    fn read(&mut self, now_ns: u64, op: &DriveOp) -> u64 {
        let (first, last) = pages(op);
        let begun = self.path.read(now_ns);
        let mut ready = begun;
        let mut page = first;
        while page <= last {
            let Some(physical) = self.map.find(page) else {
                page += 1;
                continue;
            };
            // Pages of one unit share its array read.
            let unit = self.map.unit(physical);
            let mut count = 1;
            while page + count <= last
                && self.map.find(page + count).is_some_and(|next| self.map.unit(next) == unit)
            {
                count += 1;
            }
            page += count;
            let place = self.map.locate(physical);
            if place.host_unit != NO_UNIT && self.buffer.holds(place.host_unit, begun) {
                continue;
            }
            let die = self.place_on_dies(place.unit_in_line);
            let busy_ns = self.read_ns + self.page_transfer_ns * u64::from(count);
            ready = ready.max(self.dies.read(die, begun, busy_ns));
        }
        self.path.deliver(begun, ready, op.length_bytes)
    }

    /// Everything in the buffer is programmed; then the base.
    fn flush(&mut self, now_ns: u64) -> u64 {
        let start = self.path.plain(now_ns);
        self.close_unit(start);
        let end = start.max(self.buffer.last_end_ns) + self.flush_base_ns;
        self.ledger.note(start, end, DriveEventKind::Flush);
        end
    }

    fn trim(&mut self, now_ns: u64, op: &DriveOp) -> u64 {
        let first = op.offset_bytes.div_ceil(BLOCK_BYTES);
        let end = (op.offset_bytes + op.length_bytes) / BLOCK_BYTES;
        for page in first..end {
            self.map.forget(u32::try_from(page).expect("within the capacity"));
        }
        self.path.plain(now_ns) + self.trim_ns
    }

    #[inline]
    fn fold_if_idle(&mut self, now_ns: u64) {
        if let Some(slc) = &mut self.slc
            && let Some((begin, end)) = slc.fold_idle(self.last_ns, now_ns)
        {
            self.ledger.note(begin, end, DriveEventKind::Fold);
        }
    }
}

/// First and last page that a command touches.
#[inline]
fn pages(op: &DriveOp) -> (u32, u32) {
    let first = op.offset_bytes / BLOCK_BYTES;
    let last = (op.offset_bytes + op.length_bytes - 1) / BLOCK_BYTES;
    (first as u32, last as u32)
}

impl Drive for SsdModel {
    fn capacity_bytes(&self) -> u64 {
        u64::from(self.map.host_pages()) * BLOCK_BYTES
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        crate::check_range(&op, self.capacity_bytes());
        self.ledger.arrive(now);
        self.fold_if_idle(now.ns);
        let (ack, settle) = match op.kind {
            DriveOpKind::Read => {
                let end = self.read(now.ns, &op);
                (end, Some(end))
            }
            DriveOpKind::Write { fua } => self.write(now.ns, &op, fua),
            DriveOpKind::Flush => {
                let end = self.flush(now.ns);
                (end, Some(end))
            }
            DriveOpKind::Trim => (self.trim(now.ns, &op), None),
        };
        self.last_ns = self.last_ns.max(ack);
        Outcome {
            ack_at: Instant::from_ns(ack),
            durable_at: settle.map(Instant::from_ns),
            status: Ok(()),
            ticket: self.ledger.ticket(),
        }
    }

    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        self.ledger.ack(outcome)
    }

    fn volatile_bytes(&mut self, now: Instant) -> u64 {
        self.ledger.arrive(now);
        self.buffer.volatile_pages(now.ns) * BLOCK_BYTES
    }

    fn power_cycle(&mut self, now: Instant) {
        self.ledger.cut(now);
        self.buffer.reset(now.ns);
        self.dies.reset(now.ns);
        self.path.reset(now.ns);
        self.scattered.reset(now.ns);
        // The pages of the open unit are lost; their places stay unused.
        let missing = self.buffer.missing_pages();
        if missing > 0 {
            self.map.skip(missing);
            self.padding_pages += u64::from(missing);
            self.next_die = (self.next_die + 1) % self.die_count;
            self.buffer.programmed(now.ns);
        }
        self.merged_ns = 0;
        self.last_ns = now.ns;
    }

    fn take_events(&mut self) -> Vec<DriveEvent> {
        self.ledger.take_events()
    }

    fn flash_pages(&self) -> (u64, u64) {
        let folded = self.slc.as_ref().map_or(0, |slc| slc.folded_units);
        let folded_pages = folded * u64::from(self.unit_pages);
        let programmed = self.host_pages + self.gc_pages + self.padding_pages + folded_pages;
        (programmed, self.host_pages)
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
