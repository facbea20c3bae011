//! Which extent is the hottest on the hard drives, which the coldest on the SSD? Exactly, without scans.
//!
//! Source: [LORIS §III] picks the hottest with the highest counter, the most recently used of equals,
//! and the coldest with the lowest, the least recently used of equals; its arrays are searched whole,
//! and it asks for priority queues.
//!
//! Extents lie in groups of sixteen, where their hash says, and stay in them. A group begins with the first
//! of either side in it, above which a tree (`ends.rs`) has the first of all; its head, eight bits of
//! each one's hash, lies with the other groups' heads. So most requests touch three lines, whose places
//! are known at once: with heaps, and an index beside them, it was eight to ten lines one after the other,
//! and what nobody had asked for was moved. In 38 bytes an extent.

use super::Extent;
use super::ends::{Ends, Levels, Row, further, key, key_words};
use super::index::mixed;
use std::hint::select_unpredictable;
use tandem_block::Table;

/// Extents of a group at most, and on average when all that may be tracked are.
const GROUP: usize = 16;
const GROUP_MEAN: usize = 12;
/// Groups that are looked at for one that may be forgotten.
const LOOKED_AT: usize = 2;

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// On a hard drive alone.
    Hdd = 0,
    /// On an SSD, or with a copy there.
    Ssd = 1,
}

/// How much, and, among equals, how recently: the higher the hotter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// How hot.
    pub(crate) heat: u64,
    /// When it was used, as a number that rises; below 2^62.
    pub(crate) used: u64,
}

/// Bits of a rank's `used`: it and the heat are one key of 126 bits.
const USED_BITS: u32 = 62;
/// What every key of the SSD is below zero by.
const SSD: i128 = 1 << (64 + USED_BITS);

/// A group's head: hash bits of its slots, zero where nothing is; how many extents belong here and
/// found no room; a bit for each slot of the SSD.
const OVERFLOWED: usize = 2;
const OF_SSD: usize = 3;
const HEAD_WORDS: usize = 4;
/// A group begins with its ends.
const ENDS: usize = 0;
const ENDS_WORDS: usize = 4;
/// Then come its slots: the extent, its key's halves, low half first, and what a user of it keeps.
const KEY: usize = 1;
const KEPT: usize = 3;

/// Every tracked extent in its order, with so many words of each for whoever uses it.
#[derive(Clone, Debug)]
pub(crate) struct Ranks<const KEPT_WORDS: usize> {
    /// Head after head, by themselves: what is not here is mostly told by them alone, and they are a tenth.
    heads: Table<u64>,
    /// Group after group.
    words: Table<u64>,
    groups: usize,
    levels: Levels,
    lens: [usize; 2],
    entries_max: usize,
    /// Where to look next for one to forget.
    hand: usize,
}

impl<const KEPT_WORDS: usize> Ranks<KEPT_WORDS> {
    const SLOT_WORDS: usize = KEPT + KEPT_WORDS;
    const GROUP_WORDS: usize = ENDS_WORDS + GROUP * Self::SLOT_WORDS;

    /// For so many extents at most.
    ///
    /// # Panics
    /// If they cannot be numbered with 32 bits.
    pub(crate) fn new(entries_max: usize) -> Self {
        let groups = entries_max.div_ceil(GROUP_MEAN).max(1);
        assert!(groups * GROUP < u32::MAX as usize, "{entries_max} entries are too many");
        Ranks {
            heads: Table::new(groups * HEAD_WORDS),
            words: Table::new(groups * Self::GROUP_WORDS),
            groups,
            levels: Levels::new(groups),
            lens: [0; 2],
            entries_max,
            hand: 0,
        }
    }

    /// The extent's slot; it stays the same till something of its group is used or removed.
    #[inline]
    pub(crate) fn find(&self, extent: Extent) -> Option<u32> {
        self.find_from(extent, home(extent, self.groups))
    }

    /// Does the extent lie in this slot?
    #[inline]
    pub(crate) fn is_at(&self, slot: u32, extent: Extent) -> bool {
        let at = Self::slot_words(slot as usize);
        let &[found, low, high] = self.words[at..].first_chunk().expect("a whole slot");
        found == extent.0 && low | high != 0
    }

