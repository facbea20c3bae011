//! Where does this block live?
//!
//! Source: design decisions 6 and 7. The map in RAM is the *current* state: what reads see. What a
//! crash would leave is the *recorded* state: a mark on every slot and home bit that the newest
//! composed journal batch (or an older one) names. Between the two lies the pending work:
//!
//! ```text
//! write done ──▶ assign(): current changes, the old place is displaced, the block is touched
//!                    │           recorded old place: kept until the new one is durable
//!                    │           never recorded:     free at once
//! batch      ──▶ compose(): each touched block whose places are all durable is recorded, absolutely,
//!                           and the places it displaced are freed when the batch is durable
//! ```
//! So every block always has its recorded version intact on the drives, and a crash at any moment
//! finds either it or a newer one.

pub(crate) mod allocator;
pub(crate) mod attributes;
mod audit;
pub(crate) mod batches;
pub(crate) mod beside_logs;
pub(crate) mod bits;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod checksums;
mod compose;
mod depart;
mod displaced;
mod durable;
pub mod entry;
pub(crate) mod homes;
pub(crate) mod image;
pub(crate) mod journal;
mod leaf;
mod leaves;
pub(crate) mod marks;
pub mod objects;
mod population;
pub(crate) mod recovered;
pub mod runs;
mod slot_list;
pub(crate) mod slots;
mod sought;
pub mod space;
#[cfg(test)]
mod tests;
mod unrecorded;
mod values;
pub(crate) mod versions;

pub use allocator::Run;
pub use compose::{Batch, Cover, Limits};
pub use displaced::FixedHasher;
pub use entry::{Entry, Fragment, Place, PlaceRole};
pub use population::Population;
pub use slots::{Logical, NONE, Slot, SlotRegion};
pub use versions::Copied;

use crate::format::pointer::groups_of;
use crate::format::record::FRAGMENTS_MAX;
use allocator::Allocator;
use displaced::Displaced;
use entry::{FRAGMENTS, FragmentSlot, HOME};
use hashbrown::{HashMap, HashSet};
use leaves::Leaves;
use marks::Marks;
use slots::Slots;
use std::collections::BTreeMap;
use unrecorded::Unrecorded;
use versions::Versions;

/// A fixed hasher: a digest must not hang on a random seed.
pub(crate) type FixedState = std::hash::BuildHasherDefault<displaced::FixedHasher>;

/// Blocks of a request that memory is asked for ahead: a cache has room for no more of them.
const PREFETCHED_BLOCKS_MAX: u64 = 256;

/// Blocks that changed and are not recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    /// First block.
    pub(crate) logical: Logical,
    /// How many.
    pub(crate) count: u64,
}

/// A touch with the first of the slots that the blocks were written to, or `NONE`: where they
/// probably still are when the batch is composed, which saves the search.
#[derive(Clone, Copy, Debug)]
struct Hinted {
    touch: Touch,
    slot: Slot,
}

impl Hinted {
    /// Is `next` the continuation of this one?
    #[inline]
    fn continues(&self, next: &Hinted) -> bool {
        let Touch { logical, count } = self.touch;
        let next_slot = if self.slot == NONE { NONE } else { self.slot + count };
        logical.checked_add(count) == Some(next.touch.logical) && next_slot == next.slot
    }
}

/// What has to happen before touched blocks can be recorded.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// A flush of the SSDs.
    ssd: Vec<Hinted>,
    /// A flush of this hard drive, or a tail copy. By device id. A batch looks whether
    /// it has happened once something in the log has become durable.
    hdd: Vec<Vec<Hinted>>,
    /// Has anything become durable in the log of this hard drive since a batch looked at what waits for it?
    /// By device id.
    hdd_durable: Vec<bool>,
    /// Nothing: everything is durable.
    ready: Vec<Hinted>,
}

