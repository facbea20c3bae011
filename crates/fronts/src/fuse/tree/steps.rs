//! In which steps does a job go on, and who waits for whom?

use super::super::wire::errno;
use super::call::{Call, Name, attributes};
use super::locks::Use;
use super::reply;
use super::session::{Pool, Session, Work};
use super::short;
use std::collections::VecDeque;
use tandem_block::{ObjectId, SECTOR_BYTES};
use tandem_names::{
    Caller, Change, Inode, NameError, New, SetAttributes, SetMode, Shared, Strip, TIER_ATTRIBUTE,
    cover, mode,
};

/// More than fits one batch: files that are shared may lie in many pieces.
const E2BIG: i32 = 7;
/// `O_EXCL`.
const O_EXCL: u32 = 0o200;
/// `XATTR_CREATE` and `XATTR_REPLACE`.
const XATTR_FLAGS: [u32; 2] = [1, 2];

/// More is zeroed piece by piece, so that none holds the pool for long.
const DISCARD_BYTES_MAX: u64 = 1 << 30;

/// Something to be done before the next.
#[derive(Debug)]
pub(super) enum Step {
    /// New changes wait from now on, and this job for those under way.
    Freeze,
    /// The file may grow to here: what is behind its end becomes zeroes first.
    Clean { end: u64 },
    /// Something changes.
    Change(Plan),
    /// Bytes of the file are the answer.
    Read { offset: u64, length: u64 },
    /// Bytes are put anywhere.
    Patch { offset: u64, bytes: Vec<u8> },
    /// A sector is read of which a part stays.
    Edge { at: u64 },
    /// Bytes are put between the edges that were read.
    Put { offset: u64, bytes: Vec<u8> },
    /// Bytes of the file become zeroes.
    Zero { offset: u64, end: u64 },
    /// Whole sectors do.
    Discard { offset: u64, length: u64 },
    /// Everything so far becomes durable.
    Flush,
}

/// What changes, found out when it is its turn.
#[derive(Debug)]
pub(super) enum Plan {
    /// What a call says.
    Call(Call),
    /// Room for bytes up to here.
    MakeRoom { end: u64 },
    /// Bytes up to here were written.
    Written { end: u64, count: u32, strip: Strip },
    /// The file is as long as this.
    Grow { end: u64 },
    /// Bytes are another file's, too.
    Share(Shared),
    /// Bytes within the file have changed.
    Touch { strip: Strip },
    /// What was behind the end is zeroes.
    TailIsZero,
    /// What is behind the end is unknown.
    TailIsUnknown,
    /// A snapshot of this name is taken.
    TakeSnapshot(Name),
    /// It goes on.
    GoOnTaking,
    /// The snapshot of this name goes.
    DeleteSnapshot(Name),
    /// What deleted snapshots hold is given back.
    ClearDeleted,
}

/// What is said when a change was applied.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    /// The object as an entry.
    Entry(ObjectId),
    /// The same, and it is open; past the kernel's memory?
    Opened(ObjectId, bool),
    /// The attributes of the job's own.
    Attributes,
    /// How many bytes were written.
    Count(u32),
    /// The snapshot has come so far.
    Taken,
    /// It was deleted.
    Deleted,
    /// Something of it is given back.
    Cleared,
}

