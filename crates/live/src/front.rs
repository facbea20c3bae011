//! How does a front end serve its users without knowing drives, and without the event loop knowing its
//! protocol?
//!
//! A front end is told what happens to its sockets ([`Front::finished`]) and its requests
//! ([`Front::completed`]), and acts through the [`FrontContext`]. All of it runs on the event loop's one thread,
//! so nothing here may block. A front end that needs threads of its own talks through a
//! [`crate::remote_queue::RemoteQueue`].

use crate::buffer::taken_bytes;
use crate::device::{self, Device, DeviceConfig, EmulatedStats};
use crate::drives::Drives;
use crate::engine::{Extent, Leave, LiveEngine};
use crate::payload::Payloads;
use crate::status::{EmulatedDrive, Live, Status};
use crate::uring::{Finished, Ring, Tag};
use slab::Slab;
use std::collections::VecDeque;
use tandem_block::{
    Batch, DeviceId, DurabilityClass, Instant, ObjectId, ObjectOp, Op, PayloadId, Request,
    RequestId, RequestKind, RequestType, StreamId,
};
use tandem_engine::{Done, Engine, TierConfig};

/// One way to ask for bytes.
pub trait Front {
    /// The engine is ready: begin to listen.
    fn begin(&mut self, context: &mut FrontContext<'_>);

    /// One of its ring operations is done.
    fn finished(&mut self, done: Finished, context: &mut FrontContext<'_>);

    /// One of its requests is done. A read's payload must be given back with [`FrontContext::release`]
    /// after its bytes were used.
    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>);

    /// All events of this turn are handled: send what was gathered.
    fn turn_ends(&mut self, context: &mut FrontContext<'_>);

    /// There is room again after [`FrontContext::has_room`] said no.
    fn room(&mut self, context: &mut FrontContext<'_>);

    /// Take no new requests; those under way will still complete.
    fn stop(&mut self, context: &mut FrontContext<'_>);

    /// Is every reply out?
    fn is_quiet(&self) -> bool;

    /// After [`Front::stop`]: does it ask for nothing more? The engine takes requests until every front
    /// end says so, but does not wait for ever.
    fn is_durable(&self) -> bool {
        true
    }

    /// Has somebody left something that the ring does not know of? Asked often, must be cheap.
    fn has_news(&mut self) -> bool {
        false
    }

    /// The event loop is about to sleep: what [`Front::has_news`] would find must wake it, through the
    /// ring or another thread.
    fn falls_asleep(&mut self, _context: &mut FrontContext<'_>) {}

    /// Bytes of its requests under way at most, see [`FrontContext::has_room`]; `None`: the event loop's default.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// What a front end asks the engine for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontRequest {
    /// Which volume.
    pub object: ObjectId,
    /// What to do.
    pub op: Op,
    /// First byte, a multiple of 512.
    pub offset_bytes: u64,
    /// How many bytes, a multiple of 512.
    pub length_bytes: u64,
    /// Durable before it completes.
    pub fua: bool,
    /// Who asks.
    pub stream: StreamId,
    /// What an acknowledgement promises.
    pub class: DurabilityClass,
    /// A write's sealed bytes, which belong to the engine from here on; `NONE` otherwise.
    pub payload: PayloadId,
}

/// What the engine was asked for.
#[derive(Debug)]
pub(crate) enum Asked {
    Request(Request),
    Batch(Batch),
}

/// A request under way, or a batch.
#[derive(Debug)]
pub(crate) struct Pending {
    pub asked: Asked,
    pub front: usize,
    pub cookie: u64,
}

/// Requests between fronts and engine.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub pending: Slab<Pending>,
    pub queue: VecDeque<usize>,
    /// Requests of one front end at most.
    pub max: usize,
    /// By front end: none of them can take what another one needs.
    pub loads: Vec<Load>,
    /// Bytes of reads under way, of all front ends: memory that the engine will ask for.
    pub reading_bytes: u64,
    pub stop_asked: bool,
    pub wake_asked: bool,
}

/// What one front end has under way.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub requests: usize,
    pub bytes: u64,
    pub bytes_max: u64,
    /// It was told that there is no room.
    pub waits_for_room: bool,
}

impl Load {
    fn allows(&self, length_bytes: u64, requests_max: usize) -> bool {
        // with nothing under way nobody would ever make room, so one request always passes
        self.requests == 0
            || (self.requests < requests_max
                && self.bytes.saturating_add(length_bytes) <= self.bytes_max)
    }
}

impl Asked {
    /// Bytes that are read or written.
    fn moved_bytes(&self) -> u64 {
        match self {
            Asked::Request(Request { op: Op::Read | Op::Write, length_bytes, .. }) => *length_bytes,
            Asked::Request(_) | Asked::Batch(_) => 0,
        }
    }

    /// Memory that the engine will ask for.
    fn read_bytes(&self) -> u64 {
        match self {
            Asked::Request(Request { op: Op::Read, length_bytes, .. }) => memory_of(*length_bytes),
            Asked::Request(_) | Asked::Batch(_) => 0,
        }
    }
}

/// What a buffer for so many bytes takes.
fn memory_of(length_bytes: u64) -> u64 {
    usize::try_from(length_bytes).map_or(u64::MAX, |length| taken_bytes(length) as u64)
}

impl Counter {
    fn add(&mut self, pending: Pending) {
        let load = &mut self.loads[pending.front];
        load.requests += 1;
        load.bytes += pending.asked.moved_bytes();
        self.reading_bytes += pending.asked.read_bytes();
        let key = self.pending.insert(pending);
        self.queue.push_back(key);
    }

    /// A request is answered.
    pub fn remove(&mut self, key: usize) -> Pending {
        let pending = self.pending.remove(key);
        let load = &mut self.loads[pending.front];
        load.requests -= 1;
        load.bytes -= pending.asked.moved_bytes();
        self.reading_bytes -= pending.asked.read_bytes();
        pending
    }

    /// Is there a front end that waits for room and could have it?
    pub fn takes_again(&self, front: usize) -> bool {
        let load = &self.loads[front];
        load.waits_for_room && load.allows(0, self.max)
    }
}

/// What a front end may use, lent for one call.
pub struct FrontContext<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// The ring; operations are tagged by [`FrontContext::tag`].
    pub ring: &'a mut Ring,
    /// The payloads.
    pub payloads: &'a mut Payloads,
    pub(crate) counter: &'a mut Counter,
    pub(crate) engine: &'a mut dyn LiveEngine,
    pub(crate) devices: &'a mut Drives,
    pub(crate) front: usize,
}

impl FrontContext<'_> {
    /// A tag whose completion comes back to this front end.
    pub fn tag(&self, value: u64) -> Tag {
        Tag { owner: FRONT_OWNERS + self.front as u32, value }
    }

    /// May a request with this many bytes be taken now? If not, [`Front::room`] follows later. What other
    /// front ends have under way is no matter.
    pub fn has_room(&mut self, length_bytes: u64) -> bool {
        let counter = &mut *self.counter;
        let load = &mut counter.loads[self.front];
        let room = load.allows(length_bytes, counter.max);
        load.waits_for_room |= !room;
        room
    }

    /// Leaves a limit of the process memory for a request of this many bytes? If not it is to be refused
    /// (`IoError::NoMemory`).
    pub fn has_memory(&mut self, length_bytes: u64) -> bool {
        self.payloads.has_memory(memory_of(length_bytes), self.counter.reading_bytes)
    }

    /// Sends a request to the engine; `cookie` comes back with its completion.
    pub fn submit(&mut self, front_request: FrontRequest, cookie: u64) {
        let request = Request {
            id: RequestId(self.counter.pending.vacant_key() as u64),
            object: front_request.object,
            op: front_request.op,
            offset_bytes: front_request.offset_bytes,
            length_bytes: front_request.length_bytes,
            fua: front_request.fua,
            stream: front_request.stream,
            class: front_request.class,
            kind: RequestKind::User,
            data_type: RequestType::Data,
            payload: front_request.payload,
            arrived: self.now,
        };
        self.counter.add(Pending { asked: Asked::Request(request), front: self.front, cookie });
    }

    /// Hands changes of objects to the engine, which happen together or not at all; `cookie` comes back
    /// when they can be seen, or, if they shall be `durable`, when they are.
    pub fn batch(&mut self, ops: Vec<ObjectOp>, durable: bool, cookie: u64) {
        let id = RequestId(self.counter.pending.vacant_key() as u64);
        let batch = Batch { id, ops, durable };
        self.counter.add(Pending { asked: Asked::Batch(batch), front: self.front, cookie });
    }

    /// The engine, to look at its objects and what is noted of them; `None` in a test without one.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.engine()
    }

