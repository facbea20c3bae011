//! The drives' commands: what waits, what is in flight, what does it name, and until when must it end?
//!
//! `DeviceIo` owns the drives, the moment, and what the event loop shall do. Everybody who sends a command to a drive
//! does it here. Nothing here knows why a command was sent: its owner comes back with the end.

pub(crate) mod deadlines;
mod enqueue;
mod event_loop;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod flights;
pub(crate) mod flush_costs;
mod in_service;
mod load;
mod logs;
mod phase;
pub mod pins;
pub(crate) mod queue;
mod read_order;

pub(crate) use self::phase::Phase;
use crate::config::{EngineConfig, SuccessorConfig};
use crate::device::{Device, Drives, Service};
use crate::io::deadlines::{Deadlines, Heard};
use crate::io::flights::{Departure, Flight, Flights};
use crate::io::pins::Pin;
use crate::map::FixedState;
use crate::mutant::Mutant;
use crate::owner::{LogIo, MigrationIo, MoveKind, Owner, RequestIo};
use crate::port::{Command, Io, IoId, IoOp};
use crate::stats::{DeviceStats, EngineStats};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use tandem_block::{DeviceId, Instant, IoError, PayloadId};

/// What became of drives and their commands, and concerns more than who saw it.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// A command was not sent: the drive takes none any more.
    Unsent(DeviceId, Owner, IoError),
    /// This copy of all superblocks is to be written, and shall say whether the pool was stopped cleanly.
    Superblocks { clean: bool, copy: u8 },
    /// This copy of them was written, everywhere or not.
    SuperblocksWritten { copy: u8 },
    /// A read that a start waits for has been seen to.
    StartReadOver,
    /// All writes that a start waits for have ended.
    StartWritesOver,
    /// A drive was taken out of service. `first`: it was in full service until then.
    TakenOut { device: DeviceId, service: Service, first: bool },
    /// A drive lags that was not taken out of service, and the superblocks are to say so.
    Lags,
}

