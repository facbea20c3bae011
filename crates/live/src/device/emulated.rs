//! How does an emulated drive answer? When its model says so, and with the model's losses.
//!
//! Source: design decision 4. Acknowledgements come from a timer set by the model. A write is kept
//! in process memory until the model no longer counts it as volatile or a flush (or FUA) asks for
//! it; only then it goes to the backing. Death of the process is therefore a power cut of the
//! drive. "In the backing" means handed to the kernel: its page cache survives SIGKILL, so no
//! `fsync` is made, and a power cut of the *machine* is outside what an emulated drive imitates.
//!
//! A model that says it ignored a flush gets its way: nothing is durable then. That is how a test
//! shows that it would see a loss.
//!
//! *Divergence from a real drive*: a flush does not begin to write before the command arrives, and
//! bytes that the model has drained by itself may be kept a little longer in memory (at most
//! [`DRAIN_EVERY`]), which a caller without a flush may not rely on anyway.

use super::failures::{self, DriveFailures, Failures};
use super::overlay::{Overlay, Sequence};
use super::ram::RamDevice;
use super::snapshot::KeepsAll;
use super::{Device, DeviceContext, IoDone, OpenError, OpenedFile, block_range, extent, fits};
use crate::buffer::Memory;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use tandem_block::{
    ContentFault, ContentFaultKind, DeviceId, Drive, DriveOp, DriveOpKind, Duration, Instant,
    IoError, Outcome, PayloadId,
};
use tandem_engine::{Io, IoId, IoOp};

/// How often the buffer is compared with what the model still holds while nothing happens.
const DRAIN_EVERY: Duration = Duration::from_ms(20);
/// How often while commands come. Not with each of them: what leaves the buffer is written to the file by
/// threads of the kernel, which want the processor that the next command waits for (guess).
const SETTLE_EVERY: Duration = Duration::from_ms(2);
/// Writes wait for the backing when this much more than the model's buffer is not written yet.
const BEHIND_BYTES_MAX: u64 = 128 << 20;
/// How long such a write waits before it looks again.
const BEHIND_WAIT: Duration = Duration::from_us(500);
/// Batches on their way to the backing at once.
const BATCHES_MAX: usize = 4;
/// Set in the ring tags of batches; reads have the key of their flight.
const BATCH_BIT: u64 = 1 << 40;

/// How an emulated drive is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatedStats {
    /// Bytes that a power cut would lose.
    pub volatile_bytes: u64,
    /// Acknowledgements that had to wait for the backing: the host is slower than the model.
    pub late_count: u64,
}

enum Backing {
    File(OpenedFile),
    Ram(RamDevice),
}

#[derive(Debug)]
enum Work {
    Read {
        memory: Rc<Memory>,
        at: u64,
        /// `None`: the engine's own bytes.
        into: Option<PayloadId>,
        number: u64,
        fetched: bool,
    },
    Write {
        data: Rc<Memory>,
        /// For checksums.
        from: Option<(PayloadId, u64)>,
    },
    /// Waits until its version is in the backing.
    Fua {
        version: Sequence,
        from: Option<(PayloadId, u64)>,
    },
    /// Waits until every version up to this one is.
    Flush {
        until: Sequence,
    },
    Trim,
}

struct Flight {
    io: IoId,
    outcome: Outcome,
    offset: u64,
    length: u64,
    work: Work,
    submitted: Instant,
    /// What the model answered, and when, once it has.
    answered: Option<(Instant, Result<(), IoError>)>,
}

/// A modelled drive in real time.
pub(crate) struct EmulatedDevice {
    id: DeviceId,
    model: Box<dyn Drive>,
    backing: Backing,
    overlay: Overlay,
    flights: Slab<Flight>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    batches: Slab<Vec<Sequence>>,
    /// Answered flights that wait for the backing.
    waiting: Vec<usize>,
    /// When the buffer may be compared with the model's again.
    durable_at: Instant,
    next_drain: Instant,
    stats: EmulatedStats,
    failures: Failures,
    failed: bool,
    /// Nothing may reach the backing.
    sealed: bool,
}

impl EmulatedDevice {
    /// A view of a device that is never written: what is written stays here.
    pub(crate) fn snapshot(id: DeviceId, file: OpenedFile) -> EmulatedDevice {
        let model = KeepsAll { capacity_bytes: file.size_bytes, tickets: 0 };
        EmulatedDevice { sealed: true, ..Self::of(id, Box::new(model), Backing::File(file)) }
    }

    /// A drive that keeps its durable bytes in a file.
    pub(crate) fn over_file(
        id: DeviceId,
        model: Box<dyn Drive>,
        file: OpenedFile,
    ) -> Result<EmulatedDevice, OpenError> {
        let size = file.size_bytes;
        Self::new(id, model, Backing::File(file), size)
    }

