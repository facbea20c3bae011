//! How does a segment of a hard drive's log become free again?
//!
//! Source: [BCW §4.3.1] for log GC, design decision 10 for its watermarks. What still lives in a
//! segment is moved home like any write-back; its log places are given up when that is recorded.

use crate::io::DeviceIo;
use crate::log::Log;
use crate::log::gc::{self, Need};
use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::objects::Objects;
use crate::map::recovered::slots_in_logs;
use crate::map::{Logical, Map, Run, Slot};
use crate::migration::Migration;
use crate::migration::moves::{Moves, Part, Stretches};
use crate::migration::unmovable::SEGMENTS_MAX;
use crate::owner::MoveKind;
use crate::requests::Requests;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Moves {
    pub(crate) fn log_need(&self, io: &DeviceIo) -> Need {
        let mut worst = Need::None;
        for &id in io.hdds() {
            let Some(log) = &io[id].log else { continue };
            let need = self.need_of(log, io);
            if need == Need::Urgent || worst == Need::None {
                worst = need;
            }
        }
        worst
    }

    fn need_of(&self, log: &Log, io: &DeviceIo) -> Need {
        // without an SSD a write that does not fit has nowhere else to go
        if io.waits_for_space() && io.ssds().is_empty() {
            return Need::Urgent;
        }
        gc::need(log, io.config().log_gc_percent, io.config().log_stop_percent)
    }

    /// At a start: what lives in the logs, as the map says.
    pub(crate) fn recover_logs(&self, map: &Map, io: &mut DeviceIo) {
        let segment_slots = io.config().log_segment_bytes / BLOCK_BYTES;
        let live = slots_in_logs(map);
        for id in io.drives().ids() {
            if let Some(log) = &io[id].log {
                let region = *log.region();
                assert!(region.is_log && region.device == id, "a log lies in slots of its drive");
                let live = live.get(&id).map_or(&[][..], Vec::as_slice);
                io[id].log = Some(Log::recovered(region, segment_slots, live));
            }
        }
    }

    /// Blocks in a run of log slots that can be moved home now.
    pub(crate) fn living_parts(
        &self,
        run: Run,
        blocks_max: usize,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Vec<Part> {
        assert!(map.slots().is_log(run.slot) && run.count > 0, "a segment lies in a log");
        assert!(blocks_max > 0, "a move has room for a block");
        let (mut parts, mut stretches) = (Vec::new(), Stretches::default());
        for (slot, owner) in map.slots().log_owners((run.slot, run.count)) {
            let movable = !self.is_homed(owner)
                && (map.log_source(owner, slot) || self.is_fixed_source(owner, slot, map, io));
            // it would fail, and all other moves rest after that
            let home_is_out = || io[objects.home_of(owner, io).0].is_faulted();
            if movable && !home_is_out() {
                parts.push(Part::new(owner, slot));
                stretches.add(owner);
                if parts.len() == blocks_max || !stretches.has_room() {
                    break;
                }
            }
        }
        parts
    }

    /// Merges a block with a durable fragment in these slots that no write holds. False: there is none.
    fn merge_in(
        &mut self,
        run: Run,
        map: &mut Map,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let all: Vec<(Slot, Logical)> = map.slots().log_owners((run.slot, run.count)).collect();
        all.into_iter().any(|(slot, owner)| {
            map.state(owner) & FRAGMENTS != 0
                && !self.is_unmovable(owner, map, io)
                && !map.is_log_volatile(slot)
                && self.start_merge(owner, map, requests, io)
        })
    }

    /// A segment has living blocks that cannot be moved as they are: volatile ones need a flush,
    /// unrecorded ones a commit, fragments a merge.
    pub(crate) fn unlock_segment(
        &mut self,
        device: DeviceId,
        run: Run,
        map: &mut Map,
        requests: &mut Requests,
        commit: &mut Commit,
        io: &mut DeviceIo,
    ) {
        assert!(self.active.is_none(), "a segment is unlocked while nothing moves");
        assert!(
            map.slots().region(run.slot).device == device && map.slots().is_log(run.slot),
            "a segment lies in the log of its drive"
        );
        let mut fragmented = None;
        let mut volatile = false;
        let mut unrecorded = false;
        for (slot, owner) in map.slots().log_owners((run.slot, run.count)) {
            if map.state(owner) & FRAGMENTS != 0 && !self.is_unmovable(owner, map, io) {
                fragmented.get_or_insert(owner);
            }
            // home since a life that ended before its log place was given up
            let given_up = map.state(owner) & !SSD == HOME | LOG
                && map.leaves().recorded_home(owner)
                && map.entry(owner).log == slot;
            if given_up {
                self.homed_log.push((owner, slot));
            }
            volatile |= map.is_log_volatile(slot);
            unrecorded |= !map.slots().is_recorded(slot) || map.displaced_count() > 0;
        }
        self.give_up_log_places(commit, map, io);
        let may_flush = io[device].flushing.is_none();
        if volatile && may_flush {
            io[device].flush_wanted = true;
        } else if fragmented.is_some_and(|block| self.start_merge(block, map, requests, io)) {
            // its fragments leave when it is durable
        } else if !self.homed.is_empty() {
            io[device].flush_wanted |= may_flush;
        } else if unrecorded && map.pending_blocks() > 0 {
            commit.note_pending(io.now());
        } else if unrecorded && !io[device].tail.items.is_empty() && may_flush {
            // what lives here was displaced by what the drive has not made durable yet
            io[device].flush_wanted = true;
        }
    }
}

impl Migration {
    /// The emptiest segment may have to wait for a write that holds its blocks; without an SSD that write
    /// may wait for room in this very log. Then another segment makes it, and what is volatile in one is flushed.
    fn clean_another(
        &mut self,
        device: DeviceId,
        blocks_max: usize,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        let is_short_of_space = io.waits_for_space() && io.ssds().is_empty();
        let is_out = |hdd: &DeviceId| io[*hdd].is_faulted();
        let some_stay = !self.moves.unmovable.is_empty() || io.hdds().iter().any(is_out);
        if !is_short_of_space && !some_stay {
            return false;
        }
        let log = io[device].log.as_ref().expect("it is being cleaned");
        let segments_max = if is_short_of_space { usize::MAX } else { SEGMENTS_MAX };
        let segments = log.victims().into_iter().take(segments_max);
        let runs: Vec<Run> = segments.map(|segment| log.segment_run(segment)).collect();
        let mut is_volatile = false;
        for run in runs {
            let parts = self.moves.movable_parts(run, blocks_max, &store.map, &volumes.objects, io);
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
            if self.moves.merge_in(run, &mut store.map, requests, io) {
                return true;
            }
            let mut slots = run.slot..run.slot + run.count;
            is_volatile |= slots.any(|slot| store.map.is_log_volatile(slot));
        }
        let d = &mut io[device];
        if is_short_of_space && is_volatile && d.flushing.is_none() {
            d.flush_wanted = true;
        }
        false
    }

    pub(crate) fn begin_log_gc(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        io: &mut DeviceIo,
    ) -> bool {
        assert!(
            self.moves.takes_home_move(&self.evacuation),
            "a log is cleaned while nothing else is read"
        );
        let drives = io.hdds().iter().filter_map(|&id| {
            let d = &io[id];
            let log = d.log.as_ref().filter(|_| !d.is_faulted())?;
            let is_wanted = d.bcw.as_ref().is_some_and(|bcw| bcw.is_wanted(io.now()));
            Some((id, self.moves.need_of(log, io), is_wanted))
        });
        let presses = io.waits_for_space() && io.ssds().is_empty();
        for device in gc::order(drives) {
            let Some(log) = &mut io[device].log else { continue };
            let before = log.used_percent();
            let victim = if presses { log.victim_for_room() } else { log.victim() };
            let run = victim.map(|segment| log.segment_run(segment));
            if log.used_percent() < before {
                io.note_space();
            }
            let Some(run) = run else { continue };
            let blocks_max = (io.config().writeback_run_bytes / BLOCK_BYTES) as usize;
            let blocks_max = if self.moves.takes_single() { 1 } else { blocks_max };
            let parts = self.moves.movable_parts(run, blocks_max, &store.map, &volumes.objects, io);
            if parts.is_empty() && !self.moves.is_idle() {
                // homes wait for the drive, and a flush would go before them
                continue;
            }
            if parts.is_empty() {
                self.moves.unlock_segment(
                    device,
                    run,
                    &mut store.map,
                    requests,
                    &mut store.commit,
                    io,
                );
                if self.moves.active.is_some()
                    || self.clean_another(device, blocks_max, store, volumes, requests, io)
                {
                    return true;
                }
                continue;
            }
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
        false
    }
}
