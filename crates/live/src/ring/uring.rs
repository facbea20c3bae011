//! How does the real event loop do I/O? Through one io_uring, driven by one thread.
//!
//! This is the only file beside `buffer` that needs `unsafe`: it hands addresses to the kernel.
//! What an operation points to is owned by its slot until the kernel reports it done, so no caller
//! can free it early; where the ring itself is dropped with operations in flight, they are
//! cancelled and awaited, and what cannot be awaited is leaked.
//!
//! Source: measurements in design and deps: one `enter` per drive command gave a quarter more IOPS
//! on a virtio disk than batches, at a third more CPU, so it is a setting ([`Submission`]).

use crate::buffer::Memory;
use crate::outgoing::Outgoing;
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use slab::Slab;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use tandem_block::Duration;

/// When are drive commands handed to the kernel? Sockets are always batched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submission {
    /// Each at once: more IOPS.
    #[default]
    Eager,
    /// All of one turn together: less CPU.
    Batched,
}

/// Who asked, and what for; comes back with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Which part of the event loop.
    pub owner: u32,
    /// Anything that the owner likes.
    pub value: u64,
}

/// What an operation needs while it is in flight.
#[derive(Debug)]
enum Held {
    Nothing,
    Shared(#[allow(dead_code, reason = "kept alive, not read")] Rc<Memory>),
    Many(#[allow(dead_code, reason = "kept alive, not read")] Box<Gather>),
    Owned(Box<Memory>),
    Batch(Box<Sending>),
}

/// Vectors of one gathering write.
#[derive(Debug)]
struct Gather {
    vectors: Vec<libc::iovec>,
    #[allow(dead_code, reason = "kept alive, not read")]
    memories: Vec<Rc<Memory>>,
}

/// Vectors and header of one send.
#[derive(Debug)]
struct Sending {
    batch: Box<Outgoing>,
    vectors: Vec<libc::iovec>,
    header: libc::msghdr,
}

#[derive(Debug)]
struct Slot {
    tag: Tag,
    held: Held,
    is_drive: bool,
}

/// An operation under way, see [`Ring::cut_short`].
#[derive(Clone, Copy, Debug)]
pub struct Under(usize);

/// One finished operation.
#[derive(Debug)]
pub struct Finished {
    /// Who asked.
    pub tag: Tag,
    /// Bytes or a descriptor, or an errno below zero.
    pub result: i32,
    /// What was moved into the operation.
    pub back: Back,
}

/// What comes back with a finished operation.
#[derive(Debug)]
pub enum Back {
    /// Nothing was moved in.
    Nothing,
    /// The buffer of `Ring::receive`.
    Buffer(Box<Memory>),
    /// The batch of `Ring::send`, advanced by what was sent.
    Batch(Box<Outgoing>),
}

impl Finished {
    /// The result as the standard library would say it.
    ///
    /// # Errors
    /// The errno of the operation.
    pub fn outcome(&self) -> io::Result<usize> {
        usize::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }

    /// The descriptor of a finished accept, which is now ours.
    pub fn accepted(&self) -> io::Result<OwnedFd> {
        self.outcome()?;
        // SAFETY: the kernel made this descriptor for the accept that this value reports, and it
        // is taken once (results are delivered once; a second call would be a bug of the front).
        Ok(unsafe { OwnedFd::from_raw_fd(self.result) })
    }
}

/// The ring.
pub struct Ring {
    ring: IoUring,
    slots: Slab<Slot>,
    drives_in_flight: usize,
    submission: Submission,
    /// The kernel tells how much an operation has moved that was cut short (since 6.0).
    counts_what_is_cut_short: bool,
    #[allow(clippy::vec_box, reason = "a box goes back into the ring as it is")]
    spare: Vec<Box<Sending>>,
}

const SQ_ENTRIES: u32 = 512;
const CQ_ENTRIES: u32 = 4096;
/// `BLOCK_URING_CMD_DISCARD` of linux/blkdev.h (Linux 6.12): `_IO(0x12, 0)`.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;
const RWF_DSYNC: i32 = 0x2;
const FALLOC_PUNCH_HOLE_KEEP_SIZE: i32 = 0x1 | 0x2;

impl Ring {
    /// Sets up a ring for the thread that calls.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or forbids it.
    pub fn new(submission: Submission) -> io::Result<Ring> {
        let modern = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(CQ_ENTRIES)
            .build(SQ_ENTRIES);
        // kernels before 6.1 know no deferred task work
        let counts_what_is_cut_short = modern.is_ok();
        let ring = match modern {
            Ok(ring) => ring,
            Err(_) => IoUring::builder().setup_cqsize(CQ_ENTRIES).build(SQ_ENTRIES)?,
        };
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel's io_uring is too old; Linux 5.15 or newer is needed",
            ));
        }
        let slots = Slab::with_capacity(1024);
        let (drives_in_flight, spare) = (0, Vec::new());
        Ok(Ring { ring, slots, drives_in_flight, submission, counts_what_is_cut_short, spare })
    }

    /// Operations that have not reported yet.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// Those of them that a file or drive has yet to answer.
    pub fn drives_in_flight(&self) -> usize {
        self.drives_in_flight
    }

    fn push(&mut self, entry: &squeue::Entry, key: usize) {
        let entry = entry.clone().user_data(key as u64);
        loop {
            // SAFETY: what the entry points to is owned by slot `key` until its completion.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.submit();
        }
    }

    fn start(&mut self, tag: Tag, held: Held, entry: &squeue::Entry) -> Under {
        let key = self.slots.insert(Slot { tag, held, is_drive: false });
        self.push(entry, key);
        Under(key)
    }

    fn start_drive(&mut self, tag: Tag, held: Held, entry: &squeue::Entry) {
        let key = self.slots.insert(Slot { tag, held, is_drive: true });
        self.drives_in_flight += 1;
        self.push(entry, key);
        if self.submission == Submission::Eager {
            self.submit();
        }
    }

    /// Reads from a file or drive into `memory`.
    pub fn read(
        &mut self,
        tag: Tag,
        fd: BorrowedFd<'_>,
        offset: u64,
        memory: (Rc<Memory>, usize, usize),
    ) {
        let (memory, at, length) = memory;
        let entry = opcode::Read::new(raw(fd), memory.pointer(at, length), size(length));
        self.start_drive(tag, Held::Shared(memory), &entry.offset(offset).build());
    }

    /// Writes to a file or drive from `memory`; with `durable` it is on the medium when it reports.
    pub fn write(
        &mut self,
        tag: Tag,
        fd: BorrowedFd<'_>,
        offset: u64,
        memory: (Rc<Memory>, usize, usize),
        durable: bool,
    ) {
        let (memory, at, length) = memory;
        let entry = opcode::Write::new(raw(fd), memory.pointer(at, length), size(length))
            .offset(offset)
            .rw_flags(if durable { RWF_DSYNC } else { 0 });
        self.start_drive(tag, Held::Shared(memory), &entry.build());
    }

    /// Writes several pieces of memory to adjacent places of a file.
    pub fn write_gather(
        &mut self,
        tag: Tag,
        fd: BorrowedFd<'_>,
        offset: u64,
        pieces: Vec<(Rc<Memory>, usize, usize)>,
    ) {
        let vectors: Vec<libc::iovec> = pieces
            .iter()
            .map(|(memory, at, length)| vector((memory.pointer(*at, *length), *length)))
            .collect();
        let memories = pieces.into_iter().map(|piece| piece.0).collect();
        let gather = Box::new(Gather { vectors, memories });
        let entry =
            opcode::Writev::new(raw(fd), gather.vectors.as_ptr(), size(gather.vectors.len()));
        self.start_drive(tag, Held::Many(gather), &entry.offset(offset).build());
    }

    /// Makes everything written before durable (`fdatasync`).
    pub fn sync(&mut self, tag: Tag, fd: BorrowedFd<'_>) {
        let entry = opcode::Fsync::new(raw(fd)).flags(FsyncFlags::DATASYNC).build();
        self.start_drive(tag, Held::Nothing, &entry);
    }

    /// Gives a range of a file back to its file system; it reads as zeroes.
    pub fn punch_hole(&mut self, tag: Tag, fd: BorrowedFd<'_>, offset: u64, length: u64) {
        let entry = opcode::Fallocate::new(raw(fd), length)
            .offset(offset)
            .mode(FALLOC_PUNCH_HOLE_KEEP_SIZE)
            .build();
        self.start_drive(tag, Held::Nothing, &entry);
    }

    /// Tells a block device that a range is not needed any more.
    pub fn discard(&mut self, tag: Tag, fd: BorrowedFd<'_>, offset: u64, length: u64) {
        // the kernel reads the start from `addr` and the length from `addr3`, which is where the
        // command's own bytes begin
        let mut command = [0u8; 16];
        command[..8].copy_from_slice(&length.to_ne_bytes());
        let entry = opcode::UringCmd16::new(raw(fd), BLOCK_URING_CMD_DISCARD)
            .cmd(command)
            .addr(Some(offset))
            .build();
        self.start_drive(tag, Held::Nothing, &entry);
    }

    /// Takes one connection of a listening socket; see [`Finished::accepted`].
    pub fn accept(&mut self, tag: Tag, listener: BorrowedFd<'_>) {
        let none = std::ptr::null_mut();
        let entry =
            opcode::Accept::new(raw(listener), none, none.cast()).flags(libc::SOCK_CLOEXEC).build();
        self.start(tag, Held::Nothing, &entry);
    }

    /// Reports when a descriptor has something to read.
    pub fn readable(&mut self, tag: Tag, fd: BorrowedFd<'_>) {
        let entry = opcode::PollAdd::new(raw(fd), libc::POLLIN as u32).build();
        self.start(tag, Held::Nothing, &entry);
    }

    /// Receives what there is, at least a byte, into `buffer` from `at` on, at most `length`.
    pub fn receive(
        &mut self,
        tag: Tag,
        socket: BorrowedFd<'_>,
        buffer: Box<Memory>,
        at: usize,
        length: usize,
    ) {
        let entry =
            opcode::Recv::new(raw(socket), buffer.pointer(at, length), size(length)).build();
        self.start(tag, Held::Owned(buffer), &entry);
    }

    /// Receives exactly `length` bytes into a payload, unless the stream ends or fails before.
    pub fn receive_all(
        &mut self,
        tag: Tag,
        socket: BorrowedFd<'_>,
        memory: (Rc<Memory>, usize, usize),
    ) -> Under {
        let (memory, at, length) = memory;
        let entry = opcode::Recv::new(raw(socket), memory.pointer(at, length), size(length))
            .flags(libc::MSG_WAITALL)
            .build();
        self.start(tag, Held::Shared(memory), &entry)
    }

    /// Sends a batch; it comes back advanced by what was sent, usually all of it.
    pub fn send(&mut self, tag: Tag, socket: BorrowedFd<'_>, batch: Box<Outgoing>) -> Under {
        let mut sending = match self.spare.pop() {
            Some(mut sending) => {
                sending.batch = batch;
                sending
            }
            None => Box::new(Sending { batch, vectors: Vec::new(), header: empty_header() }),
        };
        let Sending { batch, vectors, header } = &mut *sending;
        vectors.clear();
        batch.pieces(|piece| vectors.push(vector(piece)));
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let entry = if let [one] = vectors[..] {
            opcode::Send::new(raw(socket), one.iov_base.cast(), size(one.iov_len))
                .flags(flags)
                .build()
        } else {
            header.msg_iov = vectors.as_mut_ptr();
            header.msg_iovlen = vectors.len();
            opcode::SendMsg::new(raw(socket), std::ptr::from_ref(header))
                .flags(flags as u32)
                .build()
        };
        self.start(tag, Held::Batch(sending), &entry)
    }

    /// Ends an operation that was begun here and has not reported yet: it reports what it has moved by then,
    /// if it did. True if that is so; an old kernel loses count, so there it goes on as before.
    pub fn cut_short(&mut self, tag: Tag, under: Under) -> bool {
        if self.counts_what_is_cut_short {
            // it is handed to the kernel before any result is collected, so the number is still the same
            // operation's
            let entry = opcode::AsyncCancel::new(under.0 as u64).build();
            self.start(tag, Held::Nothing, &entry);
        }
        self.counts_what_is_cut_short
    }

    /// Hands queued operations to the kernel, without waiting.
    pub fn submit(&mut self) {
        loop {
            match self.ring.submit() {
                Ok(_) => return,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // the kernel is short of memory or its completion queue is full: what is in the
                // completion queue is reaped by the caller's next turn, which then submits again
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {
                    return;
                }
                Err(error) => panic!("io_uring_enter refuses our own ring: {error}"),
            }
        }
    }

    /// Hands queued operations to the kernel, if there are any.
    pub fn submit_queued(&mut self) {
        if !self.ring.submission().is_empty() {
            self.submit();
        }
    }

    /// Is there something to reap, or would the kernel have it after an `enter`? Costs two loads.
    pub fn has_news(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    /// Submits what is queued and collects what is done.
    pub fn poll(&mut self, out: &mut Vec<Finished>) {
        let due = {
            let queue = self.ring.submission();
            !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
        };
        if due {
            self.submit();
        }
        self.reap(out);
    }

    /// Submits what is queued and sleeps until something is done, at most `limit`.
    pub fn wait(&mut self, limit: Option<Duration>) {
        let timeout = limit.map(|limit| {
            Timespec::new().sec(limit.ns / 1_000_000_000).nsec((limit.ns % 1_000_000_000) as u32)
        });
        let result = match &timeout {
            Some(timeout) => {
                let args = SubmitArgs::new().timespec(timeout);
                self.ring.submitter().submit_with_args(1, &args)
            }
            None => self.ring.submit_and_wait(1),
        };
        if let Err(error) = result {
            let harmless = [libc::EINTR, libc::ETIME, libc::EBUSY, libc::EAGAIN];
            let known = error.raw_os_error().is_some_and(|errno| harmless.contains(&errno));
            assert!(known, "io_uring_enter refuses our own ring: {error}");
        }
    }

    fn reap(&mut self, out: &mut Vec<Finished>) {
        let Ring { ring, slots, spare, drives_in_flight, .. } = self;
        for done in ring.completion() {
            let key = usize::try_from(done.user_data()).expect("slots are numbered from 0");
            let slot = slots.remove(key);
            *drives_in_flight -= usize::from(slot.is_drive);
            let result = done.result();
            let back = match slot.held {
                Held::Nothing | Held::Shared(_) | Held::Many(_) => Back::Nothing,
                Held::Owned(buffer) => Back::Buffer(buffer),
                Held::Batch(mut sending) => {
                    let mut batch = std::mem::take(&mut sending.batch);
                    spare.push(sending);
                    batch.advance(usize::try_from(result).unwrap_or(0));
                    Back::Batch(batch)
                }
            };
            out.push(Finished { tag: slot.tag, result, back });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.submit();
        let limit = Timespec::new().sec(2);
        let _ = self.ring.submitter().register_sync_cancel(Some(limit), CancelBuilder::any());
        let mut out = Vec::new();
        for _ in 0..200 {
            self.reap(&mut out);
            if self.slots.is_empty() {
                return;
            }
            self.wait(Some(Duration::from_ms(10)));
        }
        // a drive that never answers may still write into these buffers
        std::mem::forget(std::mem::take(&mut self.slots));
    }
}

fn raw(fd: BorrowedFd<'_>) -> Fd {
    Fd(fd.as_raw_fd())
}

fn size(length: usize) -> u32 {
    u32::try_from(length).expect("one operation moves less than 4 GiB")
}

fn vector((start, length): (*const u8, usize)) -> libc::iovec {
    libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length }
}

fn empty_header() -> libc::msghdr {
    // SAFETY: plain C data, for which all zeroes mean "nothing".
    unsafe { std::mem::zeroed() }
}

/// SIGTERM and SIGINT as something to read.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Turns the two signals from interrupts into bytes. Call before other threads are made, since
    /// they inherit the mask.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn listen() -> io::Result<Signals> {
        // SAFETY: `mask` is plain data that the calls initialise; the results are checked.
        unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut mask);
            libc::sigaddset(&raw mut mask, libc::SIGTERM);
            libc::sigaddset(&raw mut mask, libc::SIGINT);
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// What to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    /// Takes the pending signals away; how many there were.
    pub fn drain(&self) -> usize {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        let mut count = 0;
        while rustix::io::read(&self.fd, &mut info).is_ok_and(|read| read > 0) {
            count += 1;
        }
        count
    }
}

/// Takes over a descriptor that the service manager has opened for us.
pub(crate) fn adopt(fd: RawFd) -> OwnedFd {
    // SAFETY: systemd's protocol says that these descriptors are for this process alone, and
    // `listen::inherited` asks for them once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[cfg(test)]
#[path = "uring/tests.rs"]
mod tests;
