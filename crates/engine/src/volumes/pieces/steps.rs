//! Blocks of objects that get them as they are written, step by step.

use super::{Part, blocks, empty_pieces, part_of};
use crate::io::DeviceIo;
use crate::map::runs::Piece;
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::port::Command;
use crate::requests::Requests;
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use crate::volumes::sharing::Leaves;
use tandem_block::{BLOCK_BYTES, Instant, Op, PayloadId, Request, RequestType};

impl Requests {
    /// Begins the part of a request, or of a part of it, that lies in one piece. Nothing lies in a hole.
    fn begin_part(&mut self, of: Part, piece: Piece, from: u64, io: &mut DeviceIo) {
        let Some(logical) = piece.logical else { return };
        let request = of.request;
        let of_part = part_of(&request, piece);
        let mut part = Task::new(of_part, logical, logical + piece.count);
        (part.parent, part.volume, part.tier) = (Some(of.parent), of.volume, of.tier);
        (part.stream, part.sequential) = (of.stream, of.sequential);
        match request.op {
            Op::Read => {
                part.buffer = of.buffer;
                part.base_bytes = of.base_bytes + (piece.offset - from) * BLOCK_BYTES;
            }
            Op::Write => {
                part.payload_offset_bytes = of_part.offset_bytes - request.offset_bytes;
                part.base_bytes = part.payload_offset_bytes;
                part.retained = true;
                io.hold_buffer(request.payload);
            }
            Op::Discard | Op::WriteZeroes | Op::Flush => {}
        }
        let parent = &mut self[of.parent];
        assert!(
            parent.outstanding > 0 && !parent.is_answered,
            "a request is held while its parts begin"
        );
        parent.outstanding += 1;
        let id = self.insert(part);
        self.take_blocks(id, io);
    }

    fn let_go(&mut self, id: TaskId, commit: &mut Commit, tiers: &Tiers, io: &mut DeviceIo) {
        let task = &mut self[id];
        assert!(task.outstanding > 0, "a part ends once");
        task.outstanding -= 1;
        if task.outstanding > 0 {
            return;
        }
        let (request, buffer, status) = (task.request, task.buffer, task.status);
        let has_left = task.over_base && status.is_ok();
        match request.op {
            Op::Read if status.is_ok() => {
                self.answer(id, buffer, request.offset_bytes % BLOCK_BYTES, io);
                return;
            }
            Op::Read if buffer != PayloadId::NONE => io.send(Command::Release(buffer)),
            Op::Write => io.let_buffer_go(request.payload),
            Op::Discard | Op::WriteZeroes if has_left => {
                tiers.policies.keep_class(id, self);
                if self[id].request.fua {
                    commit.wait_fua(id);
                    return;
                }
            }
            _ => {}
        }
        self.answer(id, PayloadId::NONE, 0, io);
    }

    /// A part is done; its parent too, if it was the last.
    pub(crate) fn part_answered(
        &mut self,
        id: TaskId,
        part: &Task,
        commit: &mut Commit,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let parent = &mut self[id];
        assert!(parent.request.op == part.request.op, "a part does what its request does");
        if parent.status.is_ok() {
            parent.status = part.status;
        }
        if part.started != Instant::NEVER {
            parent.started = parent.started.min(part.started);
        }
        parent.served_from = parent.served_from.max(part.served_from);
        parent.from_read_back |= part.from_read_back;
        parent.offloaded |= part.offloaded;
        parent.target = part.target;
        parent.reason = part.reason;
        (parent.expected, parent.told_block) = (part.expected, part.first);
        self.let_go(id, commit, tiers, io);
    }
}

impl Volumes {
    /// A discard of a thin object was answered: its whole blocks in which nothing lies are nobody's any
    /// more, unless somebody else is at the object just now, or the next commit has no room for that, or
    /// the table has none for the runs that it would cut apart.
    ///
    /// Its parts have ended one by one: where the first ones did, or in its holes, others may have written
    /// since, and that has been answered.
    pub(crate) fn give_up_discarded(
        &mut self,
        request: &Request,
        store: &mut Store,
        requests: &Requests,
        policy: &mut Policy,
        io: &DeviceIo,
    ) {
        assert!(request.op == Op::Discard, "only a discard gives blocks up");
        let first = request.offset_bytes.div_ceil(BLOCK_BYTES);
        let end = (request.offset_bytes + request.length_bytes) / BLOCK_BYTES;
        if first >= end
            || requests.is_in_use(request.object)
            || self.objects.get(request.object).is_none()
        {
            return;
        }
        let empty = empty_pieces(request.object, first, end, io, &store.map, &self.objects);
        if empty.is_empty()
            || empty.len()
                > self.object_changes.changes_that_fit(&self.objects, &store.journal, &store.commit)
            || !self.objects.fits_with_runs(empty.len())
        {
            return;
        }
        for (from, to) in empty {
            for left in self.objects.punch(request.object, from, to) {
                self.let_go_of(left, store, requests, policy, io);
            }
        }
        store.commit.note_pending(io.now());
    }

