//! Volumes, files and snapshots: which blocks are whose?

use crate::map::objects::Objects;
use crate::ops::batch::ObjectChanges;
use crate::ops::sharing::Sharing;

/// The objects of a pool, and how they change.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    pub(crate) objects: Objects,
    /// Changes of objects that wait for room in a batch, and blocks that objects have left.
    pub(crate) object_changes: ObjectChanges,
    /// Objects that get blocks of others, and writes to such blocks.
    pub(crate) sharing: Sharing,
}

impl Default for Volumes {
    fn default() -> Self {
        Volumes {
            objects: Objects::new(0),
            object_changes: ObjectChanges::default(),
            sharing: Sharing::default(),
        }
    }
}
