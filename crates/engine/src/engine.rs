//! In which order do the rooms see a request?
//!
//! Source: design decision 5. The only file that knows the order: admit → map → tier names the
//! intended place → steer may detour the write → a queue per device → qos → device. What one job
//! does step by step is in `ops/`; the rooms are asked here and there, and never ask each other.

use crate::bcw::controller::Controller;
use crate::config::{EngineConfig, Placement, Role};
use crate::device::{Device, Purpose, TailCopy};
use crate::format::layout::{self, Layout};
use crate::map::checksums::HomeChecksums;
use crate::map::objects::Objects;
use crate::map::{FixedState, Logical, Map, Run, Slot, SlotRegion};
use crate::mutant::Mutant;
use crate::ops::batch::ObjectChanges;
use crate::ops::checkpoint::Checkpoint;
use crate::ops::commit::Commit;
use crate::ops::copies::Copies;
use crate::ops::follow::Follower;
use crate::ops::moves::Moves;
use crate::ops::start::Starting;
use crate::ordering::{Ordering, TaskId};
use crate::port::{Command, Event, Io, IoId, IoOp};
use crate::qos::{self, Qos};
use crate::stats::EngineStats;
use crate::steer::{self, HddView, Steer};
use crate::task::Tasks;
use crate::tier::{self, Tier};
use crate::{StartError, map::journal::Journal};
use hashbrown::HashMap;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use tandem_block::{BLOCK_BYTES, DeviceId, Instant, ObjectId, PayloadId};

/// Life of an engine.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Waits for `Event::Start`.
    Created,
    /// Formats or recovers.
    Starting(Box<Starting>),
    /// Serves.
    Running,
    /// Takes nothing new and settles.
    Stopping,
    /// Over.
    Stopped,
}

/// A device command under way.
#[derive(Clone, Debug)]
pub(crate) struct IoState {
    pub device: DeviceId,
    pub purpose: Purpose,
    pub bytes: u64,
    pub issued: Instant,
    pub background: bool,
    /// It changes what the device holds.
    pub changes: bool,
}

/// Policies of one volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumePolicy {
    pub steer: Box<dyn Steer>,
    pub tier: Box<dyn Tier>,
}

/// Slots that nothing names, waiting for the reads that may still use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limbo {
    pub run: Run,
    pub after_read: u64,
}

/// Freed runs of at least this many slots are trimmed before they are used again: the drive's own
/// GC gains from whole flash blocks, not from single pages (guess).
const TRIM_SLOTS_MIN: u32 = 32;

/// The engine of one set of drives. See `port` for its interface.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) phase: Phase,
    pub(crate) now: Instant,
    pub(crate) out: Vec<Command>,
    pub(crate) devices: Vec<Device>,
    pub(crate) ssds: Vec<DeviceId>,
    pub(crate) hdds: Vec<DeviceId>,
    pub(crate) map: Map,
    pub(crate) objects: Objects,
    pub(crate) checksums: HomeChecksums,
    pub(crate) page_waiters: Vec<(u32, Option<TaskId>)>,
    pub(crate) journal: Journal,
    pub(crate) tasks: Tasks,
    pub(crate) ios: Slab<IoState>,
    pub(crate) ordering: Ordering,
    pub(crate) commit: Commit,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) follower: Follower,
    pub(crate) moves: Moves,
    pub(crate) copies: Copies,
    pub(crate) policies: BTreeMap<ObjectId, VolumePolicy>,
    pub(crate) qos: Box<dyn Qos>,
    pub(crate) stats: EngineStats,
    pub(crate) limbo: VecDeque<Limbo>,
    pub(crate) reads_issued: u64,
    pub(crate) reads_done: VecDeque<bool>,
    pub(crate) reads_base: u64,
    pub(crate) payloads_made: u64,
    pub(crate) last_request: Instant,
    pub(crate) wake_at: Instant,
    pub(crate) generation: u64,
    /// Drives are gone: the metadata is read here, and nothing is written anywhere.
    pub(crate) salvage: Option<DeviceId>,
    /// Writes that wait for space exist.
    pub(crate) starved: bool,
    /// Buffers of log writes that tails still need, with the number of their users.
    pub(crate) retained: HashMap<PayloadId, u32, FixedState>,
    /// Tail copies under way, with the buffers they are written from.
    pub(crate) copy_payloads: Vec<(TailCopy, PayloadId)>,
    /// Blocks whose homes are being recorded; their log places are given up afterwards.
    pub(crate) homed_log: Vec<(Logical, Slot)>,
    /// Objects to be recorded with the next batch.
    pub(crate) objects_pending: Vec<ObjectId>,
    /// Changes of objects that wait for room in a batch, and blocks that objects have left.
    pub(crate) object_changes: ObjectChanges,
    /// Superblock writes that the stop (or the start) still waits for, and which copy.
    pub(crate) superblock_writes: Option<(u32, u8)>,
    /// Zeroes for padding.
    pub(crate) padding_buffer: Option<PayloadId>,
    /// A faulted drive's tail is not yet safe.
    pub(crate) rescue_wanted: bool,
    pub(crate) digest: u64,
    pub(crate) work_list: Vec<TaskId>,
    /// Kept for its memory.
    pub(crate) views: Vec<HddView>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
}

