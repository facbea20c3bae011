//! In which slot does this logical block lie?
//!
//! Source: design decision 7 and the memory bound of the map (12 bytes per 4 KiB of SSD). A table
//! of slot numbers alone, five bytes an entry: the key is the owner in the slot itself, and the
//! bits of a number that no slot needs hold a tag of the key, so that a search rarely looks at a
//! foreign slot. One bucket is one cache line; a full bucket overflows into the next.
//!
//! A search for a block that is not in the table would run through it all, so callers first ask the
//! state bits of the block (`LogicalBits`), which say whether it has a slot. In return an entry is
//! removed by emptying it: no tombstones, no rebalancing.

use super::slots::{Logical, NONE, Slot, Slots};

const BUCKET_ENTRIES: usize = 16;
/// Entries kept free, in percent: fuller tables overflow into long chains (measured: 1.3 buckets
/// a search at 80 % full, 2.4 at 92 %).
const FULL_PERCENT: usize = 80;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket([u32; BUCKET_ENTRIES]);

/// The table.
#[derive(Clone, Debug)]
pub struct Index {
    buckets: Vec<Bucket>,
    slot_bits: u32,
    entries: usize,
}

impl Index {
    /// A table for all of `slot_count` slots.
    pub fn new(slot_count: usize) -> Self {
        let wanted = (slot_count * 100 / FULL_PERCENT).max(BUCKET_ENTRIES * 2);
        let buckets = wanted.div_ceil(BUCKET_ENTRIES);
        // one value more than there are slots, so that NONE is never a valid entry
        let slot_bits = usize::BITS - (slot_count + 1).leading_zeros();
        Index { buckets: vec![Bucket([NONE; BUCKET_ENTRIES]); buckets], slot_bits, entries: 0 }
    }

    /// How many entries it holds.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    #[inline]
    fn place(&self, key: Logical) -> (usize, u32) {
        let hash = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bucket = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        let tag = if self.slot_bits >= 32 { 0 } else { (hash as u32) << self.slot_bits };
        (bucket as usize, tag)
    }

    #[inline]
    fn slot_of(&self, entry: u32) -> Slot {
        if self.slot_bits >= 32 { entry } else { entry & ((1 << self.slot_bits) - 1) }
    }

    /// Position of the entry of `key` for which `wanted` says yes.
    #[inline]
    fn find(&self, key: Logical, slots: &Slots, log: bool) -> Option<(usize, usize)> {
        let (home, tag) = self.place(key);
        let mut bucket = home;
        for _ in 0..self.buckets.len() {
            for (position, &entry) in self.buckets[bucket].0.iter().enumerate() {
                let slot = self.slot_of(entry);
                if entry ^ slot == tag
                    && entry != NONE
                    && slots.is_log(slot) == log
                    && slots.owner(slot) == key
                {
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
    pub fn get(&self, key: Logical, slots: &Slots, log: bool) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        self.slot_of(self.buckets[bucket].0[position])
    }

    /// Adds an entry; the slot's owner must be set already.
    pub fn insert(&mut self, key: Logical, slot: Slot) {
        let (home, tag) = self.place(key);
        let mut bucket = home;
        for _ in 0..self.buckets.len() {
            for entry in &mut self.buckets[bucket].0 {
                if *entry == NONE {
                    *entry = tag | slot;
                    self.entries += 1;
                    return;
                }
            }
            bucket += 1;
            if bucket == self.buckets.len() {
                bucket = 0;
            }
        }
        unreachable!("the table has room for every slot");
    }

    /// Moves the block from its present slot of that kind to `slot`, and returns the old one.
    #[inline]
    pub fn replace(&mut self, key: Logical, slots: &Slots, log: bool, slot: Slot) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        let tag = self.place(key).1;
        let old = self.slot_of(self.buckets[bucket].0[position]);
        self.buckets[bucket].0[position] = tag | slot;
        old
    }

    /// Removes the block's entry of that kind and returns the slot.
    pub fn remove(&mut self, key: Logical, slots: &Slots, log: bool) -> Slot {
        let (bucket, position) =
            self.find(key, slots, log).expect("the state bits say that this block has a slot");
        let old = self.slot_of(self.buckets[bucket].0[position]);
        self.buckets[bucket].0[position] = NONE;
        self.entries -= 1;
        old
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}
