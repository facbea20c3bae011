//! What happens next?
//!
//! The earliest of: a device's acknowledgement, the engine's timer, the next arrival; ties in this
//! order, and among acknowledgements in the order of submission. Contents change at the
//! acknowledgement (design decision 4).

use crate::command::{drive_op, write_of};
use crate::contents::{SimSector, block_checksum};
use crate::gone::Gone;
use crate::succession::Returns;
use hashbrown::HashMap;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tandem_block::{
    Batch, ContentFaultKind, DeviceId, Drive, DriveOpKind, Instant, IoError, Outcome, PayloadId,
    Request, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK,
};
use tandem_drives::media::{CutMode, Mark, Media, Write};
use tandem_engine::{Command, Done, Engine, EngineConfig, Event, Io, IoId, StartError};

/// A command under way on a drive.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) io: Io,
    pub(crate) outcome: Outcome,
    pub(crate) mark: Mark,
    pub(crate) faults: Vec<ContentFaultKind>,
    /// It ends with an error, whatever its drive says.
    pub(crate) fails: bool,
}

/// One drive with its contents.
pub(crate) struct Station {
    pub drive: Box<dyn Drive>,
    pub media: Media<SimSector>,
}

impl Clone for Station {
    fn clone(&self) -> Self {
        Station { drive: self.drive.fork(), media: self.media.clone() }
    }
}

/// A fault that a drive really had, for tests that ask whether an error has a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The drive.
    pub device: DeviceId,
    /// What befell it.
    pub what: HitKind,
    /// First byte and the one after the last; a flush touches none.
    pub range: (u64, u64),
    /// When it came to light.
    pub at: Instant,
}

/// What befell a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitKind {
    /// A read ended with an error.
    ReadError,
    /// A write or TRIM ended with an error, and may have stored some of it.
    WriteError,
    /// A flush ended with an error.
    FlushError,
    /// Something was stored otherwise than it was meant to be.
    WrongContents,
    /// A read returned something else than what is stored, or was written last.
    WrongRead,
    /// It holds what it held before.
    RolledBack,
    /// A command never ends.
    NeverEnds,
    /// A flush lied.
    FlushIgnored,
}

/// What a drive held at some time.
#[derive(Clone)]
pub struct Image(Media<SimSector>);

/// What the engine said to the outside during a step.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Requests that ended, with the tokens of a read.
    pub done: Vec<(Done, Vec<u64>)>,
    /// The answer to `Event::Start`.
    pub started: Option<Result<(), StartError>>,
    /// The engine has stopped.
    pub stopped: bool,
}

/// An engine over modelled drives.
#[derive(Clone)]
pub struct Simulation {
    /// The engine.
    pub engine: Engine,
    /// Now.
    pub now: Instant,
    pub(crate) stations: Vec<Station>,
    /// It is there in the next life.
    pub(crate) returns: Option<Returns>,
    /// A drive that was replaced in this life, and where it was.
    pub(crate) released: Option<(DeviceId, Station)>,
    /// A drive that was removed in this life or before, and where it was.
    pub(crate) removed: Option<(DeviceId, Station)>,
    flights: Slab<Flight>,
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sequence: u64,
    /// Commands that drives were given.
    submitted: u64,
    /// The command of this number fails.
    fails: Option<u64>,
    wake_at: Instant,
    pub(crate) payloads: HashMap<PayloadId, Vec<SimSector>, BuildFixed>,
    payloads_made: u64,
    /// Checksums that the engine asked for.
    sums: VecDeque<(IoId, Vec<u32>)>,
    commands: Vec<Command>,
    said: Said,
    pub(crate) has_contents: bool,
    hits: Vec<Hit>,
}

type BuildFixed = std::hash::BuildHasherDefault<tandem_engine::map::FixedHasher>;

impl Simulation {
    /// A simulation at time zero; the engine has not been started.
    ///
    /// # Panics
    /// If there are not as many drives as the configuration lists.
    pub fn new(engine: Engine, drives: Vec<Box<dyn Drive>>, has_contents: bool) -> Simulation {
        assert_eq!(engine.drive_count(), drives.len(), "a model for every drive");
        let station = |drive| Station {
            drive,
            media: if has_contents { Media::ram() } else { Media::none() },
        };
        Simulation {
            engine,
            now: Instant::ZERO,
            stations: drives.into_iter().map(station).collect(),
            returns: None,
            released: None,
            removed: None,
            flights: Slab::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            submitted: 0,
            fails: None,
            wake_at: Instant::NEVER,
            payloads: HashMap::default(),
            payloads_made: 0,
            sums: VecDeque::new(),
            commands: Vec::new(),
            said: Said::default(),
            has_contents,
            hits: Vec::new(),
        }
    }

