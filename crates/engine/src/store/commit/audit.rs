//! What does an audit ask of a commit?

use super::{Commit, Stage};
use crate::map::Slot;
use crate::requests::ordering::TaskId;

impl Commit {
    /// Slots that nothing names once the batch under way is durable.
    pub(crate) fn composed_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.batch.freed.iter().chain(&self.kept).copied()
    }

    /// Commands that the commit under way says it waits for.
    pub(crate) fn commands_counted(&self) -> u64 {
        match self.stage {
            Stage::Flushing | Stage::Writing => u64::from(self.outstanding),
            Stage::Idle | Stage::Tails | Stage::Telling => 0,
        }
    }

    /// Is it answered by a commit?
    pub(crate) fn has_waiter(&self, id: TaskId) -> bool {
        let all = self.flush_waiting.iter().chain(&self.fua_waiting).chain(&self.served);
        all.into_iter().any(|waiting| *waiting == id)
    }
}
