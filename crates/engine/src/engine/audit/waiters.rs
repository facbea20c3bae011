//! What does each waiting task wait for, and can that still happen?

use super::{Findings, Rule};
use crate::audit::Audit;
use crate::device::Job;
use crate::owner::{LogIo, MetadataIo, MigrationIo, Owner, RequestIo};
use crate::requests::ordering::TaskId;
use crate::requests::task::Task;
use std::collections::BTreeMap;
use std::fmt;
use tandem_block::{DeviceId, Op, RequestId};

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Earlier writes to the same blocks.
    Earlier(Vec<TaskId>),
    /// So many commands of devices, in flight or in their queues.
    Commands(Vec<DeviceId>),
    /// Its turn, or space, in the queue of a device.
    Queue(DeviceId),
    /// Pages of checksums.
    Pages(u32),
    /// Its parts.
    Parts(u32),
    /// A commit.
    Commit,
    /// The second of two places.
    SecondPlace,
    /// Room in a commit, or the batch before it.
    Batches,
    /// The base of a shared block.
    CopyUp(TaskId),
    /// Nothing that would wake it.
    Nothing,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Which.
    pub(crate) task: TaskId,
    /// Its request; `RequestId(u64::MAX)` for work of the engine's own.
    pub(crate) request: RequestId,
    /// What it does.
    pub(crate) op: Op,
    /// What it waits for.
    pub(crate) wait: Wait,
}

impl fmt::Display for Waiter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, op, wait) = (self.task, self.op, &self.wait);
        match self.request {
            RequestId(u64::MAX) => write!(out, "background {op:?}, task {task}: {wait:?}"),
            RequestId(id) => write!(out, "request {id:#x}, {op:?}, task {task}: {wait:?}"),
        }
    }
}

/// What is under way for one task.
#[derive(Clone, Debug, Default)]
struct Causes {
    commands: Vec<DeviceId>,
    queue: Option<DeviceId>,
    pages: u32,
    parts: u32,
}

impl Causes {
    /// What `Task::outstanding` should say.
    fn outstanding(&self) -> u32 {
        self.commands.len() as u32 + self.pages + self.parts
    }
}

