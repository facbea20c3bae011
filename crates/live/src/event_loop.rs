//! How does one turn of the real event loop go?
//!
//! Source: design decision 1; "A request". One thread does everything, in this order, for ever:
//!
//! ```text
//!   reap the ring ─▶ fronts and devices hear of it ─▶ emulated drives and the alarm that are due
//!     ─▶ requests and completions go to the engine, its commands are carried out, until all is quiet
//!     ─▶ fronts send what they gathered ─▶ spin a little, then sleep until something happens
//! ```
//!
//! Between any two of these steps' requests, emulated drives that are due are heard, the one that
//! answered first before the others: a burst is long. Drives get their next commands before clients get
//! their answers: a drive that waits stands still, a client that waits has others on the way.

mod rest;

use crate::clock::Clock;
use crate::core::Core;
use crate::device::{self, Device, DeviceConfig, DriveFailures, IoDone, OpenError};
use crate::drives::Drives;
use crate::engine::LiveEngine;
use crate::front::{
    Asked, Counter, DEVICE_OWNERS, EVENT_LOOP_OWNER, FRONT_OWNERS, Front, Load, Pending,
};
use crate::payload::Payloads;
use crate::remote_queue::{self, RemoteQueue, Stopper, Waker};
use crate::spin::{Awaited, Spin};
use crate::uring::{Finished, Ring, Signals, Submission, Tag};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_block::{DeviceId, Duration, Instant, MIB, Request, StreamId};
use tandem_engine::{Command, Done, Event, StartError};

/// The knobs of an event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLoopConfig {
    /// When drive commands are handed to the kernel. Default: each at once.
    pub submission: Submission,
    /// How long to spin after the last event before sleeping, where waits have been shorter than
    /// that. Default 150 us: a wake-up costs 20 to 30 us (measured, deps 3), and the flash that one
    /// spins for answers within 60 to 140 us (measured on a virtio disk); zero saves CPU.
    pub spin: Duration,
    /// Bytes of requests under way of each front end at most, unless it has a bound of its own; beyond,
    /// it takes no more. Default 128 MiB (guess).
    pub front_bytes_max: u64,
    /// Buffers of requests are kept for later ones as far as they are, with those in use, no more than
    /// this. Default 512 MiB (guess).
    pub kept_bytes_max: u64,
    /// Requests of each front end under way at most. Default 4096 (guess).
    pub requests_max: usize,
}

impl Default for EventLoopConfig {
    fn default() -> Self {
        EventLoopConfig {
            submission: Submission::Eager,
            spin: Duration::from_us(150),
            front_bytes_max: 128 * MIB,
            kept_bytes_max: 512 * MIB,
            requests_max: 4096,
        }
    }
}

/// Why an event loop ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventLoopError {
    /// No ring.
    #[error(
        "io_uring is not available ({0}); Linux 5.15 or newer is needed, the sysctl \
         kernel.io_uring_disabled must be 0, and a container's seccomp profile must allow it"
    )]
    Ring(std::io::Error),
    /// The pool cannot be served.
    #[error(transparent)]
    Start(StartError),
    /// A second signal came before the clean end.
    #[error("stopped by a second signal before everything was durable; the pool will recover")]
    Interrupted,
}

/// Opened and locked devices, in the order of their ids.
pub struct Devices {
    devices: Vec<Box<dyn Device>>,
}

impl Devices {
    /// Opens all devices of a set.
    ///
    /// # Errors
    /// If one cannot be opened; none stays locked then.
    ///
    /// # Panics
    /// With more than 256 devices.
    pub fn open(configs: Vec<DeviceConfig>) -> Result<Devices, OpenError> {
        let open = |(index, config)| {
            let id = u8::try_from(index).expect("a set has at most 256 devices");
            device::open(DeviceId(id), config)
        };
        let devices = configs.into_iter().enumerate().map(open).collect::<Result<_, _>>()?;
        Ok(Devices { devices })
    }

    /// Usable bytes of each.
    pub fn capacities(&self) -> Vec<u64> {
        self.devices.iter().map(|device| device.capacity_bytes()).collect()
    }
}

/// What became of a drive's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its successor has it.
    Succeeded,
    /// Its successor was let go.
    Stayed,
    /// It was removed, and the place is empty.
    Removed,
}

/// Hears of the end of a replacement, and of drives that were removed.
pub type Successions = Box<dyn FnMut(DeviceId, Change)>;

/// Hears of every request that is done.
pub type Observer = Box<dyn FnMut(&Request, &Done, Instant)>;

/// Where the event loop is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    /// Fronts have until this instant to ask for the last things.
    Settling(Instant),
    Stopping,
    /// Answering the last requests until this instant at most.
    Ending(Instant),
}

