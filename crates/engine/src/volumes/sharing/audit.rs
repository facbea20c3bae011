//! What does an audit ask of clones and of writes to shared blocks?

use super::Sharing;
use crate::map::objects::BlockRange;
use crate::requests::ordering::TaskId;

impl Sharing {
    /// The read that a write of a shared block's copy waits for.
    pub(crate) fn copied_up_by(&self, write: TaskId) -> Option<TaskId> {
        let copy = self.copy_ups.iter().find(|copy| copy.write == write && copy.read != write)?;
        Some(copy.read)
    }

    /// Blocks that nobody has any more, but that somebody reads.
    pub(crate) fn lingering(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.lingering.iter().copied()
    }
}
