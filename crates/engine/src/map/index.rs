//! In which slot does this logical block lie?
//!
//! Source: design decision 7 and the memory bound of the map (12 bytes per 4 KiB of SSD). A table
//! of slot numbers alone, five bytes an entry: the key is the owner in the slot itself, and the
//! bits of a number that no slot needs hold a tag of the key, so that a search rarely looks at a
//! foreign slot. One bucket is one cache line; a full bucket overflows into the next.
//!
//! A search for a block that is not in the table would run through it all, so callers first ask the
//! state bits of the block (`LogicalBits`), which say whether it has a slot. In return an entry is
//! removed by emptying it (no tombstones, no rebalancing), and the only entry with the right tag in a
//! bucket that never overflowed is the one that is looked for: its owner need not be asked.

use super::bits::Bits;
use super::slots::{Logical, Slot, Slots, number_to_disk};

use tandem_block::Table;

const BUCKET_ENTRIES: usize = 16;
/// Entries kept free, in percent: fuller tables overflow into long chains (measured: 1.3 buckets
/// a search at 80 % full, 2.4 at 92 %).
const FULL_PERCENT: usize = 82;

/// An entry that is free: memory begins as zeroes, and a bucket that was never used takes none.
const FREE: u32 = 0;

/// Entries are the complement of tag and slot, which are never all ones.
/// A cache line of a table that is large enough to be mapped.
type Bucket = [u32; BUCKET_ENTRIES];

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    buckets: Table<Bucket>,
    /// Buckets that some entry has found full.
    overflowed: Bits,
    slot_bits: u32,
    entries: usize,
}

impl Index {
    /// A table for at most `entries_max` entries that name some of `slot_count` slots.
    pub(crate) fn new(slot_count: usize, entries_max: usize) -> Self {
        let wanted = (entries_max * 100 / FULL_PERCENT).max(BUCKET_ENTRIES * 2);
        let buckets = wanted.div_ceil(BUCKET_ENTRIES);
        // one value more than there are slots, so that NONE is never a valid entry
        let slot_bits = usize::BITS - (slot_count + 1).leading_zeros();
        let buckets = Table::new(buckets);
        Index { overflowed: Bits::new(buckets.len()), buckets, slot_bits, entries: 0 }
    }

    /// Is it empty?
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    #[inline]
    fn place(&self, key: Logical) -> (usize, u32) {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bucket = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        let tag = if self.slot_bits >= 32 { 0 } else { (hash as u32) << self.slot_bits };
        (bucket as usize, tag)
    }

    /// The bits of an entry that hold the tag.
    #[inline]
    fn tag_mask(&self) -> u32 {
        if self.slot_bits >= 32 { 0 } else { u32::MAX << self.slot_bits }
    }

    #[inline]
    fn slot_of(&self, entry: u32) -> Slot {
        let slot = if self.slot_bits >= 32 { !entry } else { !entry & ((1 << self.slot_bits) - 1) };
        u64::from(slot)
    }

    /// Position of the entry of `key` for which `wanted` says yes.
    #[inline]
    fn find(&self, key: Logical, slots: &Slots, log: bool) -> Option<(usize, usize)> {
        let (home, tag) = self.place(key);
        let tag_mask = self.tag_mask();
        let mut only = None;
        let mut candidates = 0;
        for (position, &entry) in self.buckets[home].iter().enumerate() {
            if !(entry ^ tag) & tag_mask == 0
                && entry != FREE
                && slots.is_log(self.slot_of(entry)) == log
            {
                only = Some((home, position));
                candidates += 1;
            }
        }
        if candidates == 1 && !self.overflowed.get(home) {
            debug_assert!(only.is_some_and(|(_, position)| {
                slots.owner(self.slot_of(self.buckets[home][position])) == key
            }));
            return only;
        }
        self.search(key, (home, tag), slots, log)
    }

    /// As `find`, but asks every candidate for its owner, and goes on in the next buckets.
    fn search(
        &self,
        key: Logical,
        (home, tag): (usize, u32),
        slots: &Slots,
        log: bool,
    ) -> Option<(usize, usize)> {
        let tag_mask = self.tag_mask();
        let mut bucket = home;
        for _ in 0..self.buckets.len() {
            for (position, &entry) in self.buckets[bucket].iter().enumerate() {
                if !(entry ^ tag) & tag_mask != 0 || entry == FREE {
                    continue;
                }
                let slot = self.slot_of(entry);
                if slots.is_log(slot) == log && slots.owner(slot) == key {
                    return Some((bucket, position));
                }
            }
            bucket += 1;
            if bucket == self.buckets.len() {
                bucket = 0;
            }
        }
        None
    }

    /// The block's slot on an SSD (`log` false) or in a log. Only for blocks that have one.
    ///
    /// # Panics
    /// If the block has none: the state bits and the table contradict each other.
    #[inline]
    pub(crate) fn get(&self, key: Logical, slots: &Slots, log: bool) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        self.slot_of(self.buckets[bucket][position])
    }

    /// Adds an entry; the slot's owner must be set already.
    pub(crate) fn insert(&mut self, key: Logical, slot: Slot) {
        let (home, tag) = self.place(key);
        let slot = number_to_disk(slot);
        debug_assert!(slot & self.tag_mask() == 0, "a slot number leaves the tag its bits");
        let mut bucket = home;
        for _ in 0..self.buckets.len() {
            for entry in &mut self.buckets[bucket] {
                if *entry == FREE {
                    *entry = !(tag | slot);
                    self.entries += 1;
                    return;
                }
            }
            self.overflowed.set(bucket, true);
            bucket += 1;
            if bucket == self.buckets.len() {
                bucket = 0;
            }
        }
        unreachable!("the table has room for every slot");
    }

    /// Moves the block from its present slot of that kind to `slot`, and returns the old one.
    #[inline]
    pub(crate) fn replace(&mut self, key: Logical, slots: &Slots, log: bool, slot: Slot) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        let tag = self.place(key).1;
        let old = self.slot_of(self.buckets[bucket][position]);
        self.buckets[bucket][position] = !(tag | number_to_disk(slot));
        old
    }

    /// Removes the block's entry of that kind and returns the slot.
    pub(crate) fn remove(&mut self, key: Logical, slots: &Slots, log: bool) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        let old = self.slot_of(self.buckets[bucket][position]);
        self.buckets[bucket][position] = FREE;
        assert!(self.entries > 0, "an entry that is removed was counted");
        self.entries -= 1;
        old
    }

    /// Asks memory for what a search for this block will read first.
    #[inline]
    pub(crate) fn prefetch(&self, key: Logical) {
        self.buckets.prefetch(self.place(key).0);
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes() + self.overflowed.memory_bytes()
    }
}
