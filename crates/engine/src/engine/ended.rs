//! Whose was a command that has ended, and who is told? And the rounds of superblocks, which concern nearly all.

use super::Engine;
use super::commits::Owners;
use crate::format::superblock::Superblock;
use crate::io::{News, Phase};
use crate::map::NONE;
use crate::mirror;
use crate::owner::{Ended, LogIo, MetadataIo, MigrationIo, Owner, ReadPart, RequestIo, StartIo};
use crate::port::{Command, IoId, IoOp};
use crate::replacement;
use crate::requests::hdd::note_hdd_completion;
use crate::requests::late::late_done;
use tandem_block::{BLOCK_BYTES, Duration, IoError};

impl Engine {
    /// The end of a command, for who sent it: a pair, a replacement, or everybody else.
    pub(super) fn hear(
        &mut self,
        (io, took): (IoId, Option<Duration>),
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
    ) {
        let Engine { replicas, store, volumes, migration, .. } = self;
        if mirror::owner(io).is_some() {
            replicas.pairs.leg_completed(io, status, checksums, bytes, &mut self.io);
        } else if replacement::owns(io) {
            let ended = (status, bytes);
            replicas.successor_completed(io, ended, store, volumes, migration, &mut self.io);
        } else if !replicas.replacement.replacement_keeps(
            (io, took),
            status,
            checksums,
            bytes,
            &self.io,
        ) {
            self.on_completion((io, took), status, checksums, bytes);
        }
    }

    pub(super) fn on_completion(
        &mut self,
        (io, took): (IoId, Option<Duration>),
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
    ) {
        let flight = self.io.end_flight(io);
        if let Err(error) = status {
            self.io.stats_mut().devices[usize::from(flight.device.0)].errors += 1;
            let d = &self.io[flight.device];
            let holds_acknowledged = d.is_ssd() || self.io.ssds().is_empty();
            let is_dirty = d.dirty || !d.tail.items.is_empty();
            let is_checkpoints =
                flight.owner == Owner::Metadata(MetadataIo::Checkpoint) && flight.bytes == 0;
            if is_checkpoints && holds_acknowledged && is_dirty {
                // a flush for a checkpoint covers users' writes, too
                self.store.commit.put_in_doubt(error);
            }
        }
        if !self.io[flight.device].is_ssd() {
            note_hdd_completion(&flight, status, took, &mut self.store.metadata, &mut self.io);
        } else if status.is_ok() {
            self.policy.steering.note_ssd_completion(&flight, &self.io);
        }
        if self.io[flight.device].streams.is_some() {
            self.requests.observe_cost(&flight, status, &mut self.io);
        }
        let ended = Ended { device: flight.device, status, checksums, bytes };
        self.finish_io(flight.owner, ended);
    }

    /// Carries the end of a command to who waited for it; also of commands that a dead device never
    /// took.
    pub(super) fn finish_io(&mut self, owner: Owner, ended: Ended<'_>) {
        let Engine { io, store, volumes, requests, migration, policy, start, .. } = self;
        if start.is_cut() {
            return;
        }
        match owner {
            Owner::Request(sent) => self.request_io_done(sent, ended),
            Owner::Log(sent) => self.log_io_done(&sent, ended),
            Owner::Migration(sent) => self.migration_io_done(&sent, ended),
            Owner::Metadata(MetadataIo::ChecksumPage(page)) => {
                store.checksum_page_read(page, ended, requests, &mut policy.tiers, io)
            }
            Owner::Metadata(sent) => {
                let mut owners = Owners { volumes, requests, migration, policy };
                store.metadata_io_done(&sent, ended, &mut owners, io);
            }
            Owner::Late(late) => late_done(&late, ended, store, io),
            Owner::Start(StartIo::Read(tag)) => start.recovery_read(tag, ended, store, volumes, io),
            Owner::Start(StartIo::Write) => start.write_done(ended.status, io),
            Owner::Probe => store.probed(ended.device, ended.status, volumes, policy, io),
        }
    }

