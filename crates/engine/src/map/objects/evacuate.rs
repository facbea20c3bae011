//! Which blocks have their homes on a hard drive that shall leave, and which take their places?
//!
//! Requirement: pool life. A block that somebody has changes places with one that nobody has, whose home
//! lies elsewhere. As many of those are *reserved* as blocks are *left*, so that no one is promised what
//! the drive will need. Blocks that nobody has and whose homes lie there are *withheld*: nobody gets them.
//!
//! ```text
//! homes on the drive = left + withheld          a swap: left → elsewhere, reserved → withheld
//! an object leaves its blocks: left → withheld
//! ```

use super::Objects;
use crate::map::Logical;
use crate::map::space::{BlockRange, Space};
use std::collections::VecDeque;

/// Homes that are being left.
#[derive(Clone, Debug, Default)]
pub(super) struct Evacuating {
    /// Blocks whose homes lie there, and that somebody has or had.
    left: Space,
    withheld: Space,
    reserved: VecDeque<BlockRange>,
}

impl Objects {
    /// How many free blocks have homes at these places, and how many could be reserved at `open` ones.
    pub(crate) fn room_without(&self, places: BlockRange, open: &[BlockRange]) -> (u64, u64) {
        let count = |ranges: Vec<BlockRange>| ranges.iter().map(|r| r.count).sum::<u64>();
        let lying = self.homes.lying_in(places).into_iter();
        let free = lying.flat_map(|range| self.space.pieces(range)).filter(|(_, is_free)| *is_free);
        let ahead = self.ahead.iter().map(|(_, range)| *range);
        let gaps = self.space.largest().chain(ahead);
        (
            count(free.map(|(range, _)| range).collect()),
            count(gaps.flat_map(|gap| self.parts_at(gap, open)).collect()),
        )
    }

    /// Parts of these blocks whose homes lie at these places.
    fn parts_at(&self, blocks: BlockRange, places: &[BlockRange]) -> Vec<BlockRange> {
        let mut parts = Vec::new();
        for (run, place) in self.homes.runs(blocks) {
            for open in places {
                let from = place.max(open.first);
                let to = (place + run.count).min(open.first + open.count);
                if from < to {
                    parts.push(BlockRange { first: run.first + (from - place), count: to - from });
                }
            }
        }
        parts
    }

    /// The homes at these places shall be left, for those at `open` ones. What is free by now is found out,
    /// so this comes behind everything that takes blocks at a start.
    pub(crate) fn evacuate(&mut self, places: BlockRange, open: &[BlockRange]) {
        assert!(self.evacuating.is_none(), "one drive is left at a time");
        self.drop_ahead();
        let mut evacuating = Evacuating::default();
        for range in self.homes.lying_in(places) {
            for (piece, is_free) in self.space.pieces(range) {
                if is_free {
                    self.space.take(piece);
                    evacuating.withheld.release(piece);
                } else {
                    evacuating.left.release(piece);
                }
            }
        }
        self.evacuating = Some(evacuating);
        self.reserve_homes(open);
    }

    /// Reserves as many blocks as are left, as far as there are some.
    pub(crate) fn reserve_homes(&mut self, open: &[BlockRange]) {
        let Some(evacuating) = &self.evacuating else { return };
        let reserved: u64 = evacuating.reserved.iter().map(|range| range.count).sum();
        let mut wanted = evacuating.left.free_blocks().saturating_sub(reserved);
        let mut taken = Vec::new();
        for gap in self.space.largest() {
            if wanted == 0 {
                break;
            }
            // from the end: what is left of the gap is where others look for room
            for part in self.parts_at(gap, open).into_iter().rev() {
                let count = wanted.min(part.count);
                if count > 0 {
                    taken.push(BlockRange { first: part.first + (part.count - count), count });
                    wanted -= count;
                }
            }
        }
        for range in taken {
            self.space.take(range);
            self.evacuating.as_mut().expect("asked above").reserved.push_back(range);
        }
    }

    /// The homes stay after all: what was withheld and reserved is free again.
    pub(crate) fn vacate_no_more(&mut self) {
        let Some(evacuating) = self.evacuating.take() else { return };
        let mut at = 0;
        while let Some(range) = evacuating.withheld.next(at) {
            self.space.release(range);
            at = range.first + range.count;
        }
        evacuating.reserved.into_iter().for_each(|range| self.space.release(range));
    }

