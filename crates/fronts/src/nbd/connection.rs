//! How do the bytes of one connection move between socket, session and payloads?
//!
//! Small bodies are copied out of the receive buffer, large ones are received straight into their
//! payload. With TLS all bytes go through its records, and are copied once more. What a request needs of the
//! server's memory is taken when it begins, and given back when its answer has left. Where there is little
//! left for this client, large requests are done in pieces.

mod ends;
mod secure;

use super::access::{Access, TlsMode};
use super::body::{Body, Receiving};
use super::export::Export;
use super::hub::{BUFFER_BYTES, Hub};
use super::negotiate::Tls;
use super::outbox::Outbox;
use super::session::{Ask, Command, STATUS_ENTRIES_MAX, Session, Step};
use super::standstill::Standstill;
use super::tls::TlsServer;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use slab::Slab;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tandem_block::{DurabilityClass, Instant, IoError, Op, PayloadId, StreamId};
use tandem_live::Done;
use tandem_live::Extent;
use tandem_live::budget::Share;
use tandem_live::buffer::{Memory, taken_bytes};
use tandem_live::front::{FrontContext, FrontRequest};
use tandem_live::uring::{Back, Finished, Tag};
use tandem_live::users::User;

/// What is asked for while large writes come: little more than their headers, since everything
/// behind a header in the buffer has to be copied.
const SMALL_RECEIVE_BYTES: usize = 4096;
/// After so many looks in vain a socket is left to the ring, so that silent clients cost nothing
/// while others keep the event loop awake. One that has not chosen an export yet is not worth as many.
const LOOKS_MAX: u32 = 256;
const LOOKS_NEGOTIATING_MAX: u32 = 8;
/// Of a read over TLS so much is sealed at once.
const SEALED_BYTES_MAX: u32 = 1 << 20;
/// The least piece of a request, unless it is smaller itself.
pub(super) const PIECE_BYTES_MIN: u64 = 64 << 10;
/// Blocks looked at for one answer about extents, if others wait: some 60 us.
const STATUS_BYTES_SHARED: u64 = 64 << 20;
/// So many bytes looked at for extents take about as long as one other request.
const STATUS_BYTES_PER_REQUEST: u64 = 4 << 20;

/// What a ring operation of a connection was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Receive,
    Body,
    Send,
    /// One that has nothing to tell.
    Other,
}

impl Purpose {
    pub fn from_number(number: u64) -> Purpose {
        match number {
            0 => Purpose::Receive,
            1 => Purpose::Body,
            2 => Purpose::Send,
            _ => Purpose::Other,
        }
    }
}

/// A request that waits until there is room for it.
#[derive(Debug)]
struct Held {
    ask: Ask,
    since: Instant,
}

/// A read that is done in pieces, one after the other.
#[derive(Debug)]
struct Reading {
    ask: Ask,
    /// Bytes of it that were asked for.
    asked: u32,
    is_busy: bool,
}

/// What the engine does for a request, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub ask: Ask,
    /// Where, and how many bytes.
    pub range: (u64, u32),
    /// Bytes of the budget that it holds.
    pub held_bytes: u64,
}

/// One client.
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) session: Session,
    /// Certificates, where there is TLS.
    tls: Option<TlsServer>,
    /// It uses a snapshot, which must not go.
    user: Option<User>,
    stream: StreamId,
    /// Position in the server's table.
    key: u64,
    /// Which listening socket it came by.
    pub(super) way: usize,
    pub(super) accepted: Instant,
    /// It has chosen an export, and when.
    pub(super) is_serving: bool,
    pub(super) chosen: Instant,
    /// It has asked for something of it.
    pub(super) has_asked: bool,
    /// `None` while the ring has it.
    pub(super) buffer: Option<Box<Memory>>,
    /// Received and not understood yet.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) body: Option<Body>,
    held: Option<Held>,
    reading: Option<Reading>,
    parts: Slab<Part>,
    pub(super) share: Share,
    pub(super) outbox: Outbox,
    /// A piece of a body is being received.
    pub(super) receiving_body: Option<Receiving>,
    pub(super) wants_receive: bool,
    /// Looks in vain since something was last heard, while nobody sleeps.
    looks_in_vain: u32,
    /// Large writes come: receive little beside their bodies.
    pub(super) large: bool,
    pub(super) received_bytes: u64,
    /// The rest of a message.
    receives: Standstill,
    /// Requests that it may still begin in this turn.
    credit: i64,
    /// It would go on if it had more credit.
    pub(super) is_paused: bool,
    /// Requests begun in this turn.
    pub(super) begun: u64,
    /// The last turn in which it began any.
    pub(super) active_turn: u64,
    /// No more requests are taken.
    pub(super) closing: bool,
}

