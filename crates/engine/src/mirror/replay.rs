//! How does a journal bring the legs what they lack?
//!
//! Source: requirements I16. At a start after a crash the units of the ring are read in order and
//! written to the legs; the first one that is torn, or is not there, ends it: neither it nor anything
//! behind it was flushed. Then the ring begins anew, and the legs are told.

use super::error::PairError;
use super::flush::Then;
use super::record::Why;
use super::ring::State;
use super::stale::Stale;
use super::{Flight, Mirror, Phase};
use crate::format::FormatError;
use crate::format::pair_journal::{JournalHead, RING_AT, UnitHeader, padded};
use crate::port::{Command, IoOp};
use tandem_block::{BLOCK_BYTES, IoError, KIB, MIB, PayloadId};

/// So far behind the end it is looked whether the journal really ends there.
const SEARCHED_BYTES: u64 = MIB + 64 * KIB;

/// What is being asked of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The first block of a header.
    Header,
    /// All of it.
    LongHeader,
    /// What lies behind the end.
    Search,
}

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

#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    /// The legs are ready for it.
    pub is_due: bool,
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
}

impl Replay {
    pub fn begin(&mut self, head: &JournalHead, legs: Vec<usize>, is_needed: bool) {
        (self.at, self.unit) = (head.tail_at, head.tail_unit);
        self.head = Some(head.clone());
        (self.legs, self.is_needed) = (legs, is_needed);
    }
}

impl Mirror {
    pub(super) fn run_replay(&mut self, out: &mut Vec<Command>) {
        if self.phase != Phase::Restoring || !std::mem::take(&mut self.replay.is_due) {
            return;
        }
        if !self.journal.is_on() {
            self.enter();
        } else if self.replay.head.is_some() {
            self.seek_unit(out);
        } else {
            self.begin_journal(out);
        }
    }

    /// Reads where the next unit must lie.
    fn seek_unit(&mut self, out: &mut Vec<Command>) {
        let ring_bytes = self.replay.head.as_ref().expect("there is a ring").ring_bytes;
        if self.replay.at + BLOCK_BYTES > ring_bytes {
            self.seek_elsewhere(out);
            return;
        }
        self.read_ring(self.replay.at, BLOCK_BYTES, Step::Header, out);
    }

    fn read_ring(&mut self, at: u64, length_bytes: u64, step: Step, out: &mut Vec<Command>) {
        let op = IoOp::ReadMeta { offset_bytes: RING_AT + at, length_bytes };
        self.send_to_journal(op, Flight::RingRead(at, step), out);
    }

    /// It may lie at the begin of the ring; or there is no more.
    fn seek_elsewhere(&mut self, out: &mut Vec<Command>) {
        let replay = &mut self.replay;
        if !replay.wrapped && replay.at > 0 {
            replay.wrapped = true;
            self.read_ring(0, BLOCK_BYTES, Step::Header, out);
            return;
        }
        let ring_bytes = replay.head.as_ref().expect("there is a ring").ring_bytes;
        let length = SEARCHED_BYTES.min(ring_bytes - replay.at.min(ring_bytes));
        if length == 0 {
            self.replayed(out);
        } else {
            let at = replay.at;
            self.read_ring(at, length, Step::Search, out);
        }
    }

    /// A part of the ring was read.
    pub(super) fn ring_read(
        &mut self,
        (at, step): (u64, Step),
        status: Result<(), IoError>,
        bytes: &[u8],
        out: &mut Vec<Command>,
    ) {
        if let Err(error) = status {
            self.replay_failed(PairError::Device(error), out);
            return;
        }
        if step == Step::Search {
            self.search(bytes, out);
            return;
        }
        let head = self.replay.head.as_ref().expect("there is a ring");
        let ring_bytes = head.ring_bytes;
        match UnitHeader::decode(bytes, self.capacity_bytes) {
            Ok(header) => {
                let end = at + header.header_bytes() + header.data_bytes();
                let next = header.own == head.own
                    && header.generation == head.generation
                    && header.sequence == self.replay.unit;
                if next && end <= ring_bytes {
                    self.read_unit(at, header, out);
                } else {
                    self.seek_elsewhere(out);
                }
            }
            Err(FormatError::Short { .. }) if step == Step::Header => {
                let length = UnitHeader::peek(bytes).expect("it was cut short");
                if at + length <= ring_bytes {
                    self.read_ring(at, length, Step::LongHeader, out);
                } else {
                    self.seek_elsewhere(out);
                }
            }
            Err(_) => self.seek_elsewhere(out),
        }
    }

    fn read_unit(&mut self, at: u64, header: UnitHeader, out: &mut Vec<Command>) {
        let buffer = self.name_buffer();
        let length_bytes = header.data_bytes();
        out.push(Command::Reserve { payload: buffer, length_bytes });
        let op = IoOp::Read {
            offset_bytes: RING_AT + at + header.header_bytes(),
            length_bytes,
            into: buffer,
            into_offset_bytes: 0,
        };
        let end = at + header.header_bytes() + length_bytes;
        let (next, data_at, left) = (0, 0, 0);
        let touched = Stale::default();
        self.replay.bringing = Some(Bringing { header, buffer, next, data_at, left, touched });
        self.send_to_journal(op, Flight::RingData(end), out);
    }