    /// A drive that keeps its durable bytes in RAM: for timing, not for crashes.
    pub(crate) fn over_ram(
        id: DeviceId,
        model: Box<dyn Drive>,
        memory: RamDevice,
    ) -> Result<EmulatedDevice, OpenError> {
        let size = memory.capacity_bytes();
        Self::new(id, model, Backing::Ram(memory), size)
    }

    fn new(
        id: DeviceId,
        model: Box<dyn Drive>,
        backing: Backing,
        backing_bytes: u64,
    ) -> Result<EmulatedDevice, OpenError> {
        let model_bytes = model.capacity_bytes();
        if model_bytes > backing_bytes {
            return Err(OpenError::TooSmall { model_bytes, backing_bytes });
        }
        Ok(Self::of(id, model, backing))
    }

    fn of(id: DeviceId, model: Box<dyn Drive>, backing: Backing) -> EmulatedDevice {
        let drive = match &backing {
            Backing::File(file) => file.path().display().to_string(),
            Backing::Ram(_) => format!("emulated device {} in memory", id.0),
        };
        EmulatedDevice {
            id,
            model,
            backing,
            overlay: Overlay::default(),
            flights: Slab::new(),
            timers: BinaryHeap::new(),
            batches: Slab::new(),
            waiting: Vec::new(),
            durable_at: Instant::ZERO,
            next_drain: Instant::NEVER,
            stats: EmulatedStats::default(),
            failures: Failures::of(drive),
            failed: false,
            sealed: false,
        }
    }

    fn ask_model(&mut self, op: &IoOp, now: Instant) -> Outcome {
        let kind = match op {
            IoOp::Read { .. } | IoOp::ReadMeta { .. } => DriveOpKind::Read,
            IoOp::Write { fua, .. } | IoOp::WriteMeta { fua, .. } => {
                DriveOpKind::Write { fua: *fua }
            }
            IoOp::Flush => DriveOpKind::Flush,
            IoOp::Trim { .. } => DriveOpKind::Trim,
        };
        let (offset_bytes, length_bytes) = extent(op);
        self.model.submit(now, DriveOp { kind, offset_bytes, length_bytes })
    }

    fn start_read(
        &mut self,
        length: u64,
        context: &mut DeviceContext<'_>,
        to: Option<(PayloadId, u64)>,
    ) -> Work {
        let (memory, at) = match to {
            Some((payload, at)) => (context.payloads.read_begins(payload, at, length), at),
            None => (context.payloads.scratch(length as usize), 0),
        };
        let number = self.overlay.read_begins();
        Work::Read { memory, at, into: to.map(|to| to.0), number, fetched: false }
    }

    fn start_write(
        &mut self,
        (offset, length): (u64, u64),
        data: Rc<Memory>,
        from: Option<(PayloadId, u64)>,
        fua: bool,
    ) -> Work {
        if !fua {
            return Work::Write { data, from };
        }
        // its bytes travel to the backing while the model's latency passes
        let version = self.overlay.put(offset, length, Some(data));
        if !self.sealed {
            self.overlay.make_due(version);
        }
        Work::Fua { version, from }
    }

    /// Did the model acknowledge a flush that it will not do?
    fn ignores_flush(&mut self, outcome: &Outcome) -> bool {
        let ignored = |fault: &ContentFault| {
            fault.ticket == outcome.ticket && fault.kind == ContentFaultKind::FlushIgnored
        };
        self.sealed || self.model.take_content_faults().iter().any(ignored)
    }

    fn work(&mut self, op: IoOp, outcome: &Outcome, context: &mut DeviceContext<'_>) -> Work {
        let (offset, length) = extent(&op);
        match op {
            IoOp::Read { into, into_offset_bytes, .. } => {
                self.start_read(length, context, Some((into, into_offset_bytes)))
            }
            IoOp::ReadMeta { .. } => self.start_read(length, context, None),
            IoOp::Write { from, from_offset_bytes: at, fua, .. } => {
                let source = context.payloads.source(from, at, length);
                let data = context.payloads.scratch(length as usize);
                data.copy_from(0, &source, at as usize, length as usize);
                self.start_write((offset, length), data, Some((from, at)), fua)
            }
            IoOp::WriteMeta { bytes, fua, .. } => {
                let data = context.payloads.scratch(bytes.len());
                data.write(0, &bytes);
                self.start_write((offset, length), data, None, fua)
            }
            IoOp::Flush if self.ignores_flush(outcome) => Work::Flush { until: 0 },
            IoOp::Flush => {
                let until = self.overlay.last();
                self.overlay.settle_until(until);
                Work::Flush { until }
            }
            IoOp::Trim { .. } => Work::Trim,
        }
    }