/// What a job waits for.
#[derive(Debug)]
enum Waits {
    Change(Then),
    Read {
        skip: usize,
        length: usize,
    },
    Edge {
        at: u64,
    },
    /// Something that has no bytes to tell.
    End,
    /// Nothing: it is ready, or in a queue.
    Nothing,
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Job {
    unique: u64,
    by: Caller,
    object: ObjectId,
    /// How it uses the file.
    lock: Option<Use>,
    steps: VecDeque<Step>,
    waits: Waits,
    edges: Vec<(u64, Vec<u8>)>,
    /// Bytes may have been written behind the end.
    reaches_beyond: bool,
    /// A snapshot waits for its end.
    pub changes: bool,
    result: Result<Vec<u8>, i32>,
    /// Bytes of a write that it brought with it.
    pub brought_bytes: usize,
    /// It has let others between two of its steps, so the next one is its own.
    has_given_way: bool,
}

impl Step {
    /// Bytes of a write that it keeps.
    fn brought_bytes(&self) -> usize {
        if let Step::Patch { bytes, .. } = self { bytes.len() } else { 0 }
    }
}

impl Job {
    pub fn new(
        unique: u64,
        (by, object): (Caller, ObjectId),
        lock: Option<Use>,
        steps: VecDeque<Step>,
    ) -> Job {
        let brought_bytes = steps.iter().map(Step::brought_bytes).sum();
        Job {
            unique,
            by,
            object,
            lock,
            steps,
            waits: Waits::Nothing,
            edges: Vec::new(),
            reaches_beyond: false,
            changes: true,
            result: Ok(Vec::new()),
            brought_bytes,
            has_given_way: false,
        }
    }
}

impl Session {
    /// What was asked for is done; a read's answer has its bytes.
    ///
    /// # Panics
    /// If nothing was asked with this tag.
    pub fn answered(&mut self, tag: usize, result: Result<Vec<u8>, i32>, pool: &mut impl Pool) {
        if let Some(key) = short::key_of(tag) {
            self.short_answered(key, result, pool);
            return;
        }
        let waits = std::mem::replace(&mut self.jobs[tag].waits, Waits::Nothing);
        if matches!(waits, Waits::Change(_)) {
            assert_eq!(self.changing.take(), Some(tag), "one changes at a time");
        }
        match result {
            Err(E2BIG) if self.snapshot_is_too_large(tag) => self.go_on_taking(tag),
            // in too many pieces: the kernel copies it
            Err(E2BIG) => self.fail(tag, errno::EOPNOTSUPP),
            Err(errno) => self.fail(tag, errno),
            Ok(bytes) => match waits {
                Waits::Change(then) => self.applied(tag, then, pool),
                Waits::Read { skip, length } => {
                    let mut bytes = bytes;
                    bytes.truncate(skip + length);
                    bytes.drain(..skip);
                    self.jobs[tag].result = Ok(bytes);
                }
                Waits::Edge { at } => self.jobs[tag].edges.push((at, bytes)),
                Waits::End => {}
                Waits::Nothing => unreachable!("nothing was asked with this tag"),
            },
        }
        self.ready.push_back(tag);
        self.run(pool);
    }

    /// So many bytes are wanted of what was read for a tag.
    pub fn expects_bytes(&self, tag: usize) -> usize {
        if let Some(sent) = self.read_answer(tag) {
            return sent.skip + sent.length;
        }
        match self.jobs[tag].waits {
            Waits::Read { skip, length } => skip + length,
            Waits::Edge { .. } => SECTOR_BYTES as usize,
            Waits::Change(_) | Waits::End | Waits::Nothing => 0,
        }
    }

    /// Lets everybody go on who can.
    pub(super) fn run(&mut self, pool: &mut impl Pool) {
        while let Some(key) = self.next().or_else(|| self.wake_taker()) {
            while let Some(step) = self.jobs[key].steps.pop_front() {
                match self.take(key, step, pool) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => self.fail(key, error.errno()),
                }
            }
            let job = &self.jobs[key];
            if job.steps.is_empty() && matches!(job.waits, Waits::Nothing) {
                self.finish(key);
            }
        }
        self.take_up_held(pool);
    }

    /// Who is ready; or who wants to change something, if nobody does.
    fn next(&mut self) -> Option<usize> {
        let idle = self.changing.is_none();
        let next = self.ready.pop_front();
        next.or_else(|| if idle { self.queue.pop_front() } else { None })
    }

    fn finish(&mut self, key: usize) {
        let job = self.jobs.remove(key);
        self.brought_bytes -= job.brought_bytes;
        self.thaw(key);
        if !self.ends_clearing(job.unique, &job.result) {
            self.reply(job.unique, job.result);
        }
        if job.lock.is_some() {
            self.ready.extend(self.locks.give_back(job.object));
        }
    }

    /// The next step of a snapshot, or a smaller one.
    fn go_on_taking(&mut self, key: usize) {
        self.jobs[key].steps.push_front(Step::Change(Plan::GoOnTaking));
    }

    /// The rest is not done; but that nobody knows what lies behind the end is noted.
    fn fail(&mut self, key: usize, errno: i32) {
        let job = &mut self.jobs[key];
        job.steps.clear();
        job.result = job.result.clone().and(Err(errno));
        if std::mem::take(&mut job.reaches_beyond) {
            job.steps.push_back(Step::Change(Plan::TailIsUnknown));
        }
    }

    fn ask(&mut self, key: usize, waits: Waits, work: Work, pool: &mut impl Pool) {
        self.jobs[key].waits = waits;
        pool.ask(key, work);
    }

