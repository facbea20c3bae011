//! Blocks that cannot be moved: which are left where they are, so that others can be moved?
//!
//! A move that could not read a block, or found it damaged, would fail again at once, and a log in which such a
//! block lies would never make room. The block is left for a while, or until it is written to.

mod steps;

use crate::map::Logical;
use crate::map::versions::Copied;
use std::collections::BTreeMap;
use tandem_block::{Duration, Instant, IoError};

/// How long a block is left before it is tried again (guess).
const LEFT_FOR: Duration = Duration::from_s(60);
/// Blocks that are left at most: bounds RAM to some 64 KiB. One more is tried again and again.
const LEFT_MAX: usize = 1_024;
/// Segments in which something else to move is looked for at a time, where no write waits for room.
pub(crate) const SEGMENTS_MAX: usize = 16;

/// A block that is left.
#[derive(Clone, Debug)]
struct Left {
    /// The version that was.
    copied: Copied,
    until: Instant,
    /// Why it could not be moved.
    error: IoError,
}

/// Blocks that are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unmovable {
    blocks: BTreeMap<Logical, Left>,
    /// How often one was left.
    times: u64,
}

impl Unmovable {
    /// Is none left?
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How often a block was left, in this life.
    pub(crate) fn times(&self) -> u64 {
        self.times
    }

    /// Why one of them could not be moved.
    pub(crate) fn error(&self) -> Option<IoError> {
        self.blocks.values().next().map(|left| left.error)
    }
}