/// Front ends have this long to finish what takes several requests: behind a hard drive that flushes and
/// checkpoints one may take seconds (guess).
const LAST_REQUESTS: Duration = Duration::from_s(15);
/// Everything is durable; replies have this long to leave.
const LAST_REPLIES: Duration = Duration::from_s(2);
/// Sleeping is not exact enough for what is due sooner than this (measured: wake-ups of 20-30 us,
/// at times 60).
const TIMER_LEAD: Duration = Duration::from_us(80);
/// A yield that takes longer has let somebody else run (measured: 0.3 us for nothing, 2 us and more
/// for a switch there and back).
const YIELDED: Duration = Duration::from_us(2);
/// So many answers of emulated drives are heard before the ring is asked again (guess): a drive that always
/// has another would keep everybody else waiting.
const HEEDED_MAX: usize = 256;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_s(1);

const SIGNALS: u64 = 1;
const WAKER: u64 = 2;

/// One set of drives, its engine, and who asks.
pub struct EventLoop<M: LiveEngine> {
    config: EventLoopConfig,
    core: Core,
    engine: M,
    fronts: Vec<Box<dyn Front>>,
    observer: Option<Observer>,
    successions: Option<Successions>,
    commands: Vec<Command>,
    /// What clients are told when the other commands of the same call are carried out; kept to keep its
    /// memory.
    answers: Vec<Done>,
    signals: Option<Signals>,
    waker: Arc<Waker>,
    stop_asked: Arc<AtomicBool>,
    phase: Phase,
    failed: Option<EventLoopError>,
}

