//! Which objects of a pool without a table does the root of a checkpoint name?

use crate::map::batches::Batches;
use crate::map::objects::Objects;

/// Records of objects, in the root being written and in the newest one.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooted {
    /// The objects at a moment at which batches had all changes of them, and the last of these batches. What changes
    /// later stands in the journal behind it, and must not keep the root waiting: a commit may wait for the room that
    /// the root makes.
    taken: Option<(Vec<u8>, u64)>,
    /// As the newest root says. A part says the same: what has changed of them stands behind its mark.
    newest: Vec<u8>,
}

impl Rooted {
    /// A start has found these.
    pub(super) fn recovered(records: &[u8]) -> Rooted {
        Rooted { taken: None, newest: records.to_vec() }
    }

    /// The objects of a pool without a table, as soon as batches have all changes of them.
    pub(super) fn note(&mut self, objects: &Objects, batches: Batches) {
        if self.taken.is_none() && !objects.has_table() && objects.changes().is_empty() {
            self.taken = Some((objects.records(), batches.composed));
        }
    }

    /// The attempt was given up.
    pub(super) fn forget(&mut self) {
        self.taken = None;
    }

    /// The batch that has to be durable before the root is. `None`: no moment has come yet.
    pub(super) fn due(&self) -> Option<u64> {
        self.taken.as_ref().map(|(_, batch)| *batch)
    }

    /// What the root says, which is written now.
    pub(super) fn write(&mut self, is_part: bool) -> Vec<u8> {
        let taken = self.taken.take();
        if !is_part {
            self.newest = taken.map_or_else(Vec::new, |(records, _)| records);
        }
        self.newest.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_names_the_objects_of_the_root_before() {
        let mut rooted = Rooted::recovered(&[1]);
        for (taken, is_part, written) in [
            (Some(vec![2]), true, vec![1]),
            (Some(vec![2]), false, vec![2]),
            (Some(vec![3]), true, vec![2]),
            (None, true, vec![2]),
        ] {
            rooted.taken = taken.map(|records| (records, 8));
            assert_eq!(rooted.due().is_some(), rooted.taken.is_some());
            assert_eq!(rooted.write(is_part), written);
            assert_eq!(rooted.due(), None, "the next one takes others");
        }
    }
}