/// The drives of a pool, and all that goes out to the event loop.
#[derive(Clone, Debug)]
pub(crate) struct DeviceIo {
    config: Arc<EngineConfig>,
    phase: Phase,
    last_request: Instant,
    now: Instant,
    out: Vec<Command>,
    drives: Drives,
    ssds: Vec<DeviceId>,
    hdds: Vec<DeviceId>,
    flights: Flights<Owner>,
    deadlines: Deadlines,
    stats: EngineStats,
    payloads_made: u64,
    /// Buffers that somebody still needs behind the request that brought them, with the number of their users.
    held_buffers: HashMap<PayloadId, u32, FixedState>,
    /// Zeroes for padding.
    padding_buffer: Option<PayloadId>,
    wake_at: Instant,
    /// Writes wait for space.
    waits_for_space: bool,
    /// A job has joined a queue, of a drive that may have been asked before.
    queued: bool,
    /// Nothing can make space for writes that wait: they fail, with this error.
    no_space: Option<IoError>,
    /// What has become of drives and of their commands, and whom it concerns does not know yet.
    news: VecDeque<News>,
    /// Drives whose commands do not go to the event loop, but to who asked for them.
    withheld: [Option<DeviceId>; 2],
    set_aside: VecDeque<Io>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl DeviceIo {
    /// For these drives, at the start of time. `ssds` and `hdds` say which of them are what.
    pub(crate) fn new(config: EngineConfig, drives: Vec<Device>) -> Self {
        assert!(drives.len() == config.devices.len(), "each drive of a pool is configured");
        let of_role = |ssd: bool| move |d: &&Device| d.is_ssd() == ssd;
        DeviceIo {
            phase: Phase::Created,
            last_request: Instant::ZERO,
            now: Instant::ZERO,
            out: Vec::new(),
            ssds: drives.iter().filter(of_role(true)).map(|d| d.id).collect(),
            hdds: drives.iter().filter(of_role(false)).map(|d| d.id).collect(),
            drives: Drives::of(drives),
            flights: Flights::default(),
            deadlines: Deadlines::of(&config),
            stats: EngineStats::default(),
            payloads_made: 0,
            held_buffers: HashMap::default(),
            padding_buffer: None,
            wake_at: Instant::NEVER,
            waits_for_space: false,
            queued: false,
            news: VecDeque::new(),
            no_space: None,
            withheld: [None; 2],
            set_aside: VecDeque::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
            config: Arc::new(config),
        }
    }

    // ---- the moment, and the event loop ----

    /// The moment of the event that is being handled.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// An event comes at `now`: what the event loop shall do is appended to `commands`. Until `end_event`.
    pub(crate) fn begin_event(&mut self, now: Instant, commands: &mut Vec<Command>) {
        assert!(now >= self.now, "time never goes back: {now:?} after {:?}", self.now);
        assert!(self.out.is_empty(), "commands are sent within an event");
        self.now = now;
        std::mem::swap(&mut self.out, commands);
    }

    /// The event has been handled. Everything behind the first `before` commands has a deadline from now on.
    pub(crate) fn end_event(&mut self, before: usize, commands: &mut Vec<Command>) {
        assert!(self.set_aside.is_empty(), "commands that were set aside are on their way");
        self.deadlines.send(self.now, &mut self.out, before);
        self.wake_by(self.deadlines.due());
        std::mem::swap(&mut self.out, commands);
    }

    /// Tells the event loop to do something.
    #[inline]
    pub(crate) fn send(&mut self, command: Command) {
        self.out.push(command);
    }

    /// … and all of this.
    pub(crate) fn send_all(&mut self, commands: impl IntoIterator<Item = Command>) {
        self.out.extend(commands);
    }

    /// What the event loop has not been told yet, to be looked through and put back changed.
    pub(crate) fn out_mut(&mut self) -> &mut Vec<Command> {
        &mut self.out
    }

    /// The event loop has woken us, as it was asked to.
    pub(crate) fn woke(&mut self) {
        self.wake_at = Instant::NEVER;
    }

    /// What the timer was armed for has come by itself: the event loop need not stay awake for it.
    pub(crate) fn disarm_timer(&mut self) {
        self.wake_at = Instant::NEVER;
        self.out.push(Command::WakeAt(Instant::NEVER));
    }

    /// Asks to be woken at `due`, unless that is asked for already.
    pub(crate) fn wake_by(&mut self, due: Instant) {
        let due = if due == Instant::NEVER { due } else { due.max(self.now) };
        // a timer that is armed too early wakes once for nothing; re-arming it with every request
        // would cost more
        if due < self.wake_at {
            self.wake_at = due;
            self.out.push(Command::WakeAt(due));
        }
    }

    /// A name for a new buffer.
    pub(crate) fn name_payload(&mut self) -> PayloadId {
        self.payloads_made += 1;
        PayloadId(PayloadId::ENGINE_BIT | self.payloads_made)
    }

    // ---- what was configured, and what is counted ----

    /// How the pool was configured.
    #[inline]
    pub(crate) fn config(&self) -> &Arc<EngineConfig> {
        &self.config
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.config.placement == crate::config::Placement::Fixed
    }

    /// A drive is gone, or its place was taken again: the configuration follows.
    pub(crate) fn note_gone(&mut self, drive: DeviceId, is_gone: bool) {
        assert!(usize::from(drive.0) < self.drives.len(), "only a drive's place can be empty");
        let gone = &mut self.config_mut().gone;
        gone.retain(|known| *known != drive);
        if is_gone {
            gone.push(drive);
        }
    }

    /// A drive takes another one's place, or does not any more.
    pub(crate) fn note_successor(&mut self, successor: Option<SuccessorConfig>) {
        self.config_mut().successor = successor;
    }

    /// … to be changed to what the drives say.
    pub(crate) fn config_mut(&mut self) -> &mut EngineConfig {
        Arc::make_mut(&mut self.config)
    }

    /// Counters.
    #[inline]
    pub(crate) fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// … to be counted on.
    #[inline]
    pub(crate) fn stats_mut(&mut self) -> &mut EngineStats {
        &mut self.stats
    }

    // ---- the drives ----

    /// All drives.
    #[inline]
    pub(crate) fn drives(&self) -> &Drives {
        &self.drives
    }

    /// … to be changed.
    pub(crate) fn drives_mut(&mut self) -> &mut Drives {
        &mut self.drives
    }

    /// The SSDs, by id.
    #[inline]
    pub(crate) fn ssds(&self) -> &[DeviceId] {
        &self.ssds
    }

    /// The hard drives, by id.
    #[inline]
    pub(crate) fn hdds(&self) -> &[DeviceId] {
        &self.hdds
    }

    // ---- news ----

    /// Whom it concerns is told between two steps.
    pub(crate) fn tell(&mut self, news: News) {
        self.news.push_back(news);
    }

    /// Is there any that nobody was told of?
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    #[inline]
    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    // ---- space ----

    /// Do writes wait for space?
    #[inline]
    pub(crate) fn waits_for_space(&self) -> bool {
        self.waits_for_space
    }

    /// A write has found no space.
    pub(crate) fn note_wait_for_space(&mut self) {
        self.waits_for_space = true;
    }

    /// A write has gone into the queue of an SSD that has room.
    pub(crate) fn note_passed_on(&mut self) {
        self.stats.passed_on_for_room += 1;
    }

    /// Has a job joined the queue of any drive since this was asked?
    #[inline]
    pub(crate) fn take_queued(&mut self) -> bool {
        std::mem::take(&mut self.queued)
    }

    /// Space was made, or may have been: writes that wait are tried again.
    pub(crate) fn note_space(&mut self) {
        self.waits_for_space = false;
    }

    /// Why writes that wait for space fail, while they do.
    #[inline]
    pub(crate) fn no_space(&self) -> Option<IoError> {
        self.no_space
    }

    /// Writes that wait for space fail from now on, with this error; or do not any more.
    pub(crate) fn fail_without_space(&mut self, error: Option<IoError>) {
        assert!(
            error.is_some() != self.no_space.is_some(),
            "writes fail for want of room until they do not"
        );
        self.no_space = error;
    }

    // ---- commands in flight ----

    /// All commands in flight.
    #[inline]
    pub(crate) fn flights(&self) -> &Flights<Owner> {
        &self.flights
    }

    /// Sends a command to a drive, and remembers whose it is.
    pub(crate) fn submit(&mut self, device: DeviceId, op: IoOp, owner: Owner) -> IoId {
        let pin = self.drives[device].queue.pins_mut().pin(&op);
        self.submit_pinned(device, (op, pin), owner)
    }

    /// The same, of a command that has pinned what it names.
    #[inline]
    pub(crate) fn submit_pinned(
        &mut self,
        device: DeviceId,
        (op, pin): (IoOp, Pin),
        owner: Owner,
    ) -> IoId {
        self.stats.devices[usize::from(device.0)].count(&op, &owner);
        assert!(pin == Pin::NONE || op.names_data(), "flushes and metadata pin nothing");
        // under fixed placement a block lies wherever the drives before it end
        assert!(
            self.is_fixed() || op.is_aligned(),
            "whole sectors are read, and whole blocks written"
        );
        let drive = &mut self.drives[device];
        if owner.is_user_read() && !drive.is_ssd() {
            drive.queue.note_read(self.now);
        }
        let background = owner.is_background();
        let departs = Departure { device, op: &op, background, pin, now: self.now };
        let id = self.flights.begin(&mut drive.queue, departs, owner);
        let io = Io { id, device, op };
        if self.withheld.contains(&Some(device)) {
            self.set_aside.push_back(io);
        } else {
            self.out.push(Command::Submit(io));
        }
        id
    }

    /// A command in flight has another owner from now on.
    ///
    /// # Panics
    /// If it is not in flight.
    pub(crate) fn hand_over(&mut self, io: IoId, to: impl FnOnce(&Owner) -> Owner) {
        self.flights.hand_over(io, to);
    }

    /// Commands to these drives are set aside from now on.
    pub(crate) fn withhold(&mut self, drives: [Option<DeviceId>; 2]) {
        self.withheld = drives;
    }

    /// Are commands to this drive set aside?
    pub(crate) fn withholds(&self, drive: DeviceId) -> bool {
        self.withheld.contains(&Some(drive))
    }

    /// The oldest command that was set aside.
    #[inline]
    pub(crate) fn next_set_aside(&mut self) -> Option<Io> {
        self.set_aside.pop_front()
    }

    /// A command has ended.
    #[inline]
    pub(crate) fn end_flight(&mut self, io: IoId) -> Flight<Owner> {
        let device = self.flights.device(io);
        let drive = &mut self.drives[device];
        let flight = self.flights.end(&mut drive.queue, io);
        assert!(flight.issued <= self.now, "a command ends after it went out");
        // a flush covers what had completed when it was issued, so only now
        drive.dirty |= flight.changes;
        flight
    }

    /// When a drive is slow, or has left a command without an answer for too long.
    #[inline]
    pub(crate) fn deadline_due(&self) -> Instant {
        self.deadlines.due()
    }

    /// Which command did the event loop carry out?
    #[inline]
    pub(crate) fn heard(&mut self, io: IoId) -> Heard {
        let heard = self.deadlines.completed(io, &mut self.out);
        if heard == Heard::TooLate {
            self.stats.late_answers += 1;
        }
        heard
    }

    /// Commands and their deadlines.
    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Drives that have left a command without an answer for too long.
    pub(crate) fn overdue(&mut self) -> Vec<DeviceId> {
        self.deadlines.overdue(self.now)
    }

    /// Gives up all commands of a drive, which are returned.
    pub(crate) fn abandon(&mut self, drive: DeviceId) -> Vec<IoId> {
        self.deadlines.abandon(drive)
    }

    // ---- mutants ----

    /// Breaks a rule from now on; `None` mends it.
    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.mutant = mutant;
    }

