//! The steps of a commit: from what waits to what is durable.

use super::{Stage, UnitUnderWay, blocks_that_fit};
use crate::format::record::RecordWriter;
use crate::format::unit::{Unit, disk_bytes};
use crate::io::DeviceIo;
use crate::map::{Cover, Limits};
use crate::migration::Migration;
use crate::mutant::Mutant;
use crate::owner::{MetadataIo, Owner};
use crate::policy::Policy;
use crate::port::IoOp;
use crate::requests::Requests;
use crate::store::Store;
use crate::volumes::Volumes;
use crate::volumes::batch::record_objects;
use tandem_block::{DeviceId, IoError};

impl Store {
    /// Nothing is answered before the superblocks say who missed it.
    pub(super) fn end_told(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        if !self.metadata.is_told() {
            return;
        }
        assert!(self.commit.stage == Stage::Telling, "only what was written is told");
        assert!(self.commit.units.is_empty(), "all its units are durable");
        self.commit.suspended = None;
        self.commit.stage = Stage::Idle;
        let batch = std::mem::take(&mut self.commit.batch);
        self.commit.durable = self.commit.composed;
        assert!(batch.bodies.is_empty(), "they went into its units");
        volumes.object_changes.release_retired(
            self.commit.durable,
            batch.is_partial,
            &mut volumes.objects,
        );
        if batch.updates > 0 {
            io.stats_mut().commits += 1;
            io.stats_mut().updates += batch.updates;
        }
        let (served, waiting) = (self.commit.served.len(), self.commit.waiting());
        self.commit.gathering.ends(io.now(), served, waiting);
        self.deferred_free.free_after_commit(batch.freed, &self.map);
        if !migration.moves.homed_log.is_empty() {
            migration.moves.give_up_log_places(&mut self.commit, &mut self.map, io);
        }
        self.commit.answer(Ok(()), requests);
    }

