//! Is this request sound, and must it wait for another?

use crate::engine::Engine;
use crate::io::Phase;
use crate::map::{Logical, Touch};
use crate::mutant::Mutant;
use crate::ordering::TaskId;
use crate::owner::{Ended, RequestIo};
use crate::port::{Command, Done, ServedFrom};
use crate::steer::Target;
use crate::task::Task;
use tandem_block::{
    BLOCK_BYTES, Instant, IoError, Op, PayloadId, Request, RequestKind, SECTOR_BYTES,
};

/// Longest request in bytes: NBD's usual limit.
pub const REQUEST_BYTES_MAX: u64 = 32 << 20;

impl Engine {
    /// A command of a request has ended.
    pub(crate) fn request_io_done(&mut self, io: RequestIo, ended: Ended<'_>) {
        let Ended { device, status, checksums, .. } = ended;
        match io {
            RequestIo::Read(part) => self.read_done(device, *part, status, checksums),
            RequestIo::Verify(part) => self.copy_read(device, &part, status, checksums),
            RequestIo::Write { task, logical, run } => {
                self.write_done(device, task, logical, run, status, checksums);
            }
            RequestIo::Edge { task, logical, run, mask } => {
                self.edge_done(device, (task, logical, run, mask), status, checksums);
            }
            RequestIo::Fixed { task } => self.fixed_write_done(task, status),
            RequestIo::Base { task, logical, slot } => {
                self.base_read(task, logical, slot, status, checksums);
            }
        }
    }

    /// A request arrives.
    pub(crate) fn on_request(&mut self, request: &Request) {
        self.io.note_request();
        self.steering.note_arrival(request, &self.io);
        match self.admit(request) {
            Ok(_) if self.sharing.waits_for_a_clone(request, &self.thin_waiting) => {
                self.thin_waiting.push_back(*request)
            }
            Ok(Some((first, end))) => self.enter(Task::new(*request, first, end)),
            Ok(None) => self.enter_thin(request),
            Err(error) => self.io.refuse_request(request, error),
        }
    }

    /// The logical blocks that a sound request touches. `None`: those of a thin object.
    fn admit(&mut self, request: &Request) -> Result<Option<(Logical, Logical)>, IoError> {
        if self.io.phase() != Phase::Running {
            return Err(IoError::Stopping);
        }
        let found = self.objects.locate(request.object)?;
        if request.op.is_write() && self.metadata.is_salvaged() {
            return Err(IoError::ReadOnly);
        }
        if request.op.is_write() && found.is_snapshot {
            return Err(IoError::Snapshot);
        }
        if request.op == Op::Flush {
            return Ok(Some((0, 0)));
        }
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let limit = if request.op.is_write() && request.op != Op::Write {
            // zeroing moves no bytes, so NBD bounds it by 32 bits only
            u64::from(u32::MAX)
        } else {
            REQUEST_BYTES_MAX
        };
        if length == 0
            || length > limit
            || !offset.is_multiple_of(SECTOR_BYTES)
            || !length.is_multiple_of(SECTOR_BYTES)
        {
            return Err(IoError::Misaligned);
        }
        let end = offset.checked_add(length).ok_or(IoError::OutOfRange)?;
        if found.is_thin {
            // its size is to the byte
            let whole_bytes = found.size_bytes.next_multiple_of(BLOCK_BYTES);
            return if end > whole_bytes { Err(IoError::OutOfRange) } else { Ok(None) };
        }
        if end > found.size_bytes {
            return Err(IoError::OutOfRange);
        }
        let block = |bytes: u64| found.first + (bytes / BLOCK_BYTES) as Logical;
        Ok(Some((block(offset), found.first + end.div_ceil(BLOCK_BYTES) as Logical)))
    }

    pub(crate) fn enter(&mut self, mut task: Task) {
        self.name_stream(&mut task);
        let op = task.request.op;
        let id = self.tasks.insert(task);
        if op == Op::Flush {
            if self.metadata.is_salvaged() {
                self.answer(id, PayloadId::NONE, 0); // nothing was written that could be lost
            } else {
                self.commit.wait_flush(id);
            }
            return;
        }
        self.take_blocks(id);
    }

    /// Takes its place behind earlier requests for the same blocks, and begins if there are none.
    pub(crate) fn take_blocks(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        let (op, first, end) = (task.request.op, task.first, task.end);
        let blocked_by = if self.io.breaks(Mutant::Unordered) {
            0
        } else {
            self.ordering.wait_for(id, first, end)
        };
        if op.is_write() {
            self.ordering.hold(id, first, end);
            self.tasks[id].holds = true;
        }
        if blocked_by > 0 {
            self.io.stats_mut().ordered += 1;
            self.tasks[id].blocked_by = blocked_by;
            return;
        }
        self.begin(id);
    }

