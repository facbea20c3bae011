//! The engine from outside: what there is to see, and what an operator may change while it serves.

use crate::activity::Activity;
use crate::config::{DriveBudget, SuccessorConfig};
use crate::config_error::ConfigError;
use crate::device::Device;
use crate::drain::{DrainError, DrainView};
use crate::engine::Engine;
use crate::engine::rest::{Rest, rest};
use crate::io::Phase;
use crate::map::objects::{Object, Objects};
use crate::map::{Logical, Map};
use crate::metadata_replica::MetadataReplicaStatus;
use crate::mirror::PairView;
use crate::owner::MoveKind;
use crate::qos::delivery::Client;
use crate::replacement::{ReplaceError, ReplacementView};
use crate::start::degraded::Loss;
use crate::stats::EngineStats;
use crate::store::memory::MetadataMemory;
use crate::tier::TierConfig;
use crate::tier::space::SpaceStats;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration, Instant, IoError, ObjectId};

/// A hard drive rests when no command has come for so long.
const QUIET: Duration = Duration::from_s(1);

impl Engine {
    /// A drive that was drained is none of the pool any more. The caller wakes the engine.
    ///
    /// # Errors
    /// As `can_remove`.
    pub fn remove(&mut self, device: DeviceId) -> Result<(), DrainError> {
        self.migration.remove(
            device,
            &self.store,
            &self.volumes,
            &self.policy,
            &self.replicas,
            &mut self.io,
        )
    }

    /// Nothing new goes to this drive from now on, and what lies there is moved away. The caller wakes the
    /// engine.
    ///
    /// # Errors
    /// As `can_drain`.
    pub fn drain(&mut self, device: DeviceId) -> Result<(), DrainError> {
        self.migration.drain(
            device,
            &mut self.store,
            &mut self.volumes,
            &mut self.policy,
            &self.replicas,
            &mut self.io,
        )
    }

    /// Could this drive be drained? Says how many bytes would have to move.
    ///
    /// # Errors
    /// Why not.
    pub fn can_drain(&self, device: DeviceId) -> Result<u64, DrainError> {
        self.migration.can_drain(
            device,
            &self.store,
            &self.volumes,
            &self.policy,
            &self.replicas,
            &self.io,
        )
    }

    /// What is going on now.
    pub fn activity(&self) -> Activity {
        let moves = |kind| self.migration.moves.runs(kind);
        Activity {
            starting: self.io.phase() == Phase::Starting,
            stopping: self.io.is_stopping(),
            commit: !self.store.commit.is_idle(),
            checkpoint: !self.store.checkpoint.is_idle(),
            write_back: moves(MoveKind::WriteBack),
            log_gc: moves(MoveKind::LogGc),
            merge: moves(MoveKind::Merge),
            promotion: moves(MoveKind::Promotion),
            promoting: !self.policy.tiers.tiers_are_idle(),
            demoting: self.policy.tiers.is_demoting(),
            tail_copy: self.migration.tail_copies.under_way() > 0,
            beside_log: self.store.map.has_copies_beside_logs(),
            hdd_flush: self.io.drives().iter().any(|device| device.flushing.is_some()),
            replacement: self.replicas.replacement.is_under_way(),
            switch: self.replicas.replacement.is_switching(),
            drain: self.migration.evacuation.is_under_way(),
            short_of_space: self.io.waits_for_space(),
            logs_full: self.logs_are_full(),
        }
    }

    /// Does this hard drive rest? `None`: it is no hard drive, or takes no commands.
    pub fn rest(&self, device: DeviceId, now: Instant) -> Option<Rest> {
        if self.is_absent(device) {
            return None;
        }
        let going_on = self.activity();
        let drive = &self.io[device];
        let others = (self.metadata_replica(), self.replacement());
        let is_recent = now.since(drive.last_end) < QUIET;
        rest(drive, &going_on, &self.migration.moves, others, is_recent)
    }

    fn logs_are_full(&self) -> bool {
        let full_percent = self.io.config().log_spill_percent();
        let mut logs = self.io.drives().iter().filter_map(|device| device.log.as_ref()).peekable();
        logs.peek().is_some() && logs.all(|log| log.used_percent() >= full_percent)
    }

    /// How often the journal of this life has begun at its start again.
    pub fn journal_turns(&self) -> u64 {
        self.store.journal.mark().0 / self.store.journal.ring_bytes()
    }