    /// The data of a unit was read.
    pub(super) fn ring_data(
        &mut self,
        end: u64,
        status: Result<(), IoError>,
        checksums: &[u32],
        out: &mut Vec<Command>,
    ) {
        let bringing = self.replay.bringing.as_ref().expect("it was read");
        if let Err(error) = status {
            self.drop_brought(out);
            self.replay_failed(PairError::Device(error), out);
        } else if self.contents && bringing.header.checksums != checksums {
            self.drop_brought(out);
            self.seek_elsewhere(out);
        } else {
            (self.replay.at, self.replay.wrapped) = (end, false);
            self.replay.unit += 1;
            self.bring(out);
        }
    }

    fn drop_brought(&mut self, out: &mut Vec<Command>) {
        if let Some(Bringing { buffer, .. }) = self.replay.bringing.take() {
            out.push(Command::Release(buffer));
        }
    }

    /// Writes what may be written at once: writes that overlap follow one another.
    fn bring(&mut self, out: &mut Vec<Command>) {
        loop {
            let Some(bringing) = &mut self.replay.bringing else { return };
            let Some(&(offset, bytes)) = bringing.header.extents.get(bringing.next) else { break };
            let overlaps = bringing.touched.touches(offset, offset + bytes);
            if overlaps || bringing.left >= self.config.depth {
                break;
            }
            bringing.touched.add(offset, offset + bytes);
            let (from, from_offset_bytes) = (bringing.buffer, bringing.data_at);
            bringing.next += 1;
            bringing.data_at += padded(bytes);
            bringing.left += self.replay.legs.len() as u32;
            let offset_bytes = self.place(offset);
            for leg in self.replay.legs.clone() {
                let op = IoOp::Write {
                    offset_bytes,
                    length_bytes: bytes,
                    from,
                    from_offset_bytes,
                    fua: false,
                };
                self.journal.stats.replayed_bytes += bytes;
                self.send(leg, op, Flight::Brought, out);
            }
        }
        let bringing = self.replay.bringing.as_mut().expect("looked at above");
        if bringing.left == 0 {
            bringing.touched = Stale::default();
            if bringing.next < bringing.header.extents.len() {
                self.bring(out);
            } else {
                self.drop_brought(out);
                self.seek_unit(out);
            }
        }
    }

    pub(super) fn brought(&mut self, status: Result<(), IoError>, out: &mut Vec<Command>) {
        let bringing = self.replay.bringing.as_mut().expect("it was written");
        bringing.left -= 1;
        if let Err(error) = status
            && self.phase != Phase::Stopped
        {
            self.fail_start(PairError::Device(error));
        }
        if self.phase != Phase::Stopped {
            self.bring(out);
        }
    }

    /// If a unit behind the end says that the one at the end was durable, that one is damaged.
    fn search(&mut self, bytes: &[u8], out: &mut Vec<Command>) {
        let head = self.replay.head.as_ref().expect("there is a ring");
        let proves = |block: usize| {
            let found = UnitHeader::decode(&bytes[block..], self.capacity_bytes);
            found.is_ok_and(|unit| {
                let same = unit.own == head.own && unit.generation == head.generation;
                same && unit.sequence > self.replay.unit && unit.durable_upto >= self.replay.unit
            })
        };
        if (0..bytes.len()).step_by(BLOCK_BYTES as usize).any(proves) {
            let error = FormatError::Checksum { what: "unit of a pair's journal" };
            let device = self.journal.view().device;
            self.replay_failed(PairError::JournalDamaged { device, error }, out);
        } else {
            self.replayed(out);
        }
    }

    /// The ring cannot be read. Where the legs have what they need from each other, it is done without.
    fn replay_failed(&mut self, error: PairError, out: &mut Vec<Command>) {
        if self.replay.is_needed {
            self.fail_start(error);
            return;
        }
        self.replay.head = None;
        self.resync.all = true;
        self.fail_journal(out);
    }

    /// The legs have all that the ring had.
    fn replayed(&mut self, _out: &mut Vec<Command>) {
        self.replay.head = None;
        self.replay.flushes_left = self.replay.legs.len();
        for leg in self.replay.legs.clone() {
            self.flush_leg(leg, Then::Replayed);
        }
    }

    pub(super) fn replay_durable(&mut self) {
        self.replay.flushes_left -= 1;
        self.replay.is_due = self.replay.flushes_left == 0;
    }

    /// An empty ring; the legs are told when its head is durable.
    fn begin_journal(&mut self, out: &mut Vec<Command>) {
        let generation = self.journal.generation + 1;
        self.journal.begin(generation);
        self.write_head(1, out);
    }

    /// The head of the new generation is durable.
    pub(super) fn journal_is_begun(&mut self, out: &mut Vec<Command>) {
        self.records.journal = self.journal.generation;
        if self.is_alone() {
            // it goes with the record that it serves alone
            self.enter();
        } else {
            self.write_record(Why::Journal, out);
        }
    }

    /// The legs know the generation that counts, or that none does.
    pub(super) fn journal_is_open(&mut self, generation: u32) {
        if self.journal.state == State::Starting && generation == self.journal.generation {
            self.journal.state = State::Open;
        }
        if self.phase == Phase::Restoring {
            self.enter();
        }
    }
}
