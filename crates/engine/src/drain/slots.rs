//! What steps move everything off a drive that shall leave?
//!
//! Source: requirements of pool life; design decisions 6 and 10.
//!
//! ```text
//! hard drive: `evacuating`
//! SSD: what lives in its slots, a run at a time ─▶ read ─▶ written to slots of other SSDs ─▶ the map names these,
//!      if the block has not changed since ─▶ a commit records it, which frees the old slots
//!      where the others are short of space: copies are dropped, the rest is moved home by write-back
//!      blocks with fragments are merged, which takes them to another SSD
//! ```
//! It goes round until nothing is left. Moves take turns with others', and rest as long as they took while
//! users work. What cannot be read stays, and is told.

mod steps;

use crate::device::{Class, Job};
use crate::drain::{Evacuation, UNREADABLE_MAX};
use crate::io::DeviceIo;
use crate::map::entry::LOG;
use crate::map::objects::Objects;
use crate::map::{Logical, Map, NONE, Slot, SlotRegion, Touch};
use crate::metadata::MetadataHomes;
use crate::migration::copies::Copies;
use crate::migration::moves::{Moves, Part, Stage};
use crate::mutant::Mutant;
use crate::owner::{MigrationIo, MoveKind, Owner, Parts};
use crate::port::IoOp;
use crate::store::commit::Commit;
use crate::tiering::Tiers;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration};

/// Blocks on SSDs looked at in one step at most, and blocks of the map: bounds the time that an event takes.
const LOOK_BLOCKS_MAX: u64 = 16_384;
const LOOK_MAP_BLOCKS_MAX: u64 = 1 << 24;
/// Commands of one move at most.
const RUNS_MAX: usize = 32;
/// It looks again after this long if nothing could be moved, and goes on after this long where it has not seen all.
const LOOK_EVERY: Duration = Duration::from_ms(20);
const GO_ON_AFTER: Duration = Duration::from_ms(1);

/// What was found on a drive.
#[derive(Default)]
struct Found {
    parts: Vec<Part>,
    /// A block to merge.
    fragmented: Option<Logical>,
    /// Copies that need not be moved: their source cannot be read, and their homes can.
    copies: Vec<(Logical, Slot)>,
    /// A home is on its way.
    homed: bool,
}

impl Evacuation {
    fn find_on_ssd(&mut self, device: DeviceId, moves: &Moves, map: &Map, io: &DeviceIo) -> Found {
        let ssd = io.ssds().iter().position(|&id| id == device).expect("an SSD");
        let region = map.slots().regions()[ssd];
        assert!(region.device == device, "the slots of SSDs are numbered as these are");
        let blocks_max = io.config().drain_run_blocks() as usize;
        let drain = self.current.as_deref().expect("asked by the caller");
        let mut found = Found::default();
        let all = map.leaves().block_count() as Logical;
        let begins = if drain.cursor < all { drain.cursor } else { 0 };
        let end = all.min(begins + LOOK_MAP_BLOCKS_MAX);
        let (mut block, mut runs, mut looked) = (begins, 0, 0);
        loop {
            let limit = if block < drain.careful_until { 1 } else { blocks_max };
            if found.parts.len() >= limit || looked == LOOK_BLOCKS_MAX {
                break;
            }
            let Some(next) = map.leaves().next_on_ssd(block, end) else {
                block = end;
                break;
            };
            looked += 1;
            if let Some(part) = self.found_of(next, &region, &mut found, moves, map) {
                let last = found.parts.last();
                // those before a bad one are read alone, and so is this one
                if last.is_some() && next < drain.careful_until {
                    block = next;
                    break;
                }
                runs += usize::from(last.is_none_or(|last| last.slot + 1 != part.slot));
                if runs > RUNS_MAX {
                    block = next;
                    break;
                }
                found.parts.push(part);
            }
            block = next + 1;
        }
        let drain = self.current.as_deref_mut().expect("asked by the caller");
        if block == all {
            drain.careful_until = 0;
        }
        drain.cursor = if block == all { 0 } else { block };
        drain.goes_on = block < all;
        found
    }

