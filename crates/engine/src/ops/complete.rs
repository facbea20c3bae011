//! A device command is done: who waited for it?

use crate::device::Purpose;
use crate::engine::{Engine, Phase};
use crate::port::IoId;
use tandem_block::{DeviceId, Duration, IoError};

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
            let is_checkpoints = state.owner == Purpose::Checkpoint && state.bytes == 0;
            if is_checkpoints && holds_acknowledged && is_dirty {
                // a flush for a checkpoint covers users' writes, too
                self.put_in_doubt(error);
            }
        }
        if !self.io[state.device].is_ssd() {
            self.note_hdd_completion(&state, status, took);
        } else if status.is_ok() {
            self.note_ssd_completion(&state);
        }
        if self.io[state.device].streams.is_some() {
            self.observe_cost(&state, status);
        }
        self.finish_io(state.device, state.owner, status, checksums, bytes);
    }

    /// Carries the end of a command to who waited for it; also of commands that a dead device never
    /// took.
    pub(crate) fn finish_io(
        &mut self,
        device: DeviceId,
        purpose: Purpose,
        status: Result<(), IoError>,
        checksums: &[u32],
        bytes: &[u8],
    ) {
        match purpose {
            Purpose::Read(part) => self.read_done(device, *part, status, checksums),
            Purpose::VerifyCopy(part) => self.copy_read(device, &part, status, checksums),
            Purpose::Write { task, logical, run } => {
                self.write_done(device, task, logical, run, status, checksums);
            }
            Purpose::WriteEdge { task, logical, run, mask } => {
                self.edge_done(device, (task, logical, run, mask), status, checksums);
            }
            Purpose::WriteFixed { task } => self.fixed_write_done(task, status),
            Purpose::MergeBase { task, logical, slot } => {
                self.base_read(task, logical, slot, status, checksums);
            }
            Purpose::Recovery(tag) => self.recovery_read(device, tag, status, bytes),
            Purpose::Formatting => self.formatting_done(status),
            Purpose::CommitFlush => self.commit_flushed(device, status),
            Purpose::JournalUnit => self.unit_written(device, status),
            Purpose::Checkpoint => self.checkpoint_step_done(device, status),
            Purpose::FollowUnits => self.units_followed(device, status),
            Purpose::Follow => self.follow_step_done(device, status),
            Purpose::ChecksumPage(page) => self.checksum_page_read(device, page, status, bytes),
            Purpose::TailCopy(copy) => self.tail_copied(&copy, status),
            Purpose::HddFlush => self.hdd_flush_done(device, status),
            Purpose::Padding => {}
            Purpose::MoveRead(part) => self.move_read_done(part, status, checksums),
            Purpose::MoveWrite(part) => {
                self.move_write_done(device, part, status, checksums);
            }
            Purpose::ExtentWrite { number, run } => {
                self.coming_written(number, run, status, checksums);
            }
            Purpose::Trim(run) => self.trimmed(run),
            Purpose::Probe => self.probed(device, status),
            Purpose::LevelRead(number) => self.level_read(number, status, bytes),
            Purpose::LevelWrite { number, length_bytes } => {
                self.level_written(device, (number, length_bytes), status);
            }
            Purpose::Superblock => self.superblock_written(device, status),
        }
    }

    /// Is the engine past its start?
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Stopping)
    }
}
