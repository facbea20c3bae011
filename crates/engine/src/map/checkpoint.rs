//! How do recorded places become leaves, and leaves a map?

use super::bits::Bits;
use super::objects::BlockRange;
use super::slots::Slots;
use super::{Entry, Fragment, Logical, Map, NONE, Slot, SlotRegion};
use crate::format::leaf::{GroupBits, LeafImage, marked};
use crate::format::pointer::LEAF_BLOCKS;
use crate::format::record::{FRAGMENTS_MAX, FragmentRecord};
use crate::map::entry::{LOG, SSD};
use crate::pages::Counts;
use std::collections::BTreeMap;

/// What is recorded of one block, as its leaf is composed.
#[derive(Default)]
struct Recorded {
    whole: Option<Slot>,
    /// Order, slot, mask.
    fragments: Vec<(u8, Slot, u8)>,
}

impl Map {
    /// Groups of blocks.
    pub(crate) fn group_count(&self) -> usize {
        self.dirty_groups.len()
    }

    /// Groups that changed since they were last taken.
    pub(crate) fn take_dirty_groups(&mut self) -> Bits {
        let clean = Bits::new(self.dirty_groups.len());
        std::mem::replace(&mut self.dirty_groups, clean)
    }

    /// Puts a group back among the dirty ones, after a failed checkpoint.
    pub(crate) fn mark_group_dirty(&mut self, group: u64) {
        self.dirty_groups.set(group as usize, true);
    }

    /// Blocks of a group: less than others where it is the last one.
    pub(crate) fn blocks_of_group(&self, group: u64) -> usize {
        let left = self.leaves.block_count() - group as usize * LEAF_BLOCKS;
        left.min(LEAF_BLOCKS)
    }

    /// Where the blocks of a group live, as recorded at this moment. Bounded: 1,024 blocks.
    ///
    /// Recorded are places that blocks have now, and those that they have left and no record has freed. A copy in
    /// a log beside one on an SSD is left out, since nobody has known it to be durable.
    pub(crate) fn places(&self, group: u64) -> (LeafImage, Counts) {
        let first = group * LEAF_BLOCKS as u64;
        let end = first + self.blocks_of_group(group) as u64;
        let (mut image, mut counts) = (LeafImage::default(), Counts::default());
        for (index, word) in (first as usize / 64..).zip(&mut image.homes) {
            *word = self.leaves.recorded_homes(index);
        }
        let left = self.displaced.of_group(group);
        let mut left = left.as_slice();
        let mut next = self.leaves.next_in_slot(first, end);
        while let Some(block) = left.first().map(|item| item.0).into_iter().chain(next).min() {
            let mut recorded = Recorded::default();
            if next == Some(block) {
                self.gather_current(block, &mut recorded);
                next = self.leaves.next_in_slot(block + 1, end);
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

    fn gather_current(&self, block: Logical, recorded: &mut Recorded) {
        let entry = self.leaves.get(block);
        for slot in [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE) {
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
        let mask = if self.masks.is_empty() { None } else { self.masks.get(&slot) };
        if let Some(&(mask, order)) = mask {
            recorded.fragments.push((order, slot, mask));
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
            image.slots.push((slot, self.slots.checksum(slot)));
        }
        if is_fragmented {
            mark(&mut image.fragmented);
            recorded.fragments.sort_unstable();
            let record = |&(_, slot, mask): &(u8, Slot, u8)| FragmentRecord {
                slot,
                checksum: self.slots.checksum(slot),
                mask,
            };
            image.fragments.push(recorded.fragments.iter().map(record).collect());
        }
        counts.on_ssd += u16::from(on_ssd || is_fragmented);
        counts.dirty += u16::from(is_fragmented || on_ssd && !is_home);
    }
}

/// One block as recovery pieces it together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveredBlock {
    /// The home is valid.
    pub(crate) home: bool,
    /// SSD slot and checksum.
    pub(crate) ssd: Option<(Slot, u32)>,
    /// Log slot and checksum.
    pub(crate) log: Option<(Slot, u32)>,
    /// Fragments: order, slot, mask, checksum.
    pub(crate) fragments: Vec<(u8, Slot, u8, u32)>,
}

/// The map while leaves and records are read: from the checkpoint, then absolutely by record.
///
/// Leaves of one checkpoint are composed at different moments, so two may claim the same slot: one block left
/// it, and another one got it. The block that left it was changed after the checkpoint began, so a record that is
/// replayed afterwards says what holds.
///
/// What leaves say of whole blocks is gathered in the table that the map will have, since there is so
/// much of it; fragments, and what records say, are kept by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// Slots that leaves give to an owner.
    claims: Slots,
    /// What leaves say of slots that are claimed already: block, slot, checksum.
    contested: Vec<(Logical, Slot, u32)>,
    /// Fragments that leaves know of.
    fragmented: BTreeMap<Logical, Vec<(u8, Slot, u8, u32)>>,
    /// What records say, in their order: of several about one block the last one holds. Homes are in
    /// `homes`.
    records: Vec<Replaced>,
    /// Their fragments, by position of the record.
    record_fragments: BTreeMap<usize, Vec<(u8, Slot, u8, u32)>>,
    /// Blocks in `records`: what leaves say of them is over.
    is_replaced: Bits,
    homes: Bits,
    /// A pool without hard drives has none.
    has_homes: bool,
}

/// What one record says of one block: a journal may hold millions of them.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    block: Logical,
    /// On an SSD, or in a log, or `NONE`.
    slot: Slot,
    checksum: u32,
}

impl Recovered {
    /// Nothing read yet of a map with these slots and so many logical blocks.
    pub(crate) fn new(regions: &[SlotRegion], logical_blocks: usize, has_homes: bool) -> Self {
        Recovered {
            claims: Slots::new(regions.to_vec()),
            homes: Bits::new(logical_blocks),
            has_homes,
            is_replaced: Bits::new(logical_blocks),
            ..Recovered::default()
        }
    }