impl Connection {
    /// A client that has just come; `buffer` counts as its own from now on.
    pub fn new(
        socket: OwnedFd,
        (key, way): (u64, usize),
        (exports, access): (Rc<[Export]>, &Access),
        buffer: Box<Memory>,
        (hub, now): (&mut Hub, Instant),
    ) -> Connection {
        let mut outbox = Outbox::default();
        let mut session = outbox.stage(hub, |out| Session::new(exports, out));
        session.offer_tls(match access.tls {
            TlsMode::Off => Tls::Off,
            TlsMode::Allow(_) => Tls::Offered,
            TlsMode::Require(_) => Tls::Required,
        });
        hub.ways[way].negotiating += 1;
        Connection {
            socket,
            session,
            tls: access.tls.server().cloned(),
            user: None,
            stream: StreamId(u32::try_from(key).expect("few connections")),
            key,
            way,
            accepted: now,
            is_serving: false,
            chosen: now,
            has_asked: false,
            buffer: Some(buffer),
            start: 0,
            end: 0,
            body: None,
            held: None,
            reading: None,
            parts: Slab::new(),
            share: Share::default(),
            outbox,
            receiving_body: None,
            wants_receive: true,
            looks_in_vain: 0,
            large: false,
            received_bytes: 0,
            receives: Standstill::default(),
            credit: 1,
            is_paused: false,
            begun: 0,
            active_turn: 0,
            closing: false,
        }
    }

    pub(super) fn tag(&self, context: &FrontContext<'_>, purpose: Purpose) -> Tag {
        context.tag(self.key << 8 | purpose as u64)
    }

    /// Understands what was received, until more is needed, there is no room, or it was enough for now.
    pub fn advance(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        while !self.closing && self.buffer.is_some() && self.receiving_body.is_none() {
            let goes_on = if self.body.is_some() {
                self.fill_body(hub, context)
            } else if self.reading.is_some() {
                self.read_on(hub, context)
            } else if let Some(Held { ask, since }) = self.held.take() {
                self.begin(ask, since, hub, context)
            } else {
                self.next_step(hub, context)
            };
            if !goes_on {
                return;
            }
        }
    }

    fn next_step(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) -> bool {
        if self.outbox.is_full() {
            return false; // goes on when they are sent
        }
        if self.credit <= 0 {
            self.is_paused = true;
            return false; // goes on in the next turn
        }
        if self.session.is_negotiating() {
            let most = hub.config.connections_max;
            self.session.set_full((hub.ways[self.way].serving >= most).then_some(most));
        }
        let buffer = self.buffer.as_mut().expect("advance checks it");
        let input = &buffer.bytes_mut(self.start..self.end)[..];
        let session = &mut self.session;
        match self.outbox.stage(hub, |out| session.step(input, out)) {
            Step::Wait(needed) => {
                if needed > BUFFER_BYTES {
                    self.closing = true; // our limits forbid it; never wait for what cannot come
                    return false;
                }
                self.needs_more(hub, context)
            }
            Step::StartTls(count) => {
                self.start += count;
                self.start_tls(hub, context)
            }
            Step::Consumed(count) => {
                self.start += count;
                self.credit -= 1;
                if !self.is_serving && !self.session.is_negotiating() {
                    self.serves(hub, context.now);
                }
                true
            }
            Step::Ask(count, ask) => {
                self.start += count;
                self.credit -= 1;
                (self.begun, self.has_asked) = (self.begun + 1, true);
                self.begin(ask, context.now, hub, context)
            }
            Step::Full => false, // goes on with the next answer
            Step::Close => {
                self.closing = true;
                false
            }
        }
    }

    /// It has chosen an export.
    fn serves(&mut self, hub: &mut Hub, now: Instant) {
        (self.is_serving, self.chosen) = (true, now);
        let way = &mut hub.ways[self.way];
        (way.negotiating, way.serving) = (way.negotiating - 1, way.serving + 1);
        if let Some(export) = self.session.chosen().filter(|export| export.read_only) {
            self.user = Some(hub.users.enter(export.object));
        }
    }