    /// What of a block has to be moved from a drive.
    fn found_of(
        &self,
        logical: Logical,
        region: &SlotRegion,
        found: &mut Found,
        moves: &Moves,
        map: &Map,
    ) -> Option<Part> {
        let entry = map.entry(logical);
        if entry.fragmented {
            let parts = map.fragments(logical).iter().map(|part| part.slot);
            if parts.chain([entry.ssd]).any(|slot| region.contains(slot)) {
                found.fragmented.get_or_insert(logical);
            }
            return None;
        }
        let slot = entry.ssd;
        if !region.contains(slot) {
            return None;
        }
        if moves.is_homed(logical) {
            found.homed = true;
            return None;
        }
        let drain = self.current.as_deref().expect("asked by the caller");
        if drain.unreadable.contains(&slot) {
            if map.spare_copy(logical).is_some() {
                found.copies.push((logical, slot));
            }
            return None;
        }
        Some(Part::new(logical, slot))
    }

    /// Queues a command of a drain's: users of an SSD would keep it waiting for ever, so it does not wait
    /// behind them where nobody is told apart.
    pub(crate) fn send_drained(&self, device: DeviceId, op: IoOp, owner: Owner, io: &mut DeviceIo) {
        let d = &io[device];
        if d.is_ssd() && d.streams.is_none() && !d.is_faulted() {
            io.submit(device, op, owner);
        } else {
            io.enqueue(device, Class::Background, Job::Io(op, owner), None);
        }
    }

    fn drained_to(&mut self, logical: Logical, to: Slot, map: &mut Map) {
        map.touch(Touch { logical, count: 1 }, to, false);
        if let Some(drain) = self.current.as_deref_mut().filter(|drain| drain.owns_move) {
            drain.moved_blocks += 1;
        }
    }

    /// What was read of a move is not what was written there once, or cannot be read.
    pub(crate) fn note_unreadable(&mut self, slots: &[Slot]) {
        let drain = self.current.as_deref_mut().filter(|drain| drain.owns_move);
        let Some(drain) = drain else { return };
        for &slot in slots {
            if drain.unreadable.len() < UNREADABLE_MAX {
                drain.unreadable.insert(slot);
            }
        }
    }
}

fn drop_copies_of(copies: &[(Logical, Slot)], io: &DeviceIo, map: &mut Map, commit: &mut Commit) {
    for &(logical, slot) in copies {
        if map.drop_place(logical, slot) {
            map.touch(Touch { logical, count: 1 }, NONE, true);
            commit.note_pending(io.now());
        }
    }
}

impl Evacuation {
    /// Does nothing lie on the drive, also after a crash, and is nothing on its way there?
    pub(crate) fn is_drained(
        &self,
        device: DeviceId,
        map: &Map,
        objects: &Objects,
        commit: &Commit,
        metadata: &MetadataHomes,
        io: &DeviceIo,
    ) -> bool {
        let d = &io[device];
        if !metadata.can_do_without(device, io) && !io.breaks(Mutant::LeavesLagging) {
            return false;
        }
        let Some(ssd) = io.ssds().iter().position(|&id| id == device) else {
            return !d.has_waiting() && self.is_vacated(device, objects, commit, io);
        };
        if io.breaks(Mutant::DrainedTooEarly) {
            let region = map.slots().regions()[ssd];
            let lives = |slot: Slot| map.slots().is_place(slot);
            return !d.has_waiting() && !(region.first..region.first + region.count).any(lives);
        }
        !d.has_waiting() && self.lies_on(device, map, objects, io) == 0
    }

