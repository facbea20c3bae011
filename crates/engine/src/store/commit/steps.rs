//! The steps of a commit: from what waits to what is durable.

use super::participants::Participants;
use super::{PENDING_BLOCKS_MAX, Stage, UnitUnderWay, blocks_that_fit};
use crate::format::record_writer::RecordWriter;
use crate::format::unit::{Unit, disk_bytes};
use crate::io::DeviceIo;
use crate::map::{Cover, Limits};
use crate::mutant::Mutant;
use crate::owner::{MetadataIo, Owner};
use crate::port::IoOp;
use crate::store::Store;
use crate::store::pace::has_too_much_uncommitted;
use tandem_block::{DeviceId, IoError};

impl Store {
    /// Nothing is answered before the superblocks say who missed it.
    pub(super) fn end_told(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        if !self.metadata.is_told() {
            return;
        }
        assert!(self.commit.stage == Stage::Telling, "only what was written is told");
        assert!(
            self.commit.units.is_empty() && self.commit.unit.is_none(),
            "all its units are durable"
        );
        assert!(self.commit.outstanding == 0, "none of its commands is under way");
        self.commit.suspended = None;
        self.commit.stage = Stage::Idle;
        let batch = std::mem::take(&mut self.commit.batch);
        self.commit.durable = self.commit.composed;
        assert!(batch.bodies.is_empty(), "they went into its units");
        participants.durable(self.commit.durable, batch.is_partial);
        if batch.updates > 0 {
            io.stats_mut().commits += 1;
            io.stats_mut().updates += batch.updates;
        }
        let (served, waiting) = (self.commit.served.len(), self.commit.waiting());
        self.commit.gathering.ends(io.now(), served, waiting);
        self.deferred_free.free_after_commit(batch.freed, &self.map);
        participants.freed(self, io);
        self.commit.answer(Ok(()), participants);
    }

    fn end_commit(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        assert!(self.commit.stage != Stage::Idle, "a commit that is under way ends");
        assert!(self.commit.outstanding == 0, "none of its commands is under way");
        assert!(self.commit.unit.is_none(), "a unit is tried until it is durable");
        self.commit.stage = Stage::Idle;
        self.commit.units.clear();
        let batch = std::mem::take(&mut self.commit.batch);
        if let Some(error) = self.commit.error.take() {
            // nothing that the batch displaced may be reused: the old record still names it
            self.commit.kept.extend(batch.freed);
            self.commit.answer(Err(error), participants);
            return;
        }
        self.commit.batch = batch;
        self.commit.stage = Stage::Telling;
        self.end_told(participants, io);
    }

    /// Writes the next unit, or ends the commit. There is room: the batch was composed to fit.
    fn write_units(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        if self.commit.units.is_empty() {
            self.end_commit(participants, io);
            return;
        }
        assert!(self.commit.stage == Stage::Writing, "units are written behind the flushes");
        assert!(self.commit.unit.is_none(), "one unit at a time: recovery reads them in order");
        assert!(self.commit.suspended.is_none(), "nothing goes on behind a step that failed");
        let body = self.commit.units.pop_front().expect("asked above");
        let length = disk_bytes(body.len());
        let place = self.journal.place(length as u64);
        let unit = Unit { sequence: place.sequence, acked_upto: place.sequence - 1, body };
        let bytes = unit.encode(io.config().pool);
        assert_eq!(bytes.len(), length, "a unit is as long as its place");
        let (sequence, end, offset) = (place.sequence, self.journal.mark().0, place.offset);
        self.commit.unit = Some(UnitUnderWay { sequence, end, offset, bytes });
        self.commit.send_unit(participants, &self.metadata, io);
    }

