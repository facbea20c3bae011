//! Work on the metadata in the background: checkpoints, pages of checksums, drives that lag, the replica.

use crate::checkpoint::{Checkpoint, PageRead, PageReads, Parts};
use crate::io::{DeviceIo, News};
use crate::map::Map;
use crate::map::batches::Batches;
use crate::map::checksums::BlockChecksums;
use crate::map::journal::Journal;
use crate::map::objects::Objects;
use crate::metadata::MetadataHomes;
use crate::metadata_replica::{CheckpointState, MetadataReplica, Source};
use crate::migration::Migration;
use crate::owner::{Ended, MetadataIo};
use crate::replicas::Replicas;
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::store::commit::participants::Participants;
use crate::store::memory::MetadataMemory;
use crate::store::memory::used_bytes;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{DeviceId, Instant, IoError, PayloadId};

impl Checkpoint {
    /// A page, flush or root write of a checkpoint has ended.
    pub(crate) fn checkpoint_step_done(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        metadata: &mut MetadataHomes,
        io: &mut DeviceIo,
    ) {
        let homes = if status.is_err() { metadata.sound_homes(io) } else { Vec::new() };
        let status = self.step_done(device, status, &homes);
        metadata.fault_if(device, status, io);
    }
}

impl MetadataReplica {
    /// Loads a page of checksums; a request that needs it goes on when it is there.
    pub(crate) fn load_checksum_page(
        &self,
        page: u32,
        waiter: Option<TaskId>,
        (pages, checksums): (&mut PageReads, &BlockChecksums),
        metadata: &MetadataHomes,
        io: &mut DeviceIo,
    ) {
        pages.load(page, waiter, checksums, (metadata, self), io);
    }
}

impl Checkpoint {
    /// The metadata replica is level when its snapshot is there.
    fn note_metadata_replica_level(
        &self,
        journal: &Journal,
        metadata_replica: &MetadataReplica,
        metadata: &mut MetadataHomes,
        io: &DeviceIo,
    ) {
        let Some(home) = metadata_replica.home().filter(|&home| !io[home].is_faulted()) else {
            return;
        };
        let is_level = metadata_replica.is_level(false, journal); // a failed checkpoint is none
        if metadata.contains(home) && is_level {
            metadata.note_level(home);
        }
    }

    pub(super) fn is_checkpoint_wanted(
        &self,
        checksums: &BlockChecksums,
        journal: &Journal,
        metadata_replica: &MetadataReplica,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> bool {
        let (journal, checksums) = (journal, checksums);
        self.is_wanted(journal, checksums, metadata_replica, io)
            || metadata.wants_checkpoint(self.durable_round(), checksums.table())
    }

    /// At the end of a start, or when a drive works again: what is missing on drives that lag, and serve, is
    /// written.
    pub(crate) fn begin_levelling(
        &self,
        map: &mut Map,
        checksums: &mut BlockChecksums,
        objects: &mut Objects,
        metadata: &mut MetadataHomes,
        io: &DeviceIo,
    ) {
        // one that is under way does not write all of it
        let begun = self.begun_round();
        if !metadata.begin_levelling(begun, io) {
            return;
        }
        // what memory has is written from there: pages are copied as they lie on another drive, sound or not
        objects.note_unsaved();
        checksums.write_all_pointers();
        for group in checksums.table().groups_with_pages() {
            map.mark_group_dirty(group);
        }
    }
}

impl Store {
    /// A round of superblocks has ended, one for drives that lag or another one.
    pub(crate) fn told_of_lagging(&mut self, participants: &mut dyn Participants, io: &DeviceIo) {
        if let Err(error) = self.metadata.told(io.now()) {
            self.commit.telling_failed(error, participants, io);
        }
    }

    /// When a checkpoint that failed is tried again, or one goes on, or a page that somebody may wait for.
    pub(crate) fn checkpoint_due(&self, io: &DeviceIo) -> Instant {
        let now = io.now();
        let due = self.checkpoint.due(true, self.commit.is_broken(), now);
        let is_wanted = due != Instant::NEVER
            && self.checkpoint.is_checkpoint_wanted(
                &self.checksums,
                &self.journal,
                &self.metadata_replica,
                &self.metadata,
                io,
            );
        let due = self.checkpoint.due(is_wanted, self.commit.is_broken(), now);
        let is_awaited = self.checkpoint.is_due_at_once() && self.is_checkpoint_due(io);
        let at_once = if is_awaited { now } else { Instant::NEVER };
        due.min(self.pages.due(now)).min(at_once)
    }

