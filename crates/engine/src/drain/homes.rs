//! What steps move everything off a hard drive that shall leave?
//!
//! Source: requirements of pool life; design decisions 6 and 10.
//!
//! ```text
//! homes: a run that somebody has (`map/objects/evacuate`)
//!   nothing in it that a record or a reader needs ─▶ it changes places at once
//!   else: read ─▶ written to the home of a block that nobody has ─▶ that drive is flushed
//!      ─▶ both change places, in RAM and with the next batch of the journal
//! log: when no home is left: its living blocks are moved home, like those of log GC
//! ```
//! What a crash leaves is the place before or the one after; both hold the same until the place is
//! recorded, since nothing is written to the old one any more. A home that is written while its copy
//! waits for the flush makes the copy void (`forget_rehomed`).

mod rehome;
mod steps;

use crate::map::Logical;
use crate::map::objects::Objects;
use crate::map::space::BlockRange;
use tandem_block::DeviceId;

/// Runs looked at in one step at most, and blocks in one that hold nothing: bounds the time that an event
/// takes.
pub(super) const LOOK_RUNS_MAX: u64 = 64;
const EMPTY_BLOCKS_MAX: u64 = 16_384;
/// Runs that wait for a flush at most: with it all of them become records of one unit.
const WAITING_RUNS_MAX: usize = 64;

/// Homes that were written elsewhere, and wait for the flush of that drive.
#[derive(Clone, Debug)]
pub(crate) struct Rehomed {
    /// Where they were written, and with which home write.
    device: DeviceId,
    number: u64,
    /// Whose homes.
    blocks: BlockRange,
    /// The first of the blocks whose places they take.
    taken: Logical,
}

/// What a drain wants of a hard drive before its users have their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The next command of its move.
    Move,
    /// A flush.
    Flush,
}

/// What can become of the next run.
pub(crate) enum Next {
    /// Nothing to do with it now; look behind it.
    Behind(Logical),
    /// Nothing needs what lies there.
    Empty(BlockRange),
    /// It has to be copied.
    Copy(BlockRange),
}

impl Rehomed {
    /// The blocks whose places these would have taken are not needed.
    pub(super) fn give_back(&self, objects: &mut Objects) {
        objects.put_reserved(BlockRange { first: self.taken, count: self.blocks.count });
    }
}
