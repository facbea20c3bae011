//! How does one request of the kernel become requests to the engine, and one reply?

mod jobs;

use super::files::{Files, VolumeFile};
use super::inbox::Inbox;
use super::mount::{FuseError, Mount, TRANSFER_BYTES_MAX};
use super::plan::{self, Claims, Patch, Place, Step};
use super::wire::{self, Ask, Header, ROOT, Range, allocate, errno, set};
use fuser::FopenFlags;
use jobs::{Doing, Job};
use rustix::fs::OFlags;
use slab::Slab;
use std::collections::VecDeque;
use std::path::Path;
use tandem_block::{ObjectId, Op, PayloadId, StreamId};
use tandem_live::Done;
use tandem_live::Extent;
use tandem_live::front::{Front, FrontContext};
use tandem_live::uring::Finished;

/// Messages understood in one turn; others may want something too.
const MESSAGES_PER_TURN: usize = 64;
/// Jobs that wait for a claimed place, and searches for holes; with so many of either no more messages
/// are taken.
const WAITING_MAX: usize = 64;
/// Writes of this size and more become payloads without a copy; smaller ones would waste more than
/// half of their memory.
const ADOPT_BYTES_MIN: usize = TRANSFER_BYTES_MAX / 2 + 1;

/// A search for data or a hole, that goes on a bit in every turn.
#[derive(Debug)]
struct Seek {
    unique: u64,
    object: ObjectId,
    at: u64,
    end: u64,
    data: bool,
}

/// Serves volumes as files of one mount.
pub struct FuseServer {
    inbox: Inbox,
    files: Files,
    jobs: Slab<Job>,
    claims: Claims,
    held: VecDeque<usize>,
    seeks: VecDeque<Seek>,
    out: Vec<u8>,
    extents: Vec<Extent>,
    stream: StreamId,
    /// Bytes of writes that jobs have brought with them.
    brought_bytes: u64,
    serving: bool,
    stopping: bool,
    /// The ring tells when there is a message.
    watched: bool,
    told_of_truncation: bool,
    told_of_end: bool,
    /// Last, so that its descriptor is closed after ours.
    mount: Mount,
}

