//! What does one NBD connection say? A state machine: bytes in, asks out; answers in, bytes out.
//!
//! It does no I/O and holds no data, so that it can be fuzzed and tested byte by byte. The caller
//! moves a write's body and a read's bytes; the session says when and how many.

use super::export::{Export, REQUEST_BYTES_MAX, SECTOR_BYTES};
use super::negotiate::{Negotiation, Progress, Tls};
use super::wire::{self, RequestHeader, chunk, command, error, extent, flag};
use slab::Slab;
use std::rc::Rc;
use tandem_block::{IoError, ObjectId, StreamId};
use tandem_live::Extent;

/// The body of an oversized write is skipped up to this size; beyond, the client is not sane.
const SKIP_BYTES_MAX: u32 = 2 * REQUEST_BYTES_MAX;
/// Requests of one connection under way at most.
const IN_FLIGHT_MAX: usize = 256;
/// Bytes of reads and writes of one connection under way at most (one request always passes).
const IN_FLIGHT_BYTES_MAX: u64 = 64 << 20;

/// Extents in one answer at most; the client asks again for what lies behind them.
pub(super) const STATUS_ENTRIES_MAX: usize = 4096;

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write; the body follows the header.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Write zeroes.
    WriteZeroes,
    /// What lies where? With `one`, only the first extent.
    BlockStatus {
        /// Only one extent.
        one: bool,
    },
}

/// One valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names it within the session until it is answered.
    pub slot: u32,
    /// What.
    pub command: Command,
    /// Which volume.
    pub object: ObjectId,
    /// Whose, if the export says so.
    pub stream: Option<StreamId>,
    /// First byte, a multiple of 512.
    pub offset: u64,
    /// Bytes, a multiple of 512, within the export; 0 for a flush.
    pub length: u32,
    /// Durable before the answer.
    pub fua: bool,
    /// The answer may come in several pieces: a read with structured replies, unless the client forbade it.
    pub may_divide: bool,
}

/// What the next bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At least so many bytes are needed to go on.
    Wait(usize),
    /// So many bytes were understood; go on behind them.
    Consumed(usize),
    /// A request, after so many bytes. The body of a write follows, `length` bytes.
    Ask(usize, Ask),
    /// So many bytes were understood, and what was answered ends the plain part: TLS follows, behind which
    /// [`Session::secured`] is said before anything else.
    StartTls(usize),
    /// Too much is under way: go on after an answer.
    Full,
    /// Take no more; end after what is under way is answered and sent.
    Close,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Flight {
    cookie: u64,
    command: Command,
    offset: u64,
    length: u32,
    /// Of a request that is done in several parts: those under way.
    parts: u32,
    /// The last one was begun.
    is_whole: bool,
    /// What went wrong with one of them.
    failure: Option<IoError>,
}

#[derive(Debug)]
enum Phase {
    Negotiating,
    /// Requests for the export at this position.
    Transmission(usize),
    /// So many bytes of a refused write are thrown away.
    Skipping(usize, u32),
    Closed,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    exports: Rc<[Export]>,
    negotiation: Negotiation,
    phase: Phase,
    flights: Slab<Flight>,
    flight_bytes: u64,
}

impl Session {
    /// A connection that was just made; appends the greeting.
    pub fn new(exports: Rc<[Export]>, out: &mut Vec<u8>) -> Session {
        wire::write_greeting(out);
        Session {
            negotiation: Negotiation::new(Rc::clone(&exports)),
            exports,
            phase: Phase::Negotiating,
            flights: Slab::new(),
            flight_bytes: 0,
        }
    }

    /// Whether a client may or must use TLS; said before its first byte.
    pub fn offer_tls(&mut self, tls: Tls) {
        self.negotiation.tls = tls;
    }

    /// TLS is under way, and the client may use these.
    ///
    /// # Panics
    /// If an export is in use.
    pub fn secured(&mut self, exports: Rc<[Export]>) {
        assert!(matches!(self.phase, Phase::Negotiating), "TLS begins before the requests");
        self.negotiation.secured(Rc::clone(&exports));
        self.exports = exports;
    }

