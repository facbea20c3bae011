//! What a drive that is out of service means for everybody else, and writes that wait for room in vain.
//!
//! Rule: one place knows who is affected when a drive fails a write or a flush. Such a drive is read only
//! from then on: its free space does not count, its copy of the metadata lags (`metadata`), writes that wait
//! for it go elsewhere or fail by name, and what lies there is still read. The last home of the metadata
//! stays in service: nobody can stand in for it, and its commands are tried again (`commit`).

use crate::device::{Device, Service};
use crate::format::superblock::Standing;
use crate::io::DeviceIo;
use crate::map::Map;
use crate::map::objects::Objects;
use crate::metadata::PROBE_AFTER;
use crate::metadata_replica::MetadataReplica;
use crate::migration::Migration;
use crate::migration::moves::Moves;
use crate::migration::tail::TailCopies;
use crate::mutant::Mutant;
use crate::owner::Owner;
use crate::policy::Policy;
use crate::policy::steering::Steering;
use crate::port::IoOp;
use crate::requests::Requests;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::reuse::DeferredFree;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{DeviceId, Duration, Instant, IoError};

impl TailCopies {
    /// When a drive is tried for the first time, if writes wait for room that it may make.
    pub(crate) fn probe_due(&self, io: &DeviceIo) -> Instant {
        if !io.waits_for_space() {
            return Instant::NEVER;
        }
        let untried = io.drives().iter().filter(|d| d.may_heal_soon() && self.may_probe(d));
        untried.map(|d| d.probe_at).min().unwrap_or(Instant::NEVER)
    }

    /// Is it read only, and does nothing stand in the way of trying it? What an SSD holds volatile is the
    /// matter of a commit; what a hard drive holds, that of its rescue.
    pub(crate) fn may_probe(&self, d: &Device) -> bool {
        let holds = d.dirty && d.is_ssd() && d.is_volatile()
            || !d.tail.items.iter().all(|item| item.copied);
        matches!(d.service, Service::ReadOnly(_))
            && d.queue.in_flight() == 0
            && d.flushing.is_none()
            && !holds
            && (self.under_way() == 0)
    }
}

/// Do places that are left wait for a flush of this hard drive, to be recorded as such and used again?
fn awaits_flush(hdd: DeviceId, io: &DeviceIo, map: &Map) -> bool {
    map.awaits_hdd(hdd) && !io[hdd].is_faulted()
}

/// A hard drive gives no answer any more, so nobody can flush what its log holds volatile. Where there is
/// no SSD to copy it to, it may be lost.
fn lose_tail(device: DeviceId, error: IoError, io: &mut DeviceIo, commit: &mut Commit) {
    let is_alone = io.ssds().is_empty();
    let d = &mut io[device];
    if is_alone && !d.tail.items.is_empty() {
        d.flush_wanted = false;
        commit.tails_failed(error);
        commit.break_off(error);
    }
}

/// Nothing new goes to an SSD that failed, so its free slots are no room for anybody.
fn close_failed_ssd(
    device: DeviceId,
    io: &DeviceIo,
    map: &mut Map,
    objects: &mut Objects,
    tiers: &mut Tiers,
) {
    let ssd = io.ssds().iter().position(|&id| id == device).expect("an SSD");
    if io.breaks(Mutant::CountsFailedRoom) {
        return;
    }
    if !io.is_fixed() && io.is_serving() {
        map.close_ssd(ssd, true);
        objects.fit_objects(io);
        tiers.share_anew();
    }
}

impl TailCopies {
    fn probe(
        &self,
        device: DeviceId,
        requests: &mut Requests,
        metadata_replica: &mut MetadataReplica,
        steering: &mut Steering,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let now = io.now();
        let d = &io[device];
        if now < d.probe_at || !self.may_probe(d) {
            return;
        }
        let d = &mut io[device];
        d.probes += 1;
        d.probe_at = now + Duration::from_ns(PROBE_AFTER.ns << d.probes.min(6));
        if d.is_ssd() {
            io.submit(device, IoOp::Flush, Owner::Probe);
        } else {
            tiers.flush_hdd(device, requests, metadata_replica, steering, io);
        }
    }

    /// Can anything still make room on the drives that take writes?
    fn room_can_come(
        &self,
        map: &Map,
        commit: &Commit,
        moves: &Moves,
        deferred_free: &DeferredFree,
        io: &DeviceIo,
    ) -> bool {
        if commit.is_broken() {
            return false;
        }
        let under_way = !io.flights().is_empty() || !moves.is_idle() || !commit.is_idle();
        let follows = !deferred_free.is_empty()
            || map.pending_blocks() > 0
            || moves.homed_count() > 0
            || io.hdds().iter().any(|&hdd| awaits_flush(hdd, io, map));
        let population = map.population();
        let drops = map.spare_copies() > 0 && !moves.dropping.found_nothing(commit.durable());
        let moves = drops || (population.dirty_ssd > 0 && !moves.found_nothing(commit.durable()));
        // a drive that failed once may work when it is tried for the first time
        let heals = io.drives().iter().any(|d| {
            let is_busy = d.queue.in_flight() > 0 || d.flushing.is_some() || (self.under_way() > 0);
            d.may_heal_soon() && (is_busy || self.may_probe(d))
        });
        under_way || follows || moves || heals
    }

