//! A device command is done: who waited for it?

use crate::engine::Engine;
use crate::owner::{Ended, MetadataIo, Owner, StartIo};
use crate::port::IoId;
use tandem_block::{Duration, IoError};

impl Engine {
    pub(crate) fn on_completion(
        &mut self,
        (io, took): (IoId, Option<Duration>),
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
    ) {
        let state = self.io.end_flight(io);
        if let Err(error) = status {
            self.io.stats_mut().devices[usize::from(state.device.0)].errors += 1;
            let d = &self.io[state.device];
            let holds_acknowledged = d.is_ssd() || self.io.ssds().is_empty();
            let is_dirty = d.dirty || !d.tail.items.is_empty();
            let is_checkpoints =
                state.owner == Owner::Metadata(MetadataIo::Checkpoint) && state.bytes == 0;
            if is_checkpoints && holds_acknowledged && is_dirty {
                // a flush for a checkpoint covers users' writes, too
                self.store.commit.put_in_doubt(error);
            }
        }
        if !self.io[state.device].is_ssd() {
            self.io.note_hdd_completion(&state, status, took, &mut self.store.metadata);
        } else if status.is_ok() {
            self.policy.steering.note_ssd_completion(&state, &self.io);
        }
        if self.io[state.device].streams.is_some() {
            self.requests.observe_cost(&state, status, &mut self.io);
        }
        let ended = Ended { device: state.device, status, checksums, bytes };
        self.finish_io(state.owner, ended);
    }

    /// Carries the end of a command to who waited for it; also of commands that a dead device never
    /// took.
    pub(crate) fn finish_io(&mut self, owner: Owner, ended: Ended<'_>) {
        match owner {
            Owner::Request(io) => self.request_io_done(io, ended),
            Owner::Log(io) => self.log_io_done(&io, ended),
            Owner::Migration(io) => self.migration_io_done(&io, ended),
            Owner::Metadata(io) => self.store.metadata_io_done(
                &io,
                ended,
                &mut self.volumes,
                &mut self.requests,
                &mut self.migration,
                &mut self.io,
            ),
            Owner::Start(StartIo::Read(tag)) => {
                self.start.recovery_read(
                    tag,
                    ended,
                    &mut self.store,
                    &mut self.volumes,
                    &mut self.io,
                );
            }
            Owner::Start(StartIo::Write) => self.formatting_done(ended.status),
            Owner::Probe => self.store.probed(
                ended.device,
                ended.status,
                &mut self.volumes,
                &mut self.policy,
                &mut self.io,
            ),
        }
    }
}