    /// All that is offered to it.
    pub fn exports(&self) -> &Rc<[Export]> {
        &self.exports
    }

    /// What the client has chosen.
    pub fn chosen(&self) -> Option<&Export> {
        match self.phase {
            Phase::Transmission(export) | Phase::Skipping(export, _) => Some(&self.exports[export]),
            Phase::Negotiating | Phase::Closed => None,
        }
    }

    /// Are client and server still agreeing on an export?
    pub fn is_negotiating(&self) -> bool {
        matches!(self.phase, Phase::Negotiating)
    }

    /// Is it in the middle of a body that nobody wants?
    pub fn is_skipping(&self) -> bool {
        matches!(self.phase, Phase::Skipping(..))
    }

    /// While so many clients are served where this one came in, it cannot begin; `None`: it can.
    pub fn set_full(&mut self, clients: Option<usize>) {
        self.negotiation.full = clients;
    }

    /// Requests that wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Understands the next message at the beginning of `input`, and appends what is to be answered
    /// at once.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
        match self.phase {
            Phase::Transmission(export) => self.request(export, input, out),
            Phase::Skipping(export, rest) => {
                let skipped = rest.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                self.phase = match rest - skipped {
                    0 => Phase::Transmission(export),
                    rest => Phase::Skipping(export, rest),
                };
                if skipped == 0 { Step::Wait(1) } else { Step::Consumed(skipped as usize) }
            }
            Phase::Closed => Step::Close,
            Phase::Negotiating => match self.negotiation.step(input, out) {
                Progress::Wait(bytes) => Step::Wait(bytes),
                Progress::Consumed(bytes) => Step::Consumed(bytes),
                Progress::Chosen(bytes, export) => {
                    self.phase = Phase::Transmission(export);
                    Step::Consumed(bytes)
                }
                Progress::StartTls(bytes) => Step::StartTls(bytes),
                Progress::Close => self.close(),
            },
        }
    }

    fn close(&mut self) -> Step {
        self.phase = Phase::Closed;
        Step::Close
    }

    fn request(&mut self, export: usize, input: &[u8], out: &mut Vec<u8>) -> Step {
        if input.len() < wire::REQUEST_BYTES {
            return Step::Wait(wire::REQUEST_BYTES);
        }
        let Some(header) = RequestHeader::parse(input) else { return self.close() };
        if header.command == command::DISC {
            return self.close(); // with whatever flags
        }
        let full = self.flight_bytes > 0
            && self.flight_bytes + u64::from(header.length) > IN_FLIGHT_BYTES_MAX;
        if self.flights.len() >= IN_FLIGHT_MAX || full {
            return Step::Full;
        }
        match self.check(export, &header) {
            Ok(command) => {
                let (offset, length) = match command {
                    Command::Flush => (0, 0),
                    _ => (header.offset, header.length),
                };
                let cookie = header.cookie;
                let (parts, is_whole, failure) = (0, false, None);
                let flight = Flight { cookie, command, offset, length, parts, is_whole, failure };
                self.flight_bytes += flight.bytes();
                let slot = u32::try_from(self.flights.insert(flight)).expect("few are in flight");
                let fua = header.flags & flag::FUA != 0 && command.writes();
                let may_divide = self.negotiation.structured && header.flags & flag::DF == 0;
                let Export { object, stream, .. } = self.exports[export];
                let ask = Ask { slot, command, object, stream, offset, length, fua, may_divide };
                Step::Ask(wire::REQUEST_BYTES, ask)
            }
            Err(number) => {
                if header.command == command::WRITE {
                    if header.length > SKIP_BYTES_MAX {
                        return self.close();
                    }
                    self.phase = Phase::Skipping(export, header.length);
                    if header.length == 0 {
                        self.phase = Phase::Transmission(export);
                    }
                }
                self.refuse(header.command, header.cookie, number, out);
                Step::Consumed(wire::REQUEST_BYTES)
            }
        }
    }

    /// Which command is it, or which error does it earn?
    fn check(&self, export: usize, header: &RequestHeader) -> Result<Command, u32> {
        let (known, own) = match header.command {
            command::READ => (Command::Read, flag::DF),
            command::WRITE => (Command::Write, 0),
            command::FLUSH => (Command::Flush, 0),
            command::TRIM => (Command::Trim, 0),
            // FAST_ZERO was not offered
            command::WRITE_ZEROES => (Command::WriteZeroes, flag::NO_HOLE),
            command::BLOCK_STATUS if self.negotiation.has_meta(export) => {
                let one = header.flags & flag::REQ_ONE != 0;
                (Command::BlockStatus { one }, flag::REQ_ONE)
            }
            _ => return Err(error::EINVAL),
        };
        let read_only = self.exports[export].read_only;
        if known.writes() && read_only {
            return Err(error::EPERM);
        }
        // the document: where FUA was offered, every command may have it, and what does not write ignores
        // it; clients set it on a flush without asking
        let fua = if read_only && known != Command::Flush { 0 } else { flag::FUA };
        if header.flags & !(own | fua) != 0 {
            return Err(error::EINVAL);
        }
        if known == Command::Flush {
            return Ok(known);
        }
        let sectors = u64::from(SECTOR_BYTES);
        let aligned = (header.offset | u64::from(header.length)).is_multiple_of(sectors);
        let too_long =
            matches!(known, Command::Read | Command::Write) && header.length > REQUEST_BYTES_MAX;
        if header.length == 0 || !aligned || too_long {
            return Err(error::EINVAL);
        }
        let size = self.exports[export].size_bytes;
        let fits = header.offset.checked_add(u64::from(header.length)).is_some_and(|e| e <= size);
        match known {
            _ if fits => Ok(known),
            Command::Write | Command::WriteZeroes => Err(error::ENOSPC),
            _ => Err(error::EINVAL),
        }
    }

    /// Answers with an error, in the form that the command wants.
    fn refuse(&self, command: u16, cookie: u64, number: u32, out: &mut Vec<u8>) {
        let structured = matches!(command, command::READ | command::BLOCK_STATUS);
        if structured && self.negotiation.structured {
            wire::write_chunk(out, chunk::ERROR, cookie, 6);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes());
        } else {
            wire::write_simple_reply(out, number, cookie);
        }
    }

    fn take(&mut self, slot: u32) -> Flight {
        let flight = self.flights.remove(slot as usize);
        self.flight_bytes -= flight.bytes();
        flight
    }

    /// A part of a request begins; with `is_last` no more parts follow.
    pub fn part_begins(&mut self, slot: u32, is_last: bool) {
        let flight = &mut self.flights[slot as usize];
        flight.parts += 1;
        flight.is_whole |= is_last;
    }

    /// A part of a request is done, that at `(offset, length)`; appends what is to be said now. After a
    /// successful read the caller appends so many bytes of data. What failed is said when all parts are
    /// done. Parts of a read may follow each other only where the answer may be divided.
    pub fn part_ends(
        &mut self,
        slot: u32,
        status: Result<(), IoError>,
        (offset, length): (u64, u32),
        out: &mut Vec<u8>,
    ) -> u32 {
        let flight = &mut self.flights[slot as usize];
        assert!(flight.parts > 0, "a part ends once");
        flight.parts -= 1;
        flight.failure = flight.failure.or(status.err());
        let ends = flight.is_whole && flight.parts == 0;
        if ends && (flight.failure.is_some() || flight.command != Command::Read) {
            let status = flight.failure.map_or(Ok(()), Err);
            return self.complete(slot, status, out);
        }
        if flight.command != Command::Read || flight.failure.is_some() {
            return 0;
        }
        if length == flight.length {
            return self.complete(slot, Ok(()), out);
        }
        let cookie = flight.cookie;
        let flags = if ends { chunk::DONE } else { 0 };
        wire::write_chunk_of(out, flags, chunk::OFFSET_DATA, cookie, length + 8);
        out.extend_from_slice(&offset.to_be_bytes());
        if ends {
            self.take(slot);
        }
        length
    }

    /// No more parts of a request follow, and it fails; it is answered when those under way are done.
    pub fn fail(&mut self, slot: u32, failure: IoError, out: &mut Vec<u8>) {
        let flight = &mut self.flights[slot as usize];
        flight.failure = flight.failure.or(Some(failure));
        flight.is_whole = true;
        if flight.parts == 0 {
            self.complete(slot, Err(failure), out);
        }
    }

    /// Answers a request; appends the head of the reply. After a successful read, the caller
    /// appends so many bytes of data.
    pub fn complete(&mut self, slot: u32, status: Result<(), IoError>, out: &mut Vec<u8>) -> u32 {
        let flight = self.take(slot);
        match (status, flight.command) {
            (Err(failure), kind) => {
                let command = match kind {
                    Command::Read => command::READ,
                    Command::BlockStatus { .. } => command::BLOCK_STATUS,
                    _ => command::WRITE,
                };
                self.refuse(command, flight.cookie, number(failure), out);
                0
            }
            (Ok(()), Command::Read) if self.negotiation.structured => {
                wire::write_chunk(out, chunk::OFFSET_DATA, flight.cookie, flight.length + 8);
                out.extend_from_slice(&flight.offset.to_be_bytes());
                flight.length
            }
            (Ok(()), kind) => {
                wire::write_simple_reply(out, 0, flight.cookie);
                if kind == Command::Read { flight.length } else { 0 }
            }
        }
    }

    /// Answers a `BlockStatus` with what lies from its offset on.
    pub fn complete_status(&mut self, slot: u32, extents: &[Extent], out: &mut Vec<u8>) {
        let flight = self.take(slot);
        let one = flight.command == Command::BlockStatus { one: true };
        let mut rest = u64::from(flight.length);
        let mut entries: Vec<(u32, u32)> = Vec::new();
        for found in extents {
            let is_full = one && !entries.is_empty() || entries.len() >= STATUS_ENTRIES_MAX;
            let length = found.length_bytes.min(rest);
            rest -= length;
            let flags = if found.allocated { 0 } else { extent::HOLE | extent::ZERO };
            let length = u32::try_from(length).expect("at most the length that was asked for");
            match entries.last_mut() {
                _ if length == 0 => {}
                Some(last) if last.1 == flags => last.0 += length,
                Some(_) if is_full => break,
                _ => entries.push((length, flags)),
            }
        }
        if entries.is_empty() {
            entries.push((flight.length, 0)); // nothing is known, so it may be data
        }
        let bytes = u32::try_from(4 + 8 * entries.len()).expect("at most one entry per sector");
        wire::write_chunk(out, chunk::BLOCK_STATUS, flight.cookie, bytes);
        out.extend_from_slice(&wire::BASE_ALLOCATION_ID.to_be_bytes());
        for (length, flags) in entries {
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&flags.to_be_bytes());
        }
    }
}

