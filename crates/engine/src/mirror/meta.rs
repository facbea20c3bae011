//! How is the engine's own data kept by a pair?
//!
//! Source: requirements I13 to I18, B9: journal and checkpoint are written to both legs, at once, because
//! they are written in place and a FLUSH must not wait for a period. They are few and small.

use super::commands::Commands;
use super::flight::{Flight, MetaRead};
use super::journal::Journal;
use super::record::Records;
use super::resync::Resync;
use super::roles::{Phase, Roles};
use crate::port::{IoId, IoOp};
use slab::Slab;
use std::collections::VecDeque;
use tandem_block::IoError;

/// A write of metadata, until both legs have it.
#[derive(Clone, Debug)]
struct MetaWrite {
    io: IoId,
    offset: u64,
    bytes: Vec<u8>,
    fua: bool,
    left: u32,
    done: u32,
}

impl MetaWrite {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// A part of a write of metadata has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) fua: bool,
}

/// The end of a write of metadata, and what it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(crate) io: IoId,
    pub(crate) status: Result<(), IoError>,
    pub(crate) promise: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Metas {
    writes: Slab<MetaWrite>,
    /// Those that were not sent yet.
    waiting: VecDeque<usize>,
    /// Reads that one leg could not answer and the other one did.
    repaired: u64,
}

impl Metas {
    pub(crate) fn repaired(&self) -> u64 {
        self.repaired
    }

    /// What is being written, or will be.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.writes.iter().map(|(_, write)| (write.offset, write.end()))
    }

    /// … and is any of it there?
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        self.extents().any(|(from, to)| start < to && from < end)
    }

    pub(crate) fn begin_read(
        &mut self,
        read: MetaRead,
        roles: &Roles,
        resync: &mut Resync,
        journal: &Journal,
        commands: &mut Commands,
    ) {
        match resync.readable_leg(roles.reader(), (read.offset, read.end()), roles) {
            Some(leg) => {
                resync.adopt((read.offset, read.end()), true, roles, journal);
                send_read(leg, read, roles, commands);
            }
            None => {
                let why = super::read::why_not(roles, commands);
                commands.end(read.io, Err(why), Vec::new());
            }
        }
    }

    /// A leg could not read it; a dead one is written off by now.
    pub(crate) fn read_again(
        &mut self,
        leg: usize,
        mut read: MetaRead,
        error: IoError,
        roles: &Roles,
        resync: &Resync,
        commands: &mut Commands,
    ) {
        let other = 1 - leg;
        if read.tried || !resync.is_readable(other, read.offset, read.end(), roles) {
            commands.end(read.io, Err(error), Vec::new());
            return;
        }
        self.repaired += 1;
        read.tried = true;
        send_read(other, read, roles, commands);
    }

    pub(crate) fn begin_write(&mut self, io: IoId, offset: u64, bytes: Vec<u8>, fua: bool) {
        let key = self.writes.insert(MetaWrite { io, offset, bytes, fua, left: 0, done: 0 });
        self.waiting.push_back(key);
    }

    /// Sends metadata to all legs that live, once their regions are marked.
    pub(crate) fn send(
        &mut self,
        roles: &Roles,
        records: &mut Records,
        resync: &Resync,
        commands: &mut Commands,
    ) {
        let held = !roles.is_started() || roles.phase() == Phase::Turning;
        if held || roles.blocks_all() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        while let Some(key) = waiting.pop_front() {
            if roles.are_dead() {
                let io = self.writes.remove(key).io;
                commands.end(io, Err(commands.dead(roles.lead())), Vec::new());
                continue;
            }
            let write = &mut self.writes[key];
            let (start, end) = (write.offset, write.end());
            if !records.mark(roles, start, end) || resync.covers(start, end) {
                self.waiting.push_back(key);
                continue;
            }
            assert_eq!(write.left, 0, "metadata is sent to each leg once");
            for leg in (0..2).filter(|&leg| roles.is_alive(leg)) {
                write.left += 1;
                let op = IoOp::WriteMeta {
                    offset_bytes: commands.place(start),
                    bytes: write.bytes.clone(),
                    fua: write.fua,
                };
                commands.send(roles, leg, op, Flight::MetaWrite(key));
            }
        }
    }

    /// A leg has a write, or failed it. Returns which one.
    pub(crate) fn landed(&mut self, key: usize, is_ok: bool) -> Landed {
        let write = &mut self.writes[key];
        assert!(write.left > 0, "what has ended was with a leg");
        write.left -= 1;
        write.done += u32::from(is_ok);
        Landed { start: write.offset, end: write.end(), fua: write.fua }
    }

    /// Is it with no leg any more? Then what came of it; `status`: how the last part ended.
    pub(crate) fn take_written(
        &mut self,
        key: usize,
        status: Result<(), IoError>,
    ) -> Option<Written> {
        if self.writes[key].left > 0 {
            return None;
        }
        let write = self.writes.remove(key);
        let status = if write.done == 0 { status } else { Ok(()) };
        let promise = (status.is_ok() && write.fua).then_some((write.offset, write.end()));
        Some(Written { io: write.io, status, promise })
    }
}

fn send_read(leg: usize, read: MetaRead, roles: &Roles, commands: &mut Commands) {
    let op =
        IoOp::ReadMeta { offset_bytes: commands.place(read.offset), length_bytes: read.length };
    commands.send(roles, leg, op, Flight::MetaRead(Box::new(read)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::DeviceId;

    /// A write with FUA to two legs, by how each of them ends it.
    #[test]
    fn one_leg_is_enough() {
        const DEAD: Result<(), IoError> = Err(IoError::Dead(DeviceId(1)));
        let done = (Ok(()), Some((4096, 8192)));
        let table = [
            ([Ok(()), Ok(())], done),
            ([Ok(()), DEAD], done),
            ([DEAD, Ok(())], done),
            ([DEAD, DEAD], (DEAD, None)),
        ];
        for (ends, (status, promise)) in table {
            let mut metas = Metas::default();
            metas.begin_write(IoId(7), 4096, vec![0; 4096], true);
            metas.writes[0].left = 2;
            assert_eq!(metas.extents().collect::<Vec<_>>(), [(4096, 8192)]);
            let landed = Landed { start: 4096, end: 8192, fua: true };
            assert_eq!(metas.landed(0, ends[0].is_ok()), landed);
            assert_eq!(metas.take_written(0, ends[0]), None, "the other leg has it still");
            metas.landed(0, ends[1].is_ok());
            let written = Written { io: IoId(7), status, promise };
            assert_eq!(metas.take_written(0, ends[1]), Some(written), "{ends:?}");
        }
    }
}