    /// The rule that is broken.
    #[cfg(feature = "mutants")]
    pub(crate) fn mutant(&self) -> Option<Mutant> {
        self.mutant
    }

    /// Is this rule broken?
    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Is this rule broken?
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub(crate) const fn breaks(&self, _: Mutant) -> bool {
        false
    }

    /// Hard drives in places that are not empty.
    pub(crate) fn hdds_there(&self) -> usize {
        let there = |id: &&DeviceId| !self[**id].is_gone();
        self.hdds().iter().filter(there).count()
    }

    /// Has a drive left a command without an answer for more than half of its deadline?
    pub(crate) fn is_slow(&self, drive: DeviceId) -> bool {
        self.deadlines().is_slow(drive)
    }

    /// Redirected bytes that are nowhere but in the buffers of hard drives, and in our RAM.
    pub(crate) fn bytes_at_risk(&self) -> u64 {
        self.drives().iter().map(|d| d.tail.exposed_bytes).sum()
    }
}

impl DeviceStats {
    /// A command goes out.
    fn count(&mut self, op: &IoOp, owner: &Owner) {
        let bytes = match op {
            IoOp::Read { length_bytes, .. } | IoOp::ReadMeta { length_bytes, .. } => {
                self.read_bytes += length_bytes;
                self.read_requests += 1;
                return;
            }
            IoOp::Flush => {
                self.flushes += 1;
                return;
            }
            IoOp::Trim { length_bytes, .. } => {
                self.trimmed_bytes += length_bytes;
                return;
            }
            IoOp::Write { length_bytes, .. } => *length_bytes,
            IoOp::WriteMeta { bytes, .. } => bytes.len() as u64,
        };
        self.write_requests += 1;
        *self.counter(owner) += bytes;
    }

