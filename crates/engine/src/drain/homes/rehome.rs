//! Moves of homes off a hard drive that drains, step by step.

use super::{LOOK_RUNS_MAX, Next, Rehomed};
use crate::device::{Class, Job};
use crate::drain::UNREADABLE_MAX;
use crate::io::DeviceIo;
use crate::map::space::BlockRange;
use crate::map::{Run, Touch};
use crate::migration::Migration;
use crate::migration::moves::Stage;
use crate::mutant::Mutant;
use crate::owner::{MigrationIo, MoveKind, Owner, Parts};
use crate::policy::Policy;
use crate::port::IoOp;
use crate::requests::Requests;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId, IoError};

impl Migration {
    /// Homes in which nothing lies are elsewhere from now on. False: there is no room.
    fn leave_empty_homes(
        &mut self,
        device: DeviceId,
        run: BlockRange,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &DeviceIo,
    ) -> bool {
        let (objects, commit) = (&mut volumes.objects, &mut store.commit);
        let Some(taken) = self.evacuation.take_target(device, run.count, objects, io) else {
            return false;
        };
        let run = BlockRange { count: taken.count, ..run };
        self.evacuation.leave_homes(run, taken.first, objects, commit, &self.moves, io);
        self.evacuation.set_drain_cursor(run.first + run.count);
        true
    }

    fn begin_rehoming(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &mut Volumes,
        io: &mut DeviceIo,
    ) -> bool {
        for _ in 0..LOOK_RUNS_MAX {
            let from = self.evacuation.current.as_deref().expect("asked by the caller").cursor;
            let Some(left) = volumes.objects.next_left(from) else {
                self.evacuation.set_drain_cursor(0);
                self.evacuation
                    .current
                    .as_deref_mut()
                    .expect("asked by the caller")
                    .careful_until = 0;
                self.moves.want_home_flush(io);
                return false;
            };
            let run = match self.evacuation.next_home_run(
                left,
                &self.moves,
                &store.map,
                &volumes.objects,
                io,
            ) {
                Next::Behind(block) => {
                    self.evacuation.set_drain_cursor(block);
                    continue;
                }
                Next::Empty(_) | Next::Copy(_)
                    if !self.evacuation.may_leave_more(
                        &volumes.objects,
                        &store.journal,
                        &store.commit,
                        &self.moves,
                        io,
                    ) =>
                {
                    return false;
                }
                Next::Empty(run) => {
                    if self.leave_empty_homes(device, run, store, volumes, io) {
                        continue;
                    }
                    return false;
                }
                Next::Copy(run) => run,
            };
            let Some(taken) =
                self.evacuation.take_target(device, run.count, &mut volumes.objects, io)
            else {
                return false;
            };
            let run = BlockRange { count: taken.count, ..run };
            self.evacuation.set_drain_cursor(run.first + run.count);
            self.evacuation.read_homes(run, taken.first, &mut self.moves, &volumes.objects, io);
            return true;
        }
        false
    }

    /// A run of homes cannot be read in one piece, or is not what was written: one by one, if it was
    /// several. One alone is given up if an SSD has the same version, which will be written to its next home;
    /// else it stays.
    fn homes_unread(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let taken = self.evacuation.taken_by_move(&self.moves);
        self.evacuation.give_back_taken(taken, &mut volumes.objects);
        let m = self.moves.active.as_ref().expect("asked by the caller");
        let first = m.parts[0].logical;
        let drain = self.evacuation.current.as_deref_mut();
        if let Some(drain) = drain.filter(|drain| drain.owns_move) {
            if taken.count > 1 {
                (drain.cursor, drain.careful_until) = (first, first + taken.count);
            } else if store.map.forget_home(first) {
                let copy = store.map.entry(first).ssd;
                store.map.touch(Touch { logical: first, count: 1 }, copy, false);
                store.commit.note_pending(io.now());
            } else if drain.unreadable_homes.len() < UNREADABLE_MAX {
                drain.unreadable_homes.insert(first);
            }
        }
        self.moves.end_move(
            &mut store.map,
            &mut self.copies,
            &mut policy.tiers,
            &mut self.evacuation,
            io,
        );
    }

