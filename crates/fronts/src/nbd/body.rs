//! How does the body of a write become payloads of the engine?
//!
//! It is received straight into a payload: all of it if the client may take so much memory, else piece by
//! piece, each of which is handed to the engine when it is there. The write is answered after the last
//! one. Who has announced more than it sends gives the memory back when somebody else lacks some.

use super::connection::{Connection, PIECE_BYTES_MIN, Part, Purpose, piece_length};
use super::hub::Hub;
use super::session::Ask;
use std::os::fd::AsFd;
use tandem_block::{Duration, Instant, IoError, PayloadId};
use tandem_live::budget::Share;
use tandem_live::buffer::taken_bytes;
use tandem_live::front::FrontContext;
use tandem_live::uring::{Tag, Under};

/// The rest of a piece is received straight into its payload from this size on.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// A body of which less than this comes in this time is slow, and gets smaller pieces while memory is
/// short (guess: 2.5 MB/s).
const SLOW_BYTES: usize = 256 << 10;
const SLOW_AFTER: Duration = Duration::from_ms(100);
/// `ECANCELED`: an operation was cut short that had moved nothing yet.
pub(super) const CANCELED: i32 = 125;

/// A write whose body is arriving.
#[derive(Debug)]
pub(super) struct Body {
    ask: Ask,
    /// Bytes of it that were handed on, or thrown away.
    passed: u32,
    piece: Option<Piece>,
    /// It was refused: the rest is thrown away.
    is_refused: bool,
}

/// What is filled now.
#[derive(Debug)]
struct Piece {
    payload: PayloadId,
    length: usize,
    filled: usize,
    held_bytes: u64,
    /// How much of it was there when memory was short, if it is not received straight into it.
    seen: Option<(Instant, usize)>,
}

/// A receive straight into a piece.
#[derive(Debug)]
pub(super) struct Receiving {
    under: Under,
    since: Instant,
    /// It was cut short, to learn how much has come.
    is_asked: bool,
}

impl Body {
    pub fn new(ask: Ask) -> Body {
        Body { ask, passed: 0, piece: None, is_refused: false }
    }

    /// Gives back what it holds.
    pub fn forget(self, share: &mut Share, hub: &mut Hub, context: &mut FrontContext<'_>) {
        if let Some(piece) = self.piece {
            context.release(piece.payload);
            hub.budget.give(share, piece.held_bytes);
        }
    }
}

impl Piece {
    /// Is it slow, by what has come since it was first looked at?
    fn is_slow(&mut self, now: Instant) -> bool {
        let (since, filled) = *self.seen.get_or_insert((now, self.filled));
        if now.since(since) < SLOW_AFTER {
            return false;
        }
        self.seen = Some((now, self.filled));
        self.filled - filled < SLOW_BYTES
    }
}

impl Receiving {
    /// Cuts it short, to learn how much has come; false if it was asked before, or cannot be known.
    pub fn asks(&mut self, tag: Tag, context: &mut FrontContext<'_>) -> bool {
        !std::mem::replace(&mut self.is_asked, true) && context.ring.cut_short(tag, self.under)
    }
}

impl Connection {
    /// Moves what is there of a body into its payload; false if the rest has to come, or has to wait.
    pub(super) fn fill_body(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) -> bool {
        let Some(body) = &self.body else { return true };
        if body.is_refused {
            return self.throw_away(hub, context);
        }
        if body.piece.is_none() && !self.begin_piece(hub, context) {
            // one that was just refused goes on by being thrown away
            return self.body.as_ref().is_some_and(|body| body.is_refused);
        }
        let Some(Body { piece: Some(piece), .. }) = &mut self.body else { return true };
        let rest = piece.length - piece.filled;
        let count = rest.min(self.end - self.start);
        if count > 0 {
            let buffer = self.buffer.as_mut().expect("advance checks it");
            let bytes = buffer.bytes_mut(self.start..self.start + count);
            context.payloads.fill(piece.payload, piece.filled, bytes);
            piece.filled += count;
            self.start += count;
        }
        self.large = rest >= DIRECT_BYTES_MIN;
        let rest = rest - count;
        if rest == 0 {
            self.pass_on(hub, context);
            return true;
        }
        if rest < DIRECT_BYTES_MIN || self.outbox.records.is_some() {
            return self.needs_more(hub, context);
        }
        let target = (context.payloads.memory(piece.payload), piece.filled, rest);
        let tag = self.tag(context, Purpose::Body);
        let under = context.ring.receive_all(tag, self.socket.as_fd(), target);
        self.receiving_body = Some(Receiving { under, since: context.now, is_asked: false });
        false
    }

