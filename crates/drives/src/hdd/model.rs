//! When will this hard drive answer? One command at a time, by next-free timestamps.
//!
//! Source: models §5.2; design decision 4.
//!
//! Divergence from a real drive:
//! - the platter takes a slow write's room from the oldest data; which sectors are still volatile
//!   is known as a count only (any subset of the volatile may be lost);
//! - a read overtakes the writes that wait behind the current command, but their promised
//!   acknowledgements do not move; commands submitted later pay for it;
//! - a write that ends a mid stage before the platter has had time for the bytes of that stage
//!   waits for the platter, so that no request size beats the media rate in the long run; the
//!   constant stall of models §5.2 alone would let large requests do so.

use super::buffer::Buffer;
use super::drain::Drain;
use super::mechanics::Mechanics;
use super::shingled::MediaCache;
use super::staircase::{Stage, Staircase};
use crate::ledger::Ledger;
use crate::rate::transfer_ns;
use crate::spec::HddSpec;
use std::collections::VecDeque;
use tandem_block::{
    Drive, DriveEvent, DriveEventKind, DriveOp, DriveOpKind, Instant, IoError, Outcome, Rng,
};

/// A modelled hard drive.
#[derive(Clone, Debug)]
pub struct HddModel {
    capacity_bytes: u64,
    staircase: Staircase,
    drain: Drain,
    mechanics: Mechanics,
    buffer: Buffer,
    media_cache: Option<MediaCache>,
    write_cache: bool,
    flush_base_ns: u64,
    read_overhead_ns: u64,
    buffer_hit_ns: u64,
    interface_bytes_per_s: u64,
    /// When everything submitted so far is done.
    free_ns: u64,
    /// When the last read is done.
    read_free_ns: u64,
    /// Ends of the commands other than reads that are not over yet.
    ends_ns: VecDeque<u64>,
    /// Where the last write ended; `None` after a read broke the stream.
    write_end: Option<u64>,
    /// The state that the last write met.
    met: Option<Stage>,
    ledger: Ledger,
}

impl HddModel {
    /// An idle drive with an empty buffer.
    ///
    /// # Panics
    /// If the spec was built by hand and makes no sense.
    pub fn new(spec: &HddSpec, seed: u64, keep_events: bool) -> Self {
        let capacity_bytes = spec.capacity.get().0 / 4096 * 4096;
        let mut rng = Rng::new(seed);
        HddModel {
            capacity_bytes,
            staircase: Staircase::new(spec, rng.split(1)),
            drain: Drain::new(spec.drain.get(), spec.idle.get().0),
            mechanics: Mechanics::new(spec, capacity_bytes, rng.split(2)),
            buffer: Buffer::new(spec.fast_stage.get().0, spec.read_ahead.get().0),
            media_cache: spec.smr.as_ref().map(MediaCache::new),
            write_cache: spec.write_cache.get(),
            flush_base_ns: spec.flush_base.get().0,
            read_overhead_ns: spec.read_overhead.get().0,
            buffer_hit_ns: spec.buffer_hit.get().0,
            interface_bytes_per_s: spec.interface_rate.get().0,
            free_ns: 0,
            read_free_ns: 0,
            ends_ns: VecDeque::new(),
            write_end: None,
            met: None,
            ledger: Ledger::new(keep_events),
        }
    }

    /// From `now` on the drive behaves as `spec` says; what it holds, where its head stands and its
    /// capacity stay. Commands under way end as they were promised.
    pub fn adopt(&mut self, now: Instant, spec: &HddSpec) {
        self.catch_up(now.ns.max(self.free_ns));
        self.staircase.adopt(spec);
        self.drain.adopt(spec.drain.get(), spec.idle.get().0);
        self.mechanics.adopt(spec);
        if self.media_cache.is_some() != spec.smr.is_some() {
            self.media_cache = spec.smr.as_ref().map(MediaCache::new);
        }
        self.write_cache = spec.write_cache.get();
        self.flush_base_ns = spec.flush_base.get().0;
        self.read_overhead_ns = spec.read_overhead.get().0;
        self.buffer_hit_ns = spec.buffer_hit.get().0;
        self.interface_bytes_per_s = spec.interface_rate.get().0;
    }

    /// The stage that the drive is in.
    pub fn stage(&self) -> Stage {
        self.staircase.stage
    }

    /// The state that the last write met; `None` before the first.
    pub fn last_write_met(&self) -> Option<Stage> {
        self.met
    }

    /// Bytes taken in this stage.
    pub fn stage_bytes(&self) -> u64 {
        self.staircase.stage_bytes
    }

    /// Bytes that this stage takes in all, jitter included.
    pub fn stage_budget_bytes(&self) -> u64 {
        self.staircase.budget_bytes
    }

    /// Dirty bytes as of the last command.
    pub fn dirty_bytes(&self) -> u64 {
        self.drain.dirty_bytes()
    }

