//! Which logical blocks has nobody?
//!
//! Gaps by place, and by size: thin objects take from the largest gap, so that there is room behind what
//! they take, and what one has last left off is continued if it can be.

use super::Logical;
use std::collections::{BTreeMap, BTreeSet};

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// First block.
    pub first: Logical,
    /// How many.
    pub count: u64,
}

/// The blocks that nobody has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    /// First block to count, never touching each other.
    gaps: BTreeMap<Logical, u64>,
    by_size: BTreeSet<(u64, Logical)>,
    free: u64,
}

impl Space {
    /// How many there are.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free
    }

    /// Takes the first gap that is large enough, or what is needed of it.
    pub(crate) fn take_whole(&mut self, blocks: u64) -> Option<Logical> {
        let gap = self.gaps.iter().find(|(_, count)| **count >= blocks).map(|(&first, _)| first);
        let first = gap?;
        self.take(BlockRange { first, count: blocks });
        Some(first)
    }

    /// Takes blocks at `goal` if that is free, otherwise from the largest gap; at most `wanted` of them.
    /// `None`: there are none.
    pub(crate) fn take_some(&mut self, goal: Option<Logical>, wanted: u64) -> Option<BlockRange> {
        let at_goal = goal.map_or(0, |goal| self.free_at(goal));
        let (first, there) = match (goal, at_goal) {
            (Some(goal), 1..) => (goal, at_goal),
            _ => self.by_size.last().map(|&(count, first)| (first, count))?,
        };
        assert!(wanted > 0 && there > 0, "some blocks are taken");
        let range = BlockRange { first, count: wanted.min(there) };
        self.take(range);
        Some(range)
    }

    /// Free blocks from this one on.
    fn free_at(&self, block: Logical) -> u64 {
        let gap = self.gaps.range(..=block).next_back();
        gap.map_or(0, |(&first, &count)| (first + count).saturating_sub(block))
    }

    /// The first free blocks from this one on, as far as they follow each other.
    pub(crate) fn next(&self, from: Logical) -> Option<BlockRange> {
        let here = self.free_at(from);
        if here > 0 {
            return Some(BlockRange { first: from, count: here });
        }
        self.gaps.range(from..).next().map(|(&first, &count)| BlockRange { first, count })
    }

    /// The gaps, the largest first.
    pub(crate) fn largest(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.by_size.iter().rev().map(|&(count, first)| BlockRange { first, count })
    }

    /// These blocks in order, in pieces of which all or none are free.
    pub(crate) fn pieces(&self, range: BlockRange) -> Vec<(BlockRange, bool)> {
        let (mut at, end) = (range.first, range.first + range.count);
        let mut pieces = Vec::new();
        while at < end {
            let free = self.free_at(at).min(end - at);
            let count = match free {
                0 => self.next(at).map_or(end, |next| next.first.min(end)) - at,
                free => free,
            };
            pieces.push((BlockRange { first: at, count }, free > 0));
            at += count;
        }
        pieces
    }

    /// Are all of these free?
    pub(crate) fn is_free(&self, range: BlockRange) -> bool {
        self.free_at(range.first) >= range.count
    }

    /// Takes free blocks.
    ///
    /// # Panics
    /// If one of them is not free.
    pub(crate) fn take(&mut self, range: BlockRange) {
        if range.count == 0 {
            return;
        }
        let (&first, &count) = self.gaps.range(..=range.first).next_back().expect("it is free");
        let end = range.first + range.count;
        assert!(end <= first + count, "only free blocks are taken");
        self.remove(first, count);
        if first < range.first {
            self.insert(first, range.first - first);
        }
        if end < first + count {
            self.insert(end, first + count - end);
        }
    }

    /// Nobody has these blocks any more.
    ///
    /// # Panics
    /// If one of them is free already.
    pub(crate) fn release(&mut self, range: BlockRange) {
        if range.count == 0 {
            return;
        }
        let (mut first, mut end) = (range.first, range.first + range.count);
        if let Some((&before, &count)) = self.gaps.range(..first).next_back() {
            assert!(before + count <= first, "blocks are released once");
            if before + count == first {
                self.remove(before, count);
                first = before;
            }
        }
        if let Some((&behind, &count)) = self.gaps.range(range.first..).next() {
            assert!(behind >= end, "blocks are released once");
            if behind == end {
                self.remove(behind, count);
                end += count;
            }
        }
        self.insert(first, end - first);
    }

    fn insert(&mut self, first: Logical, count: u64) {
        assert!(count > 0, "a gap has a block");
        self.free += count;
        let before = self.gaps.insert(first, count);
        assert!(before.is_none(), "no two gaps begin at one block");
        self.by_size.insert((count, first));
    }

    fn remove(&mut self, first: Logical, count: u64) {
        assert!(self.free >= count, "what is free is counted");
        self.free -= count;
        let gap = self.gaps.remove(&first);
        assert_eq!(gap, Some(count), "a gap goes as a whole");
        let is_known = self.by_size.remove(&(count, first));
        assert!(is_known, "gaps by place and by size are the same");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    #[test]
    fn what_is_taken_comes_from_the_goal_or_from_the_largest_gap() {
        let mut space = Space::default();
        assert_eq!(space.take_some(None, 1), None);
        space.release(range(0, 100));
        assert_eq!(space.take_some(Some(40), 10), Some(range(40, 10)), "at the goal");
        assert_eq!(space.take_some(Some(45), 10), Some(range(50, 10)), "the larger of two gaps");
        assert_eq!(space.take_some(Some(60), 90), Some(range(60, 40)), "as many as there are");
        assert_eq!(space.take_whole(41), None);
        assert_eq!(space.take_whole(30), Some(0));
        assert_eq!(space.free_blocks(), 10);
        space.release(range(50, 50));
        space.release(range(40, 10));
        assert_eq!((space.gaps.len(), space.free_blocks()), (1, 70), "gaps that touch are one");
        assert!(space.is_free(range(30, 70)) && !space.is_free(range(29, 2)));
    }

    #[test]
    fn what_is_free_of_a_range_is_told_in_pieces() {
        let mut space = Space::default();
        assert_eq!(space.pieces(range(5, 5)), [(range(5, 5), false)]);
        space.release(range(10, 10));
        space.release(range(30, 5));
        let pieces = space.pieces(range(5, 30));
        let want = [(5, 5, false), (10, 10, true), (20, 10, false), (30, 5, true)];
        assert_eq!(pieces, want.map(|(first, count, is_free)| (range(first, count), is_free)));
        assert_eq!(space.pieces(range(12, 3)), [(range(12, 3), true)]);
        assert_eq!(space.next(0), Some(range(10, 10)));
        assert_eq!(space.next(15), Some(range(15, 5)));
        assert_eq!(space.next(20), Some(range(30, 5)));
        assert_eq!(space.next(35), None);
        assert!(space.largest().eq([range(10, 10), range(30, 5)]));
    }

    #[test]
    #[should_panic(expected = "released once")]
    fn nothing_is_free_twice() {
        let mut space = Space::default();
        space.release(range(10, 10));
        space.release(range(5, 6));
    }
}