    /// Tries drives that are read only whether they work again. Only events bring this about, and a timer where
    /// writes wait for room: where nobody asks for anything nothing waits for it.
    #[inline]
    pub(crate) fn probe_failed(
        &self,
        requests: &mut Requests,
        metadata_replica: &mut MetadataReplica,
        steering: &mut Steering,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        if io.stats().faulted_drives > io.stats().healed_drives {
            for index in 0..io.drives().len() {
                self.probe(DeviceId(index as u8), requests, metadata_replica, steering, tiers, io);
            }
        }
    }
}

impl Store {
    /// A drive that failed was flushed.
    pub(crate) fn probed(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let d = &mut io[device];
        if status.is_err() || !matches!(d.service, Service::ReadOnly(_)) {
            return;
        }
        d.service = Service::Full;
        let is_closed = d.standing != Standing::Serves;
        io.stats_mut().healed_drives += 1;
        let stats = io.stats();
        assert!(stats.healed_drives <= stats.faulted_drives, "a drive heals that had failed");
        if let Some(ssd) = io.ssds().iter().position(|&id| id == device) {
            self.map.close_ssd(ssd, is_closed);
            policy.tiers.share_anew();
            let (map, checksums) = (&mut self.map, &mut self.checksums);
            let (objects, metadata) = (&mut volumes.objects, &mut self.metadata);
            self.checkpoint.begin_levelling(map, checksums, objects, metadata, io);
        } else {
            self.metadata.note_hdd_level(device, io);
        }
    }

    /// A drive was taken out of service: everybody whom it concerns learns of it here.
    pub(crate) fn tell_of_fault(
        &mut self,
        (device, service, first): (DeviceId, Service, bool),
        volumes: &mut Volumes,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let (Service::ReadOnly(error) | Service::Out(error)) = service else {
            unreachable!("a drive is taken out of service for a reason");
        };
        if matches!(service, Service::Out(_)) {
            lose_tail(device, error, io, &mut self.commit);
            migration.tail_copies.lose_log(device, &self.map, io);
        }
        if !first {
            return; // everybody knows already
        }
        if io[device].is_ssd() {
            close_failed_ssd(device, io, &mut self.map, &mut volumes.objects, &mut policy.tiers);
        } else {
            migration.tail_copies.want_rescue();
            migration.moves.lose_homed(
                device,
                &mut self.map,
                &mut volumes.objects,
                &mut migration.evacuation,
                io,
            );
            self.metadata_replica.lose(device);
        }
        if self.metadata.sound_homes(io).is_empty() && !io.is_fixed() {
            self.commit.break_off(error);
        }
    }

    /// Nobody asks for a flush where everybody waits for the room that it makes.
    fn flush_for_room(
        &mut self,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        // what a discard left takes a record, and makes room then
        if self.map.has_ready() && !self.commit.is_broken() {
            self.commit.note_pending(io.now());
        }
        let is_busy = !io.flights().is_empty() || !self.commit.is_idle();
        // nothing is recorded any more where commits are broken, and no flush makes room
        if is_busy || self.commit.is_broken() || self.map.pending_blocks() > 0 {
            return;
        }
        for index in 0..io.hdds().len() {
            let hdd = io.hdds()[index];
            if awaits_flush(hdd, io, &self.map) && io[hdd].flushing.is_none() {
                io[hdd].flush_wanted = true;
                requests.dispatch(hdd, self, volumes, migration, policy, io);
            }
        }
    }

    /// Where drives are out of service, writes that wait for room may wait for ever. Then they fail, by the
    /// name of the drive that would have made room. True: some did.
    pub(crate) fn fail_without_room(
        &mut self,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) -> bool {
        let failed = io.drives().iter().find(|d| d.is_faulted() && !d.is_gone());
        let error = self.commit.broken().or(failed.map(|d| IoError::Dead(d.id)));
        // or what lies in the logs cannot be moved
        let stuck =
            migration.moves.unmovable.error().filter(|_| migration.moves.may_begin(io.now()));
        let error = error.or(stuck);
        let Some(error) = error else { return false };
        self.flush_for_room(volumes, requests, migration, policy, io);
        if !io.waits_for_space()
            || migration.tail_copies.room_can_come(
                &self.map,
                &self.commit,
                &migration.moves,
                &self.deferred_free,
                io,
            )
            || io.breaks(Mutant::CountsFailedRoom)
        {
            return false;
        }
        let before = io.stats().refused_without_room;
        io.fail_without_space(Some(error));
        io.note_space();
        for index in 0..io.drives().len() {
            requests.dispatch(DeviceId(index as u8), self, volumes, migration, policy, io);
        }
        io.fail_without_space(None);
        io.stats().refused_without_room > before
    }
}
