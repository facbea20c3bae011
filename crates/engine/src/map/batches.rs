//! How far the batches of the journal are: what checkpoints and copies of the metadata wait for.

use super::objects::Objects;

/// Where the batches of the journal stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    /// The last one that was composed.
    pub(crate) composed: u64,
    /// The last one that is durable.
    pub(crate) durable: u64,
    /// The last journal unit that is durable.
    pub(crate) durable_unit: u64,
    /// None will be durable any more.
    pub(crate) is_broken: bool,
}

impl Batches {
    /// The batch with which all changes of objects so far are recorded.
    pub(crate) fn objects_due(self, objects: &Objects) -> u64 {
        self.composed + u64::from(!objects.changes().is_empty())
    }

    /// Is everything durable that a root would say of objects? One without a table says what is in memory.
    pub(crate) fn are_durable_as_rooted(self, objects_due: u64, objects: &Objects) -> bool {
        match objects.has_table() {
            true => self.durable >= objects_due,
            false => self.durable == self.composed && objects.changes().is_empty(),
        }
    }
}
