//! How do messages come from the kernel? One per `read` of `/dev/fuse`, without ever blocking.
//!
//! The data of a write is read behind the head into page-aligned memory of its own, so that a large
//! one needs no copy to become a payload.

use super::mount::TRANSFER_BYTES_MAX;
use super::wire::{self, REPLY_BYTES, WRITE_HEAD_BYTES};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use tandem_live::buffer::Memory;

/// Tries after an interrupted read; the kernel says so once for each request that was taken back.
const TRIES: usize = 16;

/// Replies up to this size are sent in one piece, which is cheaper than two.
const SMALL_BYTES: usize = 192;
/// After a look in vain, so many of the event loop's turns go by before the next one; an event loop without
/// other work looks at every rest.
const TURNS_UNSEEN: u32 = 8;

/// The kernel's side of the mount.
pub(super) struct Inbox {
    fd: OwnedFd,
    head: [u8; WRITE_HEAD_BYTES],
    body: Rc<Memory>,
    /// Bytes of the message that waits to be understood.
    waiting: Option<usize>,
    /// Unmounted by somebody: nothing will come any more.
    gone: bool,
    /// Turns since the last look, if that was in vain.
    unseen: u32,
}

impl Inbox {
    pub fn new(fd: OwnedFd) -> Inbox {
        let body = Rc::new(Memory::zeroed(TRANSFER_BYTES_MAX));
        Inbox { fd, head: [0; WRITE_HEAD_BYTES], body, waiting: None, gone: false, unseen: 0 }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// As [`Inbox::fetch`], but after a look in vain only every now and then: each costs a call of the
    /// kernel, and most of the event loop's turns have to do with something else.
    pub fn fetch_in_turn(&mut self) -> bool {
        if self.waiting.is_none() && self.unseen > 0 && self.unseen < TURNS_UNSEEN {
            self.unseen += 1;
            return false;
        }
        self.fetch()
    }

    /// Is there a message? Takes one from the kernel if none waits.
    pub fn fetch(&mut self) -> bool {
        for _ in 0..TRIES {
            if self.waiting.is_some() || self.gone {
                break;
            }
            let body = Rc::get_mut(&mut self.body).expect("the body is ours until it is taken");
            let mut pieces = [
                IoSliceMut::new(&mut self.head),
                IoSliceMut::new(body.bytes_mut(0..TRANSFER_BYTES_MAX)),
            ];
            match rustix::io::readv(&self.fd, &mut pieces) {
                Ok(0) => self.gone = true,
                Ok(length) => self.waiting = Some(length),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::NODEV) => self.gone = true,
                Err(error) => {
                    tracing::error!("requests for the FUSE mount cannot be read: {error}");
                    self.gone = true;
                }
            }
        }
        self.unseen = u32::from(self.waiting.is_none());
        self.waiting.is_some()
    }

    /// The head of the waiting message, the bytes behind it, and its length.
    pub fn message(&mut self) -> (&[u8], &[u8], usize) {
        let length = self.waiting.expect("asked after a fetch");
        let head = length.min(WRITE_HEAD_BYTES);
        let body = Rc::get_mut(&mut self.body).expect("the body is ours until it is taken");
        (&self.head[..head], body.bytes_mut(0..length - head), length)
    }

    /// The waiting message is dealt with.
    pub fn done(&mut self) {
        self.waiting = None;
    }

    /// Takes the memory of the body, whose place `next` takes.
    pub fn take_body(&mut self, next: Rc<Memory>) -> Rc<Memory> {
        assert!(next.len() >= TRANSFER_BYTES_MAX, "the largest request fits the body");
        std::mem::replace(&mut self.body, next)
    }

    /// Tells the kernel that it must ask for a node's attributes before it believes them again. It waits for
    /// nobody there: no bytes are named, and the file is open while we answer its writer.
    pub fn forget_attributes(&self, node: u64) {
        // that it does not know the node any more is no matter
        report(rustix::io::write(&self.fd, &wire::stale_attributes(node)));
    }

    /// Answers; a request that was taken back meanwhile needs none.
    pub fn reply(&self, head: [u8; REPLY_BYTES], body: &[u8]) {
        let mut small = [0; SMALL_BYTES];
        let length = REPLY_BYTES + body.len();
        let result = if length <= SMALL_BYTES {
            small[..REPLY_BYTES].copy_from_slice(&head);
            small[REPLY_BYTES..length].copy_from_slice(body);
            rustix::io::write(&self.fd, &small[..length])
        } else {
            rustix::io::writev(&self.fd, &[IoSlice::new(&head), IoSlice::new(body)])
        };
        report(result);
    }
}

/// What came of a reply.
pub(super) fn report(result: rustix::io::Result<usize>) {
    match result {
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(error) => tracing::error!("a reply to the FUSE mount was refused: {error}"),
    }
}
