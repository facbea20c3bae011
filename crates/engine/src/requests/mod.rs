//! Requests under way: their order where they overlap, and their answers.
//!
//! ```text
//! insert ─▶ take_blocks ─▶ (behind earlier writes) ─▶ its steps ─▶ answer ─▶ next ─▶ release
//! ```
//! A step of a request begins nothing by itself. What it leads to is in a queue, and who takes `next` does
//! it. So no step of one request runs in the middle of another one's, and no owner needs to know the next.

pub(crate) mod arrival;
mod buffers;
pub(crate) mod detour;
pub(crate) mod dispatch;
pub(crate) mod hdd;
pub(crate) mod hedge;
pub(crate) mod late;
pub(crate) mod locations;
pub(crate) mod ordering;
pub(crate) mod part_block;
pub(crate) mod read;
pub(crate) mod task;
pub(crate) mod verify;
pub(crate) mod write;
mod write_runs;

#[cfg(test)]
mod tests;

use crate::io::DeviceIo;
use crate::map::Logical;
use crate::mutant::Mutant;
use crate::port::{Command, Done, ServedFrom};
use crate::steer::Target;
use detour::Detours;
use hedge::Hedges;
use ordering::{Ordering, TaskId};
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use tandem_block::{BLOCK_BYTES, Instant, IoError, ObjectId, Op, PayloadId, Request, RequestKind};
use task::{Task, Tasks};

/// What a step of a request has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is before it in its blocks any more.
    Begin(TaskId),
    /// A read for the background is to begin, or any read once more.
    Read(TaskId),
    /// All commands of a write have ended.
    Written(TaskId),
    /// What it wanted to be durable is, or never will be.
    Durable(TaskId, Result<(), IoError>),
    /// It was answered, or a read for the background is done, with what it has read.
    Over(TaskId, PayloadId),
}

/// All requests under way, and the engine's own reads and writes of users' blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    tasks: Tasks,
    ordering: Ordering,
    /// Writes that a log has as well as an SSD.
    hedges: Hedges,
    /// Writes that logs have, and that follow to SSDs.
    detours: Detours,
    /// Requests for thin objects that wait for room in a commit, or for a clone.
    held_back: VecDeque<Request>,
    /// Writes that wait until commits and the checkpoint can follow, and reads behind them, the oldest first.
    paced: VecDeque<Request>,
    /// What steps have led to, and is not done yet.
    next: VecDeque<Next>,
}

impl Requests {
    #[inline]
    pub(crate) fn insert(&mut self, task: Task) -> TaskId {
        assert!(
            task.blocked_by == 0 && !task.holds && !task.is_answered,
            "a request that comes in has no place in the order yet"
        );
        assert!(task.first <= task.end, "the blocks of a request lie in order");
        self.tasks.insert(task)
    }

    /// # Panics
    /// If it holds blocks that somebody may wait for, or is none that is under way.
    pub(crate) fn remove(&mut self, id: TaskId) -> Task {
        let task = self.tasks.remove(id);
        assert!(!task.holds, "who holds blocks gives them back");
        assert!(task.blocked_by == 0, "who waits for a write is not removed before it is woken");
        assert!(task.outstanding == 0, "no command will end for a request that is gone");
        task
    }

    #[inline]
    pub(crate) fn get(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.tasks.iter()
    }

    /// Requests under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    // ---- requests that have not begun ----

    /// Requests that wait for room in a commit, or for a clone, the oldest first.
    pub(crate) fn held_back(&self) -> &VecDeque<Request> {
        &self.held_back
    }

    pub(crate) fn hold_back(&mut self, request: Request) {
        assert!(request.op != Op::Flush, "a FLUSH waits in the commit");
        assert!(request.length_bytes > 0, "only a sound request waits");
        self.held_back.push_back(request);
    }

    /// The oldest one that was held back has begun, or was refused.
    ///
    /// # Panics
    /// If none is held back.
    pub(crate) fn let_first_begin(&mut self) {
        self.held_back.pop_front().expect("the caller looked at it");
    }

