//! What a replacement does in each turn, and when its commands end.

use super::{Ending, Flight, IO_BIT, Stage};
use crate::io::DeviceIo;
use crate::migration::Migration;
use crate::policy::Policy;
use crate::port::IoId;
use crate::replicas::Replicas;
use crate::requests::Requests;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::IoError;

impl Replicas {
    /// What of a replacement is possible now.
    pub(crate) fn run_replacement(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &Migration,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        self.replacement.divert_all(io);
        let Some(h) = self.replacement.current.as_deref() else { return };
        let is_empty = h.joins && h.device == h.bay;
        if io[h.device].is_faulted() && !is_empty {
            self.replacement.end_replacement(h.source_failed(), &mut store.metadata, io);
        }
        if std::mem::take(&mut self.replacement.wanted)
            && self.replacement.replacement_stage() == Stage::Marking
        {
            self.replacement.write_mark(0, 0, io);
        }
        if self.replacement.replacement_stage() == Stage::Copying {
            self.replacement.run_mark(&mut store.metadata, io);
            self.replacement.run_copy(requests, &mut policy.steering, &policy.tiers, io);
        }
        self.replacement.run_switch(
            &volumes.objects,
            &mut store.metadata,
            &migration.evacuation,
            io,
        );
    }

    /// A command of a replacement's own is done.
    pub(crate) fn successor_completed(
        &mut self,
        sent: IoId,
        (status, bytes): (Result<(), IoError>, &[u8]),
        store: &mut Store,
        volumes: &Volumes,
        migration: &Migration,
        io: &mut DeviceIo,
    ) {
        let h = self.replacement.current.as_deref_mut().expect("it waits for all its commands");
        match h.flights.remove((sent.0 & !IO_BIT) as usize) {
            Flight::Open => self.successor_read(status, bytes, io),
            Flight::CopyRead => self.replacement.region_read(status, &mut store.metadata, io),
            Flight::CopyWrite => self.replacement.region_written(status, &mut store.metadata, io),
            Flight::Double(of) => {
                self.replacement.double_done(of, status);
                if let Err(error) = status {
                    let why = Ending::SuccessorFailed(error);
                    self.replacement.end_replacement(why, &mut store.metadata, io);
                }
                self.replacement.answer_if_done(of);
            }
            Flight::MarkFlush => self.replacement.mark_flushed(status, &mut store.metadata, io),
            Flight::Mark if h.stage == Stage::Marking => {
                self.replacement.first_mark_written(status, &mut store.metadata, io)
            }
            Flight::Mark => self.replacement.mark_written(status, &mut store.metadata, io),
            Flight::SwitchFlush => self.replacement.switch_flushed(
                status,
                &volumes.objects,
                &mut store.metadata,
                &migration.evacuation,
                io,
            ),
            Flight::OwnSuperblock => {
                self.own_superblock_written(status, store, volumes, migration, io)
            }
            Flight::Retire => self.replacement.old_was_told(
                &volumes.objects,
                &store.metadata,
                &migration.evacuation,
                io,
            ),
            Flight::Wipe => {}
        }
    }
}