    /// Fixed placement makes no promise, but a FLUSH still costs what it costs.
    fn flush_fixed(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        assert!(self.commit.stage == Stage::Idle, "one commit at a time");
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
            self.end_commit(participants, io);
        }
    }

    fn flushed(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        assert!(self.commit.stage == Stage::Flushing, "its flushes were under way");
        if io.is_fixed() || self.commit.error.is_some() {
            self.end_commit(participants, io);
            return;
        }
        let bodies = std::mem::take(&mut self.commit.batch.bodies);
        self.commit.units = bodies.into();
        self.commit.stage = Stage::Writing;
        self.write_units(participants, io);
    }

    pub(crate) fn unit_written(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        participants: &mut dyn Participants,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.stage == Stage::Writing, "a unit was being written");
        assert!(self.commit.outstanding > 0, "each write of a unit ends once");
        assert!(self.commit.unit.is_some(), "a unit is kept until it is durable");
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
                participants,
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
        self.write_units(participants, io);
    }

    /// Composes the batch at the instant at which the flushes are issued: what completed until now
    /// is durable when they succeed.
    fn compose_batch(
        &mut self,
        cover: Cover,
        participants: &mut dyn Participants,
        io: &mut DeviceIo,
    ) {
        assert!(self.commit.error.is_none(), "a commit that failed composes nothing");
        self.memory.fit(&self.map, &mut self.checksums, &self.metadata_replica);
        assert!(
            matches!(self.commit.stage, Stage::Idle | Stage::Tails),
            "one commit at a time: what the next one flushes is not the last one's"
        );
        assert!(self.commit.batch.freed.is_empty(), "slots of the last batch were handed on");
        assert!(self.commit.served.is_empty(), "those of the commit before were answered");
        assert!(
            self.commit.units.is_empty() && self.commit.suspended.is_none(),
            "nothing of the commit before is still to be written"
        );
        let mut records = RecordWriter::default();
        let limits = Limits {
            blocks: blocks_that_fit(participants.journal_bytes_kept(&self.journal), &self.journal),
            body_bytes: self.commit.body_bytes_max(&self.journal),
        };
        participants.prepare(&mut records, self, io);
        self.commit.batch = self.map.compose(cover, limits, &mut records);
        for (block, checksum) in std::mem::take(&mut self.commit.batch.sums) {
            self.checksums.set(block, checksum);
        }
        self.commit.composed += 1;
        participants.follow(self, io);
        let bodies = &self.commit.batch.bodies;
        let max = limits.body_bytes;
        assert!(bodies.iter().all(|body| body.len() <= max), "each body fits a unit");
        if !self.commit.batch.is_partial {
            self.commit.served = std::mem::take(&mut self.commit.fua_waiting);
            if cover == Cover::SsdFlush {
                participants.check(self, io);
                self.commit.served.append(&mut self.commit.flush_waiting);
            }
        }
        self.commit.oldest_pending = None;
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
            self.flushed(participants, io);
        }
    }

    /// A device that a commit (or a flush under fixed placement) flushed has answered.
    pub(crate) fn commit_flushed(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        participants: &mut dyn Participants,
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
            self.flushed(participants, io);
        }
    }

    fn advance_tails(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        if self.commit.error.is_some() {
            // before anything is composed: what a dropped batch took along would never be recorded
            if !participants.are_settling() {
                self.end_commit(participants, io);
            }
            return;
        }
        let is_safe = participants.settle(self, io);
        if self.commit.error.is_some() {
            // a drive that failed holds what nobody has room for
            self.advance_tails(participants, io);
        } else if is_safe {
            self.compose_batch(Cover::SsdFlush, participants, io);
        }
    }

    /// Is a commit due that no client asks for?
    fn is_commit_due(&self, participants: &dyn Participants, io: &DeviceIo) -> bool {
        let Some(oldest) = self.commit.oldest_pending else { return false };
        io.now().since(oldest) >= io.config().commit_interval
            || self.map.pending_blocks() >= PENDING_BLOCKS_MAX
            || has_too_much_uncommitted(&self.map, io)
            || participants.want_commit(self, io)
            || io.is_stopping()
    }

    fn begin_commit(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        let asked = !self.commit.flush_waiting.is_empty() || participants.press(self);
        let fua = !self.commit.fua_waiting.is_empty();
        let due = self.is_commit_due(participants, io);
        let wanted = participants.are_awaited(self);
        if !asked && !fua && !due && !wanted {
            return;
        }
        if let Some(error) = self.commit.broken {
            // what is pending stays so for ever; a timer for it would fire for ever too
            self.commit.oldest_pending = None;
            self.commit.answer(Err(error), participants);
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
            self.flush_fixed(participants, io);
            return;
        }
        let kept_bytes = participants.journal_bytes_kept(&self.journal);
        if blocks_that_fit(kept_bytes, &self.journal) == 0 {
            if wanted {
                // the checkpoint that will make room waits for them: room was kept for that
                self.compose_batch(Cover::Durable, participants, io);
                return;
            }
            if self.checkpoint.has_failed() {
                // no checkpoint will make room any more: that is the end of durability, said aloud
                self.commit.broken = Some(IoError::Device(self.metadata.first_metadata_home(io)));
                self.begin_commit(participants, io);
            }
            // a checkpoint is on its way where the journal is more than half full, and else comes now
            self.checkpoint.ask_for_room(&self.journal);
            io.stats_mut().commits_without_room += u64::from(!self.commit.lacks_room);
            self.commit.lacks_room = true;
            return;
        }
        self.commit.lacks_room = false;
        if asked && !io.breaks(Mutant::FlushWithoutTails) {
            self.commit.stage = Stage::Tails;
            self.advance_tails(participants, io);
        } else if asked || due || wanted {
            self.compose_batch(Cover::SsdFlush, participants, io);
        } else {
            self.compose_batch(Cover::Durable, participants, io);
        }
    }

    /// Begins or advances a commit.
    #[inline]
    pub(crate) fn run_commit(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        if self.commit.suspended.is_some() {
            self.retry_commit(participants, io);
        }
        if self.map.pending_blocks() > 0 {
            self.commit.note_pending(io.now());
        }
        loop {
            let (composed, before) = (self.commit.composed, self.commit.stage);
            match before {
                Stage::Idle => self.begin_commit(participants, io),
                Stage::Tails => self.advance_tails(participants, io),
                Stage::Flushing | Stage::Writing => {}
                Stage::Telling => self.end_told(participants, io),
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