    /// Fetches what the backing has for a read that has just been registered.
    fn fetch(&mut self, key: usize, context: &mut DeviceContext<'_>) {
        let flight = &mut self.flights[key];
        let Work::Read { memory, at, fetched, .. } = &mut flight.work else { return };
        let (from, length) = (flight.offset as usize, flight.length as usize);
        match &self.backing {
            Backing::Ram(ram) => {
                memory.copy_from(*at as usize, &ram.memory, from, length);
                *fetched = true;
            }
            Backing::File(file) => {
                let target = (Rc::clone(memory), *at as usize, length);
                context.ring.read(context.tag(key as u64), file.fd(), flight.offset, target);
            }
        }
    }

    /// Sends to the backing what is due.
    fn drain(&mut self, context: &mut DeviceContext<'_>) {
        if self.sealed {
            return;
        }
        self.settle(context.now);
        while self.batches.len() < BATCHES_MAX && !self.failed {
            let Some(batch) = self.overlay.next_batch() else { break };
            match &self.backing {
                Backing::Ram(ram) => {
                    let mut at = batch.start as usize;
                    for (memory, from, length) in batch.data.iter().flatten() {
                        ram.memory.copy_from(at, memory, *from, *length);
                        at += length;
                    }
                    if batch.data.is_none() {
                        ram.memory.zero(at, batch.length as usize);
                    }
                    self.overlay.written(&batch.versions);
                }
                Backing::File(file) => {
                    let key = self.batches.insert(batch.versions);
                    let tag = context.tag(BATCH_BIT | key as u64);
                    match batch.data {
                        Some(data) => context.ring.write_gather(tag, file.fd(), batch.start, data),
                        None => context.ring.punch_hole(tag, file.fd(), batch.start, batch.length),
                    }
                }
            }
        }
        for memory in self.overlay.take_freed() {
            context.payloads.give_back(memory);
        }
        let idle = self.overlay.held_bytes() == 0;
        self.next_drain = if idle { Instant::NEVER } else { context.now + DRAIN_EVERY };
    }

    /// Lets go what the model does not hold volatile any more: at once from a drive whose writes are
    /// durable when they are acknowledged, else now and then.
    fn settle(&mut self, now: Instant) {
        let limit = self.model.volatile_bytes(now);
        if limit == 0 || now >= self.durable_at {
            self.overlay.settle_beyond(limit);
            self.durable_at = now + SETTLE_EVERY;
        }
    }

    /// The model's answer for a flight is due.
    fn answer(&mut self, key: usize, context: &mut DeviceContext<'_>) {
        let behind = self.overlay.bytes() > self.overlay.held_bytes() + BEHIND_BYTES_MAX;
        let flight = &mut self.flights[key];
        let (at, status) = self.model.ticket_ack(&flight.outcome);
        if at > context.now {
            if at != Instant::NEVER {
                self.timers.push(Reverse((at, key)));
            }
            return;
        }
        if behind && matches!(flight.work, Work::Write { .. }) && !self.failed && !self.sealed {
            self.stats.late_count += 1;
            self.timers.push(Reverse((context.now + BEHIND_WAIT, key)));
            return;
        }
        flight.answered = Some((at, status));
        if status.is_ok() {
            match &flight.work {
                Work::Write { data, .. } => {
                    self.overlay.put(flight.offset, flight.length, Some(Rc::clone(data)));
                }
                Work::Trim => {
                    self.overlay.put(flight.offset, flight.length, None);
                }
                _ => {}
            }
        }
        if !self.conclude(key, context) {
            self.waiting.push(key);
        }
    }

    /// Reports a flight done if the backing is too.
    fn conclude(&mut self, key: usize, context: &mut DeviceContext<'_>) -> bool {
        let flight = &self.flights[key];
        let Some((at, mut status)) = flight.answered else { return false };
        // a timer that was heard of late is the host's affair, not the drive's
        let took = Some(at.since(flight.submitted));
        let ready = match &flight.work {
            Work::Read { fetched, .. } => *fetched,
            _ if self.failed || status.is_err() => true,
            Work::Fua { .. } if self.sealed => true,
            Work::Fua { version, .. } => self.overlay.is_written(*version),
            Work::Flush { until } => self.overlay.written_until(*until),
            Work::Write { .. } | Work::Trim => true,
        };
        if !ready {
            return false;
        }
        let Flight { io, offset, length, work, .. } = self.flights.remove(key);
        if self.failed {
            status = Err(IoError::Device(self.id));
        }
        let mut done = IoDone { io, status, blocks: None, bytes: Vec::new(), took };
        match work {
            Work::Read { memory, at, into, number, .. } => {
                self.overlay.lay_over(offset, length, &memory, at as usize);
                self.overlay.read_ends(number);
                match into {
                    Some(payload) if status.is_ok() => {
                        done.blocks = block_range(offset, payload, at, length);
                    }
                    Some(payload) => context.payloads.read_failed(payload, at, length),
                    None => {
                        memory.append_to(0, length as usize, &mut done.bytes);
                        context.payloads.give_back(memory);
                    }
                }
            }
            Work::Write { from: Some((payload, at)), .. }
            | Work::Fua { from: Some((payload, at)), .. } => {
                done.blocks = block_range(offset, payload, at, length);
            }
            _ => {}
        }
        context.done.push_back(done);
        true
    }