    /// Gives a payload back.
    pub fn release(&mut self, payload: PayloadId) {
        if payload != PayloadId::NONE {
            self.payloads.release(payload);
        }
    }

    /// What lies where in an object.
    pub fn extents(&self, object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        self.engine.extents(object, range, out);
    }

    /// The engine's status, with the event loop's own under `live`.
    pub fn status(&self) -> Status {
        let emulated = |(device, drive): (usize, &dyn Device)| {
            let EmulatedStats { volatile_bytes, late_count } = drive.emulated()?;
            Some(EmulatedDrive { device, volatile_bytes, late_count })
        };
        let live = Live {
            requests_in_flight: self.counter.pending.len(),
            payload_bytes: self.payloads.used_bytes(),
            emulated: self.devices.iter().enumerate().filter_map(emulated).collect(),
        };
        Status { live, ..self.engine.status(self.now) }
    }

    /// Gives a volume another tier; it is carried out with the next event.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn set_tier(&mut self, volume: &str, tier: TierConfig) -> Result<(), String> {
        self.engine.set_tier(volume, tier)
    }

    /// Could this drive be replaced, or its empty place be taken, by one of so many bytes?
    ///
    /// # Errors
    /// Why not, in words.
    pub fn can_replace(&self, device: DeviceId, bytes: u64) -> Result<(), String> {
        self.engine.can_replace(device, bytes)
    }

    /// Of a place that is empty: what a drive needs for it, and how much is copied there, in bytes.
    pub fn empty_place(&self, device: DeviceId) -> Option<(u64, u64)> {
        self.engine.engine().and_then(|engine| engine.empty_place(device))
    }

    /// Opens a drive that shall take this one's place, under an id of its own; what comes of it is in the
    /// status, and told to who was set by `EventLoop::on_succession`.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn replace(
        &mut self,
        device: DeviceId,
        new: DeviceConfig,
        uuid: u128,
    ) -> Result<(), String> {
        self.engine.can_replace(device, u64::MAX)?;
        let opened = device::open(device, new).map_err(|error| error.to_string())?;
        let bytes = opened.capacity_bytes();
        self.engine.can_replace(device, bytes)?;
        self.devices.add(opened);
        self.engine.replace(device, bytes, uuid).expect("asked before");
        self.counter.wake_asked = true;
        Ok(())
    }

    /// Ends the replacement under way; the old drive stays.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn cancel_replace(&mut self) -> Result<(), String> {
        self.engine.cancel_replace()?;
        self.counter.wake_asked = true;
        Ok(())
    }

    /// What would be moved if this drive were drained, in bytes.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub fn can_drain(&self, device: DeviceId) -> Result<u64, String> {
        self.engine.can_drain(device)
    }

    /// Moves everything off a drive, or ends that, or removes the drive when that is done; what comes of it
    /// is in the status.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn change_members(&mut self, asked: Leave) -> Result<(), String> {
        self.engine.change_members(asked)?;
        self.counter.wake_asked = true;
        Ok(())
    }

    /// Asks the event loop to stop cleanly.
    pub fn stop_event_loop(&mut self) {
        self.counter.stop_asked = true;
    }
}

/// Owner numbers in ring tags: the event loop itself, then fronts, then devices.
pub(crate) const EVENT_LOOP_OWNER: u32 = 0;
pub(crate) const FRONT_OWNERS: u32 = 1;
pub(crate) const DEVICE_OWNERS: u32 = 1 << 16;