    /// Blocks of a group.
    fn blocks_of(&self, group: u64) -> usize {
        (self.homes.len() - group as usize * LEAF_BLOCKS).min(LEAF_BLOCKS)
    }

    /// All blocks of the group lie at home.
    pub(crate) fn group_at_home(&mut self, group: u64) {
        self.homes.set_run(group as usize * LEAF_BLOCKS, self.blocks_of(group), true);
    }

    /// Takes over a leaf. False: it names blocks, homes or slots that do not exist.
    pub(crate) fn group(&mut self, group: u64, image: &LeafImage) -> bool {
        let slots = image.slots.iter().map(|(slot, _)| slot);
        let slots = slots.chain(image.fragments.iter().flatten().map(|fragment| &fragment.slot));
        let exist = slots.into_iter().all(|slot| self.claims.have(*slot, 1));
        let has_home = image.homes.iter().any(|word| *word != 0);
        if !exist || !image.is_within(self.blocks_of(group)) || has_home && !self.has_homes {
            return false;
        }
        let first = group as usize * LEAF_BLOCKS;
        for (to, from) in self.homes.words_mut()[first / 64..].iter_mut().zip(&image.homes) {
            *to = *from;
        }
        let first = first as Logical;
        for (at, &(slot, checksum)) in marked(&image.placed).zip(&image.slots) {
            let block = first + at as Logical;
            if self.claims.owner(slot) == NONE {
                self.claims.assign(slot, block, checksum);
            } else {
                self.contested.push((block, slot, checksum));
            }
        }
        for (at, list) in marked(&image.fragmented).zip(&image.fragments) {
            let of =
                |(order, part): (u8, &FragmentRecord)| (order, part.slot, part.mask, part.checksum);
            self.fragmented.insert(first + at as Logical, (0..).zip(list).map(of).collect());
        }
        true
    }

    /// Replaces all that is known of a block. The slots exist: the caller has looked.
    pub(crate) fn replace(&mut self, block: Logical, home: bool, places: RecoveredBlock) {
        self.homes.set(block as usize, home);
        self.is_replaced.set(block as usize, true);
        // the log place of a tail was never known to be durable: the SSD copy is the truth
        let (slot, checksum) = places.ssd.or(places.log).unwrap_or((NONE, 0));
        let exists = |slot: Slot| self.claims.have(slot, 1);
        assert!(slot == NONE || exists(slot), "the caller has looked for slot {slot}");
        if !places.fragments.is_empty() {
            let exist = places.fragments.iter().all(|fragment| exists(fragment.1));
            assert!(exist, "the caller has looked for them");
            self.record_fragments.insert(self.records.len(), places.fragments);
        }
        self.records.push(Replaced { block, slot, checksum });
    }

