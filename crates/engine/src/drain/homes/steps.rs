//! Homes that leave a drive, step by step.

use super::{EMPTY_BLOCKS_MAX, Next, Rehomed, Turn, WAITING_RUNS_MAX};
use crate::device::{Class, Job};
use crate::drain::{Drain, Evacuation};
use crate::format::record::HOMES_RECORD_BYTES;
use crate::io::DeviceIo;
use crate::map::journal::Journal;
use crate::map::objects::Objects;
use crate::map::space::{BlockRange, Space};
use crate::map::{Logical, Map, NONE, Run};
use crate::migration::moves::{Move, Moves, Part, Stage, Sums};
use crate::mutant::Mutant;
use crate::owner::{MigrationIo, MoveKind, Owner};
use crate::port::IoOp;
use crate::store::commit::Commit;
use tandem_block::{BLOCK_BYTES, DeviceId};

impl Evacuation {
    pub(crate) fn set_drain_cursor(&mut self, block: Logical) {
        self.current.as_deref_mut().expect("asked by the caller").cursor = block;
    }

    /// What can become of the first of these blocks, and of those behind it that are like it.
    pub(crate) fn next_home_run(
        &self,
        left: BlockRange,
        moves: &Moves,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Next {
        let drain = self.current.as_deref().expect("asked by the caller");
        let (first, end) = (left.first, left.first + left.count);
        let is_in = |blocks: &BlockRange, block: Logical| {
            (blocks.first..blocks.first + blocks.count).contains(&block)
        };
        if let Some(known) = drain.rehomed.iter().find(|known| is_in(&known.blocks, first)) {
            return Next::Behind(known.blocks.first + known.blocks.count);
        }
        let needed = self.needs_home(first, map);
        let is_kept = |block: Logical| {
            // one that was written and not flushed becomes a place where it was written
            moves.is_homed(block) || needed && drain.unreadable_homes.contains(&block)
        };
        if is_kept(first) {
            return Next::Behind(first + 1);
        }
        let most = match needed {
            true if first < drain.careful_until => 1,
            true => io.config().drain_run_blocks(),
            false => EMPTY_BLOCKS_MAX,
        };
        let copied = drain.rehomed.iter().map(|known| known.blocks.first);
        let copied = copied.filter(|&at| at > first).min();
        let end = end.min(copied.unwrap_or(end)).min(first.saturating_add(most));
        let end = first + objects.homes().run_at(first, end).1;
        let like = |&block: &Logical| self.needs_home(block, map) == needed && !is_kept(block);
        let count = (first..end).take_while(like).count() as u64;
        let run = BlockRange { first, count };
        if needed { Next::Copy(run) } else { Next::Empty(run) }
    }

    /// Blocks whose homes on the drive that leaves cannot be read, and are needed.
    pub(crate) fn unreadable_homes(&self, drain: &Drain, map: &Map, objects: &Objects) -> usize {
        let one = |first: Logical| BlockRange { first, count: 1 };
        let is_kept = |&&block: &&Logical| {
            self.needs_home(block, map) && !objects.left_of(one(block)).is_empty()
        };
        drain.unreadable_homes.iter().filter(is_kept).count()
    }

    pub(crate) fn read_homes(
        &self,
        run: BlockRange,
        taken: Logical,
        moves: &mut Moves,
        objects: &Objects,
        io: &mut DeviceIo,
    ) {
        assert!(moves.active.is_none(), "one move at a time");
        let (device, offset_bytes) = objects.home_of(run.first, io);
        let length_bytes = run.count * BLOCK_BYTES;
        let drain = self.current.as_deref().expect("homes are left by a drain");
        assert!(device == drain.device, "the homes that are left lie on the drive that drains");
        assert!(
            objects.home_of(run.first + run.count - 1, io)
                == (device, offset_bytes + length_bytes - BLOCK_BYTES),
            "homes that are read at once lie behind each other"
        );
        assert!(objects.home_of(taken, io).0 != device, "homes go to another drive");
        let buffer = io.reserve(length_bytes);
        let part = |logical| Part::new(logical, NONE);
        moves.active = Some(Move {
            kind: MoveKind::Rehome,
            stage: Stage::Reading,
            parts: (run.first..run.first + run.count).map(part).collect(),
            buffer,
            outstanding: 1,
            failed: false,
            after_batch: 0,
            target: Run { slot: NONE, count: 1 },
            targets: (taken..taken + run.count).collect(),
            since: io.now(),
            sums: Sums::default(),
        });
        let op = IoOp::Read { offset_bytes, length_bytes, into: buffer, into_offset_bytes: 0 };
        let job = Job::Io(op, Owner::Migration(MigrationIo::Read(0)));
        io.enqueue(device, Class::Background, job, None);
    }

    /// Blocks of a move that nobody has, and whose places homes take.
    pub(crate) fn taken_by_move(&self, moves: &Moves) -> BlockRange {
        let m = moves.active.as_ref().expect("asked while it moves");
        assert!(m.kind == MoveKind::Rehome, "homes take the places of other blocks");
        assert!(m.targets.len() == m.parts.len(), "each home takes the place of one block");
        BlockRange { first: m.targets[0], count: m.targets.len() as u64 }
    }

    /// The blocks that a move had taken are not needed. Those of a drain that is over were reserved for it, and
    /// are nobody's now; their homes may lie on the drive that drains next.
    pub(super) fn give_back_taken(&self, taken: BlockRange, objects: &mut Objects) {
        let drain = self.current.as_deref();
        if drain.is_some_and(|drain| drain.owns_move && drain.moves()) {
            objects.put_reserved(taken);
        } else {
            objects.release(taken);
        }
    }

    /// The home of this block is about to be written: a copy that waits for its flush is void.
    pub(crate) fn forget_rehomed(&mut self, block: Logical, objects: &mut Objects) {
        let Some(drain) = self.current.as_deref_mut() else { return };
        drain.unreadable_homes.remove(&block);
        let has = |known: &Rehomed| {
            (known.blocks.first..known.blocks.first + known.blocks.count).contains(&block)
        };
        let Some(at) = drain.rehomed.iter().position(has) else { return };
        let drain = self.current.as_deref_mut().expect("asked above");
        let known = drain.rehomed.swap_remove(at);
        known.give_back(objects);
    }

    /// The drive failed: what was copied there and not durable is lost.
    pub(crate) fn lose_rehomed(&mut self, device: DeviceId, objects: &mut Objects) {
        let Some(drain) = self.current.as_deref_mut() else { return };
        let (lost, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut drain.rehomed)
            .into_iter()
            .partition(|known| known.device == device);
        drain.rehomed = kept;
        lost.into_iter().for_each(|known| known.give_back(objects));
    }

    /// Does a drain have its turn on this hard drive? It rests as long as a move took, so users have it as
    /// long; but where they always ask for something it would never come.
    pub(crate) fn drain_turn(
        &self,
        device: DeviceId,
        moves: &Moves,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Option<Turn> {
        let drain = self.current.as_deref().filter(|drain| drain.moves())?;
        let d = &io[device];
        let waits_for_flush = drain.rehomed.iter().any(|known| known.device == device)
            || objects.left_blocks() == 0 && !moves.homed.is_empty();
        if d.flush_wanted && waits_for_flush {
            return Some(Turn::Flush);
        }
        let moves = drain.owns_move && d.queue.waits(Class::Background);
        moves.then_some(Turn::Move)
    }

    /// Is nothing left of what lay on it, and is that durable?
    pub(crate) fn is_vacated(
        &self,
        device: DeviceId,
        objects: &Objects,
        commit: &Commit,
        io: &DeviceIo,
    ) -> bool {
        let drain = self.current.as_deref().expect("asked by the caller");
        let log = io[device].log.as_ref();
        let is_durable = commit.durable() >= drain.left_with;
        objects.left_blocks() == 0
            && drain.rehomed.is_empty()
            && (is_durable || io.breaks(Mutant::DrainedTooEarly))
            && log.is_none_or(|log| log.live_slots() == 0)
            // what it has not made durable of its log is in RAM
            && io[device].tail.items.is_empty()
    }

    /// From now on the homes of these blocks lie where those of the others lay.
    pub(crate) fn leave_homes(
        &mut self,
        blocks: BlockRange,
        taken: Logical,
        objects: &mut Objects,
        commit: &mut Commit,
        moves: &Moves,
        io: &DeviceIo,
    ) {
        for block in blocks.first..blocks.first + blocks.count {
            assert!(!moves.is_homed(block), "what was written and not flushed stays where it is");
        }
        let drain = self.current.as_deref_mut().expect("homes are left by a drain");
        let lie_on = |objects: &Objects| objects.home_of(blocks.first, io).0;
        assert!(lie_on(objects) == drain.device, "homes are left on the drive that drains");
        objects.swap_homes(blocks, taken);
        assert!(lie_on(objects) != drain.device, "homes that were left lie on another drive");
        let batch = commit.composed() + 1;
        assert!(batch >= drain.left_with, "what is left later is recorded later");
        drain.left_with = batch;
        commit.note_pending(io.now());
    }

    /// Do the records of one more run that changes places fit: in the next journal unit, with those that
    /// wait for a flush, and in the table?
    pub(crate) fn may_leave_more(
        &self,
        objects: &Objects,
        journal: &Journal,
        commit: &Commit,
        moves: &Moves,
        io: &mut DeviceIo,
    ) -> bool {
        let waiting = self.current.as_deref().map_or(0, |drain| drain.rehomed.len());
        let most =
            (commit.body_bytes_max(journal) / 4 / (6 * HOMES_RECORD_BYTES)).min(WAITING_RUNS_MAX);
        if waiting >= most {
            moves.want_home_flush(io);
            return false;
        }
        let is_crowded = objects.changes().bytes() > commit.body_bytes_max(journal) / 4;
        !is_crowded && objects.fits_with_homes(waiting + 1)
    }

    /// A flush of a hard drive made durable its home writes up to `mark`: what it holds of homes that are left
    /// counts.
    pub(crate) fn rehomed_durable(
        &mut self,
        device: DeviceId,
        mark: u64,
        objects: &mut Objects,
        commit: &mut Commit,
        moves: &Moves,
        io: &DeviceIo,
    ) {
        let Some(drain) = self.current.as_deref_mut() else { return };
        let is_durable = |known: &Rehomed| known.device == device && known.number <= mark;
        let (durable, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut drain.rehomed).into_iter().partition(is_durable);
        drain.rehomed = waiting;
        for Rehomed { blocks, taken, .. } in durable {
            let mut unused = Space::default();
            unused.release(BlockRange { first: taken, count: blocks.count });
            for piece in objects.left_of(blocks) {
                let first = taken + (piece.first - blocks.first);
                unused.take(BlockRange { first, count: piece.count });
                self.leave_homes(piece, first, objects, commit, moves, io);
                let drain = self.current.as_deref_mut().expect("asked above");
                drain.moved_blocks += piece.count;
            }
            // whose blocks nobody has any more
            let mut at = taken;
            while let Some(range) = unused.next(at) {
                objects.put_reserved(range);
                at = range.first + range.count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain;
    use crate::format::superblock::Standing;
    use crate::io::fixture::drives;
    use tandem_block::{Instant, ObjectId};

    fn begin(device: DeviceId, it: &mut Evacuation, objects: &mut Objects, io: &mut DeviceIo) {
        let drain = Drain::new(device, drain::Stage::Moving, 0, Instant::ZERO);
        it.current = Some(Box::new(drain));
        io[device].standing = Standing::Drains;
        it.evacuate(device, objects, io);
    }

    /// Seen: blocks that a cancelled drain's move had taken counted as reserved by the next drain, which had
    /// to leave them, too.
    #[test]
    fn what_a_move_of_a_cancelled_drain_had_taken_is_nobodys() {
        let (mut io, mut evacuation) = (drives(2, 3), Evacuation::default());
        let first = DeviceId(2);
        let places = io.home_places(first);
        let mut objects = Objects::new(3 * places.count);
        objects.bound(u64::MAX, true);
        objects.create(ObjectId(1), "a", 100 * BLOCK_BYTES).expect("there is room");
        let free = objects.free_blocks();
        begin(first, &mut evacuation, &mut objects, &mut io);
        let taken = evacuation.take_target(first, 10, &mut objects, &io).expect("there is room");
        let next = objects.home_of(taken.first, &io).0;
        assert_ne!(next, first);
        io[first].standing = Standing::Serves;
        evacuation.vacate_no_more(&mut objects);
        begin(next, &mut evacuation, &mut objects, &mut io);
        assert_eq!(objects.left_blocks(), taken.count, "its move is under way");
        evacuation.give_back_taken(taken, &mut objects);
        assert_eq!(objects.left_blocks(), 0);
        evacuation.vacate_no_more(&mut objects);
        assert_eq!(objects.free_blocks(), free);
    }
}
