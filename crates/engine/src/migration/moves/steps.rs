//! Moves of blocks, step by step: begun, written, ended, and when one is due.

use super::{
    HOMED_BLOCKS_MAX, LOOK_BLOCKS_AGAIN_MAX, LOOK_BLOCKS_MAX, Move, Moves, Part,
    REST_AFTER_FAILURE, Stage, Stretches, Sums, run_length,
};
use crate::config::EngineConfig;
use crate::device::{Class, Job};
use crate::drain::Evacuation;
use crate::io::DeviceIo;
use crate::log::gc::Need;
use crate::map::objects::Objects;
use crate::map::{Entry, Logical, Map, NONE, Run, Slot};
use crate::metadata_replica::MetadataReplica;
use crate::migration::copies::Copies;
use crate::owner::{MigrationIo, MoveKind, Owner};
use crate::policy::steering::Steering;
use crate::port::{Command, IoOp};
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use tandem_block::{BLOCK_BYTES, Duration, Instant, PayloadId};

impl Moves {
    /// Is a move of this kind under way?
    pub(crate) fn runs(&self, kind: MoveKind) -> bool {
        let active = self.active.as_ref();
        active.is_some_and(|m| m.kind == kind) || self.home_writes.has_kind(kind)
    }

    /// Must it run although users want the drive?
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Was nothing found that could be moved home, since this batch was durable?
    pub(crate) fn found_nothing(&self, durable: u64) -> bool {
        self.barren_since == Some(durable)
    }

    /// May a move begin: does none rest after failures?
    pub(crate) fn may_begin(&self, now: Instant) -> bool {
        now >= self.rests_until
    }

    /// Is it time to move one block alone?
    pub(crate) fn takes_single(&mut self) -> bool {
        let is_single = self.single > 0;
        self.single = self.single.saturating_sub(1);
        is_single
    }

