//! How do the bytes of one connection move between socket, session and payloads?
//!
//! Small bodies are copied out of the receive buffer, large ones are received straight into their
//! payload. Replies gather in a batch while another is being sent; small reads are copied into it,
//! large ones go by reference.

mod secure;

use super::access::{Access, Clients, Seldom, TlsMode};
use super::export::Export;
use super::negotiate::Tls;
use super::session::{Ask, Command, Session, Step};
use super::tls::{Opened, RECORD_BYTES, Records, TlsServer};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tandem_block::{DurabilityClass, IoError, Op, PayloadId, StreamId};
use tandem_live::Done;
use tandem_live::Extent;
use tandem_live::buffer::Memory;
use tandem_live::front::{Desk, Wish};
use tandem_live::outgoing::Outgoing;
use tandem_live::uring::{Back, Finished};
use tandem_live::users::{User, Users};

/// Size of the receive buffer: many small requests in one call, and no more, though more may have come:
/// while a call copies and its requests are read, no drive is heard (guess: some 20 us for 64 KiB, and 150
/// for 512).
const BUFFER_BYTES: usize = 64 * 1024;
/// What is asked for while large writes come: little more than their headers, since everything
/// behind a header in the buffer has to be copied.
const SMALL_RECEIVE_BYTES: usize = 4096;
/// The rest of a body is received straight into its payload from this size on.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// Reads of this size and more are sent by reference.
const SHARED_BYTES_MIN: u32 = 32 * 1024;
/// With this many bytes of replies gathered they are sent at once, while they are in the CPU's cache.
const SEND_AT_ONCE_BYTES: usize = 512 * 1024;
/// After so many looks in vain a socket is left to the ring, so that silent clients cost nothing
/// while others keep the world awake.
const LOOKS_MAX: u32 = 256;
/// With this many bytes of replies unsent, no more requests are taken.
const UNSENT_BYTES_MAX: usize = 64 << 20;

/// What a ring operation of a connection was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Receive,
    Body,
    Send,
}

impl Purpose {
    pub fn from_number(number: u64) -> Purpose {
        match number {
            0 => Purpose::Receive,
            1 => Purpose::Body,
            _ => Purpose::Send,
        }
    }
}

/// A write whose body is arriving.
#[derive(Debug)]
struct Body {
    ask: Ask,
    payload: PayloadId,
    filled: usize,
}

/// Replies on their way, and the payloads they point into.
#[derive(Debug, Default)]
struct Replies {
    batch: Box<Outgoing>,
    payloads: Vec<PayloadId>,
}

impl Replies {
    fn clear(&mut self, desk: &mut Desk<'_>) {
        self.batch.clear();
        for payload in self.payloads.drain(..) {
            desk.release(payload);
        }
    }
}

/// What connections have in common.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// Who uses snapshots.
    pub users: Users,
    /// Who may use which exports.
    pub clients: Rc<Clients>,
    /// Of clients that were turned away.
    pub refusals: Rc<RefCell<Seldom>>,
}

/// One client.
pub(super) struct Connection {
    socket: OwnedFd,
    session: Session,
    /// Certificates, where there is TLS.
    tls: Option<TlsServer>,
    /// TLS, once it was begun.
    records: Option<Box<Records>>,
    clients: Rc<Clients>,
    refusals: Rc<RefCell<Seldom>>,
    users: Users,
    /// It uses a snapshot, which must not go.
    user: Option<User>,
    stream: StreamId,
    /// Position in the server's table.
    key: u64,
    /// `None` while the ring has it.
    buffer: Option<Box<Memory>>,
    /// Received and not understood yet.
    start: usize,
    end: usize,
    body: Option<Body>,
    /// A request for which there was no room.
    held: Option<Ask>,
    gathering: Replies,
    sending: Replies,
    is_sending: bool,
    is_receiving_body: bool,
    wants_receive: bool,
    /// Looks in vain since something was last heard, while nobody sleeps.
    looks_in_vain: u32,
    /// Large writes come: receive little beside their bodies.
    large: bool,
    /// No more requests are taken.
    closing: bool,
    /// Nothing can be sent any more.
    broken: bool,
}

