//! What happened, and why?
//!
//! Counters are part of the engine's state and cheap to copy. Latency histograms are not: the event loop
//! that sees each completion keeps a `Recorder`.

pub(crate) mod histogram;
pub mod queue_found;
pub mod recorder;
pub(crate) mod steered;

use crate::map::Logical;
use crate::port::ServedFrom;
use std::collections::BTreeMap;
use steered::Steered;
use tandem_block::{DeviceId, IoError};

/// Bytes and commands of one drive, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Users' data.
    pub user_bytes: u64,
    /// Data moved home, or by GC towards an SSD.
    pub writeback_bytes: u64,
    /// Data brought to an SSD because it is read.
    pub promotion_bytes: u64,
    /// Copies of a hard drive's tail.
    pub tail_bytes: u64,
    /// Journal, checkpoints, superblocks, checksum pages.
    pub map_bytes: u64,
    /// Padding of buffered-write sequences.
    pub padding_bytes: u64,
    /// Homes rewritten by log GC.
    pub gc_bytes: u64,
    /// Homes rewritten by write-back.
    pub home_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write commands.
    pub write_requests: u64,
    /// Read commands.
    pub read_requests: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Trimmed bytes.
    pub trimmed_bytes: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Time with a user's or any command outstanding, in ns: (users alone, all).
    pub busy_ns: (u64, u64),
}

impl DeviceStats {
    /// Everything written.
    pub fn written_bytes(&self) -> u64 {
        self.user_bytes
            + self.writeback_bytes
            + self.promotion_bytes
            + self.tail_bytes
            + self.map_bytes
            + self.padding_bytes
            + self.gc_bytes
            + self.home_bytes
    }
}

/// Reads of redirected data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBackStats {
    /// Answered from the tail of a hard drive, which is in RAM until the drive is flushed.
    pub from_tail: Hits,
    /// Answered from the read-back cache.
    pub from_cache: Hits,
    /// Read from the log of a hard drive.
    pub from_drive: Hits,
    /// Blocks that were brought to an SSD because they were read again and again.
    pub promoted: u64,
    /// … and that were not: too many others waited, or a write was in the way.
    pub forgone: u64,
}

/// Runs of blocks that were read in one piece, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Runs.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Hits {
    /// Counts one.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// Writes that a log took before an SSD, which took them over later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateStats {
    /// Writes that an SSD was overdue with, and that a log took as well.
    pub hedged: u64,
    /// … with which the log was done first.
    pub hedged_sooner: u64,
    /// Writes that went to a log to follow to an SSD.
    pub detours: u64,
    /// … and that stayed in the log: the SSD was busy for too long, or there was no room.
    pub detours_left: u64,
    /// Blocks that an SSD took over from a log.
    pub taken_over: u64,
}

/// What tiers and caches did, in blocks and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Blocks that users read without a hard drive.
    pub hit_blocks: u64,
    /// … and those for which one was read.
    pub missed_blocks: u64,
    /// Blocks that came to an SSD because they were read.
    pub came_blocks: u64,
    /// Reads of users that read a whole extent for it.
    pub rode: u64,
    /// … and blocks that had changed when they arrived.
    pub changed_blocks: u64,
    /// Runs that found no free slot.
    pub no_space: u64,
    /// Blocks that were written home because their extent left.
    pub demoted_blocks: u64,
    /// Copies of blocks that were given up because their extent left.
    pub dropped_blocks: u64,
    /// Requests that are too large, or not of the kind, for the SSD.
    pub sieved: u64,
    /// Writes that belonged on the SSD and found no room in the share.
    pub bypassed: u64,
    /// Runs of writes that lie on an SSD outside of the share, and are brought away again.
    pub strays: u64,
}

/// A place that could not be read, or that holds something else than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPlace {
    /// The block that it belongs to.
    pub logical: Logical,
    /// What kind of place it is.
    pub from: ServedFrom,
    /// What was met there.
    pub error: IoError,
}

