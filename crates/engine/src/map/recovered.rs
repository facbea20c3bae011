//! What the journal says of blocks, and how it goes over what leaves say, into an empty map.
//!
//! The journal is read first. Then each leaf that is read goes into the map at once, with what records say over it:
//! absolutely, by block. So memory and time go with the records and with the leaves that exist, and not with the size
//! of the pool.
//!
//! Leaves of one checkpoint are composed at different moments, so two may claim the same slot: one block left
//! it, and another one got it. The block that left it was changed after the checkpoint began, so a record that is
//! replayed says what holds, and the leaf's word counts for nothing.

use super::entry::FragmentSlot;
use super::objects::BlockRange;
use super::{Entry, Fragment, Logical, Map, NONE, Slot};
use crate::format::leaf::{GroupBits, LeafImage, marked};
use crate::format::pointer::LEAF_BLOCKS;
use crate::format::record::FRAGMENTS_MAX;
use std::collections::BTreeMap;

/// Order, slot, mask and checksum of a fragment.
pub(crate) type FragmentOf = (u8, Slot, u8, u32);

/// What a record says of some blocks of one group that follow each other.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    first: Logical,
    count: u16,
    /// Their homes are valid.
    home: bool,
    /// The slot of the first one, on an SSD or in a log, or `NONE`. Those of the others follow.
    slot: Slot,
}

impl Replaced {
    fn group(&self) -> u64 {
        self.first / LEAF_BLOCKS as u64
    }
}

/// What records say. A record of many blocks that lie in no slot is short, so it is kept as it is, and not by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// In the order of the journal. From `end_records` on by group, and in that order there.
    records: Vec<Replaced>,
    /// Fragments of blocks, as the last record of each has them.
    fragments: BTreeMap<Logical, Vec<FragmentOf>>,
    is_ended: bool,
}

impl Recovered {
    /// Replaces all that is known of these blocks. They lie in slots from this one on, or in none (`NONE`), and in
    /// their homes if these are valid.
    pub(crate) fn replace(&mut self, blocks: BlockRange, home: bool, slot: Slot) {
        assert!(!self.is_ended, "records come before leaves");
        let BlockRange { first, count } = blocks;
        if !self.fragments.is_empty() {
            let gone = self.fragments.range(first..first + count);
            let gone: Vec<Logical> = gone.map(|(&block, _)| block).collect();
            gone.iter().for_each(|block| _ = self.fragments.remove(block));
        }
        let mut from = 0;
        while from < count {
            let behind = LEAF_BLOCKS as u64 - (first + from) % LEAF_BLOCKS as u64;
            let part = behind.min(count - from);
            self.records.push(Replaced {
                first: first + from,
                count: part as u16,
                home,
                slot: if slot == NONE { NONE } else { slot + from },
            });
            from += part;
        }
    }

    /// The same of a block under fragments. The slot is of what lies beneath.
    pub(crate) fn replace_fragmented(
        &mut self,
        block: Logical,
        home: bool,
        slot: Slot,
        fragments: Vec<FragmentOf>,
    ) {
        assert!(!fragments.is_empty(), "a block under fragments has some");
        self.replace(BlockRange { first: block, count: 1 }, home, slot);
        self.fragments.insert(block, fragments);
    }

    /// All records were read: of several about one block the last one holds.
    pub(crate) fn end_records(&mut self) {
        // the sort keeps the order of those of one group
        self.records.sort_by_key(Replaced::group);
        self.is_ended = true;
    }

    /// A journal that says nothing.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Recovered { is_ended: true, ..Recovered::default() }
    }

    /// Records that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Records of the blocks of a group, in the order of the journal.
    fn of_group(&self, group: u64) -> &[Replaced] {
        assert!(self.is_ended, "all records are known when leaves are read");
        let from = self.records.partition_point(|record| record.group() < group);
        let behind = &self.records[from..];
        &behind[..behind.partition_point(|record| record.group() == group)]
    }

    pub(super) fn next_group(&self, from: u64) -> Option<u64> {
        let next = self.records.partition_point(|record| record.group() < from);
        self.records.get(next).map(Replaced::group)
    }
}

/// A map that leaves go into, with what records say over them.
pub(crate) struct Recovery<'a> {
    map: &'a mut Map,
    recovered: &'a Recovered,
    has_homes: bool,
}