/// The map.
#[derive(Clone, Debug)]
pub struct Map {
    slots: Slots,
    leaves: Leaves,
    allocators: Vec<Allocator>,
    next_allocator: usize,
    closed: Vec<bool>,
    /// Free slots of all allocators that are not closed, and all their slots.
    ssd_free: u64,
    ssd_slots: u64,
    fragments: BTreeMap<Logical, Vec<Fragment>>,
    /// Slots that hold fragments, also displaced ones.
    fragment_slots: HashMap<Slot, FragmentSlot, FixedState>,
    /// Checksums of whole blocks in slots that no record names.
    unrecorded: Unrecorded,
    displaced: Displaced,
    pending: Pending,
    pending_blocks: u64,
    /// Those of them that wait for a flush of the SSDs.
    pending_ssd_blocks: u64,
    /// Durable by a flush, but not recorded, because another place of the block was not.
    durable: HashSet<Slot, FixedState>,
    /// Log slots written since the last flush of their drive, and by which write: a slot may be written
    /// again before that flush.
    log_volatile: HashMap<Slot, u64, FixedState>,
    /// Blocks whose copies on SSDs stay beside log places that records call volatile, and that are so no more.
    settled: HashSet<Logical, FixedState>,
    /// Slots that nothing names any more; the engine takes them with `take_freed`.
    freed: Vec<Slot>,
    versions: Versions,
    /// Groups of blocks whose places the next checkpoint must write.
    dirty_groups: Marks,
}

impl Map {
    /// An empty map over these slots and this many logical blocks.
    pub(crate) fn new(regions: Vec<SlotRegion>, logical_blocks: usize, devices: usize) -> Self {
        let allocators =
            regions.iter().filter(|r| !r.is_log).map(Allocator::new).collect::<Vec<_>>();
        let regions_of_ssds = allocators.len();
        let ssd_slots = allocators.iter().map(|a| a.slot_count()).sum();
        let leaves = Leaves::new(logical_blocks, &regions);
        let slots = Slots::new(regions);
        Map {
            leaves,
            allocators,
            next_allocator: 0,
            closed: vec![false; regions_of_ssds],
            ssd_free: ssd_slots,
            ssd_slots,
            fragments: BTreeMap::new(),
            fragment_slots: HashMap::default(),
            unrecorded: Unrecorded::default(),
            displaced: Displaced::new(logical_blocks),
            pending: Pending {
                hdd: vec![Vec::new(); devices],
                hdd_durable: vec![false; devices],
                ..Pending::default()
            },
            pending_blocks: 0,
            pending_ssd_blocks: 0,
            durable: HashSet::default(),
            log_volatile: HashMap::default(),
            settled: HashSet::default(),
            freed: Vec::new(),
            versions: Versions::default(),
            dirty_groups: Marks::new(groups_of(logical_blocks as u64) as usize),
            slots,
        }
    }

    /// Where the block lives now.
    #[inline]
    pub fn entry(&self, block: Logical) -> Entry {
        self.leaves.get(block)
    }

    /// The block's fragments, oldest first.
    pub fn fragments(&self, block: Logical) -> &[Fragment] {
        self.fragments.get(&block).map_or(&[], Vec::as_slice)
    }

    /// The block's state bits.
    #[inline]
    pub fn state(&self, block: Logical) -> u8 {
        self.leaves.state(block)
    }

    /// Does the block lie in this slot, whole or in part?
    pub fn lies_in(&self, block: Logical, slot: Slot) -> bool {
        let entry = self.entry(block);
        entry.ssd == slot
            || entry.log == slot
            || entry.fragmented && self.fragments(block).iter().any(|part| part.slot == slot)
    }

    /// Slots and their contents.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Where all blocks live.
    pub fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// Where blocks live, counted.
    pub fn population(&self) -> Population {
        self.leaves.population()
    }

    /// Blocks that a flush of the SSDs makes recordable, or nothing more than a commit (a block
    /// touched twice counts twice).
    pub fn pending_blocks(&self) -> u64 {
        self.pending_blocks
    }

    /// Is there anything that only a flush of the SSDs makes recordable?
    pub(crate) fn awaits_ssd(&self) -> bool {
        !self.pending.ssd.is_empty()
    }

    /// Is there anything recordable at once?
    pub(crate) fn has_ready(&self) -> bool {
        !self.pending.ready.is_empty()
    }

    /// Free SSD slots over all SSDs that take anything new.
    #[inline]
    pub fn ssd_free(&self) -> u64 {
        self.ssd_free
    }

    /// Is SSD space so short that clean copies go, and commits do not wait? A sixteenth, or a write waits.
    pub(crate) fn is_short_of_space(&self, somebody_waits: bool) -> bool {
        self.ssd_free() * 16 < self.ssd_slots() || somebody_waits
    }

