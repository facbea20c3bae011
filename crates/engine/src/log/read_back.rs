//! Which of the logs' recent writes are in RAM still, to be read from there?
//!
//! Source: requirements S17 and B5: the papers do not look at reads of redirected data, each of which
//!         costs a hard drive a positioning and disturbs its stream; design decision 8: tails stay in
//!         RAM until their drive is flushed.
//!
//! Kept by log slot, never by block. The map names the slot that has a block's newest version, and a
//! slot is written once until it is appended anew, when what was kept of it is dropped. So nothing that
//! is found here is older than what the drive would answer, whatever has overwritten, discarded or
//! moved the block.

use crate::map::{Run, Slot};
use std::collections::{BTreeMap, VecDeque};
use tandem_block::{BLOCK_BYTES, PayloadId};

/// A single write larger than this share of the cache does not enter it: it would turn out all else.
const SHARE_MAX: u64 = 4;

/// Who keeps bytes in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// They are in the tail of a hard drive that was not flushed since.
    Tail,
    /// Only the cache.
    Cache,
}

/// Bytes in RAM of a slot and of those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Their buffer.
    pub(crate) payload: PayloadId,
    /// Where in it the slot's block begins.
    pub(crate) offset_bytes: u64,
    /// Slots from this one on.
    pub(crate) count: u64,
    /// Why they are there.
    pub(crate) keeper: Keeper,
}

/// A run of slots whose bytes are in RAM. It holds one reference to its buffer.
#[derive(Clone, Copy, Debug)]
struct Held {
    count: u64,
    payload: PayloadId,
    offset_bytes: u64,
    in_tail: bool,
    /// Its number in the order of the cache, if that keeps it.
    cached: Option<u64>,
    was_read: bool,
}

/// Log writes in RAM.
#[derive(Clone, Debug)]
pub(crate) struct ReadBack {
    /// By first slot; none overlaps another.
    held: BTreeMap<Slot, Held>,
    /// What the cache keeps, oldest first, by slot and number; also what it has dropped meanwhile.
    order: VecDeque<(Slot, u64)>,
    numbered: u64,
    cached_bytes: u64,
    cached_bytes_max: u64,
    /// Buffers that nobody here needs any more.
    dropped: Vec<PayloadId>,
}

impl ReadBack {
    /// Keeps at most so many bytes beside what tails hold.
    pub(crate) fn new(cached_bytes_max: u64) -> Self {
        ReadBack {
            held: BTreeMap::new(),
            order: VecDeque::new(),
            numbered: 0,
            cached_bytes: 0,
            cached_bytes_max,
            dropped: Vec::new(),
        }
    }

    /// Is nothing in RAM?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes that the cache keeps, and how many it may.
    pub(crate) fn cached_bytes(&self) -> (u64, u64) {
        (self.cached_bytes, self.cached_bytes_max)
    }

    /// The drive has acknowledged these slots. False: they are not kept, and no reference is held.
    pub(crate) fn add(
        &mut self,
        run: Run,
        payload: PayloadId,
        offset_bytes: u64,
        in_tail: bool,
    ) -> bool {
        assert!(run.count > 0, "what is kept has a slot");
        self.forget(run);
        let bytes = run.count * BLOCK_BYTES;
        let is_cached = bytes <= self.cached_bytes_max / SHARE_MAX;
        if !is_cached && !in_tail {
            return false;
        }
        let cached = is_cached.then(|| {
            self.cached_bytes += bytes;
            self.number(run.slot)
        });
        let held =
            Held { count: run.count, payload, offset_bytes, in_tail, cached, was_read: false };
        self.held.insert(run.slot, held);
        true
    }

    fn number(&mut self, slot: Slot) -> u64 {
        // runs that were forgotten leave their place in the order behind
        if self.order.len() > 2 * self.held.len() + 64 {
            let held = &self.held;
            self.order.retain(|(slot, number)| is_kept(held, *slot, *number));
        }
        self.numbered += 1;
        self.order.push_back((slot, self.numbered));
        self.numbered
    }