    /// The drive that drains serves again; what was moved stays where it is. The caller wakes the engine.
    ///
    /// # Errors
    /// If there is none, or it is decided.
    pub fn cancel_drain(&mut self) -> Result<(), DrainError> {
        self.migration.evacuation.cancel_drain(
            &mut self.store.map,
            &mut self.volumes.objects,
            &mut self.policy.tiers,
            &mut self.io,
        )
    }

    /// A drive that the event loop has added behind all others shall take the place of this one, which may have
    /// been removed, under an id that no drive had before. The caller wakes the engine.
    ///
    /// # Errors
    /// As `can_replace`.
    pub fn replace(&mut self, successor: SuccessorConfig, uuid: u128) -> Result<(), ReplaceError> {
        self.replicas.replacement.replace(
            successor,
            uuid,
            &self.store.metadata,
            &self.migration.evacuation,
            &mut self.io,
        )
    }

    /// Takes the blocks of the object, in the order of their addresses, to have clean copies on the
    /// SSDs beside their homes, until this share of the SSDs' slots is used. False: it is used up.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// As `assume_home`, and if the homes of the object were not assumed before.
    pub fn assume_ssd_copies(
        &mut self,
        object: ObjectId,
        used_percent: u64,
    ) -> Result<bool, IoError> {
        self.policy.tiers.assume_ssd_copies(
            object,
            used_percent,
            &mut self.store.map,
            &mut self.volumes.objects,
            &self.store.metadata,
            &self.io,
        )
    }

    /// Could this drive be replaced by one of so many bytes?
    ///
    /// # Errors
    /// Why not.
    pub fn can_replace(&self, device: DeviceId, capacity_bytes: u64) -> Result<(), ReplaceError> {
        self.replicas.replacement.can_replace(
            device,
            capacity_bytes,
            &self.store.metadata,
            &self.migration.evacuation,
            &self.io,
        )
    }

    /// Takes every block that lies in a hard drive's log, and nowhere else, to have gone home, as it would in
    /// quiet hours. What a log holds that is not durable and recorded yet stays: flush before. The places
    /// in the logs are free when the next commits have recorded it.
    ///
    /// # Panics
    /// If payloads have contents.
    pub fn assume_logs_home(&mut self) {
        self.migration.moves.assume_logs_home(&mut self.store.map, &mut self.store.commit, &self.io)
    }

    /// Takes every block of the object to be at its home on a hard drive, written, durable and
    /// recorded long ago.
    ///
    /// # Errors
    /// `NoObject`.
    ///
    /// # Panics
    /// If payloads have contents, if there are no hard drives, or once blocks were written.
    pub fn assume_home(&mut self, object: ObjectId) -> Result<(), IoError> {
        self.io.assume_home(object, &mut self.store.map, &mut self.volumes.objects)
    }

    /// The pairs, as seen from outside.
    pub fn pairs(&self) -> Vec<PairView> {
        self.replicas.pairs.pairs()
    }

    /// Of each pair: bytes that were acknowledged and are in RAM alone ([IANUS §5.2], "data loss"). Counted
    /// when asked, over everything in the cache.
    pub fn pairs_risk_bytes(&self) -> Vec<u64> {
        self.replicas.pairs.pairs_risk_bytes()
    }

    /// Redirected bytes that are nowhere but in the buffers of hard drives, and in our RAM.
    pub fn bytes_at_risk(&self) -> u64 {
        self.io.bytes_at_risk()
    }

    /// Has a drive left a command without an answer for more than half of its deadline?
    pub fn is_slow(&self, drive: DeviceId) -> bool {
        self.io.is_slow(drive)
    }

    /// Breaks a rule from now on; `None` mends it.
    #[cfg(feature = "mutants")]
    pub fn set_mutant(&mut self, mutant: Option<crate::mutant::Mutant>) {
        self.io.set_mutant(mutant);
        self.replicas.pairs.set_mutant(mutant);
    }

    /// Was this drive gone from the beginning?
    pub fn is_absent(&self, device: DeviceId) -> bool {
        self.start.is_absent(device, &self.io)
    }

    /// What would be lost, object by object, if this drive were gone: what it alone holds. Looks at
    /// every block.
    pub fn loss_without(&self, device: DeviceId) -> Vec<Loss> {
        self.start.loss_without(device, &self.store.map, &self.volumes.objects, &self.io)
    }

    /// Bytes of redirected writes that the cache keeps in RAM beside the tails, and how many it may.
    pub fn read_back_bytes(&self) -> (u64, u64) {
        self.migration.read_back.read_back_bytes()
    }