    /// Bytes in the media cache of a shingled drive; 0 for others.
    pub fn media_cache_bytes(&self) -> u64 {
        self.media_cache.as_ref().map_or(0, |cache| cache.used_bytes)
    }

    /// Moving the head from one byte to another, without rotation.
    pub fn seek_ns(&self, from: u64, to: u64) -> u64 {
        self.mechanics.seek_ns(from, to)
    }

    /// When everything submitted so far is done.
    pub fn free_at(&self) -> Instant {
        Instant::from_ns(self.free_ns)
    }

    /// Where bytes leave the buffer: at the end of the write stream.
    fn drain_offset(&self) -> u64 {
        self.write_end.unwrap_or(self.mechanics.head).min(self.capacity_bytes - 1)
    }

    /// What has happened since the last command, if the next one begins at `start_ns`.
    fn catch_up(&mut self, start_ns: u64) {
        let offset = self.drain_offset();
        let drained = self.drain.drained(start_ns, |time| self.mechanics.media_bytes(offset, time));
        let begins_ns = self.drain.begins_ns();
        let was_dirty = self.drain.dirty_bytes() > 0;
        self.drain.settle(start_ns, drained);
        if drained > 0 {
            self.staircase.give_back(drained);
            let begins = begins_ns.unwrap_or(start_ns);
            let ends = begins + self.mechanics.media_ns(offset, drained);
            self.ledger.note(begins, ends.min(start_ns), DriveEventKind::IdleDrain);
        }
        if was_dirty && self.drain.dirty_bytes() == 0 {
            self.staircase.enter_fast(start_ns);
        }
        if let (Some(cache), Some(begins)) = (&mut self.media_cache, begins_ns)
            && start_ns > begins
            && cache.used_bytes > 0
        {
            let cleaned_ns = cache.clean(start_ns - begins);
            self.ledger.note(begins, begins + cleaned_ns, DriveEventKind::BandRewrite);
        }
    }

    /// A command other than a read, submitted at `now_ns`, occupies the drive until `end_ns`.
    fn occupy(&mut self, now_ns: u64, end_ns: u64) {
        self.forget_ended(now_ns);
        self.free_ns = end_ns;
        self.ends_ns.push_back(end_ns);
        self.drain.busy(end_ns);
    }

    fn forget_ended(&mut self, now_ns: u64) {
        while self.ends_ns.front().is_some_and(|end| *end <= now_ns) {
            self.ends_ns.pop_front();
        }
    }

    fn write(&mut self, now_ns: u64, op: &DriveOp, fua: bool) -> (u64, Option<u64>) {
        let (offset, bytes) = (op.offset_bytes, op.length_bytes);
        let start = now_ns.max(self.free_ns);
        self.catch_up(start);
        let sequential = self.write_end == Some(offset);
        let placed = if self.write_cache {
            start + self.placing_ns(start, sequential, (offset, bytes))
        } else {
            start
        };
        let end = if !self.write_cache {
            self.write_through(placed, sequential, (offset, bytes))
        } else if fua {
            let into_buffer = placed + self.staircase.fast_latency_ns(bytes);
            let reach = self.mechanics.reach_ns(into_buffer, offset);
            into_buffer + reach + self.mechanics.media_ns(offset, bytes)
        } else {
            self.write_staircase(placed, offset, bytes)
        };
        self.write_end = Some(offset + bytes);
        self.mechanics.head = (offset + bytes).min(self.capacity_bytes - 1);
        self.buffer.note_write(offset, bytes);
        self.buffer.stop_reading_ahead();
        self.occupy(now_ns, end);
        (end, (fua || !self.write_cache).then_some(end))
    }

    /// What a write costs that does not continue the stream: the drive must place it, for its spec's
    /// share of seek and turn. A shingled drive puts it into its media cache.
    fn placing_ns(&mut self, start: u64, sequential: bool, (offset, bytes): (u64, u64)) -> u64 {
        let pristine = self.drain.dirty_bytes() == 0 && self.staircase.stage_bytes == 0;
        if sequential {
            return 0;
        }
        if let Some(cache) = &mut self.media_cache {
            let rewritten = cache.take(offset, bytes);
            if rewritten == 0 {
                return 0;
            }
            let rewrite_ns = self.mechanics.media_ns(offset, rewritten);
            self.ledger.note(start, start + rewrite_ns, DriveEventKind::BandRewrite);
            return rewrite_ns;
        }
        if pristine { 0 } else { self.mechanics.placing_ns(start, offset) }
    }

    /// A write with the cache off: it ends on the platter. In a stream each write has just missed
    /// its sector and waits for a whole turn.
    fn write_through(&mut self, start: u64, sequential: bool, (offset, bytes): (u64, u64)) -> u64 {
        let reach = if sequential {
            self.mechanics.turn_ns()
        } else {
            self.mechanics.reach_ns(start, offset)
        };
        start + self.read_overhead_ns + reach + self.mechanics.media_ns(offset, bytes)
    }

