//! Where does a read of the pair go?
//!
//! Source: [IANUS §5.1]: to the leg that does not write, and to the cache for what that one lacks.

use super::cache::Piece;
use super::{Flight, Mirror};
use crate::port::{Command, IoId, IoOp};
use tandem_block::{Instant, IoError, PayloadId};

/// A read that a leg has a part in.
#[derive(Clone, Debug)]
pub(super) struct Read {
    io: IoId,
    offset: u64,
    length: u64,
    into: PayloadId,
    into_offset: u64,
    /// What comes from the cache, over what the leg reads.
    pieces: Vec<Piece>,
    /// The other leg was asked before.
    tried: bool,
}

impl Mirror {
    pub(super) fn begin_read(&mut self, io: IoId, op: IoOp, out: &mut Vec<Command>) {
        let IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes } = op else {
            unreachable!("only reads come here")
        };
        assert!(offset_bytes + length_bytes <= self.capacity_bytes, "a read lies within the pair");
        let read = Read {
            io,
            offset: offset_bytes,
            length: length_bytes,
            into,
            into_offset: into_offset_bytes,
            pieces: Vec::new(),
            tried: false,
        };
        let (start, end) = (offset_bytes, offset_bytes + length_bytes);
        let survivor = || Some(self.lead).filter(|&leg| self.has_with_cache(leg, start, end));
        let Some(leg) = self.choose(start, end).or_else(survivor) else {
            self.end(io, Err(self.why_not()), Vec::new());
            return;
        };
        self.adopt((start, end), false);
        self.read_from(leg, read, out);
    }

    /// The leg that may be asked for these bytes: the reader, unless it is behind there.
    pub(super) fn choose(&self, start: u64, end: u64) -> Option<usize> {
        [self.reader, 1 - self.reader]
            .into_iter()
            .find(|&leg| self.alive[leg] && !self.stale[leg].touches(start, end))
    }

    /// Is all that a leg which lives alone lacks of these bytes in the cache? It was written since, and
    /// what was answered is read.
    fn has_with_cache(&self, leg: usize, start: u64, end: u64) -> bool {
        let in_cache = |(from, to): (u64, u64)| {
            let pieces = self.cache.newer_than(leg, from, to);
            pieces.iter().map(|piece| piece.length).sum::<u64>() == to - from
        };
        let alone = self.alive[leg] && self.is_alone();
        alone && self.stale[leg].within(start, end).into_iter().all(in_cache)
    }

    /// Why nobody can be asked: the leg that has the bytes is dead.
    pub(super) fn why_not(&self) -> IoError {
        let dead = if self.alive[0] { 1 } else { 0 };
        IoError::Dead(self.legs[dead])
    }

    fn read_from(&mut self, leg: usize, mut read: Read, out: &mut Vec<Command>) {
        let (start, end) = (read.offset, read.offset + read.length);
        read.pieces = self.cache.newer_than(leg, start, end);
        let cached: u64 = read.pieces.iter().map(|piece| piece.length).sum();
        if cached == read.length {
            self.stats.cache_reads += 1;
            self.overlay(&read, out);
            return;
        }
        self.stats.mixed_reads += u64::from(cached > 0);
        for piece in &read.pieces {
            self.cache.entry_mut(piece.entry).pins += 1;
        }
        self.stats.reads[leg] += 1;
        let op = IoOp::Read {
            offset_bytes: self.place(read.offset),
            length_bytes: read.length,
            into: read.into,
            into_offset_bytes: read.into_offset,
        };
        self.send(leg, op, Flight::Read(Box::new(read)), out);
    }

    /// Copies what the cache has over what was read, and answers.
    fn overlay(&mut self, read: &Read, out: &mut Vec<Command>) {
        if !self.contents {
            self.end(read.io, Ok(()), Vec::new());
            return;
        }
        for piece in &read.pieces {
            let entry = self.cache.entry(piece.entry);
            out.push(Command::Copy {
                from: entry.payload,
                from_offset_bytes: piece.offset - entry.offset,
                into: read.into,
                into_offset_bytes: read.into_offset + (piece.offset - read.offset),
                length_bytes: piece.length,
            });
        }
        self.sum((read.into, read.into_offset, read.length), Flight::ReadSum(read.io), out);
    }

    pub(super) fn read_done(
        &mut self,
        leg: usize,
        mut read: Read,
        issued: Instant,
        status: Result<(), IoError>,
        checksums: &[u32],
        out: &mut Vec<Command>,
    ) {
        if status.is_ok() {
            self.note_read(issued);
            if read.pieces.is_empty() {
                self.end(read.io, status, checksums.to_vec());
            } else {
                self.overlay(&read, out);
            }
        }
        for piece in std::mem::take(&mut read.pieces) {
            self.cache.entry_mut(piece.entry).pins -= 1;
            self.forget_if_over(piece.entry, out);
        }
        let Err(error) = status else { return };
        let is_silent = matches!(error, IoError::NoAnswer(_));
        if is_silent || matches!(error, IoError::Dead(_)) {
            self.fail_leg(leg, out);
        }
        // together with the cache the other leg is as good, unless it is behind
        let (start, end) = (read.offset, read.offset + read.length);
        let other = 1 - leg;
        let whole = self.alive[other] && !self.stale[other].touches(start, end);
        // a leg that did not answer may still write to the buffer: who asked reads again into another one
        if is_silent || read.tried || !(whole || self.has_with_cache(other, start, end)) {
            self.end(read.io, Err(error), Vec::new());
            return;
        }
        self.stats.repaired_reads += 1;
        read.tried = true;
        self.read_from(other, read, out);
    }
}