impl Connection {
    pub fn new(
        socket: OwnedFd,
        key: u64,
        exports: Rc<[Export]>,
        shared: Shared,
        access: &Access,
    ) -> Connection {
        let mut gathering = Replies::default();
        let mut session = gathering.batch.stage(|out| Session::new(exports, out));
        session.offer_tls(match access.tls {
            TlsMode::Off => Tls::Off,
            TlsMode::Allow(_) => Tls::Offered,
            TlsMode::Require(_) => Tls::Required,
        });
        let Shared { users, clients, refusals } = shared;
        Connection {
            socket,
            session,
            tls: access.tls.server().cloned(),
            records: None,
            clients,
            refusals,
            users,
            user: None,
            stream: StreamId(u32::try_from(key).expect("few connections")),
            key,
            buffer: Some(Box::new(Memory::zeroed(BUFFER_BYTES))),
            start: 0,
            end: 0,
            body: None,
            held: None,
            gathering,
            sending: Replies::default(),
            is_sending: false,
            is_receiving_body: false,
            wants_receive: true,
            looks_in_vain: 0,
            large: false,
            closing: false,
            broken: false,
        }
    }

    fn tag(&self, desk: &Desk<'_>, purpose: Purpose) -> tandem_live::uring::Tag {
        desk.tag(self.key << 8 | purpose as u64)
    }

    /// Understands what was received, until more is needed or there is no room.
    pub fn advance(&mut self, desk: &mut Desk<'_>) {
        while !self.closing && self.buffer.is_some() && !self.is_receiving_body {
            let goes_on = if self.body.is_some() {
                self.fill_body(desk)
            } else if let Some(ask) = self.held.take() {
                self.begin(ask, desk)
            } else {
                self.next_step(desk)
            };
            if !goes_on {
                return;
            }
        }
    }

    fn next_step(&mut self, desk: &mut Desk<'_>) -> bool {
        let unsent = self.gathering.batch.remaining() + self.sending.batch.remaining();
        if unsent > UNSENT_BYTES_MAX {
            return false; // goes on when they are sent
        }
        let buffer = self.buffer.as_mut().expect("advance checks it");
        let input = &buffer.bytes_mut(self.start..self.end)[..];
        let session = &mut self.session;
        let (records, batch) = (&mut self.records, &mut self.gathering.batch);
        match stage(records, batch, |out| session.step(input, out)) {
            Step::Wait(needed) => {
                if needed > BUFFER_BYTES {
                    self.closing = true; // our limits forbid it; never wait for what cannot come
                    return false;
                }
                self.needs_more(desk)
            }
            Step::StartTls(count) => {
                self.start += count;
                self.start_tls(desk)
            }
            Step::Consumed(count) => {
                self.start += count;
                if self.user.is_none()
                    && let Some(export) = self.session.chosen().filter(|export| export.read_only)
                {
                    self.user = Some(self.users.enter(export.object));
                }
                true
            }
            Step::Ask(count, ask) => {
                self.start += count;
                self.begin(ask, desk)
            }
            Step::Full => false, // goes on with the next answer
            Step::Close => {
                self.closing = true;
                false
            }
        }
    }

    /// Begins a request; false if there is no room for it now.
    fn begin(&mut self, ask: Ask, desk: &mut Desk<'_>) -> bool {
        let bytes = match ask.command {
            Command::Read | Command::Write => u64::from(ask.length),
            _ => 0,
        };
        if !desk.has_room(bytes) {
            self.held = Some(ask);
            return false;
        }
        match ask.command {
            Command::Write => {
                let payload = desk.payloads.begin(ask.length as usize, ask.offset);
                self.body = Some(Body { ask, payload, filled: 0 });
            }
            Command::BlockStatus { .. } => {
                let mut extents: Vec<Extent> = Vec::new();
                desk.extents(ask.object, (ask.offset, u64::from(ask.length)), &mut extents);
                let session = &mut self.session;
                let answer = |out: &mut Vec<u8>| session.complete_status(ask.slot, &extents, out);
                stage(&mut self.records, &mut self.gathering.batch, answer);
            }
            _ => self.submit(ask, PayloadId::NONE, desk),
        }
        true
    }

    fn submit(&mut self, ask: Ask, payload: PayloadId, desk: &mut Desk<'_>) {
        let op = match ask.command {
            Command::Read | Command::BlockStatus { .. } => Op::Read,
            Command::Write => Op::Write,
            Command::Flush => Op::Flush,
            Command::Trim => Op::Discard,
            Command::WriteZeroes => Op::WriteZeroes,
        };
        let wish = Wish {
            object: ask.object,
            op,
            offset_bytes: ask.offset,
            length_bytes: u64::from(ask.length),
            fua: ask.fua,
            stream: ask.stream.unwrap_or(self.stream),
            class: DurabilityClass::VolatileOk,
            payload,
        };
        desk.submit(wish, self.key << 32 | u64::from(ask.slot));
    }

