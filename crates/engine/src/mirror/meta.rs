//! How is the engine's own data kept by a pair?
//!
//! Source: requirements I13 to I18, B9: journal and checkpoint are written to both legs, at once, because
//! they are written in place and a FLUSH must not wait for a period. They are few and small.

use super::{Flight, Mirror, Phase};
use crate::port::{Command, IoId, IoOp};
use tandem_block::IoError;

/// A write of metadata, until both legs have it.
#[derive(Clone, Debug)]
pub(super) struct MetaWrite {
    io: IoId,
    pub offset: u64,
    bytes: Vec<u8>,
    fua: bool,
    left: u32,
    done: u32,
}

impl MetaWrite {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// A read of metadata.
#[derive(Clone, Debug)]
pub(super) struct MetaRead {
    io: IoId,
    offset: u64,
    length: u64,
    tried: bool,
}

impl Mirror {
    pub(super) fn begin_meta_read(
        &mut self,
        io: IoId,
        offset: u64,
        length: u64,
        out: &mut Vec<Command>,
    ) {
        match self.choose(offset, offset + length) {
            Some(leg) => {
                self.adopt((offset, offset + length), true);
                self.send_meta_read(leg, MetaRead { io, offset, length, tried: false }, out);
            }
            None => self.end(io, Err(self.why_not()), Vec::new()),
        }
    }

    fn send_meta_read(&mut self, leg: usize, read: MetaRead, out: &mut Vec<Command>) {
        let op =
            IoOp::ReadMeta { offset_bytes: self.place(read.offset), length_bytes: read.length };
        self.send(leg, op, Flight::MetaRead(Box::new(read)), out);
    }

    pub(super) fn meta_read_done(
        &mut self,
        leg: usize,
        mut read: MetaRead,
        status: Result<(), IoError>,
        bytes: &[u8],
        out: &mut Vec<Command>,
    ) {
        let Err(error) = status else {
            let (io, bytes) = (read.io, bytes.to_vec());
            self.ended.push(super::Ended { io, status, checksums: Vec::new(), bytes });
            return;
        };
        if matches!(error, IoError::Dead(_)) {
            self.fail_leg(leg, out);
        }
        let other = 1 - leg;
        let may =
            self.alive[other] && !self.stale[other].touches(read.offset, read.offset + read.length);
        if read.tried || !may {
            self.end(read.io, Err(error), Vec::new());
            return;
        }
        self.stats.repaired_reads += 1;
        read.tried = true;
        self.send_meta_read(other, read, out);
    }

    pub(super) fn begin_meta_write(&mut self, io: IoId, offset: u64, bytes: Vec<u8>, fua: bool) {
        let write = MetaWrite { io, offset, bytes, fua, left: 0, done: 0 };
        let key = self.metas.insert(write);
        self.metas_waiting.push_back(key);
    }

    /// Sends metadata to all legs that live, once their regions are marked.
    pub(super) fn send_metas(&mut self, out: &mut Vec<Command>) {
        let held = matches!(
            self.phase,
            Phase::Created | Phase::Opening | Phase::Restoring | Phase::Turning
        );
        if held || self.records.blocks_all() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.metas_waiting);
        while let Some(key) = waiting.pop_front() {
            let (start, end) = (self.metas[key].offset, self.metas[key].end());
            if self.alive == [false; 2] {
                let io = self.metas.remove(key).io;
                self.end(io, Err(IoError::Dead(self.legs[self.lead])), Vec::new());
                continue;
            }
            let marked = !self.durable || self.is_alone() || self.records.mark(start, end);
            if !marked || self.resync.covers(start, end) {
                self.metas_waiting.push_back(key);
                continue;
            }
            for leg in 0..2 {
                if !self.alive[leg] {
                    continue;
                }
                self.metas[key].left += 1;
                let op = IoOp::WriteMeta {
                    offset_bytes: self.place(start),
                    bytes: self.metas[key].bytes.clone(),
                    fua: self.metas[key].fua,
                };
                self.send(leg, op, Flight::MetaWrite(key), out);
            }
        }
    }

    pub(super) fn meta_written(
        &mut self,
        leg: usize,
        key: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        if status.is_err() {
            self.fail_leg(leg, out);
        }
        let write = &mut self.metas[key];
        write.left -= 1;
        write.done += u32::from(status.is_ok());
        let (start, end, fua) = (write.offset, write.end(), write.fua);
        self.records.touched(start, end);
        if status.is_ok() && self.alive[leg] {
            self.flushes.volatile[leg] |= !fua;
            self.is_new_there(leg, start, end);
        }
        if self.metas[key].left > 0 {
            return;
        }
        let write = self.metas.remove(key);
        match status {
            Err(_) if write.done == 0 => self.answer(write.io, status, Vec::new()),
            _ if write.fua => self.promise(write.io, Some((start, end)), Vec::new()),
            _ => self.answer(write.io, Ok(()), Vec::new()),
        }
    }
}