    fn end_commit(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.stage != Stage::Idle, "a commit that is under way ends");
        assert!(self.commit.outstanding == 0, "none of its commands is under way");
        self.commit.stage = Stage::Idle;
        self.commit.units.clear();
        let batch = std::mem::take(&mut self.commit.batch);
        if let Some(error) = self.commit.error.take() {
            // nothing that the batch displaced may be reused: the old record still names it
            self.commit.kept.extend(batch.freed);
            self.commit.answer(Err(error), requests);
            return;
        }
        self.commit.batch = batch;
        self.commit.stage = Stage::Telling;
        self.end_told(volumes, requests, migration, io);
    }

    /// Writes the next unit, or ends the commit. There is room: the batch was composed to fit.
    fn write_units(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        if self.commit.units.is_empty() {
            self.end_commit(volumes, requests, migration, io);
            return;
        }
        assert!(self.commit.stage == Stage::Writing, "units are written behind the flushes");
        assert!(self.commit.unit.is_none(), "one unit at a time: recovery reads them in order");
        let body = self.commit.units.pop_front().expect("asked above");
        let place = self.journal.place(disk_bytes(body.len()) as u64);
        let unit = Unit { sequence: place.sequence, acked_upto: place.sequence - 1, body };
        let bytes = unit.encode(io.config().pool);
        let (sequence, end, offset) = (place.sequence, self.journal.mark().0, place.offset);
        self.commit.unit = Some(UnitUnderWay { sequence, end, offset, bytes });
        self.commit.send_unit(requests, &self.metadata, io);
    }

    /// Fixed placement makes no promise, but a FLUSH still costs what it costs.
    fn flush_fixed(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.served.is_empty(), "those of the commit before were answered");
        self.commit.served = std::mem::take(&mut self.commit.flush_waiting);
        self.commit.served.append(&mut self.commit.fua_waiting);
        self.commit.oldest_pending = None;
        self.commit.stage = Stage::Flushing;
        self.commit.outstanding = 0;
        for id in io.drives().ids() {
            let d = &mut io[id];
            if d.dirty && d.is_volatile() && d.is_ssd() {
                d.dirty = false;
                self.commit.outstanding += 1;
                io.submit(id, IoOp::Flush, Owner::Metadata(MetadataIo::CommitFlush));
            }
        }
        if self.commit.outstanding == 0 {
            self.end_commit(volumes, requests, migration, io);
        }
    }

    fn flushed(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.stage == Stage::Flushing, "its flushes were under way");
        if io.is_fixed() || self.commit.error.is_some() {
            self.end_commit(volumes, requests, migration, io);
            return;
        }
        let bodies = std::mem::take(&mut self.commit.batch.bodies);
        self.commit.units = bodies.into();
        self.commit.stage = Stage::Writing;
        self.write_units(volumes, requests, migration, io);
    }

    pub(crate) fn unit_written(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.stage == Stage::Writing, "a unit was being written");
        assert!(self.commit.outstanding > 0, "each write of a unit ends once");
        match status {
            // a start believes nothing of a drive that lags
            Ok(()) => self.commit.written |= !self.metadata.contains(device),
            Err(error) => {
                self.metadata.fault(device, error, io);
                self.commit.failed = Some(error);
            }
        }
        self.commit.outstanding -= 1;
        if self.commit.outstanding > 0 {
            return;
        }
        let failed = self.commit.failed.take();
        if !std::mem::take(&mut self.commit.written) {
            // no home of the metadata has it
            self.commit.suspend_commit(
                failed.unwrap_or(IoError::Dead(self.metadata.first_metadata_home(io))),
                requests,
                io,
            );
            return;
        }
        self.commit.suspended = None;
        let unit = self.commit.unit.take().expect("a unit was under way");
        if self.metadata_replica.home().is_some() {
            self.metadata_replica.unit_is_durable(
                unit.sequence,
                unit.end,
                unit.offset,
                unit.bytes,
                io,
            );
        }
        self.write_units(volumes, requests, migration, io);
    }

    /// Composes the batch at the instant at which the flushes are issued: what completed until now
    /// is durable when they succeed.
    fn compose_batch(
        &mut self,
        cover: Cover,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.error.is_none(), "a commit that failed composes nothing");
        assert!(
            matches!(self.commit.stage, Stage::Idle | Stage::Tails),
            "one commit at a time: what the next one flushes is not the last one's"
        );
        assert!(self.commit.batch.freed.is_empty(), "slots of the last batch were handed on");
        let mut records = RecordWriter::default();
        let limits = Limits {
            blocks: blocks_that_fit(&volumes.objects, &self.journal),
            body_bytes: self.commit.body_bytes_max(&self.journal),
        };
        record_objects(
            &mut records,
            &mut volumes.objects,
            &self.journal,
            &self.commit,
            &mut self.metadata_replica,
            io,
        );
        let mut batch = self.map.compose(cover, limits, &mut records);
        let left = volumes.sharing.record_links(
            &mut batch,
            &self.commit,
            &self.journal,
            &self.map,
            &mut volumes.objects,
            io,
        );
        let max = limits.body_bytes;
        assert!(batch.bodies.iter().all(|body| body.len() <= max), "each body fits a unit");
        self.commit.batch = batch;
        self.commit.composed += 1;
        left.into_iter().for_each(|range| volumes.let_go_of(range, self, requests, policy, io));
        if !self.commit.batch.is_partial {
            self.commit.served = std::mem::take(&mut self.commit.fua_waiting);
            if cover == Cover::SsdFlush {
                volumes.sharing.check_links(&self.commit, &volumes.objects, io);
                self.commit.served.append(&mut self.commit.flush_waiting);
            }
        }
        self.commit.oldest_pending = None;
        migration.copies.composed();
        if self.map.has_ready() || self.map.awaits_ssd() {
            self.commit.note_pending(io.now());
        }
        self.commit.stage = Stage::Flushing;
        self.commit.outstanding = 0;
        if io.breaks(Mutant::EarlyReuse) {
            let freed = std::mem::take(&mut self.commit.batch.freed);
            self.deferred_free.free_after_commit(freed, &self.map);
        }
        if cover == Cover::SsdFlush && !io.breaks(Mutant::CommitWithoutFlush) {
            self.commit.send_flushes(io);
        }
        if self.commit.outstanding == 0 {
            self.flushed(volumes, requests, migration, io);
        }
    }

    /// A device that a commit (or a flush under fixed placement) flushed has answered.
    pub(crate) fn commit_flushed(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.stage == Stage::Flushing, "its flushes were under way");
        assert!(self.commit.outstanding > 0, "each flush ends once");
        match status {
            Ok(()) => {}
            Err(error) if io.is_fixed() => self.commit.fail(error),
            Err(error) => {
                self.commit.put_in_doubt(error);
                self.metadata.fault(device, error, io);
            }
        }
        self.commit.outstanding -= 1;
        if self.commit.outstanding == 0 {
            self.flushed(volumes, requests, migration, io);
        }
    }

    fn advance_tails(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if self.commit.error.is_some() {
            // before anything is composed: what a dropped batch took along would never be recorded
            if migration.tail_copies.under_way() == 0 {
                self.end_commit(volumes, requests, migration, io);
            }
            return;
        }
        let mut safe = true;
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            safe &= migration.settle_tail(device, self, requests, io);
        }
        if self.commit.error.is_some() {
            // a drive that failed holds what nobody has room for
            self.advance_tails(volumes, requests, migration, policy, io);
        } else if safe {
            self.compose_batch(Cover::SsdFlush, volumes, requests, migration, policy, io);
        }
    }

    fn begin_commit(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let somebody_waits = !requests.held_back().is_empty();
        let asked = !self.commit.flush_waiting.is_empty()
            || volumes.sharing.links_press(&self.journal, &volumes.objects, somebody_waits);
        let fua = !self.commit.fua_waiting.is_empty();
        let due = self.commit.is_commit_due(
            &self.map,
            requests,
            &migration.moves,
            &migration.copies,
            &volumes.object_changes,
            io,
        );
        let wanted = self.checkpoint_awaits_objects(volumes);
        if !asked && !fua && !due && !wanted {
            return;
        }
        if let Some(error) = self.commit.broken {
            // what is pending stays so for ever; a timer for it would fire for ever too
            self.commit.oldest_pending = None;
            self.commit.answer(Err(error), requests);
            return;
        }
        let waiting = self.commit.waiting();
        let may_wait = !due && !wanted && !io.is_fixed();
        if may_wait && self.commit.gathering.holds(io.now(), waiting) {
            return;
        }
        if self.commit.gathering.begins(io.now(), waiting) {
            io.stats_mut().commits_gathered += 1;
            io.disarm_timer();
        }
        if io.is_fixed() {
            self.flush_fixed(volumes, requests, migration, io);
            return;
        }
        if blocks_that_fit(&volumes.objects, &self.journal) == 0 {
            if wanted {
                // the checkpoint that will make room waits for them: room was kept for that
                self.compose_batch(Cover::Durable, volumes, requests, migration, policy, io);
                return;
            }
            if self.checkpoint.has_failed() {
                // no checkpoint will make room any more: that is the end of durability, said aloud
                self.commit.broken = Some(IoError::Device(self.metadata.first_metadata_home(io)));
                self.begin_commit(volumes, requests, migration, policy, io);
            }
            return; // the journal is more than half full, so a checkpoint is on its way
        }
        if asked && !io.breaks(Mutant::FlushWithoutTails) {
            self.commit.stage = Stage::Tails;
            self.advance_tails(volumes, requests, migration, policy, io);
        } else if asked || due || wanted {
            self.compose_batch(Cover::SsdFlush, volumes, requests, migration, policy, io);
        } else {
            self.compose_batch(Cover::Durable, volumes, requests, migration, policy, io);
        }
    }

    /// Begins or advances a commit.
    #[inline]
    pub(crate) fn run_commit(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if self.commit.suspended.is_some() {
            self.retry_commit(volumes, requests, migration, io);
        }
        loop {
            let (composed, before) = (self.commit.composed, self.commit.stage);
            match before {
                Stage::Idle => self.begin_commit(volumes, requests, migration, policy, io),
                Stage::Tails => self.advance_tails(volumes, requests, migration, policy, io),
                Stage::Flushing | Stage::Writing => {}
                Stage::Telling => self.end_told(volumes, requests, migration, io),
            }
            // a commit with nothing to write ends at once, and who came meanwhile is next
            let was_under_way = self.commit.composed > composed || before == Stage::Telling;
            let ended = self.commit.stage == Stage::Idle && was_under_way;
            if !ended || self.commit.is_idle() {
                return;
            }
        }
    }
}
