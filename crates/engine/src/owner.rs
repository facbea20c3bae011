//! Who sent a command to a drive, and is told of its end.
//!
//! Whoever sends a command names itself. The end of the command goes to nobody else.

use crate::map::{Logical, Run, Slot};
use crate::port::ServedFrom;
use crate::requests::ordering::TaskId;
use std::ops::Range;
use tandem_block::{DeviceId, IoError, PayloadId};

/// The owner of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A user's request.
    Request(RequestIo),
    /// The log of a hard drive.
    Log(LogIo),
    /// Something that moves or copies blocks.
    Migration(MigrationIo),
    /// The map, its journal, checkpoints and copies.
    Metadata(MetadataIo),
    /// A write whose request was answered by a faster one.
    Late(Box<Late>),
    /// The start of the engine.
    Start(StartIo),
    /// A flush that shows whether a drive that failed works again.
    Probe,
}

/// A command of a user's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestIo {
    /// Part of a read.
    Read(Box<ReadPart>),
    /// Another location of blocks that are read, only to be compared.
    Verify(Box<ReadPart>),
    /// Part of a write: blocks from `logical` on into slots from `run` on.
    Write {
        /// Whose.
        task: TaskId,
        /// First block.
        logical: Logical,
        /// Where.
        run: Run,
    },
    /// Zeroes over some sectors of a block.
    Edge {
        /// Whose.
        task: TaskId,
        /// Which block.
        logical: Logical,
        /// Where: one slot.
        run: Run,
        /// Which sectors.
        mask: u8,
    },
    /// Part of a write under fixed placement, to the identity location.
    Fixed {
        /// Whose.
        task: TaskId,
    },
    /// The SSD base of a write of part of a block, read to be merged.
    Base {
        /// Whose.
        task: TaskId,
        /// The block.
        logical: Logical,
        /// Where it lies.
        slot: Slot,
        /// What it must hold.
        checksum: u32,
    },
}

/// One device read of a user's read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPart {
    /// Whose.
    pub(crate) task: TaskId,
    /// First block.
    pub(crate) logical: Logical,
    /// How many.
    pub(crate) count: u64,
    /// First slot, or `NONE` for a home.
    pub(crate) slot: Slot,
    /// What each block must hold; empty if nobody looks.
    pub(crate) expected: Vec<u32>,
    /// For statistics.
    pub(crate) from: ServedFrom,
    /// Drives whose copy failed already.
    pub(crate) tried: Vec<DeviceId>,
    /// Where the bytes go.
    pub(crate) into: PayloadId,
    /// … and where in it.
    pub(crate) into_offset_bytes: u64,
}

/// A command of a hard drive's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogIo {
    /// A copy of unflushed writes to an SSD.
    Copy(Box<TailCopy>),
    /// A flush of the drive (for a commit, a sequence, or write-back).
    Flush,
    /// Padding of a buffered-write sequence.
    Padding,
}

/// A run of unflushed log writes that is being copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCopy {
    /// Who waits for it: a write of a journaled volume. Others are copied for a commit.
    pub(crate) task: Option<TaskId>,
    /// Number of the write in its tail.
    pub(crate) write: u64,
    /// First block.
    pub(crate) logical: Logical,
    /// Its log slot.
    pub(crate) log: Slot,
    /// Its new SSD slots.
    pub(crate) run: Run,
    /// A tier wants the blocks on an SSD, too: the copy is a cache's, and outlasts the tail.
    pub(crate) stays: bool,
}

/// A write whose request was answered before (`requests/late.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// First block.
    pub(crate) logical: Logical,
    /// Where it goes.
    pub(crate) run: Run,
    /// What is written: it stays until then.
    pub(crate) payload: PayloadId,
    /// Of one on an SSD: where a log has its blocks. `None`: it leaves nothing.
    pub(crate) in_log: Option<InLog>,
}

/// Where a log has what an SSD is to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLog {
    /// Its slot.
    pub(crate) slot: Slot,
    /// How often its log's segment had been opened: a place that is used again has something else.
    pub(crate) round: u32,
}

/// What a migration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// SSD to home.
    WriteBack,
    /// Log to home.
    LogGc,
    /// Fragments and base to one slot.
    Merge,
    /// What is read again and again from a log to an SSD.
    Promotion,
    /// From a drive that shall leave to others.
    Drain,
    /// Homes from a hard drive that shall leave to another one.
    Rehome,
}

impl MoveKind {
    /// Is it of one block, read like a user would and written to one slot?
    pub(crate) fn is_of_one_block(self) -> bool {
        matches!(self, MoveKind::Merge | MoveKind::Promotion)
    }
}

/// A command of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationIo {
    /// The read from this part on.
    Read(u64),
    /// A write of some parts.
    Write {
        /// Which.
        parts: Parts,
        /// What for.
        kind: MoveKind,
    },
    /// A write of homes.
    Home {
        /// Number of the move.
        number: u32,
        /// Which of its parts.
        parts: Parts,
        /// What for.
        kind: MoveKind,
    },
    /// A run of an extent that is promoted.
    Extent {
        /// Which.
        number: u32,
        /// Which of its pieces.
        run: u32,
    },
}

/// Parts of a migration that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The first.
    pub(crate) first: u64,
    /// How many.
    pub(crate) count: u64,
}

impl Parts {
    /// Their positions among all parts.
    pub(crate) fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// Whose command it was.
    pub(crate) device: DeviceId,
    /// Success, or why not.
    pub(crate) status: Result<(), IoError>,
    /// Checksums of the blocks that were read or written, where they are known.
    pub(crate) checksums: &'a [u32],
    /// Metadata that was read.
    pub(crate) bytes: &'a [u8],
}

/// A command for the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataIo {
    /// A flush that a commit waits for.
    CommitFlush,
    /// A journal unit.
    Unit,
    /// A checkpoint's page write, root write, or flush.
    Checkpoint,
    /// Journal units for the second copy of the metadata.
    ReplicaUnits,
    /// A page or root for it.
    Replica,
    /// A page of checksums; requests wait for it.
    ChecksumPage(u32),
    /// A part of the area of checksums, read to be copied to a drive that lags.
    LevelRead(u64),
    /// … and written there: so many bytes.
    LevelWrite {
        /// Which copy it belongs to.
        number: u64,
        /// How much of it.
        length_bytes: u64,
    },
    /// A superblock.
    Superblock,
    /// A trim; the slots become free afterwards.
    Trim(Run),
}

impl Owner {
    /// Does no user wait for it?
    pub(crate) fn is_background(&self) -> bool {
        !matches!(self, Owner::Request(io) if !matches!(io, RequestIo::Edge { .. }))
    }

    /// The request that it belongs to.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            Owner::Request(io) => Some(io.task()),
            _ => None,
        }
    }

    /// Is it a read that a user waits for?
    pub(crate) fn is_user_read(&self) -> bool {
        matches!(self, Owner::Request(RequestIo::Read(_)))
    }
}

impl RequestIo {
    /// The request.
    pub(crate) fn task(&self) -> TaskId {
        match self {
            RequestIo::Read(part) | RequestIo::Verify(part) => part.task,
            RequestIo::Write { task, .. }
            | RequestIo::Edge { task, .. }
            | RequestIo::Fixed { task }
            | RequestIo::Base { task, .. } => *task,
        }
    }
}

/// A command of the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartIo {
    /// A superblock, root, page or journal read.
    Read(u64),
    /// A write of metadata.
    Write,
}
