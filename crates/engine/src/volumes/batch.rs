//! How do several changes of objects become one?
//!
//! Source: design, "A request": `Batch[object ops]` commits in one record. All steps are tried in RAM
//! and taken back if one is refused; what they changed goes into one journal unit, with what all batches
//! before them changed and ahead of everything else of the commit. A durable batch is answered when that
//! unit is written, another one at once. Blocks that an object leaves are cleared at once, but belong to
//! nobody until the clearing is durable too: otherwise the next object there could show, after a crash,
//! what the one before had held.

mod audit;
mod steps;

use crate::format::layout::Layout;
use crate::format::record::PIECE_RECORD_BYTES;
use crate::format::record_writer::RecordWriter;
use crate::io::{DeviceIo, Phase};
use crate::map::attributes::ATTRIBUTE_RECORD_BYTES;
use crate::map::changes::HEADER_BYTES_MAX;
use crate::map::journal::Journal;
use crate::map::objects::{BlockRange, Object, Objects};
use crate::map::{Map, NONE, Touch, image};
use crate::metadata::MetadataHomes;
use crate::metadata_replica::MetadataReplica;
use crate::mutant::Mutant;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use std::collections::VecDeque;
use tandem_block::{Batch, IoError, ObjectOp};

/// Batches that wait and blocks that are retired.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectChanges {
    waiting: VecDeque<(TaskId, Batch)>,
    /// Blocks that objects have left, with the number of the batch that makes it durable.
    retired: VecDeque<(u64, BlockRange)>,
}

impl ObjectChanges {
    /// Blocks that are nobody's yet.
    pub(crate) fn retired_blocks(&self) -> u64 {
        self.retired.iter().map(|(_, range)| range.count).sum()
    }

    /// Objects may take as much as there is room for on the drives.
    pub(crate) fn bound_objects(&self, layout: &Layout, objects: &mut Objects, io: &DeviceIo) {
        match layout.has_table() {
            true => objects.bound(image::record_bytes_max(layout.table_pages()), true),
            false => objects.bound(io.config().areas.root_bytes / 2, false),
        }
    }

    /// Bytes that the records of a batch take at most.
    fn bytes_of(&self, batch: &Batch, objects: &Objects) -> usize {
        let is_snapshot = |id| objects.get(id).is_some_and(|known| known.is_snapshot);
        let bytes = |op: &ObjectOp| match op {
            ObjectOp::Resize { .. } => HEADER_BYTES_MAX + 3 * PIECE_RECORD_BYTES,
            ObjectOp::SetAttribute { key, value, .. } => {
                ATTRIBUTE_RECORD_BYTES + key.len() + value.len()
            }
            ObjectOp::RemoveAttribute { key, .. } => ATTRIBUTE_RECORD_BYTES + key.len(),
            // the volume may lie in one piece again
            ObjectOp::Remove { object } if is_snapshot(*object) => {
                2 * HEADER_BYTES_MAX + 3 * PIECE_RECORD_BYTES
            }
            ObjectOp::Create { .. }
            | ObjectOp::CreateThin { .. }
            | ObjectOp::Remove { .. }
            | ObjectOp::Rename { .. } => HEADER_BYTES_MAX,
            ObjectOp::Share { from, from_block, blocks, .. } => {
                let end = from_block.saturating_add(*blocks);
                objects.pieces_shared(*from, *from_block, end) * PIECE_RECORD_BYTES
            }
            ObjectOp::Snapshot { from, .. } => {
                let pieces = objects.pieces_shared(*from, 0, u64::MAX) + 3;
                2 * HEADER_BYTES_MAX + pieces * PIECE_RECORD_BYTES
            }
        };
        batch.ops.iter().map(bytes).sum()
    }

    /// Has the next journal unit room for what this batch changes?
    fn has_room_for(
        &self,
        batch: &Batch,
        commit: &Commit,
        journal: &Journal,
        objects: &Objects,
    ) -> bool {
        objects.changes().bytes() + self.bytes_of(batch, objects)
            <= self.changes_bytes_max(commit, journal)
    }

    /// Bytes of changes of objects that one commit carries at most: they go into one unit.
    pub(crate) fn changes_bytes_max(&self, commit: &Commit, journal: &Journal) -> usize {
        commit.body_bytes_max(journal) / 2
    }

    /// The batch that is next, if any waits.
    pub(crate) fn next_batch(&self) -> Option<&Batch> {
        self.waiting.front().map(|(_, batch)| batch)
    }