    #[inline(always)]
    fn find_from(&self, extent: Extent, home: (usize, u8, usize)) -> Option<u32> {
        let heads: &[u64] = &self.heads;
        let (mut group, tag, likely) = home;
        let is_in = |slot: usize| self.is_at(slot as u32, extent);
        let mut head = &heads[group * HEAD_WORDS..][..HEAD_WORDS];
        if tag_of(head, likely) == tag && is_in(group * GROUP + likely) {
            return Some((group * GROUP + likely) as u32);
        }
        loop {
            for (half, word) in head.iter().enumerate().take(2) {
                let mut found = agreeing(*word, tag);
                while found != 0 {
                    let slot = group * GROUP + half * 8 + found.trailing_zeros() as usize / 8;
                    if is_in(slot) {
                        return Some(slot as u32);
                    }
                    found &= found - 1;
                }
            }
            if head[OVERFLOWED] == 0 {
                return None;
            }
            group = after(group, self.groups);
            head = &heads[group * HEAD_WORDS..][..HEAD_WORDS];
        }
    }

    /// Like [`Self::find`], of an extent that is used: it comes to lie where it is looked for first. So what is
    /// popular is found there, and the processor, which takes that for granted, need not wait for it.
    #[inline]
    pub(crate) fn find_used(&mut self, extent: Extent) -> Option<u32> {
        let home = home(extent, self.groups);
        let (group, _, likely) = home;
        let slot = self.find_from(extent, home)?;
        let first = group * GROUP + likely;
        let found = slot as usize;
        if found == first || found / GROUP != group {
            return Some(slot);
        }
        self.exchange(group, found % GROUP, likely);
        Some(first as u32)
    }

    /// Two slots of a group change places; nothing above knows where in a group something lies.
    fn exchange(&mut self, group: usize, one: usize, other: usize) {
        let head = &mut self.heads[group * HEAD_WORDS..][..HEAD_WORDS];
        let differs = u64::from(tag_of(head, one) ^ tag_of(head, other));
        let is_ssd = (head[OF_SSD] >> one ^ head[OF_SSD] >> other) & 1;
        head[OF_SSD] ^= is_ssd << one | is_ssd << other;
        for slot in [one, other] {
            head[slot / 8] ^= differs << (slot % 8 * 8);
        }
        let words = &mut self.words[group * Self::GROUP_WORDS..][..Self::GROUP_WORDS];
        for word in 0..Self::SLOT_WORDS {
            let at = |slot: usize| ENDS_WORDS + slot * Self::SLOT_WORDS + word;
            words.swap(at(one), at(other));
        }
    }

