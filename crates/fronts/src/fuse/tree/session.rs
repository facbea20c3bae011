//! How does one call become changes and moves of bytes, and one reply?

use super::super::mount::TRANSFER_BYTES_MAX;
use super::super::wire::{self, errno};
use super::call::{self, Call, Copy, Header, Set, WriteHead, set};
use super::locks::{Locks, Use};
use super::reply;
use super::short::Short;
use super::snapshot::{Snapshots, leaves_all_as_it_is};
use super::steps::{Job, Plan, Step};
use rustix::fs::OFlags;
use slab::Slab;
use std::collections::VecDeque;
use tandem_block::ObjectId;
use tandem_names::{Caller, Change, NameError, Objects, Shared, Strip, Tree};

/// Bytes of one copy at most.
const COPY_BYTES_MAX: u64 = 1 << 30;
/// `ERANGE`: more than the caller takes.
const ERANGE: i32 = 34;

/// What the kernel has agreed to, besides what every kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Files may be opened past its memory, and yet be mapped: `O_DIRECT` is answered in kind.
    pub direct: bool,
    /// It does not ask before each write whether the file has privileges to lose: we take them.
    pub strips: bool,
}

/// What a session asks of its pool. What was asked for must not be answered before the call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Commit these together; answered when they can be seen.
    Commit(Vec<Change>),
    /// Read whole sectors; the answer has their bytes.
    Read {
        /// Of which object.
        object: ObjectId,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u64,
    },
    /// Write whole sectors.
    Write {
        /// Of which object.
        object: ObjectId,
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Make whole sectors zeroes, and give back their space.
    Discard {
        /// Of which object.
        object: ObjectId,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u64,
    },
    /// Make everything durable that was answered so far.
    Flush,
}

/// The objects, and who changes them.
pub trait Pool: Objects {
    /// Tiers that files may have; none if all have their volume's.
    fn file_tiers(&self) -> Vec<&str>;

    /// Begins something; [`Session::answered`] is told of its end with the same tag.
    fn ask(&mut self, tag: usize, work: Work);

    /// The same for a write of whole sectors, whose bytes are lent for this call.
    fn write(&mut self, tag: usize, object: ObjectId, offset_bytes: u64, bytes: &[u8]) {
        self.ask(tag, Work::Write { object, offset_bytes, bytes: bytes.to_vec() });
    }
}

/// An answer for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which request it answers.
    pub unique: u64,
    /// Its bytes, or an errno.
    pub result: Result<Vec<u8>, i32>,
}

/// One mounted volume as the kernel sees it.
#[derive(Debug)]
pub struct Session {
    pub(super) tree: Tree,
    pub(super) jobs: Slab<Job>,
    pub(super) short: Slab<Short>,
    pub(super) locks: Locks,
    /// The job whose changes are being applied.
    pub(super) changing: Option<usize>,
    /// Jobs that want to change something next.
    pub(super) queue: VecDeque<usize>,
    /// Jobs that can take their next step.
    pub(super) ready: VecDeque<usize>,
    pub(super) replies: Vec<Reply>,
    /// Nodes whose mode has changed without the kernel's asking.
    pub(super) stale: Vec<u64>,
    /// Why a tier was refused has been said.
    pub(super) told_of_tiers: bool,
    pub(super) snapshots: Snapshots,
    /// Bytes of writes that jobs have brought with them.
    pub(super) brought_bytes: usize,
    agreed: Agreed,
}

impl Session {
    /// Serves a volume that was mounted, and whose orphans were reaped.
    pub fn new(tree: Tree, agreed: Agreed) -> Session {
        Session {
            tree,
            jobs: Slab::new(),
            short: Slab::new(),
            locks: Locks::default(),
            changing: None,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            replies: Vec::new(),
            stale: Vec::new(),
            told_of_tiers: false,
            snapshots: Snapshots::default(),
            brought_bytes: 0,
            agreed,
        }
    }

    /// Is nothing under way?
    pub fn is_quiet(&self) -> bool {
        self.under_way() == 0
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.jobs.len() + self.short.len() + self.snapshots.held()
    }

    /// Bytes of writes that wait here, or are written in parts.
    pub fn held_bytes(&self) -> u64 {
        (self.brought_bytes + self.snapshots.held_bytes()) as u64
    }

    /// What is to be said to the kernel now.
    pub fn take_replies(&mut self) -> impl Iterator<Item = Reply> {
        self.replies.drain(..)
    }