impl FuseServer {
    /// Mounts `volumes` as files of the directory `point`, for the user who runs this process.
    /// Requests wait until the event loop serves. Dropping it unmounts.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn mount(
        point: &Path,
        volumes: Vec<VolumeFile>,
        stream: StreamId,
    ) -> Result<FuseServer, FuseError> {
        let files = Files::new(volumes)?;
        let (mount, fd) = Mount::new(point, super::mount::NAME)?;
        Ok(FuseServer {
            inbox: Inbox::new(fd),
            files,
            jobs: Slab::new(),
            claims: Claims::default(),
            held: VecDeque::new(),
            seeks: VecDeque::new(),
            out: Vec::new(),
            extents: Vec::new(),
            stream,
            brought_bytes: 0,
            serving: false,
            stopping: false,
            watched: false,
            told_of_truncation: false,
            told_of_end: false,
            mount,
        })
    }

    /// Takes messages until there are none, or no room for what they ask.
    fn serve(&mut self, context: &mut FrontContext<'_>) {
        if !self.serving {
            return;
        }
        for _ in 0..MESSAGES_PER_TURN {
            if self.is_full() || !self.inbox.fetch_in_turn() {
                break;
            }
            if !self.understand(context) {
                break;
            }
            self.inbox.done();
        }
        if self.inbox.is_gone() && !self.told_of_end && !self.stopping {
            self.told_of_end = true;
            self.mount.was_unmounted();
            tracing::warn!(
                "{} was unmounted by somebody else; its files are served no more",
                self.mount.point().display()
            );
        }
    }

    fn is_full(&self) -> bool {
        self.held.len() >= WAITING_MAX || self.seeks.len() >= WAITING_MAX
    }

    /// Acts on the waiting message; false if there is no room for it now.
    fn understand(&mut self, context: &mut FrontContext<'_>) -> bool {
        let inbox = &mut self.inbox;
        let (head, body, total) = inbox.message();
        let long;
        let bytes = if wire::is_write(head) || body.is_empty() {
            head
        } else {
            long = [head, body].concat();
            &long[..]
        };
        let Some((header, ask)) = wire::parse(bytes, total) else {
            tracing::error!("a message of {total} bytes on /dev/fuse makes no sense");
            return true;
        };
        match ask {
            Ask::Read(range) => return self.read(header, range, context),
            Ask::Write(range) => return self.write(header, range, context),
            Ask::Sync => return self.sync(header, context),
            Ask::Allocate { offset, length, mode } => {
                return self.allocate(header, (offset, length), mode, context);
            }
            Ask::Seek { offset, whence } => self.seek(header, offset, whence),
            Ask::Lookup { name_bytes } => {
                let name = &bytes[wire::HEADER_BYTES..wire::HEADER_BYTES + name_bytes];
                let node = self.files.lookup(name).filter(|_| header.node == ROOT);
                self.entry(header, node);
            }
            Ask::SetAttr { valid, size_bytes } => self.set(header, valid, size_bytes),
            Ask::Silent => {}
            _ => self.tell(header, ask),
        }
        true
    }

    /// What needs no engine.
    fn tell(&mut self, header: Header, ask: Ask) {
        let out = &mut self.out;
        out.clear();
        let is_root = header.node == ROOT;
        let result = match ask {
            Ask::GetAttr => match self.files.attributes(header.node) {
                Some(attributes) => {
                    wire::put_attr_out(out, &attributes);
                    Ok(())
                }
                None => Err(errno::ENOENT),
            },
            Ask::Open => self.files.volume(header.node).map(|_| {
                let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                wire::put_open_out(out, flags.bits());
            }),
            Ask::OpenDir if is_root => {
                wire::put_open_out(out, 0);
                Ok(())
            }
            Ask::ReadDir { position, size } if is_root => {
                self.files.list(position, (size as usize).min(TRANSFER_BYTES_MAX), out);
                Ok(())
            }
            Ask::OpenDir | Ask::ReadDir { .. } => Err(errno::ENOTDIR),
            Ask::StatFs => {
                let (blocks, files) = self.files.totals();
                wire::put_statfs_out(out, blocks, files);
                Ok(())
            }
            Ask::Fine => Ok(()),
            Ask::Refused(errno) => Err(errno),
            _ => unreachable!("the other asks are dealt with before"),
        };
        self.answer(header.unique, result);
    }

    /// Replies with `out`, or with an errno.
    fn answer(&self, unique: u64, result: Result<(), i32>) {
        let body = if result.is_ok() { &self.out[..] } else { &[] };
        let head = wire::reply_head(unique, result.err().unwrap_or(0), body.len());
        self.inbox.reply(head, body);
    }

    fn refuse(&self, header: Header, errno: i32) -> bool {
        self.answer(header.unique, Err(errno));
        true
    }

    fn entry(&mut self, header: Header, node: Option<u64>) {
        self.out.clear();
        let found = node.and_then(|node| self.files.attributes(node));
        let result = found.ok_or(errno::ENOENT);
        let result = result.map(|attributes| wire::put_entry_out(&mut self.out, &attributes));
        self.answer(header.unique, result);
    }

    /// Times may be set, and are not kept; the size and the owner stay.
    fn set(&mut self, header: Header, valid: u32, size_bytes: u64) {
        let size = self.files.volume(header.node).ok().map(|(_, size)| size);
        let resized = valid & set::SIZE != 0 && size != Some(size_bytes);
        if resized && !self.told_of_truncation {
            self.told_of_truncation = true;
            tracing::warn!(
                "somebody tried to change the size of a volume's file in {}; it is fixed (dd \
                 needs conv=notrunc, a shell `<>` instead of `>`)",
                self.mount.point().display()
            );
        }
        if resized || valid & set::OWNERSHIP != 0 {
            self.refuse(header, errno::EPERM);
            return;
        }
        self.tell(header, Ask::GetAttr);
    }

    /// The volume, unless there is none or it is too late.
    fn volume(&mut self, header: Header) -> Result<(ObjectId, u64), i32> {
        if self.stopping {
            return Err(errno::ESHUTDOWN);
        }
        self.files.volume(header.node)
    }

    fn read(&mut self, header: Header, range: Range, context: &mut FrontContext<'_>) -> bool {
        let (object, size) = match self.volume(header) {
            Ok(volume) => volume,
            Err(errno) => return self.refuse(header, errno),
        };
        let length = u64::from(range.length).min(size.saturating_sub(range.offset));
        if length > TRANSFER_BYTES_MAX as u64 || !fits_disk(range, length) {
            return self.refuse(header, errno::EINVAL);
        }
        if length == 0 {
            self.out.clear();
            self.answer(header.unique, Ok(()));
            return true;
        }
        let (at, whole) = plan::cover(range.offset, length);
        if !context.has_room(whole + self.brought_bytes) {
            return false;
        }
        if !context.has_memory(whole) {
            return self.refuse(header, errno::ENOMEM);
        }
        let doing = Doing::Read { skip: range.offset - at, length };
        let place = Place { object, first: at, end: at + whole };
        self.begin(Job::new(header, place, doing), context);
        true
    }

    fn write(&mut self, header: Header, range: Range, context: &mut FrontContext<'_>) -> bool {
        let (object, size) = match self.volume(header) {
            Ok(volume) => volume,
            Err(errno) => return self.refuse(header, errno),
        };
        let length = u64::from(range.length).min(size.saturating_sub(range.offset));
        if length == 0 {
            // nothing fits; and who writes nothing has no business here
            let errno = if range.length > 0 { errno::ENOSPC } else { errno::EINVAL };
            return self.refuse(header, errno);
        }
        if length > TRANSFER_BYTES_MAX as u64 || !fits_disk(range, length) {
            return self.refuse(header, errno::EINVAL);
        }
        let (at, whole) = plan::cover(range.offset, length);
        if !context.has_room(2 * whole + self.brought_bytes) {
            return false;
        }
        if !context.has_memory(2 * TRANSFER_BYTES_MAX as u64) {
            return self.refuse(header, errno::ENOMEM);
        }
        let place = Place { object, first: at, end: at + whole };
        let aligned = plan::is_aligned(range.offset, length);
        let mut job = if aligned {
            let payload = self.payload(range.offset, length, context);
            Job::new(header, place, Doing::Write { payload })
        } else {
            let (_, body, _) = self.inbox.message();
            let patch = Patch::Bytes(body[..length as usize].to_vec());
            let mut job = Job::new(header, place, Doing::Back);
            job.brought_bytes = length;
            self.brought_bytes += length;
            job.steps.push(Step::Merge { offset: range.offset, patch });
            job
        };
        job.fua = range.flags & OFlags::DSYNC.bits() != 0;
        job.written = u32::try_from(length).ok();
        self.files.touch(header.node);
        self.begin(job, context);
        true
    }

    /// The bytes of the waiting write as a payload.
    fn payload(&mut self, offset: u64, length: u64, context: &mut FrontContext<'_>) -> PayloadId {
        let inbox = &mut self.inbox;
        let length = length as usize;
        let payload = if length >= ADOPT_BYTES_MIN {
            let next = context.payloads.scratch(TRANSFER_BYTES_MAX);
            let body = inbox.take_body(next);
            context.payloads.adopt(body, length, offset)
        } else {
            let payload = context.payloads.begin_anyway(length, offset);
            context.payloads.fill(payload, 0, &inbox.message().1[..length]);
            payload
        };
        context.payloads.seal(payload);
        payload
    }

    fn sync(&mut self, header: Header, context: &mut FrontContext<'_>) -> bool {
        let object = match self.volume(header) {
            Ok((object, _)) => object,
            Err(errno) => return self.refuse(header, errno),
        };
        if !context.has_room(0) {
            return false;
        }
        let place = Place { object, first: 0, end: 0 };
        self.begin(Job::new(header, place, Doing::Flush), context);
        true
    }

    /// Allocation is a promise that every volume has; holes are discarded, ranges zeroed.
    fn allocate(
        &mut self,
        header: Header,
        (offset, length): (u64, u64),
        mode: u32,
        context: &mut FrontContext<'_>,
    ) -> bool {
        use allocate::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
        let (object, size) = match self.volume(header) {
            Ok(volume) => volume,
            Err(errno) => return self.refuse(header, errno),
        };
        let end = offset.saturating_add(length);
        let op = match mode & !KEEP_SIZE {
            0 => None,
            PUNCH_HOLE => Some(Op::Discard),
            ZERO_RANGE => Some(Op::WriteZeroes),
            _ => return self.refuse(header, errno::EOPNOTSUPP),
        };
        let grows = mode & KEEP_SIZE == 0 || op.is_none();
        if end > size && grows {
            return self.refuse(header, errno::ENOSPC);
        }
        let end = end.min(size);
        let Some(op) = op.filter(|_| offset < end) else {
            self.out.clear();
            self.answer(header.unique, Ok(()));
            return true;
        };
        if !context.has_room(0) {
            return false;
        }
        let (first, whole) = plan::cover(offset, end - offset);
        let place = Place { object, first, end: first + whole };
        let mut job = Job::new(header, place, Doing::Back);
        job.steps = plan::zero_steps(op, offset, end - offset);
        self.files.touch(header.node);
        self.begin(job, context);
        true
    }

    fn seek(&mut self, header: Header, offset: u64, whence: u32) {
        let data = match whence {
            wire::SEEK_DATA => true,
            wire::SEEK_HOLE => false,
            _ => {
                self.refuse(header, errno::EINVAL);
                return;
            }
        };
        match self.volume(header) {
            Ok((_, size)) if offset >= size => {
                self.refuse(header, errno::ENXIO);
            }
            Ok((object, end)) => {
                let unique = header.unique;
                self.seeks.push_back(Seek { unique, object, at: offset, end, data });
            }
            Err(errno) => {
                self.refuse(header, errno);
            }
        }
    }

    /// Looks a bit further for whoever waits longest.
    fn seek_on(&mut self, context: &mut FrontContext<'_>) {
        let Some(mut seek) = self.seeks.pop_front() else { return };
        self.extents.clear();
        context.extents(seek.object, (seek.at, seek.end - seek.at), &mut self.extents);
        let mut found = self.extents.is_empty() && seek.data;
        for extent in &self.extents {
            if extent.allocated == seek.data {
                found = true;
                break;
            }
            seek.at += extent.length_bytes;
        }
        if self.extents.is_empty() || seek.at >= seek.end {
            seek.at = seek.at.max(if found { seek.at } else { seek.end });
        }
        if !found && seek.at < seek.end {
            self.seeks.push_back(seek);
            return;
        }
        self.out.clear();
        self.out.extend_from_slice(&seek.at.to_ne_bytes());
        // every file ends in a hole
        let result = if found || !seek.data { Ok(()) } else { Err(errno::ENXIO) };
        self.answer(seek.unique, result);
    }
}