    fn conclude_waiting(&mut self, context: &mut DeviceContext<'_>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|key| !self.conclude(*key, context));
        assert!(self.waiting.is_empty(), "concluding adds nothing");
        self.waiting = waiting;
    }

    /// The backing refused something: this drive has failed, by name.
    fn fail(&mut self, now: Instant, op: &str, range: (u64, u64), result: i32) {
        let why = match u64::try_from(result) {
            Ok(moved) => {
                let cut = self.file().and_then(OpenedFile::is_cut);
                cut.unwrap_or_else(|| format!("its file moved {moved} bytes"))
            }
            Err(_) => failures::errno(result),
        };
        self.failures.note(now, op, range, &why);
        self.failed = true;
    }

    fn file(&self) -> Option<&OpenedFile> {
        match &self.backing {
            Backing::File(file) => Some(file),
            Backing::Ram(_) => None,
        }
    }

    /// A flush of a file that is shorter than it was: what was acknowledged is not there any more.
    fn notices_cut(&mut self, now: Instant) {
        if let Some(why) = self.file().and_then(OpenedFile::is_cut) {
            self.failures.note(now, "flush", (0, 0), &why);
            self.failed = true;
        }
    }
}

impl Device for EmulatedDevice {
    fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    fn submit(&mut self, io: Io, context: &mut DeviceContext<'_>) {
        if !fits(&io.op, self.model.capacity_bytes()) {
            context.finish(io.id, Err(IoError::OutOfRange));
            return;
        }
        if matches!(io.op, IoOp::Flush) && !self.failed && !self.sealed {
            self.notices_cut(context.now);
        }
        if self.failed {
            let why = "the drive failed before";
            self.failures.note(context.now, failures::name(&io.op), extent(&io.op), why);
            context.finish(io.id, Err(IoError::Device(self.id)));
            return;
        }
        let (offset, length) = extent(&io.op);
        let outcome = self.ask_model(&io.op, context.now);
        let work = self.work(io.op, &outcome, context);
        let submitted = context.now;
        let flight = Flight { io: io.id, outcome, offset, length, work, submitted, answered: None };
        let key = self.flights.insert(flight);
        self.fetch(key, context);
        if outcome.ack_at != Instant::NEVER {
            self.timers.push(Reverse((outcome.ack_at, key)));
        }
        self.drain(context);
    }

    fn finished(&mut self, value: u64, result: i32, context: &mut DeviceContext<'_>) {
        if value & BATCH_BIT == 0 {
            let key = value as usize;
            let flight = &mut self.flights[key];
            let whole = u64::try_from(result).is_ok_and(|moved| moved == flight.length);
            if let Work::Read { fetched, .. } = &mut flight.work {
                *fetched = true;
            }
            if !whole {
                let range = (flight.offset, flight.length);
                self.fail(context.now, "read", range, result);
            }
        } else {
            let versions = self.batches.remove((value & !BATCH_BIT) as usize);
            let bytes = self.overlay.bytes_of(&versions);
            // a hole answers 0, a write its length
            if result < 0 || (result != 0 && i64::from(result) != bytes as i64) {
                let at = self.overlay.offset_of(&versions);
                self.fail(context.now, "write", (at, bytes), result);
            } else {
                self.overlay.written(&versions);
            }
            self.drain(context);
        }
        self.conclude_waiting(context);
    }

    fn due(&self) -> Instant {
        let timer = self.timers.peek().map_or(Instant::NEVER, |timer| timer.0.0);
        timer.min(self.next_drain)
    }

    fn tick(&mut self, context: &mut DeviceContext<'_>) {
        if let Some(Reverse((at, key))) = self.timers.peek().copied()
            && at <= context.now
        {
            self.timers.pop();
            self.answer(key, context);
        }
        self.drain(context);
        self.conclude_waiting(context);
    }

    fn failures(&self) -> Option<DriveFailures> {
        self.failures.told()
    }

    fn emulated(&self) -> Option<EmulatedStats> {
        Some(EmulatedStats { volatile_bytes: self.overlay.held_bytes(), ..self.stats })
    }
}

#[cfg(test)]
#[path = "emulated/tests.rs"]
mod tests;