    /// What bytes that this owner writes are counted as.
    fn counter(&mut self, owner: &Owner) -> &mut u64 {
        match owner {
            Owner::Request(RequestIo::Write { .. } | RequestIo::Fixed { .. }) | Owner::Late(_) => {
                &mut self.user_bytes
            }
            Owner::Log(LogIo::Copy(_)) => &mut self.tail_bytes,
            Owner::Log(LogIo::Padding) => &mut self.padding_bytes,
            Owner::Migration(MigrationIo::Extent { .. }) => &mut self.promotion_bytes,
            Owner::Migration(MigrationIo::Write { kind, .. } | MigrationIo::Home { kind, .. }) => {
                match kind {
                    MoveKind::WriteBack => &mut self.home_bytes,
                    MoveKind::LogGc => &mut self.gc_bytes,
                    MoveKind::Merge | MoveKind::Drain | MoveKind::Rehome => {
                        &mut self.writeback_bytes
                    }
                    MoveKind::Promotion => &mut self.promotion_bytes,
                }
            }
            _ => &mut self.map_bytes,
        }
    }
}

impl Index<DeviceId> for DeviceIo {
    type Output = Device;

    #[inline]
    fn index(&self, id: DeviceId) -> &Device {
        &self.drives[id]
    }
}

impl IndexMut<DeviceId> for DeviceIo {
    #[inline]
    fn index_mut(&mut self, id: DeviceId) -> &mut Device {
        &mut self.drives[id]
    }
}
