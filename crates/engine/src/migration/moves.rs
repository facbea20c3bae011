//! What steps move data home?
//!
//! Source: design decisions 6, 9 and 10. Log GC chooses in `log_gc`, merges are in `merge`, what
//! becomes of written homes in `homes`.
//!
//! ```text
//! write-back: dirty SSD blocks in LBA order ─▶ read ─▶ (their records durable, no read of the homes
//!             under way) ─▶ write the homes ─▶ flush the drive ─▶ the map adds the homes
//! log GC:     the same, from the living slots of a segment; the log places are then given up
//! merge:      a block and its fragments, read like a user would ─▶ one whole SSD slot
//! promotion:  the same, of a block that is read again and again from a log
//! ```
//! A move commits by compare: if the block changed since it was read, the move is dropped. One move
//! is under way at a time, of at most a run (1 MiB), so a user waits for one command at most.

mod known;
mod run;
mod steps;
mod sums;

pub(crate) use self::known::Sums;
use crate::map::{Copied, FixedState, Logical, Run, Slot};
use crate::migration::dropping::Dropping;
use crate::migration::unmovable::Unmovable;
use crate::owner::MoveKind;
use hashbrown::HashSet;
use std::collections::VecDeque;
use tandem_block::{DeviceId, Duration, Instant, PayloadId};

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

/// State of background moves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moves {
    /// Blocks whose homes are being recorded; their log locations are given up afterwards.
    pub(crate) homed_log: Vec<(Logical, Slot)>,
    pub(crate) active: Option<Move>,
    /// Write-back is between its watermarks.
    pub(crate) writing_back: bool,
    cursor: Logical,
    pub(crate) merge_cursor: Logical,
    /// Homes written and not yet flushed, oldest first, with the number of the home write.
    pub(crate) homed: VecDeque<(u64, Part)>,
    pub(crate) homed_blocks: HashSet<Logical, FixedState>,
    /// How many of them were read from an SSD: they still count as dirty there.
    pub(crate) homed_ssd: u64,
    pub(crate) homes_durable: Vec<u64>,
    pub(crate) urgent: bool,
    /// Moves that failed in a row, and until when none begins.
    failures: u32,
    rests_until: Instant,
    pub(crate) unmovable: Unmovable,
    /// So many blocks of a move that could not be read together are moved one by one.
    single: usize,
    /// Write-back has looked at every block in vain, when this batch was durable.
    pub(crate) barren_since: Option<u64>,
    /// Blocks looked at in vain since that batch.
    barren_looked: u64,
    barren_as_of: u64,
    pub(crate) dropping: Dropping,
}

/// Home writes that gather before their drive is flushed for them, in blocks (64 MiB): a flush
/// costs up to 300 ms, so it should settle many (guess).
pub(crate) const HOMED_BLOCKS_MAX: usize = 16_384;
/// Dirty blocks looked at in one step at most: bounds the time that an event takes.
const LOOK_BLOCKS_MAX: u64 = 65_536;
/// The pause after a move that failed; it doubles with each in a row, up to 512 times this (guess).
const REST_AFTER_FAILURE: Duration = Duration::from_ms(100);
/// Fragmented blocks that are tolerated before they are merged without waiting for idle time.
pub(crate) const FRAGMENTED_MAX: u64 = 65_536;

/// How many parts from the first on form one device read.
fn run_length(
    parts: &[Part],
    follows: impl Fn(&Part, &Part) -> bool,
    device: impl Fn(&Part) -> DeviceId,
) -> usize {
    let mut count = 1;
    while count < parts.len()
        && follows(&parts[count - 1], &parts[count])
        && device(&parts[count]) == device(&parts[0])
    {
        count += 1;
    }
    count
}