impl Audit<'_> {
    /// Every task that waits, in the order of their ids, and what for.
    pub(super) fn waiters(&self) -> Vec<Waiter> {
        let causes = self.causes();
        self.requests
            .iter()
            .map(|(key, task)| {
                let id = key as TaskId;
                let wait = self.wait_of(id, task, causes.get(&id));
                Waiter { task: id, request: task.request.id, op: task.request.op, wait }
            })
            .collect()
    }

    fn causes(&self) -> BTreeMap<TaskId, Causes> {
        let mut causes: BTreeMap<TaskId, Causes> = BTreeMap::new();
        for under in self.commands() {
            let task = match under.owner {
                Owner::Request(RequestIo::Read(part) | RequestIo::Verify(part)) => part.task,
                Owner::Request(
                    RequestIo::Write { task, .. }
                    | RequestIo::Edge { task, .. }
                    | RequestIo::Fixed { task }
                    | RequestIo::Base { task, .. },
                ) => *task,
                Owner::Log(LogIo::Copy(copy)) => match copy.task {
                    Some(task) => task,
                    None => continue,
                },
                _ => continue,
            };
            causes.entry(task).or_default().commands.push(under.device);
        }
        for (device, _, job) in self.waiting_jobs() {
            match job {
                Job::Write { task, .. } => causes.entry(*task).or_default().queue = Some(device),
                Job::Edge { task, .. } => {
                    causes.entry(*task).or_default().commands.push(device);
                }
                Job::Io(..) => {}
            }
        }
        for (_, waiter) in self.store.pages.waiting() {
            if let Some(task) = waiter {
                causes.entry(task).or_default().pages += 1;
            }
        }
        for (_, task) in self.requests.iter() {
            if let Some(parent) = task.parent {
                causes.entry(parent).or_default().parts += 1;
            }
        }
        causes
    }

    fn wait_of(&self, id: TaskId, task: &Task, causes: Option<&Causes>) -> Wait {
        if task.blocked_by > 0 {
            return Wait::Earlier(self.requests.holders_before(id));
        }
        let causes = causes.cloned().unwrap_or_default();
        if let Some(device) = causes.queue {
            return Wait::Queue(device);
        }
        if !causes.commands.is_empty() {
            return Wait::Commands(causes.commands);
        }
        if causes.pages > 0 {
            return Wait::Pages(causes.pages);
        }
        if causes.parts > 0 {
            return Wait::Parts(causes.parts);
        }
        if self.store.commit.has_waiter(id) {
            return Wait::Commit;
        }
        if self.migration.copies.has_waiter(id) {
            return Wait::SecondPlace;
        }
        if self.volumes.object_changes.has_waiter(id) {
            return Wait::Batches;
        }
        self.volumes.sharing.copied_up_by(id).map_or(Wait::Nothing, Wait::CopyUp)
    }

    pub(super) fn audit_waiters(&self, findings: &mut Findings) {
        let causes = self.causes();
        for (key, task) in self.requests.iter() {
            let id = key as TaskId;
            let found = causes.get(&id).map_or(0, Causes::outstanding);
            let what = format!("what task {id} ({:?}) waits for", task.request.op);
            findings.equal(Rule::Waiters, &what, u64::from(task.outstanding), u64::from(found));
            match self.wait_of(id, task, causes.get(&id)) {
                Wait::Nothing => {
                    let request = task.request.id.0;
                    let what = || {
                        let op = task.request.op;
                        format!("task {id} ({op:?}, request {request:#x}) waits for nothing")
                    };
                    findings.add(Rule::Waiters, what);
                }
                Wait::Earlier(holders) => self.audit_holders(id, task, &holders, findings),
                _ => {}
            }
        }
        for id in causes.keys().filter(|id| self.requests.get(**id).is_none()) {
            findings.add(Rule::Waiters, || {
                format!("something is under way for task {id}, which is over")
            });
        }
        self.audit_pages(findings);
        self.audit_moves(findings);
    }

    fn audit_holders(&self, id: TaskId, task: &Task, holders: &[TaskId], findings: &mut Findings) {
        let what = format!("earlier writes that task {id} waits for");
        let counted = u64::from(task.blocked_by);
        findings.equal(Rule::Waiters, &what, counted, holders.len() as u64);
        for holder in holders {
            if !self.requests.get(*holder).is_some_and(|task| task.holds) {
                let what = || format!("task {id} waits for task {holder}, which holds nothing");
                findings.add(Rule::Waiters, what);
            }
        }
    }

    /// A page that somebody waits for is being read.
    fn audit_pages(&self, findings: &mut Findings) {
        let is_read = |page: u32| {
            self.commands()
                .any(|under| *under.owner == Owner::Metadata(MetadataIo::ChecksumPage(page)))
        };
        for (page, _) in self.store.pages.waiting() {
            if !is_read(page) {
                findings.add(Rule::Waiters, || format!("page {page} is waited for and not read"));
            }
        }
    }

    /// A background move waits for its own commands, for a record, or for reads from before.
    fn audit_moves(&self, findings: &mut Findings) {
        let is_of_move = |owner: &Owner| {
            let Owner::Migration(io) = owner else { return false };
            !matches!(io, MigrationIo::Extent { .. })
        };
        let found = self.commands().filter(|under| is_of_move(under.owner)).count() as u64;
        let counted = self.migration.moves.commands_counted();
        findings.equal(Rule::Waiters, "commands of the move under way", counted, found);
        if let Some(read) = self.migration.moves.reading_task() {
            let under_way = self
                .requests
                .iter()
                .any(|(_, task)| (task.first, task.request.id) == (read, RequestId(u64::MAX)));
            if !under_way {
                findings.add(Rule::Waiters, || format!("nobody reads block {read} for its move"));
            }
        }
        for (number, counted) in self.policy.tiers.promoting_counts() {
            let is_its = |owner: &Owner| matches!(owner, Owner::Migration(MigrationIo::Extent { number: of, .. }) if *of == number);
            let found = self.commands().filter(|under| is_its(under.owner)).count() as u64;
            let what = format!("commands of the extent that comes as number {number}");
            findings.equal(Rule::Waiters, &what, counted, found);
        }
    }
}
