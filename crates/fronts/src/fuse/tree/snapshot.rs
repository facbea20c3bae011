//! How is a snapshot taken, and deleted, while the volume is served?
//!
//! Source: issue of tiers and caches ("snapshots of a file or volume"). By `mkdir` and `rmdir` in the directory
//! `.snapshots`, so that whoever may write there may do it, and every program can.
//!
//! ```text
//!  mkdir ─▶ new changes wait, those under way end ─▶ batch after batch ─▶ FLUSH ─▶ answered, all go on
//!  rmdir ─▶ nobody sees it any more ─▶ answered; then a job of nobody's gives back what it holds, bit by bit
//! ```
//! Reads wait for neither.

use super::call::{self, Call};
use super::session::{Pool, Session};
use super::short;
use super::steps::{Job, Plan, Step};
use std::collections::VecDeque;
use tandem_block::ObjectId;
use tandem_names::{Caller, Change, NameError, Snapshotting};

/// Names of deleted snapshots that go in one batch: others may want to change something, too.
const CLEARED_AT_ONCE: usize = 64;
/// The number of a job that nobody has asked for; the kernel's begin at 1.
const NOBODY: u64 = 0;

/// Snapshots that come and go.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// The job that takes one: from its beginning nothing else changes the volume.
    taker: Option<usize>,
    /// It waits until what was under way has ended.
    is_waiting: bool,
    walk: Option<Snapshotting>,
    /// Messages that wait for its end, and their bytes.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// A job clears what was deleted.
    is_clearing: bool,
    /// The volume is about to be closed: the next mount clears the rest.
    leaves_off: bool,
}

/// A message as it came.
#[derive(Debug)]
struct Held {
    head: Vec<u8>,
    body: Vec<u8>,
    now_ns: i64,
}

impl Snapshots {
    /// Bytes of the messages that wait.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Messages that wait.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

/// Does it leave names and bytes as they are? Closing does: what goes with it has no name. If that had to wait,
/// the kernel would soon hold back reads, too, since both count among what it does in the background.
pub(super) fn leaves_all_as_it_is(call: &Call) -> bool {
    matches!(
        call,
        Call::Release
            | Call::Sync
            | Call::Lookup(_)
            | Call::GetAttr
            | Call::ReadLink
            | Call::Open { .. }
            | Call::Read { .. }
            | Call::ReadDir { .. }
            | Call::StatFs
            | Call::GetXattr { .. }
            | Call::ListXattr { .. }
            | Call::Fine
            | Call::Silent
            | Call::Refused(_)
    )
}

impl Session {
    /// Keeps a message that would change something until the snapshot that is being taken is there.
    pub(super) fn hold_back(&mut self, head: &[u8], body: &[u8], now_ns: i64) -> bool {
        if self.snapshots.taker.is_none() {
            return false;
        }
        let waits =
            call::parse_parts(head, body).is_some_and(|(_, call)| !leaves_all_as_it_is(&call));
        if waits {
            let (head, body) = (head.to_vec(), body.to_vec());
            self.snapshots.held_bytes += head.len() + body.len();
            self.snapshots.held.push_back(Held { head, body, now_ns });
        }
        waits
    }

    /// What is asked of the directory of snapshots; `None`: something else, or of something else.
    pub(super) fn snapshot_steps(
        &self,
        directory: ObjectId,
        call: &Call,
        on: &impl Pool,
    ) -> Option<VecDeque<Step>> {
        if self.tree.snapshots(on) != Ok(Some(directory)) {
            return None;
        }
        match call {
            Call::MakeDir { name, .. } => {
                let take = Step::Change(Plan::TakeSnapshot(name.clone()));
                Some([Step::Freeze, take, Step::Flush].into())
            }
            Call::RmDir(name) => Some([Step::Change(Plan::DeleteSnapshot(name.clone()))].into()),
            _ => None,
        }
    }

    /// From now on what changes something waits for this job; true if nothing of that is under way.
    pub(super) fn freeze(&mut self, key: usize) -> bool {
        assert!(self.snapshots.taker.is_none(), "who wants another one waits");
        self.snapshots.taker = Some(key);
        self.snapshots.is_waiting = !self.is_still(key);
        !self.snapshots.is_waiting
    }

