//! Where do tables of millions of entries live?
//!
//! In anonymous maps of their own with huge pages advised: a random access to a table of many MiB on
//! pages of 4 KiB misses the TLB nearly always, and the walk through the kernel's page tables costs
//! as much as the miss in the cache does (measured: 307 ns, with huge pages 200 ns, in 512 MiB). Small
//! tables lie on the heap, where making and cloning them costs less.
//!
//! Memory begins as zeroes and costs nothing until it is touched, a huge page at a time (2 MiB). Nothing is reserved
//! for it: a table may be larger than memory, and most of it is never touched. A
//! system that has no huge pages, or gives none, gives small ones: only the speed differs.

use memmap2::{Advice, MmapMut, MmapOptions};
use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// From this many bytes on a table is mapped: two huge pages.
const MAPPED_BYTES_MIN: usize = 4 << 20;

/// Asks for an entry that will be read or written soon, and waits for nothing: by the time that it is used
/// the processor may have it. An entry that does not exist is no mistake.
#[inline]
pub fn prefetch<T>(entries: &[T], index: usize) {
    prefetch_index::prefetch_index(entries, index);
}

/// What a table may hold: plain integers, or arrays of them.
pub trait TableEntry: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> TableEntry for T {}

/// A table of fixed length that begins as zeroes; used like a slice.
pub struct Table<T>(Memory<T>);

enum Memory<T> {
    Heap(Box<[T]>),
    /// Its length is a multiple of the entry's, its beginning that of a page.
    Mapped(MmapMut),
}

impl<T: TableEntry> Table<T> {
    /// `length` entries, all zero.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self::mapped_from(length, MAPPED_BYTES_MIN)
    }

    /// A table that is mapped if it has at least so many bytes.
    fn mapped_from(length: usize, mapped_bytes_min: usize) -> Self {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096) }
        let bytes = length.saturating_mul(size_of::<T>());
        if bytes >= mapped_bytes_min.max(1)
            && let Ok(map) = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()
        {
            #[cfg(target_os = "linux")]
            let _refused_is_only_slower = map.advise(Advice::HugePage);
            return Table(Memory::Mapped(map));
        }
        Table(Memory::Heap(vec![T::new_zeroed(); length].into_boxed_slice()))
    }

    /// Asks for an entry that will be read or written soon, as `prefetch` does.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        prefetch(self, index);
    }

    /// The same for many entries.
    #[inline]
    pub fn prefetch_each(&self, indices: impl Iterator<Item = usize>) {
        let entries = &**self;
        indices.for_each(|index| prefetch(entries, index));
    }

    /// Bytes that it takes once every entry was touched.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of_val::<[T]>(self)
    }
}

impl<T: TableEntry> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(entries) => entries,
            Memory::Mapped(map) => <[T]>::ref_from_bytes(map).expect("whole entries on a page"),
        }
    }
}

impl<T: TableEntry> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(entries) => entries,
            Memory::Mapped(map) => <[T]>::mut_from_bytes(map).expect("whole entries on a page"),
        }
    }
}

impl<T: TableEntry> Clone for Table<T> {
    fn clone(&self) -> Self {
        match &self.0 {
            Memory::Heap(entries) => Table(Memory::Heap(entries.clone())),
            Memory::Mapped(_) => {
                let mut copy = Self::mapped_from(self.len(), 1);
                copy.copy_from_slice(self);
                copy
            }
        }
    }
}

impl<T: TableEntry> Default for Table<T> {
    /// A table without entries.
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T: TableEntry> Debug for Table<T> {
    /// Its length alone: nobody reads millions of numbers.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} entries)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(mut table: Table<u32>) -> Table<u32> {
        for (index, entry) in table.iter_mut().enumerate() {
            assert_eq!(*entry, 0);
            *entry = index as u32 * 3;
        }
        table
    }

    #[test]
    fn both_kinds_of_memory_hold_what_was_written() {
        for (mapped_from, is_mapped) in [(1, true), (usize::MAX, false)] {
            let length = 5003;
            let table = fill(Table::mapped_from(length, mapped_from));
            assert_eq!(matches!(table.0, Memory::Mapped(_)), is_mapped);
            assert_eq!((table.len(), table.memory_bytes()), (length, length * 4));
            let mut copy = table.clone();
            copy[7] = 1;
            assert_eq!((table[7], copy[7]), (21, 1), "a clone has memory of its own");
            assert_eq!(table[8..], copy[8..]);
        }
    }

    #[test]
    fn a_large_table_is_mapped_and_a_small_or_empty_one_is_not() {
        let large = Table::<[u32; 16]>::new(MAPPED_BYTES_MIN / 64);
        assert!(matches!(large.0, Memory::Mapped(_)));
        assert_eq!(large.as_ptr() as usize % 64, 0, "an entry of a cache line lies in one");
        assert!(matches!(Table::<u64>::new(1000).0, Memory::Heap(_)));
        assert!(Table::<u8>::default().is_empty());
    }
}