    /// Takes a step; true if the next one can follow at once.
    fn take(&mut self, key: usize, step: Step, pool: &mut impl Pool) -> Result<bool, NameError> {
        let object = self.jobs[key].object;
        match step {
            Step::Change(plan) => return self.change(key, plan, pool),
            Step::Freeze => return Ok(self.freeze(key)),
            Step::Clean { end } => {
                if let Some(tail) = self.tree.stale_tail(pool, object, end)? {
                    let steps = &mut self.jobs[key].steps;
                    steps.push_front(Step::Change(Plan::TailIsZero));
                    let length = (tail.to_bytes - tail.from_bytes) as usize;
                    if length > 0 {
                        steps.push_front(Step::Flush);
                        let bytes = vec![0; length];
                        steps.push_front(Step::Patch { offset: tail.from_bytes, bytes });
                    }
                }
                return Ok(true);
            }
            Step::Patch { offset, bytes } => {
                let whole = cover(offset, bytes.len() as u64);
                let steps = &mut self.jobs[key].steps;
                steps.push_front(Step::Put { offset, bytes });
                let parts = whole.parts.into_iter().flatten();
                parts.for_each(|at| steps.push_front(Step::Edge { at }));
                return Ok(true);
            }
            Step::Zero { offset, end } => {
                let range = self.tree.range(pool, object, offset, end - offset)?;
                self.zero(key, range.offset_bytes, range.offset_bytes + range.length_bytes);
                return Ok(true);
            }
            Step::Read { offset, length } => {
                let range = self.tree.range(pool, object, offset, length)?;
                if range.length_bytes == 0 {
                    return Ok(true);
                }
                let whole = cover(range.offset_bytes, range.length_bytes);
                let skip = (range.offset_bytes - whole.offset_bytes) as usize;
                let waits = Waits::Read { skip, length: range.length_bytes as usize };
                let (offset_bytes, length_bytes) = (whole.offset_bytes, whole.length_bytes);
                self.ask(key, waits, Work::Read { object, offset_bytes, length_bytes }, pool);
            }
            Step::Edge { at } => {
                let work = Work::Read { object, offset_bytes: at, length_bytes: SECTOR_BYTES };
                self.ask(key, Waits::Edge { at }, work, pool);
            }
            Step::Put { offset, bytes } => self.put(key, offset, bytes, pool),
            Step::Discard { offset, length } => {
                let (offset_bytes, length_bytes) = (offset, length.min(DISCARD_BYTES_MAX));
                if length_bytes < length {
                    let rest = (offset + length_bytes, length - length_bytes);
                    let rest = Step::Discard { offset: rest.0, length: rest.1 };
                    self.jobs[key].steps.push_front(rest);
                }
                let work = Work::Discard { object, offset_bytes, length_bytes };
                self.ask(key, Waits::End, work, pool);
            }
            Step::Flush => self.ask(key, Waits::End, Work::Flush, pool),
        }
        Ok(false)
    }

    /// Writes bytes with the rest of the sectors at their edges.
    fn put(&mut self, key: usize, offset: u64, bytes: Vec<u8>, pool: &mut impl Pool) {
        let whole = cover(offset, bytes.len() as u64);
        let job = &mut self.jobs[key];
        let edges = std::mem::take(&mut job.edges);
        let sectors = if edges.is_empty() {
            bytes
        } else {
            let mut sectors = vec![0; whole.length_bytes as usize];
            for (at, edge) in edges {
                let at = (at - whole.offset_bytes) as usize;
                sectors[at..at + edge.len()].copy_from_slice(&edge);
            }
            let skip = (offset - whole.offset_bytes) as usize;
            sectors[skip..skip + bytes.len()].copy_from_slice(&bytes);
            sectors
        };
        let (object, offset_bytes) = (job.object, whole.offset_bytes);
        let work = Work::Write { object, offset_bytes, bytes: sectors };
        self.ask(key, Waits::End, work, pool);
    }

    /// Zeroes for any bytes: parts of sectors are written, whole ones discarded.
    fn zero(&mut self, key: usize, from: u64, to: u64) {
        let steps = &mut self.jobs[key].steps;
        let first = from.next_multiple_of(SECTOR_BYTES).min(to);
        let last = (to / SECTOR_BYTES * SECTOR_BYTES).max(first);
        let patch =
            |from: u64, to: u64| Step::Patch { offset: from, bytes: vec![0; (to - from) as usize] };
        if last < to {
            steps.push_front(patch(last, to));
        }
        if first < last {
            steps.push_front(Step::Discard { offset: first, length: last - first });
        }
        if from < first {
            steps.push_front(patch(from, first));
        }
    }