    /// Nodes of which the kernel must not believe any longer what it knows; to be said before the replies.
    pub fn take_stale(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.stale)
    }

    /// The volume's names, to unmount them when nothing is under way.
    ///
    /// # Panics
    /// If something is.
    pub fn into_tree(self) -> Tree {
        assert!(self.is_quiet(), "requests are under way");
        self.tree
    }

    /// A message of the kernel; false if it is none.
    pub fn message(&mut self, bytes: &[u8], now_ns: i64, pool: &mut impl Pool) -> bool {
        let head = if wire::is_write(bytes) { wire::WRITE_HEAD_BYTES } else { bytes.len() };
        let (head, body) = bytes.split_at(head.min(bytes.len()));
        self.message_parts(head, body, now_ns, pool)
    }

    /// The same for a message in two parts, as it was read.
    pub fn message_parts(
        &mut self,
        head: &[u8],
        body: &[u8],
        now_ns: i64,
        pool: &mut impl Pool,
    ) -> bool {
        if self.hold_back(head, body, now_ns) {
            return true;
        }
        if let Some((header, Some(write))) = call::parse_write(head, body)
            && self.write_within(&header, write, body, now_ns, pool)
        {
            return true;
        }
        let Some((header, call)) = call::parse_parts(head, body) else { return false };
        if let Call::Read { offset, size } = call
            && self.read_calm(&header, (offset, size), pool)
        {
            return true;
        }
        if let Some(result) = self.tell(&header, &call, pool) {
            self.reply(header.unique, result);
        } else if !matches!(call, Call::Silent) {
            self.begin(&header, call, now_ns, pool);
        }
        true
    }

    pub(super) fn reply(&mut self, unique: u64, result: Result<Vec<u8>, i32>) {
        self.replies.push(Reply { unique, result });
    }

    pub(super) fn object(&self, node: u64) -> ObjectId {
        reply::object_of(self.tree.root(), node)
    }

    pub(super) fn node(&self, object: ObjectId) -> u64 {
        reply::node_of(self.tree.root(), object)
    }

    /// What changes nothing is answered at once.
    fn tell(
        &mut self,
        header: &Header,
        call: &Call,
        on: &impl Objects,
    ) -> Option<Result<Vec<u8>, i32>> {
        let object = self.object(header.node);
        let told = match call {
            Call::Lookup(name) => self
                .tree
                .lookup(on, object, name)
                .map(|stat| reply::entry_out(self.node(stat.object), &stat.inode)),
            Call::GetAttr => {
                self.tree.inode(on, object).map(|inode| reply::attr_out(header.node, &inode))
            }
            Call::ReadLink => self.tree.read_link(on, object).map(<[u8]>::to_vec),
            Call::Open { flags } if is_writing(*flags) && self.tree.is_read_only(on, object) => {
                Err(NameError::ReadOnly)
            }
            Call::Open { flags } => {
                let direct = self.goes_past(*flags);
                self.tree.open(on, object).map(|_| reply::open_out(direct))
            }
            Call::ReadDir { cookie, size } => self.list(on, object, *cookie, *size as usize),
            Call::StatFs => Ok(reply::statfs_out(&self.tree.statfs(on))),
            Call::GetXattr { name, size } => match self.tree.xattr(on, object, name) {
                Ok(value) => return Some(sized(value, *size)),
                Err(error) => Err(error),
            },
            Call::ListXattr { size } => match self.tree.xattr_list(on, object) {
                Ok(list) => return Some(sized(&list, *size)),
                Err(error) => Err(error),
            },
            Call::Fine => Ok(Vec::new()),
            Call::Refused(errno) => return Some(Err(*errno)),
            _ => return None,
        };
        Some(told.map_err(NameError::errno))
    }

    fn list(
        &self,
        on: &impl Objects,
        directory: ObjectId,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<u8>, NameError> {
        let mut out = Vec::new();
        for line in self.tree.list(on, directory, cookie)? {
            let line = line?;
            let limit = limit.min(TRANSFER_BYTES_MAX);
            if !reply::put_dirent(&mut out, limit, self.node(line.object), &line) {
                break;
            }
        }
        Ok(out)
    }

    /// What changes something becomes a job of steps.
    fn begin(&mut self, header: &Header, call: Call, now_ns: i64, pool: &mut impl Pool) {
        let object = self.object(header.node);
        let by = Caller { uid: header.uid, gid: header.gid, now_ns };
        let changes = !leaves_all_as_it_is(&call);
        let (object, steps) = match call {
            call if let Some(steps) = self.snapshot_steps(object, &call, pool) => {
                (object, Ok((None, steps)))
            }
            Call::Copy(copy) => (self.object(copy.to), self.copy_steps(object, &copy, pool)),
            Call::Read { .. } | Call::Sync | Call::Release => {
                (object, self.steps(object, call, &by))
            }
            _ if self.tree.is_read_only(pool, object) => (object, Err(NameError::ReadOnly.errno())),
            call => (object, self.steps(object, call, &by)),
        };
        let steps = match steps {
            Ok(steps) => steps,
            Err(errno) => return self.reply(header.unique, Err(errno)),
        };
        let (lock, steps) = steps;
        let mut job = Job::new(header.unique, (by, object), lock, steps);
        job.changes = changes;
        self.brought_bytes += job.brought_bytes;
        let key = self.jobs.insert(job);
        if lock.is_none_or(|how| self.locks.take(object, key, how)) {
            self.ready.push_back(key);
        }
        self.run(pool);
    }

    fn steps(
        &self,
        file: ObjectId,
        call: Call,
        by: &Caller,
    ) -> Result<(Option<Use>, VecDeque<Step>), i32> {
        let change = |plan| Step::Change(plan);
        Ok(match call {
            Call::Read { offset, size } => {
                let length = u64::from(size).min(TRANSFER_BYTES_MAX as u64);
                (Some(Use::Shared), [Step::Read { offset, length }].into())
            }
            Call::Write { head, bytes } => {
                let (offset, length) = (head.offset, bytes.len() as u64);
                let end = offset.checked_add(length).ok_or(errno::EFBIG)?;
                if length == 0 {
                    return Err(errno::EINVAL);
                }
                let mut steps = VecDeque::from([
                    Step::Clean { end },
                    change(Plan::MakeRoom { end }),
                    Step::Patch { offset, bytes },
                ]);
                steps.extend(self.after_bytes(&head, length));
                (Some(Use::Alone), steps)
            }
            Call::SetAttr(Set { valid, size_bytes, .. }) if valid & set::SIZE != 0 => {
                let clean = Step::Clean { end: size_bytes };
                (Some(Use::Alone), [clean, change(Plan::Call(call))].into())
            }
            Call::Allocate { offset, length, mode } => {
                let end = offset.checked_add(length).ok_or(errno::EFBIG)?;
                // who has `CAP_FSETID` is not told here
                let strip = self.strip(by.uid != 0);
                (Some(Use::Alone), allocate_steps(offset, end, mode, strip)?)
            }
            Call::Sync => (None, [Step::Flush].into()),
            Call::Release if !self.tree.is_held(file) => return Err(errno::EIO),
            call => (None, [change(Plan::Call(call))].into()),
        })
    }

    /// Bytes are shared if they can be; otherwise the kernel copies them.
    fn copy_steps(
        &self,
        from: ObjectId,
        copy: &Copy,
        on: &impl Objects,
    ) -> Result<(Option<Use>, VecDeque<Step>), i32> {
        let shared = Shared {
            from,
            from_bytes: copy.offset,
            to: self.object(copy.to),
            to_bytes: copy.to_offset,
            // the answer is a number of 32 bits
            length_bytes: copy.length.min(COPY_BYTES_MAX),
        };
        let length = self.tree.shareable(on, &shared).map_err(NameError::errno)?;
        let clean = Step::Clean { end: shared.to_bytes + length };
        Ok((Some(Use::Alone), [clean, Step::Change(Plan::Share(shared))].into()))
    }

    /// What follows when the bytes of a write are there.
    pub(super) fn after_bytes(
        &self,
        write: &WriteHead,
        length: u64,
    ) -> impl Iterator<Item = Step> + use<> {
        let end = write.offset + length;
        let strip = self.strip(write.strips);
        let written = Step::Change(Plan::Written { end, count: length as u32, strip });
        [Some(written), write.is_durable().then_some(Step::Flush)].into_iter().flatten()
    }

    /// What a file loses, if we have to see to it.
    pub(super) fn strip(&self, all: bool) -> Strip {
        match (self.agreed.strips, all) {
            (false, _) => Strip::Nothing,
            (true, false) => Strip::Capabilities,
            (true, true) => Strip::All,
        }
    }

    /// What a file loses by other attributes: by an owner all, by a size what the kernel says.
    pub(super) fn strip_of(&self, it: &Set) -> Strip {
        let has_owner = it.valid & (set::UID | set::GID) != 0;
        if has_owner || it.valid & set::SIZE != 0 {
            return self.strip(has_owner || it.valid & set::STRIPS != 0);
        }
        Strip::Nothing
    }

    /// Shall a handle with these flags go past the kernel's memory?
    pub(super) fn goes_past(&self, flags: u32) -> bool {
        self.agreed.direct && flags & OFlags::DIRECT.bits() != 0
    }
}