impl<M: LiveEngine> EventLoop<M> {
    /// An event loop over opened devices. It lives on the thread that calls.
    ///
    /// # Errors
    /// If the kernel gives no ring.
    pub fn new(
        config: EventLoopConfig,
        devices: Devices,
        engine: M,
    ) -> Result<EventLoop<M>, EventLoopError> {
        let core = Core {
            clock: Clock::start(),
            ring: Ring::new(config.submission).map_err(EventLoopError::Ring)?,
            payloads: Payloads::new(config.kept_bytes_max),
            devices: Drives::new(devices.devices),
            counter: Counter { max: config.requests_max.max(1), ..Counter::default() },
            done: VecDeque::new(),
            wake_at: Instant::NEVER,
            sums: Vec::new(),
        };
        // timers of a normal thread may be 50 us late on purpose; this one's must not. If the
        // kernel refuses, they are.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Ok(EventLoop {
            config,
            core,
            engine,
            fronts: Vec::new(),
            observer: None,
            successions: None,
            commands: Vec::new(),
            answers: Vec::new(),
            signals: None,
            waker: Arc::new(Waker::new().map_err(EventLoopError::Ring)?),
            stop_asked: Arc::new(AtomicBool::new(false)),
            phase: Phase::Starting,
            failed: None,
        })
    }

    /// Adds a front end. It begins to listen when the engine is ready.
    pub fn add_front(&mut self, front: Box<dyn Front>) {
        let bytes_max = front.memory_bytes().unwrap_or(self.config.front_bytes_max);
        self.core.counter.loads.push(Load { bytes_max, ..Load::default() });
        self.fronts.push(front);
    }

    /// Makes a way in for a front end with threads of its own; at most `capacity` requests wait in
    /// it.
    pub fn add_remote_queue(&mut self, capacity: usize, stream: StreamId) -> RemoteQueue {
        let (remote_queue, front) =
            remote_queue::remote_queue(capacity, stream, Arc::clone(&self.waker));
        self.add_front(Box::new(front));
        remote_queue
    }

    /// Lets somebody hear of every request that is done, for statistics.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Lets somebody hear of the end of every replacement, and of drives that were removed.
    pub fn on_succession(&mut self, successions: Successions) {
        self.successions = Some(successions);
    }

    fn tell_succession(&mut self, device: DeviceId, change: Change) {
        if let Some(successions) = &mut self.successions {
            successions(device, change);
        }
    }

    /// Stops cleanly on the first of these signals, at once on the second.
    pub fn stop_on(&mut self, signals: Signals) {
        self.signals = Some(signals);
    }

    /// Stops this event loop from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper { waker: Arc::clone(&self.waker), asked: Arc::clone(&self.stop_asked) }
    }

    /// The engine, for tables after the end.
    pub fn engine(&self) -> &M {
        &self.engine
    }

    /// What drives have failed: of those that failed anything, in the order of their places.
    pub fn failures(&self) -> Vec<DriveFailures> {
        self.core.devices.iter().filter_map(|device| device.failures()).collect()
    }

    /// Serves until somebody stops it.
    ///
    /// # Errors
    /// If the pool cannot be served, or the end was not clean.
    pub fn run(&mut self) -> Result<(), EventLoopError> {
        self.watch();
        let now = self.core.clock.now();
        self.engine.on(now, Event::Start, &mut self.commands);
        self.carry_out();
        let mut finished = Vec::new();
        let mut spin = Spin::new(self.config.spin, now);
        loop {
            let busy = self.turn(&mut finished);
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let now = self.core.clock.now();
            if let Phase::Ending(latest) = self.phase {
                let quiet = self.fronts.iter().all(|front| front.is_quiet());
                if quiet || now >= latest {
                    return Ok(());
                }
            }
            // news may end in no result yet, as a piece of a large body does; it keeps us awake too
            if busy || self.rest(now, &mut spin) {
                spin.begins(self.core.clock.now(), self.awaited());
            }
        }
    }

    fn awaited(&self) -> Awaited {
        if self.core.ring.drives_in_flight() > 0 { Awaited::Drive } else { Awaited::Client }
    }

    fn watch(&mut self) {
        let tag = |value| Tag { owner: EVENT_LOOP_OWNER, value };
        if let Some(signals) = &self.signals {
            self.core.ring.readable(tag(SIGNALS), signals.fd());
        }
        self.core.ring.readable(tag(WAKER), self.waker.fd());
    }

    /// One turn; true if anything happened.
    fn turn(&mut self, finished: &mut Vec<Finished>) -> bool {
        self.core.ring.poll(finished);
        let mut busy = !finished.is_empty();
        for done in finished.drain(..) {
            self.dispatch(done);
            self.heed_drives();
        }
        busy |= self.take_alarms();
        busy |= self.pump();
        for index in 0..self.fronts.len() {
            let now = self.core.clock.now();
            let mut context = self.core.context(index, now, &mut self.engine);
            self.fronts[index].turn_ends(&mut context);
        }
        self.offer_room();
        if std::mem::take(&mut self.core.counter.wake_asked) {
            self.engine.on(self.core.clock.now(), Event::Wake, &mut self.commands);
            self.carry_out();
            busy = true;
        }
        if self.core.counter.stop_asked || self.stop_asked.load(Ordering::Relaxed) {
            self.begin_stop();
        }
        busy |= self.stop_if_durable();
        // a front may have asked for more meanwhile
        busy | (!self.core.counter.queue.is_empty() && self.engine.can_accept())
    }

    fn dispatch(&mut self, done: Finished) {
        let owner = done.tag.owner;
        if owner >= DEVICE_OWNERS {
            self.core.device_finished(&done);
        } else if owner >= FRONT_OWNERS {
            let index = (owner - FRONT_OWNERS) as usize;
            let now = self.core.clock.now();
            let mut context = self.core.context(index, now, &mut self.engine);
            self.fronts[index].finished(done, &mut context);
        } else if done.tag.value == WAKER {
            self.waker.drain();
            self.core.ring.readable(done.tag, self.waker.fd());
        } else if let Some(signals) = &self.signals {
            let count = signals.drain();
            self.core.ring.readable(done.tag, signals.fd());
            if count > 1 || (count == 1 && self.phase != Phase::Serving) {
                self.failed = Some(EventLoopError::Interrupted);
            } else if count == 1 {
                self.core.counter.stop_asked = true;
            }
        }
    }

    /// What is due by the clock.
    fn take_alarms(&mut self) -> bool {
        let heard = self.heed_drives();
        let now = self.core.clock.now();
        if self.core.wake_at > now {
            return heard;
        }
        self.core.wake_at = Instant::NEVER;
        self.engine.on(now, Event::Wake, &mut self.commands);
        self.carry_out();
        true
    }

    /// Requests and completions to the engine, until there are none.
    fn pump(&mut self) -> bool {
        let mut busy = false;
        loop {
            if let Some(done) = self.core.done.pop_front() {
                self.completion(&done);
            } else if self.phase != Phase::Starting
                && self.engine.can_accept()
                && let Some(key) = self.core.counter.queue.pop_front()
            {
                let now = self.core.clock.now();
                let event = match &self.core.counter.pending[key].asked {
                    Asked::Request(request) => Event::Request(request),
                    Asked::Batch(batch) => Event::Batch(batch),
                };
                self.engine.on(now, event, &mut self.commands);
            } else {
                return busy;
            }
            busy = true;
            self.carry_out();
            self.heed_drives();
        }
    }

    /// What drives have answered meanwhile goes before further requests: a hard drive that is given one
    /// write at a time stands still until its answer is heard, and a burst of hundreds takes
    /// milliseconds to take in. Of emulated drives; what real ones have answered, the ring tells in the next
    /// turn. True if one had answered.
    fn heed_drives(&mut self) -> bool {
        for heeded in 0..HEEDED_MAX {
            if !self.core.tick() {
                return heeded > 0;
            }
            while let Some(done) = self.core.done.pop_front() {
                self.completion(&done);
                self.carry_out();
            }
        }
        true
    }

    fn completion(&mut self, done: &IoDone) {
        let mut sums = std::mem::take(&mut self.core.sums);
        sums.clear();
        if let Some((payload, at, length)) = done.blocks
            && done.status.is_ok()
        {
            self.core.payloads.checksums(payload, at, length, &mut sums);
        }
        let event = Event::Completion {
            io: done.io,
            status: done.status,
            checksums: &sums,
            bytes: &done.bytes,
            took: done.took,
        };
        let now = self.core.clock.now();
        self.engine.on(now, event, &mut self.commands);
        self.core.sums = sums;
    }

    /// Carries out what the engine has said, in order; clients are answered at the end.
    fn carry_out(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            match command {
                Command::Submit(io) => self.core.submit(io),
                Command::Complete(done) => self.answers.push(done),
                Command::Reserve { payload, length_bytes } => {
                    self.core.payloads.reserve(payload, length_bytes);
                }
                Command::Copy {
                    from,
                    from_offset_bytes,
                    into,
                    into_offset_bytes,
                    length_bytes,
                } => self.core.payloads.copy(
                    (from, from_offset_bytes),
                    (into, into_offset_bytes),
                    length_bytes,
                ),
                Command::Checksum { id, payload, offset_bytes, length_bytes } => {
                    let blocks = Some((payload, offset_bytes, length_bytes));
                    let done =
                        IoDone { io: id, status: Ok(()), blocks, bytes: Vec::new(), took: None };
                    self.core.done.push_back(done);
                }
                Command::Release(payload) => self.core.payloads.release(payload),
                Command::WakeAt(at) => self.core.wake_at = at,
                Command::Started(Ok(())) => self.begin_serving(),
                Command::Started(Err(error)) => self.failed = Some(EventLoopError::Start(error)),
                Command::Succeed { device } => {
                    self.core.devices.succeed(usize::from(device.0));
                    self.tell_succession(device, Change::Succeeded);
                }
                Command::LetGo { device } => {
                    self.core.devices.let_go();
                    self.tell_succession(device, Change::Stayed);
                }
                Command::Close { device } => {
                    self.core.devices.close(usize::from(device.0), device::nothing());
                    self.tell_succession(device, Change::Removed);
                }
                Command::Stopped => {
                    self.phase = Phase::Ending(self.core.clock.now() + LAST_REPLIES);
                }
            }
        }
        self.commands = commands;
        let mut answers = std::mem::take(&mut self.answers);
        for done in answers.drain(..) {
            self.complete(&done);
        }
        self.answers = answers;
    }

    fn complete(&mut self, done: &Done) {
        let key = usize::try_from(done.request.0).expect("requests are numbered by the event loop");
        let Pending { asked, front, cookie } = self.core.counter.remove(key);
        let now = self.core.clock.now();
        if let (Some(observer), Asked::Request(request)) = (&mut self.observer, &asked) {
            observer(request, done, now);
        }
        let mut context = self.core.context(front, now, &mut self.engine);
        self.fronts[front].completed(cookie, done, &mut context);
    }

    fn begin_serving(&mut self) {
        self.phase = Phase::Serving;
        let now = self.core.clock.now();
        for index in 0..self.fronts.len() {
            let mut context = self.core.context(index, now, &mut self.engine);
            self.fronts[index].begin(&mut context);
        }
        crate::listen::notify_ready();
    }

    fn begin_stop(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        crate::listen::notify_stopping();
        let now = self.core.clock.now();
        self.phase = Phase::Settling(now + LAST_REQUESTS);
        for index in 0..self.fronts.len() {
            let mut context = self.core.context(index, now, &mut self.engine);
            self.fronts[index].stop(&mut context);
        }
        self.pump(); // what was accepted before the end is served
    }

    /// Tells the engine to stop when no front end asks for anything more, or it is too late.
    fn stop_if_durable(&mut self) -> bool {
        let Phase::Settling(latest) = self.phase else { return false };
        let now = self.core.clock.now();
        if now < latest && !self.fronts.iter().all(|front| front.is_durable()) {
            return false;
        }
        self.phase = Phase::Stopping;
        self.engine.on(now, Event::Shutdown, &mut self.commands);
        self.carry_out();
        self.pump();
        true
    }

    /// Front ends that had no room try again.
    fn offer_room(&mut self) {
        for index in 0..self.fronts.len() {
            if self.core.counter.takes_again(index) {
                self.core.counter.loads[index].waits_for_room = false;
                let now = self.core.clock.now();
                let mut context = self.core.context(index, now, &mut self.engine);
                self.fronts[index].room(&mut context);
            }
        }
    }
}
