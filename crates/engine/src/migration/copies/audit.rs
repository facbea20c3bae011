//! Who waits for the second of two places, for an audit?

use super::Copies;
use crate::requests::ordering::TaskId;

impl Copies {
    /// Is its user answered when both places have it?
    pub(crate) fn has_waiter(&self, id: TaskId) -> bool {
        self.awaited.contains(&id)
    }
}