    /// A whole batch is durable: what it cleared is free. One that was cut short clears less than
    /// was asked for, so the blocks wait for the next.
    pub(crate) fn release_retired(
        &mut self,
        durable: u64,
        is_partial: bool,
        objects: &mut Objects,
    ) {
        while let Some(&(batch, range)) = self.retired.front() {
            if batch > durable {
                return;
            }
            if is_partial {
                for (batch, _) in &mut self.retired {
                    *batch = (*batch).max(durable + 1);
                }
                return;
            }
            self.retired.pop_front();
            objects.release(range);
        }
    }
}

/// Are there requests for an object that shall go, or shrink?
fn is_in_the_way(op: &ObjectOp, objects: &Objects, requests: &Requests) -> bool {
    let id = match op {
        ObjectOp::Remove { object } => *object,
        ObjectOp::Resize { object, size_bytes } => {
            let shrinks = |known: &Object| *size_bytes < known.size_bytes || !known.is_thin();
            if !objects.get(*object).is_some_and(shrinks) {
                return false;
            }
            *object
        }
        _ => return false,
    };
    requests.is_in_use(id)
}

impl ObjectChanges {
    /// Do changes of objects wait for room in a commit?
    pub(crate) fn objects_want_commit(&self, requests: &Requests) -> bool {
        !self.waiting.is_empty() || !requests.held_back().is_empty()
    }

    fn admit_batch(
        &self,
        batch: &Batch,
        objects: &Objects,
        journal: &Journal,
        commit: &Commit,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> Result<(), IoError> {
        if io.phase() != Phase::Running {
            return Err(IoError::Stopping);
        }
        if metadata.is_degraded() {
            return Err(IoError::ReadOnly);
        }
        if io.is_fixed() {
            return Err(IoError::Unsupported);
        }
        if self.bytes_of(batch, objects) > self.changes_bytes_max(commit, journal) {
            return Err(IoError::TooLarge);
        }
        commit.broken().map_or(Ok(()), Err)
    }

    /// Clears blocks that no object has any more; they are free once that is durable.
    pub(crate) fn retire(
        &mut self,
        range: BlockRange,
        map: &mut Map,
        objects: &mut Objects,
        commit: &Commit,
        tiers: &mut Tiers,
        io: &DeviceIo,
    ) {
        assert!(range.count > 0, "an object has left some blocks");
        for block in range.first..range.first + range.count {
            map.clear(block);
        }
        tiers.note_changing(range.first, range.first + range.count);
        tiers.note_removed(range.first, range.first + range.count);
        map.touch(Touch { logical: range.first, count: range.count }, NONE, true);
        if io.breaks(Mutant::RetiredAtOnce) {
            objects.release(range);
            return;
        }
        let batch = commit.composed() + 1;
        assert!(
            self.retired.back().is_none_or(|&(last, _)| last <= batch),
            "blocks are free in the order of the batches that clear them"
        );
        self.retired.push_back((batch, range));
    }

    /// Blocks in use that no object has: a removal was durable, and its clearing not yet.
    pub(crate) fn retire_strays(
        &mut self,
        strays: &[BlockRange],
        map: &mut Map,
        objects: &mut Objects,
        commit: &mut Commit,
        tiers: &mut Tiers,
        io: &DeviceIo,
    ) {
        for &range in strays {
            objects.reserve(range);
            self.retire(range, map, objects, commit, tiers, io);
        }
        if !strays.is_empty() {
            commit.note_pending(io.now());
        }
    }
}

/// Does an object get blocks of another one?
fn is_sharing(batch: &Batch) -> bool {
    batch.ops.iter().any(|op| op.shared_from().is_some())
}

/// Objects that changed go into the commit.
pub(crate) fn record_objects(
    records: &mut RecordWriter,
    objects: &mut Objects,
    journal: &Journal,
    commit: &Commit,
    metadata_replica: &mut MetadataReplica,
    io: &DeviceIo,
) {
    metadata_replica.note_objects(objects.changes().has_named());
    if io.breaks(Mutant::ForgetsQuietBatches) && commit.is_for_flush_alone() {
        return;
    }
    objects.record_changes(records);
    assert!(objects.changes().is_empty(), "what is recorded waits for no other commit");
    assert!(
        records.len_bytes() <= commit.body_bytes_max(journal),
        "changes of objects fit in one unit"
    );
}