    /// Requests under way, and those that have not begun.
    pub(crate) fn accepted(&self) -> usize {
        self.len() + self.held_back.len() + self.paced.len()
    }

    /// Must a request for this object wait behind an earlier one?
    pub(crate) fn holds_back(&self, request: &Request) -> bool {
        self.held_back.iter().any(|waiting| waiting.object == request.object)
    }

    // ---- order ----

    /// Takes its place behind earlier writes to the same blocks. If there are none, it begins.
    pub(crate) fn take_blocks(&mut self, id: TaskId, io: &mut DeviceIo) {
        let task = &self.tasks[id];
        assert!(!task.is_answered && task.outstanding == 0, "it has begun nothing yet");
        assert!(task.request.op != Op::Flush, "a FLUSH has no blocks");
        assert!(task.blocked_by == 0 && !task.holds, "a request takes its place once");
        assert!(
            task.blocks() == blocks_of(&task.request),
            "the blocks of a request are those that its bytes touch"
        );
        let (is_write, first, end) = (task.request.op.is_write(), task.first, task.end);
        let blocked_by = match io.breaks(Mutant::Unordered) {
            true => 0,
            false => self.ordering.wait_for(id, first, end),
        };
        if is_write {
            self.hold(id);
        }
        self.tasks[id].blocked_by = blocked_by;
        io.stats_mut().ordered += u64::from(blocked_by > 0);
        if blocked_by == 0 {
            self.next.push_back(Next::Begin(id));
        }
    }

    /// Later requests for the blocks of this one wait for it.
    pub(crate) fn hold(&mut self, id: TaskId) {
        let task = &mut self.tasks[id];
        assert!(!task.holds, "blocks are held once");
        task.holds = true;
        self.ordering.hold(id, task.first, task.end);
    }

    /// A request under way ends: its blocks are free. Returns it, and who may begin now.
    pub(crate) fn release(&mut self, id: TaskId) -> (Task, Vec<TaskId>) {
        let mut task = self.tasks.remove(id);
        assert!(task.outstanding == 0, "nothing of it is under way");
        assert!(task.is_answered, "blocks are free once their user was answered");
        assert!(task.blocked_by == 0, "what ends waits for nobody");
        let mut woken = Vec::new();
        if std::mem::take(&mut task.holds) {
            self.ordering.release(id, task.first, task.end, &mut woken);
        }
        woken.retain(|waiter| {
            let waiting = &mut self.tasks[*waiter];
            assert!(waiting.blocked_by > 0, "it waits for this one");
            assert!(
                waiting.first < task.end && task.first < waiting.end,
                "who waits for a write overlaps it"
            );
            waiting.blocked_by -= 1;
            waiting.blocked_by == 0
        });
        (task, woken)
    }

    /// Does any write hold a block of `first..end`?
    pub(crate) fn is_held(&self, first: Logical, end: Logical) -> bool {
        self.ordering.is_held(first, end)
    }

    /// Writes that this one waits for, in the order of their ids.
    pub(crate) fn holders_before(&self, id: TaskId) -> Vec<TaskId> {
        self.ordering.holders_before(id)
    }

    /// Are there requests for this object that touch its blocks?
    pub(crate) fn is_in_use(&self, object: ObjectId) -> bool {
        let touches = |request: &Request| request.object == object && request.op != Op::Flush;
        self.tasks.iter().any(|(_, task)| !task.is_answered && touches(&task.request))
            || self.held_back.iter().chain(&self.paced).any(touches)
    }

    /// Are there requests for these blocks?
    pub(crate) fn touch(&self, first: Logical, end: Logical) -> bool {
        let touches = |task: &Task| task.first < end && first < task.end;
        self.tasks.iter().any(|(_, task)| !task.is_answered && touches(task))
    }

    // ---- ends ----