    /// Is there no room?
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.entries_max
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lens[0] + self.lens[1]
    }

    /// How many are on a side.
    #[cfg(test)]
    pub(crate) fn len_of(&self, side: Side) -> usize {
        self.lens[side as usize]
    }

    /// Adds an extent that has no slot.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn insert(
        &mut self,
        extent: Extent,
        side: Side,
        rank: Rank,
        kept: [u64; KEPT_WORDS],
    ) -> u32 {
        assert!(!self.is_full(), "there is room for {extent:?}");
        debug_assert!(self.find(extent).is_none(), "an extent has one slot");
        let (mut group, tag, likely) = home(extent, self.groups);
        let at = loop {
            let head = &mut self.heads[group * HEAD_WORDS..][..HEAD_WORDS];
            if let Some(at) = free(head, likely) {
                head[at / 8] |= u64::from(tag) << (at % 8 * 8);
                break at;
            }
            head[OVERFLOWED] += 1;
            group = after(group, self.groups);
        };
        let slot = group * GROUP + at;
        let words = &mut self.words[Self::slot_words(slot)..][..Self::SLOT_WORDS];
        words.fill(0);
        words[0] = extent.0;
        words[KEPT..].copy_from_slice(&kept);
        self.lens[side as usize] += 1;
        self.set(slot, key_of(side, rank));
        slot as u32
    }

    /// Forgets an extent.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (extent, side, slot) = (self.extent(slot), self.side(slot), slot as usize);
        assert!(self.key(slot) != 0, "only a slot with an extent is cleared");
        assert!(self.lens[side as usize] > 0, "an extent is counted on its side");
        self.lens[side as usize] -= 1;
        self.set(slot, 0);
        let (mut group, ..) = home(extent, self.groups);
        while group != slot / GROUP {
            let overflowed = &mut self.heads[group * HEAD_WORDS + OVERFLOWED];
            assert!(*overflowed > 0, "a group counts what found no room in it");
            *overflowed -= 1;
            group = after(group, self.groups);
        }
        let tags = group * HEAD_WORDS + slot % GROUP / 8;
        self.heads[tags] &= !(0xFF << (slot % 8 * 8));
    }

    /// Moves an extent to a side, with its rank.
    pub(crate) fn shift(&mut self, slot: u32, side: Side) {
        let was = self.side(slot);
        if was != side {
            let rank = self.rank(slot);
            assert!(self.lens[was as usize] > 0, "an extent is counted on its side");
            self.lens[was as usize] -= 1;
            self.lens[side as usize] += 1;
            self.set(slot as usize, key_of(side, rank));
        }
    }

    /// It was used: its heat is what is made of the heat it had, and of what is kept of it, which is
    /// zero at first. Where is it?
    #[inline]
    pub(crate) fn heat_up(
        &mut self,
        slot: u32,
        used: u64,
        heat: impl FnOnce(u64, &mut [u64; KEPT_WORDS]) -> u64,
    ) -> Side {
        let slot = slot as usize;
        let (side, was) = rank_of(self.key(slot));
        let kept = self.words[Self::slot_words(slot) + KEPT..].first_chunk_mut();
        let heat = heat(was.heat, kept.expect("a whole slot"));
        self.set(slot, key_of(side, Rank { heat, used }));
        side
    }

    /// What is kept of it.
    pub(crate) fn kept(&self, slot: u32) -> [u64; KEPT_WORDS] {
        let kept = self.words[Self::slot_words(slot as usize) + KEPT..].first_chunk();
        *kept.expect("a whole slot")
    }

    /// Its rank.
    #[inline]
    pub(crate) fn rank(&self, slot: u32) -> Rank {
        rank_of(self.key(slot as usize)).1
    }

    /// Its side.
    #[inline]
    pub(crate) fn side(&self, slot: u32) -> Side {
        rank_of(self.key(slot as usize)).0
    }

    /// The extent of a slot.
    #[inline]
    pub(crate) fn extent(&self, slot: u32) -> Extent {
        Extent(self.words[Self::slot_words(slot as usize)])
    }

    /// The hottest on the hard drives, the coldest on the SSD.
    #[inline]
    pub(crate) fn first(&self, side: Side) -> Option<u32> {
        let Ends { least, greatest } = self.levels.root();
        let (first, group) = match side {
            Side::Hdd => (greatest, self.levels.find::<false>(self.row(), greatest)),
            Side::Ssd => (least, self.levels.find::<true>(self.row(), least)),
        };
        if first == 0 {
            return None;
        }
        let mut found = group * GROUP;
        for slot in group * GROUP..(group + 1) * GROUP {
            found = select_unpredictable(self.key(slot) == first, slot, found);
        }
        assert!(self.key(found) == first, "what is above comes from below");
        Some(found as u32)
    }

    /// One that may be forgotten: the coldest of the hard drives' in a few groups, each time others.
    /// Exact it is not; it costs the same however many there are.
    pub(crate) fn cold(&mut self) -> Option<u32> {
        let one = |step: usize| {
            let group = self.levels.any(self.row(), self.hand.wrapping_add(step))?;
            let slots = group * GROUP..(group + 1) * GROUP;
            slots.map(|slot| (self.key(slot), slot)).filter(|(key, _)| *key > 0).min()
        };
        let coldest = (0..LOOKED_AT).filter_map(one).min();
        self.hand = self.hand.wrapping_add(LOOKED_AT);
        coldest.map(|(_, slot)| slot as u32)
    }

    /// Bytes that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes() + self.words.memory_bytes() + self.levels.memory_bytes()
    }

    /// Where a slot begins.
    #[inline]
    fn slot_words(slot: usize) -> usize {
        slot / GROUP * Self::GROUP_WORDS + ENDS_WORDS + slot % GROUP * Self::SLOT_WORDS
    }

    #[inline(always)]
    fn key(&self, slot: usize) -> i128 {
        let at = Self::slot_words(slot) + KEY;
        key(self.words[at], self.words[at + 1])
    }

    /// The groups' ends.
    #[inline]
    fn row(&self) -> Row<'_> {
        Row { words: &self.words, first: ENDS, distance: Self::GROUP_WORDS }
    }

    /// Changes a key, and what that changes above; zero is none.
    #[inline]
    fn set(&mut self, slot: usize, to: i128) {
        let group = slot / GROUP;
        let words: &mut [u64] = &mut self.words;
        let words = &mut words[group * Self::GROUP_WORDS..][..Self::GROUP_WORDS];
        let halves = &mut words[ENDS_WORDS + slot % GROUP * Self::SLOT_WORDS + KEY..][..2];
        let from = key(halves[0], halves[1]);
        [halves[0], halves[1]] = key_words(to);
        let bit = 1 << (slot % GROUP);
        if from < 0 || to < 0 {
            if (from < 0) != (to < 0) {
                self.heads[group * HEAD_WORDS + OF_SSD] ^= bit;
            }
            self.end_changed::<true>(group, from, to.min(0));
        }
        if from > 0 || to > 0 {
            self.end_changed::<false>(group, from, to.max(0));
        }
    }

    /// A key of the SSD changed in a group, if this says so, otherwise one of the hard drives. Zero is none.
    #[inline(always)]
    fn end_changed<const SSD: bool>(&mut self, group: usize, from: i128, to: i128) {
        let words: &mut [u64] = &mut self.words;
        let words = &mut words[group * Self::GROUP_WORDS..][..Self::GROUP_WORDS];
        let at = ENDS + if SSD { 0 } else { 2 };
        let was = key(words[at], words[at + 1]);
        let is = if further::<SSD>(to, was) == to {
            to
        } else if from == was {
            // only those of the side: an extent of the SSD is often the only one in its group
            let of_ssd = self.heads[group * HEAD_WORDS + OF_SSD];
            let mut left = if SSD { of_ssd } else { !of_ssd & ((1 << GROUP) - 1) };
            let mut is = 0;
            while left != 0 {
                let slot = left.trailing_zeros() as usize;
                left &= left - 1;
                let at = ENDS_WORDS + slot * Self::SLOT_WORDS + KEY;
                is = further::<SSD>(is, key(words[at], words[at + 1]));
            }
            is
        } else {
            return;
        };
        if is != was {
            [words[at], words[at + 1]] = key_words(is);
            let row = Row { words: &self.words, first: ENDS, distance: Self::GROUP_WORDS };
            self.levels.rise::<SSD>(row, group, was, is);
        }
    }
}