    /// Drops what is too much, oldest first; but what was read since it came, and `lives` still, stays
    /// for another round.
    pub(crate) fn shrink(&mut self, lives: impl Fn(Run) -> bool) {
        while self.cached_bytes > self.cached_bytes_max {
            let (slot, number) = self.order.pop_front().expect("what is kept is in the order");
            if !is_kept(&self.held, slot, number) {
                continue;
            }
            let held = self.held.get_mut(&slot).expect("asked above");
            if std::mem::take(&mut held.was_read) && lives(Run { slot, count: held.count }) {
                self.order.push_back((slot, number));
                continue;
            }
            held.cached = None;
            let bytes = held.count * BLOCK_BYTES;
            assert!(self.cached_bytes >= bytes, "what the cache keeps is counted");
            self.cached_bytes -= bytes;
            if !held.in_tail {
                let held = self.held.remove(&slot).expect("asked above");
                self.dropped.push(held.payload);
            }
        }
    }

    /// The drive was flushed: what began at this slot is no tail any more.
    pub(crate) fn left_tail(&mut self, slot: Slot, payload: PayloadId) {
        let Some(held) = self.held.get_mut(&slot).filter(|held| held.payload == payload) else {
            return;
        };
        held.in_tail = false;
        if held.cached.is_none() {
            self.held.remove(&slot);
            self.dropped.push(payload);
        }
    }

    /// These slots are appended anew: what they held is gone.
    pub(crate) fn forget(&mut self, run: Run) {
        if self.held.is_empty() {
            return;
        }
        let before = self.held.range(..run.slot).next_back();
        let before = before.filter(|(first, held)| **first + held.count > run.slot);
        let mut next = before.map(|(first, _)| *first);
        loop {
            let within = || self.held.range(run.slot..run.slot + run.count).next();
            let Some(first) = next.take().or_else(|| within().map(|(first, _)| *first)) else {
                return;
            };
            let held = self.held.remove(&first).expect("found above");
            assert!(
                held.in_tail || held.cached.is_some(),
                "what is in RAM has somebody to keep it"
            );
            if held.cached.is_some() {
                let bytes = held.count * BLOCK_BYTES;
                assert!(self.cached_bytes >= bytes, "what the cache keeps is counted");
                self.cached_bytes -= bytes;
            }
            self.dropped.push(held.payload);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.dropped.extend(held.into_values().map(|held| held.payload));
        self.order.clear();
        self.cached_bytes = 0;
    }

    /// A buffer to which a reference was held that is not needed any more.
    pub(crate) fn take_dropped(&mut self) -> Option<PayloadId> {
        self.dropped.pop()
    }

    /// Where in RAM the bytes of this slot are.
    pub(crate) fn find(&mut self, slot: Slot) -> Option<Found> {
        let (first, held) = self.held.range_mut(..=slot).next_back()?;
        let skipped = slot - first;
        if skipped >= held.count {
            return None;
        }
        held.was_read = true;
        Some(Found {
            payload: held.payload,
            offset_bytes: held.offset_bytes + skipped * BLOCK_BYTES,
            count: held.count - skipped,
            keeper: if held.in_tail { Keeper::Tail } else { Keeper::Cache },
        })
    }

    /// The slots that are in RAM, for a mutant.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.held.iter().map(|(slot, held)| Run { slot: *slot, count: held.count })
    }
}