/// A configuration that no engine can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The drives cannot be laid out.
    #[error(transparent)]
    Layout(#[from] layout::LayoutError),
    /// No drives, or more than a set may have.
    #[error("a set has between 1 and {max} drives, this one has {found}")]
    Drives {
        /// The most.
        max: usize,
        /// The number found.
        found: usize,
    },
    /// A name that no registry knows.
    #[error("volume {volume}: there is no {what} called {name}; there are {known}")]
    Unknown {
        /// Which volume.
        volume: String,
        /// Policy or tier.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Two volumes with one name or id, or a size that is not possible.
    #[error("volume {volume}: {error}")]
    Volume {
        /// Which.
        volume: String,
        /// Why.
        error: tandem_block::IoError,
    },
}

impl Engine {
    /// An engine that waits for `Event::Start`.
    ///
    /// # Errors
    /// If the configuration contradicts itself; nothing was touched.
    pub fn new(config: EngineConfig) -> Result<Engine, ConfigError> {
        let found = config.devices.len();
        let max = crate::format::superblock::MEMBERS_MAX;
        if found == 0 || found > max {
            return Err(ConfigError::Drives { max, found });
        }
        let layouts = match config.placement {
            Placement::Mapped => layout::plan(&config)?,
            Placement::Fixed => layout::plan_fixed(&config)?,
        };
        let mut policies = BTreeMap::new();
        for volume in &config.volumes {
            let steer = steer::build(&volume.steer).ok_or_else(|| ConfigError::Unknown {
                volume: volume.name.clone(),
                what: "steering policy",
                name: volume.steer.policy.clone(),
                known: names(steer::POLICIES.iter().map(|p| p.name)),
            })?;
            let tier = tier::TIERS.iter().find(|t| t.name == volume.tier).ok_or_else(|| {
                ConfigError::Unknown {
                    volume: volume.name.clone(),
                    what: "tier",
                    name: volume.tier.clone(),
                    known: names(tier::TIERS.iter().map(|t| t.name)),
                }
            })?;
            policies.insert(volume.object, VolumePolicy { steer, tier: (tier.build)() });
        }
        let mut engine = Engine::with_layouts(config, &layouts, policies);
        engine.check_volumes()?;
        Ok(engine)
    }

    /// An engine for the next life of the same pool, with the policies that `with_tier` and
    /// `with_qos` gave to this one.
    ///
    /// # Errors
    /// As `new`.
    pub fn next_life(&self, config: EngineConfig) -> Result<Engine, ConfigError> {
        let mut next = Engine::new(config)?;
        next.qos = self.qos.clone();
        for (object, policy) in &mut next.policies {
            if let Some(known) = self.policies.get(object) {
                policy.tier = known.tier.clone();
            }
        }
        #[cfg(feature = "mutants")]
        next.set_mutant(self.mutant);
        Ok(next)
    }

    /// Replaces the tier of a volume by one that no registry knows: for experiments and tests.
    #[must_use]
    pub fn with_tier(mut self, object: ObjectId, tier: Box<dyn Tier>) -> Engine {
        if let Some(policy) = self.policies.get_mut(&object) {
            policy.tier = tier;
        }
        self
    }

    /// Replaces the order of service by one that no registry knows: for experiments and tests.
    #[must_use]
    pub fn with_qos(mut self, qos: Box<dyn Qos>) -> Engine {
        self.qos = qos;
        self
    }

    fn with_layouts(
        config: EngineConfig,
        layouts: &[Layout],
        policies: BTreeMap<ObjectId, VolumePolicy>,
    ) -> Engine {
        let devices: Vec<Device> = config
            .devices
            .iter()
            .zip(layouts)
            .enumerate()
            .map(|(id, (d, layout))| Device::new(DeviceId(id as u8), d.clone(), *layout))
            .collect();
        let ssds: Vec<DeviceId> = config.with_role(Role::Ssd).collect();
        let hdds: Vec<DeviceId> = config.with_role(Role::Hdd).collect();
        let journal_bytes = layouts[config.metadata_device()].journal_bytes.max(BLOCK_BYTES);
        let mut engine = Engine {
            phase: Phase::Created,
            now: Instant::ZERO,
            out: Vec::new(),
            devices,
            ssds,
            hdds,
            map: Map::new(Vec::new(), 0, 0),
            objects: Objects::new(0),
            checksums: HomeChecksums::new(config.checksum_pages_max),
            page_waiters: Vec::new(),
            journal: Journal::new(journal_bytes, 0, 1),
            tasks: Slab::new(),
            ios: Slab::new(),
            ordering: Ordering::default(),
            commit: Commit::default(),
            checkpoint: Checkpoint::default(),
            follower: Follower::default(),
            moves: Moves::default(),
            copies: Copies::default(),
            policies,
            qos: (qos::ORDERS[0].build)(),
            stats: EngineStats::default(),
            limbo: VecDeque::new(),
            reads_issued: 0,
            reads_done: VecDeque::new(),
            reads_base: 0,
            payloads_made: 0,
            last_request: Instant::ZERO,
            wake_at: Instant::NEVER,
            generation: 0,
            salvage: None,
            starved: false,
            retained: HashMap::default(),
            copy_payloads: Vec::new(),
            homed_log: Vec::new(),
            objects_pending: Vec::new(),
            object_changes: ObjectChanges::default(),
            superblock_writes: None,
            padding_buffer: None,
            rescue_wanted: false,
            digest: 0xcbf2_9ce4_8422_2325,
            work_list: Vec::new(),
            views: Vec::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
            config,
        };
        engine.lay_out(layouts);
        engine
    }

    /// Sizes everything that hangs on the drives' layouts (again, if the superblocks differ from
    /// what would be planned today).
    pub(crate) fn lay_out(&mut self, layouts: &[Layout]) {
        let mut regions = Vec::new();
        let mut next = 0u32;
        for want_log in [false, true] {
            for (id, layout) in layouts.iter().enumerate() {
                let is_log = self.config.devices[id].role == Role::Hdd;
                if is_log != want_log || layout.slot_count == 0 {
                    continue;
                }
                let count = u32::try_from(layout.slot_count).expect("checked by the layout");
                regions.push(SlotRegion {
                    device: DeviceId(id as u8),
                    is_log,
                    first: next,
                    count,
                    offset_bytes: layout.slot_offset,
                });
                next += count;
            }
        }
        let blocks = self.logical_blocks(layouts);
        let segment_slots = (self.config.log_segment_bytes / BLOCK_BYTES) as u32;
        for (id, layout) in layouts.iter().enumerate() {
            let device = &mut self.devices[id];
            device.layout = *layout;
            device.log = regions
                .iter()
                .find(|r| r.is_log && r.device == device.id)
                .map(|r| crate::log::Log::new(*r, segment_slots));
            let redirects = self.policies.values().any(|p| p.steer.redirects());
            let profile = device.config.hdd_profile.clone().filter(|_| self.salvage.is_none());
            device.bcw = profile.map(|profile| {
                let loops = self.config.bcw_loops_max;
                let mut c = Controller::new(profile, loops, self.config.padding_bytes_per_day);
                if redirects {
                    c.enable();
                }
                c
            });
        }
        self.map = Map::new(regions, blocks as usize, self.devices.len());
        self.objects = Objects::new(u32::try_from(blocks).expect("checked by the layout"));
        self.checkpoint.begin_life(self.map.shard_count());
        let follower = self.config.following_device();
        self.follower.begin_life(follower, self.map.shard_count());
        self.stats.devices = vec![Default::default(); self.devices.len()];
        self.stats.queue_length_max = vec![0; self.devices.len()];
    }

    fn logical_blocks(&self, layouts: &[Layout]) -> u64 {
        let homes: u64 = layouts.iter().map(|l| l.home_blocks).sum();
        let slots: u64 = layouts.iter().map(|l| l.slot_count).sum();
        match self.config.placement {
            Placement::Fixed => {
                self.config
                    .devices
                    .iter()
                    .filter(|d| d.role == Role::Ssd)
                    .map(|d| d.capacity_bytes)
                    .sum::<u64>()
                    / BLOCK_BYTES
            }
            // without hard drives there are no homes: what is reserved for volumes must leave room
            // for new versions of everything under way
            Placement::Mapped if homes == 0 => slots * 85 / 100,
            Placement::Mapped => homes,
        }
    }

    /// Would the volumes fit an empty pool?
    fn check_volumes(&mut self) -> Result<(), ConfigError> {
        let mut trial = self.objects.clone();
        for volume in &self.config.volumes {
            trial
                .create(volume.object, &volume.name, volume.size_bytes)
                .and_then(|()| {
                    let fits = trial.record_bytes() <= self.config.root_bytes as usize / 2;
                    if fits { Ok(()) } else { Err(tandem_block::IoError::NoSpace) }
                })
                .map_err(|error| ConfigError::Volume { volume: volume.name.clone(), error })?;
        }
        Ok(())
    }

    /// Takes one event at `now`, which never goes back, and appends what the world shall do.
    pub fn on(&mut self, now: Instant, event: Event<'_>, commands: &mut Vec<Command>) {
        assert!(now >= self.now, "time never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        std::mem::swap(&mut self.out, commands);
        match event {
            Event::Request(request) => {
                self.mix(1, request.id.0);
                self.on_request(request);
            }
            Event::Batch(batch) => {
                self.mix(5, batch.id.0);
                self.on_batch(batch);
            }
            Event::Completion { io, status, checksums, bytes } => {
                self.mix(2 + u64::from(status.is_err()), u64::from(io.0));
                self.on_completion(io, status, checksums, bytes);
            }
            Event::Wake => {
                self.mix(4, 0);
                self.wake_at = Instant::NEVER;
            }
            Event::Start => self.on_start(),
            Event::Shutdown => self.on_shutdown(),
        }
        if matches!(self.phase, Phase::Running | Phase::Stopping) {
            self.turn();
        }
        std::mem::swap(&mut self.out, commands);
    }

    /// What every event may have made possible, in order.
    fn turn(&mut self) {
        self.release_limbo();
        self.rescue_tails();
        // a checkpoint that ends makes room in the journal, so it comes before the commit
        self.run_checkpoint();
        self.run_batches();
        self.run_commit();
        self.run_follower();
        self.run_moves();
        self.stop_if_settled();
        for device in 0..self.devices.len() {
            self.dispatch(DeviceId(device as u8));
        }
        self.arm_timer();
    }

    /// Everything that happened so far, in 64 bits: equal runs have equal digests.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    #[inline]
    fn mix(&mut self, kind: u64, id: u64) {
        let value = self.now.ns.wrapping_mul(8).wrapping_add(kind) ^ id.rotate_left(40);
        let mixed = (self.digest ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.digest = mixed ^ mixed >> 29;
    }

    /// May the world hand in another request?
    pub fn can_accept(&self) -> bool {
        self.tasks.len() < self.config.requests_max as usize
    }

    /// Counters so far.
    pub fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// The map, to look at.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Objects by id.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The drives, to look at.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What is under way, in words: for a person who looks at an engine that does not move on.
    pub fn debug_state(&self) -> String {
        let devices: Vec<String> = self
            .devices
            .iter()
            .map(|d| {
                format!(
                    "device {} in_flight {} queue {} tail {:?} flushing {:?} wanted {} faulted {} homes {} bcw {:?} awaits {}",
                    d.id.0,
                    d.in_flight,
                    d.queue_length,
                    d.tail.items.iter().take(4).collect::<Vec<_>>(),
                    d.flushing,
                    d.flush_wanted,
                    d.faulted,
                    d.home_writes,
                    d.bcw.as_ref().map(|bcw| bcw.state()),
                    self.map.awaits_hdd(d.id),
                )
            })
            .collect();
        format!(
            "phase {:?} tasks {} ios {} pending {} ready {} ssd {} starved {} free {}/{} population {:?}\n{}\n{:?}\n{:?}\n{:?}\n{:?}",
            std::mem::discriminant(&self.phase),
            self.tasks.len(),
            self.ios.len(),
            self.map.pending_blocks(),
            self.map.has_ready(),
            self.map.awaits_ssd(),
            self.starved,
            self.map.ssd_free(),
            self.map.ssd_slots(),
            self.map.population(),
            devices.join("\n"),
            self.commit,
            self.checkpoint,
            self.follower,
            self.stats,
        )
    }

    /// Is nothing under way: no request, no device command?
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.ios.is_empty()
    }

    /// Sends a command to a device and remembers why.
    pub(crate) fn submit(&mut self, device: DeviceId, op: IoOp, purpose: Purpose) {
        let background = !matches!(
            purpose,
            Purpose::Read(_)
                | Purpose::Write { .. }
                | Purpose::WriteFixed { .. }
                | Purpose::MergeBase { .. }
        );
        let bytes = self.count_io(device, &op, &purpose);
        let changes = matches!(op, IoOp::Write { .. } | IoOp::WriteMeta { .. } | IoOp::Trim { .. });
        let state = IoState { device, purpose, bytes, issued: self.now, background, changes };
        let key = self.ios.insert(state);
        let id = IoId(u32::try_from(key).expect("commands in flight are bounded"));
        let d = &mut self.devices[usize::from(device.0)];
        d.in_flight += 1;
        d.queue_length += 1;
        d.background_in_flight += u32::from(background);
        self.out.push(Command::Submit(Io { id, device, op }));
    }

    fn count_io(&mut self, device: DeviceId, op: &IoOp, purpose: &Purpose) -> u64 {
        let s = &mut self.stats.devices[usize::from(device.0)];
        let (bytes, write) = match op {
            IoOp::Read { length_bytes, .. } | IoOp::ReadMeta { length_bytes, .. } => {
                s.read_bytes += length_bytes;
                s.read_requests += 1;
                return *length_bytes;
            }
            IoOp::Write { length_bytes, .. } => (*length_bytes, true),
            IoOp::WriteMeta { bytes, .. } => (bytes.len() as u64, true),
            IoOp::Flush => {
                s.flushes += 1;
                return 0;
            }
            IoOp::Trim { length_bytes, .. } => {
                s.trimmed_bytes += length_bytes;
                return 0;
            }
        };
        debug_assert!(write);
        s.write_requests += 1;
        let counter = match purpose {
            Purpose::Write { .. } | Purpose::WriteFixed { .. } => &mut s.user_bytes,
            Purpose::TailCopy(_) => &mut s.tail_bytes,
            Purpose::Padding => &mut s.padding_bytes,
            Purpose::MoveWrite(id) => match self.moves.counts_as(*id) {
                crate::ops::moves::MoveKind::WriteBack => &mut s.home_bytes,
                crate::ops::moves::MoveKind::LogGc => &mut s.gc_bytes,
                crate::ops::moves::MoveKind::Merge => &mut s.writeback_bytes,
            },
            _ => &mut s.map_bytes,
        };
        *counter += bytes;
        bytes
    }

    /// A name for a new buffer.
    pub(crate) fn name_payload(&mut self) -> PayloadId {
        self.payloads_made += 1;
        PayloadId(PayloadId::ENGINE_BIT | self.payloads_made)
    }

    /// The hard drive and the byte where the home of a block lies.
    pub(crate) fn home_of(&self, block: Logical) -> (DeviceId, u64) {
        let block = u64::from(block);
        for &id in &self.hdds {
            let layout = &self.devices[usize::from(id.0)].layout;
            if block >= layout.home_first && block - layout.home_first < layout.home_blocks {
                return (id, layout.home_offset + (block - layout.home_first) * BLOCK_BYTES);
            }
        }
        unreachable!("every logical block of a pool with hard drives has a home")
    }

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

    /// Asks to be woken when the next timed thing is due.
    fn arm_timer(&mut self) {
        let due = self.commit_due().min(self.moves_due()).min(self.controllers_due());
        let due = if due == Instant::NEVER { due } else { due.max(self.now) };
        // a timer that is armed too early wakes once for nothing; re-arming it with every request
        // would cost more
        if due < self.wake_at {
            self.wake_at = due;
            self.out.push(Command::WakeAt(due));
        }
    }

    /// Fails to start, with a reason.
    pub(crate) fn refuse(&mut self, error: StartError) {
        self.phase = Phase::Stopped;
        self.out.push(Command::Started(Err(error)));
    }
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
