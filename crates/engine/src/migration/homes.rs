//! When does a home that was written count as a place?
//!
//! Source: design decision 6. A move (`moves`) has read its sources and may write: the homes that are
//! still wanted, in runs. What the drive has acknowledged is *homed*; a flush of the drive makes it a
//! place in the map, if the block has not changed since; the record that names it frees the log place.

use crate::device::{Class, Job};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::io::flush_costs::FlushCosts;
use crate::map::objects::Objects;
use crate::map::{Copied, Entry, Logical, Map, NONE, Slot, Touch};
use crate::migration::Migration;
use crate::migration::copies::Copies;
use crate::migration::moves::{
    COMMAND_BLOCKS_MAX, HOMED_BLOCKS_MAX, HOMED_BLOCKS_MIN, Moves, Part, Stage,
};
use crate::mutant::Mutant;
use crate::owner::{Ended, MigrationIo, MoveKind, Owner, Parts};
use crate::policy::Policy;
use crate::port::IoOp;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::store::room::Room;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::{BLOCK_BYTES, DeviceId};

/// Homes that are flushed together, in blocks: at least, and at most. What room is left on SSDs lasts until the flush.
fn homed_batch(map: &Map, io: &DeviceIo) -> (usize, usize) {
    if io.ssds().is_empty() {
        return (HOMED_BLOCKS_MIN, HOMED_BLOCKS_MAX);
    }
    let of_ssds = |share: u64| (map.ssd_slots() / share).max(1) as usize;
    let least = HOMED_BLOCKS_MIN.min(of_ssds(4));
    let most = HOMED_BLOCKS_MAX.min(of_ssds(3)).min(Room::of(map, 0).left() as usize);
    (least, most.max(least))
}

impl Moves {
    /// Flushes all drives on which homes were written.
    pub(crate) fn want_home_flush(&self, io: &mut DeviceIo) {
        self.want_flush_where(|_| true, io);
    }

