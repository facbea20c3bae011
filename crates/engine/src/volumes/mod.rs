//! Volumes, files and snapshots: which blocks are whose?

pub(crate) mod batch;
pub(crate) mod pieces;
pub(crate) mod sharing;

use crate::map::Map;
use crate::map::objects::Objects;
use crate::volumes::batch::ObjectChanges;
use crate::volumes::sharing::Sharing;

/// The objects of a pool, and how they change.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    pub(crate) objects: Objects,
    /// Changes of objects that wait for room in a batch, and blocks that objects have left.
    pub(crate) object_changes: ObjectChanges,
    /// Objects that get blocks of others, and writes to such blocks.
    pub(crate) sharing: Sharing,
}

impl Volumes {
    /// Blocks: all, those that objects can take, and those that they have, or had and whose clearing is not
    /// durable yet.
    pub(crate) fn space_blocks(&self, map: &Map) -> (u64, u64, u64) {
        let owned: u64 = self.objects.owned().map(|(range, _)| range.count).sum();
        let extra = self.objects.shares().extra_blocks();
        assert!(extra <= owned, "blocks that are shared have an owner");
        let owned = owned - extra;
        let in_use = owned + self.object_changes.retired_blocks() + self.sharing.lingering_blocks();
        let all = map.leaves().block_count() as u64 - self.objects.out_of_use_blocks();
        (all, self.objects.free_blocks(), in_use)
    }

    /// Bytes of a journal with a ring of this size that are kept for changes of objects: those that wait, their
    /// links, and one unit more, which a checkpoint of the table may need before it can make room.
    pub(crate) fn journal_bytes_kept(&self, ring_bytes: u64) -> u64 {
        if !self.objects.has_table() {
            return 0;
        }
        ring_bytes / 8 + self.objects.changes().bytes() as u64 + self.objects.link_bytes()
    }
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
