//! One move of blocks: what it copies, and how far it has come.

use crate::map::{Copied, Logical, Run, Slot};
use crate::migration::moves::known::Sums;
use crate::owner::MoveKind;
use tandem_block::{Instant, PayloadId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Reading,
    /// Read; waits until the records of its sources are durable and nobody reads the homes.
    Waiting,
    Writing,
}

/// One block of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) logical: Logical,
    pub(crate) slot: Slot,
    /// What it must hold, once that is known, and what was read.
    pub(crate) checksum: Option<u32>,
    pub(crate) found: Option<u32>,
    /// The version that is copied, while the move is under way.
    pub(crate) copied: Option<Copied>,
}

impl Part {
    pub(crate) fn new(logical: Logical, slot: Slot) -> Part {
        Part { logical, slot, checksum: None, found: None, copied: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) kind: MoveKind,
    pub(crate) stage: Stage,
    /// In LBA order, except while a segment is read.
    pub(crate) parts: Vec<Part>,
    pub(crate) buffer: PayloadId,
    pub(crate) outstanding: u32,
    pub(crate) failed: bool,
    pub(crate) after_batch: u64,
    pub(crate) target: Run,
    /// Of a drain's move: where each part goes, a slot or the block whose place its home takes.
    pub(crate) targets: Vec<Slot>,
    pub(crate) since: Instant,
    /// Does it know what its sources must hold?
    pub(crate) sums: Sums,
}
