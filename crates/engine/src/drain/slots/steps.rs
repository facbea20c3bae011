//! Moves of SSD slots off a drive that drains, step by step.

use super::{GO_ON_AFTER, LOOK_EVERY, drop_copies_of};
use crate::io::DeviceIo;
use crate::map::{NONE, Run, Slot};
use crate::migration::Migration;
use crate::migration::moves::Part;
use crate::mutant::Mutant;
use crate::owner::Parts;
use crate::policy::Policy;
use crate::requests::Requests;
use crate::store::Store;
use crate::volumes::Volumes;
use tandem_block::{DeviceId, IoError};

impl Migration {
    fn empty_ssd(
        &mut self,
        device: DeviceId,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let found = self.evacuation.find_on_ssd(device, &self.moves, &store.map, io);
        drop_copies_of(&found.copies, io, &mut store.map, &mut store.commit);
        if found.homed {
            self.moves.want_home_flush(io);
        }
        if found.parts.is_empty() {
            return found
                .fragmented
                .is_some_and(|block| self.moves.start_merge(block, &mut store.map, requests, io));
        }
        self.evacuation.move_away(
            found.parts,
            &mut store.map,
            &volumes.objects,
            &mut store.commit,
            &mut self.moves,
            io,
        )
    }

    /// A part of it is written.
    pub(crate) fn drained_written(
        &mut self,
        parts: Parts,
        status: Result<(), IoError>,
        checksums: &[u32],
        store: &mut Store,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let m = self.moves.active.as_ref().expect("a move was writing");
        let moved: Vec<(Part, Slot)> =
            parts.range().map(|i| (m.parts[i].clone(), m.targets[i])).collect();
        let outstanding = m.outstanding;
        for (i, (part, to)) in moved.into_iter().enumerate() {
            assert!(to != NONE, "what was written has a slot");
            let is_same = checksums.get(i).is_none_or(|found| Some(*found) == part.checksum)
                && part.copied.as_ref().is_some_and(|copied| store.map.is_latest(copied));
            let unchanged = is_same && status.is_ok();
            let sum = part.checksum.unwrap_or(0);
            if unchanged && store.map.move_place(part.logical, (part.slot, to), sum) {
                self.evacuation.drained_to(part.logical, to, &mut store.map);
            } else if status.is_ok() && io.breaks(Mutant::DrainWithoutCompare) {
                store.map.assign(part.logical, to, sum);
                self.evacuation.drained_to(part.logical, to, &mut store.map);
            } else {
                store.map.release_unused(Run { slot: to, count: 1 });
                io.stats_mut().moves_dropped += 1;
            }
        }
        store.commit.note_pending(io.now());
        if outstanding == 0 {
            self.moves.end_move(
                &mut store.map,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
        }
    }

    /// Begins a move of what lies on a drive that drains. False: not now, or there is nothing.
    pub(crate) fn begin_draining(
        &mut self,
        store: &mut Store,
        volumes: &mut Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        assert!(self.moves.is_idle(), "one move at a time");
        let (now, quiet) = (io.now(), io.is_quiet());
        let Some(drain) = self.evacuation.current.as_deref_mut().filter(|drain| drain.moves())
        else {
            return false;
        };
        assert!(!drain.owns_move, "a drain knows that its last move has ended");
        let rests = now < drain.rests_until && !quiet;
        if rests || now < drain.looks_at || drain.drained.is_some() {
            return false;
        }
        // others' moves go in turn with these
        if !std::mem::replace(&mut drain.has_turn, true) {
            return false;
        }
        drain.has_turn = false;
        let device = drain.device;
        let is_ssd = io[device].is_ssd();
        let begins = if is_ssd {
            self.empty_ssd(device, store, volumes, requests, io)
        } else {
            self.begin_evacuating(device, store, volumes, requests, io)
        };
        assert!(begins != self.moves.is_idle(), "a move that has begun is under way");
        let drain = self.evacuation.current.as_deref_mut().expect("asked above");
        drain.owns_move = begins;
        if !begins {
            drain.looks_at = now + if drain.goes_on { GO_ON_AFTER } else { LOOK_EVERY };
            if store.map.displaced_count() > 0 || store.map.pending_blocks() > 0 {
                store.commit.note_pending(now);
            }
        }
        begins
    }
}
