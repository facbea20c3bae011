//! Where every logical block of the pool lives, and which homes a record calls valid.
//!
//! Source: design decision 7. Leaves of 1,024 blocks, and 256 leaves in a group. A leaf or a group whose blocks
//! all lie nowhere, or all at home, takes no memory. So memory goes with what has been written.

use super::entry::Entry;
use super::leaf::{LEAF_BLOCKS, LINE_BLOCKS, Leaf};
use super::objects::BlockRange;
use super::population::Population;
use super::slot_list::Packing;
use super::slots::{Logical, SlotRegion};
use super::sought::{Counts, Sought};

/// Leaves of a group.
const GROUP_LEAVES: u64 = 256;
const GROUP_BLOCKS: u64 = GROUP_LEAVES * LEAF_BLOCKS;
/// Slots of blocks that follow each other, in one cache line.
const SLOTS_OF_A_LINE: u64 = 12;

/// A GiB of blocks.
#[derive(Clone, Debug)]
enum LeafGroup {
    /// All blocks lie at home, now and as recorded, or nowhere.
    Alike {
        at_home: bool,
    },
    Each(Box<[Leaf]>, Counts),
}

impl LeafGroup {
    /// The leaves, which exist from now on. This many blocks follow from the first one of the group on.
    #[inline]
    fn leaves(&mut self, blocks: u64) -> (&mut [Leaf], &mut Counts) {
        if let LeafGroup::Alike { at_home } = *self {
            let leaves = blocks.div_ceil(LEAF_BLOCKS).min(GROUP_LEAVES) as usize;
            *self = LeafGroup::Each(vec![Leaf::new(at_home); leaves].into(), Counts::new(leaves));
        }
        let LeafGroup::Each(leaves, counts) = self else { unreachable!("they were made") };
        (leaves, counts)
    }
}

/// Places of every logical block.
#[derive(Clone, Debug)]
pub struct Leaves {
    groups: Vec<LeafGroup>,
    packing: Packing,
    blocks: u64,
    population: Population,
    /// Memory of all leaves.
    held_bytes: usize,
}

/// Some of these blocks, so that memory is asked for each of its lines.
#[inline]
fn every(first: Logical, count: u64, step: u64) -> impl Iterator<Item = Logical> {
    debug_assert!(count > 0, "memory is asked for some blocks");
    (first..first + count - 1).step_by(step as usize).chain([first + count - 1])
}

/// Which leaf of a group, and which block of a leaf.
#[inline]
fn leaf_of(block: Logical) -> (usize, u64) {
    ((block / LEAF_BLOCKS % GROUP_LEAVES) as usize, block % LEAF_BLOCKS)
}

impl Leaves {
    /// `blocks` logical blocks that lie nowhere, and may lie in these slots.
    pub(crate) fn new(blocks: usize, regions: &[SlotRegion]) -> Self {
        let groups = (blocks as u64).div_ceil(GROUP_BLOCKS) as usize;
        let groups = vec![LeafGroup::Alike { at_home: false }; groups];
        Leaves {
            groups,
            packing: Packing::of(regions),
            blocks: blocks as u64,
            population: Population::default(),
            held_bytes: 0,
        }
    }

    /// How many blocks.
    pub fn block_count(&self) -> usize {
        self.blocks as usize
    }

    /// The block's leaf, or, where there is none, whether all blocks there lie at home.
    #[inline]
    fn leaf(&self, block: Logical) -> Result<&Leaf, bool> {
        assert!(block < self.blocks, "block {block} exists");
        match &self.groups[(block / GROUP_BLOCKS) as usize] {
            LeafGroup::Alike { at_home } => Err(*at_home),
            LeafGroup::Each(leaves, _) => Ok(&leaves[leaf_of(block).0]),
        }
    }