    /// Shall a checkpoint begin?
    #[inline]
    fn is_checkpoint_due(&self, io: &DeviceIo) -> bool {
        let (journal, replica, metadata) = (&self.journal, &self.metadata_replica, &self.metadata);
        self.checkpoint.is_checkpoint_wanted(&self.checksums, journal, replica, metadata, io)
            && !io.is_fixed()
            && self.checkpoint.may_begin(self.commit.is_broken(), io.now())
            && !metadata.is_copying()
    }

    /// Where the journal's batches stand.
    pub(crate) fn batches(&self) -> Batches {
        let batches = Batches {
            composed: self.commit.composed(),
            durable: self.commit.durable(),
            durable_unit: self.commit.durable_unit(&self.journal),
            is_broken: self.commit.is_broken(),
        };
        assert!(batches.durable <= batches.composed, "what is durable was composed");
        batches
    }

    /// What the metadata takes in memory.
    pub(crate) fn metadata_memory(&self) -> MetadataMemory {
        let used_bytes = used_bytes(&self.map, &self.checksums, &self.metadata_replica);
        self.memory.view(used_bytes, &self.checksums)
    }

    /// A page of checksums was read.
    pub(crate) fn checksum_page_read(
        &mut self,
        page: u32,
        ended: Ended<'_>,
        requests: &mut Requests,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) {
        self.memory.fit(&self.map, &mut self.checksums, &self.metadata_replica);
        let known = (&self.metadata, &self.metadata_replica);
        let read = self.pages.read_done(page, ended, &mut self.checksums, known, io);
        let PageRead::Over { waiters, is_loaded } = read else { return };
        for id in waiters {
            let task = &mut requests[id];
            assert!(task.outstanding > 0, "who waits for a page counts it");
            task.outstanding -= 1;
            if !is_loaded {
                requests
                    .note_error(id, ended.status.err().unwrap_or(IoError::Checksum(ended.device)));
            }
            let task = &requests[id];
            if task.outstanding > 0 {
                continue;
            }
            if task.status.is_err() {
                requests.unpin_pages(id, self);
            }
            let task = &requests[id];
            if task.status.is_err() && task.rides {
                // perhaps its user's own blocks need no such page
                let is_over = tiers.end_tier_read(id, &mut self.map, requests, io);
                assert!(!is_over, "a read that failed brings no extent");
            } else if task.status.is_err() {
                requests.answer(id, PayloadId::NONE, 0, io);
            } else {
                requests.lead_to(Next::Read(id));
            }
        }
    }

    fn advance_levelling(&mut self, volumes: &mut Volumes, io: &mut DeviceIo) {
        if !io.is_serving() || self.commit.is_broken() {
            return;
        }
        // commits wait for a checkpoint that is wanted
        let is_free = self.checkpoint.is_idle()
            && !self.checkpoint.is_checkpoint_wanted(
                &self.checksums,
                &self.journal,
                &self.metadata_replica,
                &self.metadata,
                io,
            );
        let may_copy = is_free && !io.is_stopping();
        let newest = self.checkpoint.durable_round();
        let pages = self.checksums.table();
        if self.metadata.advance_levelling(newest, may_copy, pages, io) {
            let (map, checksums) = (&mut self.map, &mut self.checksums);
            let (objects, metadata) = (&mut volumes.objects, &mut self.metadata);
            self.checkpoint.begin_levelling(map, checksums, objects, metadata, io);
        }
    }

    /// Does a checkpoint wait for changes of objects that no batch has taken yet?
    pub(crate) fn checkpoint_awaits_objects(&self, volumes: &Volumes) -> bool {
        self.checkpoint.awaits_objects(&volumes.objects, self.batches())
    }

    /// Advances the snapshot of the metadata on the hard drive that follows.
    #[inline]
    pub(crate) fn run_metadata_replica(&mut self, volumes: &Volumes, io: &mut DeviceIo) {
        if !self.metadata_replica.takes_snapshot() {
            return;
        }
        let goes_on = self.checkpoint.is_tried_again() || self.checkpoint.has_more();
        let is_under_way = !self.checkpoint.is_idle() || goes_on;
        let checkpoint = match (is_under_way, self.checkpoint.has_failed()) {
            (true, _) => CheckpointState::UnderWay,
            (false, true) => CheckpointState::Failed,
            (false, false) => CheckpointState::Durable,
        };
        let source = Source {
            map: &self.map,
            checksums: &self.checksums,
            objects: &volumes.objects,
            journal: &self.journal,
            checkpoint,
            batches: self.batches(),
        };
        let wanted = self.metadata_replica.run(&source, io);
        if let Some(device) = self.metadata_replica.lose_without_room() {
            self.metadata.note_lagging(device, io);
            io.tell(News::Lags); // a commit of this turn may wait for the superblocks that say so
        } else if let Some(page) = wanted {
            self.metadata_replica.load_checksum_page(
                page,
                None,
                (&mut self.pages, &self.checksums),
                &self.metadata,
                io,
            );
        }
    }

