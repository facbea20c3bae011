//! How does a journal bring the legs what they lack?
//!
//! Source: requirements I16. At a start after a crash the units of the ring are read in order and
//! written to the legs; the first one that is torn, or is not there, ends it: neither it nor anything
//! behind it was flushed. Then the ring begins anew, and the legs are told.

use super::commands::Commands;
use super::error::PairError;
use super::flight::{Flight, RingStep};
use super::roles::Roles;
use super::stale::Stale;
use crate::format::FormatError;
use crate::format::pair_journal::{JournalHead, RING_AT, UnitHeader, padded};
use crate::port::IoOp;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError, KIB, MIB, PayloadId};

/// So far behind the end it is looked whether the journal really ends there.
const SEARCHED_BYTES: u64 = MIB + 64 * KIB;

/// A unit that is being brought.
#[derive(Clone, Debug)]
struct Bringing {
    header: UnitHeader,
    buffer: PayloadId,
    /// The next extent, and where its data lies.
    next: usize,
    data_at: u64,
    /// Writes under way, and what they touch.
    left: u32,
    touched: Stale,
}

/// What a start does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The ring begins anew.
    BeginJournal,
    /// There is none, or it was brought: the pair serves.
    Enter,
}

/// How a replay ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The legs have all that the ring had, and are to be flushed.
    Replayed,
    /// The ring cannot be read.
    Failed(PairError),
}

#[derive(Clone, Debug)]
pub(super) struct Replay {
    capacity_bytes: u64,
    depth: u32,
    /// The journal's drive.
    device: DeviceId,
    /// The legs are ready for it.
    is_due: bool,
    /// What is read; `None`: there is nothing, or it is over.
    head: Option<JournalHead>,
    legs: Vec<usize>,
    /// A leg has no other way to what it lacks.
    is_needed: bool,
    at: u64,
    unit: u64,
    /// It was looked for at the begin of the ring.
    wrapped: bool,
    bringing: Option<Bringing>,
    flushes_left: usize,
    /// Bytes written to legs.
    bytes: u64,
}