fn is_kept(held: &BTreeMap<Slot, Held>, slot: Slot, number: u64) -> bool {
    held.get(&slot).is_some_and(|held| held.cached == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slot: Slot, count: u64) -> Run {
        Run { slot, count }
    }

    /// A cache of sixteen blocks.
    fn cache() -> ReadBack {
        ReadBack::new(16 * BLOCK_BYTES)
    }

    fn add(cache: &mut ReadBack, slot: Slot, count: u64, in_tail: bool) {
        assert!(cache.add(run(slot, count), PayloadId(slot), 0, in_tail));
        cache.shrink(|_| true);
    }

    fn dropped(cache: &mut ReadBack) -> Vec<u64> {
        let mut dropped: Vec<u64> =
            std::iter::from_fn(|| cache.take_dropped()).map(|payload| payload.0).collect();
        dropped.sort_unstable();
        dropped
    }

    #[test]
    fn slots_are_found_with_their_place_in_the_buffer() {
        let mut cache = cache();
        assert!(cache.add(run(10, 4), PayloadId(7), 8192, true));
        assert_eq!(cache.find(9), None);
        assert_eq!(cache.find(14), None);
        let found = cache.find(12).expect("it is held");
        assert_eq!((found.payload, found.offset_bytes, found.count), (PayloadId(7), 16_384, 2));
        assert_eq!(found.keeper, Keeper::Tail);
        cache.left_tail(10, PayloadId(7));
        assert_eq!(cache.find(12).map(|found| found.keeper), Some(Keeper::Cache));
    }

    #[test]
    fn the_oldest_goes_first_but_what_was_read_stays_for_a_round() {
        let mut cache = cache();
        for slot in [0, 4, 8, 12] {
            add(&mut cache, slot, 4, false);
        }
        assert!(cache.find(1).is_some());
        add(&mut cache, 16, 4, false);
        assert_eq!(dropped(&mut cache), [4], "0 was read");
        add(&mut cache, 20, 4, false);
        add(&mut cache, 24, 4, false);
        assert_eq!(dropped(&mut cache), [8, 12]);
        add(&mut cache, 28, 4, false);
        add(&mut cache, 32, 4, false);
        assert_eq!(dropped(&mut cache), [0, 16], "not read again");
        assert!(cache.find(21).is_some());
        assert!(cache.add(run(36, 4), PayloadId(36), 0, false));
        cache.shrink(|_| false);
        assert_eq!(dropped(&mut cache), [20], "read, but the map names another place");
        assert_eq!(cache.cached_bytes(), (16 * BLOCK_BYTES, 16 * BLOCK_BYTES));
    }

    #[test]
    fn a_tail_is_held_beyond_the_bound_and_goes_when_it_is_durable() {
        let mut cache = cache();
        add(&mut cache, 0, 8, true);
        assert_eq!(cache.cached_bytes().0, 0, "more than a quarter of the cache");
        assert!(!cache.add(run(8, 8), PayloadId(8), 0, false), "nobody keeps it");
        for slot in [100, 104, 108, 112, 116] {
            add(&mut cache, slot, 4, true);
        }
        assert_eq!(dropped(&mut cache), [], "all of them are in the tail");
        cache.left_tail(0, PayloadId(1));
        assert!(cache.find(0).is_some(), "another write was meant");
        cache.left_tail(0, PayloadId(0));
        cache.left_tail(100, PayloadId(100));
        cache.left_tail(104, PayloadId(104));
        assert_eq!(dropped(&mut cache), [0, 100], "104 is in the cache");
    }

    #[test]
    fn slots_that_are_appended_anew_are_forgotten() {
        let mut cache = cache();
        for slot in [0, 4, 8, 12] {
            add(&mut cache, slot, 4, slot == 4);
        }
        cache.forget(run(7, 2));
        assert_eq!(dropped(&mut cache), [4, 8]);
        for slot in 0..16 {
            assert_eq!(cache.find(slot).is_some(), !(4..12).contains(&slot), "{slot}");
        }
        add(&mut cache, 2, 4, false);
        assert_eq!(dropped(&mut cache), [0]);
        assert_eq!(cache.cached_bytes().0, 8 * BLOCK_BYTES);
        cache.clear();
        assert_eq!(dropped(&mut cache), [2, 12]);
        assert_eq!((cache.cached_bytes().0, cache.find(12)), (0, None));
    }

    #[test]
    fn the_order_stays_as_short_as_what_is_held() {
        let mut cache = cache();
        for _ in 0..10_000 {
            add(&mut cache, 0, 4, false);
        }
        assert!(cache.order.len() <= 67, "{}", cache.order.len());
        assert_eq!(cache.cached_bytes().0, 4 * BLOCK_BYTES);
    }
}
