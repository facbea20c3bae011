//! How do several changes of objects become one?
//!
//! Source: design, "A request": `Batch[object ops]` commits in one record. All steps are tried in RAM
//! and taken back if one is refused; then their records go into one journal unit, ahead of everything
//! else of the commit, and the batch is answered when that is durable. Blocks that an object leaves are
//! cleared at once, but belong to nobody until the clearing is durable too: otherwise the next object
//! there could show, after a crash, what the one before had held.

use crate::engine::{Engine, Phase};
use crate::format::record::OBJECT_RECORD_BYTES;
use crate::map::objects::BlockRange;
use crate::map::{NONE, Touch};
use crate::ordering::TaskId;
use crate::port::{Command, Done, ServedFrom};
use crate::task::{Task, task_id};
use std::collections::VecDeque;
use tandem_block::{Batch, IoError, ObjectId, ObjectOp, Op, PayloadId, Request, RequestId};

/// Batches that wait and blocks that are retired.
#[derive(Clone, Debug, Default)]
pub struct ObjectChanges {
    waiting: VecDeque<(TaskId, Batch)>,
    /// Blocks that objects have left, with the number of the batch that makes it durable.
    retired: VecDeque<(u64, BlockRange)>,
    /// Bytes of the records that wait for the next journal unit.
    pending_bytes: usize,
}

impl Engine {
    /// A batch arrives.
    pub(crate) fn on_batch(&mut self, batch: &Batch) {
        self.last_request = self.now;
        if let Err(error) = self.admit_batch(batch) {
            self.refuse_batch(batch.id, error);
            return;
        }
        let request = Request::new(batch.id, ObjectId(u64::MAX), Op::Flush, (0, 0), self.now);
        let id = task_id(self.tasks.insert(Task::new(request, 0, 0)));
        self.object_changes.waiting.push_back((id, batch.clone()));
    }

    fn admit_batch(&self, batch: &Batch) -> Result<(), IoError> {
        if !matches!(self.phase, Phase::Running) {
            return Err(IoError::Stopping);
        }
        if self.salvage.is_some() {
            return Err(IoError::ReadOnly);
        }
        if self.is_fixed() {
            return Err(IoError::Unsupported);
        }
        if bytes_of(batch) > self.body_bytes_max() / 2 {
            return Err(IoError::TooLarge);
        }
        Ok(())
    }

    fn refuse_batch(&mut self, request: RequestId, error: IoError) {
        self.out.push(Command::Complete(Done {
            request,
            status: Err(error),
            payload: PayloadId::NONE,
            skip_bytes: 0,
            wait_ns: 0,
            device_ns: 0,
            served_from: ServedFrom::Ram,
        }));
    }

    /// Carries out waiting batches, as many as the next journal unit has room for.
    #[inline]
    pub(crate) fn run_batches(&mut self) {
        while let Some((id, batch)) = self.object_changes.waiting.front() {
            let bytes = bytes_of(batch);
            if self.object_changes.pending_bytes + bytes > self.body_bytes_max() / 2 {
                return;
            }
            let id = *id;
            let (_, batch) = self.object_changes.waiting.pop_front().expect("asked above");
            match self.apply_batch(&batch) {
                Ok(()) => {
                    self.object_changes.pending_bytes += bytes;
                    self.commit.wait_fua(id);
                }
                Err(error) => {
                    self.note_error(id, error);
                    self.answer(id, PayloadId::NONE, 0);
                }
            }
        }
    }

    fn apply_batch(&mut self, batch: &Batch) -> Result<(), IoError> {
        for op in &batch.ops {
            if let ObjectOp::Remove { object } | ObjectOp::Resize { object, .. } = op
                && self.tasks.iter().any(|(_, task)| task.request.object == *object)
            {
                return Err(IoError::Busy);
            }
        }
        let (mut undo, mut left) = (Vec::new(), Vec::new());
        for op in &batch.ops {
            match self.objects.apply(op) {
                Ok((step, range)) => {
                    undo.push(step);
                    left.extend(range);
                }
                Err(error) => {
                    undo.into_iter().rev().for_each(|step| self.objects.undo(step));
                    return Err(error);
                }
            }
        }
        if self.objects.record_bytes() > self.config.root_bytes as usize / 2 {
            undo.into_iter().rev().for_each(|step| self.objects.undo(step));
            return Err(IoError::NoSpace);
        }
        for op in &batch.ops {
            let (ObjectOp::Create { object, .. }
            | ObjectOp::Remove { object }
            | ObjectOp::Rename { object, .. }
            | ObjectOp::Resize { object, .. }) = op;
            if !self.objects_pending.contains(object) {
                self.objects_pending.push(*object);
            }
        }
        left.into_iter().for_each(|range| self.retire(range));
        self.commit.note_pending(self.now);
        Ok(())
    }

    /// Clears blocks that no object has any more; they are free once that is durable.
    pub(crate) fn retire(&mut self, range: BlockRange) {
        for block in range.first..range.first + range.count {
            self.map.clear(block);
        }
        self.note_changing(range.first, range.first + range.count);
        self.note_removed(range.first, range.first + range.count);
        self.map.touch(Touch { logical: range.first, count: range.count }, NONE, true);
        self.object_changes.retired.push_back((self.commit.composed() + 1, range));
    }

    /// Blocks in use that no object has: a removal was durable, and its clearing not yet.
    pub(crate) fn retire_strays(&mut self, strays: &[BlockRange]) {
        for &range in strays {
            self.objects.reserve(range);
            self.retire(range);
        }
        if !strays.is_empty() {
            self.commit.note_pending(self.now);
        }
    }

    /// The objects that changed went into a batch.
    pub(crate) fn object_changes_composed(&mut self) {
        self.object_changes.pending_bytes = 0;
    }

    /// A whole batch is durable: what it cleared is free. One that was cut short clears less than
    /// was asked for, so the blocks wait for the next.
    pub(crate) fn release_retired(&mut self, durable: u64, is_partial: bool) {
        while let Some(&(batch, range)) = self.object_changes.retired.front() {
            if batch > durable {
                return;
            }
            if is_partial {
                for (batch, _) in &mut self.object_changes.retired {
                    *batch = (*batch).max(durable + 1);
                }
                return;
            }
            self.object_changes.retired.pop_front();
            self.objects.release(range);
        }
    }

    /// Is every change of an object durable? Only then does a checkpoint's root say what the journal
    /// says.
    pub(crate) fn objects_are_durable(&self) -> bool {
        self.objects_pending.is_empty() && self.commit.durable() == self.commit.composed()
    }
}

/// Bytes that the records of a batch take at most.
fn bytes_of(batch: &Batch) -> usize {
    batch.ops.len() * (OBJECT_RECORD_BYTES + tandem_block::NAME_BYTES_MAX)
}