    fn want_flush_where(&self, is_due: impl Fn(&mut FlushCosts) -> bool, io: &mut DeviceIo) {
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            let durable = self.homes_durable_mark(device);
            let d = &mut io[device];
            assert!(d.home_writes >= durable, "only homes that were written are durable");
            let may_flush = d.flushing.is_none() && !d.is_faulted();
            if d.home_writes > durable && may_flush && is_due(d.flush_costs()) {
                d.flush_wanted = true;
            }
        }
    }

    /// For a mutant: the version that is in the slot now, whichever was copied.
    fn believe_by_slot(&self, copied: Copied, slot: Slot, map: &mut Map, io: &DeviceIo) -> Copied {
        let entry = map.entry(copied.block());
        let holds = slot != NONE && (entry.ssd == slot || entry.log == slot);
        if !io.breaks(Mutant::HomeBySlot) || !holds {
            return copied;
        }
        let block = copied.block();
        map.forget(copied);
        map.watch(block)
    }

    fn is_still_source(&self, kind: MoveKind, part: &Part, map: &Map, io: &DeviceIo) -> bool {
        let copied = part.copied.as_ref().expect("what goes home is watched");
        let is_changed = !map.is_latest(copied) && !io.breaks(Mutant::HomeBySlot);
        if part.slot == NONE || is_changed {
            return false;
        }
        match kind {
            MoveKind::WriteBack => map.writeback_source(part.logical) == Some(part.slot),
            MoveKind::LogGc => {
                map.log_source(part.logical, part.slot)
                    || self.is_fixed_source(part.logical, part.slot, map, io)
            }
            MoveKind::Merge | MoveKind::Promotion | MoveKind::Drain | MoveKind::Rehome => false,
        }
    }

    fn settle_fixed_homes(&self, parts: &[Part], map: &mut Map) {
        for part in parts {
            let copied = part.copied.as_ref().expect("what goes home is watched");
            if map.note_home(copied) {
                map.drop_place(part.logical, part.slot);
            }
        }
    }

    /// Home writes of this drive that a flush has made durable.
    pub(crate) fn homes_durable_mark(&self, device: DeviceId) -> u64 {
        self.homed.durable(device)
    }

    /// The drive failed: homes that it had not made durable are none.
    pub(crate) fn lose_homed(
        &mut self,
        device: DeviceId,
        map: &mut Map,
        objects: &mut Objects,
        evacuation: &mut Evacuation,
        io: &DeviceIo,
    ) {
        let lost = self.homed.take(|_, part| objects.home_of(part.logical, io).0 == device);
        lost.into_iter().filter_map(|part| part.copied).for_each(|copied| map.forget(copied));
        evacuation.lose_rehomed(device, objects);
    }

    /// After a commit: log places of blocks whose homes are recorded go.
    pub(crate) fn give_up_log_places(&mut self, commit: &mut Commit, map: &mut Map, io: &DeviceIo) {
        for (block, slot) in std::mem::take(&mut self.homed_log) {
            // with or without a copy on an SSD, which stays
            let is_home_too = Entry { home: true, ..Entry::in_slot(slot, true) };
            if (Entry { ssd: NONE, ..map.entry(block) }) != is_home_too {
                continue;
            }
            if map.leaves().recorded_home(block) {
                map.drop_place(block, slot);
                map.touch(Touch { logical: block, count: 1 }, NONE, true);
                commit.note_pending(io.now());
            } else {
                self.homed_log.push((block, slot));
            }
        }
    }

    /// Flushes the hard drives when enough homes were written. When no more of them follow, that is in the quiet, or
    /// as soon as somebody waits for it.
    pub(crate) fn flush_homed(
        &self,
        commit: &Commit,
        copies: &Copies,
        tiers: &Tiers,
        map: &Map,
        io: &mut DeviceIo,
    ) {
        let goes_on = self.active.is_some()
            || self.writing_back
            || self.cleans_logs
            || !self.home_writes.is_empty()
            || copies.copies_can_move(commit)
            || tiers.demoting_can_move();
        let (least, most) = homed_batch(map, io);
        let homed = self.homed.count();
        let is_over = homed > 0 && !goes_on;
        let waits = io.waits_for_space() || copies.are_awaited();
        if homed >= most || is_over && (waits || io.is_quiet()) {
            self.want_home_flush(io);
        } else if homed > 0 && waits {
            self.want_flush_where(|costs| costs.is_awaited(), io);
        } else if homed >= least || is_over {
            // a drive that has worked so long that it is worth it
            let budget_percent = io.config().flush_budget_percent;
            self.want_flush_where(|costs| costs.is_paid(budget_percent), io);
        }
    }

    /// Nothing is on its way home, and this turn has shown that nothing follows: what was waited with the
    /// flush for only waits for it, too, and perhaps nobody will ask again.
    pub(crate) fn flush_homed_at_rest(
        &self,
        commit: &Commit,
        copies: &Copies,
        tiers: &Tiers,
        map: &Map,
        io: &mut DeviceIo,
    ) {
        let is_idle = self.active.is_none() && self.home_writes.is_empty();
        let moves = is_idle && !self.homed.is_empty();
        let serves = io.is_serving() && !io.is_stopping();
        if moves && serves && !io.is_fixed() && !commit.is_broken() {
            self.flush_homed(commit, copies, tiers, map, io);
        }
    }

    pub(crate) fn write_homes(
        &mut self,
        map: &mut Map,
        objects: &mut Objects,
        copies: &mut Copies,
        tiers: &mut Tiers,
        evacuation: &mut Evacuation,
        io: &mut DeviceIo,
    ) {
        let mut m = self.active.take().expect("asked by the caller");
        assert!(
            matches!(m.kind, MoveKind::WriteBack | MoveKind::LogGc),
            "homes are written by moves from an SSD or a log"
        );
        assert!(
            m.stage == Stage::Waiting && m.outstanding == 0 && !m.failed,
            "homes are written when all their sources have been read"
        );
        m.stage = Stage::Writing;
        let number = self.home_writes.number();
        let mut order: Vec<usize> = (0..m.parts.len()).collect();
        order.sort_unstable_by_key(|&i| m.parts[i].logical);
        debug_assert!(
            order.windows(2).all(|two| m.parts[two[0]].logical < m.parts[two[1]].logical),
            "a move has each block once"
        );
        let mut at = 0;
        while at < order.len() {
            let part = &m.parts[order[at]];
            if !self.is_still_source(m.kind, part, map, io) {
                // it may go elsewhere while the others are written
                m.parts[order[at]].slot = NONE;
                io.stats_mut().moves_dropped += 1;
                at += 1;
                continue;
            }
            let (device, address) = objects.home_of(part.logical, io);
            let logical = part.logical;
            evacuation.forget_rehomed(logical, objects);
            let mut count = 1;
            while at + count < order.len() && count < COMMAND_BLOCKS_MAX {
                let next = &m.parts[order[at + count]];
                let follows = order[at + count] == order[at] + count
                    && next.logical == logical + count as Logical
                    && objects.home_of(next.logical, io)
                        == (device, address + count as u64 * BLOCK_BYTES)
                    && self.is_still_source(m.kind, next, map, io);
                if !follows {
                    break;
                }
                evacuation.forget_rehomed(next.logical, objects);
                count += 1;
            }
            let op = IoOp::Write {
                offset_bytes: address,
                length_bytes: count as u64 * BLOCK_BYTES,
                from: m.buffer,
                from_offset_bytes: order[at] as u64 * BLOCK_BYTES,
                fua: false,
            };
            m.outstanding += 1;
            let owner = Owner::Migration(MigrationIo::Home {
                number,
                parts: Parts { first: order[at] as u64, count: count as u64 },
                kind: m.kind,
            });
            io.enqueue(device, Class::Background, Job::Io(op, owner), None);
            at += count;
        }
        if m.outstanding == 0 {
            self.finish_move(m, map, copies, tiers, evacuation, io);
        } else {
            self.home_writes.add(number, m);
        }
    }
}