    /// Begins a request; false if there is no room for it now.
    fn begin(
        &mut self,
        ask: Ask,
        since: Instant,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) -> bool {
        let fits = match ask.command {
            Command::Write => {
                self.body = Some(Body::new(ask));
                return true;
            }
            Command::Read if ask.may_divide => {
                self.reading = Some(Reading { ask, asked: 0, is_busy: false });
                return self.read_on(hub, context);
            }
            Command::Read => {
                let bytes = taken_bytes(ask.length as usize) as u64;
                if !hub.budget.could_allow_whole(bytes) {
                    self.fail(ask, IoError::NoMemory, hub);
                    return true;
                }
                context.has_room(0) && hub.budget.allows_whole(&self.share, bytes)
            }
            Command::BlockStatus { .. } => {
                hub.budget.allows(&self.share, STATUS_ENTRIES_MAX as u64 * 8)
            }
            Command::Flush | Command::Trim | Command::WriteZeroes => context.has_room(0),
        };
        if !fits {
            hub.lacks_memory = true;
            self.held = Some(Held { ask, since });
            return false;
        }
        match ask.command {
            Command::BlockStatus { .. } => self.tell_status(ask, hub, context),
            Command::Read if !context.has_memory(u64::from(ask.length)) => {
                self.fail(ask, IoError::NoMemory, hub);
            }
            _ => {
                let length = if ask.command == Command::Read { ask.length } else { 0 };
                let held_bytes = if length > 0 { taken_bytes(length as usize) as u64 } else { 0 };
                self.session.part_begins(ask.slot, true);
                let part = Part { ask, range: (ask.offset, ask.length), held_bytes };
                self.submit(part, PayloadId::NONE, hub, context);
            }
        }
        true
    }

    /// Says what lies where.
    fn tell_status(&mut self, ask: Ask, hub: &mut Hub, context: &mut FrontContext<'_>) {
        let most = if hub.contended { STATUS_BYTES_SHARED } else { u64::MAX };
        let length = u64::from(ask.length).min(most);
        let mut extents: Vec<Extent> = Vec::new();
        context.extents(ask.object, (ask.offset, length), &mut extents);
        let told: u64 = extents.iter().map(|extent| extent.length_bytes).sum();
        self.credit -= (told / STATUS_BYTES_PER_REQUEST).cast_signed();
        let session = &mut self.session;
        let said = self.outbox.stage(hub, |out| {
            let before = out.len();
            session.complete_status(ask.slot, &extents, out);
            out.len() - before
        });
        let held_bytes = said as u64;
        hub.budget.take(&mut self.share, held_bytes);
        self.outbox.hold(held_bytes);
    }

    /// Answers with an error, when what was begun of it is done.
    pub(super) fn fail(&mut self, ask: Ask, failure: IoError, hub: &mut Hub) {
        let session = &mut self.session;
        self.outbox.stage(hub, |out| session.fail(ask.slot, failure, out));
    }

    /// The next piece of a read, or all of it; false if that has to wait.
    fn read_on(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) -> bool {
        let Some(Reading { ask, asked, is_busy: false }) = self.reading else { return false };
        let mut rest = ask.length - asked;
        if !context.has_room(0) {
            return false;
        }
        if self.outbox.records.is_some() {
            rest = rest.min(SEALED_BYTES_MAX); // it is copied, so no more of it at once than that
        }
        let wanted = taken_bytes(rest as usize) as u64;
        let Some(may) = hub.budget.piece(&self.share, wanted, wanted.min(PIECE_BYTES_MIN)) else {
            hub.lacks_memory = true;
            return false; // goes on when somebody has given something back
        };
        let offset = ask.offset + u64::from(asked);
        let length = if may == wanted { rest } else { piece_length(offset, may) };
        if !context.has_memory(u64::from(length)) {
            self.reading = None;
            self.fail(ask, IoError::NoMemory, hub);
            return true;
        }
        let is_last = length == ask.length - asked;
        self.session.part_begins(ask.slot, is_last);
        self.reading = (!is_last).then_some(Reading { ask, asked: asked + length, is_busy: true });
        let held_bytes = taken_bytes(length as usize) as u64;
        self.submit(
            Part { ask, range: (offset, length), held_bytes },
            PayloadId::NONE,
            hub,
            context,
        );
        is_last
    }

    /// Hands a request, or a part of it, to the engine.
    pub(super) fn submit(
        &mut self,
        part: Part,
        payload: PayloadId,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        let Part { ask, range: (offset_bytes, length), held_bytes } = part;
        let op = match ask.command {
            Command::Read | Command::BlockStatus { .. } => Op::Read,
            Command::Write => Op::Write,
            Command::Flush => Op::Flush,
            Command::Trim => Op::Discard,
            Command::WriteZeroes => Op::WriteZeroes,
        };
        if ask.command == Command::Read {
            hub.budget.take(&mut self.share, held_bytes); // a body has its own already
        }
        let front_request = FrontRequest {
            object: ask.object,
            op,
            offset_bytes,
            length_bytes: u64::from(length),
            fua: ask.fua,
            stream: ask.stream.unwrap_or(self.stream),
            class: DurabilityClass::VolatileOk,
            payload,
        };
        let part = self.parts.insert(part) as u64;
        context.submit(front_request, self.key << 32 | part);
    }

