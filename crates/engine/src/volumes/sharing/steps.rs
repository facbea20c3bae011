//! Shared blocks, step by step: redirected, copied up, let go.

use super::{CopyUp, Leaves, apart};
use crate::io::DeviceIo;
use crate::map::Logical;
use crate::map::objects::BlockRange;
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::requests::{Next, Requests};
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{
    BLOCK_BYTES, IoError, ObjectId, Op, PayloadId, Request, RequestId, RequestKind,
};

impl Volumes {
    /// Nobody has these blocks any more: they are cleared once nobody reads them.
    pub(crate) fn let_go_of(
        &mut self,
        range: BlockRange,
        store: &mut Store,
        requests: &Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) {
        if self.objects.was_shared() && requests.touch(range.first, range.first + range.count) {
            self.sharing.lingering.push(range);
        } else {
            self.object_changes.retire(
                range,
                &mut store.map,
                &mut self.objects,
                &store.commit,
                &mut policy.tiers,
                io,
            );
        }
    }

    /// Clears what lingered until now.
    #[inline]
    pub(crate) fn retire_lingering(
        &mut self,
        store: &mut Store,
        requests: &Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) {
        if self.sharing.lingering.is_empty() {
            return;
        }
        for range in std::mem::take(&mut self.sharing.lingering) {
            match requests.touch(range.first, range.first + range.count) {
                true => self.sharing.lingering.push(range),
                false => {
                    self.object_changes.retire(
                        range,
                        &mut store.map,
                        &mut self.objects,
                        &store.commit,
                        &mut policy.tiers,
                        io,
                    );
                    store.commit.note_pending(io.now());
                }
            }
        }
    }

    /// Makes holes of these parts of an object, as far as the next commit has room for their records. False:
    /// it has no room for the rest, which is to be asked for again. One discard may touch any number of pieces.
    ///
    /// # Errors
    /// `NoSpace`, where the table of objects has no room.
    fn punch_what_fits(
        &mut self,
        object: ObjectId,
        parts: &[(u64, u64)],
        store: &mut Store,
        requests: &Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) -> Result<bool, IoError> {
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for &(from, to) in parts {
            let held = self.objects.pieces(object, from, to).into_iter();
            let held = held.filter(|piece| piece.logical.is_some());
            pieces.extend(held.map(|piece| (piece.offset, piece.offset + piece.count)));
        }
        let count = pieces.len().min(self.object_changes.changes_that_fit(
            &self.objects,
            &store.journal,
            &store.commit,
        ));
        if !self.objects.fits_with_runs(count) {
            return Err(IoError::NoSpace);
        }
        for &(from, to) in &pieces[..count] {
            for left in self.objects.punch(object, from, to) {
                self.let_go_of(left, store, requests, policy, io);
            }
        }
        if !pieces.is_empty() {
            store.commit.note_pending(io.now());
        }
        Ok(count == pieces.len())
    }

    /// Copies a shared block to the new one that it is linked to, ahead of what will be written there.
    fn copy_up(
        &mut self,
        object: ObjectId,
        block: u64,
        old: Logical,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let new = self.objects.single(object, block, block + 1).expect("it was linked");
        assert!(new != old, "blocks that are shared are not written to");
        let background = |object, op, range| Request {
            kind: RequestKind::Background,
            ..Request::new(RequestId(u64::MAX), object, op, range, io.now())
        };
        let range = (block * BLOCK_BYTES, BLOCK_BYTES);
        let mut write = Task::new(background(object, Op::Write, range), new, new + 1);
        let read = background(ObjectId(u64::MAX), Op::Read, (0, BLOCK_BYTES));
        write.volume = self.objects.get(object).map_or(object, |known| known.volume);
        policy.name_own_write(&mut write);
        let write = requests.insert(write);
        requests.hold(write);
        let read = requests.insert(Task::new(read, old, old + 1));
        self.sharing.copy_ups.push(CopyUp { read, write });
        io.stats_mut().copied_up += 1;
        requests.lead_to(Next::Read(read));
    }