impl Migration {
    /// A flush of a hard drive made durable its home writes up to `mark`.
    pub(crate) fn homes_durable(
        &mut self,
        device: DeviceId,
        mark: u64,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        assert!(mark <= io[device].home_writes, "a flush covers homes that were written");
        self.moves.homed.flushed(device, mark);
        let took_ns = io[device].flush_costs().settled();
        let mut made = 0;
        let settled = self.moves.homed.take(|number, part| {
            number <= mark && volumes.objects.home_of(part.logical, io).0 == device
        });
        for part in settled {
            made += u64::from(!store.map.slots().is_log(part.slot));
            let copied = part.copied.expect("what is on its way home is watched");
            let copied = self.moves.believe_by_slot(copied, part.slot, &mut store.map, io);
            let is_home = store.map.note_home(&copied);
            store.map.forget(copied);
            if !is_home {
                io.stats_mut().moves_dropped += 1;
                continue;
            }
            if store.map.slots().is_log(part.slot) {
                // the log place is given up one batch later, when a record names the home
                self.moves.homed_log.push((part.logical, part.slot));
            }
            store.map.touch(Touch { logical: part.logical, count: 1 }, NONE, true);
        }
        store.room().made(usize::from(device.0), made, took_ns);
        self.evacuation.rehomed_durable(
            device,
            mark,
            &mut volumes.objects,
            &mut store.commit,
            &self.moves,
            io,
        );
        self.copies.durable();
        policy.tiers.look_at_demoting();
        store.commit.note_pending(io.now());
    }

    /// Blocks were written to slots, or to the homes of others.
    pub(crate) fn move_write_done(
        &mut self,
        written: Parts,
        ended: Ended<'_>,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, checksums, .. } = ended;
        let m = self.moves.active.as_mut().expect("a move was writing");
        assert!(m.stage == Stage::Writing, "a write of a move ends while it writes");
        assert!(m.outstanding > 0, "a move waits for each of its writes");
        assert!(written.range().end <= m.parts.len(), "a move writes its own parts");
        m.outstanding -= 1;
        m.failed |= status.is_err();
        match m.kind {
            MoveKind::Merge | MoveKind::Promotion => {
                let checksum = checksums.first().copied().unwrap_or(0);
                self.merge_written(status, checksum, store, policy, io);
            }
            MoveKind::Drain => {
                self.drained_written(written, status, checksums, store, policy, io);
            }
            MoveKind::Rehome => {
                self.rehomed_written(device, status, store, volumes, policy, io);
            }
            MoveKind::WriteBack | MoveKind::LogGc => {
                unreachable!("homes are written beside the move that reads")
            }
        }
    }

    /// Homes were written.
    pub(crate) fn home_written(
        &mut self,
        (number, written): (u32, Parts),
        ended: Ended<'_>,
        store: &mut Store,
        volumes: &mut Volumes,
        policy: &mut Policy,
        io: &mut DeviceIo,
    ) {
        let Ended { device, status, .. } = ended;
        // a drive that failed meanwhile is not flushed any more
        let is_sound = status.is_ok() && !io[device].is_faulted();
        let parts = self.moves.home_writes.written(number, written, is_sound);
        assert!(
            volumes.objects.home_of(parts[0].logical, io).0 == device,
            "a home stays where it is while it is written"
        );
        let d = &mut io[device];
        if let Err(error) = status {
            store.metadata.fault(device, error, io);
        } else if is_sound {
            d.home_writes += 1;
            let home_write = d.home_writes;
            io.stats_mut().moves += written.count;
            if io.is_fixed() {
                self.moves.settle_fixed_homes(&parts, &mut store.map);
                parts.into_iter().filter_map(|part| part.copied).for_each(|c| store.map.forget(c));
            } else {
                for part in parts {
                    let from_ssd = !store.map.slots().is_log(part.slot);
                    self.moves.homed.add(home_write, part, from_ssd);
                }
            }
        }
        if io.breaks(Mutant::VolatileHome) && is_sound {
            let mark = io[device].home_writes;
            self.homes_durable(device, mark, store, volumes, policy, io);
        }
        if let Some(m) = self.moves.home_writes.take_over(number) {
            self.moves.finish_move(
                m,
                &mut store.map,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
        }
    }
}