    /// What was received straight into a piece has come, or as much as came until it was cut short.
    pub(super) fn body_moved(
        &mut self,
        count: std::io::Result<usize>,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        let Some(receiving) = self.receiving_body.take() else { return };
        let count = match count {
            Ok(count) => count,
            // nothing had come
            Err(why) if receiving.is_asked && why.raw_os_error() == Some(CANCELED) => 0,
            Err(_) => {
                self.closing = true;
                return;
            }
        };
        self.closing |= count == 0 && !receiving.is_asked;
        self.received_bytes += count as u64;
        let Some(Body { piece: Some(piece), .. }) = &mut self.body else { return };
        piece.filled += count;
        let is_slow = receiving.is_asked && count < SLOW_BYTES && piece.filled < piece.length;
        if is_slow && hub.lacks_memory {
            self.yield_memory(hub, context);
        }
    }

    /// Hands a piece to the engine that is there.
    fn pass_on(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        let Some(Body { ask, passed, piece: Some(piece), .. }) = self.body.take() else { return };
        let length = u32::try_from(piece.length).expect("a piece of a request");
        let is_last = passed + length == ask.length;
        if !is_last {
            self.body = Some(Body { passed: passed + length, ..Body::new(ask) });
        }
        context.payloads.seal(piece.payload);
        self.session.part_begins(ask.slot, is_last);
        let range = (ask.offset + u64::from(passed), length);
        let part = Part { ask, range, held_bytes: piece.held_bytes };
        self.submit(part, piece.payload, hub, context);
    }

    /// Takes memory for the next piece of a body; false if there is none for it now, or none at all, and
    /// then it is refused.
    fn begin_piece(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) -> bool {
        let Some(&Body { ask, passed, .. }) = self.body.as_ref() else { return false };
        if !context.has_room(0) {
            return false;
        }
        let rest = ask.length - passed;
        let wanted = taken_bytes(rest as usize) as u64;
        let Some(may) = hub.budget.piece(&self.share, wanted, wanted.min(PIECE_BYTES_MIN)) else {
            hub.lacks_memory = true;
            return false; // goes on when somebody has given something back
        };
        let offset = ask.offset + u64::from(passed);
        let length = if may == wanted { rest } else { piece_length(offset, may) } as usize;
        let piece = self.new_piece(length, 0, offset, hub, context);
        if piece.is_none() {
            self.fail(ask, IoError::NoMemory, hub);
        }
        if let Some(body) = &mut self.body {
            body.is_refused = piece.is_none();
            body.piece = piece;
        }
        !self.body.as_ref().is_some_and(|body| body.is_refused)
    }

    fn new_piece(
        &mut self,
        length: usize,
        filled: usize,
        offset: u64,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) -> Option<Piece> {
        let payload = context.payloads.begin(length, offset)?;
        let held_bytes = taken_bytes(length) as u64;
        hub.budget.take(&mut self.share, held_bytes);
        Some(Piece { payload, length, filled, held_bytes, seen: None })
    }

    /// Somebody lacks memory: a body that is slow is cut short, and gives back what it has taken and not
    /// filled.
    pub(super) fn yields(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        let tag = self.tag(context, Purpose::Other);
        if let Some(receiving) = &mut self.receiving_body {
            if context.now.since(receiving.since) >= SLOW_AFTER {
                receiving.asks(tag, context);
            }
            return;
        }
        let piece = self.body.as_mut().and_then(|body| body.piece.as_mut());
        if piece.is_some_and(|piece| piece.is_slow(context.now)) {
            self.yield_memory(hub, context);
        }
    }

    fn yield_memory(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        let Some(Body { ask, passed, piece: Some(piece), .. }) = &mut self.body else { return };
        let (ask, passed, filled) = (*ask, *passed, piece.filled);
        let offset = ask.offset + u64::from(passed);
        let least = (filled as u64 + 1).next_power_of_two().max(2 * PIECE_BYTES_MIN);
        let length = piece_length(offset, least) as usize;
        if length >= piece.length || length <= filled {
            return;
        }
        let old = piece.payload;
        let Some(new) = self.new_piece(length, filled, offset, hub, context) else { return };
        context.payloads.memory(new.payload).copy_from(0, &context.payloads.memory(old), 0, filled);
        let before = self.body.replace(Body { passed, piece: Some(new), ..Body::new(ask) });
        if let Some(before) = before {
            before.forget(&mut self.share, hub, context);
        }
    }

    /// Drops what is there of a body that was refused; false if the rest has to come.
    fn throw_away(&mut self, hub: &mut Hub, context: &FrontContext<'_>) -> bool {
        let Some(body) = &mut self.body else { return true };
        let rest = (body.ask.length - body.passed) as usize;
        let count = rest.min(self.end - self.start);
        self.start += count;
        body.passed += u32::try_from(count).expect("a part of a body");
        if count == rest {
            self.body = None;
            return true;
        }
        self.needs_more(hub, context)
    }
}
