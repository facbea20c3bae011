//! What does an audit ask of batches that wait, and of blocks that nobody has any more?

use super::ObjectChanges;
use crate::map::objects::BlockRange;
use crate::requests::ordering::TaskId;

impl ObjectChanges {
    /// Is it the task of a batch that waits?
    pub(crate) fn has_waiter(&self, id: TaskId) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == id)
    }

    /// Blocks that objects have left, and whose clearing is not durable.
    pub(crate) fn retired_ranges(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.retired.iter().map(|(_, range)| *range)
    }
}