    /// Positions of the records that hold: the last one of each block.
    fn records_that_hold(&self) -> Vec<usize> {
        let mut seen = Bits::new(self.is_replaced.len());
        let mut positions = Vec::new();
        for (position, record) in self.records.iter().enumerate().rev() {
            if !seen.get(record.block as usize) {
                seen.set(record.block as usize, true);
                positions.push(position);
            }
        }
        positions
    }

    /// Runs of blocks that are in use and lie in none of these ranges, which are in order.
    pub(crate) fn strays(&self, owned: &[BlockRange]) -> Vec<BlockRange> {
        let is_stray = |block: Logical| {
            let behind = owned.partition_point(|range| range.first <= block);
            behind == 0 || block - owned[behind - 1].first >= owned[behind - 1].count
        };
        let claimed = self.claims.all().map(|slot| self.claims.owner(slot));
        let mut found: Vec<Logical> = claimed
            .filter(|&owner| owner != NONE)
            .chain(self.contested.iter().map(|claim| claim.0))
            .chain(self.fragmented.keys().copied())
            .filter(|&block| is_stray(block) && !self.is_replaced.get(block as usize))
            .collect();
        for position in self.records_that_hold() {
            let Replaced { block, slot, .. } = self.records[position];
            if is_stray(block) && (slot != NONE || self.record_fragments.contains_key(&position)) {
                found.push(block);
            }
        }
        let mut from = 0;
        let total = self.homes.len();
        let last = BlockRange { first: total as Logical, count: 0 };
        for next in owned.iter().chain([&last]) {
            while let Some(block) = self.homes.next_set(from, next.first as usize) {
                found.push(block as Logical);
                from = block + 1;
            }
            from = (next.first + next.count) as usize;
        }
        found.sort_unstable();
        found.dedup();
        let mut strays: Vec<BlockRange> = Vec::new();
        for block in found {
            match strays.last_mut() {
                Some(last) if last.first + last.count == block => last.count += 1,
                _ => strays.push(BlockRange { first: block, count: 1 }),
            }
        }
        strays
    }

    /// Puts everything into an empty map. Returns the first contradiction found, if any.
    pub(crate) fn install(mut self, map: &mut Map) -> Result<(), String> {
        assert!(map.leaves.has_no_slot() && map.pending_blocks == 0, "it goes into an empty map");
        assert!(
            self.claims.count() == map.slots.count()
                && self.homes.len() == map.leaves.block_count(),
            "what was read is of this map"
        );
        let mut from = 0;
        while let Some(start) = self.homes.next_set(from, self.homes.len()) {
            let end = self.homes.next_clear(start, self.homes.len()).unwrap_or(self.homes.len());
            map.leaves.assume_home(start as Logical, (end - start) as u64);
            from = end;
        }
        map.slots = std::mem::take(&mut self.claims);
        let regions = map.slots.regions().to_vec();
        for slot in regions.iter().flat_map(SlotRegion::slots) {
            let block = map.slots.owner(slot);
            if block == NONE {
                continue;
            }
            if self.is_replaced.get(block as usize) {
                map.slots.leave(slot);
                map.slots.disown(slot);
                continue;
            }
            let bit = if map.slots.is_log(slot) { LOG } else { SSD };
            map.take_slot(slot, block, bit);
        }
        let holds = |block: Logical| !self.is_replaced.get(block as usize);
        for (block, slot, checksum) in std::mem::take(&mut self.contested) {
            if holds(block) {
                let bit = if map.slots.is_log(slot) { LOG } else { SSD };
                map.install_slot(block, slot, checksum, bit)?;
            }
        }
        for (block, fragments) in std::mem::take(&mut self.fragmented) {
            if holds(block) {
                map.install_fragments(block, fragments)?;
            }
        }
        for position in self.records_that_hold() {
            let Replaced { block, slot, checksum } = self.records[position];
            if slot != NONE {
                let bit = if map.slots.is_log(slot) { LOG } else { SSD };
                map.install_slot(block, slot, checksum, bit)?;
            }
            if let Some(fragments) = self.record_fragments.remove(&position) {
                map.install_fragments(block, fragments)?;
            }
        }
        // their leaves on the drives say something else than what holds
        let mut from = 0;
        while let Some(block) = self.is_replaced.next_set(from, self.is_replaced.len()) {
            let group = block / LEAF_BLOCKS;
            map.dirty_groups.set(group, true);
            from = (group + 1) * LEAF_BLOCKS;
        }
        Ok(())
    }
}

impl Map {
    fn install_slot(
        &mut self,
        block: Logical,
        slot: Slot,
        sum: u32,
        bit: u8,
    ) -> Result<(), String> {
        self.install_taken(slot, block, sum)?;
        self.name_slot(slot, block, bit);
        Ok(())
    }

