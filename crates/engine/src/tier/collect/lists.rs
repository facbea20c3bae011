//! Which extents are in which queue, and in what order? Doubly linked lists in 28 bytes an entry.
//!
//! All queues of a collector share one table of entries and one index, so that a ghost that comes
//! back only changes its queue. Every step takes the same time however many entries there are.

use super::index::Index;
use super::{Extent, Memory};
use tandem_block::Table;

/// Bits of a link; the four above hold the queue, or the mark.
const LINK_BITS: u32 = 28;
const LINK: u32 = (1 << LINK_BITS) - 1;
/// No entry.
const NIL: u32 = LINK;

/// Entries that there may be at most.
pub(crate) const ENTRIES_MAX: u32 = NIL;

/// Words of an entry: the extent's halves, the older one with the mark, the newer one with the queue.
const OLDER: usize = 2;
const NEWER: usize = 3;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// `N` queues, numbered from 0.
#[derive(Clone, Debug)]
pub(crate) struct Lists<const N: usize> {
    entries: Table<[u32; 4]>,
    index: Index,
    ends: [Ends; N],
    /// The first of the entries that were given back; they are linked by their newer ones.
    free: u32,
    /// Entries from here on were never used.
    fresh: u32,
}

impl<const N: usize> Lists<N> {
    /// For so many extents at most.
    ///
    /// # Panics
    /// If that is more than [`ENTRIES_MAX`].
    pub(crate) fn new(entries_max: usize) -> Self {
        const { assert!(N <= 16) }
        assert!(entries_max <= ENTRIES_MAX as usize, "{entries_max} entries are too many");
        Lists {
            entries: Table::new(entries_max),
            index: Index::new(entries_max),
            ends: [Ends { newest: NIL, oldest: NIL, len: 0 }; N],
            free: NIL,
            fresh: 0,
        }
    }

    /// The extent's entry.
    #[inline]
    pub(crate) fn find(&self, extent: Extent) -> Option<Slot> {
        let entries: &[[u32; 4]] = &self.entries;
        let words = [extent.0 as u32, (extent.0 >> 32) as u32];
        let is_in = |slot: u32| {
            let entry = &entries[slot as usize];
            [entry[0], entry[1]] == words
        };
        self.index.find(extent, is_in).map(Slot)
    }

    /// Puts an extent that has no entry at the newest end of a queue. Its mark is 0.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, extent: Extent, queue: usize) -> Slot {
        debug_assert!(self.find(extent).is_none(), "an extent is in one queue, once");
        let slot = if self.free == NIL {
            assert!((self.fresh as usize) < self.entries.len(), "there is room for {extent:?}");
            self.fresh += 1;
            self.fresh - 1
        } else {
            let slot = self.free;
            self.free = self.entries[slot as usize][NEWER] & LINK;
            slot
        };
        self.entries[slot as usize] = [extent.0 as u32, (extent.0 >> 32) as u32, NIL, NIL];
        self.index.insert(extent, slot);
        self.link(slot, queue);
        Slot(slot)
    }

    /// Takes an entry away.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        let extent = self.extent(slot);
        self.unlink(slot.0);
        self.index.remove(extent, slot.0);
        self.entries[slot.0 as usize][NEWER] = self.free;
        self.free = slot.0;
    }

    /// Moves an entry to the newest end of a queue; the mark stays.
    #[inline]
    pub(crate) fn renew(&mut self, slot: Slot, queue: usize) {
        if self.ends[queue].newest != slot.0 {
            self.unlink(slot.0);
            self.link(slot.0, queue);
        }
    }

    /// Removes the oldest of a queue while it has more than so many.
    pub(crate) fn trim(&mut self, queue: usize, len_max: usize) {
        while self.len(queue) > len_max
            && let Some(oldest) = self.oldest(queue)
        {
            self.remove(oldest);
        }
    }

    /// The oldest of a queue.
    #[inline]
    pub(crate) fn oldest(&self, queue: usize) -> Option<Slot> {
        some(self.ends[queue].oldest)
    }

    /// The next newer one in its queue.
    #[inline]
    pub(crate) fn newer(&self, slot: Slot) -> Option<Slot> {
        some(self.entries[slot.0 as usize][NEWER] & LINK)
    }

    /// The extent of an entry.
    #[inline]
    pub(crate) fn extent(&self, slot: Slot) -> Extent {
        let [low, high, ..] = self.entries[slot.0 as usize];
        Extent(u64::from(high) << 32 | u64::from(low))
    }

    /// The queue of an entry.
    #[inline]
    pub(crate) fn queue(&self, slot: Slot) -> usize {
        (self.entries[slot.0 as usize][NEWER] >> LINK_BITS) as usize
    }

    /// Its mark, 0 to 15.
    #[inline]
    pub(crate) fn mark(&self, slot: Slot) -> u32 {
        self.entries[slot.0 as usize][OLDER] >> LINK_BITS
    }

    /// Changes its mark.
    #[inline]
    pub(crate) fn set_mark(&mut self, slot: Slot, mark: u32) {
        debug_assert!(mark < 16);
        let word = &mut self.entries[slot.0 as usize][OLDER];
        *word = *word & LINK | mark << LINK_BITS;
    }

    /// How many are in a queue.
    #[inline]
    pub(crate) fn len(&self, queue: usize) -> usize {
        self.ends[queue].len as usize
    }

    /// What it takes.
    pub(crate) fn memory(&self) -> Memory {
        let bytes = self.entries.memory_bytes() + self.index.memory_bytes();
        Memory { tracked_max: self.entries.len() as u64, bytes: bytes as u64 }
    }

    #[inline]
    fn link(&mut self, slot: u32, queue: usize) {
        let entries: &mut [[u32; 4]] = &mut self.entries;
        let ends = &mut self.ends[queue];
        let newest = ends.newest;
        ends.newest = slot;
        ends.len += 1;
        if newest == NIL {
            ends.oldest = slot;
        } else {
            set_link(&mut entries[newest as usize][NEWER], slot);
        }
        let entry = &mut entries[slot as usize];
        set_link(&mut entry[OLDER], newest);
        entry[NEWER] = NIL | (queue as u32) << LINK_BITS;
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let entries: &mut [[u32; 4]] = &mut self.entries;
        let entry = entries[slot as usize];
        let (older, newer) = (entry[OLDER] & LINK, entry[NEWER] & LINK);
        let ends = &mut self.ends[(entry[NEWER] >> LINK_BITS) as usize];
        debug_assert!(ends.len > 0, "an entry is counted in its queue");
        debug_assert!(
            (ends.len == 1) == (older == NIL && newer == NIL),
            "only the last entry of a queue has no neighbours"
        );
        ends.len -= 1;
        if older == NIL {
            ends.oldest = newer;
        } else {
            set_link(&mut entries[older as usize][NEWER], newer);
        }
        if newer == NIL {
            ends.newest = older;
        } else {
            set_link(&mut entries[newer as usize][OLDER], older);
        }
    }
}

#[inline]
fn set_link(word: &mut u32, link: u32) {
    *word = *word & !LINK | link;
}

#[inline]
fn some(link: u32) -> Option<Slot> {
    (link != NIL).then_some(Slot(link))
}