    /// To other SSDs, or home.
    fn move_away(
        &self,
        parts: Vec<Part>,
        map: &mut Map,
        objects: &Objects,
        commit: &mut Commit,
        moves: &mut Moves,
        io: &mut DeviceIo,
    ) -> bool {
        let kept = if io.hdds().is_empty() { 0 } else { map.ssd_slots() / 16 };
        if map.ssd_free() >= parts.len() as u64 + kept {
            moves.begin_home_move(MoveKind::Drain, parts, commit, map, self, io);
            return true;
        }
        if io.hdds().is_empty() {
            return false;
        }
        let is_copy = |part: &&Part| map.spare_copy(part.logical) == Some(part.slot);
        let copies: Vec<(Logical, Slot)> =
            parts.iter().filter(is_copy).map(|part| (part.logical, part.slot)).collect();
        drop_copies_of(&copies, io, map, commit);
        let source = |part: &&Part| {
            map.writeback_source(part.logical) == Some(part.slot)
                && !io[objects.home_of(part.logical, io).0].is_faulted()
        };
        let mut home: Vec<(Logical, Slot)> =
            parts.iter().filter(source).map(|part| (part.logical, part.slot)).collect();
        // a tail's copy goes when its drive was flushed
        for part in parts.iter().filter(|part| map.state(part.logical) & LOG != 0) {
            let log = map.entry(part.logical).log;
            let d = &mut io[map.slots().region(log).device];
            d.flush_wanted |= d.flushing.is_none() && !d.is_faulted();
        }
        home.sort_unstable();
        if home.is_empty() || moves.homed_count() >= crate::migration::moves::HOMED_BLOCKS_MAX {
            moves.want_home_flush(io);
            return false;
        }
        moves.begin_writeback_of(&home, commit, map, self, io);
        true
    }

    /// The sources of a drain's move are read: they are written to other SSDs.
    pub(crate) fn write_drained(
        &mut self,
        map: &mut Map,
        moves: &mut Moves,
        copies: &mut Copies,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) {
        let mut m = moves.active.take().expect("asked by the caller");
        assert!(m.kind == MoveKind::Drain && m.outstanding == 0, "a drain has read what it moves");
        assert!(m.stage == Stage::Waiting, "what is moved is written once");
        m.stage = Stage::Writing;
        m.targets = vec![NONE; m.parts.len()];
        let mut at = 0;
        while at < m.parts.len() {
            let sound = m.parts[at..].iter().take_while(|part| part.slot != NONE).count();
            if sound == 0 {
                at += 1;
                continue;
            }
            let Some(run) = map.allocate_ssd(sound as u64) else { break };
            let region = *map.slots().region(run.slot);
            let drains = self.current.as_deref().filter(|drain| drain.moves());
            assert!(
                drains.is_none_or(|drain| drain.device != region.device),
                "nothing new goes to a drive that drains"
            );
            for i in 0..run.count {
                m.targets[at + i as usize] = run.slot + i;
            }
            let op = IoOp::Write {
                offset_bytes: region.address(run.slot),
                length_bytes: run.count * BLOCK_BYTES,
                from: m.buffer,
                from_offset_bytes: at as u64 * BLOCK_BYTES,
                fua: false,
            };
            m.outstanding += 1;
            self.send_drained(
                region.device,
                op,
                Owner::Migration(MigrationIo::Write {
                    parts: Parts { first: at as u64, count: run.count },
                    kind: MoveKind::Drain,
                }),
                io,
            );
            at += run.count as usize;
        }
        let idle = m.outstanding == 0;
        moves.active = Some(m);
        if idle {
            moves.end_move(map, copies, tiers, self, io);
        }
    }

    /// A read of a drain's move failed: its places are read one by one.
    pub(crate) fn drained_unread(
        &mut self,
        map: &mut Map,
        moves: &mut Moves,
        copies: &mut Copies,
        tiers: &mut Tiers,
        io: &mut DeviceIo,
    ) {
        let m = moves.active.as_ref().expect("asked by the caller");
        assert!(
            m.kind == MoveKind::Drain && m.stage == Stage::Waiting && m.failed,
            "what a drain could not read is not written"
        );
        let slots: Vec<Slot> =
            m.parts.iter().map(|part| part.slot).filter(|&slot| slot != NONE).collect();
        let ends = m.parts.first().zip(m.parts.last());
        let ends = ends.map(|(first, last)| (first.logical, last.logical));
        if slots.len() == 1 {
            self.note_unreadable(&slots);
        } else if let (Some(drain), Some((first, last))) = (self.current.as_deref_mut(), ends)
            && drain.owns_move
        {
            drain.careful_until = last + 1;
            drain.cursor = first;
        }
        moves.end_move(map, copies, tiers, self, io);
    }
}