/// Who opens with `O_DIRECT` gets a disk: whole sectors, or an error.
fn fits_disk(range: Range, length: u64) -> bool {
    range.flags & OFlags::DIRECT.bits() == 0
        || plan::is_aligned(range.offset, u64::from(range.length))
        || length == 0
}

impl Front for FuseServer {
    fn begin(&mut self, context: &mut FrontContext<'_>) {
        self.serving = true;
        self.serve(context);
    }

    fn finished(&mut self, _done: Finished, context: &mut FrontContext<'_>) {
        self.watched = false;
        self.serve(context);
    }

    fn completed(&mut self, cookie: u64, done: &Done, context: &mut FrontContext<'_>) {
        self.job_done(cookie as usize, done, context);
    }

    fn turn_ends(&mut self, context: &mut FrontContext<'_>) {
        self.seek_on(context);
        self.serve(context);
    }

    fn room(&mut self, context: &mut FrontContext<'_>) {
        self.serve(context);
    }

    fn stop(&mut self, _context: &mut FrontContext<'_>) {
        self.stopping = true;
    }

    fn is_quiet(&self) -> bool {
        self.jobs.is_empty() && self.seeks.is_empty()
    }

    fn has_news(&mut self) -> bool {
        !self.seeks.is_empty() || (self.serving && !self.is_full() && self.inbox.fetch())
    }

    fn falls_asleep(&mut self, context: &mut FrontContext<'_>) {
        let inbox = &mut self.inbox;
        if self.serving && !self.watched && !inbox.is_gone() {
            self.watched = true;
            let tag = context.tag(0);
            context.ring.readable(tag, inbox.fd());
        }
    }
}
