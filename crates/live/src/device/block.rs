//! How does a block device or file answer? Through the ring.
//!
//! Flush is `fdatasync`, FUA is `RWF_DSYNC`, TRIM is a discard or a punched hole, by what the drive
//! turns out to know. Short transfers are continued; what the drive refuses is an error of that
//! device. Reads of a part of a drive's sectors go through a buffer that has all of them; the engine writes
//! whole blocks alone.

use super::failures::{self, DriveFailures, Failures};
use super::{Device, DeviceContext, IoDone, OpenedFile, block_range, fits};
use crate::buffer::Memory;
use slab::Slab;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, PayloadId};
use tandem_engine::{Io, IoId, IoOp};

/// How a range is given back, from the best way that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrimWay {
    Discard,
    PunchHole,
    /// The drive knows no TRIM; nothing is lost by not doing it.
    Nothing,
}

#[derive(Debug)]
enum Kind {
    Read { into: PayloadId, into_at: u64 },
    Write { from: PayloadId, from_at: u64, durable: bool },
    ReadMeta,
    WriteMeta { durable: bool },
    Flush,
    Trim(TrimWay),
}

#[derive(Debug)]
struct Flight {
    io: IoId,
    name: &'static str,
    kind: Kind,
    offset: u64,
    /// Buffer and the first byte in it; `None` for flush and TRIM.
    memory: Option<(Rc<Memory>, usize)>,
    length: u64,
    moved: u64,
    retries: u32,
    /// A read that is no range of the drive's sectors, or of memory: what of it is wanted.
    part: Option<Part>,
}

/// The wanted part of a read of whole sectors, which come piece by piece through a buffer.
#[derive(Debug)]
struct Part {
    /// Where it goes, and the first byte there.
    into: Rc<Memory>,
    into_at: usize,
    /// Its first byte among those that are read, and how many.
    skip: u64,
    length: u64,
}

/// Bytes that such a read gets at once.
const PIECE_BYTES_MAX: u64 = 1 << 20;

impl Part {
    /// Of a read into `memory` at `at` from a drive's byte `offset` on. `None`: it begins and ends at sectors.
    fn of(
        (memory, at): (&Rc<Memory>, usize),
        (offset, length): (u64, u64),
        sector_bytes: u64,
    ) -> Option<Part> {
        let is_whole = (offset | length | at as u64).is_multiple_of(sector_bytes);
        let skip = offset % sector_bytes;
        (!is_whole).then(|| Part { into: Rc::clone(memory), into_at: at, skip, length })
    }

    /// Takes what it wants of bytes from `from` on that have come into `piece` at `at`.
    fn take(&self, piece: &Memory, at: usize, from: u64, bytes: u64) {
        let first = from.max(self.skip);
        let end = (from + bytes).min(self.skip + self.length);
        if first < end {
            let mut wanted = Vec::with_capacity((end - first) as usize);
            piece.append_to(at + (first - from) as usize, (end - first) as usize, &mut wanted);
            self.into.write(self.into_at + (first - self.skip) as usize, &wanted);
        }
    }
}

impl Flight {
    /// Where what is left goes, and how much of it at once.
    fn rest(&self) -> Option<(Rc<Memory>, usize, usize)> {
        let (memory, at) = self.memory.as_ref()?;
        let left = self.length - self.moved;
        if self.part.is_none() {
            return Some((Rc::clone(memory), at + self.moved as usize, left as usize));
        }
        let at = self.moved % PIECE_BYTES_MAX;
        Some((Rc::clone(memory), at as usize, left.min(PIECE_BYTES_MAX - at) as usize))
    }

    /// So many bytes more have come, or gone. True: some are left.
    fn moves(&mut self, bytes: u64) -> bool {
        if let (Some(part), Some((piece, _))) = (&self.part, &self.memory) {
            part.take(piece, (self.moved % PIECE_BYTES_MAX) as usize, self.moved, bytes);
        }
        self.moved += bytes;
        self.moved < self.length
    }
}

/// Interrupted operations are repeated this often.
const RETRIES_MAX: u32 = 100;

/// A block device or file.
pub(crate) struct BlockDevice {
    id: DeviceId,
    file: OpenedFile,
    flights: Slab<Flight>,
    trim: TrimWay,
    failures: Failures,
    /// Its file was seen shorter than it was: what it says of a flush is no longer believed.
    cut: Option<String>,
}

impl BlockDevice {
    pub(crate) fn new(id: DeviceId, file: OpenedFile) -> BlockDevice {
        let trim = if file.is_block_device { TrimWay::Discard } else { TrimWay::PunchHole };
        let failures = Failures::of(file.path().display().to_string());
        BlockDevice { id, file, flights: Slab::new(), trim, failures, cut: None }
    }