    /// Moves what is there of a body into its payload; false if the rest has to be received.
    fn fill_body(&mut self, desk: &mut Desk<'_>) -> bool {
        let Some(body) = &mut self.body else { return true };
        let rest = body.ask.length as usize - body.filled;
        let count = rest.min(self.end - self.start);
        if count > 0 {
            let buffer = self.buffer.as_mut().expect("advance checks it");
            let bytes = buffer.bytes_mut(self.start..self.start + count);
            desk.payloads.fill(body.payload, body.filled, bytes);
            body.filled += count;
            self.start += count;
        }
        self.large = rest >= DIRECT_BYTES_MIN;
        if count == rest {
            let Body { ask, payload, .. } = self.body.take().expect("it was there");
            desk.payloads.seal(payload);
            self.submit(ask, payload, desk);
            return true;
        }
        if rest - count < DIRECT_BYTES_MIN || self.records.is_some() {
            return self.needs_more(desk);
        }
        let target = (desk.payloads.memory(body.payload), body.filled, rest - count);
        let tag = self.tag(desk, Purpose::Body);
        desk.ring.receive_all(tag, self.socket.as_fd(), target);
        self.is_receiving_body = true;
        false
    }

    /// One of its ring operations is done.
    pub fn finished(&mut self, purpose: Purpose, done: Finished, desk: &mut Desk<'_>) {
        let count = done.outcome();
        match (purpose, done.back) {
            (Purpose::Receive, Back::Buffer(buffer)) => {
                match (count, &mut self.records) {
                    (Ok(count), Some(records)) if count > 0 => records.received(count),
                    (Ok(count), None) if count > 0 => self.end += count,
                    _ => self.closing = true,
                }
                match &mut self.records {
                    Some(records) => records.give_back(buffer),
                    None => self.buffer = Some(buffer),
                }
            }
            (Purpose::Body, _) => {
                self.is_receiving_body = false;
                match (count, &mut self.body) {
                    (Ok(count), Some(body)) if count > 0 => body.filled += count,
                    _ => self.closing = true,
                }
            }
            (_, Back::Batch(batch)) => {
                self.is_sending = false;
                self.sending.batch = batch;
                if !count.is_ok_and(|count| count > 0) {
                    self.break_off();
                }
                if self.broken || self.sending.batch.is_empty() {
                    self.sending.clear(desk);
                }
            }
            _ => {}
        }
        self.advance(desk);
    }

    /// One of its requests is done.
    pub fn completed(&mut self, slot: u32, done: &Done, desk: &mut Desk<'_>) {
        let session = &mut self.session;
        let batch = &mut self.gathering.batch;
        let status = done.status;
        let length = stage(&mut self.records, batch, |out| session.complete(slot, status, out));
        if length == 0 || self.broken {
            desk.release(done.payload);
        } else if let Some(records) = &mut self.records {
            let end = done.skip_bytes + u64::from(length);
            let payloads = &mut *desk.payloads;
            for at in (done.skip_bytes..end).step_by(RECORD_BYTES) {
                let part = (end - at).min(RECORD_BYTES as u64);
                records.stage(batch, |out| payloads.append_to(done.payload, at, part, out));
            }
            desk.release(done.payload);
        } else if length >= SHARED_BYTES_MIN && batch.takes_more() {
            let memory = desk.payloads.source(done.payload, done.skip_bytes, u64::from(length));
            batch.push_shared(memory, done.skip_bytes as usize, length as usize);
            self.gathering.payloads.push(done.payload);
        } else {
            let payloads = &mut *desk.payloads;
            batch.stage(|out| {
                payloads.append_to(done.payload, done.skip_bytes, u64::from(length), out);
            });
            desk.release(done.payload);
        }
        if !self.is_sending && self.gathering.batch.remaining() >= SEND_AT_ONCE_BYTES {
            self.send(desk);
            desk.ring.submit();
        }
    }

    /// All events of this turn are handled.
    pub fn turn_ends(&mut self, desk: &mut Desk<'_>) {
        self.advance(desk);
        if self.hears() {
            self.advance(desk);
        }
        self.send(desk);
        if self.looks_in_vain >= LOOKS_MAX {
            self.listen(desk);
        }
    }

