//! Changes of objects, step by step: asked for, recorded, durable.

use super::{is_in_the_way, is_sharing};
use crate::io::DeviceIo;
use crate::map::objects::Undo;
use crate::policy::Policy;
use crate::requests::Requests;
use crate::requests::task::Task;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{Batch, IoError, ObjectId, ObjectOp, Op, PayloadId, Request};

impl Volumes {
    fn apply_batch(
        &mut self,
        batch: &Batch,
        store: &mut Store,
        requests: &Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) -> Result<(), IoError> {
        let mut undo: Vec<Undo> = Vec::with_capacity(batch.ops.len());
        let mut error = None;
        for op in &batch.ops {
            let step = match is_in_the_way(op, &self.objects, requests) {
                true => Err(IoError::Busy),
                false => self.objects.apply(op),
            };
            match step {
                Ok(step) => undo.push(step),
                Err(refused) => {
                    error = Some(refused);
                    break;
                }
            }
        }
        // what makes room is never refused for want of it
        let grows = || batch.ops.iter().any(|op| !matches!(op, ObjectOp::Remove { .. }));
        if error.is_none() && !self.objects.fits() && grows() {
            error = Some(IoError::NoSpace);
        }
        if let Some(error) = error {
            undo.into_iter().rev().for_each(|step| self.objects.undo(step));
            return Err(error);
        }
        assert!(undo.len() == batch.ops.len(), "a batch happens as a whole");
        io.stats_mut().batches += 1;
        io.stats_mut().clones += u64::from(is_sharing(batch));
        for step in &undo {
            for left in self.objects.note(step) {
                self.let_go_of(left, store, requests, policy, io);
            }
        }
        policy.tiers.note_tiers_named(&batch.ops, &self.objects);
        store.commit.note_pending(io.now());
        Ok(())
    }

    /// A batch arrives.
    pub(crate) fn on_batch(
        &mut self,
        batch: &Batch,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        io.note_request();
        if let Err(error) = self.object_changes.admit_batch(
            batch,
            &self.objects,
            &store.journal,
            &store.commit,
            &store.metadata,
            io,
        ) {
            io.say(batch.id, Err(error));
            return;
        }
        let at_once = !batch.durable && !is_sharing(batch);
        if at_once
            && self.object_changes.waiting.is_empty()
            && self.object_changes.has_room_for(batch, &store.commit, &store.journal, &self.objects)
        {
            let status = self.apply_batch(batch, store, requests, policy, io);
            io.say(batch.id, status);
            return;
        }
        let request = Request::new(batch.id, ObjectId(u64::MAX), Op::Flush, (0, 0), io.now());
        let id = requests.insert(Task::new(request, 0, 0));
        self.object_changes.waiting.push_back((id, batch.clone()));
    }
}

impl Volumes {
    /// Carries out waiting batches, as many as the next journal unit has room for.
    #[inline]
    pub(crate) fn run_batches(
        &mut self,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        self.retire_lingering(store, requests, policy, io);
        while let Some((id, batch)) = self.object_changes.waiting.front() {
            if self.sharing.is_settling() {
                return;
            }
            let broken = store.commit.broken();
            let mut refused = broken.map_or(Ok(()), Err);
            if refused.is_ok()
                && self.object_changes.bytes_of(batch, &self.objects)
                    > self.object_changes.changes_bytes_max(&store.commit, &store.journal)
            {
                // an object has come to lie in more pieces
                refused = Err(IoError::TooLarge);
            }
            if refused.is_ok()
                && !self.object_changes.has_room_for(
                    batch,
                    &store.commit,
                    &store.journal,
                    &self.objects,
                )
            {
                return;
            }
            let id = *id;
            if refused.is_ok() && is_sharing(batch) {
                match self.sharing.ready_to_share(
                    id,
                    &self.objects,
                    requests,
                    &mut store.commit,
                    &self.object_changes,
                    io,
                ) {
                    Some(ready) => refused = ready,
                    None => return,
                }
            }
            let (_, batch) = self.object_changes.waiting.pop_front().expect("asked above");
            let done = refused.and_then(|()| self.apply_batch(&batch, store, requests, policy, io));
            if done.is_ok() && batch.durable {
                store.commit.wait_fua(id);
            } else {
                if let Err(error) = done {
                    requests.note_error(id, error);
                }
                requests.answer(id, PayloadId::NONE, 0, io);
            }
            self.thaw(store, requests, policy, io);
        }
    }
}