/// Counters of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// By device id.
    pub devices: Vec<DeviceStats>,
    /// Steering decisions by reason.
    pub steered: Steered,
    /// Redirected requests and bytes.
    pub redirected: (u64, u64),
    /// What users' reads found in RAM of what was redirected, and what not.
    pub read_back: ReadBackStats,
    /// Part-block writes stored as fragments.
    pub fragments: u64,
    /// Reads made to merge a part-block write with its base.
    pub merge_reads: u64,
    /// Part-block writes merged at once.
    pub merged: u64,
    /// Time that writes waited for space, in ns.
    pub backpressure_ns: u64,
    /// Journal commits, and block updates in them.
    pub commits: u64,
    /// Block updates recorded.
    pub updates: u64,
    /// Commits for which some were held back, so that others could join.
    pub commits_gathered: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Those of them that took a part of what had changed, since the area had no room for all of it.
    pub checkpoint_parts: u64,
    /// Times that a commit found no room in the journal before a checkpoint had ended.
    pub commits_without_room: u64,
    /// Writes that waited, before they began, for commits or for a checkpoint.
    pub writes_paced: u64,
    /// Batches of changes of objects carried out.
    pub batches: u64,
    /// Requests for thin objects that lay in several pieces.
    pub in_pieces: u64,
    /// Writes to thin objects for which there was no space.
    pub without_space: u64,
    /// Batches that gave objects blocks of others.
    pub clones: u64,
    /// Blocks shared by objects that were copied because a part of them was written to.
    pub copied_up: u64,
    /// Bytes of the table of objects written by checkpoints, to each home of the metadata.
    pub table_bytes: u64,
    /// Reads that met a wrong checksum.
    pub checksum_errors: u64,
    /// Reads answered by another copy after an error.
    pub repaired_reads: u64,
    /// Places found bad, by drive and byte address, if `verify_copies` is set: the first few thousand.
    pub bad_places: BTreeMap<(DeviceId, u64), BadPlace>,
    /// Background moves dropped because the block had changed.
    pub moves_dropped: u64,
    /// Blocks moved home.
    pub moves: u64,
    /// Clean SSD copies dropped for space.
    pub copies_dropped: u64,
    /// Blocks that a tier wanted in two places and that were moved to the second one.
    pub copies_made: u64,
    /// … and that were not, because too many others waited.
    pub copies_forgone: u64,
    /// Blocks whose copies on an SSD, made with the write to a log, outlasted the log's tail.
    pub copies_beside_logs: u64,
    /// Writes that a log took before an SSD, which took them over later.
    pub late: LateStats,
    /// What tiers did with their share of the SSDs.
    pub tiers: TierStats,
    /// Snapshots that the metadata replica has completed.
    pub metadata_replica_snapshots: u64,
    /// Times that it could not keep up, so that it needed the next snapshot.
    pub metadata_replica_gaps: u64,
    /// Times users waited for units of the metadata replica, because its lag was over.
    pub metadata_replica_forced: u64,
    /// Requests that had to wait for an overlapping write.
    pub ordered: u64,
    /// Bytes acknowledged and not durable, at most.
    pub bytes_at_risk_max: u64,
    /// Drives taken out of service.
    pub faulted_drives: u64,
    /// Drives that were taken out of service, and work again.
    pub healed_drives: u64,
    /// Pages of checksums that could not be read for long, so that what they knew is lost.
    pub lost_pages: u64,
    /// Reads of pages of checksums.
    pub page_reads: u64,
    /// Writes that were refused since nothing could make room for them.
    pub refused_without_room: u64,
    /// Writes that found their SSD full and went to another one.
    pub passed_on_for_room: u64,
    /// Times that a drive left a command without an answer for too long.
    pub silent_drives: u64,
    /// Answers of drives that came after nobody waited for them any more.
    pub late_answers: u64,
    /// Sizes of the largest queues seen, by device id.
    pub queue_length_max: Vec<u32>,
}