    /// SSD slots over all of these.
    #[inline]
    pub fn ssd_slots(&self) -> u64 {
        self.ssd_slots
    }

    /// Takes up to `wanted` contiguous slots of the SSD at this position among the SSDs.
    pub(crate) fn allocate_on(&mut self, ssd: usize, wanted: u64) -> Option<Run> {
        let run = self.allocators[ssd].allocate(wanted)?;
        let last = run.slot + (run.count - 1);
        assert!(
            !self.slots.is_recorded(run.slot) && !self.slots.is_recorded(last),
            "a slot that a record names is not allocated"
        );
        if !self.closed[ssd] {
            assert!(self.ssd_free >= run.count, "what is free of open SSDs is counted");
            self.ssd_free -= run.count;
        }
        Some(run)
    }

    /// Takes up to `wanted` contiguous SSD slots, on the SSDs in turn.
    pub(crate) fn allocate_ssd(&mut self, wanted: u64) -> Option<Run> {
        for _ in 0..self.allocators.len() {
            let which = self.next_allocator;
            self.next_allocator = (which + 1) % self.allocators.len();
            if self.closed[which] {
                continue;
            }
            if let Some(run) = self.allocate_on(which, wanted) {
                return Some(run);
            }
        }
        None
    }

    /// A fragment moves to another slot with the same contents. Returns false if the block has
    /// moved on since.
    pub(crate) fn move_fragment(&mut self, block: Logical, from: Slot, to: Slot) -> bool {
        let Some(list) = self.fragments.get_mut(&block) else { return false };
        let Some(fragment) = list.iter_mut().find(|fragment| fragment.slot == from) else {
            return false;
        };
        fragment.slot = to;
        self.slots.assign(to, block);
        let moved = self.fragment_slots[&from];
        let stale = self.fragment_slots.insert(to, moved);
        assert!(stale.is_none(), "what is known of a fragment goes when its slot is released");
        self.displace(block, from);
        true
    }

    /// Blocks under fragments, from `from` on.
    pub(crate) fn next_fragmented(&self, from: Logical) -> Option<Logical> {
        self.fragments.range(from..).next().map(|(&block, _)| block)
    }

    /// Allocators, to look at.
    pub(crate) fn allocators(&self) -> &[Allocator] {
        &self.allocators
    }

    /// Asks memory for the state of these blocks: they are about to be written.
    #[inline]
    pub(crate) fn prefetch(&self, first: Logical, count: u64) {
        self.leaves.prefetch(first, count.min(PREFETCHED_BLOCKS_MAX));
    }

    /// Asks memory for the slots of these blocks: they are being written.
    #[inline]
    pub(crate) fn prefetch_slots(&self, first: Logical, count: u64) {
        self.leaves.prefetch_slots(first, count.min(PREFETCHED_BLOCKS_MAX));
    }

    /// Notes that `slot` now holds the whole block, alone: every older place is displaced.
    #[inline]
    pub(crate) fn assign(&mut self, block: Logical, slot: Slot, checksum: u32) {
        self.versions.change(block);
        debug_assert!(
            !self.fragment_slots.contains_key(&slot),
            "a slot has a whole block or a part"
        );
        let is_log = self.slots.is_log(slot);
        let old = self.leaves.replace(block, Entry::in_slot(slot, is_log));
        if old.fragmented {
            self.displace_fragments(block);
        }
        let places = if is_log { [old.ssd, old.log] } else { [old.log, old.ssd] };
        for place in places {
            if place != NONE {
                self.displace(block, place);
            }
        }
        self.assign_whole(slot, block, checksum);
    }

    /// The slot holds a version of the block, whole. No record names it yet.
    #[inline]
    fn assign_whole(&mut self, slot: Slot, block: Logical, checksum: u32) {
        self.slots.assign(slot, block);
        self.unrecorded.set(slot, checksum);
    }

    /// What a slot that no record names holds, a whole block of which it is a place.
    #[inline]
    pub(crate) fn unrecorded_checksum(&self, slot: Slot) -> Option<u32> {
        self.unrecorded.get(slot)
    }

    /// What the slot of a fragment holds.
    ///
    /// # Panics
    /// If it holds none.
    pub fn fragment_checksum(&self, slot: Slot) -> u32 {
        self.fragment_slots[&slot].checksum
    }