    /// Starts, or continues, what flight `key` has left.
    fn drive(&mut self, key: usize, context: &mut DeviceContext<'_>) {
        let flight = &self.flights[key];
        let tag = context.tag(key as u64);
        let fd = self.file.fd();
        let offset = flight.offset + flight.moved;
        let rest = flight.length - flight.moved;
        let memory = flight.rest();
        match (&flight.kind, memory) {
            (Kind::Read { .. } | Kind::ReadMeta, Some(memory)) => {
                context.ring.read(tag, fd, offset, memory);
            }
            (Kind::Write { durable, .. } | Kind::WriteMeta { durable }, Some(memory)) => {
                context.ring.write(tag, fd, offset, memory, *durable);
            }
            (Kind::Trim(TrimWay::Discard), _) => context.ring.discard(tag, fd, offset, rest),
            (Kind::Trim(_), _) => context.ring.punch_hole(tag, fd, offset, rest),
            _ => context.ring.sync(tag, fd),
        }
    }

    fn flight(&self, io: Io, context: &mut DeviceContext<'_>) -> Flight {
        let (offset, length) = super::extent(&io.op);
        let name = failures::name(&io.op);
        let (kind, memory) = match io.op {
            IoOp::Read { into, into_offset_bytes: at, .. } => {
                let memory = context.payloads.read_begins(into, at, length);
                (Kind::Read { into, into_at: at }, Some((memory, at as usize)))
            }
            IoOp::Write { from, from_offset_bytes: at, fua, .. } => {
                let memory = context.payloads.source(from, at, length);
                (Kind::Write { from, from_at: at, durable: fua }, Some((memory, at as usize)))
            }
            IoOp::ReadMeta { .. } => {
                (Kind::ReadMeta, Some((context.payloads.scratch(length as usize), 0)))
            }
            IoOp::WriteMeta { bytes, fua, .. } => {
                let memory = context.payloads.scratch(bytes.len());
                memory.write(0, &bytes);
                (Kind::WriteMeta { durable: fua }, Some((memory, 0)))
            }
            IoOp::Flush => (Kind::Flush, None),
            IoOp::Trim { .. } => (Kind::Trim(self.trim), None),
        };
        let plain = Flight {
            io: io.id,
            name,
            kind,
            offset,
            memory,
            length,
            moved: 0,
            retries: 0,
            part: None,
        };
        self.in_sectors(plain, context)
    }

    /// The flight as the drive takes it: a read of a part of its sectors gets all of them.
    fn in_sectors(&self, flight: Flight, context: &mut DeviceContext<'_>) -> Flight {
        let sector_bytes = self.file.sector_bytes;
        let (Kind::Read { .. }, Some((memory, at))) = (&flight.kind, &flight.memory) else {
            return flight;
        };
        let part = Part::of((memory, *at), (flight.offset, flight.length), sector_bytes);
        if part.is_none() {
            return flight;
        }
        let offset = flight.offset / sector_bytes * sector_bytes;
        let end = (flight.offset + flight.length).next_multiple_of(sector_bytes);
        let piece = context.payloads.scratch((end - offset).min(PIECE_BYTES_MAX) as usize);
        Flight { offset, length: end - offset, memory: Some((piece, 0)), part, ..flight }
    }

    /// Notes what the ring said; true if the flight goes on.
    fn goes_on(&mut self, key: usize, result: i32) -> Result<bool, String> {
        let flight = &mut self.flights[key];
        match &mut flight.kind {
            Kind::Trim(way) if result < 0 => {
                let unknown = [libc::EOPNOTSUPP, libc::ENOTTY, libc::ENOSYS, libc::EINVAL];
                if !unknown.contains(&-result) {
                    return Err(failures::errno(result));
                }
                let next = match way {
                    TrimWay::Discard => TrimWay::PunchHole,
                    _ => TrimWay::Nothing,
                };
                (*way, self.trim) = (next, next);
                Ok(next != TrimWay::Nothing)
            }
            _ if matches!(-result, libc::EINTR | libc::EAGAIN) && flight.retries < RETRIES_MAX => {
                flight.retries += 1;
                Ok(true)
            }
            _ if result < 0 => Err(failures::errno(result)),
            Kind::Trim(_) | Kind::Flush => Ok(false),
            _ => {
                // a transfer of nothing is the end of the file: somebody cut it
                if result == 0 {
                    self.cut = self.cut.take().or_else(|| self.file.is_cut());
                    let why = self.cut.clone();
                    return Err(why.unwrap_or_else(|| "nothing was transferred".into()));
                }
                Ok(flight.moves(u64::from(result.unsigned_abs())))
            }
        }
    }