    /// Homes were written to another drive.
    pub(crate) fn rehomed_written(
        &mut self,
        device: DeviceId,
        status: Result<(), IoError>,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let taken = self.evacuation.taken_by_move(&self.moves);
        let m = self.moves.active.as_ref().expect("a move was writing");
        assert!(m.outstanding == 0, "a run of homes is written at once");
        assert!(
            volumes.objects.home_of(taken.first, io).0 == device,
            "homes are written where those lie whose places they take"
        );
        let blocks = BlockRange { first: m.parts[0].logical, count: taken.count };
        if let Err(error) = status {
            store.metadata.fault(device, error, io);
        }
        let d = &mut io[device];
        d.home_writes += u64::from(status.is_ok());
        let number = d.home_writes;
        match self.evacuation.current.as_deref_mut() {
            Some(drain) if drain.owns_move && drain.moves() && status.is_ok() => {
                let taken = taken.first;
                drain.rehomed.push(Rehomed { device, number, blocks, taken });
            }
            _ => self.evacuation.give_back_taken(taken, &mut volumes.objects),
        }
        if io.breaks(Mutant::RehomedVolatile) && status.is_ok() {
            self.evacuation.rehomed_durable(
                device,
                number,
                &mut volumes.objects,
                &mut store.commit,
                &self.moves,
                io,
            );
        }
        self.moves.end_move(
            &mut store.map,
            &mut self.copies,
            &mut policy.tiers,
            &mut self.evacuation,
            io,
        );
    }

    /// Begins to move home what lives in the log of a hard drive. False: not now, or nothing does.
    fn empty_log(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        assert!(self.moves.is_idle(), "a log is emptied while nothing else moves");
        let Some(log) = &mut io[device].log else { return false };
        log.seal_open();
        let living = log.victims().into_iter().filter(|&segment| log.live(segment) > 0);
        let runs: Vec<Run> = living.map(|segment| log.segment_run(segment)).collect();
        let blocks_max = io.config().drain_run_blocks() as usize;
        for run in runs {
            let parts = self.moves.living_parts(run, blocks_max, &store.map, &volumes.objects, io);
            if !parts.is_empty() {
                self.moves.begin_home_move(
                    MoveKind::LogGc,
                    parts,
                    &store.commit,
                    &mut store.map,
                    &self.evacuation,
                    io,
                );
                return true;
            }
            self.moves.unlock_segment(device, run, &mut store.map, requests, &mut store.commit, io);
            if self.moves.active.is_some() {
                return true;
            }
        }
        false
    }

    /// Begins a move of what lies on a hard drive. False: not now, or there is nothing.
    pub(crate) fn begin_evacuating(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &mut Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        if volumes.objects.left_blocks() > 0 {
            return self.begin_rehoming(device, store, volumes, io);
        }
        let drain = self.evacuation.current.as_deref().expect("asked by the caller");
        if drain.rehomed.is_empty() && self.empty_log(device, store, volumes, requests, io) {
            return true;
        }
        self.moves.want_home_flush(io);
        let d = &mut io[device];
        d.flush_wanted |= !d.tail.items.is_empty() && d.flushing.is_none();
        false
    }

    /// Advances a move of homes that have been read.
    pub(crate) fn advance_rehoming(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let m = self.moves.active.as_ref().expect("asked by the caller");
        assert!(
            m.stage == Stage::Waiting && m.outstanding == 0,
            "homes are written when all of them have been read"
        );
        if m.failed {
            return self.homes_unread(store, volumes, policy, io);
        }
        // whoever still reads what was there before gets it
        let (buffer, taken) = (m.buffer, self.evacuation.taken_by_move(&self.moves));
        if !self.moves.is_home_unpinned(taken.first, taken.count, &volumes.objects, io) {
            return;
        }
        let (device, offset_bytes) = volumes.objects.home_of(taken.first, io);
        let op = IoOp::Write {
            offset_bytes,
            length_bytes: taken.count * BLOCK_BYTES,
            from: buffer,
            from_offset_bytes: 0,
            fua: false,
        };
        let m = self.moves.active.as_mut().expect("asked above");
        (m.stage, m.outstanding) = (Stage::Writing, 1);
        let owner = Owner::Migration(MigrationIo::Write {
            parts: Parts { first: 0, count: taken.count },
            kind: MoveKind::Rehome,
        });
        io.enqueue(device, Class::Background, Job::Io(op, owner), None);
    }
}