    fn is_still(&self, taker: usize) -> bool {
        self.jobs.iter().all(|(key, job)| key == taker || !job.changes)
            && self.short.iter().all(|(_, short)| !short.is_write())
    }

    /// Something has ended. Has that one waited for it?
    pub(super) fn wake_taker(&mut self) -> Option<usize> {
        let taker = self.snapshots.taker.filter(|_| self.snapshots.is_waiting)?;
        if !self.is_still(taker) {
            return None;
        }
        self.snapshots.is_waiting = false;
        Some(taker)
    }

    /// The next step of the snapshot that is being taken, or its first one.
    pub(super) fn plan_snapshot(
        &mut self,
        name: &[u8],
        now_ns: i64,
        on: &impl Pool,
    ) -> Result<Vec<Change>, NameError> {
        let walk = match &mut self.snapshots.walk {
            Some(walk) => walk,
            none => none.insert(self.tree.begin_snapshot(on, name, now_ns)?),
        };
        walk.plan(&self.tree, on)
    }

    /// A step was applied; the directory of the snapshot if that was the last one.
    pub(super) fn snapshot_grew(&mut self) -> Option<ObjectId> {
        let walk = self.snapshots.walk.as_mut().expect("one is being taken");
        walk.applied();
        walk.is_done().then(|| walk.top())
    }

    /// A step had no room in a batch. Can there be smaller ones?
    pub(super) fn snapshot_is_too_large(&mut self, key: usize) -> bool {
        let taken = self.snapshots.walk.as_mut().filter(|_| self.snapshots.taker == Some(key));
        taken.is_some_and(Snapshotting::was_too_large)
    }

    /// The job has ended. If it took a snapshot, all others go on; if it could not, what is there goes.
    pub(super) fn thaw(&mut self, key: usize) {
        if self.snapshots.taker != Some(key) {
            return;
        }
        self.snapshots.taker = None;
        if self.snapshots.walk.take().is_some_and(|walk| !walk.is_done()) {
            self.begin_clearing();
        }
    }

    /// Those that waited are asked again, in their order.
    pub(super) fn take_up_held(&mut self, pool: &mut impl Pool) {
        while self.snapshots.taker.is_none() {
            let Some(Held { head, body, now_ns }) = self.snapshots.held.pop_front() else { return };
            self.snapshots.held_bytes -= head.len() + body.len();
            self.message_parts(&head, &body, now_ns, pool);
        }
    }

    // ---- what was deleted ----

    /// Gives back what deleted snapshots hold, also those that were not finished before a crash.
    pub fn clear_deleted(&mut self, pool: &mut impl Pool) {
        self.begin_clearing();
        self.run(pool);
    }

    /// A volume that is about to be closed does not wait for that.
    pub fn leave_off(&mut self) {
        self.snapshots.leaves_off = true;
    }

    pub(super) fn begin_clearing(&mut self) {
        if std::mem::replace(&mut self.snapshots.is_clearing, true) {
            return;
        }
        let by = Caller { uid: 0, gid: 0, now_ns: 0 };
        let steps = [Step::Change(Plan::ClearDeleted)].into();
        let mut job = Job::new(NOBODY, (by, self.tree.root()), None, steps);
        job.changes = false;
        let key = self.jobs.insert(job);
        self.ready.push_back(key);
    }

    pub(super) fn plan_clearing(&mut self, on: &impl Pool) -> Result<Vec<Change>, NameError> {
        if self.snapshots.leaves_off {
            return Ok(Vec::new());
        }
        let taken = self.snapshots.walk.as_ref().map(Snapshotting::top);
        self.tree.clear_deleted(on, CLEARED_AT_ONCE, taken)
    }

    /// Is it that job? Then nobody is told, unless it failed.
    pub(super) fn ends_clearing(&mut self, unique: u64, result: &Result<Vec<u8>, i32>) -> bool {
        if unique != NOBODY {
            return false;
        }
        self.snapshots.is_clearing = false;
        if let Err(errno) = result {
            let why = std::io::Error::from_raw_os_error(*errno);
            tracing::warn!(
                "what deleted snapshots hold is not all given back: {why}; the next mount goes on with it"
            );
        }
        true
    }
}

impl short::Short {
    fn is_write(&self) -> bool {
        matches!(self.what, short::What::Write { .. })
    }
}