impl<'a> Recovery<'a> {
    /// Leaves are to go into this map. A pool without hard drives has no homes.
    pub(crate) fn new(map: &'a mut Map, recovered: &'a Recovered, has_homes: bool) -> Self {
        Recovery { map, recovered, has_homes }
    }

    /// Does no block lie in a slot yet?
    pub(crate) fn has_no_slot(&self) -> bool {
        self.map.leaves.has_no_slot()
    }

    /// The first group from `from` on of which records say something.
    pub(crate) fn next_group(&self, from: u64) -> Option<u64> {
        self.recovered.next_group(from)
    }

    /// All blocks of a group lie at home, but for those of which records say something else.
    ///
    /// # Errors
    /// As `group`.
    pub(crate) fn group_at_home(&mut self, group: u64) -> Result<(), String> {
        self.group(group, &LeafImage::at_home(self.map.blocks_of_group(group)))
    }

    /// Takes over what a leaf says of a group of blocks, and over it what records say.
    ///
    /// # Errors
    /// Words: it names blocks, homes or slots that do not exist, or a slot that another block has.
    pub(crate) fn group(&mut self, group: u64, image: &LeafImage) -> Result<(), String> {
        self.check(group, image)?;
        let first = group * LEAF_BLOCKS as u64;
        let records = self.recovered.of_group(group);
        let (mut homes, mut replaced) = (image.homes, GroupBits::default());
        let mut placed = Vec::new();
        // the last record of a block holds
        for record in records.iter().rev() {
            for i in 0..u64::from(record.count) {
                let (word, bit) = at(record.first - first + i);
                if replaced[word] & bit != 0 {
                    continue;
                }
                replaced[word] |= bit;
                homes[word] = if record.home { homes[word] | bit } else { homes[word] & !bit };
                if record.slot != NONE {
                    placed.push((record.first + i, record.slot + i));
                }
            }
        }
        self.homes(first, &homes);
        let holds = |index: &usize| {
            let (word, bit) = at(*index as u64);
            replaced[word] & bit == 0
        };
        for (index, &slot) in marked(&image.placed).zip(&image.slots) {
            if holds(&index) {
                self.slot(first + index as u64, slot)?;
            }
        }
        for (index, list) in marked(&image.fragmented).zip(&image.fragments) {
            if holds(&index) {
                let of = (0..).zip(list).map(|(order, it)| (order, it.slot, it.mask, it.checksum));
                self.fragments(first + index as u64, of.collect())?;
            }
        }
        for (block, slot) in placed {
            self.slot(block, slot)?;
        }
        let recovered = self.recovered;
        for (&block, list) in recovered.fragments.range(first..first + LEAF_BLOCKS as u64) {
            self.fragments(block, list.clone())?;
        }
        if !records.is_empty() {
            // the leaf on the drives says something else than what holds
            self.map.mark_group_dirty(group);
        }
        Ok(())
    }

    /// All blocks of these groups lie at home.
    ///
    /// # Errors
    /// Words: there are no homes, or groups.
    pub(crate) fn at_home(&mut self, groups: &std::ops::Range<u64>) -> Result<(), String> {
        if groups.is_empty() {
            return Ok(());
        }
        if !self.has_homes || groups.end > self.map.group_count() as u64 {
            return Err("it names homes that do not exist".into());
        }
        let first = groups.start * LEAF_BLOCKS as u64;
        let end = (groups.end * LEAF_BLOCKS as u64).min(self.map.leaves.block_count() as u64);
        self.map.leaves.assume_home(first, end - first);
        Ok(())
    }

    fn check(&self, group: u64, image: &LeafImage) -> Result<(), String> {
        let slots = image.slots.iter();
        let slots = slots.chain(image.fragments.iter().flatten().map(|fragment| &fragment.slot));
        let exist = slots.into_iter().all(|slot| self.map.slots.have(*slot, 1));
        let has_home = image.homes.iter().any(|word| *word != 0);
        let is_within = image.is_within(self.map.blocks_of_group(group));
        if exist && is_within && (self.has_homes || !has_home) {
            Ok(())
        } else {
            Err("it names blocks, homes or slots that do not exist".into())
        }
    }

