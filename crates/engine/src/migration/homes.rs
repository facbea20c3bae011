//! When does a home that was written count as a place?
//!
//! Source: design decision 6. A move (`moves`) has read its sources and may write: the homes that are
//! still wanted, in runs. What the drive has acknowledged is *homed*; a flush of the drive makes it a
//! place in the map, if the block has not changed since; the record that names it frees the log place.

use crate::device::{Class, Job};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Copied, Entry, Logical, Map, NONE, Slot, Touch};
use crate::migration::Migration;
use crate::migration::copies::Copies;
use crate::migration::moves::{HOMED_BLOCKS_MAX, Moves, Part, Stage};
use crate::mutant::Mutant;
use crate::owner::{Ended, MigrationIo, MoveKind, Owner, Parts};
use crate::policy::Policy;
use crate::port::IoOp;
use crate::store::Store;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use std::collections::VecDeque;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Moves {
    pub(crate) fn want_home_flush(&self, io: &mut DeviceIo) {
        for index in 0..io.hdds().len() {
            let device = io.hdds()[index];
            let durable = self.homes_durable_mark(device);
            let d = &mut io[device];
            assert!(d.home_writes >= durable, "only homes that were written are durable");
            if d.home_writes > durable && d.flushing.is_none() && !d.is_faulted() {
                d.flush_wanted = true;
            }
        }
    }

    /// For a mutant: the version that is in the slot now, whichever was copied.
    fn believe_by_slot(&self, copied: Copied, slot: Slot, map: &mut Map, io: &DeviceIo) -> Copied {
        let entry = map.entry(copied.block());
        if !io.breaks(Mutant::HomeBySlot) || entry.ssd != slot && entry.log != slot {
            return copied;
        }
        let block = copied.block();
        map.forget(copied);
        map.watch(block)
    }

    fn is_still_source(&self, kind: MoveKind, part: &Part, map: &Map, io: &DeviceIo) -> bool {
        let copied = part.copied.as_ref().expect("what goes home is watched");
        if !map.is_latest(copied) && !io.breaks(Mutant::HomeBySlot) {
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

    /// The home of this part was written, as the home write of this number.
    fn note_homed(&mut self, number: u64, part: Part, map: &Map) {
        assert!(part.copied.is_some(), "what is on its way home is watched");
        self.homed_ssd += u64::from(!map.slots().is_log(part.slot));
        let is_new = self.homed_blocks.insert(part.logical);
        assert!(is_new, "one home of a block at a time waits for a flush");
        self.homed.push_back((number, part));
    }

    fn forget_homed(&mut self, part: &Part, map: &Map) {
        let from_ssd = u64::from(!map.slots().is_log(part.slot));
        assert!(self.homed_ssd >= from_ssd, "a home from an SSD is counted until it is forgotten");
        self.homed_ssd -= from_ssd;
        let was_known = self.homed_blocks.remove(&part.logical);
        assert!(was_known, "a home that waits for a flush is forgotten once");
    }

    /// Do the counts of homes that wait for a flush say the same?
    fn assert_homed(&self) {
        assert!(
            self.homed.len() == self.homed_blocks.len(),
            "each home that waits is of one block"
        );
        assert!(self.homed_ssd <= self.homed.len() as u64, "homes from SSDs are some of them");
    }

    /// Was its home written, and not flushed yet?
    pub(crate) fn is_homed(&self, block: Logical) -> bool {
        self.homed_blocks.contains(&block)
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
        for (number, part) in std::mem::take(&mut self.homed) {
            if objects.home_of(part.logical, io).0 == device {
                self.forget_homed(&part, map);
                part.copied.into_iter().for_each(|copied| map.forget(copied));
            } else {
                self.homed.push_back((number, part));
            }
        }
        self.assert_homed();
        evacuation.lose_rehomed(device, objects);
    }

    /// After a commit: log places of blocks whose homes are recorded go.
    pub(crate) fn give_up_log_places(&mut self, commit: &mut Commit, map: &mut Map, io: &DeviceIo) {
        for (block, slot) in std::mem::take(&mut self.homed_log) {
            let is_home_too = Entry { home: true, ..Entry::in_slot(slot, true) };
            if map.entry(block) != is_home_too {
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

    /// Flushes the hard drives when enough homes were written, or nothing else is left to do.
    pub(crate) fn flush_homed(
        &self,
        commit: &Commit,
        copies: &Copies,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let enough = self.homed.len() >= HOMED_BLOCKS_MAX
            || (!self.homed.is_empty()
                && (io.waits_for_space()
                    || !(self.writing_back
                        || copies.copies_can_move(commit)
                        || tiers.demoting_can_move())));
        if enough {
            self.want_home_flush(io);
        }
    }

    /// Nothing is on its way home, and this turn has shown that nothing follows: what was waited with the
    /// flush for only waits for it, too, and perhaps nobody will ask again.
    pub(crate) fn flush_homed_at_rest(
        &self,
        commit: &Commit,
        copies: &Copies,
        tiers: &Tiers,
        io: &mut DeviceIo,
    ) {
        let moves = self.active.is_none() && !self.homed.is_empty();
        let serves = io.is_serving() && !io.is_stopping();
        if moves && serves && !io.is_fixed() && !commit.is_broken() {
            self.flush_homed(commit, copies, tiers, io);
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
                io.stats_mut().moves_dropped += 1;
                at += 1;
                continue;
            }
            let (device, address) = objects.home_of(part.logical, io);
            let logical = part.logical;
            evacuation.forget_rehomed(logical, objects);
            let mut count = 1;
            while at + count < order.len() {
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
            let owner = Owner::Migration(MigrationIo::Write {
                parts: Parts { first: order[at] as u64, count: count as u64 },
                kind: m.kind,
            });
            io.enqueue(device, Class::Background, Job::Io(op, owner), None);
            at += count;
        }
        let idle = m.outstanding == 0;
        self.active = Some(m);
        if idle {
            self.end_move(map, copies, tiers, evacuation, io);
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
        self.moves.homes_durable.resize(io.drives().len(), 0);
        let known = &mut self.moves.homes_durable[usize::from(device.0)];
        assert!(*known <= mark, "homes that are durable stay so");
        assert!(mark <= io[device].home_writes, "a flush covers homes that were written");
        *known = mark;
        let mut later = VecDeque::new();
        while let Some((number, part)) = self.moves.homed.pop_front() {
            if volumes.objects.home_of(part.logical, io).0 != device || number > mark {
                later.push_back((number, part));
                continue;
            }
            self.moves.forget_homed(&part, &store.map);
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
        self.moves.homed = later;
        self.moves.assert_homed();
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

    /// Homes (or a merged block) were written.
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
        if m.kind.is_of_one_block() {
            self.merge_written(status, checksums.first().copied().unwrap_or(0), store, policy, io);
            return;
        }
        match m.kind {
            MoveKind::Drain => {
                return self.drained_written(written, status, checksums, store, policy, io);
            }
            MoveKind::Rehome => {
                return self.rehomed_written(device, status, store, volumes, policy, io);
            }
            _ => {}
        }
        let mut parts = m.parts[written.range()].to_vec();
        assert!(
            volumes.objects.home_of(parts[0].logical, io).0 == device,
            "a home stays where it is while it is written"
        );
        let d = &mut io[device];
        if let Err(error) = status {
            store.metadata.fault(device, error, io);
        } else {
            d.home_writes += 1;
            let number = d.home_writes;
            io.stats_mut().moves += written.count;
            if io.is_fixed() {
                self.moves.settle_fixed_homes(&parts, &mut store.map);
            } else {
                let m = self.moves.active.as_mut().expect("asked above");
                for (part, moving) in parts.iter_mut().zip(&mut m.parts[written.range()]) {
                    part.copied = moving.copied.take();
                }
                for part in parts {
                    self.moves.note_homed(number, part, &store.map);
                }
                self.moves.assert_homed();
            }
        }
        if io.breaks(Mutant::VolatileHome) && status.is_ok() {
            let mark = io[device].home_writes;
            self.homes_durable(device, mark, store, volumes, policy, io);
        }
        if self.moves.active.as_ref().is_some_and(|m| m.outstanding == 0) {
            self.moves.end_move(
                &mut store.map,
                &mut self.copies,
                &mut policy.tiers,
                &mut self.evacuation,
                io,
            );
        }
    }
}
