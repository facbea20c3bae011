//! Which recorded places has a block left behind, that must live until its new place is durable?

use super::FixedState;
use super::slots::{Logical, Slot};
use crate::format::pointer::{LEAF_BLOCKS, groups_of};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use tandem_block::Table;

/// A multiplicative hash of small integers, the same on every machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A bag of (block, slot).
#[derive(Clone, Debug)]
pub(crate) struct Displaced {
    table: HashTable<(Logical, Slot)>,
    /// How many are of the blocks of each group.
    of_groups: Table<u16>,
}

fn hash(block: Logical) -> u64 {
    FixedState::default().hash_one(block)
}

#[inline]
fn group_of(block: Logical) -> usize {
    (block / LEAF_BLOCKS as u64) as usize
}

impl Displaced {
    /// Nothing yet, of so many blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let groups = groups_of(blocks as u64) as usize;
        Displaced { table: HashTable::new(), of_groups: Table::new(groups) }
    }

    /// Memory that they take, by calculation.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    /// Adds a place that `block` left behind.
    #[inline]
    pub(crate) fn insert(&mut self, block: Logical, slot: Slot) {
        let is_same = |item: &(Logical, Slot)| *item == (block, slot);
        debug_assert!(self.table.find(hash(block), is_same).is_none(), "a place is left once");
        self.table.insert_unique(hash(block), (block, slot), |item| hash(item.0));
        // a block leaves a few places behind at most, so a group some thousands
        self.of_groups[group_of(block)] += 1;
    }

    /// Takes one of the places that `block` left behind.
    #[inline]
    pub(crate) fn take(&mut self, block: Logical) -> Option<Slot> {
        let found = self.table.find_entry(hash(block), |item| item.0 == block).ok()?;
        self.of_groups[group_of(block)] -= 1;
        Some(found.remove().0.1)
    }

    /// Has the block left anything behind?
    #[inline]
    pub(crate) fn contains(&self, block: Logical) -> bool {
        self.table.find(hash(block), |item| item.0 == block).is_some()
    }

    /// What the blocks of a group have left behind, by block.
    pub(crate) fn of_group(&self, group: u64) -> Vec<(Logical, Slot)> {
        let wanted = usize::from(self.of_groups[group as usize]);
        let mut found = Vec::with_capacity(wanted);
        let first = group * LEAF_BLOCKS as u64;
        for block in first..first + LEAF_BLOCKS as u64 {
            if found.len() == wanted {
                break;
            }
            let places = self.table.iter_hash(hash(block));
            found.extend(places.filter(|item| item.0 == block));
        }
        assert_eq!(found.len(), wanted, "what a group has left behind is counted");
        found
    }

    /// All of them, in no order that counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Logical, Slot)> + '_ {
        self.table.iter().copied()
    }

    /// How many places.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_has_left_behind_is_found_by_block() {
        let mut displaced = Displaced::new(3 * LEAF_BLOCKS);
        for (block, slot) in [(1030, 7), (5, 1), (1024, 2), (1030, 9), (2047, 3)] {
            displaced.insert(block, slot);
        }
        let mut found = displaced.of_group(1);
        assert!(found.is_sorted_by_key(|item| item.0));
        found.sort_unstable();
        assert_eq!(found, [(1024, 2), (1030, 7), (1030, 9), (2047, 3)]);
        assert_eq!((displaced.of_group(0), displaced.of_group(2)), (vec![(5, 1)], Vec::new()));
        assert!(displaced.take(5).is_some() && displaced.take(5).is_none());
        assert_eq!(displaced.of_group(0), []);
    }
}