    /// A step of a copy is done: the block was read, or written.
    pub(crate) fn copied_up(
        &mut self,
        id: TaskId,
        payload: PayloadId,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let at = self.sharing.copy_ups.iter().position(|copy| copy.read == id || copy.write == id);
        let at = at.expect("asked before");
        let CopyUp { read, write } = self.sharing.copy_ups[at];
        assert!(requests[write].holds, "who waits for a copy waits for its write");
        if id == write {
            assert!(read == write, "a copy is read before it is written");
            self.sharing.copy_ups.swap_remove(at);
            let (_, woken) = requests.release(id);
            requests.wake(woken);
            return;
        }
        let task = requests.remove(id);
        self.sharing.copy_ups[at].read = write;
        assert!(id == read, "a copy is read, then written");
        if let Err(error) = task.status {
            requests.note_error(write, error);
            requests.lead_to(Next::Written(write));
            return;
        }
        let new = &mut requests[write];
        (new.buffer, new.request.payload) = (payload, payload);
        let (first, end) = (new.first, new.end);
        policy.tiers.note_changing(first, end);
        requests.begin_user_write(write, store, policy, io);
    }

    /// A write to shared blocks has failed: the object has again what it had. Who waits for the write has
    /// nothing to look for in its blocks any more.
    fn drop_failed_link(
        &mut self,
        new: BlockRange,
        error: IoError,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) {
        requests.note_gone(new.first, new.first + new.count, error);
        if let Some(range) = self.objects.drop_link(new.first) {
            self.let_go_of(range, store, requests, policy, io);
        }
    }

    /// A write has ended, well or not. Does it lie in a link whose other blocks may not be durable?
    pub(crate) fn note_link_written(
        &mut self,
        id: TaskId,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) -> bool {
        if self.objects.links().is_empty() {
            return false;
        }
        let task = &requests[id];
        let (first, end, status) = (task.first, task.end, task.status);
        let Some((_, _, link)) = self.objects.links().at(first) else { return false };
        let covers = first == link.range.first && end == link.range.first + link.range.count;
        match status {
            Ok(()) => self.objects.note_written(first),
            Err(error) if !link.written => {
                self.drop_failed_link(link.range, error, store, requests, policy, io)
            }
            Err(_) => {}
        }
        !covers
    }

    /// A write or a zeroing of these blocks of an object, which may share some with others, is about to
    /// begin: it will find none that are shared.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn leave_shared(
        &mut self,
        request: &Request,
        (from, to): (u64, u64),
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) -> Result<Leaves, IoError> {
        let object = request.object;
        let shared = self.objects.shared_parts(object, from, to);
        if shared.is_empty() || io.breaks(Mutant::WritesShared) {
            return Ok(Leaves::Nothing);
        }
        let (edges, whole) = apart(request, &shared, from, to);
        let is_write = request.op == Op::Write;
        let linked: Vec<(u64, u64)> =
            if is_write { [&edges[..], &whole[..]].concat() } else { edges.clone() };
        let links = self.objects.links().len();
        if links > 0 && links + linked.len() > self.sharing.links_max(&store.journal) {
            return Ok(Leaves::NotNow);
        }
        let old: Vec<Logical> = edges
            .iter()
            .map(|&(block, end)| self.objects.single(object, block, end).expect("a shared block"))
            .collect();
        self.objects.link(object, &linked)?;
        for (&(block, _), old) in edges.iter().zip(old) {
            self.copy_up(object, block, old, requests, policy, io);
        }
        if is_write || whole.is_empty() {
            return Ok(Leaves::Nothing);
        }
        let all = self.punch_what_fits(object, &whole, store, requests, policy, io)?;
        Ok(if all { Leaves::Shared } else { Leaves::NotNow })
    }

    /// What waited for a write to shared blocks that has failed: a write fails, too, and a read finds what
    /// the object had. True: this task is such a one, and is seen to.
    #[inline]
    pub(crate) fn fails_with_link(
        &self,
        id: TaskId,
        store: &mut Store,
        requests: &mut Requests,
        policy: &Policy,
        io: &mut DeviceIo,
    ) -> bool {
        let task = &requests[id];
        let Some(error) = task.blocks_gone else { return false };
        if task.request.op == Op::Read && !io.breaks(Mutant::ReadsFailWithLinks) {
            self.read_where_it_lies(id, store, requests, policy, io);
            return true;
        }
        let op = task.request.op;
        requests.note_error(id, error);
        match op {
            Op::Read => requests.answer(id, PayloadId::NONE, 0, io),
            _ => requests.lead_to(Next::Written(id)),
        }
        true
    }

    /// The batch that was next is done: what waited for it goes on.
    pub(crate) fn thaw(
        &mut self,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if self.sharing.frozen.is_empty() {
            return;
        }
        assert!(!self.sharing.is_settling(), "a clone is done after its FLUSH");
        self.sharing.frozen.clear();
        self.sharing.settling = None;
        self.run_held_back(store, requests, policy, io);
    }
}