    /// Finds out what changes, when it is the job's turn.
    fn change(&mut self, key: usize, plan: Plan, pool: &mut impl Pool) -> Result<bool, NameError> {
        // who takes many steps lets others between them, as files that are closed while a snapshot is taken;
        // once, or two of them would let each other go first for ever
        let is_long = matches!(plan, Plan::ClearDeleted | Plan::GoOnTaking);
        let has_given_way = std::mem::take(&mut self.jobs[key].has_given_way);
        let gives_way = is_long && !has_given_way && !self.queue.is_empty();
        if self.changing.is_some() || gives_way {
            self.jobs[key].has_given_way = gives_way || has_given_way;
            self.jobs[key].steps.push_front(Step::Change(plan));
            self.queue.push_back(key);
            return Ok(false);
        }
        let (changes, then) = self.plan(key, &plan, pool)?;
        let job = &mut self.jobs[key];
        match plan {
            Plan::MakeRoom { .. } => job.reaches_beyond = true,
            Plan::Written { .. } => job.reaches_beyond = !changes.is_empty(),
            _ => {}
        }
        if changes.is_empty() {
            self.applied(key, then, pool);
            return Ok(true);
        }
        self.changing = Some(key);
        self.ask(key, Waits::Change(then), Work::Commit(changes), pool);
        Ok(false)
    }

    fn plan(
        &mut self,
        key: usize,
        plan: &Plan,
        on: &impl Pool,
    ) -> Result<(Vec<Change>, Then), NameError> {
        let Job { object, by, .. } = self.jobs[key];
        let (tree, now_ns) = (&mut self.tree, by.now_ns);
        let nothing = |changes| (changes, Then::Nothing);
        match plan {
            Plan::Call(call) => self.plan_call(object, call, &by, on),
            Plan::MakeRoom { end } => tree.make_room(on, object, *end).map(nothing),
            Plan::Written { end, count, strip } => {
                let changes = self.written(object, *end, *strip, now_ns, on)?;
                Ok((changes, Then::Count(*count)))
            }
            Plan::Grow { end } => {
                let size_bytes = tree.inode(on, object)?.size_bytes.max(*end);
                let set = SetAttributes { size_bytes: Some(size_bytes), ..Default::default() };
                tree.set_attributes(on, object, &set, now_ns).map(nothing)
            }
            Plan::Touch { strip } => self.written(object, 0, *strip, now_ns, on).map(nothing),
            Plan::Share(shared) => {
                let strip = self.strip(by.uid != 0);
                let (changes, count) = self.tree.share(on, shared, strip, now_ns)?;
                Ok((changes, Then::Count(count as u32)))
            }
            Plan::TailIsZero => tree.tail_is_zero(on, object).map(nothing),
            Plan::TailIsUnknown => tree.tail_is_unknown(on, object).map(nothing),
            Plan::TakeSnapshot(name) => Ok((self.plan_snapshot(name, now_ns, on)?, Then::Taken)),
            Plan::GoOnTaking => Ok((self.plan_snapshot(&[], now_ns, on)?, Then::Taken)),
            Plan::DeleteSnapshot(name) => {
                Ok((tree.delete_snapshot(on, name, now_ns)?, Then::Deleted))
            }
            Plan::ClearDeleted => {
                let changes = self.plan_clearing(on)?;
                let then = if changes.is_empty() { Then::Nothing } else { Then::Cleared };
                Ok((changes, then))
            }
        }
    }

    /// Bytes were written. What that takes from the file the kernel does not find out by itself.
    fn written(
        &mut self,
        file: ObjectId,
        end: u64,
        strip: Strip,
        now_ns: i64,
        on: &impl Pool,
    ) -> Result<Vec<Change>, NameError> {
        let changes = self.tree.written(on, file, end, strip, now_ns)?;
        if strip == Strip::All && !changes.is_empty() {
            let bits = self.tree.inode(on, file)?.mode & (mode::SET_USER | mode::SET_GROUP);
            self.stale.extend((bits != 0).then(|| self.node(file)));
        }
        Ok(changes)
    }