impl Command {
    /// May it change what is stored?
    pub fn writes(self) -> bool {
        matches!(self, Command::Write | Command::Trim | Command::WriteZeroes)
    }
}

impl Flight {
    /// Bytes of data that it keeps in RAM.
    fn bytes(&self) -> u64 {
        match self.command {
            Command::Read | Command::Write => u64::from(self.length),
            _ => 0,
        }
    }
}

/// NBD knows only some errnos.
fn number(failure: IoError) -> u32 {
    match failure.errno() {
        12 => error::ENOMEM,
        22 => error::EINVAL,
        28 => error::ENOSPC,
        95 => error::ENOTSUP,
        108 => error::ESHUTDOWN,
        _ => error::EIO,
    }
}

/// See [`super::fuzz_session`]: feeds `bytes` in pieces whose sizes they name themselves, and answers
/// every ask, at once or late.
pub(super) fn fuzz(bytes: &[u8]) -> u64 {
    let exports: Rc<[Export]> = Rc::from([
        Export {
            name: "a".into(),
            object: ObjectId(1),
            size_bytes: 1 << 20,
            read_only: false,
            stream: None,
        },
        Export {
            name: "b".into(),
            object: ObjectId(2),
            size_bytes: 1 << 40,
            read_only: true,
            stream: None,
        },
    ]);
    let mut out = Vec::new();
    let mut session = Session::new(Rc::clone(&exports), &mut out);
    // a client whose first option is STARTTLS meets a server that wants it
    let wants_tls = bytes.get(12..16) == Some(&wire::option::STARTTLS.to_be_bytes()[..]);
    session.offer_tls(if wants_tls { Tls::Required } else { Tls::Offered });
    let (mut at, mut waiting, mut asks) = (0usize, Vec::new(), 0);
    loop {
        out.clear();
        let negotiates = session.is_negotiating();
        let step = session.step(&bytes[at..], &mut out);
        if negotiates {
            check_replies(&out);
        }
        match step {
            Step::Close => return asks,
            Step::Wait(needed) => {
                assert!(needed > bytes.len() - at, "it waits for what is there");
                return asks;
            }
            Step::Consumed(count) => {
                assert!(count > 0 && count <= bytes.len() - at, "it consumes what is there");
                at += count;
            }
            Step::Ask(count, ask) => {
                at += count;
                asks += 1;
                check_ask(&ask);
                if ask.command == Command::Write {
                    at = bytes.len().min(at + ask.length as usize);
                }
                waiting.push(ask);
            }
            Step::StartTls(count) => {
                assert!(session.in_flight() == 0, "it is in use before it is safe");
                at += count;
                session.secured(Rc::clone(&exports));
            }
            Step::Full => assert!(!waiting.is_empty(), "it is full of nothing"),
        }
        let late = bytes.get(at).is_some_and(|byte| byte % 3 != 0) && step != Step::Full;
        while !late && let Some(ask) = waiting.pop() {
            match ask.command {
                Command::BlockStatus { .. } => session.complete_status(ask.slot, &[], &mut out),
                _ => {
                    session.complete(ask.slot, Ok(()), &mut out);
                }
            }
        }
        assert!(session.in_flight() == waiting.len(), "each ask is answered once");
    }
}