/// A slot's hash bits.
#[inline(always)]
fn tag_of(head: &[u64], slot: usize) -> u8 {
    (head[slot / 8] >> (slot % 8 * 8)) as u8
}

/// A slot without an extent, this one if it has none.
#[inline]
fn free(head: &[u64], likely: usize) -> Option<usize> {
    if tag_of(head, likely) == 0 {
        return Some(likely);
    }
    (0..2).find_map(|half| {
        let free = agreeing(head[half], 0);
        (free != 0).then(|| half * 8 + free.trailing_zeros() as usize / 8)
    })
}

/// The group where an extent belongs, its tag of eight bits, which is never zero, and the slot in the group
/// where it is if that one was free.
#[inline]
fn home(extent: Extent, groups: usize) -> (usize, u8, usize) {
    let mixed = mixed(extent);
    let (high, low) = (mixed >> 32, mixed & u64::from(u32::MAX));
    let group = ((high * groups as u64) >> 32) as usize;
    (group, 1 + ((low * 255) >> 32) as u8, low as usize % GROUP)
}

#[inline]
fn after(group: usize, groups: usize) -> usize {
    if group + 1 == groups { 0 } else { group + 1 }
}

/// The top bits of those bytes of a word that are this tag. Above one that is it may be others that are
/// not.
#[inline]
fn agreeing(word: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let differs = word ^ (u64::from(tag) * LOW);
    differs.wrapping_sub(LOW) & !differs & (LOW << 7)
}

/// The hottest of the hard drives' is the greatest, the coldest of the SSD's the least.
#[inline]
fn key_of(side: Side, rank: Rank) -> i128 {
    debug_assert!(rank.used >> USED_BITS == 0);
    let key = i128::from(rank.heat) << USED_BITS | i128::from(rank.used);
    match side {
        Side::Hdd => key + 1,
        Side::Ssd => key - SSD,
    }
}

#[inline]
fn rank_of(key: i128) -> (Side, Rank) {
    let (side, key) = if key > 0 { (Side::Hdd, key - 1) } else { (Side::Ssd, key + SSD) };
    let used = key as u64 & ((1 << USED_BITS) - 1);
    (side, Rank { heat: (key >> USED_BITS) as u64, used })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All in one group and with the tag that is one beside that of empty slots, where `agreeing` says too
        /// much and what has gone still stands.
        #[test]
        fn what_was_removed_is_not_found(
            steps in proptest::collection::vec(0usize..24, 1..400),
        ) {
            let extents: Vec<Extent> = (0..).map(Extent).filter(|extent| home(*extent, 1).1 == 1).take(24).collect();
            let mut ranks = Ranks::<0>::new(GROUP_MEAN);
            let mut truth = std::collections::BTreeSet::new();
            for (used, which) in (0u64..).zip(steps) {
                let extent = extents[which];
                match ranks.find_used(extent) {
                    Some(slot) => {
                        prop_assert!(truth.remove(&which));
                        ranks.remove(slot);
                    }
                    None if ranks.is_full() => prop_assert!(!truth.contains(&which)),
                    None => {
                        prop_assert!(truth.insert(which));
                        ranks.insert(extent, Side::Hdd, Rank { heat: 1, used }, []);
                    }
                }
                for (which, extent) in extents.iter().enumerate() {
                    let found = ranks.find(*extent).map(|slot| ranks.extent(slot));
                    prop_assert_eq!(found, truth.contains(&which).then_some(*extent));
                }
            }
        }
    }
}