    fn begin(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        if task.request.op.is_write() && self.tiers.has_share() {
            self.tiers.note_changing(task.first, task.end);
        }
        if self.fails_with_link(id) {
            return;
        }
        match self.tasks[id].request.op {
            Op::Read => self.begin_user_read(id),
            Op::Write => self.begin_user_write(id),
            Op::Discard | Op::WriteZeroes => self.begin_zeroes(id),
            Op::Flush => unreachable!("flushes wait in the commit"),
        }
    }

    /// Zeroing: whole blocks only change the map; part blocks at the ends are written as zeroes.
    fn begin_zeroes(&mut self, id: TaskId) {
        self.keep_class(id);
        let task = &self.tasks[id];
        let request = task.request;
        let (first, end) = (task.first, task.end);
        let head_part = !request.offset_bytes.is_multiple_of(BLOCK_BYTES);
        let end_bytes = request.offset_bytes + request.length_bytes;
        let tail_part = !end_bytes.is_multiple_of(BLOCK_BYTES);
        if self.io.is_fixed() {
            self.zero_fixed(first, end);
        } else {
            let inner_first = first + Logical::from(head_part);
            let inner_end = end - Logical::from(tail_part);
            if inner_first < inner_end {
                for block in inner_first..inner_end {
                    self.map.clear(block);
                }
                let touch = Touch { logical: inner_first, count: inner_end - inner_first };
                self.map.touch(touch, crate::map::NONE, true);
            }
            if (head_part || tail_part) && inner_first <= inner_end {
                self.write_zero_edges(
                    id,
                    head_part,
                    tail_part && end - first > u32::from(head_part),
                );
                return;
            }
            if head_part || tail_part {
                // one block, both ends within it
                self.write_zero_edges(id, true, false);
                return;
            }
        }
        self.tasks[id].started = self.io.now();
        self.finish_write(id);
    }

    /// A task has nothing outstanding any more: answers the user and wakes who waited for it.
    pub(crate) fn answer(&mut self, id: TaskId, payload: PayloadId, skip_bytes: u64) {
        if self.tasks[id].request.kind == RequestKind::Background {
            if self.sharing.is_copy_up(id) {
                self.copied_up(id, payload);
            } else if self.tiers.is_coming(id) {
                self.coming_read(id, payload);
            } else {
                self.merge_read(id, payload);
            }
            return;
        }
        let task = self.tasks.remove(id);
        match task.parent {
            None => self.say_done(&task, payload, skip_bytes),
            Some(parent) => self.part_answered(parent, &task),
        }
        self.let_others(id, &task);
    }

    /// A task has ended: who waited for its blocks may begin.
    pub(crate) fn let_others(&mut self, id: TaskId, task: &Task) {
        let dropped = self.drop_failed_link(id);
        if task.holds {
            let mut woken = std::mem::take(&mut self.work_list);
            self.ordering.release(id, task.first, task.end, &mut woken);
            for waiter in woken.drain(..) {
                let waiting = &mut self.tasks[waiter];
                waiting.blocked_by -= 1;
                if waiting.blocked_by == 0 {
                    self.begin(waiter);
                }
            }
            self.work_list = woken;
        }
        if let Some(range) = dropped {
            self.sharing.forget_failed(range);
        }
    }

    fn say_done(&mut self, task: &Task, payload: PayloadId, skip_bytes: u64) {
        let request = task.request;
        self.count_delivered(task);
        let (wait_ns, device_ns) = if task.started == Instant::NEVER {
            (self.io.now().since(request.arrived).ns, 0)
        } else {
            (task.started.since(request.arrived).ns, self.io.now().since(task.started).ns)
        };
        let served_from = match (request.op, task.target) {
            (Op::Write, Target::Log(_)) => ServedFrom::HddLog,
            (Op::Write, Target::Ssd) => ServedFrom::Ssd,
            _ => task.served_from,
        };
        self.io.send(Command::Complete(Done {
            request: request.id,
            status: task.status,
            payload,
            skip_bytes,
            wait_ns,
            device_ns,
            served_from,
        }));
        if request.op == Op::Discard && task.volume != request.object && task.status.is_ok() {
            self.give_up_discarded(&request);
        }
    }

    /// Notes the first error of a task.
    pub(crate) fn note_error(&mut self, id: TaskId, error: IoError) {
        let status = &mut self.tasks[id].status;
        if status.is_ok() {
            *status = Err(error);
        }
    }
}
