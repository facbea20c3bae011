//! Who has a part in a commit, in which order.

use crate::format::record_writer::RecordWriter;
use crate::io::DeviceIo;
use crate::map::journal::Journal;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::requests::ordering::TaskId;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::store::commit::participants::Participants;
use crate::volumes::Volumes;
use crate::volumes::batch::record_objects;
use tandem_block::IoError;

/// The owners beside the store.
pub(super) struct Owners<'a> {
    pub(super) volumes: &'a mut Volumes,
    pub(super) requests: &'a mut Requests,
    pub(super) migration: &'a mut Migration,
    pub(super) policy: &'a mut Policy,
}

impl Participants for Owners<'_> {
    fn journal_bytes_kept(&self, journal: &Journal) -> u64 {
        self.volumes.journal_bytes_kept(journal.ring_bytes())
    }

    fn press(&self, store: &Store) -> bool {
        let somebody_waits = !self.requests.held_back().is_empty();
        self.volumes.sharing.links_press(&store.journal, &self.volumes.objects, somebody_waits)
    }

    fn want_commit(&self, store: &Store, io: &DeviceIo) -> bool {
        (store.map.is_short_of_space(io.waits_for_space()) && store.map.displaced_count() > 0)
            || self.volumes.object_changes.objects_want_commit(self.requests)
            || self.migration.copies.hurry()
    }

    fn are_awaited(&self, store: &Store) -> bool {
        store.checkpoint_awaits_objects(self.volumes)
    }

    fn settle(&mut self, store: &mut Store, io: &mut DeviceIo) -> bool {
        let mut is_safe = true;
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            is_safe &= self.migration.settle_tail(device, store, self.requests, io);
        }
        is_safe
    }

    fn are_settling(&self) -> bool {
        self.migration.tail_copies.under_way() > 0
    }

    fn prepare(&mut self, records: &mut RecordWriter, store: &mut Store, io: &DeviceIo) {
        let Store { journal, commit, metadata_replica, .. } = store;
        record_objects(records, &mut self.volumes.objects, journal, commit, metadata_replica, io);
    }

    fn follow(&mut self, store: &mut Store, io: &DeviceIo) {
        let Owners { volumes, requests, migration, policy } = self;
        for range in volumes.sharing.record_links(&mut volumes.objects, store, io) {
            volumes.let_go_of(range, store, requests, policy, io);
        }
        migration.copies.composed();
    }

    fn check(&self, store: &Store, io: &DeviceIo) {
        self.volumes.sharing.check_links(&store.commit, &self.volumes.objects, io);
    }

    fn durable(&mut self, batch: u64, is_partial: bool) {
        let Volumes { object_changes, objects, .. } = &mut *self.volumes;
        object_changes.release_retired(batch, is_partial, objects);
    }

    fn freed(&mut self, store: &mut Store, io: &DeviceIo) {
        if !self.migration.moves.homed_log.is_empty() {
            self.migration.moves.give_up_log_places(&mut store.commit, &mut store.map, io);
        }
    }

    fn answer(&mut self, waiting: Vec<TaskId>, status: Result<(), IoError>) {
        waiting.into_iter().for_each(|id| self.requests.lead_to(Next::Durable(id, status)));
    }
}