    /// Notes the first error that a request meets.
    pub(crate) fn note_error(&mut self, id: TaskId, error: IoError) {
        let task = &mut self.tasks[id];
        assert!(!task.is_answered, "an answer that was given stays as it is");
        if task.status.is_ok() {
            task.status = Err(error);
        }
    }

    /// These blocks are not the object's any more: the write that gave them to it has failed. Requests that
    /// wait for it learn that when they begin.
    pub(crate) fn note_gone(&mut self, first: Logical, end: Logical, error: IoError) {
        assert!(first < end, "a link has blocks");
        for (_, task) in self.tasks.iter_mut() {
            if task.blocked_by > 0 && task.first < end && first < task.end {
                task.blocks_gone.get_or_insert(error);
            }
        }
    }

    /// Nothing of it is under way any more: its user is answered, unless it is a part or the engine's own.
    ///
    /// # Panics
    /// If it was answered before, or has commands under way.
    pub(crate) fn answer(
        &mut self,
        id: TaskId,
        payload: PayloadId,
        skip_bytes: u64,
        io: &mut DeviceIo,
    ) {
        let task = &mut self.tasks[id];
        assert!(!task.is_answered, "a request is answered once");
        assert!(task.outstanding == 0, "its commands have ended");
        assert!(task.blocked_by == 0, "who waits for a write is answered behind it");
        assert!(
            task.status.is_ok() || payload == PayloadId::NONE,
            "a request that failed gives no buffer to its user"
        );
        assert!(
            task.unanswered.is_none() && !task.again.is_wanted(),
            "a read that is to begin again is not answered"
        );
        assert!(task.overlays.is_empty(), "fragments are laid over before the answer");
        task.is_answered = true;
        if task.parent.is_none() && task.request.kind != RequestKind::Background {
            say_done(task, payload, skip_bytes, io);
        }
        self.next.push_back(Next::Over(id, payload));
    }

    /// A step of some request, or of who waits for one, has led to this.
    #[inline]
    pub(crate) fn lead_to(&mut self, next: Next) {
        self.next.push_back(next);
    }

    /// These waited for blocks that are free now.
    pub(crate) fn wake(&mut self, woken: Vec<TaskId>) {
        self.next.extend(woken.into_iter().map(Next::Begin));
    }

    /// Is there anything to be done next?
    pub(crate) fn has_next(&self) -> bool {
        !self.next.is_empty()
    }

    /// What is to be done next.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Next> {
        self.next.pop_front()
    }
}

/// How many blocks the bytes of a request touch.
fn blocks_of(request: &Request) -> u64 {
    let end_bytes = request.offset_bytes + request.length_bytes;
    end_bytes.div_ceil(BLOCK_BYTES) - request.offset_bytes / BLOCK_BYTES
}

fn say_done(task: &Task, payload: PayloadId, skip_bytes: u64, io: &mut DeviceIo) {
    let request = task.request;
    assert!(
        task.started == Instant::NEVER || task.started <= io.now(),
        "a request has begun before it ends"
    );
    let (wait_ns, device_ns) = if task.started == Instant::NEVER {
        (io.now().since(request.arrived).ns, 0)
    } else {
        (task.started.since(request.arrived).ns, io.now().since(task.started).ns)
    };
    let served_from = match (request.op, task.target) {
        (Op::Write, Target::Log(_)) => ServedFrom::HddLog,
        (Op::Write, Target::Ssd | Target::ThisSsd(_)) => ServedFrom::Ssd,
        _ => task.served_from,
    };
    io.send(Command::Complete(Done {
        request: request.id,
        status: task.status,
        payload,
        skip_bytes,
        wait_ns,
        device_ns,
        served_from,
    }));
}

impl Index<TaskId> for Requests {
    type Output = Task;

    #[inline]
    fn index(&self, id: TaskId) -> &Task {
        &self.tasks[id]
    }
}

impl IndexMut<TaskId> for Requests {
    #[inline]
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id]
    }
}