    /// Changes the block's leaf.
    #[inline]
    fn change<T>(&mut self, block: Logical, change: impl FnOnce(&mut Leaf, u64) -> T) -> T {
        assert!(block < self.blocks, "block {block} exists");
        let behind = self.blocks - block / GROUP_BLOCKS * GROUP_BLOCKS;
        let group = &mut self.groups[(block / GROUP_BLOCKS) as usize];
        if let LeafGroup::Alike { .. } = group {
            let (leaves, counts) = group.leaves(behind);
            self.held_bytes += size_of_val(leaves) + counts.memory_bytes();
        }
        let (leaf, within) = leaf_of(block);
        let leaf = &mut group.leaves(behind).0[leaf];
        self.held_bytes -= leaf.memory_bytes();
        let changed = change(leaf, within);
        self.held_bytes += leaf.memory_bytes();
        changed
    }

    /// Where the block lives.
    #[inline]
    pub(crate) fn get(&self, block: Logical) -> Entry {
        match self.leaf(block) {
            Ok(leaf) => leaf.get(block % LEAF_BLOCKS, self.packing),
            Err(home) => Entry { home, ..Entry::NOWHERE },
        }
    }

    /// The block's state bits.
    #[inline]
    pub(crate) fn state(&self, block: Logical) -> u8 {
        match self.leaf(block) {
            Ok(leaf) => leaf.state(block % LEAF_BLOCKS),
            Err(home) => Entry { home, ..Entry::NOWHERE }.state(),
        }
    }

    /// Replaces where the block lives, and counts it there. Returns where it lived.
    #[inline]
    pub(crate) fn replace(&mut self, block: Logical, new: Entry) -> Entry {
        if let Err(home) = self.leaf(block)
            && new == (Entry { home, ..Entry::NOWHERE })
        {
            return new;
        }
        let packing = self.packing;
        let old = self.change(block, |leaf, within| leaf.replace(within, new, packing));
        let (before, after) = (old.state(), new.state());
        if before != after {
            self.population.count(before, false);
            self.population.count(after, true);
            let group = &mut self.groups[(block / GROUP_BLOCKS) as usize];
            let LeafGroup::Each(_, counts) = group else { unreachable!("it has changed") };
            counts.change(leaf_of(block).0, before, after);
        }
        old
    }

    /// How many blocks live where.
    pub(crate) fn population(&self) -> Population {
        self.population
    }

    /// Was the home valid in the newest composed batch?
    #[inline]
    pub(crate) fn recorded_home(&self, block: Logical) -> bool {
        self.leaf(block).map_or_else(|home| home, |leaf| leaf.recorded_home(block % LEAF_BLOCKS))
    }

    /// Notes whether a composed batch calls the home valid.
    #[inline]
    pub(crate) fn set_recorded_home(&mut self, block: Logical, valid: bool) {
        if self.recorded_home(block) != valid {
            self.change(block, |leaf, within| leaf.set_recorded_home(within, valid));
        }
    }

    /// The recorded home bits of 64 blocks from `64 * index` on, for checkpoints. Zero for blocks behind
    /// the last one.
    pub(crate) fn recorded_homes(&self, index: usize) -> u64 {
        let first = index as u64 * 64;
        let Some(count @ 1..) = self.blocks.checked_sub(first) else { return 0 };
        let exist = if count < 64 { (1 << count) - 1 } else { u64::MAX };
        let within = (first % LEAF_BLOCKS / 64) as usize;
        let alike = |home| if home { u64::MAX } else { 0 };
        exist & self.leaf(first).map_or_else(alike, |leaf| leaf.recorded_homes(within))
    }

    /// How many homes of these blocks the newest composed batch calls valid.
    pub(crate) fn recorded_homes_in(&self, first: Logical, count: u64) -> u64 {
        let end = first + count;
        assert!(end <= self.blocks, "blocks that exist");
        let (mut block, mut valid) = (first, 0);
        while block < end {
            let next = (block / 64 + 1) * 64;
            let (within, behind) = (block % 64, next.saturating_sub(end));
            let mask = u64::MAX << within & u64::MAX >> behind;
            let word = self.recorded_homes((block / 64) as usize) & mask;
            valid += u64::from(word.count_ones());
            block = next;
        }
        valid
    }