    /// All of them were left, and the drive is gone: nobody gets their blocks any more.
    pub(crate) fn vacated(&mut self) {
        let Some(evacuating) = self.evacuating.take() else { return };
        assert_eq!(evacuating.left.free_blocks(), 0, "homes are left before their drive is");
        self.gone_blocks += evacuating.withheld.free_blocks();
        assert!(self.gone_blocks <= self.blocks, "no more blocks are gone than there were");
        evacuating.reserved.into_iter().for_each(|range| self.space.release(range));
    }

    /// At the start: these places are on a drive that is gone. False: somebody has blocks with homes there.
    pub(crate) fn leave_out(&mut self, places: BlockRange) -> bool {
        let ranges = self.homes.lying_in(places);
        let are_free = ranges.iter().all(|&range| self.space.is_free(range));
        if are_free {
            ranges.into_iter().for_each(|range| self.space.take(range));
            self.gone_blocks += places.count;
        }
        are_free
    }

    /// Another drive has taken the place of one that is gone: its places can be had again.
    pub(crate) fn come_back(&mut self, places: BlockRange) {
        assert!(self.evacuating.is_none(), "no other one is left meanwhile");
        for range in self.homes.lying_in(places) {
            self.space.release(range);
        }
        assert!(self.gone_blocks >= places.count, "homes that come back had gone");
        self.gone_blocks -= places.count;
    }

    /// So many blocks that nobody has are withheld, or as many as there are: nothing could hold them.
    pub(crate) fn withhold(&mut self, blocks: u64) {
        while let Some(range) =
            self.withheld.next(0).filter(|_| self.withheld.free_blocks() > blocks)
        {
            let more = self.withheld.free_blocks() - blocks;
            let range = BlockRange { count: more.min(range.count), ..range };
            self.withheld.take(range);
            self.space.release(range);
        }
        if self.withheld.free_blocks() < blocks {
            self.drop_ahead();
        }
        while self.withheld.free_blocks() < blocks {
            let Some(gap) = self.space.largest().next() else { break };
            let wanted = blocks - self.withheld.free_blocks();
            let count = wanted.min(gap.count);
            let range = BlockRange { first: gap.first + (gap.count - count), count };
            self.space.take(range);
            self.withheld.release(range);
        }
        assert!(self.withheld.free_blocks() <= blocks, "no more is withheld than was asked for");
    }

    /// Blocks that nobody can have: their homes are on a drive that leaves, or is gone, or nothing could
    /// hold them.
    pub(crate) fn out_of_use_blocks(&self) -> u64 {
        let evacuating = self.evacuating.as_ref();
        let leaving = evacuating.map_or(0, |v| v.left.free_blocks() + v.withheld.free_blocks());
        self.gone_blocks + leaving + self.withheld.free_blocks()
    }

    /// The next blocks that are left, from this one on.
    pub(crate) fn next_left(&self, from: Logical) -> Option<BlockRange> {
        self.evacuating.as_ref()?.left.next(from)
    }

    /// How many blocks are left.
    pub(crate) fn left_blocks(&self) -> u64 {
        self.evacuating.as_ref().map_or(0, |evacuating| evacuating.left.free_blocks())
    }

    /// Blocks that take others' places next, in one piece; they stay reserved.
    pub(crate) fn reserved_next(&self) -> Option<BlockRange> {
        let range = *self.evacuating.as_ref()?.reserved.front()?;
        let count = self.homes.run_at(range.first, range.first + range.count).1;
        Some(BlockRange { count, ..range })
    }

    /// Takes these, which `reserved_next` named, out of what is reserved.
    pub(crate) fn take_reserved(&mut self, range: BlockRange) {
        let reserved = &mut self.evacuating.as_mut().expect("some were reserved").reserved;
        let front = reserved.front_mut().expect("some were reserved");
        assert!(front.first == range.first && range.count <= front.count, "the first of them");
        assert!(range.count > 0, "some are taken");
        front.first += range.count;
        front.count -= range.count;
        if front.count == 0 {
            reserved.pop_front();
        }
    }

    /// Puts back what `take_reserved` took.
    pub(crate) fn put_reserved(&mut self, range: BlockRange) {
        match &mut self.evacuating {
            Some(evacuating) if range.count > 0 => evacuating.reserved.push_back(range),
            _ => self.space_release(range),
        }
    }

    /// The drive of what comes next failed: these blocks are free again.
    pub(crate) fn drop_reserved(&mut self, range: BlockRange) {
        self.take_reserved(range);
        self.space.release(range);
    }