    /// Notes that `slot` holds some sectors of the block, over whatever it was before. Returns
    /// false, and changes nothing, if the block has no base: then the caller's zero-filled block is
    /// the whole truth and it calls `assign`.
    pub(crate) fn assign_fragment(
        &mut self,
        block: Logical,
        slot: Slot,
        mask: u8,
        checksum: u32,
    ) -> bool {
        assert!(mask != 0 && mask != 255, "a fragment is some sectors, not none or all");
        let before = self.leaves.get(block);
        if before == Entry::NOWHERE {
            return false;
        }
        self.versions.change(block);
        self.slots.assign(slot, block);
        let mut list = self.fragments.remove(&block).unwrap_or_default();
        list.push(Fragment { slot, mask });
        let mut covered = 0u8;
        let mut kept = Vec::with_capacity(list.len());
        for fragment in list.into_iter().rev() {
            if fragment.mask & !covered == 0 {
                self.displace(block, fragment.slot);
            } else {
                covered |= fragment.mask;
                kept.push(fragment);
            }
        }
        kept.reverse();
        assert!(kept.len() <= FRAGMENTS_MAX, "each kept fragment adds a sector");
        // orders are given when a batch names the fragments: until then a checkpoint shows those that
        // the batch before named, in the order that it named them in
        let stale = self.fragment_slots.insert(slot, FragmentSlot { mask, order: 0, checksum });
        assert!(stale.is_none(), "what is known of a fragment goes when its slot is released");
        self.fragments.insert(block, kept);
        let base = if covered == 255 { Entry::NOWHERE } else { before };
        if covered == 255 {
            self.displace_places(block, &before);
        }
        self.leaves.replace(block, Entry { fragmented: true, ..base });
        true
    }

    /// Forgets the block: it reads as zeroes.
    pub(crate) fn clear(&mut self, block: Logical) {
        self.versions.change(block);
        let old = self.leaves.replace(block, Entry::NOWHERE);
        if old.fragmented {
            self.displace_fragments(block);
        }
        self.displace_places(block, &old);
    }

    /// Gives up the home of a block that has the same version on an SSD. Returns false, and changes nothing,
    /// if it has not.
    pub(crate) fn forget_home(&mut self, block: Logical) -> bool {
        let entry = self.entry(block);
        if !entry.home || entry.ssd == NONE || entry.fragmented {
            return false;
        }
        self.leaves.replace(block, Entry { home: false, ..entry });
        true
    }

    /// Gives up the place `slot` of a block that has another durable one (its home, or for a copy
    /// beside a log its place there). Returns false if the block has moved on since.
    pub(crate) fn drop_place(&mut self, block: Logical, slot: Slot) -> bool {
        let entry = self.entry(block);
        let log = self.slots.is_log(slot);
        if (if log { entry.log } else { entry.ssd }) != slot {
            return false;
        }
        let rest = if log { Entry { log: NONE, ..entry } } else { Entry { ssd: NONE, ..entry } };
        assert!(rest.state() & !FRAGMENTS != 0, "the last place of a block is never given up");
        self.displace(block, slot);
        self.leaves.replace(block, rest);
        true
    }

    /// Adds an SSD slot that holds the same version as the home, which is the block's only place. Returns
    /// false, and changes nothing, if it is not.
    pub(crate) fn add_copy_of_home(&mut self, block: Logical, ssd: Slot, checksum: u32) -> bool {
        assert!(!self.slots.is_log(ssd), "a copy of a home lies on an SSD");
        if self.leaves.state(block) != HOME {
            return false;
        }
        self.assign_whole(ssd, block, checksum);
        self.leaves.replace(block, Entry { home: true, ..Entry::in_slot(ssd, false) });
        true
    }

    /// Adds an SSD slot that holds the same version as log slot `log`. Returns false if the block
    /// has moved on since; the caller then gives the new slot back.
    pub(crate) fn add_copy(
        &mut self,
        block: Logical,
        (log, ssd): (Slot, Slot),
        checksum: u32,
    ) -> bool {
        assert!(log != NONE && self.slots.is_log(log), "what is copied lies in a log");
        assert!(!self.slots.is_log(ssd), "a copy of a place in a log lies on an SSD");
        let entry = self.entry(block);
        if entry.log != log || entry.ssd != NONE {
            return false;
        }
        self.assign_whole(ssd, block, checksum);
        self.leaves.replace(block, Entry { ssd, ..entry });
        true
    }

