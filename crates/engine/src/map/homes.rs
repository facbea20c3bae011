//! Where on the hard drives does the home of a block lie?
//!
//! Requirement: pool life. Homes are numbered like logical blocks, and that of a block lies at its own
//! number until a hard drive is drained: then two blocks change places, one that somebody has and one that
//! nobody has. So it is a permutation, kept as the runs that are not where they were.

use super::Logical;
use super::space::BlockRange;
use std::collections::BTreeMap;

/// The places of homes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes {
    /// First block to its place and how many follow; none that lies at its own number.
    moved: BTreeMap<Logical, (Logical, u64)>,
}

impl Homes {
    /// Where the home of this block lies.
    #[inline]
    pub(crate) fn of(&self, block: Logical) -> Logical {
        if self.moved.is_empty() {
            return block;
        }
        self.run_at(block, block + 1).0
    }

    /// The place of this block, and how many blocks up to `to` follow each other from there.
    pub(crate) fn run_at(&self, block: Logical, to: Logical) -> (Logical, u64) {
        assert!(block < to, "a run has a block");
        if let Some((&first, &(place, count))) = self.moved.range(..=block).next_back()
            && block - first < count
        {
            return (place + (block - first), (first + count).min(to) - block);
        }
        let next = self.moved.range(block..to).next().map_or(to, |(&first, _)| first);
        (block, next - block)
    }

    /// How many runs are not at their own numbers.
    pub(crate) fn len(&self) -> usize {
        self.moved.len()
    }

    /// Does every home lie at its block's own number?
    pub(crate) fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// Runs that are not at their own numbers, from this block on: blocks, and the first one's place.
    pub(crate) fn from(&self, block: Logical) -> impl Iterator<Item = (BlockRange, Logical)> + '_ {
        let run = |(&first, &(place, count)): (&Logical, &(Logical, u64))| {
            (BlockRange { first, count }, place)
        };
        self.moved.range(block..).map(run)
    }

    /// Runs of these blocks, wherever they lie.
    pub(crate) fn runs(&self, blocks: BlockRange) -> Vec<(BlockRange, Logical)> {
        let (mut at, end) = (blocks.first, blocks.first + blocks.count);
        let mut runs = Vec::new();
        while at < end {
            let (place, count) = self.run_at(at, end);
            runs.push((BlockRange { first: at, count }, place));
            at += count;
        }
        runs
    }

    /// Takes over what a record says, whatever was there.
    pub(crate) fn set(&mut self, blocks: BlockRange, place: Logical) {
        assert!(blocks.count > 0, "some homes lie there");
        let end = blocks.first + blocks.count;
        self.split_at(blocks.first);
        self.split_at(end);
        let known: Vec<Logical> =
            self.moved.range(blocks.first..end).map(|(&first, _)| first).collect();
        for first in known {
            self.moved.remove(&first);
        }
        if place == blocks.first {
            return;
        }
        let (mut first, mut at, mut count) = (blocks.first, place, blocks.count);
        if let Some((&before, &(there, length))) = self.moved.range(..first).next_back()
            && (before + length, there + length) == (first, at)
        {
            self.moved.remove(&before);
            (first, at, count) = (before, there, length + count);
        }
        if let Some(&(there, length)) = self.moved.get(&end)
            && there == at + count
        {
            self.moved.remove(&end);
            count += length;
        }
        assert!(first != at, "a run at its own number is not noted");
        self.moved.insert(first, (at, count));
    }

    fn split_at(&mut self, block: Logical) {
        let Some((&first, &(place, count))) = self.moved.range(..block).next_back() else { return };
        if first + count > block {
            let head = block - first;
            self.moved.insert(first, (place, head));
            self.moved.insert(block, (place + head, count - head));
        }
    }

    /// As many blocks from `one` on and from `other` on change places; each of the two runs lies in one
    /// piece.
    pub(crate) fn swap(&mut self, one: Logical, other: Logical, count: u64) {
        let (place_of_one, one_count) = self.run_at(one, one + count);
        let (place_of_other, other_count) = self.run_at(other, other + count);
        assert!(one_count == count && other_count == count, "runs in one piece change places");
        assert!(one.abs_diff(other) >= count, "runs that change places lie apart");
        self.set(BlockRange { first: one, count }, place_of_other);
        self.set(BlockRange { first: other, count }, place_of_one);
    }

    /// The blocks whose homes lie at these places, in no particular order.
    pub(crate) fn lying_in(&self, places: BlockRange) -> Vec<BlockRange> {
        let (first, end) = (places.first, places.first + places.count);
        let mut found: Vec<BlockRange> = self
            .runs(places)
            .into_iter()
            .filter(|(blocks, place)| blocks.first == *place)
            .map(|(blocks, _)| blocks)
            .collect();
        for (&block, &(place, count)) in &self.moved {
            let (from, to) = (place.max(first), (place + count).min(end));
            if from < to {
                found.push(BlockRange { first: block + (from - place), count: to - from });
            }
        }
        found
    }

    /// Have all of so many blocks a place each, and each place a block?
    ///
    /// # Errors
    /// Words, if not: the records contradict each other.
    pub(crate) fn check(&self, blocks: u64) -> Result<(), String> {
        let mut places: Vec<(Logical, u64)> = self.moved.values().copied().collect();
        places.sort_unstable();
        let numbers = joined(self.moved.iter().map(|(&first, &(_, count))| (first, count)));
        let is_apart = places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
        let fits = places.last().is_none_or(|last| last.0 + last.1 <= blocks);
        if is_apart && fits && joined(places.into_iter()) == numbers {
            return Ok(());
        }
        Err("two blocks have one home".into())
    }
}