    fn begin_parts(
        &self,
        mut parent: Task,
        (from, to): (u64, u64),
        store: &mut Store,
        requests: &mut Requests,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        let request = parent.request;
        io.stats_mut().in_pieces += 1;
        assert!(parent.outstanding == 0 && !parent.holds, "a request has parts, or is one itself");
        parent.outstanding = 1; // held while parts begin
        if request.op == Op::Read && io.config().contents {
            let length_bytes = (to - from) * BLOCK_BYTES;
            parent.buffer = io.name_payload();
            io.send(Command::Reserve { payload: parent.buffer, length_bytes });
        }
        if request.op == Op::Write {
            io.hold_buffer(request.payload);
        }
        let pieces = self.objects.pieces(request.object, from, to);
        if request.op.is_write() && request.op != Op::Write && !io.breaks(Mutant::HolesAtOnce) {
            // the hole may be of an earlier request, and not be recorded yet
            parent.over_base |= pieces.iter().any(|piece| piece.logical.is_none());
        }
        let parent = requests.insert(parent);
        let whole = Part::of(&requests[parent], parent);
        for piece in pieces {
            requests.begin_part(whole, piece, from, io);
        }
        requests.let_go(parent, &mut store.commit, &policy.tiers, io);
    }

    /// Begins a request for a thin object in the blocks that the object has now.
    fn begin_where_it_lies(
        &self,
        mut task: Task,
        store: &mut Store,
        requests: &mut Requests,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        let (from, to) = blocks(&task.request);
        if let Some(logical) = self.objects.single(task.request.object, from, to) {
            (task.first, task.end) = (logical, logical + (to - from));
            let id = requests.insert(task);
            requests.take_blocks(id, io);
        } else {
            self.begin_parts(task, (from, to), store, requests, policy, io);
        }
    }

    /// Begins a request if the next commit has room for what it changes. False: it has not.
    fn begin_thin(
        &mut self,
        request: &Request,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) -> bool {
        let (from, to) = blocks(request);
        if request.op == Op::Write {
            match self.objects.fill(
                request.object,
                from,
                to,
                self.object_changes.changes_that_fit(&self.objects, &store.journal, &store.commit),
            ) {
                Ok(filled) => {
                    if !self.objects.changes().is_empty() {
                        store.commit.note_pending(io.now());
                    }
                    if !filled {
                        return false;
                    }
                }
                Err(error) => {
                    io.stats_mut().without_space += 1;
                    io.refuse_request(request, error);
                    return true;
                }
            }
        }
        let mut left = false;
        if request.op.is_write() && !self.objects.shares().is_empty() {
            match self.leave_shared(request, (from, to), store, requests, policy, io) {
                Ok(Leaves::Nothing) => {}
                Ok(Leaves::Shared) => left = true,
                Ok(Leaves::NotNow) => return false,
                Err(error) => {
                    io.stats_mut().without_space += 1;
                    io.refuse_request(request, error);
                    return true;
                }
            }
        }
        let mut task = Task::new(*request, 0, 0);
        if request.op.is_write() && request.op != Op::Write {
            // blocks that it has left are no part of it
            task.over_base = left;
        }
        if let Some(object) = self.objects.get(request.object) {
            task.volume = object.volume;
            task.tier = self.objects.attributes().tier(request.object);
            if object.kind.data_type() == RequestType::Metadata {
                task.request.data_type = RequestType::Metadata;
            }
        }
        policy.name_stream(&mut task, io);
        self.begin_where_it_lies(task, store, requests, policy, io);
        true
    }

    /// A read waited for a write to new blocks, which the object does not get: it reads what the object
    /// has instead. It has begun nothing yet.
    pub(crate) fn read_where_it_lies(
        &self,
        id: TaskId,
        store: &mut Store,
        requests: &mut Requests,
        policy: &Policy,
        io: &mut DeviceIo,
    ) {
        let task = &requests[id];
        assert!(task.request.op == Op::Read && task.outstanding == 0, "a read that only waited");
        let Some(parent) = task.parent else {
            let mut task = requests.remove(id);
            task.blocks_gone = None;
            self.begin_where_it_lies(task, store, requests, policy, io);
            return;
        };
        let part = Part::of(task, parent);
        let (from, to) = blocks(&part.request);
        for piece in self.objects.pieces(part.request.object, from, to) {
            requests.begin_part(part, piece, from, io);
        }
        requests.answer(id, PayloadId::NONE, 0, io);
    }

    /// A sound request for a thin object.
    pub(crate) fn enter_thin(
        &mut self,
        request: &Request,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        if requests.holds_back(request) || !self.begin_thin(request, store, requests, policy, io) {
            requests.hold_back(*request);
        }
    }
}

impl Volumes {
    /// Requests that waited for room in a commit.
    #[inline]
    pub(crate) fn run_held_back(
        &mut self,
        store: &mut Store,
        requests: &mut Requests,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        while let Some(request) = requests.held_back().front().copied() {
            let found = self.objects.locate(request.object);
            // a read needs no record: it goes on where nothing can be recorded any more
            let needs_record = request.op != Op::Read || self.sharing.is_frozen(&request);
            let broken = store.commit.broken().filter(|_| needs_record);
            match (broken, found) {
                (Some(error), _) | (None, Err(error)) => io.refuse_request(&request, error),
                (None, Ok(_)) if self.sharing.is_frozen(&request) => return,
                (None, Ok(found)) if !found.is_thin => {
                    // a volume, of which no snapshot was taken after all
                    let (from, to) = blocks(&request);
                    requests.enter(
                        Task::new(request, found.first + from, found.first + to),
                        store,
                        policy,
                        io,
                    );
                }
                (None, Ok(_)) if !self.begin_thin(&request, store, requests, policy, io) => {
                    return;
                }
                (None, Ok(_)) => {}
            }
            requests.let_first_begin();
        }
    }
}
