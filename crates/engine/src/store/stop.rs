//! What steps end in a clean state?
//!
//! Requests under way are answered, everything is committed, a checkpoint is taken, and the
//! superblocks say "clean". A pool that was stopped without these recovers from its journal.

use crate::io::{DeviceIo, Phase};
use crate::migration::Migration;
use crate::policy::Policy;
use crate::port::Command;
use crate::replicas::Replicas;
use crate::requests::Requests;
use crate::store::Store;
use crate::volumes::Volumes;

impl Store {
    /// Is everything durable? Then the superblocks are written and the engine stops.
    pub(crate) fn stop_if_durable(
        &mut self,
        volumes: &mut Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        policy: &mut Policy,
        replicas: &mut Replicas,
        io: &mut DeviceIo,
    ) {
        if !io.is_stopping() {
            return;
        }
        if requests.accepted() > 0 {
            return;
        }
        if io.is_fixed() || self.commit.is_broken() {
            if io.flights().is_empty() && !replicas.replacement.is_under_way() {
                migration.read_back.drop_read_back(io);
                io.enter(Phase::Stopped);
                io.send(Command::Stopped);
            }
            return;
        }
        if !replicas.replacement.replacement_is_quiet() || !migration.evacuation.drain_is_quiet() {
            return;
        }
        if !migration.moves.is_idle() || !policy.tiers.tiers_are_idle() || !self.commit.is_idle() {
            return;
        }
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            let has_ssd = !io.ssds().is_empty();
            let d = &mut io[device];
            let durable = migration.moves.homes_durable_mark(device);
            assert!(durable <= d.home_writes, "a flush covers homes that were written");
            let open = !d.tail.items.is_empty() || d.home_writes > durable;
            // without an SSD nobody can rescue what a drive that is read only holds volatile
            let is_flushed = !d.is_faulted() || !has_ssd && !d.is_out();
            let has_failed = d.is_faulted() && has_ssd;
            if has_failed && !d.tail.items.iter().all(|item| item.copied) {
                if migration.tail_copies.rescue_for_stop(
                    device,
                    &mut self.map,
                    requests,
                    &migration.moves,
                    &self.deferred_free,
                    io,
                ) {
                    continue;
                }
                self.commit.break_off(tandem_block::IoError::Dead(device));
                return self.stop_if_durable(volumes, requests, migration, policy, replicas, io);
            }
            if open && is_flushed {
                if d.flushing.is_none() {
                    d.flush_wanted = true;
                }
                return;
            }
        }
        let awaits_hdd = io.hdds().iter().any(|&device| self.map.awaits_hdd(device));
        let objects = !volumes.objects.changes().is_empty();
        if self.map.has_ready() || self.map.awaits_ssd() || awaits_hdd || objects {
            self.map.look_at_logs();
            self.commit.note_pending(io.now());
            return;
        }
        if !self.finish_checkpoint_for_stop(volumes, migration, replicas, io) {
            return;
        }
        if !self.metadata_replica.is_level(self.checkpoint.has_failed(), &self.journal) {
            self.metadata_replica.flush_for_stop(io);
            return;
        }
        assert!(self.commit.is_idle(), "whoever waited for a commit was answered");
        if !self.metadata.writes_superblocks() && io.flights().is_empty() {
            migration.read_back.drop_read_back(io);
            self.metadata.ask_for_superblocks(true, io);
        }
    }
}
