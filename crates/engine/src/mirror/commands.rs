//! Which commands are with the drives of a pair, and what is the engine told?
//!
//! What the pair sends, asks the event loop and answers passes here, so it leaves in the order in which
//! it was said.

use super::flight::{Flight, Sent};
use super::roles::Roles;
use crate::format::pair::HEADER_BYTES;
use crate::mutant::Mutant;
use crate::port::{Command, Io, IoId, IoOp};
use slab::Slab;
use tandem_block::{DeviceId, Instant, IoError, PayloadId};

/// Set in the ids of a mirror's own commands; the engine's ids are small numbers.
pub const IO_BIT: u32 = 1 << 31;
/// The number of the mirror in those ids.
const INDEX_SHIFT: u32 = 24;
/// Set in the names of a mirror's own buffers.
const BUFFER_BIT: u64 = 1 << 62;
/// In the place of a leg: the journal.
pub(super) const JOURNAL: usize = 2;
/// … the event loop
const EVENT_LOOP: usize = 3;

/// Which mirror does this command belong to, if any?
pub fn owner(io: IoId) -> Option<usize> {
    (io.0 & IO_BIT != 0).then_some(((io.0 & !IO_BIT) >> INDEX_SHIFT) as usize)
}

/// The end of a command to the pair, for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) io: IoId,
    pub(crate) status: Result<(), IoError>,
    pub(crate) checksums: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(crate) payload: PayloadId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// What a pair is told of its drives at birth.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairDrives {
    pub(crate) index: usize,
    pub(crate) legs: [DeviceId; 2],
    pub(crate) journal: DeviceId,
    /// Each leg begins with its records.
    pub(crate) has_records: bool,
    pub(crate) contents: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Commands {
    drives: PairDrives,
    now: Instant,
    sent: Slab<Sent>,
    buffers: u64,
    out: Vec<Command>,
    ended: Vec<Ended>,
    /// Answers that wait until a death is on record.
    after: Vec<Ended>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Commands {
    pub(crate) fn new(drives: PairDrives) -> Commands {
        let PairDrives { legs, journal, .. } = drives;
        assert_ne!(legs[0], legs[1], "a pair has two drives");
        assert!(!legs.contains(&journal), "a journal is on a drive of its own");
        Commands {
            drives,
            now: Instant::ZERO,
            sent: Slab::new(),
            buffers: 0,
            out: Vec::new(),
            ended: Vec::new(),
            after: Vec::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn begins(&mut self, now: Instant) {
        assert!(now >= self.now, "time never goes back");
        self.now = now;
    }

    /// Moves what was sent since the last time.
    pub(crate) fn take_out(&mut self, out: &mut Vec<Command>) {
        out.append(&mut self.out);
    }

    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn has_contents(&self) -> bool {
        self.drives.contents
    }

    pub(crate) fn legs(&self) -> [DeviceId; 2] {
        self.drives.legs
    }

    /// This leg is dead.
    pub(crate) fn dead(&self, leg: usize) -> IoError {
        IoError::Dead(self.drives.legs[leg])
    }

    /// The leg's own offset of a byte of the pair.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        if self.drives.has_records { HEADER_BYTES + offset } else { offset }
    }

    /// Sends a command to a leg.
    pub(crate) fn send(&mut self, roles: &Roles, leg: usize, op: IoOp, flight: Flight) {
        assert!(roles.is_alive(leg), "a dead leg is asked for nothing");
        let id = self.name(leg, flight);
        self.out.push(Command::Submit(Io { id, device: self.drives.legs[leg], op }));
    }

    pub(crate) fn send_to_journal(&mut self, op: IoOp, flight: Flight) {
        let id = self.name(JOURNAL, flight);
        self.out.push(Command::Submit(Io { id, device: self.drives.journal, op }));
    }

    /// Asks the event loop for the checksums of a buffer.
    pub(crate) fn sum(&mut self, part: Part, flight: Flight) {
        let id = self.name(EVENT_LOOP, flight);
        let Part { payload, offset: offset_bytes, length: length_bytes } = part;
        assert!(payload != PayloadId::NONE, "checksums are of a buffer");
        self.out.push(Command::Checksum { id, payload, offset_bytes, length_bytes });
    }

    fn name(&mut self, leg: usize, flight: Flight) -> IoId {
        let key = self.sent.insert(Sent { leg, flight, issued: self.now });
        assert!(key < 1 << INDEX_SHIFT, "commands in flight are bounded");
        IoId(IO_BIT | (self.drives.index as u32) << INDEX_SHIFT | key as u32)
    }

    /// A command has ended: what was it?
    pub(crate) fn take_sent(&mut self, io: IoId) -> Sent {
        assert_eq!(owner(io), Some(self.drives.index), "a command ends at the pair that sent it");
        self.sent.remove((io.0 & ((1 << INDEX_SHIFT) - 1)) as usize)
    }

    pub(crate) fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().map(|(_, sent)| sent)
    }

    /// A name for a buffer of the pair's own.
    pub(crate) fn name_buffer(&mut self) -> PayloadId {
        self.buffers += 1;
        let number = (self.drives.index as u64) << 56 | self.buffers;
        assert_eq!(number & BUFFER_BIT, 0, "no two pairs name the same buffer");
        PayloadId(PayloadId::ENGINE_BIT | BUFFER_BIT | number)
    }

    pub(crate) fn reserve(&mut self, payload: PayloadId, length_bytes: u64) {
        self.out.push(Command::Reserve { payload, length_bytes });
    }

    pub(crate) fn release(&mut self, payload: PayloadId) {
        self.out.push(Command::Release(payload));
    }

    /// Releases a buffer that nobody needs any more, if there is one.
    pub(crate) fn release_if(&mut self, payload: Option<PayloadId>) {
        if let Some(payload) = payload {
            self.release(payload);
        }
    }

    /// Copies a part of a buffer into another one, from this byte of it on.
    pub(crate) fn copy(&mut self, from: Part, into: PayloadId, into_offset_bytes: u64) {
        assert!(from.payload != into, "bytes are copied into another buffer");
        assert!(from.length > 0, "a copy has bytes");
        self.out.push(Command::Copy {
            from: from.payload,
            from_offset_bytes: from.offset,
            into,
            into_offset_bytes,
            length_bytes: from.length,
        });
    }

    /// Answers what promises nothing.
    pub(crate) fn end(&mut self, io: IoId, status: Result<(), IoError>, checksums: Vec<u32>) {
        self.ended.push(Ended { io, status, checksums, bytes: Vec::new() });
    }

    pub(crate) fn end_with_bytes(&mut self, io: IoId, bytes: Vec<u8>) {
        self.ended.push(Ended { io, status: Ok(()), checksums: Vec::new(), bytes });
    }

    /// Answers what promises something: not before a death is on record.
    pub(crate) fn answer(
        &mut self,
        roles: &Roles,
        io: IoId,
        status: Result<(), IoError>,
        checksums: Vec<u32>,
    ) {
        let ended = Ended { io, status, checksums, bytes: Vec::new() };
        if roles.blocks_all() {
            self.after.push(ended);
        } else {
            self.ended.push(ended);
        }
    }

    /// Every death is on record: what waited for it is answered.
    pub(crate) fn answer_after(&mut self) {
        self.ended.append(&mut self.after);
    }

    /// Takes away what waited for it.
    pub(crate) fn take_after(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.after)
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.mutant = mutant;
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub(crate) const fn breaks(&self, _: Mutant) -> bool {
        false
    }
}
