//! Which extent was used least often, and of these not for the longest time? In the same time however many.
//!
//! Source: Shah, Mitra and Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme"
//! (2010). Extents with as many uses are in a queue, these queues in a list, in order. An extent that
//! is used goes to the next one's newest end; if it was the only one, and nobody has as many as it has
//! now, its queue goes with it. So a use changes neighbours alone.
//!
//! That holds because a use adds one: where heat ages, an extent may pass any number of queues at
//! once, and `by_heat` is the way. In 52 bytes an extent, of which most uses touch two lines.

use super::index::Index;
use super::{Collector, Extent, Memory, Touch};
use tandem_block::Table;

/// Neither an entry nor a queue.
const NIL: u32 = u32::MAX;

/// Words of an entry: the extent's halves, its neighbours in its queue, and the queue; of one that has no
/// extent, `NEWER` is the next such one, and `QUEUE` is `NIL`.
const OLDER: usize = 2;
const NEWER: usize = 3;
const QUEUE: usize = 4;

/// Words of a queue: how often each in it was used, the queues beside it, and its ends; of one that is
/// not there, `HOTTER` is the next such one.
const USES: usize = 0;
const COLDER: usize = 1;
const HOTTER: usize = 2;
const OLDEST: usize = 3;
const NEWEST: usize = 4;

/// What the SSD holds, by uses.
#[derive(Clone, Debug)]
pub(crate) struct ByUses {
    index: Index,
    entries: Places,
    queues: Places,
    coldest: u32,
}

impl ByUses {
    /// For so many extents at most.
    pub(crate) fn new(entries_max: u32) -> Self {
        let entries_max = entries_max as usize;
        ByUses {
            index: Index::new(entries_max),
            entries: Places::new(entries_max),
            // each extent may have been used as often as no other one
            queues: Places::new(entries_max),
            coldest: NIL,
        }
    }

    #[inline]
    fn find(&self, extent: Extent) -> Option<u32> {
        self.index.find(extent, |slot| self.is_in(slot, extent))
    }

    #[inline]
    fn is_in(&self, slot: u32, extent: Extent) -> bool {
        let [low, high, ..] = self.entries.words[slot as usize];
        [low, high] == halves(extent)
    }

    /// The coldest of all.
    #[inline]
    fn first(&self) -> Option<u32> {
        (self.coldest != NIL).then(|| self.queues.words[self.coldest as usize][OLDEST])
    }

    /// It was used once more.
    #[inline]
    fn used(&mut self, slot: u32) {
        let queue = self.entries.words[slot as usize][QUEUE];
        let [uses, _, hotter, oldest, newest] = self.queues.words[queue as usize];
        // a counter that stops; recency goes on
        let more = uses.saturating_add(1);
        let next = if more == uses {
            queue
        } else if hotter != NIL && self.queues.words[hotter as usize][USES] == more {
            hotter
        } else if oldest == newest {
            self.queues.words[queue as usize][USES] = more;
            return;
        } else {
            self.queue_behind(queue, more)
        };
        if (next, newest) != (queue, slot) {
            self.unlink(slot);
            self.link(slot, next);
        }
    }

    fn insert(&mut self, extent: Extent) {
        let never_used = self.coldest != NIL && self.queues.words[self.coldest as usize][USES] == 0;
        let queue = if never_used { self.coldest } else { self.queue_behind(NIL, 0) };
        let slot = self.entries.take(NEWER);
        let [low, high] = halves(extent);
        self.entries.words[slot as usize] = [low, high, NIL, NIL, NIL];
        self.index.insert(extent, slot);
        self.link(slot, queue);
    }

    fn remove(&mut self, extent: Extent) {
        // what goes was mostly just named
        let named = self.first().filter(|&slot| self.is_in(slot, extent));
        let Some(slot) = named.or_else(|| self.find(extent)) else { return };
        self.unlink(slot);
        self.index.remove(extent, slot);
        self.entries.give_back(slot, NEWER);
    }