    /// Does a command that changes something, or metadata, begin and end at sectors? The engine sees to that.
    fn is_of_sectors(&self, op: &IoOp) -> bool {
        let (offset, length) = super::extent(op);
        let is_read = matches!(op, IoOp::Read { .. });
        is_read || (offset | length).is_multiple_of(self.file.sector_bytes)
    }

    /// A file that had no bytes when it was opened took any read then, whatever the blocks of its file system are.
    /// Is this a read of single sectors, which such a file refuses later?
    fn tells_of_large_blocks(&self, key: usize) -> bool {
        let Flight { kind, part: None, memory: Some((memory, at)), .. } = &self.flights[key] else {
            return false;
        };
        let range = (self.flights[key].offset, self.flights[key].length);
        let is_file = self.file.direct && !self.file.is_block_device;
        let is_read = matches!(kind, Kind::Read { .. });
        is_file && is_read && Part::of((memory, *at), range, BLOCK_BYTES).is_some()
    }

    fn is_cut(&mut self) -> bool {
        self.cut = self.cut.take().or_else(|| self.file.is_cut());
        self.cut.is_some()
    }

    fn conclude(
        &mut self,
        key: usize,
        status: Result<(), IoError>,
        context: &mut DeviceContext<'_>,
    ) {
        let mut flight = self.flights.remove(key);
        if let Some(part) = flight.part.take() {
            let (piece, _) = flight.memory.take().expect("a read has memory");
            context.payloads.give_back(piece);
            (flight.offset, flight.length) = (flight.offset + part.skip, part.length);
        }
        let mut done =
            IoDone { io: flight.io, status, blocks: None, bytes: Vec::new(), took: None };
        match flight.kind {
            Kind::Read { into, into_at } if status.is_ok() => {
                done.blocks = block_range(flight.offset, into, into_at, flight.length);
            }
            Kind::Read { into, into_at } => {
                context.payloads.read_failed(into, into_at, flight.length);
            }
            Kind::Write { from, from_at, .. } if status.is_ok() => {
                done.blocks = block_range(flight.offset, from, from_at, flight.length);
            }
            Kind::ReadMeta | Kind::WriteMeta { .. } => {
                if let Some((memory, _)) = flight.memory {
                    if status.is_ok() && matches!(flight.kind, Kind::ReadMeta) {
                        memory.append_to(0, flight.length as usize, &mut done.bytes);
                    }
                    context.payloads.give_back(memory);
                }
            }
            _ => {}
        }
        context.done.push_back(done);
    }
}

impl Device for BlockDevice {
    fn capacity_bytes(&self) -> u64 {
        self.file.size_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.file.sector_bytes
    }

    fn submit(&mut self, io: Io, context: &mut DeviceContext<'_>) {
        if !fits(&io.op, self.file.size_bytes) || !self.is_of_sectors(&io.op) {
            context.finish(io.id, Err(IoError::OutOfRange));
            return;
        }
        if matches!(io.op, IoOp::Trim { .. }) && self.trim == TrimWay::Nothing {
            context.finish(io.id, Ok(()));
            return;
        }
        if matches!(io.op, IoOp::Flush) && self.is_cut() {
            // what was acknowledged is not there any more, so it must not be called durable
            let why = self.cut.clone().unwrap_or_default();
            self.failures.note(context.now, "flush", (0, 0), &why);
            context.finish(io.id, Err(IoError::Device(self.id)));
            return;
        }
        let flight = self.flight(io, context);
        let key = self.flights.insert(flight);
        self.drive(key, context);
    }

    fn finished(&mut self, value: u64, result: i32, context: &mut DeviceContext<'_>) {
        let key = value as usize;
        if result == -libc::EINVAL && self.tells_of_large_blocks(key) {
            self.file.sector_bytes = BLOCK_BYTES;
            let flight = Flight { moved: 0, ..self.flights.remove(key) };
            let flight = self.in_sectors(flight, context);
            let key = self.flights.insert(flight);
            self.drive(key, context);
            return;
        }
        match self.goes_on(key, result) {
            Ok(true) => self.drive(key, context),
            Ok(false) => self.conclude(key, Ok(()), context),
            Err(why) => {
                let Flight { name, offset, length, .. } = self.flights[key];
                self.failures.note(context.now, name, (offset, length), &why);
                self.conclude(key, Err(IoError::Device(self.id)), context);
            }
        }
    }

    fn failures(&self) -> Option<DriveFailures> {
        self.failures.told()
    }
}

#[cfg(test)]
#[path = "block/tests.rs"]
mod tests;