    /// Queues blocks for the next batch: what must settle first is told by where `slot` lies, or
    /// nothing must if it is `NONE` or `durable`.
    #[inline]
    pub(crate) fn touch(&mut self, touch: Touch, slot: Slot, durable: bool) {
        let end = touch.logical + touch.count;
        assert!(
            touch.count > 0 && end <= self.leaves.block_count() as u64,
            "blocks that exist changed"
        );
        // what no flush has to cover waits for none: its drive may never be flushed
        let is_log = slot != NONE && self.slots.is_log(slot);
        let durable = durable || is_log && !self.log_volatile.contains_key(&slot);
        let (queue, hint) = if durable || slot == NONE {
            self.pending_blocks += touch.count;
            (&mut self.pending.ready, NONE)
        } else if is_log {
            let device = self.slots.region(slot).device;
            (&mut self.pending.hdd[usize::from(device.0)], slot)
        } else {
            self.pending_blocks += touch.count;
            self.pending_ssd_blocks += touch.count;
            (&mut self.pending.ssd, slot)
        };
        let hinted = Hinted { touch, slot: hint };
        match queue.last_mut() {
            Some(last) if last.continues(&hinted) => last.touch.count += touch.count,
            _ => queue.push(hinted),
        }
    }

    /// Takes the slots that nothing names any more. Each must come back with `release` once no I/O
    /// uses it.
    pub(crate) fn take_freed(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.freed)
    }

    /// Are there slots to take?
    pub(crate) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Makes an SSD slot allocatable again; a log slot only loses its owner (its segment is
    /// recycled as a whole).
    pub(crate) fn release(&mut self, slot: Slot) {
        assert!(!self.slots.is_recorded(slot), "slot {slot} is still recorded");
        assert!(!self.slots.is_place(slot), "slot {slot} was left before it is released");
        debug_assert!(!self.durable.contains(&slot), "a slot that is released waits for no record");
        if !self.fragment_slots.is_empty() {
            self.fragment_slots.remove(&slot);
        }
        if self.slots.is_log(slot) {
            self.slots.disown(slot);
        } else {
            self.release_unused(Run { slot, count: 1 });
        }
    }

    /// Gives back slots that were allocated and never assigned.
    pub(crate) fn release_unused(&mut self, run: Run) {
        let first = run.slot;
        assert!(run.count > 0, "slots are given back");
        assert!(!self.slots.is_recorded(first), "no record names slot {first}");
        assert!(!self.slots.is_place(first), "no block lies in slot {first}");
        let ssd = self.allocator_of(first).expect("a slot that is given back is of an SSD");
        if !self.closed[ssd] {
            self.ssd_free += run.count;
            assert!(self.ssd_free <= self.ssd_slots, "no more is free than there is");
        }
        self.allocators[ssd].release(run);
    }

    /// Position of the SSD that the slot is of.
    fn allocator_of(&self, slot: Slot) -> Option<usize> {
        self.allocators.iter().position(|allocator| allocator.has(slot))
    }

    /// A place that the block no longer needs: kept if it is recorded, free if not.
    #[inline]
    fn displace(&mut self, block: Logical, slot: Slot) {
        let is_own = || !self.slots.is_log(slot) || self.slots.log_owner(slot) == block;
        debug_assert!(is_own(), "a block leaves a place of its own");
        self.slots.leave(slot);
        if self.slots.is_recorded(slot) {
            self.displaced.insert(block, slot);
        } else {
            self.unrecorded.remove(slot);
            if !self.durable.is_empty() {
                self.durable.remove(&slot);
            }
            if !self.log_volatile.is_empty() {
                self.log_volatile.remove(&slot);
            }
            self.freed.push(slot);
        }
    }

    fn displace_fragments(&mut self, block: Logical) {
        let list = self.fragments.remove(&block).expect("the state bits say there are fragments");
        assert!(!list.is_empty(), "a block under fragments has some");
        for fragment in list {
            self.displace(block, fragment.slot);
        }
    }

    /// The block leaves the slots that it lies in whole.
    fn displace_places(&mut self, block: Logical, old: &Entry) {
        for place in [old.ssd, old.log].into_iter().filter(|place| *place != NONE) {
            self.displace(block, place);
        }
    }
}