    /// Those of these blocks that are still left.
    pub(crate) fn left_of(&self, range: BlockRange) -> Vec<BlockRange> {
        let Some(evacuating) = &self.evacuating else { return Vec::new() };
        let pieces = evacuating.left.pieces(range).into_iter();
        pieces.filter(|(_, is_left)| *is_left).map(|(piece, _)| piece).collect()
    }

    /// Would the records of so many more changes of places fit?
    pub(crate) fn fits_with_homes(&self, swaps: usize) -> bool {
        let (bytes, max) = self.record_bytes();
        // each may cut two runs apart, and put two more between their parts
        bytes + (swaps * 6 * super::HOMES_RECORD_BYTES) as u64 <= max
    }

    /// Blocks that are left change places with those that were taken from what is reserved.
    pub(crate) fn swap_homes(&mut self, left: BlockRange, taken: Logical) {
        let evacuating = self.evacuating.as_mut().expect("homes are being left");
        assert!(left.count > 0, "some homes change places");
        let other = BlockRange { first: taken, count: left.count };
        evacuating.left.take(left);
        evacuating.withheld.release(other);
        self.homes.swap(left.first, taken, left.count);
        self.changes.homes(left);
        self.changes.homes(other);
        self.is_unsaved = true;
    }

    /// Takes free blocks away from everyone, until they are released.
    pub(crate) fn reserve(&mut self, range: BlockRange) {
        self.space.take(range);
    }

    /// Nothing lies in these blocks any more, and that is durable.
    pub(crate) fn release(&mut self, range: BlockRange) {
        self.space_release(range);
    }

    fn space_release(&mut self, range: BlockRange) {
        if range.count == 0 {
            return;
        }
        let Some(evacuating) = &mut self.evacuating else { return self.space.release(range) };
        for (piece, is_left) in evacuating.left.pieces(range) {
            if is_left {
                evacuating.left.take(piece);
                evacuating.withheld.release(piece);
            } else {
                self.space.release(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::ObjectId;

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    fn sample() -> Objects {
        let mut objects = Objects::new(100);
        objects.bound(u64::MAX, true);
        objects.create(ObjectId(1), "a", 30 * 4096).unwrap();
        objects.create(ObjectId(2), "b", 40 * 4096).unwrap();
        objects
    }

    /// Homes 50 to 99 shall be left: 50 to 69 are somebody's, 70 to 99 nobody's.
    #[test]
    fn blocks_change_places_until_none_is_left() {
        let mut objects = sample();
        // there is no room for 20 of them while volume 1 has its blocks
        let open = [range(0, 50)];
        assert_eq!(objects.room_without(range(50, 50), &open), (30, 0));
        let undo = objects.apply(&tandem_block::ObjectOp::Remove { object: ObjectId(1) }).unwrap();
        objects.note(&undo).into_iter().for_each(|range| objects.release(range));
        assert_eq!(objects.room_without(range(50, 50), &open), (30, 30));
        objects.evacuate(range(50, 50), &open);
        assert_eq!((objects.left_blocks(), objects.free_blocks()), (20, 10));
        assert_eq!(objects.next_left(0), Some(range(50, 20)));
        let reserved = objects.reserved_next().unwrap();
        assert_eq!(reserved, range(10, 20), "from the end of the gap");
        let taken = range(10, 15);
        objects.take_reserved(taken);
        objects.swap_homes(range(50, 15), 10);
        assert_eq!((objects.homes().of(50), objects.homes().of(24)), (10, 64));
        assert_eq!(objects.left_of(range(60, 8)), [range(65, 3)]);
        // the owner of the others goes
        objects.release(range(65, 5));
        assert_eq!((objects.left_blocks(), objects.free_blocks()), (0, 10));
        let mut again = objects.clone();
        objects.vacated();
        assert_eq!(objects.free_blocks(), 15, "what was reserved in vain is free again");
        again.vacate_no_more();
        assert_eq!(again.free_blocks(), 100 - 35);
        assert_eq!(again.homes().check(100), Ok(()));
    }

    #[test]
    fn a_drive_that_is_gone_has_nobodys_homes() {
        let mut objects = sample();
        assert!(!objects.leave_out(range(60, 40)));
        assert!(objects.leave_out(range(70, 30)));
        assert_eq!((objects.free_blocks(), objects.out_of_use_blocks()), (0, 30));
        objects.come_back(range(70, 30));
        assert_eq!((objects.free_blocks(), objects.out_of_use_blocks()), (30, 0));
    }
}