/// Is a file opened so to be changed?
fn is_writing(flags: u32) -> bool {
    flags & (OFlags::ACCMODE | OFlags::TRUNC).bits() != OFlags::RDONLY.bits()
}

/// A value as the caller takes it: its size, or itself if there is room.
fn sized(value: &[u8], room: u32) -> Result<Vec<u8>, i32> {
    match u32::try_from(value.len()) {
        Ok(length) if room == 0 => Ok(reply::count_out(length)),
        Ok(length) if length <= room => Ok(value.to_vec()),
        _ => Err(ERANGE),
    }
}

/// Holes are punched and ranges zeroed. Space is not reserved: who asks for that writes zeroes.
fn allocate_steps(offset: u64, end: u64, mode: u32, strip: Strip) -> Result<VecDeque<Step>, i32> {
    use super::super::wire::allocate::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
    let mut steps = VecDeque::new();
    let kept = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        PUNCH_HOLE if kept => {}
        ZERO_RANGE => {
            if !kept {
                steps.extend([Step::Clean { end }, Step::Change(Plan::Grow { end })]);
            }
        }
        _ => return Err(errno::EOPNOTSUPP),
    }
    steps.extend([Step::Zero { offset, end }, Step::Change(Plan::Touch { strip })]);
    Ok(steps)
}