    fn request_io_done(&mut self, sent: RequestIo, ended: Ended<'_>) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        match sent {
            RequestIo::Read(part) => self.read_done(*part, ended),
            RequestIo::Verify(part) => {
                requests.copy_read(&part, ended, store, volumes, policy, io);
            }
            RequestIo::Write { task, logical, run } => {
                requests.write_done((task, logical, run), ended, store, migration, policy, io);
            }
            RequestIo::Edge { task, logical, run, mask } => {
                requests.edge_done((task, logical, run, mask), ended, store, migration, io);
            }
            RequestIo::Fixed { task } => requests.fixed_write_done(task, ended.status, store),
            RequestIo::Base { task, logical, checksum, .. } => {
                requests.base_read(task, (logical, checksum), ended, io, store);
            }
        }
    }

    /// A part of a read has ended. One that failed is read from somewhere else.
    fn read_done(&mut self, part: ReadPart, ended: Ended<'_>) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        let Ended { device, status, checksums, .. } = ended;
        assert!(
            part.slot == NONE || store.map.slots().region(part.slot).device == device,
            "a part was read from the drive that its slots are on"
        );
        let error = status.err().or_else(|| policy.verify(device, &part, checksums, io));
        let Some(error) = error else {
            let read_back = &mut migration.read_back;
            migration.promotions.note_log_read(&part, &store.map, requests, read_back, io);
            requests.part_done(part.task, &mut store.map, &mut policy.tiers, io);
            return;
        };
        policy.note_bad(&part, error, ended, store, volumes, io);
        if matches!(error, IoError::NoAnswer(_)) {
            requests[part.task].unanswered = Some(error);
            requests.part_done(part.task, &mut store.map, &mut policy.tiers, io);
        } else {
            let failed = (part, device, error);
            requests.retry_read(failed, store, volumes, migration, policy, io);
        }
    }

    fn log_io_done(&mut self, sent: &LogIo, ended: Ended<'_>) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        let Ended { device, status, .. } = ended;
        assert!(
            io[device].is_ssd() == matches!(sent, LogIo::Copy(_)),
            "logs are on hard drives, and what they hold is copied to SSDs"
        );
        match sent {
            LogIo::Copy(copy) => {
                let (copied, tiers) = ((status, ended.checksums), &policy.tiers);
                migration.tail_copies.tail_copied(copy, copied, store, requests, tiers, io);
            }
            LogIo::Flush => {
                migration.hdd_flush_done(device, status, store, volumes, policy, io);
            }
            LogIo::Padding => {}
        }
    }

    fn migration_io_done(&mut self, sent: &MigrationIo, ended: Ended<'_>) {
        let Engine { io, store, volumes, requests, migration, policy, .. } = self;
        match *sent {
            MigrationIo::Read(part) => {
                migration.move_read_done(part, ended.status, ended.checksums, store, io);
            }
            MigrationIo::Write { parts, .. } => {
                migration.move_write_done(parts, ended, store, volumes, policy, io);
            }
            MigrationIo::Home { number, parts, .. } => {
                migration.home_written((number, parts), ended, store, volumes, policy, io);
            }
            MigrationIo::Extent { number, run } => {
                assert!(io[ended.device].is_ssd(), "an extent is promoted to an SSD");
                policy.promoting_written((number, run), ended, store, requests, io);
            }
        }
    }

    // ---- superblocks ----

    /// Writes one copy of every superblock: the first ones and then the second, so that a power cut finds at
    /// least one whole. `clean` is what they will say.
    pub(super) fn write_superblocks(&mut self, clean: bool, copy: u8) {
        let Engine { io, store, volumes, requests, migration, policy, replicas, .. } = self;
        let (replacement, evacuation) = (&replicas.replacement, &migration.evacuation);
        assert!(copy < 2, "there are two copies of a superblock");
        assert!(!clean || io.is_stopping(), "a pool is stopped cleanly while it stops");
        if copy == 0 {
            store.metadata.begin_telling();
        }
        let lagging = store.metadata.said_mask();
        let mut writes = 0;
        for id in io.drives().ids() {
            let skips = io[id].is_faulted() || replacement.round_skips(id);
            if !evacuation.round_is_for(id).unwrap_or(!skips) {
                continue;
            }
            let metadata = &store.metadata;
            let objects = &volumes.objects;
            let superblock = metadata.superblock(id, clean, objects, replacement, evacuation, io);
            let superblock = Superblock { lagging, ..superblock };
            let last = io[id].drive_bytes / BLOCK_BYTES * BLOCK_BYTES;
            assert!(last >= 2 * BLOCK_BYTES, "a drive has room for both copies");
            let offset_bytes = if copy == 0 { 0 } else { last - BLOCK_BYTES };
            let op = IoOp::WriteMeta { offset_bytes, bytes: superblock.encode(), fua: true };
            io.submit(id, op, Owner::Metadata(MetadataIo::Superblock));
            writes += 1;
        }
        store.metadata.begin_round(writes, copy);
        if writes == 0 && replacement.round_is_replacements(io) {
            // the drive that is replaced is the pool's only one
            store.metadata.end_round();
            replicas.round_done(store, volumes, migration, policy, io);
        } else if writes == 0 && store.metadata.is_round() {
            store.metadata.end_round();
            store.told_of_lagging(&mut Owners { volumes, requests, migration, policy }, io);
        }
    }

    /// One copy of all superblocks was written.
    pub(super) fn superblocks_written(&mut self, copy: u8) {
        let Engine { io, store, volumes, requests, migration, policy, replicas, start, .. } = self;
        let is_replacements = replicas.replacement.round_is_replacements(io);
        let is_drains = migration.evacuation.round_is_drains(io);
        let is_laggings = store.metadata.is_round();
        let is_stops = !is_replacements && !is_drains && !is_laggings;
        let stopping = io.is_stopping() && is_stops;
        if copy == 0 {
            io.tell(News::Superblocks { clean: stopping, copy: 1 });
            return;
        }
        store.told_of_lagging(&mut Owners { volumes, requests, migration, policy }, io);
        if stopping {
            io.enter(Phase::Stopped);
            io.send(Command::Stopped);
            return;
        }
        store.metadata.end_round();
        if is_laggings {
            return;
        }
        if is_replacements {
            replicas.round_done(store, volumes, migration, policy, io);
        } else if is_drains {
            migration.drain_round_done(store, volumes, io);
        } else {
            start.serve(store, volumes, policy, replicas, io);
        }
    }
}