    /// Is no move under way?
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_none() && self.home_writes.is_empty()
    }

    /// May one begin that goes home? A drain keeps its own moves apart.
    pub(crate) fn takes_home_move(&self, evacuation: &Evacuation) -> bool {
        self.active.is_none() && (self.home_writes.is_empty() || !evacuation.is_under_way())
    }

    /// Homes that were written and not flushed yet.
    pub(crate) fn homed_count(&self) -> usize {
        self.homed.count()
    }

    /// Is its home being written, or was it written and not flushed yet?
    pub(crate) fn is_homed(&self, block: Logical) -> bool {
        self.homed.has(block) || self.home_writes.has(block)
    }

    /// Is dirty SSD space, in whole percent, more than this? What is written home, or is home already and waits for its
    /// drive's flush, is not: writing back more would not make it clean any sooner. (If it was
    /// overwritten meanwhile it is dirty again, which shows after that flush.)
    #[inline]
    fn is_dirtier_than(&self, percent: u64, kept_blocks: u64, map: &Map) -> bool {
        let elsewhere = self.homed.ssd_blocks() + self.home_writes.written_back() + kept_blocks;
        let dirty = map.population().dirty_ssd.saturating_sub(elsewhere);
        dirty * 100 >= (percent + 1) * map.ssd_slots().max(1)
    }

    /// Is so much dirty that write-back may begin, if nothing of it is kept, or home already?
    #[inline]
    pub(crate) fn is_dirty(&self, map: &Map, config: &EngineConfig) -> bool {
        let low = config.writeback_low_percent.min(config.writeback_high_percent);
        map.population().dirty_ssd * 100 >= (low + 1) * map.ssd_slots().max(1)
    }

    /// Write-back has looked at so many blocks in vain. Once those were all that are dirty, it will find
    /// nothing before another batch is durable.
    fn note_barren(&mut self, looked: u64, map: &Map, commit: &Commit) {
        let durable = commit.durable();
        assert!(self.barren_as_of <= durable, "what is durable stays so");
        assert!(looked <= LOOK_BLOCKS_MAX, "one step looks at no more than its bound");
        if self.barren_as_of != durable {
            (self.barren_as_of, self.barren_looked) = (durable, 0);
        }
        self.barren_looked += looked;
        let all = self.found_nothing(durable)
            || looked < LOOK_BLOCKS_MAX
            || self.barren_looked >= map.population().dirty_ssd;
        self.barren_since = all.then_some(durable);
    }

    pub(crate) fn is_fixed_source(
        &self,
        owner: Logical,
        slot: Slot,
        map: &Map,
        io: &DeviceIo,
    ) -> bool {
        io.is_fixed() && map.entry(owner) == Entry::in_slot(slot, true)
    }

    /// Is this block on its way home?
    pub(crate) fn is_moving(&self, block: Logical) -> bool {
        let active = self.active.as_ref();
        self.home_writes.has(block)
            || active.is_some_and(|m| m.parts.iter().any(|part| part.logical == block))
    }

    /// Moves these durable SSD slots home.
    pub(crate) fn begin_writeback_of(
        &mut self,
        blocks: &[(Logical, Slot)],
        commit: &Commit,
        map: &mut Map,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        let part = |&(logical, slot): &(Logical, Slot)| Part::new(logical, slot);
        let parts = blocks.iter().map(part).collect();
        self.begin_home_move(MoveKind::WriteBack, parts, commit, map, evacuation, io);
    }

    pub(crate) fn begin_home_move(
        &mut self,
        kind: MoveKind,
        mut parts: Vec<Part>,
        commit: &Commit,
        map: &mut Map,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) {
        assert!(self.active.is_none(), "one move at a time");
        assert!(!parts.is_empty(), "a move of nothing");
        assert!(
            !kind.is_of_one_block() && kind != MoveKind::Rehome,
            "blocks that are read in another way have moves of their own"
        );
        for part in &mut parts {
            assert!(part.copied.is_none(), "a part is watched once");
            part.copied = Some(map.watch(part.logical));
        }
        let length_bytes = parts.len() as u64 * BLOCK_BYTES;
        let buffer = io.reserve(length_bytes);
        let mut m = Move {
            kind,
            stage: Stage::Reading,
            parts,
            buffer,
            outstanding: 0,
            failed: false,
            after_batch: commit.composed(),
            target: Run { slot: NONE, count: 1 },
            targets: Vec::new(),
            since: io.now(),
            sums: Sums::default(),
        };
        let mut at = 0;
        while at < m.parts.len() {
            let count = run_length(
                &m.parts[at..],
                |a, b| b.slot == a.slot + 1,
                |part| map.slots().region(part.slot).device,
            );
            let slot = m.parts[at].slot;
            let region = *map.slots().region(slot);
            assert!(
                region.contains(slot + (count as Slot - 1)),
                "one read stays within the slots of its drive"
            );
            let op = IoOp::Read {
                offset_bytes: region.address(slot),
                length_bytes: count as u64 * BLOCK_BYTES,
                into: buffer,
                into_offset_bytes: at as u64 * BLOCK_BYTES,
            };
            m.outstanding += 1;
            let owner = Owner::Migration(MigrationIo::Read(at as u64));
            if kind == MoveKind::Drain {
                evacuation.send_drained(region.device, op, owner, io);
            } else {
                io.enqueue(region.device, Class::Background, Job::Io(op, owner), None);
            }
            at += count;
        }
        self.active = Some(m);
    }

    /// Does no command name a home that the active move is going to write? Whoever still reads what was
    /// there before gets it.
    pub(crate) fn are_homes_unread(&mut self, objects: &Objects, io: &mut DeviceIo) -> bool {
        let m = self.active.take().expect("asked by the caller");
        let is_unread =
            m.parts.iter().all(|part| self.is_home_unpinned(part.logical, 1, objects, io));
        self.active = Some(m);
        is_unread
    }

    /// Does no command name the homes of these blocks, which lie behind each other?
    pub(crate) fn is_home_unpinned(
        &self,
        first: Logical,
        count: u64,
        objects: &Objects,
        io: &mut DeviceIo,
    ) -> bool {
        let (device, address) = objects.home_of(first, io);
        assert!(
            count == 1
                || objects.home_of(first + (count as Logical - 1), io)
                    == (device, address + (count - 1) * BLOCK_BYTES),
            "homes that are asked about as one lie behind each other"
        );
        let pins = io[device].queue.pins_mut();
        pins.await_free(address / BLOCK_BYTES, count)
    }

    pub(crate) fn wants_writeback(
        &self,
        quiet: bool,
        map: &Map,
        steering: &Steering,
        tiers: &Tiers,
        io: &DeviceIo,
    ) -> bool {
        let config = io.config();
        if !self.is_dirty(map, config) {
            return false;
        }
        let kept = tiers.kept_blocks_max(map, io);
        self.is_dirtier_than(config.writeback_high_percent, kept, map)
            || (self.is_dirtier_than(config.writeback_low_percent, kept, map)
                && (self.writing_back || (quiet && steering.homes_in_quiet)))
    }

    pub(crate) fn space_is_urgent(
        &self,
        log_need: Need,
        map: &Map,
        copies: &Copies,
        tiers: &Tiers,
        io: &DeviceIo,
    ) -> bool {
        io.waits_for_space()
            || self.is_dirtier_than(
                io.config().writeback_high_percent,
                tiers.kept_blocks_max(map, io),
                map,
            )
            || log_need == Need::Urgent
            || tiers.much_is_demoting()
            || copies.are_awaited()
    }

    pub(crate) fn end_move(
        &mut self,
        map: &mut Map,
        copies: &mut Copies,
        tiers: &mut Tiers,
        evacuation: &mut Evacuation,
        io: &mut DeviceIo,
    ) {
        let m = self.active.take().expect("asked by the caller");
        self.finish_move(m, map, copies, tiers, evacuation, io);
    }

    pub(crate) fn finish_move(
        &mut self,
        m: Move,
        map: &mut Map,
        copies: &mut Copies,
        tiers: &mut Tiers,
        evacuation: &mut Evacuation,
        io: &mut DeviceIo,
    ) {
        assert!(m.outstanding == 0, "a move ends when none of its commands is under way");
        assert!(m.stage != Stage::Reading, "a move ends when its sources have been read");
        assert!(m.sums.pinned() == 0, "a move ends when it keeps no page in RAM");
        // a drain looks at each block that fails by itself, and keeps a pace of its own
        let rests = m.failed && !matches!(m.kind, MoveKind::Drain | MoveKind::Rehome);
        self.failures = if rests { self.failures + 1 } else { 0 };
        if rests {
            // whatever fails now would fail again at once
            let pause_ns = REST_AFTER_FAILURE.ns << (self.failures - 1).min(9);
            self.rests_until = io.now() + Duration::from_ns(pause_ns);
        }
        m.parts.iter().filter_map(|part| part.copied.clone()).for_each(|c| map.forget(c));
        let is_sound_gc = m.kind == MoveKind::LogGc && !m.failed;
        let moved_blocks = if is_sound_gc { m.parts.len() as u64 } else { 0 };
        evacuation.move_ended(moved_blocks, m.since, io.now());
        copies.restoring_done(false, io);
        tiers.look_at_demoting();
        if m.buffer != PayloadId::NONE {
            io.send(Command::Release(m.buffer));
        }
    }

    /// When idle time will begin, if something waits for it.
    pub(crate) fn moves_due(
        &self,
        map: &Map,
        metadata_replica: &MetadataReplica,
        copies: &Copies,
        steering: &Steering,
        tiers: &Tiers,
        io: &DeviceIo,
    ) -> Instant {
        if io.waits_for_space() && io.now() < self.rests_until {
            return self.rests_until;
        }
        let waits = self.is_idle()
            && !io.hdds().is_empty()
            && !io.is_quiet()
            && !io.is_fixed()
            && (!self.homed.is_empty()
                || self.wants_writeback(true, map, steering, tiers, io)
                || self.merging.wants_quiet(map)
                || copies.copies_await_quiet()
                || metadata_replica.awaits_quiet()
                || io.hdds().iter().any(|&hdd| !io[hdd].tail.items.is_empty()));
        if waits { io.quiet_from() } else { Instant::NEVER }
    }

    pub(crate) fn begin_writeback(
        &mut self,
        map: &mut Map,
        objects: &Objects,
        commit: &mut Commit,
        tiers: &Tiers,
        evacuation: &Evacuation,
        io: &mut DeviceIo,
    ) -> bool {
        let blocks_max = (io.config().writeback_run_bytes / BLOCK_BYTES) as usize;
        if self.homed.count() >= HOMED_BLOCKS_MAX {
            return false; // until the flush is done
        }
        let total = map.leaves().block_count() as Logical;
        let mut parts = Vec::with_capacity(blocks_max);
        let mut from = self.cursor;
        assert!(from <= total, "the search begins at a block of the map");
        let mut wrapped = false;
        let (mut looked, mut stretches) = (0u64, Stretches::default());
        // where all was in vain it is looked for again in each turn, so a turn looks at less
        let is_barren = self.found_nothing(commit.durable());
        let look_max = if is_barren { LOOK_BLOCKS_AGAIN_MAX } else { LOOK_BLOCKS_MAX };
        while parts.len() < blocks_max && stretches.has_room() && looked < look_max {
            looked += 1;
            // not beyond where it began: a block would be moved twice
            let end = if wrapped { self.cursor } else { total };
            let Some(block) = map.leaves().next_dirty(from, end) else {
                if wrapped || from == 0 {
                    break;
                }
                wrapped = true;
                from = 0;
                continue;
            };
            from = block + 1;
            if self.is_homed(block) {
                continue;
            }
            // where the home is on a drive that leaves it will soon be elsewhere
            let home = &io[objects.home_of(block, io).0];
            let is_open = home.takes_new() || io.waits_for_space() && !home.is_faulted();
            if !is_open || tiers.is_kept(block, map, io) {
                continue;
            }
            if let Some(slot) = map.writeback_source(block) {
                stretches.add(block);
                parts.push(Part::new(block, slot));
            }
        }
        self.cursor = if from >= total { 0 } else { from };
        if parts.is_empty() {
            self.note_barren(looked, map, commit);
            if map.pending_blocks() > 0 && io.waits_for_space() {
                commit.note_pending(io.now());
            }
            return false;
        }
        self.barren_looked = 0;
        parts.sort_unstable_by_key(|part| part.logical);
        self.begin_home_move(MoveKind::WriteBack, parts, commit, map, evacuation, io);
        true
    }
}