    /// What can be done now for drives that lag, and to tell the others of them.
    #[inline]
    pub(crate) fn run_lagging(
        &mut self,
        volumes: &mut Volumes,
        migration: &Migration,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) {
        if self.metadata.levels() {
            self.advance_levelling(volumes, io);
        }
        if self.metadata.waits_for_metadata_replica() {
            self.checkpoint.note_metadata_replica_level(
                &self.journal,
                &self.metadata_replica,
                &mut self.metadata,
                io,
            );
        }
        if !self.metadata.is_told() {
            self.metadata.tell_of_lagging(&replicas.replacement, &migration.evacuation, io);
        }
    }

    /// Begins or advances a checkpoint.
    #[inline]
    pub(crate) fn run_checkpoint(
        &mut self,
        volumes: &mut Volumes,
        migration: &Migration,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) {
        if !self.checkpoint.is_idle() || self.is_checkpoint_due(io) {
            self.advance_checkpoint(volumes, migration, replicas, io);
        }
    }

    fn advance_checkpoint(
        &mut self,
        volumes: &mut Volumes,
        migration: &Migration,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) {
        let batches = self.batches();
        let kept_bytes = volumes.journal_bytes_kept(self.journal.ring_bytes());
        let begins = self.checkpoint.is_idle();
        self.memory.fit(&self.map, &mut self.checksums, &self.metadata_replica);
        self.checksums.evict(); // where the map has grown
        let mut parts = Parts {
            io,
            metadata: &self.metadata,
            metadata_replica: &mut self.metadata_replica,
            journal: &mut self.journal,
            map: &mut self.map,
            checksums: &mut self.checksums,
            objects: &mut volumes.objects,
            batches,
            kept_bytes,
        };
        if begins {
            self.checkpoint.begin(&mut parts);
        }
        for page in self.checkpoint.advance(&mut parts) {
            self.metadata_replica.load_checksum_page(
                page,
                None,
                (&mut self.pages, &self.checksums),
                &self.metadata,
                io,
            );
        }
        if self.checkpoint.is_idle() && self.metadata.levels() {
            // a drive may be level with it, and no event may follow that would say so
            self.run_lagging(volumes, migration, replicas, io);
        }
    }

    /// Asks for a last checkpoint; true once it is durable.
    pub(crate) fn finish_checkpoint_for_stop(
        &mut self,
        volumes: &mut Volumes,
        migration: &Migration,
        replicas: &Replicas,
        io: &mut DeviceIo,
    ) -> bool {
        if !self.checkpoint.has_failed() && self.checkpoint.ask_for_stop() {
            self.run_checkpoint(volumes, migration, replicas, io);
        }
        self.checkpoint.is_over()
    }

    /// A command for the metadata has ended.
    pub(crate) fn metadata_io_done(
        &mut self,
        sent: &MetadataIo,
        ended: Ended<'_>,
        participants: &mut dyn Participants,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, bytes, .. } = ended;
        match *sent {
            MetadataIo::CommitFlush => self.commit_flushed(device, status, participants, io),
            MetadataIo::Unit => self.unit_written(device, status, participants, io),
            MetadataIo::Checkpoint => {
                self.checkpoint.checkpoint_step_done(device, status, &mut self.metadata, io)
            }
            MetadataIo::ReplicaUnits => {
                self.metadata_replica.units_written(device, status.is_ok(), io);
                self.metadata.fault_if(device, status, io);
            }
            MetadataIo::Replica => {
                if self.metadata_replica.step_done(device) {
                    self.metadata.fault_if(device, status, io);
                }
            }
            MetadataIo::ChecksumPage(_) => unreachable!("the engine hands it to requests"),
            MetadataIo::LevelRead(number) => self.metadata.level_read(number, status, bytes, io),
            MetadataIo::LevelWrite { number, length_bytes } => {
                self.metadata.fault_if(device, status, io);
                let begun = self.checkpoint.begun_round();
                self.metadata.level_written(number, length_bytes, begun);
            }
            MetadataIo::Superblock => self.metadata.superblock_written(device, status, io),
            MetadataIo::Trim(run) => self.deferred_free.trimmed(run, &mut self.map, io),
        }
    }
}
