//! Which reads and writes take one step?
//!
//! Whole sectors within a file whose size nobody changes: nearly all that databases, virtual machines and
//! the kernel's own memory ask for. They need no list of steps and no copy of their bytes, only the file's
//! lock beside others of their kind.

use super::call::{Header, WriteHead};
use super::locks::Use;
use super::reply;
use super::session::{Pool, Session, Work};
use super::steps::Job;
use tandem_block::{ObjectId, SECTOR_BYTES};
use tandem_names::{Caller, Kind, NameError, Objects, cover};

/// Tags of such requests; those of jobs are below.
const SHORT: usize = 1 << 31;

/// A request that takes one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    unique: u64,
    object: ObjectId,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// So many bytes after `skip` are the answer.
    Read {
        skip: usize,
        length: usize,
    },
    Write {
        by: Caller,
        head: WriteHead,
        count: u32,
    },
}

/// The answer of a read, which lies in what was read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which request it answers.
    pub unique: u64,
    /// Bytes before it.
    pub skip: usize,
    /// Its bytes.
    pub length: usize,
}

/// The request behind a tag, unless it is a job's.
pub(super) fn key_of(tag: usize) -> Option<usize> {
    (tag & SHORT != 0).then_some(tag & !SHORT)
}

impl Session {
    /// Begins a write if it is of this kind.
    pub(super) fn write_within(
        &mut self,
        header: &Header,
        head: WriteHead,
        bytes: &[u8],
        now_ns: i64,
        pool: &mut impl Pool,
    ) -> bool {
        let object = self.object(header.node);
        let Some(end) = head.offset.checked_add(bytes.len() as u64) else { return false };
        let is_whole = (head.offset | end).is_multiple_of(SECTOR_BYTES) && !bytes.is_empty();
        if !is_whole || !self.locks.is_calm(object) || end > self.size_of(object, pool) {
            return false;
        }
        let by = Caller { uid: header.uid, gid: header.gid, now_ns };
        let what = What::Write { by, head, count: bytes.len() as u32 };
        let tag = self.begin_short(Short { unique: header.unique, object, what });
        pool.write(tag, object, head.offset, bytes);
        true
    }

    /// Begins a read if nobody changes the size of its file, and there is something to read.
    pub(super) fn read_calm(
        &mut self,
        header: &Header,
        (offset, size): (u64, u32),
        pool: &mut impl Pool,
    ) -> bool {
        let object = self.object(header.node);
        if !self.locks.is_calm(object) {
            return false;
        }
        let length = u64::from(size).min(super::super::mount::TRANSFER_BYTES_MAX as u64);
        let Ok(range) = self.tree.range(pool, object, offset, length) else { return false };
        if range.length_bytes == 0 {
            return false;
        }
        let whole = cover(range.offset_bytes, range.length_bytes);
        let skip = (range.offset_bytes - whole.offset_bytes) as usize;
        let what = What::Read { skip, length: range.length_bytes as usize };
        let tag = self.begin_short(Short { unique: header.unique, object, what });
        let (offset_bytes, length_bytes) = (whole.offset_bytes, whole.length_bytes);
        pool.ask(tag, Work::Read { object, offset_bytes, length_bytes });
        true
    }

    /// Bytes of a file; nothing fits what is none.
    fn size_of(&self, file: ObjectId, on: &impl Objects) -> u64 {
        let inode = self.tree.own_inode(on, file).ok().filter(|inode| inode.kind() == Kind::File);
        inode.map_or(0, |inode| inode.size_bytes)
    }

    fn begin_short(&mut self, it: Short) -> usize {
        let key = self.short.insert(it);
        assert!(self.locks.take(it.object, key | SHORT, Use::Shared), "the file is calm");
        key | SHORT
    }

    /// What is the whole answer of a read that was done? Its bytes can be sent from where they are, and
    /// [`Session::read_sent`] be told. `None` if something else was done.
    pub fn read_answer(&self, tag: usize) -> Option<Sent> {
        let Short { unique, what, .. } = self.short[key_of(tag)?];
        match what {
            What::Read { skip, length } => Some(Sent { unique, skip, length }),
            What::Write { .. } => None,
        }
    }

    /// The answer of a read was sent; its tag is over.
    ///
    /// # Panics
    /// If it is none.
    pub fn read_sent(&mut self, tag: usize, pool: &mut impl Pool) {
        assert!(self.read_answer(tag).is_some(), "only reads are answered so");
        self.end_short(tag & !SHORT, pool);
    }

    pub(super) fn short_answered(
        &mut self,
        key: usize,
        result: Result<Vec<u8>, i32>,
        pool: &mut impl Pool,
    ) {
        let Short { unique, object, what } = self.short[key];
        let said = match (result, what) {
            (Err(errno), _) => Err(errno),
            (Ok(mut bytes), What::Read { skip, length }) => {
                bytes.truncate(skip + length);
                bytes.drain(..skip);
                Ok(bytes)
            }
            (Ok(_), What::Write { by, head, count }) => {
                match self.is_noted(object, by, (head, count), pool) {
                    Ok(true) => Ok(reply::count_out(count)),
                    Ok(false) => {
                        // the file keeps its lock for the rest of the way
                        self.short.remove(key);
                        let steps = self.after_bytes(&head, u64::from(count)).collect();
                        let job = Job::new(unique, (by, object), Some(Use::Shared), steps);
                        let job = self.jobs.insert(job);
                        self.ready.push_back(job);
                        self.run(pool);
                        return;
                    }
                    Err(error) => Err(error.errno()),
                }
            }
        };
        self.reply(unique, said);
        self.end_short(key, pool);
    }

    /// Is there nothing to be done after a write's bytes?
    fn is_noted(
        &self,
        file: ObjectId,
        by: Caller,
        (head, count): (WriteHead, u32),
        on: &impl Pool,
    ) -> Result<bool, NameError> {
        let end = head.offset + u64::from(count);
        let strip = self.strip(head.strips);
        Ok(!head.is_durable() && self.tree.written(on, file, end, strip, by.now_ns)?.is_empty())
    }

    fn end_short(&mut self, key: usize, pool: &mut impl Pool) {
        let it = self.short.remove(key);
        self.ready.extend(self.locks.give_back(it.object));
        self.run(pool);
    }
}