    /// A new queue behind this one, or, behind none, before all others.
    fn queue_behind(&mut self, colder: u32, uses: u32) -> u32 {
        debug_assert!(
            colder == NIL || self.queues.words[colder as usize][USES] < uses,
            "queues are in the order of their uses"
        );
        let queue = self.queues.take(HOTTER);
        let hotter = match colder {
            NIL => std::mem::replace(&mut self.coldest, queue),
            _ => std::mem::replace(&mut self.queues.words[colder as usize][HOTTER], queue),
        };
        if hotter != NIL {
            self.queues.words[hotter as usize][COLDER] = queue;
        }
        self.queues.words[queue as usize] = [uses, colder, hotter, NIL, NIL];
        queue
    }

    #[inline]
    fn link(&mut self, slot: u32, queue: u32) {
        let ends = &mut self.queues.words[queue as usize];
        let newest = std::mem::replace(&mut ends[NEWEST], slot);
        if newest == NIL {
            ends[OLDEST] = slot;
        } else {
            self.entries.words[newest as usize][NEWER] = slot;
        }
        let entry = &mut self.entries.words[slot as usize];
        (entry[OLDER], entry[NEWER], entry[QUEUE]) = (newest, NIL, queue);
    }

    /// Takes an entry out of its queue, and the queue away if it was the last.
    #[inline]
    fn unlink(&mut self, slot: u32) {
        let [_, _, older, newer, queue] = self.entries.words[slot as usize];
        let ends = &mut self.queues.words[queue as usize];
        if older == newer {
            // both are none
            let [_, colder, hotter, ..] = *ends;
            match colder {
                NIL => self.coldest = hotter,
                _ => self.queues.words[colder as usize][HOTTER] = hotter,
            }
            if hotter != NIL {
                self.queues.words[hotter as usize][COLDER] = colder;
            }
            self.queues.give_back(queue, HOTTER);
            return;
        }
        match older {
            NIL => ends[OLDEST] = newer,
            _ => self.entries.words[older as usize][NEWER] = newer,
        }
        match newer {
            NIL => ends[NEWEST] = older,
            _ => self.entries.words[newer as usize][OLDER] = older,
        }
    }
}

impl Collector for ByUses {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.find(touch.extent) else { return false };
        self.used(slot);
        true
    }

    fn promoted(&mut self, extent: Extent) {
        if self.find(extent).is_none() {
            self.insert(extent);
        }
    }

    fn demoted(&mut self, extent: Extent) {
        self.remove(extent);
    }

    fn removed(&mut self, extent: Extent) {
        self.remove(extent);
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.find(extent).is_some()
    }

    fn victim(&mut self, _: Option<Extent>) -> Option<Extent> {
        let [low, high, ..] = self.entries.words[self.first()? as usize];
        Some(Extent(u64::from(high) << 32 | u64::from(low)))
    }

    fn memory(&self) -> Memory {
        let tables = self.entries.words.memory_bytes() + self.queues.words.memory_bytes();
        let bytes = tables + self.index.memory_bytes();
        Memory { tracked_max: self.entries.words.len() as u64, bytes: bytes as u64 }
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}

#[inline]
fn halves(extent: Extent) -> [u32; 2] {
    [extent.0 as u32, (extent.0 >> 32) as u32]
}

/// A table whose places are taken and given back.
#[derive(Clone, Debug)]
struct Places {
    words: Table<[u32; 5]>,
    /// The first of those that were given back.
    free: u32,
    /// From here on none was ever taken.
    fresh: u32,
}

impl Places {
    fn new(places_max: usize) -> Self {
        assert!(places_max < NIL as usize, "{places_max} entries are too many");
        Places { words: Table::new(places_max), free: NIL, fresh: 0 }
    }

    /// A place; those that were given back are linked by this word.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    fn take(&mut self, link: usize) -> u32 {
        if self.free == NIL {
            assert!((self.fresh as usize) < self.words.len(), "there is room");
            self.fresh += 1;
            return self.fresh - 1;
        }
        let next = self.words[self.free as usize][link];
        std::mem::replace(&mut self.free, next)
    }

    #[inline]
    fn give_back(&mut self, place: u32, link: usize) {
        self.words[place as usize][link] = self.free;
        self.free = place;
    }
}