    fn plan_call(
        &mut self,
        object: ObjectId,
        call: &Call,
        by: &Caller,
        on: &impl Pool,
    ) -> Result<(Vec<Change>, Then), NameError> {
        let now_ns = by.now_ns;
        let elsewhere = match call {
            Call::Rename { directory: node, .. } | Call::Link { node, .. } => self.object(*node),
            _ => object,
        };
        let direct = matches!(call, Call::Create { flags, .. } if self.goes_past(*flags));
        let strip = match call {
            Call::SetAttr(it) => self.strip_of(it),
            _ => Strip::Nothing,
        };
        let tree = &mut self.tree;
        let nothing = |changes| (changes, Then::Nothing);
        let new = match call {
            Call::Make { name, mode, device } => {
                Some((name, New::Node { mode: *mode, device: *device }))
            }
            Call::MakeDir { name, mode } => Some((name, New::Directory { mode: *mode })),
            Call::Symlink { name, target } => Some((name, New::Symlink { target })),
            _ => None,
        };
        if let Some((name, what)) = new {
            let made = tree.make(on, object, name, what, by)?;
            return Ok((made.changes, Then::Entry(made.stat.object)));
        }
        match call {
            Call::Create { name, flags, mode } => {
                let how = (*mode, flags & O_EXCL != 0);
                let made = tree.create(on, object, name, how, by)?;
                Ok((made.changes, Then::Opened(made.stat.object, direct)))
            }
            Call::Link { name, .. } => {
                let made = tree.link(on, elsewhere, (object, name), now_ns)?;
                Ok((made.changes, Then::Entry(made.stat.object)))
            }
            Call::SetAttr(set) => {
                let set = SetAttributes { strip, ..attributes(set, now_ns) };
                let changes = tree.set_attributes(on, object, &set, now_ns)?;
                Ok((changes, Then::Attributes))
            }
            Call::Unlink(name) => tree.unlink(on, object, name, now_ns).map(nothing),
            Call::RmDir(name) => tree.rmdir(on, object, name, now_ns).map(nothing),
            Call::Rename { name, to, flags, .. } => {
                let (from, to) = ((object, &name[..]), (elsewhere, &to[..]));
                tree.rename(on, from, to, *flags, now_ns).map(nothing)
            }
            Call::SetXattr { name, value, flags } => {
                let mode = match XATTR_FLAGS.map(|flag| flags & flag != 0) {
                    [false, false] => SetMode::Any,
                    [true, false] => SetMode::Create,
                    [false, true] => SetMode::Replace,
                    [true, true] => return Err(NameError::Invalid),
                };
                if name == TIER_ATTRIBUTE {
                    tree.let_tiers(&on.file_tiers());
                }
                let changes = tree.set_xattr(on, object, (name, value), mode, now_ns);
                if name == TIER_ATTRIBUTE && changes.is_err() {
                    self.tell_of_tiers(value);
                }
                changes.map(nothing)
            }
            Call::RemoveXattr(name) => tree.remove_xattr(on, object, name, now_ns).map(nothing),
            Call::Release => tree.release(on, object).map(nothing),
            _ => unreachable!("the other calls have steps of their own or change nothing"),
        }
    }

    /// Why a file does not get the tier that somebody wants, once: the errno does not say it.
    fn tell_of_tiers(&mut self, wanted: &[u8]) {
        if std::mem::replace(&mut self.told_of_tiers, true) {
            return;
        }
        let wanted = String::from_utf8_lossy(wanted);
        match self.tree.tiers() {
            [] => tracing::warn!(
                "user.tandem.tier was set to {wanted:?}, which is refused: this volume's \
                 files have no tiers; give the volume a `tier` that has a share of the SSDs, or name \
                 some in its `file_tiers`"
            ),
            known => tracing::warn!(
                "user.tandem.tier was set to {wanted:?}, which is refused; it may be {}",
                known.join(", ")
            ),
        }
    }

    /// A change can be seen: what does the caller hear?
    fn applied(&mut self, key: usize, then: Then, on: &impl Pool) {
        let of = |session: &Session, object, say: fn(u64, &Inode) -> Vec<u8>| {
            let inode = session.tree.inode(on, object).map_err(NameError::errno)?;
            Ok(say(session.node(object), &inode))
        };
        let result = match then {
            Then::Nothing => return,
            Then::Entry(object) => of(self, object, reply::entry_out),
            Then::Attributes => of(self, self.jobs[key].object, reply::attr_out),
            Then::Count(count) => Ok(reply::count_out(count)),
            Then::Taken => match self.snapshot_grew() {
                Some(top) => of(self, top, reply::entry_out),
                None => return self.go_on_taking(key),
            },
            Then::Deleted => return self.begin_clearing(),
            Then::Cleared => {
                self.jobs[key].steps.push_front(Step::Change(Plan::ClearDeleted));
                return;
            }
            Then::Opened(object, direct) => self
                .tree
                .open(on, object)
                .map(|inode| {
                    [reply::entry_out(self.node(object), &inode), reply::open_out(direct)].concat()
                })
                .map_err(NameError::errno),
        };
        let job = &mut self.jobs[key];
        job.reaches_beyond = false;
        job.result = result;
    }
}