/// Ranges in order, those that touch as one.
fn joined(ranges: impl Iterator<Item = (Logical, u64)>) -> Vec<(Logical, u64)> {
    let mut all: Vec<(Logical, u64)> = Vec::new();
    for (first, count) in ranges {
        match all.last_mut() {
            Some(last) if last.0 + last.1 == first => last.1 += count,
            _ => all.push((first, count)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    #[test]
    fn two_runs_change_places_and_back() {
        let mut homes = Homes::default();
        homes.swap(10, 50, 5);
        homes.swap(15, 55, 5);
        assert_eq!(homes.len(), 2, "what follows each other is one run");
        assert_eq!((homes.of(9), homes.of(10), homes.of(19), homes.of(20)), (9, 50, 59, 20));
        assert_eq!(homes.of(52), 12);
        assert_eq!(homes.run_at(12, 100), (52, 8));
        assert_eq!(homes.run_at(20, 100), (20, 30), "up to the next one that moved");
        let mut found = homes.lying_in(range(0, 20));
        found.sort_unstable_by_key(|range| range.first);
        assert_eq!(found, [range(0, 10), range(50, 10)]);
        assert_eq!(homes.check(60), Ok(()));
        assert!(homes.check(59).is_err());
        homes.swap(10, 50, 10);
        assert!(homes.is_empty());
    }

    #[test]
    fn what_is_no_permutation_is_found() {
        let mut homes = Homes::default();
        homes.set(range(3, 2), 7);
        assert!(homes.check(100).is_err(), "7 has two homes' blocks");
        homes.set(range(7, 2), 3);
        assert_eq!(homes.check(100), Ok(()));
        homes.set(range(20, 2), 3);
        assert!(homes.check(100).is_err());
    }

    /// Against an array of places.
    #[test]
    fn as_an_array_would() {
        let mut rng = Rng::new(3);
        let (mut homes, mut plain) = (Homes::default(), (0..64u64).collect::<Vec<_>>());
        for _ in 0..3000 {
            let (one, other) = (rng.below(60), rng.below(60));
            let count = homes.run_at(one, 64).1.min(homes.run_at(other, 64).1);
            let count = count.min(one.abs_diff(other)).min(rng.between(1, 6));
            if count == 0 {
                continue;
            }
            homes.swap(one, other, count);
            (0..count).for_each(|i| plain.swap((one + i) as usize, (other + i) as usize));
            (0..64).for_each(|block| assert_eq!(homes.of(block), plain[block as usize]));
            let (first, length) = (rng.below(50), rng.between(1, 14));
            let mut found: Vec<u64> = homes
                .lying_in(range(first, length))
                .iter()
                .flat_map(|range| range.first..range.first + range.count)
                .collect();
            found.sort_unstable();
            let lies = |block: &u64| (first..first + length).contains(&plain[*block as usize]);
            assert_eq!(found, (0..64).filter(lies).collect::<Vec<_>>());
            assert_eq!(homes.check(64), Ok(()));
        }
    }
}