    /// Has the socket something for us? Looked for by a plain call while the world is awake: a
    /// receive that waits in the ring makes every message of the client wake us, which the client
    /// pays for, and brings messages one by one.
    pub fn hears(&mut self) -> bool {
        if !self.may_receive() || self.looks_in_vain >= LOOKS_MAX {
            return false;
        }
        let length = self.make_room();
        let room = match (&mut self.records, &mut self.buffer) {
            (Some(records), _) => records.room(),
            (None, Some(buffer)) => Some(buffer.bytes_mut(self.end..self.end + length)),
            (None, None) => None,
        };
        let Some(room) = room else { return false };
        match rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => match &mut self.records {
                Some(records) => records.received(count),
                None => self.end += count,
            },
            Err(Errno::AGAIN | Errno::INTR) => {
                self.looks_in_vain += 1;
                return false;
            }
            _ => self.closing = true,
        }
        (self.wants_receive, self.looks_in_vain) = (false, 0);
        true
    }

    fn may_receive(&self) -> bool {
        let is_here = match &self.records {
            Some(records) => !records.is_receiving(),
            None => self.buffer.is_some(),
        };
        self.wants_receive && !self.closing && !self.is_receiving_body && is_here
    }

    /// Has the ring listen, since nobody else will.
    pub fn listen(&mut self, desk: &mut Desk<'_>) {
        if self.may_receive() {
            self.receive(desk);
        }
    }

    /// Sends what was gathered, unless something is being sent.
    fn send(&mut self, desk: &mut Desk<'_>) {
        if self.broken {
            self.gathering.clear(desk);
            return;
        }
        if self.is_sending {
            return;
        }
        if let Some(records) = &mut self.records {
            records.seal(&mut self.gathering.batch);
        }
        if self.sending.batch.is_empty() {
            std::mem::swap(&mut self.sending, &mut self.gathering);
        }
        if !self.sending.batch.is_empty() {
            self.is_sending = true;
            let batch = std::mem::take(&mut self.sending.batch);
            let tag = self.tag(desk, Purpose::Send);
            desk.ring.send(tag, self.socket.as_fd(), batch);
        }
    }

    /// Moves what is there to the front; how many bytes to receive behind it.
    fn make_room(&mut self) -> usize {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if let Some(buffer) = &mut self.buffer
            && self.start > 0
        {
            // what is left is less than one message
            let all = buffer.bytes_mut(0..self.end);
            all.copy_within(self.start.., 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = BUFFER_BYTES - self.end;
        if self.large { room.min(SMALL_RECEIVE_BYTES) } else { room }
    }

    /// Receives behind what is there, whenever it comes.
    fn receive(&mut self, desk: &mut Desk<'_>) {
        let length = self.make_room();
        let lent = match &mut self.records {
            Some(records) => records.lend(),
            None => self.buffer.take().map(|buffer| (buffer, self.end, length)),
        };
        let Some((buffer, at, length)) = lent else { return };
        (self.wants_receive, self.looks_in_vain) = (false, 0);
        let tag = self.tag(desk, Purpose::Receive);
        desk.ring.receive(tag, self.socket.as_fd(), buffer, at, length);
    }

    /// Takes no more requests; those under way are answered.
    pub fn close(&mut self) {
        self.closing = true;
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.closing = true;
    }

    /// Is every request answered, and every answer sent (or the client gone)?
    pub fn is_quiet(&self) -> bool {
        let sealed = self.records.as_ref().is_none_or(|records| records.is_sealed());
        let idle = sealed && self.gathering.batch.is_empty() && self.sending.batch.is_empty();
        self.pending() == 0 && !self.is_sending && (idle || self.broken)
    }

    /// Requests that the engine has.
    fn pending(&self) -> usize {
        let here = usize::from(self.held.is_some()) + usize::from(self.body.is_some());
        self.session.in_flight() - here
    }

    /// Can it be forgotten? Where only a receive is under way, that is ended first.
    pub fn is_over(&mut self, desk: &mut Desk<'_>) -> bool {
        if !self.closing || !self.is_quiet() {
            return false;
        }
        if let Some(records) = &mut self.records
            && !self.broken
            && records.say_bye(&mut self.gathering.batch)
        {
            self.send(desk);
            return false; // over when that is sent
        }
        let lent = self.records.as_ref().is_some_and(|records| records.is_receiving());
        if lent || self.buffer.is_none() || self.is_receiving_body {
            // its result comes back as an end of the stream
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            return false;
        }
        if let Some(body) = self.body.take() {
            desk.release(body.payload);
            self.session_drops(body.ask);
        }
        if let Some(ask) = self.held.take() {
            self.session_drops(ask);
        }
        self.sending.clear(desk);
        self.gathering.clear(desk);
        true
    }

    /// The client will never know how this one ended.
    fn session_drops(&mut self, ask: Ask) {
        let mut unheard = Vec::new();
        self.session.complete(ask.slot, Err(IoError::Stopping), &mut unheard);
    }
}

/// Appends what `write` says to what is sent next: sealed, where there is TLS.
fn stage<R>(
    records: &mut Option<Box<Records>>,
    batch: &mut Outgoing,
    write: impl FnOnce(&mut Vec<u8>) -> R,
) -> R {
    match records {
        None => batch.stage(write),
        Some(records) => records.stage(batch, write),
    }
}
