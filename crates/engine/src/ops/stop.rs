//! What steps end in a clean state?
//!
//! Requests under way are answered, everything is committed, a checkpoint is taken, and the
//! superblocks say "clean". A pool that was stopped without these recovers from its journal.

use crate::engine::Engine;
use crate::io::DeviceIo;
use crate::io::Phase;
use crate::metadata::MetadataHomes;
use crate::owner::{MetadataIo, Owner};
use crate::port::{Command, IoOp};
use crate::start::Start;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

impl DeviceIo {
    pub(crate) fn on_shutdown(&mut self, start: &mut Start) {
        match self.phase() {
            Phase::Running => self.enter(Phase::Stopping),
            Phase::Stopping => {}
            _ => {
                start.end();
                self.enter(Phase::Stopped);
                self.send(Command::Stopped);
            }
        }
    }
}

impl MetadataHomes {
    pub(crate) fn superblock_written(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        io: &mut DeviceIo,
    ) {
        if let Err(error) = status {
            self.superblock_refused(device, error, io);
        }
        self.superblock_ended(io);
    }
}

impl Engine {
    /// Is everything durable? Then the superblocks are written and the engine stops.
    pub(crate) fn stop_if_durable(&mut self) {
        if !self.io.is_stopping() {
            return;
        }
        if !self.requests.is_empty() || !self.requests.held_back().is_empty() {
            return;
        }
        if self.io.is_fixed() || self.store.commit.is_broken() {
            if self.io.flights().is_empty() && !self.replicas.replacement.is_under_way() {
                self.migration.read_back.drop_read_back(&mut self.io);
                self.io.enter(Phase::Stopped);
                self.io.send(Command::Stopped);
            }
            return;
        }
        if !self.replicas.replacement.replacement_is_quiet()
            || !self.migration.evacuation.drain_is_quiet()
        {
            return;
        }
        if !self.migration.moves.is_idle()
            || !self.policy.tiers.tiers_are_idle()
            || !self.store.commit.is_idle()
        {
            return;
        }
        for index in 0..self.io.hdds().len() {
            let device = self.io.hdds()[index];
            let has_ssd = !self.io.ssds().is_empty();
            let d = &mut self.io[device];
            let open = !d.tail.items.is_empty()
                || d.home_writes > self.migration.moves.homes_durable_mark(device);
            // without an SSD nobody can rescue what a drive that is read only holds volatile
            let is_flushed = !d.is_faulted() || !has_ssd && !d.is_out();
            let has_failed = d.is_faulted() && has_ssd;
            if has_failed && !d.tail.items.iter().all(|item| item.copied) {
                if self.migration.tail_copies.rescue_for_stop(
                    device,
                    &mut self.store.map,
                    &mut self.requests,
                    &mut self.migration.moves,
                    &mut self.store.deferred_free,
                    &mut self.io,
                ) {
                    continue;
                }
                self.store.commit.break_off(tandem_block::IoError::Dead(device));
                return self.stop_if_durable();
            }
            if open && is_flushed {
                if d.flushing.is_none() {
                    d.flush_wanted = true;
                }
                return;
            }
        }
        let awaits_hdd = self.io.hdds().iter().any(|&device| self.store.map.awaits_hdd(device));
        let objects = !self.volumes.objects.changes().is_empty();
        if self.store.map.has_ready() || self.store.map.awaits_ssd() || awaits_hdd || objects {
            self.store.map.look_at_logs();
            self.store.commit.note_pending(self.io.now());
            return;
        }
        if !self.store.finish_checkpoint_for_stop(
            &mut self.volumes,
            &mut self.migration,
            &mut self.replicas,
            &mut self.io,
        ) {
            return;
        }
        if !self
            .store
            .metadata_replica
            .is_level(self.store.checkpoint.has_failed(), &self.store.journal)
        {
            self.store.metadata_replica.flush_for_stop(&mut self.io);
            return;
        }
        if !self.store.metadata.writes_superblocks() && self.io.flights().is_empty() {
            self.migration.read_back.drop_read_back(&mut self.io);
            self.store.metadata.ask_for_superblocks(true, &mut self.io);
        }
    }

    /// Writes every superblock, the first copies and then the second, so that a power cut finds at
    /// least one whole; `clean` is what they will say.
    pub(crate) fn write_superblocks(&mut self, clean: bool) {
        self.store.metadata.next_generation();
        self.store.metadata.telling();
        self.write_superblock_copies(clean, 0);
    }

    pub(crate) fn write_superblock_copies(&mut self, clean: bool, copy: u8) {
        let mut writes = 0;
        for id in self.io.drives().ids() {
            let skips = self.io[id].is_faulted() || self.replicas.replacement.round_skips(id);
            if !self.migration.evacuation.round_is_for(id).unwrap_or(!skips) {
                continue;
            }
            let bytes = self
                .store
                .metadata
                .superblock(
                    id,
                    clean,
                    &self.volumes.objects,
                    &self.replicas.replacement,
                    &self.migration.evacuation,
                    &self.io,
                )
                .encode();
            let last = self.io[id].drive_bytes / BLOCK_BYTES * BLOCK_BYTES;
            let offset_bytes = if copy == 0 { 0 } else { last - BLOCK_BYTES };
            let op = IoOp::WriteMeta { offset_bytes, bytes, fua: true };
            self.io.submit(id, op, Owner::Metadata(MetadataIo::Superblock));
            writes += 1;
        }
        self.store.metadata.begin_round(writes, copy);
        if writes == 0 && self.replicas.replacement.round_is_replacements(&self.io) {
            // the drive that is replaced is the pool's only one
            self.store.metadata.end_round();
            self.round_done();
        } else if writes == 0 && self.store.metadata.is_round() {
            self.store.metadata.end_round();
            self.store.metadata.told_of_lagging(
                &mut self.requests,
                &mut self.store.commit,
                &mut self.io,
            );
        }
    }

    /// One copy of all superblocks was written.
    pub(crate) fn superblocks_written(&mut self, copy: u8) {
        let is_replacements = self.replicas.replacement.round_is_replacements(&self.io);
        let is_drains = self.migration.evacuation.round_is_drains(&self.io);
        let is_stops = !is_replacements && !is_drains && !self.store.metadata.is_round();
        let stopping = self.io.is_stopping() && is_stops;
        if copy == 0 {
            self.write_superblock_copies(stopping, 1);
            return;
        }
        let is_laggings = self.store.metadata.is_round();
        self.store.metadata.told_of_lagging(
            &mut self.requests,
            &mut self.store.commit,
            &mut self.io,
        );
        if is_laggings {
            self.store.metadata.end_round();
        } else if is_replacements {
            self.store.metadata.end_round();
            self.round_done();
        } else if is_drains {
            self.store.metadata.end_round();
            self.drain_round_done();
        } else if stopping {
            self.io.enter(Phase::Stopped);
            self.io.send(Command::Stopped);
        } else {
            self.store.metadata.end_round();
            self.serve();
        }
    }
}
