//! In which slot is this extent? A hash table of slots in 12 bytes an entry, without chance.
//!
//! Linear probing over pairs of (hash, slot), two thirds full at most; the extents themselves lie in
//! the slots, and one is looked at only where all 32 bits of the hash agree. Entries move back when
//! one before them goes, so there are no tombstones and nothing is ever rebuilt.

use super::Extent;
use tandem_block::Table;

/// Buckets for every two entries.
const BUCKETS_PER_TWO: usize = 3;

/// Where each tracked extent is.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// Hash, and slot plus one; zeroes where nothing is.
    buckets: Table<[u32; 2]>,
}

impl Index {
    /// For at most so many entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Index { buckets: Table::new(entries_max * BUCKETS_PER_TWO / 2 + 8) }
    }

    /// The slot of this extent; `is_in` says whether it is the one in a slot.
    #[inline]
    pub(crate) fn find(&self, extent: Extent, is_in: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = hash(extent);
        let buckets: &[[u32; 2]] = &self.buckets;
        let mut at = home(hash, buckets.len());
        loop {
            let [found, slot] = buckets[at];
            let slot = slot.checked_sub(1)?;
            if found == hash && is_in(slot) {
                return Some(slot);
            }
            at = after(at, buckets.len());
        }
    }

    /// Notes where an extent is that was nowhere.
    #[inline]
    pub(crate) fn insert(&mut self, extent: Extent, slot: u32) {
        let hash = hash(extent);
        let buckets: &mut [[u32; 2]] = &mut self.buckets;
        let mut at = home(hash, buckets.len());
        while buckets[at][1] != 0 {
            at = after(at, buckets.len());
        }
        buckets[at] = [hash, slot + 1];
    }

    /// Forgets an extent that is in this slot.
    ///
    /// # Panics
    /// If it is not in the index.
    #[inline]
    pub(crate) fn remove(&mut self, extent: Extent, slot: u32) {
        let buckets: &mut [[u32; 2]] = &mut self.buckets;
        let count = buckets.len();
        let mut hole = home(hash(extent), count);
        while buckets[hole][1] != slot + 1 {
            assert!(buckets[hole][1] != 0, "{extent:?} is in the index");
            hole = after(hole, count);
        }
        let mut at = hole;
        loop {
            at = after(at, count);
            let [hash, slot] = buckets[at];
            if slot == 0 {
                break;
            }
            // it may move back as far as its home
            if steps(home(hash, count), at, count) >= steps(hole, at, count) {
                buckets[hole] = buckets[at];
                hole = at;
            }
        }
        buckets[hole] = [0, 0];
    }

    /// Bytes that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }
}

/// A half of it.
#[inline]
fn hash(extent: Extent) -> u32 {
    (mixed(extent) >> 32) as u32
}

/// Every bit of it depends on every bit of the extent: splitmix64.
#[inline]
pub(crate) fn mixed(extent: Extent) -> u64 {
    let mut mixed = extent.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The bucket where probing begins.
#[inline]
fn home(hash: u32, count: usize) -> usize {
    ((u64::from(hash) * count as u64) >> 32) as usize
}

#[inline]
fn after(at: usize, count: usize) -> usize {
    if at + 1 == count { 0 } else { at + 1 }
}

/// Steps forward from one bucket to another.
#[inline]
fn steps(from: usize, to: usize, count: usize) -> usize {
    if to >= from { to - from } else { to + count - from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few buckets, so that runs of entries wrap around and overlap.
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0u64..40, any::<bool>()), 1..400)) {
            const ENTRIES: usize = 24;
            let mut index = Index::new(ENTRIES);
            let mut slots = [None; ENTRIES];
            let mut truth = BTreeMap::new();
            for (extent, goes) in steps {
                let extent = Extent(extent);
                let found = index.find(extent, |slot| slots[slot as usize] == Some(extent));
                prop_assert_eq!(found, truth.get(&extent).copied());
                if let Some(slot) = found.filter(|_| goes) {
                    index.remove(extent, slot);
                    slots[slot as usize] = None;
                    truth.remove(&extent);
                } else if found.is_none() && truth.len() < ENTRIES {
                    let slot = slots.iter().position(Option::is_none).expect("room") as u32;
                    index.insert(extent, slot);
                    slots[slot as usize] = Some(extent);
                    truth.insert(extent, slot);
                }
            }
            for (extent, slot) in truth {
                let found = index.find(extent, |slot| slots[slot as usize] == Some(extent));
                prop_assert_eq!(found, Some(slot));
            }
        }
    }
}