impl Replay {
    pub(crate) fn new(capacity_bytes: u64, depth: u32, device: DeviceId) -> Replay {
        Replay {
            capacity_bytes,
            depth,
            device,
            is_due: false,
            head: None,
            legs: Vec::new(),
            is_needed: false,
            at: 0,
            unit: 0,
            wrapped: false,
            bringing: None,
            flushes_left: 0,
            bytes: 0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the ring holds is for these legs; `is_needed`: they have no other way to it.
    pub(crate) fn resumes(&mut self, head: &JournalHead, legs: Vec<usize>, is_needed: bool) {
        assert!(!legs.is_empty(), "what a ring holds is for a leg");
        (self.at, self.unit) = (head.tail_at, head.tail_unit);
        self.head = Some(head.clone());
        (self.legs, self.is_needed) = (legs, is_needed);
    }

    /// The legs are as right as they can make each other: now the journal, and then users.
    pub(crate) fn is_due(&mut self) {
        self.is_due = true;
    }

    /// Goes on if the legs are ready.
    pub(crate) fn run(
        &mut self,
        has_journal: bool,
        commands: &mut Commands,
    ) -> (Option<Step>, Option<End>) {
        if !std::mem::take(&mut self.is_due) {
            (None, None)
        } else if !has_journal {
            (Some(Step::Enter), None)
        } else if self.head.is_some() {
            (None, self.seek_unit(commands))
        } else {
            (Some(Step::BeginJournal), None)
        }
    }

    fn ring_bytes(&self) -> u64 {
        self.head.as_ref().expect("there is a ring").ring_bytes
    }

    /// Reads where the next unit must lie.
    fn seek_unit(&mut self, commands: &mut Commands) -> Option<End> {
        if self.at + BLOCK_BYTES > self.ring_bytes() {
            return self.seek_elsewhere(commands);
        }
        read_ring(self.at, BLOCK_BYTES, RingStep::Header, commands);
        None
    }

    /// It may lie at the begin of the ring; or there is no more.
    fn seek_elsewhere(&mut self, commands: &mut Commands) -> Option<End> {
        if !self.wrapped && self.at > 0 {
            self.wrapped = true;
            read_ring(0, BLOCK_BYTES, RingStep::Header, commands);
            return None;
        }
        let ring_bytes = self.ring_bytes();
        let length = SEARCHED_BYTES.min(ring_bytes - self.at.min(ring_bytes));
        if length == 0 {
            return Some(self.is_over());
        }
        read_ring(self.at, length, RingStep::Search, commands);
        None
    }

    fn is_over(&mut self) -> End {
        assert!(self.bringing.is_none(), "what was read was brought");
        self.head = None;
        self.flushes_left = self.legs.len();
        End::Replayed
    }

    /// The legs that were brought what the ring had.
    pub(crate) fn legs(&self) -> &[usize] {
        &self.legs
    }

    /// It is done without. Is a leg left that has no other way to what it lacks?
    pub(crate) fn gives_up(&mut self) -> bool {
        if !self.is_needed {
            self.head = None;
        }
        self.is_needed
    }

    /// A leg has durably what it was brought.
    pub(crate) fn is_durable(&mut self) {
        assert!(self.flushes_left > 0, "each leg is flushed once");
        self.flushes_left -= 1;
        self.is_due = self.flushes_left == 0;
    }

    /// A part of the ring was read.
    pub(crate) fn ring_read(
        &mut self,
        (at, step): (u64, RingStep),
        status: Result<(), IoError>,
        bytes: &[u8],
        commands: &mut Commands,
    ) -> Option<End> {
        if let Err(error) = status {
            return Some(End::Failed(PairError::Device(error)));
        }
        if step == RingStep::Search {
            return Some(self.search(bytes));
        }
        let head = self.head.as_ref().expect("there is a ring");
        let ring_bytes = head.ring_bytes;
        match UnitHeader::decode(bytes, self.capacity_bytes) {
            Ok(header) => {
                let end = at + header.header_bytes() + header.data_bytes();
                let next = header.own == head.own
                    && header.generation == head.generation
                    && header.sequence == self.unit;
                if next && end <= ring_bytes {
                    self.read_unit(at, header, commands);
                    return None;
                }
            }
            Err(FormatError::Short { .. }) if step == RingStep::Header => {
                let length = UnitHeader::peek(bytes).expect("it was cut short");
                if at + length <= ring_bytes {
                    read_ring(at, length, RingStep::LongHeader, commands);
                    return None;
                }
            }
            Err(_) => {}
        }
        self.seek_elsewhere(commands)
    }

    fn read_unit(&mut self, at: u64, header: UnitHeader, commands: &mut Commands) {
        assert!(self.bringing.is_none(), "one unit after the other");
        let buffer = commands.name_buffer();
        let length_bytes = header.data_bytes();
        commands.reserve(buffer, length_bytes);
        let op = IoOp::Read {
            offset_bytes: RING_AT + at + header.header_bytes(),
            length_bytes,
            into: buffer,
            into_offset_bytes: 0,
        };
        let end = at + header.header_bytes() + length_bytes;
        let (next, data_at, left) = (0, 0, 0);
        let touched = Stale::default();
        self.bringing = Some(Bringing { header, buffer, next, data_at, left, touched });
        commands.send_to_journal(op, Flight::RingData(end));
    }

    /// The data of a unit was read.
    pub(crate) fn ring_data(
        &mut self,
        end: u64,
        status: Result<(), IoError>,
        checksums: &[u32],
        roles: &Roles,
        commands: &mut Commands,
    ) -> Option<End> {
        let bringing = self.bringing.as_ref().expect("it was read");
        if let Err(error) = status {
            self.drop_brought(commands);
            return Some(End::Failed(PairError::Device(error)));
        }
        if commands.has_contents() && bringing.header.checksums != checksums {
            self.drop_brought(commands);
            return self.seek_elsewhere(commands);
        }
        (self.at, self.wrapped) = (end, false);
        self.unit += 1;
        self.bring(roles, commands)
    }

    fn drop_brought(&mut self, commands: &mut Commands) {
        if let Some(Bringing { buffer, .. }) = self.bringing.take() {
            commands.release(buffer);
        }
    }

    /// Writes what may be written at once: writes that overlap follow one another.
    pub(crate) fn bring(&mut self, roles: &Roles, commands: &mut Commands) -> Option<End> {
        loop {
            let bringing = self.bringing.as_mut()?;
            let Some(&(offset, bytes)) = bringing.header.extents.get(bringing.next) else { break };
            let overlaps = bringing.touched.touches(offset, offset + bytes);
            if overlaps || bringing.left >= self.depth {
                break;
            }
            bringing.touched.add(offset, offset + bytes);
            let (from, from_offset_bytes) = (bringing.buffer, bringing.data_at);
            bringing.next += 1;
            bringing.data_at += padded(bytes);
            bringing.left += self.legs.len() as u32;
            for &leg in &self.legs {
                let op = IoOp::Write {
                    offset_bytes: commands.place(offset),
                    length_bytes: bytes,
                    from,
                    from_offset_bytes,
                    fua: false,
                };
                self.bytes += bytes;
                commands.send(roles, leg, op, Flight::Brought);
            }
        }
        let bringing = self.bringing.as_mut().expect("looked at above");
        if bringing.left > 0 {
            return None;
        }
        bringing.touched = Stale::default();
        if bringing.next < bringing.header.extents.len() {
            return self.bring(roles, commands);
        }
        self.drop_brought(commands);
        self.seek_unit(commands)
    }

    /// A write to a leg has ended.
    pub(crate) fn brought(&mut self) {
        let bringing = self.bringing.as_mut().expect("it was written");
        assert!(bringing.left > 0, "what has ended was with a leg");
        bringing.left -= 1;
    }

    /// If a unit behind the end says that the one at the end was durable, that one is damaged.
    fn search(&mut self, bytes: &[u8]) -> End {
        let head = self.head.as_ref().expect("there is a ring");
        let proves = |block: usize| {
            let found = UnitHeader::decode(&bytes[block..], self.capacity_bytes);
            found.is_ok_and(|unit| {
                let same = unit.own == head.own && unit.generation == head.generation;
                same && unit.sequence > self.unit && unit.durable_upto >= self.unit
            })
        };
        if (0..bytes.len()).step_by(BLOCK_BYTES as usize).any(proves) {
            let error = FormatError::Checksum { what: "unit of a pair's journal" };
            End::Failed(PairError::JournalDamaged { device: self.device, error })
        } else {
            self.is_over()
        }
    }
}

fn read_ring(at: u64, length_bytes: u64, step: RingStep, commands: &mut Commands) {
    assert!(at.is_multiple_of(BLOCK_BYTES), "units begin with a block");
    let op = IoOp::ReadMeta { offset_bytes: RING_AT + at, length_bytes };
    commands.send_to_journal(op, Flight::RingRead(at, step));
}