    /// Homes of a group, which begins with this block.
    fn homes(&mut self, first: Logical, homes: &GroupBits) {
        let mut from = None;
        for index in 0..=LEAF_BLOCKS {
            let (word, bit) = at(index as u64);
            let is_home = index < LEAF_BLOCKS && homes[word] & bit != 0;
            match from {
                None if is_home => from = Some(index),
                Some(start) if !is_home => {
                    self.map.leaves.assume_home(first + start as u64, (index - start) as u64);
                    from = None;
                }
                _ => {}
            }
        }
    }

    /// The block has this recorded place.
    fn slot(&mut self, block: Logical, slot: Slot) -> Result<(), String> {
        self.take(slot, block)?;
        let entry = self.map.leaves.get(block);
        let is_log = self.map.slots.is_log(slot);
        let is_free = if is_log { entry.log == NONE } else { entry.ssd == NONE };
        assert!(is_free, "block {block} has one place of a kind");
        let (ssd, log) = if is_log { (entry.ssd, slot) } else { (slot, entry.log) };
        self.map.leaves.replace(block, Entry { ssd, log, ..entry });
        Ok(())
    }

    pub(super) fn fragments(
        &mut self,
        block: Logical,
        mut fragments: Vec<FragmentOf>,
    ) -> Result<(), String> {
        if fragments.len() > FRAGMENTS_MAX {
            return Err(format!("block {block} has {} fragments", fragments.len()));
        }
        fragments.sort_unstable();
        for (order, slot, mask, checksum) in fragments {
            self.take(slot, block)?;
            self.map.fragment_slots.insert(slot, FragmentSlot { mask, order, checksum });
            self.map.fragments.entry(block).or_default().push(Fragment { slot, mask });
            let entry = self.map.leaves.get(block);
            self.map.leaves.replace(block, Entry { fragmented: true, ..entry });
        }
        Ok(())
    }

    fn take(&mut self, slot: Slot, block: Logical) -> Result<(), String> {
        if !self.map.slots.have(slot, 1) {
            return Err(format!(
                "block {block} is said to lie in slot {slot}, which does not exist"
            ));
        }
        if self.map.slots.is_place(slot) {
            let mut others = self.map.leaves.in_slots();
            let other = others.find(|&other| other != block && self.map.lies_in(other, slot));
            let other = other.map_or("to itself again".into(), |other| format!("to block {other}"));
            return Err(format!("slot {slot} belongs to block {block}, and {other}"));
        }
        self.map.slots.assign(slot, block);
        self.map.slots.set_recorded(slot, true);
        let Some(ssd) = self.map.allocator_of(slot) else { return Ok(()) };
        self.map.allocators[ssd].take(slot);
        let closed = self.map.closed[ssd];
        assert!(closed || self.map.ssd_free > 0, "what is free of open SSDs is counted");
        self.map.ssd_free -= u64::from(!closed);
        Ok(())
    }
}

/// Runs of blocks that lie somewhere and in none of these ranges, which are in order.
pub(crate) fn strays(map: &Map, owned: &[BlockRange]) -> Vec<BlockRange> {
    let mut strays: Vec<BlockRange> = Vec::new();
    let mut from = 0;
    let last = BlockRange { first: map.leaves.block_count() as Logical, count: 0 };
    for next in owned.iter().chain([&last]) {
        while let Some(found) = map.leaves.next_used(from, next.first) {
            from = found.first + found.count;
            match strays.last_mut() {
                Some(last) if last.first + last.count == found.first => {
                    last.count += found.count;
                }
                _ => strays.push(found),
            }
        }
        from = from.max(next.first + next.count);
    }
    strays
}

/// Slots of each drive's log that some block lies in, or has left while a record still names them.
pub(crate) fn slots_in_logs(map: &Map) -> BTreeMap<tandem_block::DeviceId, Vec<Slot>> {
    let mut found = BTreeMap::<_, Vec<Slot>>::new();
    let mut put = |slot: Slot| {
        if slot != NONE && map.slots.is_log(slot) {
            found.entry(map.slots.region(slot).device).or_default().push(slot);
        }
    };
    for block in map.leaves.in_slots() {
        put(map.leaves.get(block).log);
        map.fragments(block).iter().for_each(|fragment| put(fragment.slot));
    }
    map.displaced.iter().for_each(|(_, slot)| put(slot));
    found
}

/// Which word of a group's bits, and which bit there.
fn at(index: u64) -> (usize, u64) {
    ((index / 64) as usize % (LEAF_BLOCKS / 64), 1 << (index % 64))
}