    /// The slot, whose owner is set, is a recorded place of the block.
    fn take_slot(&mut self, slot: Slot, block: Logical, bit: u8) {
        self.slots.set_recorded(slot, true);
        self.take_from_allocator(slot);
        self.name_slot(slot, block, bit);
    }

    fn name_slot(&mut self, slot: Slot, block: Logical, bit: u8) {
        let entry = self.leaves.get(block);
        let is_free = if bit == SSD { entry.ssd == NONE } else { entry.log == NONE };
        assert!(is_free, "block {block} has one place of a kind");
        let (ssd, log) = if bit == SSD { (slot, entry.log) } else { (entry.ssd, slot) };
        self.leaves.replace(block, Entry { ssd, log, ..entry });
    }

    fn take_from_allocator(&mut self, slot: Slot) {
        let Some(ssd) = self.allocator_of(slot) else { return };
        self.allocators[ssd].take(slot);
        let closed = self.closed[ssd];
        assert!(closed || self.ssd_free > 0, "what is free of open SSDs is counted");
        self.ssd_free -= u64::from(!closed);
    }

    pub(super) fn install_fragments(
        &mut self,
        block: Logical,
        mut fragments: Vec<(u8, Slot, u8, u32)>,
    ) -> Result<(), String> {
        if fragments.len() > FRAGMENTS_MAX {
            return Err(format!("block {block} has {} fragments", fragments.len()));
        }
        fragments.sort_unstable();
        for (order, slot, mask, checksum) in fragments {
            self.install_fragment(block, slot, (mask, order), checksum)?;
        }
        Ok(())
    }

    fn install_fragment(
        &mut self,
        block: Logical,
        slot: Slot,
        mask: (u8, u8),
        checksum: u32,
    ) -> Result<(), String> {
        self.install_taken(slot, block, checksum)?;
        self.masks.insert(slot, mask);
        self.fragments.entry(block).or_default().push(Fragment { slot, mask: mask.0 });
        let entry = self.leaves.get(block);
        self.leaves.replace(block, Entry { fragmented: true, ..entry });
        Ok(())
    }

    fn install_taken(&mut self, slot: Slot, block: Logical, checksum: u32) -> Result<(), String> {
        if !self.slots.have(slot, 1) {
            return Err(format!(
                "block {block} is said to lie in slot {slot}, which does not exist"
            ));
        }
        if self.slots.owner(slot) != NONE {
            let other = self.slots.owner(slot);
            return Err(format!("slot {slot} belongs to block {block} and to block {other}"));
        }
        self.slots.assign(slot, block, checksum);
        self.slots.set_recorded(slot, true);
        self.take_from_allocator(slot);
        Ok(())
    }

    /// Marks homes valid as if they had been written and recorded long ago: how a replay begins.
    pub(crate) fn assume_home(&mut self, first: Logical, count: u64) {
        self.leaves.assume_home(first, count);
    }

    /// Puts a block on an SSD as a clean copy of its valid home, as if long ago. False: SSD full.
    pub(crate) fn assume_ssd_copy(&mut self, block: Logical, checksum: u32) -> bool {
        let Some(run) = self.allocate_ssd(1) else { return false };
        assert!(self.leaves.recorded_home(block), "the home of a clean copy is valid");
        self.slots.assign(run.slot, block, checksum);
        self.slots.set_recorded(run.slot, true);
        let entry = self.leaves.get(block);
        assert_eq!(entry.ssd, NONE, "a block has one place on the SSDs");
        self.leaves.replace(block, Entry { ssd: run.slot, ..entry });
        true
    }
}