    /// Marks `count` homes from `start` valid, now and as recorded: the state that a replay begins
    /// with, and recovery. The blocks lie in no slot.
    pub(crate) fn assume_home(&mut self, start: Logical, count: u64) {
        let end = start + count;
        assert!(end <= self.blocks, "blocks that exist");
        let mut block = start;
        while block < end {
            let group = &mut self.groups[(block / GROUP_BLOCKS) as usize];
            let is_whole = block.is_multiple_of(GROUP_BLOCKS) && end - block >= GROUP_BLOCKS;
            if is_whole && matches!(group, LeafGroup::Alike { .. }) {
                *group = LeafGroup::Alike { at_home: true };
                block += GROUP_BLOCKS;
                continue;
            }
            let first = block % LEAF_BLOCKS;
            let last = LEAF_BLOCKS.min(first + (end - block));
            self.change(block, |leaf, within| leaf.assume_home(within, last));
            block += last - first;
        }
    }

    /// The first block in `from..to` that lies in a slot or under fragments.
    pub(crate) fn next_in_slot(&self, from: Logical, to: Logical) -> Option<Logical> {
        self.next(from, to, None, Leaf::next_in_slot)
    }

    /// The first block in `from..to` that lies on an SSD, or under fragments.
    pub(crate) fn next_on_ssd(&self, from: Logical, to: Logical) -> Option<Logical> {
        self.next(from, to, None, Leaf::next_on_ssd)
    }

    /// The first block in `from..to` that lies on an SSD but not at home, without fragments.
    pub(crate) fn next_dirty(&self, from: Logical, to: Logical) -> Option<Logical> {
        self.next(from, to, Some(Sought::Dirty), Leaf::next_dirty)
    }

    /// The first block in `from..to` that lies on an SSD and at home, and nowhere else.
    pub(crate) fn next_clean(&self, from: Logical, to: Logical) -> Option<Logical> {
        self.next(from, to, Some(Sought::Clean), Leaf::next_clean)
    }

    /// Blocks in `from..to` that lie anywhere: some of the first ones that follow each other.
    pub(crate) fn next_used(&self, from: Logical, to: Logical) -> Option<BlockRange> {
        assert!(to <= self.blocks, "a search ends behind the last block");
        let run = |first, end| Some(BlockRange { first, count: end - first });
        let mut block = from;
        while block < to {
            match self.leaf(block) {
                Err(home) => {
                    let end = to.min((block / GROUP_BLOCKS + 1) * GROUP_BLOCKS);
                    if home {
                        return run(block, end);
                    }
                    block = end;
                }
                Ok(leaf) => {
                    let first = block - block % LEAF_BLOCKS;
                    let found = leaf.next_used(block - first, LEAF_BLOCKS.min(to - first));
                    if let Some((from, end)) = found {
                        return run(first + from, first + end);
                    }
                    block = first + LEAF_BLOCKS;
                }
            }
        }
        None
    }

    /// The first block that `next` finds in a leaf. Where something is sought, leaves that have none of it are passed.
    fn next(
        &self,
        from: Logical,
        to: Logical,
        sought: Option<Sought>,
        next: impl Fn(&Leaf, u64, u64) -> Option<u64>,
    ) -> Option<Logical> {
        assert!(to <= self.blocks, "a search ends behind the last block");
        let mut block = from;
        while block < to {
            let group = block / GROUP_BLOCKS;
            let behind = (group + 1) * GROUP_BLOCKS;
            let LeafGroup::Each(leaves, counts) = &self.groups[group as usize] else {
                block = behind;
                continue;
            };
            let from = leaf_of(block).0;
            let Some(leaf) = sought.map_or(Some(from), |sought| counts.next(sought, from)) else {
                block = behind;
                continue;
            };
            let first = group * GROUP_BLOCKS + leaf as u64 * LEAF_BLOCKS;
            if first >= to {
                break;
            }
            let within = block.max(first) - first;
            if let Some(found) = next(&leaves[leaf], within, LEAF_BLOCKS.min(to - first)) {
                return Some(first + found);
            }
            block = first + LEAF_BLOCKS;
        }
        None
    }

