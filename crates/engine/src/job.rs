//! What waits in the queue of a drive.

use crate::io::queue::{self, QueuedJob};
use crate::map::Logical;
use crate::owner::Owner;
use crate::port::IoOp;
use crate::requests::ordering::TaskId;
use tandem_block::BLOCK_BYTES;

/// Something that waits for a device.
#[derive(Clone, Debug)]
pub enum Job {
    /// A user's write: places are chosen when it is dispatched.
    Write {
        /// Whose.
        task: TaskId,
        /// How much of it.
        bytes: u64,
    },
    /// Zeroes over some sectors of a block.
    Edge {
        /// Whose.
        task: TaskId,
        /// Which block.
        block: Logical,
        /// Which sectors.
        mask: u8,
    },
    /// A finished command.
    Io(IoOp, Owner),
}

impl Job {
    /// Bytes that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Job::Write { bytes, .. } => *bytes,
            Job::Edge { .. } => BLOCK_BYTES,
            Job::Io(op, _) => op.bytes(),
        }
    }

    /// Does it fetch bytes?
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Job::Io(op, _) if op.is_read())
    }
}

impl QueuedJob for Job {
    #[inline]
    fn op(&self) -> Option<&IoOp> {
        match self {
            Job::Io(op, _) => Some(op),
            Job::Write { .. } | Job::Edge { .. } => None,
        }
    }
}

/// One waiting job.
pub type Waiting = queue::Waiting<Job>;
