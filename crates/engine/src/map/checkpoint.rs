//! How do recorded places become leaves?

use super::entry::FragmentSlot;
use super::marks::Marks;
use super::{Entry, Logical, Map, NONE, Slot};
use crate::format::leaf::{GroupBits, LeafImage};
use crate::format::pointer::LEAF_BLOCKS;
use crate::format::record::FragmentRecord;
use crate::pages::Counts;

/// What is recorded of one block, as its leaf is composed.
#[derive(Default)]
struct Recorded {
    whole: Option<Slot>,
    /// With their order.
    fragments: Vec<(u8, FragmentRecord)>,
}

impl Map {
    /// Groups of blocks.
    pub(crate) fn group_count(&self) -> usize {
        self.dirty_groups.len()
    }

    /// Groups that changed since they were last taken.
    pub(crate) fn take_dirty_groups(&mut self) -> Marks {
        self.dirty_groups.take()
    }

    /// Puts a group back among the dirty ones, after a failed checkpoint.
    pub(crate) fn mark_group_dirty(&mut self, group: u64) {
        self.dirty_groups.mark(group as usize);
    }

    /// Blocks of a group: less than others where it is the last one.
    pub(crate) fn blocks_of_group(&self, group: u64) -> usize {
        let left = self.leaves.block_count() - group as usize * LEAF_BLOCKS;
        left.min(LEAF_BLOCKS)
    }

    /// Where the blocks of a group live, as recorded at this moment. Bounded: 1,024 blocks.
    ///
    /// Recorded are places that blocks have now, and those that they have left and no record has freed. Of a block on
    /// an SSD and in a log one place is left out: the log, if nobody has known it to be durable, and else the SSD.
    pub(crate) fn places(&self, group: u64) -> (LeafImage, Counts) {
        let first = group * LEAF_BLOCKS as u64;
        let end = first + self.blocks_of_group(group) as u64;
        let (mut image, mut counts) = (LeafImage::default(), Counts::default());
        for (index, word) in (first as usize / 64..).zip(&mut image.homes) {
            *word = self.leaves.recorded_homes(index);
        }
        let left = self.displaced.of_group(group);
        let mut left = left.as_slice();
        let current = self.current_of(first, end);
        image.slots.reserve(current.len());
        let mut current = current.iter().peekable();
        let next = |left: &[(Logical, Slot)], current: Option<&&(Logical, Entry)>| {
            left.first().map(|item| item.0).into_iter().chain(current.map(|item| item.0)).min()
        };
        while let Some(block) = next(left, current.peek()) {
            let mut recorded = Recorded::default();
            if let Some((_, entry)) = current.next_if(|item| item.0 == block) {
                self.gather_current(block, entry, &mut recorded);
            }
            while let Some((_, slot)) = left.first().filter(|item| item.0 == block) {
                self.gather(*slot, &mut recorded);
                left = &left[1..];
            }
            let at = (block - first) as usize;
            let is_home = image.homes[at / 64] >> (at % 64) & 1 == 1;
            self.put(&mut image, at, recorded, is_home, &mut counts);
        }
        (image, counts)
    }

    /// Blocks of a group that lie in slots, or under fragments. Memory is asked for what is known of all their slots
    /// at once: in a large pool each is somewhere else.
    fn current_of(&self, first: Logical, end: Logical) -> Vec<(Logical, Entry)> {
        let mut current = Vec::with_capacity((end - first) as usize);
        let mut next = self.leaves.next_in_slot(first, end);
        while let Some(block) = next {
            let entry = self.leaves.get(block);
            let slots = [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE);
            slots.for_each(|slot| self.slots.prefetch_recorded(slot));
            current.push((block, entry));
            next = self.leaves.next_in_slot(block + 1, end);
        }
        current
    }

    fn gather_current(&self, block: Logical, entry: &Entry, recorded: &mut Recorded) {
        let (log, ssd) = (entry.log, entry.ssd);
        let is_in_log = log != NONE && self.slots.is_recorded(log) && self.is_safe_in_log(block);
        let ssd = if is_in_log { NONE } else { ssd };
        for slot in [ssd, log].into_iter().filter(|slot| *slot != NONE) {
            self.gather(slot, recorded);
        }
        if entry.fragmented {
            self.fragments(block).iter().for_each(|fragment| self.gather(fragment.slot, recorded));
        }
    }

    fn gather(&self, slot: Slot, recorded: &mut Recorded) {
        if !self.slots.is_recorded(slot) {
            return;
        }
        if !self.fragment_slots.is_empty()
            && let Some(&FragmentSlot { mask, order, checksum }) = self.fragment_slots.get(&slot)
        {
            recorded.fragments.push((order, FragmentRecord { slot, checksum, mask }));
            return;
        }
        let is_better = match recorded.whole {
            None => true,
            Some(known) => {
                let kinds = [known, slot].map(|slot| self.slots.is_log(slot));
                assert_ne!(kinds[0], kinds[1], "a block has one recorded place of a kind");
                kinds[0]
            }
        };
        if is_better {
            recorded.whole = Some(slot);
        }
    }

    fn put(
        &self,
        image: &mut LeafImage,
        at: usize,
        mut recorded: Recorded,
        is_home: bool,
        counts: &mut Counts,
    ) {
        let mark = |words: &mut GroupBits| words[at / 64] |= 1 << (at % 64);
        let is_fragmented = !recorded.fragments.is_empty();
        let on_ssd = recorded.whole.is_some_and(|slot| !self.slots.is_log(slot));
        if let Some(slot) = recorded.whole {
            mark(&mut image.placed);
            image.slots.push(slot);
        }
        if is_fragmented {
            mark(&mut image.fragmented);
            recorded.fragments.sort_unstable_by_key(|(order, fragment)| (*order, fragment.slot));
            image
                .fragments
                .push(recorded.fragments.iter().map(|(_, fragment)| *fragment).collect());
        }
        counts.on_ssd += u16::from(on_ssd || is_fragmented);
        counts.dirty += u16::from(is_fragmented || on_ssd && !is_home);
    }
}

impl Map {
    /// Marks homes valid as if they had been written and recorded long ago: how a replay begins.
    pub(crate) fn assume_home(&mut self, first: Logical, count: u64) {
        self.leaves.assume_home(first, count);
    }

    /// Puts a block on an SSD as a clean copy of its valid home, as if long ago. False: SSD full.
    pub(crate) fn assume_ssd_copy(&mut self, block: Logical) -> bool {
        let Some(run) = self.allocate_ssd(1) else { return false };
        assert!(self.leaves.recorded_home(block), "the home of a clean copy is valid");
        self.slots.assign(run.slot, block);
        self.slots.set_recorded(run.slot, true);
        let entry = self.leaves.get(block);
        assert_eq!(entry.ssd, NONE, "a block has one place on the SSDs");
        self.leaves.replace(block, Entry { ssd: run.slot, ..entry });
        true
    }
}