    /// Every fault that a drive has had, oldest first.
    pub fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Tells the engine to start and runs until it answers.
    ///
    /// # Errors
    /// What the engine answered.
    pub fn start(&mut self) -> Result<(), StartError> {
        self.tell(Event::Start);
        loop {
            if let Some(answer) = self.said.started.take() {
                return answer;
            }
            assert!(self.step(), "the engine neither starts nor waits for anything");
        }
    }

    /// Tells the engine to start and returns at once.
    pub fn begin_start(&mut self) {
        self.tell(Event::Start);
    }

    /// As `start`; returns how many events it took.
    ///
    /// # Errors
    /// What the engine answered.
    pub fn start_counting(&mut self) -> Result<u64, StartError> {
        self.tell(Event::Start);
        let mut events = 0;
        loop {
            if let Some(answer) = self.said.started.take() {
                return answer.map(|()| events);
            }
            assert!(self.step(), "the engine neither starts nor waits for anything");
            events += 1;
        }
    }

    /// When the next thing happens; `NEVER` if nothing is under way.
    #[inline]
    pub fn next_at(&self) -> Instant {
        let ack =
            self.due.peek().map_or(Instant::NEVER, |Reverse((at, _, _))| Instant::from_ns(*at));
        ack.min(self.wake_at)
    }

    /// Lets the next thing happen. False if nothing is under way.
    #[inline]
    pub fn step(&mut self) -> bool {
        let ack = self.due.peek().map_or(u64::MAX, |Reverse((at, _, _))| *at);
        if ack == u64::MAX && self.wake_at == Instant::NEVER {
            return false;
        }
        if ack <= self.wake_at.ns {
            let Reverse((at, _, flight)) = self.due.pop().expect("peeked");
            self.now = Instant::from_ns(at);
            self.acknowledge(flight);
        } else {
            self.now = self.wake_at;
            self.wake_at = Instant::NEVER;
            self.tell(Event::Wake);
        }
        true
    }

    /// Commands that drives were given so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The command of this number, counted from 1 over all drives, will end with an error.
    pub fn fail_command(&mut self, number: u64) {
        self.fails = Some(number);
    }