    /// One of its ring operations is done.
    pub fn finished(
        &mut self,
        purpose: Purpose,
        done: Finished,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        let count = done.outcome();
        match (purpose, done.back) {
            (Purpose::Receive, Back::Buffer(buffer)) => {
                match count {
                    Ok(count) if count > 0 => self.received(count),
                    _ => self.closing = true,
                }
                match &mut self.outbox.records {
                    Some(records) => records.give_back(buffer),
                    None => self.buffer = Some(buffer),
                }
            }
            (Purpose::Body, _) => self.body_moved(count, hub, context),
            (_, Back::Batch(batch)) => {
                self.outbox.sent(batch, count, &mut self.share, hub, context);
                self.closing |= self.outbox.is_broken();
            }
            _ => {}
        }
        self.advance(hub, context);
    }

    /// One of its requests is done, or a part of it.
    pub fn completed(
        &mut self,
        part: u32,
        done: &Done,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        let Part { ask, range, held_bytes } = self.parts.remove(part as usize);
        let (session, status) = (&mut self.session, done.status);
        let length = self.outbox.stage(hub, |out| session.part_ends(ask.slot, status, range, out));
        if length > 0 && !self.outbox.is_broken() {
            self.outbox.push_read(done, (length, held_bytes), context);
        } else {
            context.release(done.payload);
            hub.budget.give(&mut self.share, held_bytes);
        }
        if let Some(reading) = self.reading.as_mut().filter(|it| it.ask.slot == ask.slot) {
            reading.is_busy = false;
            if let Err(failure) = status {
                self.reading = None;
                self.fail(ask, failure, hub);
            }
        }
        if self.outbox.is_urgent() {
            self.send(hub, context);
            context.ring.submit();
        }
    }

    /// All events of this turn are handled; so many requests may be begun until the end of the next one.
    pub fn turn_ends(&mut self, credit: i64, hub: &mut Hub, context: &mut FrontContext<'_>) {
        // what a long look at extents has taken is paid back in turns
        self.credit = (self.credit + credit).min(credit);
        (self.is_paused, self.begun) = (false, 0);
        self.advance(hub, context);
        if self.hears() {
            self.advance(hub, context);
        }
        self.send(hub, context);
        if self.looks_in_vain >= self.looks_max() {
            self.listen(context);
        }
        self.watch(context.now);
    }

    fn looks_max(&self) -> u32 {
        if self.is_serving { LOOKS_MAX } else { LOOKS_NEGOTIATING_MAX }
    }

    /// Has the socket something for us? Looked for by a plain call while the event loop is awake: a
    /// receive that waits in the ring makes every message of the client wake us, which the client
    /// pays for, and brings messages one by one.
    pub fn hears(&mut self) -> bool {
        if self.is_paused {
            return true;
        }
        if !self.may_receive() || self.looks_in_vain >= self.looks_max() {
            return false;
        }
        let length = self.make_room();
        let room = match (&mut self.outbox.records, &mut self.buffer) {
            (Some(records), _) => records.room(),
            (None, Some(buffer)) => Some(buffer.bytes_mut(self.end..self.end + length)),
            (None, None) => None,
        };
        let Some(room) = room else { return false };
        match rustix::net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => self.received(count),
            Err(Errno::AGAIN | Errno::INTR) => {
                self.looks_in_vain += 1;
                return false;
            }
            _ => self.closing = true,
        }
        (self.wants_receive, self.looks_in_vain) = (false, 0);
        true
    }

    fn received(&mut self, count: usize) {
        self.received_bytes += count as u64;
        match &mut self.outbox.records {
            Some(records) => records.received(count),
            None => self.end += count,
        }
    }

    /// Has the ring what is received next?
    fn is_lent(&self) -> bool {
        let of_records = self.outbox.records.as_ref().is_some_and(|it| it.is_receiving());
        of_records || self.buffer.is_none() || self.receiving_body.is_some()
    }

    fn may_receive(&self) -> bool {
        self.wants_receive && !self.closing && !self.is_lent()
    }

    /// Has the ring listen, since nobody else will.
    pub fn listen(&mut self, context: &mut FrontContext<'_>) {
        if self.may_receive() {
            self.receive(context);
        }
    }

    fn send(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        let way = (self.tag(context, Purpose::Send), self.socket.as_fd());
        self.outbox.send(way, &mut self.share, hub, context);
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
    fn receive(&mut self, context: &mut FrontContext<'_>) {
        let length = self.make_room();
        let lent = match &mut self.outbox.records {
            Some(records) => records.lend(),
            None => self.buffer.take().map(|buffer| (buffer, self.end, length)),
        };
        let Some((buffer, at, length)) = lent else { return };
        (self.wants_receive, self.looks_in_vain) = (false, 0);
        let tag = self.tag(context, Purpose::Receive);
        context.ring.receive(tag, self.socket.as_fd(), buffer, at, length);
    }
}

/// The longest piece from `offset` on of `most` bytes that ends with a block.
pub(super) fn piece_length(offset: u64, most: u64) -> u32 {
    let past = (offset + most) % tandem_block::BLOCK_BYTES;
    u32::try_from(most - past).expect("a piece of a request")
}
