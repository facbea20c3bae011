//! Which recorded places has a block left behind, that must live until its new place is durable?

use super::FixedState;
use super::slots::{Logical, Slot};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Displaced {
    table: HashTable<(Logical, Slot)>,
}

fn hash(block: Logical) -> u64 {
    FixedState::default().hash_one(block)
}

impl Displaced {
    /// Adds a place that `block` left behind.
    #[inline]
    pub(crate) fn insert(&mut self, block: Logical, slot: Slot) {
        let is_same = |item: &(Logical, Slot)| *item == (block, slot);
        debug_assert!(self.table.find(hash(block), is_same).is_none(), "a place is left once");
        self.table.insert_unique(hash(block), (block, slot), |item| hash(item.0));
    }

    /// Takes one of the places that `block` left behind.
    #[inline]
    pub(crate) fn take(&mut self, block: Logical) -> Option<Slot> {
        let found = self.table.find_entry(hash(block), |item| item.0 == block).ok()?;
        Some(found.remove().0.1)
    }

    /// Has the block left anything behind?
    #[inline]
    pub(crate) fn contains(&self, block: Logical) -> bool {
        self.table.find(hash(block), |item| item.0 == block).is_some()
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