    /// Runs everything that is due up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        while self.next_at() <= until && self.step() {}
        self.now = self.now.max(until);
    }

    /// Hands in a request at the present time.
    #[inline]
    pub fn request(&mut self, request: &Request) {
        self.tell(Event::Request(request));
    }

    /// Hands in changes of objects at the present time.
    pub fn batch(&mut self, batch: &Batch) {
        self.tell(Event::Batch(batch));
    }

    /// A buffer with these tokens, for a write.
    pub fn payload(&mut self, tokens: impl Iterator<Item = u64>) -> PayloadId {
        self.payloads_made += 1;
        let id = PayloadId(self.payloads_made);
        self.payloads.insert(id, tokens.map(SimSector::Token).collect());
        id
    }

    /// Wakes the engine.
    pub fn wake(&mut self) {
        self.tell(Event::Wake);
    }

    /// Asks the engine to stop.
    pub fn shut_down(&mut self) {
        self.tell(Event::Shutdown);
    }

    /// What was said since the last call.
    #[inline]
    pub fn take_said(&mut self) -> Said {
        std::mem::take(&mut self.said)
    }

    /// Moves what was said into `done`, keeping its allocation.
    #[inline]
    pub fn drain_done(&mut self, mut act: impl FnMut(Done)) {
        for (done, _) in self.said.done.drain(..) {
            act(done);
        }
    }

    /// Is there anything to drain?
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.said.done.is_empty()
    }

    /// Buffers that are alive: a leak shows here.
    pub fn payload_count(&self) -> usize {
        self.payloads.len()
    }

    /// A drive, to ask it for its events and flash pages.
    pub fn drive_mut(&mut self, device: DeviceId) -> &mut dyn Drive {
        self.stations[usize::from(device.0)].drive.as_mut()
    }

    /// A drive dies now: commands under way fail, and so does everything after them.
    pub fn kill_drive(&mut self, device: DeviceId) {
        let (since, station) = (self.now, &mut self.stations[usize::from(device.0)]);
        let capacity_bytes = station.drive.capacity_bytes();
        station.drive = Box::new(Gone { device, capacity_bytes, since });
        let range = (0, capacity_bytes);
        for what in [HitKind::ReadError, HitKind::WriteError, HitKind::FlushError] {
            self.hits.push(Hit { device, what, range, at: since });
        }
    }

    /// What a drive holds now, for `roll_back`.
    pub fn image(&self, device: DeviceId) -> Image {
        Image(self.stations[usize::from(device.0)].media.clone())
    }

    /// A drive holds again what it held when the image was taken: call it between two lives.
    pub fn roll_back(&mut self, device: DeviceId, image: Image) {
        let station = &mut self.stations[usize::from(device.0)];
        let range = (0, station.drive.capacity_bytes());
        station.media = image.0;
        let (what, at) = (HitKind::RolledBack, self.now);
        self.hits.push(Hit { device, what, range, at });
    }

    /// Commands under way that will never end.
    pub fn never_ending(&self) -> usize {
        self.flights.iter().filter(|(_, f)| f.outcome.ack_at == Instant::NEVER).count()
    }

    /// Damages one bit on a drive.
    pub fn corrupt(&mut self, device: DeviceId, offset_bytes: u64, bit: u16) {
        let range = (offset_bytes, offset_bytes + SECTOR_BYTES);
        self.hits.push(Hit { device, what: HitKind::WrongContents, range, at: self.now });
        self.stations[usize::from(device.0)].media.corrupt(offset_bytes, bit);
    }

    /// The power fails now and returns: drives keep what `mode` leaves of what was not durable, and
    /// an engine made by `config` starts from them. The caller runs `start`.
    ///
    /// # Panics
    /// If the configuration is not valid: it was valid before.
    pub fn power_cut(&mut self, config: EngineConfig, mode: CutMode, rng: &mut Rng) {
        for (index, station) in self.stations.iter_mut().enumerate() {
            let device = DeviceId(index as u8);
            let in_flight: Vec<Write<SimSector>> = self
                .flights
                .iter()
                .filter(|(_, flight)| flight.io.device == device)
                .filter_map(|(_, flight)| {
                    write_of((&flight.io, flight.outcome.ticket), &self.payloads)
                })
                .collect();
            let volatile = station.drive.volatile_bytes(self.now);
            station.media.settle(self.now);
            if volatile != u64::MAX {
                station.media.settle_older_than(volatile);
            }
            station.media.cut(self.now, rng, mode, &in_flight);
            station.drive.power_cycle(self.now);
        }
        self.forget(config);
    }

    /// The process dies now, the drives stay powered: their buffers keep what they hold, commands
    /// under way may or may not arrive. The caller runs `start` on the engine made by `config`.
    ///
    /// # Panics
    /// If the configuration is not valid: it was valid before.
    pub fn kill(&mut self, config: EngineConfig, rng: &mut Rng) {
        for (_, flight) in &self.flights {
            let arrives = rng.chance_ppm(500_000);
            if let (true, Some(write)) =
                (arrives, write_of((&flight.io, flight.outcome.ticket), &self.payloads))
            {
                let media = &mut self.stations[usize::from(flight.io.device.0)].media;
                // nobody was told that it is durable, not even with FUA
                media.apply(write, None);
            }
        }
        self.forget(config);
    }

    fn forget(&mut self, config: EngineConfig) {
        self.flights.clear();
        self.due.clear();
        self.payloads.clear();
        self.wake_at = Instant::NEVER;
        self.said = Said::default();
        self.arrange_drives(&config);
        self.engine = self.engine.next_life(config).expect("it was valid before");
    }

    #[inline]
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        let mut commands = std::mem::take(&mut self.commands);
        self.engine.on(self.now, event, &mut commands);
        for command in commands.drain(..) {
            self.carry_out(command);
        }
        self.commands = commands;
        while let Some((io, checksums)) = self.sums.pop_front() {
            self.tell(Event::Completion {
                io,
                status: Ok(()),
                checksums: &checksums,
                bytes: &[],
                took: None,
            });
        }
    }

    #[inline]
    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Submit(io) => self.submit(io),
            Command::Complete(done) => self.complete(done),
            Command::Reserve { payload, length_bytes } => {
                let sectors = (length_bytes / SECTOR_BYTES) as usize;
                let zeroes = vec![SimSector::Token(0); sectors];
                let before = self.payloads.insert(payload, zeroes);
                assert!(before.is_none(), "a buffer's name is used once");
            }
            Command::Copy { from, from_offset_bytes, into, into_offset_bytes, length_bytes } => {
                let first = (from_offset_bytes / SECTOR_BYTES) as usize;
                let count = (length_bytes / SECTOR_BYTES) as usize;
                let copied = self.payloads[&from][first..first + count].to_vec();
                let at = (into_offset_bytes / SECTOR_BYTES) as usize;
                let target = self.payloads.get_mut(&into).expect("the buffer was reserved");
                target[at..at + count].clone_from_slice(&copied);
            }
            Command::Checksum { id, payload, offset_bytes, length_bytes } => {
                let first = (offset_bytes / SECTOR_BYTES) as usize;
                let count = (length_bytes / SECTOR_BYTES) as usize;
                let sectors = &self.payloads[&payload][first..first + count];
                let blocks = sectors.chunks_exact(SECTORS_PER_BLOCK as usize);
                self.sums.push_back((id, blocks.map(block_checksum).collect()));
            }
            Command::Release(payload) => {
                if self.has_contents {
                    let known = self.payloads.remove(&payload).is_some();
                    assert!(known, "a buffer is released once: {payload:?}");
                }
            }
            Command::WakeAt(at) => self.wake_at = at,
            Command::Started(answer) => self.said.started = Some(answer),
            Command::Stopped => self.said.stopped = true,
            Command::Succeed { device } => self.succeed(device),
            Command::LetGo { .. } => self.let_go(),
            Command::Close { device } => self.close(device),
        }
    }

    fn complete(&mut self, done: Done) {
        let mut tokens = Vec::new();
        if self.has_contents && done.payload != PayloadId::NONE {
            let sectors = self.payloads.remove(&done.payload).expect("a read's buffer is alive");
            let skip = (done.skip_bytes / SECTOR_BYTES) as usize;
            tokens = sectors[skip..].iter().map(SimSector::token).collect();
        }
        self.said.done.push((done, tokens));
    }

    #[inline]
    fn submit(&mut self, io: Io) {
        let station = &mut self.stations[usize::from(io.device.0)];
        let op = drive_op(&io.op);
        let outcome = station.drive.submit(self.now, op);
        let mut mark = Mark::default();
        let mut faults = Vec::new();
        if self.has_contents {
            if op.kind == DriveOpKind::Flush {
                mark = station.media.mark();
            }
            faults.extend(station.drive.take_content_faults().iter().map(|fault| fault.kind));
        }
        self.sequence += 1;
        self.submitted += 1;
        let at = outcome.ack_at.ns;
        let fails = self.fails == Some(self.submitted);
        let flight = self.flights.insert(Flight { io, outcome, mark, faults, fails });
        if at != u64::MAX {
            self.due.push(Reverse((at, self.sequence, flight)));
        } else {
            let range = (op.offset_bytes, op.offset_bytes + op.length_bytes);
            let (device, at) = (self.flights[flight].io.device, self.now);
            self.hits.push(Hit { device, what: HitKind::NeverEnds, range, at });
        }
    }

    #[inline]
    fn acknowledge(&mut self, key: usize) {
        let flight = &self.flights[key];
        let device = usize::from(flight.io.device.0);
        let (at, status) = self.stations[device].drive.ticket_ack(&flight.outcome);
        if at > self.now {
            // a stall or a death since: the answer comes later, or not at all
            self.sequence += 1;
            if at != Instant::NEVER {
                self.due.push(Reverse((at.ns, self.sequence, key)));
            }
            return;
        }
        let flight = self.flights.remove(key);
        let failed = Err(IoError::Device(flight.io.device));
        let status = if flight.fails { failed } else { status };
        self.note_hits(&flight, status);
        if !self.has_contents {
            let io = flight.io.id;
            self.tell(Event::Completion { io, status, checksums: &[], bytes: &[], took: None });
            return;
        }
        self.acknowledge_contents(&flight, status);
    }

    /// Remembers the faults that a command met.
    #[inline]
    fn note_hits(&mut self, flight: &Flight, status: Result<(), IoError>) {
        if status.is_ok() && flight.faults.is_empty() {
            return;
        }
        let op = drive_op(&flight.io.op);
        let of_content = |kind: &ContentFaultKind| match kind {
            ContentFaultKind::FlushIgnored => HitKind::FlushIgnored,
            _ if op.kind == DriveOpKind::Read => HitKind::WrongRead,
            _ => HitKind::WrongContents,
        };
        let error = match op.kind {
            DriveOpKind::Read => HitKind::ReadError,
            DriveOpKind::Write { .. } | DriveOpKind::Trim => HitKind::WriteError,
            DriveOpKind::Flush => HitKind::FlushError,
        };
        let found = flight.faults.iter().map(of_content).chain(status.is_err().then_some(error));
        let range = (op.offset_bytes, op.offset_bytes + op.length_bytes);
        let (device, at) = (flight.io.device, self.now);
        self.hits.extend(found.map(|what| Hit { device, what, range, at }));
        for fault in &flight.faults {
            if let (ContentFaultKind::Misdirected { offset_bytes }, true) =
                (fault, op.kind != DriveOpKind::Read)
            {
                let range = (*offset_bytes, offset_bytes + op.length_bytes);
                self.hits.push(Hit { device, what: HitKind::WrongContents, range, at });
            }
        }
    }
}