    /// A write into the buffer: each meets the state at its start.
    fn write_staircase(&mut self, start: u64, offset: u64, bytes: u64) -> u64 {
        let stage = self.staircase.meets(bytes);
        let end = match stage {
            Stage::Fast => start + self.staircase.fast_latency_ns(bytes),
            Stage::Mid => start + self.staircase.mid_latency_ns(bytes),
            Stage::Slow => self.slow_end(start, offset, bytes),
        };
        if stage == Stage::Slow {
            // The write takes the room of as much older data, and frees a mid stage beside it.
            let left = self.drain.dirty_bytes().saturating_sub(self.staircase.mid_bytes());
            self.drain.shrink_to(left.max(bytes.min(self.staircase.budget_bytes)), end);
            self.staircase.enter_mid(end);
        } else {
            self.staircase.stage_bytes += bytes;
            self.drain.add(bytes);
        }
        if self.met != Some(stage) {
            let kind = match stage {
                Stage::Fast => DriveEventKind::Fast,
                Stage::Mid => DriveEventKind::Mid,
                Stage::Slow => DriveEventKind::Slow,
            };
            self.ledger.note(start, end, kind);
        }
        self.met = Some(stage);
        end
    }

    /// When a slow write ends: after the stall, and not before the platter has taken what the
    /// buffer had no room for.
    fn slow_end(&self, start: u64, offset: u64, bytes: u64) -> u64 {
        let stalled = start + self.staircase.slow_stall_ns + self.staircase.fast_latency_ns(bytes);
        let taken = self.staircase.stage_bytes + bytes;
        let (began, owed) = match self.staircase.stage {
            // In the fast stage the platter rests: only what exceeds the buffer must pass now.
            Stage::Fast => (start, taken - self.staircase.budget_bytes),
            _ => (self.staircase.began_ns, taken),
        };
        stalled.max(began + self.mechanics.media_ns(offset, owed))
    }

    fn read(&mut self, now_ns: u64, op: &DriveOp) -> u64 {
        let (offset, bytes) = (op.offset_bytes, op.length_bytes);
        self.forget_ended(now_ns);
        // Behind the current command and earlier reads, ahead of the commands that wait.
        let current_end = self.ends_ns.front().copied().unwrap_or(0);
        let start = now_ns.max(current_end).max(self.read_free_ns);
        self.catch_up(start.max(self.free_ns));
        let ahead = |time| self.mechanics.media_bytes(offset, time);
        let held = self.buffer.holds_written(offset, bytes)
            || self.buffer.holds_read(start, (offset, bytes), ahead);
        let cost = if held {
            self.buffer_hit_ns + transfer_ns(bytes, self.interface_bytes_per_s)
        } else if self.buffer.continues(offset) {
            self.buffer_hit_ns + self.mechanics.media_ns(offset, bytes)
        } else {
            let reach = self.mechanics.reach_ns(start + self.read_overhead_ns, offset);
            self.read_overhead_ns + reach + self.mechanics.media_ns(offset, bytes)
        };
        let end = start + cost;
        if !held {
            self.write_end = None;
            self.mechanics.head = (offset + bytes).min(self.capacity_bytes - 1);
            self.buffer.note_read(offset + bytes, end);
        }
        self.read_free_ns = end;
        self.free_ns = self.free_ns.max(start) + cost;
        self.drain.busy(self.free_ns);
        end
    }

    fn flush(&mut self, now_ns: u64) -> u64 {
        let start = now_ns.max(self.free_ns);
        self.catch_up(start);
        let dirty = self.drain.dirty_bytes();
        let end = start + self.flush_base_ns + self.mechanics.media_ns(self.drain_offset(), dirty);
        self.drain.shrink_to(0, end);
        self.staircase.enter_fast(end);
        self.ledger.note(start, end, DriveEventKind::Flush);
        self.occupy(now_ns, end);
        end
    }
}

impl Drive for HddModel {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        crate::check_range(&op, self.capacity_bytes);
        self.ledger.arrive(now);
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
            // A hint that a hard drive takes and ignores.
            DriveOpKind::Trim => (now.ns + self.buffer_hit_ns, None),
        };
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
        let offset = self.drain_offset();
        self.drain.volatile_bytes(now.ns, |time| self.mechanics.media_bytes(offset, time))
    }

    fn power_cycle(&mut self, now: Instant) {
        self.ledger.cut(now);
        self.drain.clear(now.ns);
        self.staircase.enter_fast(now.ns);
        self.buffer.clear();
        self.ends_ns.clear();
        (self.free_ns, self.read_free_ns) = (now.ns, now.ns);
        (self.write_end, self.met) = (None, None);
    }

    fn take_events(&mut self) -> Vec<DriveEvent> {
        self.ledger.take_events()
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