    /// Blocks that lie in a slot or under fragments, in order.
    pub fn in_slots(&self) -> impl Iterator<Item = Logical> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next_in_slot(from, self.blocks)?;
            from = found + 1;
            Some(found)
        })
    }

    /// Does no block lie in a slot?
    pub(crate) fn has_no_slot(&self) -> bool {
        self.next_in_slot(0, self.blocks).is_none()
    }

    /// Asks memory for the state of these blocks.
    #[inline]
    pub(crate) fn prefetch(&self, first: Logical, count: u64) {
        for block in every(first, count, LINE_BLOCKS) {
            if let Ok(leaf) = self.leaf(block) {
                leaf.prefetch(block % LEAF_BLOCKS);
            }
        }
    }

    /// Asks memory for the slots of these blocks. It reads their state, so ask for that first.
    #[inline]
    pub(crate) fn prefetch_slots(&self, first: Logical, count: u64) {
        for block in every(first, count, SLOTS_OF_A_LINE) {
            if let Ok(leaf) = self.leaf(block) {
                leaf.prefetch_slot(block % LEAF_BLOCKS, self.packing);
            }
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val::<[LeafGroup]>(&self.groups) + self.held_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::NONE;
    use super::*;
    use tandem_block::DeviceId;

    const BLOCKS: u64 = 3 * GROUP_BLOCKS + 700;

    fn regions() -> Vec<SlotRegion> {
        vec![SlotRegion::new(DeviceId(0), false, BLOCKS + 20_000, 0)]
    }

    fn on_ssd(slot: u64) -> Entry {
        Entry { ssd: slot, ..Entry::NOWHERE }
    }

    #[test]
    fn what_lies_nowhere_or_at_home_takes_no_memory() {
        let mut all = Leaves::new(BLOCKS as usize, &regions());
        let empty_bytes = all.memory_bytes();
        assert_eq!(all.get(BLOCKS - 1), Entry::NOWHERE);
        all.assume_home(GROUP_BLOCKS, GROUP_BLOCKS);
        assert_eq!(all.memory_bytes(), empty_bytes);
        for (block, home) in [(GROUP_BLOCKS - 1, false), (GROUP_BLOCKS, true)] {
            assert_eq!((all.get(block).home, all.recorded_home(block)), (home, home));
        }
        assert!(!all.get(2 * GROUP_BLOCKS).home && all.has_no_slot());
        all.assume_home(GROUP_BLOCKS - 70, 100);
        let first = GROUP_BLOCKS - 71;
        let homes: Vec<bool> = (first..first + 3).map(|block| all.get(block).home).collect();
        assert_eq!(homes, [false, true, true]);
        assert_eq!(all.recorded_homes_in(0, BLOCKS), GROUP_BLOCKS + 70);
        assert_eq!(all.recorded_homes_in(first, 3), 2);
        assert_eq!(all.recorded_homes(first as usize / 64), u64::MAX << (first % 64 + 1));
    }

    #[test]
    fn searches_cross_leaves_and_groups() {
        let mut all = Leaves::new(BLOCKS as usize, &regions());
        let dirty = [5, 1023, 1024, GROUP_BLOCKS, BLOCKS - 1];
        for block in dirty {
            assert_eq!(all.replace(block, on_ssd(block)), Entry::NOWHERE);
        }
        all.replace(9, Entry { home: true, ..on_ssd(9) });
        all.replace(10, Entry { log: 77, ..Entry::NOWHERE });
        all.replace(11, Entry { home: true, log: 78, ..on_ssd(11) });
        let walk = |next: &dyn Fn(u64) -> Option<u64>| {
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(block) = next(from) {
                found.push(block);
                from = block + 1;
            }
            found
        };
        assert_eq!(walk(&|from| all.next_dirty(from, BLOCKS)), dirty);
        assert_eq!(walk(&|from| all.next_clean(from, BLOCKS)), [9, 11]);
        let on_ssd = [5, 9, 11, 1023, 1024, GROUP_BLOCKS, BLOCKS - 1];
        assert_eq!(walk(&|from| all.next_on_ssd(from, BLOCKS)), on_ssd);
        let in_slot = [5, 9, 10, 11, 1023, 1024, GROUP_BLOCKS, BLOCKS - 1];
        assert_eq!(all.in_slots().collect::<Vec<_>>(), in_slot);
        for end in [1026, 1100, 2000, GROUP_BLOCKS] {
            assert_eq!(all.next_on_ssd(1025, end), None, "the end is not looked at");
        }
        assert_eq!((all.next_on_ssd(12, 1023), all.next_dirty(6, 1023)), (None, None));
        assert_eq!((all.next_in_slot(12, 1023), all.next_clean(12, BLOCKS)), (None, None));
        assert_eq!(all.get(10).ssd, NONE);
    }

    #[test]
    fn the_last_word_of_recorded_homes_ends_with_the_blocks() {
        let mut all = Leaves::new(GROUP_BLOCKS as usize + 70, &regions());
        all.assume_home(0, GROUP_BLOCKS + 70);
        let last = GROUP_BLOCKS as usize / 64 + 1;
        assert_eq!(all.recorded_homes(last), (1 << 6) - 1);
        assert_eq!(all.recorded_homes(last + 1), 0);
    }

    /// What is counted is what all leaves hold, and clearing what lies nowhere makes no leaf.
    #[test]
    fn memory_is_counted_as_it_is_held() {
        let held = |all: &Leaves| -> usize {
            let of = |group: &LeafGroup| match group {
                LeafGroup::Alike { .. } => 0,
                LeafGroup::Each(leaves, counts) => {
                    let bytes: usize = leaves.iter().map(Leaf::memory_bytes).sum();
                    size_of_val::<[Leaf]>(leaves) + bytes + counts.memory_bytes()
                }
            };
            all.groups.iter().map(of).sum()
        };
        let mut all = Leaves::new(BLOCKS as usize, &regions());
        for block in (0..BLOCKS).step_by(997) {
            all.replace(block, Entry::NOWHERE);
            all.set_recorded_home(block, false);
        }
        assert_eq!((all.held_bytes, held(&all)), (0, 0));
        let mut rng = tandem_block::Rng::new(3);
        for round in 0..20_000u64 {
            let block = rng.below(8) * 200_000 % BLOCKS + rng.below(90);
            let home = rng.chance_ppm(300_000);
            match rng.below(4) {
                0 => _ = all.replace(block.min(BLOCKS - 1), Entry { home, ..Entry::NOWHERE }),
                1 => all.set_recorded_home(block.min(BLOCKS - 1), home),
                _ => _ = all.replace(block.min(BLOCKS - 1), Entry { home, ..on_ssd(round) }),
            }
        }
        assert!(all.held_bytes > 0);
        assert_eq!(all.held_bytes, held(&all));
        // the searches that go by counts find what lies there
        let of = |block| all.get(block);
        let is_dirty = |block: &u64| of(*block).ssd != NONE && !of(*block).home;
        let is_clean = |block: &u64| of(*block).ssd != NONE && of(*block).home;
        let found = |next: &dyn Fn(u64) -> Option<u64>| -> Vec<u64> {
            std::iter::successors(next(0), |block| next(block + 1)).collect()
        };
        let dirty = found(&|from| all.next_dirty(from, BLOCKS));
        let clean = found(&|from| all.next_clean(from, BLOCKS));
        assert!(dirty.len() > 50 && clean.len() > 20, "both are there");
        assert!(dirty.iter().copied().eq((0..BLOCKS).filter(is_dirty)));
        assert!(clean.iter().copied().eq((0..BLOCKS).filter(is_clean)));
        all.assume_home(BLOCKS - 2000, 500);
        assert_eq!(all.held_bytes, held(&all));
    }

    #[test]
    #[should_panic(expected = "exists")]
    fn a_block_behind_the_last_one_is_not_written() {
        Leaves::new(2000, &regions()).replace(2000, on_ssd(1));
    }
}