    /// The tiers that files of a volume may have, by name; none if all have the volume's.
    pub fn file_tiers(&self, volume: ObjectId) -> Vec<&'static str> {
        self.policy.tiers.file_tiers(volume)
    }

    /// Another tier for a volume, from now on: of what it holds on the SSDs nothing is lost, and what the new
    /// one does not keep there leaves as it always does. Until what is coming has come, the old account
    /// goes on.
    ///
    /// # Errors
    /// As for a new engine: the tier is not known, drives are missing for it, or another volume's tier
    /// contradicts it; `Volume` if there is no such volume. Nothing was changed.
    pub fn set_tier(&mut self, object: ObjectId, tier: TierConfig) -> Result<(), ConfigError> {
        self.policy.tiers.set_tier(object, tier, &self.store.map, &mut self.io)
    }

    /// What the tiers' account has counted, and what their collector takes, in bytes; `None`: no volume's
    /// tier has a share.
    pub fn tier_account(&self) -> Option<(SpaceStats, u64)> {
        self.policy.tiers.tier_account()
    }

    /// What the tiers hold, in extents and bytes, and what it may be: `(held, room, extent_bytes)`.
    pub fn tier_room(&self) -> Option<(u32, u32, u64)> {
        self.policy.tiers.tier_room()
    }

    /// The drain under way, or the last one that ended in this life.
    pub fn drain_view(&self) -> Option<DrainView> {
        self.migration.evacuation.drain_view(&self.store.map, &self.volumes.objects, &self.io)
    }

    /// Bytes of a drive that a record names, or that are being written.
    pub fn lies_on(&self, device: DeviceId) -> u64 {
        self.migration.evacuation.lies_on(device, &self.store.map, &self.volumes.objects, &self.io)
    }

    /// Ends the replacement under way; the old drive stays. The caller wakes the engine.
    ///
    /// # Errors
    /// If there is none, or it is decided.
    pub fn cancel_replace(&mut self) -> Result<(), ReplaceError> {
        self.replicas.replacement.cancel_replace(&mut self.store.metadata, &mut self.io)
    }

    /// Of a place that is empty: how many bytes a drive needs for it, and how many are copied to it.
    pub fn empty_place(&self, bay: DeviceId) -> Option<(u64, u64)> {
        self.replicas.replacement.empty_place(bay, &self.store.metadata, &self.io)
    }

    /// The replacement under way, or the last one that ended in this life.
    pub fn replacement(&self) -> Option<ReplacementView> {
        self.replicas.replacement.replacement()
    }

    /// Where the event loop has a successor, or would have one: behind all other drives.
    pub fn successor_place(&self) -> DeviceId {
        self.replicas.replacement.successor_place(&self.io)
    }

    /// The hard drive and the byte where the home of a block lies.
    pub fn home_of(&self, block: Logical) -> (DeviceId, u64) {
        self.volumes.objects.home_of(block, &self.io)
    }

    /// Where the metadata replica stands; `None` if the set has none beside its SSDs.
    pub fn metadata_replica(&self) -> Option<MetadataReplicaStatus> {
        self.store.metadata_replica.status(&self.store.journal, &self.io)
    }

    /// What the metadata takes in memory.
    pub fn metadata_memory(&self) -> MetadataMemory {
        self.store.metadata_memory()
    }

    /// What a drive may take in a day.
    pub fn budget(&self, device: DeviceId) -> DriveBudget {
        self.policy.ledger.budget(device, &self.io)
    }

    /// Time until the next day begins.
    pub fn day_left(&self, now: Instant) -> Duration {
        self.policy.ledger.day_left(now)
    }

    /// Has the drive done what it is rated for?
    pub fn rating_is_spent(&self, device: DeviceId) -> bool {
        self.policy.ledger.rating_is_spent(device, &self.io)
    }

    /// Is an SSD's budget of writes spent?
    pub fn ssd_writes_are_spent(&self, device: DeviceId) -> bool {
        self.policy.ledger.ssd_writes_are_spent(device, &self.io)
    }

    /// Bytes that a drive has taken since the day began: of an SSD writes, of a hard drive reads too.
    pub fn used_today(&self, device: DeviceId) -> u64 {
        self.policy.ledger.used_today(device, &self.io)
    }

    /// May the event loop hand in another request?
    pub fn can_accept(&self) -> bool {
        self.requests.accepted() < self.io.config().requests_max as usize
    }

    /// Counters so far.
    pub fn stats(&self) -> &EngineStats {
        self.io.stats()
    }

    /// The map, to look at.
    pub fn map(&self) -> &Map {
        &self.store.map
    }

    /// Objects by id.
    pub fn objects(&self) -> &Objects {
        &self.volumes.objects
    }

    /// The value of an object's attribute, as the newest batch left it.
    pub fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.volumes.objects.attributes().get(object, key)
    }

    /// An object's attributes from this key on, by key in the order of their bytes.
    pub fn attributes_from(
        &self,
        object: ObjectId,
        key: &[u8],
    ) -> impl Iterator<Item = (&[u8], &[u8])> {
        let attributes = self.volumes.objects.attributes().from(object, key, false);
        attributes.take_while(move |(id, ..)| *id == object).map(|(_, key, value)| (key, value))
    }

    /// The first of an object's attributes behind this key.
    pub fn attribute_after(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        let (id, key, value) =
            self.volumes.objects.attributes().from(object, after, true).next()?;
        (id == object).then_some((key, value))
    }

    /// The first object behind this id.
    pub fn object_after(&self, after: ObjectId) -> Option<ObjectId> {
        let next = ObjectId(after.0.checked_add(1)?);
        self.volumes.objects.from(next).next().map(|(id, _)| id)
    }

    /// One object, as the newest batch left it.
    pub fn object(&self, object: ObjectId) -> Option<&Object> {
        self.volumes.objects.get(object)
    }

    /// … and those of them that no other object has.
    pub fn own_bytes(&self, object: ObjectId) -> u64 {
        self.volumes.objects.held_blocks(object).1 * BLOCK_BYTES
    }

    /// Bytes that objects have taken or can take, and how many of them are free.
    pub fn space_bytes(&self) -> (u64, u64) {
        let all =
            self.store.map.leaves().block_count() as u64 - self.volumes.objects.out_of_use_blocks();
        (all * BLOCK_BYTES, self.volumes.objects.free_blocks() * BLOCK_BYTES)
    }

    /// Blocks of the pool: all, those that objects can take, and those that they have, or had and whose
    /// clearing is not durable yet.
    pub fn space_blocks(&self) -> (u64, u64, u64) {
        self.volumes.space_blocks(&self.store.map)
    }

    /// The drives, to look at.
    pub fn devices(&self) -> &[Device] {
        self.io.drives().as_slice()
    }

    /// What every stream was given until `now`, in the order of the configuration; the last is
    /// everything else. `None` where nobody is told apart.
    pub fn clients(&self, now: Instant) -> Option<Vec<Client>> {
        self.policy.clients.as_ref().map(|clients| clients.list_at(now))
    }

    /// Drives of the event loop: the devices, and the second legs of pairs.
    pub fn drive_count(&self) -> usize {
        self.io.config().drive_count()
    }

    /// What is under way, in words: for a person who looks at an engine that does not move on.
    pub fn debug_state(&self) -> String {
        let devices: Vec<String> = self
            .io.drives()
            .iter()
            .map(|d| {
                format!(
                    "device {} in_flight {} queue {} tail {:?} flushing {:?} wanted {} faulted {} homes {} bcw {:?} awaits {}",
                    d.id.0,
                    d.queue.in_flight(),
                    d.queue.length(),
                    d.tail.items.iter().take(4).collect::<Vec<_>>(),
                    d.flushing,
                    d.flush_wanted,
                    d.is_faulted(),
                    d.home_writes,
                    d.bcw.as_ref().map(|bcw| bcw.state()),
                    self.store.map.awaits_hdd(d.id),
                )
            })
            .collect();
        let pairs: Vec<String> = self.replicas.pairs.debug_state();
        format!(
            "phase {:?} tasks {} ios {} pending {} ready {} ssd {} short of space {} free {}/{} population {:?}\n{}\n{:?}\n{:?}\n{:?} {:?}\n{:?}\n{:?}\n{:?}\n{}",
            self.io.phase(),
            self.requests.accepted(),
            self.io.flights().len(),
            self.store.map.pending_blocks(),
            self.store.map.has_ready(),
            self.store.map.awaits_ssd(),
            self.io.waits_for_space(),
            self.store.map.ssd_free(),
            self.store.map.ssd_slots(),
            self.store.map.population(),
            devices.join("\n"),
            self.store.commit,
            self.migration.moves,
            self.migration.copies,
            self.policy.tiers.demoting(),
            self.store.checkpoint,
            self.store.metadata_replica,
            self.io.stats(),
            pairs.join("\n"),
        )
    }
}