/// What is said in a negotiation holds no string that must not be sent.
fn check_replies(mut out: &[u8]) {
    while let Some((head, rest)) = out.split_at_checked(wire::OPTION_BYTES + 4) {
        let mut reader = wire::Reader::new(head);
        if reader.u64() != Some(wire::OPTION_REPLY_MAGIC) {
            return; // the answer to a choice in the old way has no head
        }
        let (_, kind, length) = (reader.u32(), reader.u32(), reader.u32());
        let data = length.and_then(|length| rest.split_at_checked(length as usize));
        let (data, rest) = data.expect("a reply is whole");
        let is_error = kind.is_some_and(|kind| kind & (1 << 31) != 0);
        assert!(!is_error || wire::as_string(data).is_some(), "an error that must not be sent");
        out = rest;
    }
}

fn check_ask(ask: &Ask) {
    let size = if ask.object == ObjectId(1) { 1u64 << 20 } else { 1 << 40 };
    let length = u64::from(ask.length);
    assert!((ask.offset | length).is_multiple_of(512) && ask.offset + length <= size);
    assert!((length > 0) != (ask.command == Command::Flush));
    assert!(
        ask.length <= REQUEST_BYTES_MAX || !matches!(ask.command, Command::Read | Command::Write)
    );
}

#[cfg(test)]
#[path = "session/tests.rs"]
mod tests;
