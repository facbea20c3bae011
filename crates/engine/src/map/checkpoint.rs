//! How does the recorded map become shards, and shards a map?

use super::bits::Bits;
use super::objects::BlockRange;
use super::slots::Slots;
use super::{Entry, Fragment, Logical, Map, NONE, Run, Slot, SlotRegion};
use crate::format::record::FRAGMENTS_MAX;
use crate::format::shard::{SHARD_HOMES, SHARD_SLOTS, ShardWriter, SlotEntry};
use crate::map::entry::{LOG, SSD};
use std::collections::BTreeMap;

impl Map {
    /// All shards of the map, slots first.
    pub(crate) fn shard_count(&self) -> usize {
        self.dirty_shards.len()
    }

    /// Shards that changed since they were last taken.
    pub(crate) fn take_dirty_shards(&mut self) -> Bits {
        let clean = Bits::new(self.dirty_shards.len());
        std::mem::replace(&mut self.dirty_shards, clean)
    }

    /// Puts a shard back among the dirty ones, after a failed checkpoint.
    pub(crate) fn mark_shard_dirty(&mut self, index: usize) {
        self.dirty_shards.set(index, true);
    }

    /// The bytes of a shard: the recorded state of its range at this moment. Bounded: at most 2,700
    /// slots or 4,000 words.
    pub(crate) fn encode_shard(&self, pool: u128, checkpoint: u64, index: usize) -> Vec<u8> {
        assert!(index < self.shard_count(), "a shard is a part of the map");
        let mut writer = ShardWriter::new(pool, checkpoint, index as u64);
        if index < self.slot_shards {
            let first = index * SHARD_SLOTS;
            for slot in first..(first + SHARD_SLOTS).min(self.slots.len()) {
                writer.slot(self.slot_entry(slot as Slot));
            }
        } else {
            let first = (index - self.slot_shards) * SHARD_HOMES / 64;
            let words = self.leaves.block_count().div_ceil(64);
            for index in first..words.min(first + SHARD_HOMES / 64) {
                writer.homes(self.leaves.recorded_homes(index));
            }
        }
        writer.finish()
    }

    fn slot_entry(&self, slot: Slot) -> SlotEntry {
        if !self.slots.is_recorded(slot) {
            return SlotEntry { owner: NONE, checksum: 0, mask: 255, order: 0 };
        }
        let (mask, order) = self.masks.get(&slot).copied().unwrap_or((255, 0));
        let owner = self.slots.owner(slot);
        assert_ne!(owner, NONE, "a slot that a record names has an owner");
        SlotEntry { owner, checksum: self.slots.checksum(slot), mask, order }
    }
}

/// One block as recovery pieces it together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveredBlock {
    /// The home is valid.
    pub(crate) home: bool,
    /// SSD slot and checksum.
    pub(crate) ssd: Option<(Slot, u32)>,
    /// Log slot and checksum.
    pub(crate) log: Option<(Slot, u32)>,
    /// Fragments: order, slot, mask, checksum.
    pub(crate) fragments: Vec<(u8, Slot, u8, u32)>,
}

/// The map while shards and records are read: from the checkpoint, then absolutely by record.
///
/// Shards of one checkpoint are written at different moments, so two may claim the same block, or
/// one slot may still stand under an owner that has left. Every such block was changed after the
/// checkpoint began, so a record that is replayed afterwards says what holds.
///
/// What shards say of whole blocks is gathered in the table that the map will have, since there is so
/// much of it; fragments, and what records say, are kept by block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// Slots that shards give to an owner.
    claims: Slots,
    /// Fragments that shards know of.
    fragmented: BTreeMap<Logical, RecoveredBlock>,
    /// What records say, in their order: of several about one block the last one holds. Homes are in
    /// `homes`.
    records: Vec<Replaced>,
    /// Their fragments, by position of the record.
    record_fragments: BTreeMap<usize, Vec<(u8, Slot, u8, u32)>>,
    /// Blocks in `records`: what shards say of them is over.
    is_replaced: Bits,
    homes: Bits,
    /// Slots and home bits whose shards on disk say something else than what holds: they are due
    /// at the next checkpoint, or a claim that was overruled would come back with the one after.
    /// By shard.
    stale_slots: Bits,
    stale_homes: Bits,
}

/// What one record says of one block: a journal may hold millions of them.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    block: Logical,
    /// On an SSD, or in a log, or `NONE`.
    slot: Slot,
    checksum: u32,
}

impl Recovered {
    /// Nothing read yet of a map with these slots and so many logical blocks.
    pub(crate) fn new(regions: &[SlotRegion], logical_blocks: usize) -> Self {
        let claims = Slots::new(regions.to_vec());
        Recovered {
            stale_slots: Bits::new(claims.len() / SHARD_SLOTS + 1),
            stale_homes: Bits::new(logical_blocks / SHARD_HOMES + 1),
            claims,
            homes: Bits::new(logical_blocks),
            is_replaced: Bits::new(logical_blocks),
            ..Recovered::default()
        }
    }

    /// Takes over one slot of a shard. Returns false if it cannot be.
    pub(crate) fn slot(&mut self, slot: Slot, entry: SlotEntry) -> bool {
        if entry.owner == NONE {
            return true;
        }
        if entry.owner as usize >= self.homes.len() || entry.mask == 0 {
            return false;
        }
        if entry.mask == 255 {
            self.claims.assign(slot, entry.owner, entry.checksum);
        } else {
            let fragment = (entry.order, slot, entry.mask, entry.checksum);
            self.fragmented.entry(entry.owner).or_default().fragments.push(fragment);
        }
        true
    }

    /// Takes over one word of home bits.
    pub(crate) fn home_word(&mut self, index: usize, word: u64) {
        if let Some(target) = self.homes.words_mut().get_mut(index) {
            *target = word;
        }
    }

    /// Replaces all that is known of a block. The slots exist: the caller has looked.
    pub(crate) fn replace(&mut self, block: Logical, home: bool, places: RecoveredBlock) {
        self.homes.set(block as usize, home);
        self.stale_homes.set(block as usize / SHARD_HOMES, true);
        self.is_replaced.set(block as usize, true);
        for (slot, _) in places.ssd.into_iter().chain(places.log) {
            assert!((slot as usize) < self.claims.len(), "the caller has looked for slot {slot}");
            self.mark_stale(slot);
        }
        // the log place of a tail was never known to be durable: the SSD copy is the truth
        let (slot, checksum) = places.ssd.or(places.log).unwrap_or((NONE, 0));
        if !places.fragments.is_empty() {
            for fragment in &places.fragments {
                assert!((fragment.1 as usize) < self.claims.len(), "the caller has looked for it");
                self.mark_stale(fragment.1);
            }
            self.record_fragments.insert(self.records.len(), places.fragments);
        }
        self.records.push(Replaced { block, slot, checksum });
    }

    fn mark_stale(&mut self, slot: Slot) {
        self.stale_slots.set(slot as usize / SHARD_SLOTS, true);
    }

    /// Positions of the records that hold: the last one of each block.
    fn records_that_hold(&self) -> Vec<usize> {
        let mut seen = Bits::new(self.is_replaced.len());
        let mut positions = Vec::new();
        for (position, record) in self.records.iter().enumerate().rev() {
            if !seen.get(record.block as usize) {
                seen.set(record.block as usize, true);
                positions.push(position);
            }
        }
        positions
    }

    /// Runs of blocks that are in use and lie in none of these ranges, which are in order.
    pub(crate) fn strays(&self, owned: &[BlockRange]) -> Vec<BlockRange> {
        let is_stray = |block: Logical| {
            let behind = owned.partition_point(|range| range.first <= block);
            behind == 0 || block - owned[behind - 1].first >= owned[behind - 1].count
        };
        let claimed = (0..self.claims.len() as Slot).map(|slot| self.claims.owner(slot));
        let mut found: Vec<Logical> = claimed
            .filter(|&owner| owner != NONE)
            .chain(self.fragmented.keys().copied())
            .filter(|&block| is_stray(block) && !self.is_replaced.get(block as usize))
            .collect();
        for position in self.records_that_hold() {
            let Replaced { block, slot, .. } = self.records[position];
            if is_stray(block) && (slot != NONE || self.record_fragments.contains_key(&position)) {
                found.push(block);
            }
        }
        let mut from = 0;
        let total = self.homes.len();
        let last = BlockRange { first: total as Logical, count: 0 };
        for next in owned.iter().chain([&last]) {
            while let Some(block) = self.homes.next_set(from, next.first as usize) {
                found.push(block as Logical);
                from = block + 1;
            }
            from = (next.first + next.count) as usize;
        }
        found.sort_unstable();
        found.dedup();
        let mut strays: Vec<BlockRange> = Vec::new();
        for block in found {
            match strays.last_mut() {
                Some(last) if last.first + last.count == block => last.count += 1,
                _ => strays.push(BlockRange { first: block, count: 1 }),
            }
        }
        strays
    }

    /// Puts everything into an empty map. Returns the first contradiction found, if any.
    pub(crate) fn install(mut self, map: &mut Map) -> Result<(), String> {
        assert!(map.leaves.has_no_slot() && map.pending_blocks == 0, "it goes into an empty map");
        assert!(
            self.claims.len() == map.slots.len() && self.homes.len() == map.leaves.block_count(),
            "what was read is of this map"
        );
        let mut from = 0;
        while let Some(start) = self.homes.next_set(from, self.homes.len()) {
            let end = self.homes.next_clear(start, self.homes.len()).unwrap_or(self.homes.len());
            map.leaves.assume_home(start as Logical, (end - start) as u64);
            from = end;
        }
        map.slots = std::mem::take(&mut self.claims);
        // in order of slots, so SSDs before logs
        for slot in 0..map.slots.len() as Slot {
            let block = map.slots.owner(slot);
            if block == NONE {
                continue;
            }
            let is_log = map.slots.is_log(slot);
            // of a tail's two places only the one on the SSD was known to be durable
            let state = map.state(block);
            let is_tail = is_log && state & SSD != 0;
            if is_tail || self.is_replaced.get(block as usize) {
                map.slots.leave(slot);
                map.slots.disown(slot);
                self.mark_stale(slot);
                continue;
            }
            let bit = if is_log { LOG } else { SSD };
            if state & bit != 0 {
                let other = map.uninstall_slot(block, is_log);
                self.mark_stale(other);
            }
            map.take_slot(slot, block, bit);
        }
        for (block, places) in std::mem::take(&mut self.fragmented) {
            if self.is_replaced.get(block as usize) {
                places.fragments.iter().for_each(|fragment| self.mark_stale(fragment.1));
            } else {
                map.install_fragments(block, places.fragments)?;
            }
        }
        for position in self.records_that_hold() {
            let Replaced { block, slot, checksum } = self.records[position];
            if slot != NONE {
                let bit = if map.slots.is_log(slot) { LOG } else { SSD };
                map.install_slot(block, slot, checksum, bit)?;
            }
            if let Some(fragments) = self.record_fragments.remove(&position) {
                map.install_fragments(block, fragments)?;
            }
        }
        for shard in 0..map.slot_shards {
            if self.stale_slots.get(shard) {
                map.dirty_shards.set(shard, true);
            }
        }
        for shard in 0..map.dirty_shards.len() - map.slot_shards {
            if self.stale_homes.get(shard) {
                map.dirty_shards.set(map.slot_shards + shard, true);
            }
        }
        Ok(())
    }
}

impl Map {
    /// Another slot claims the block: takes back the one that was installed, and returns it.
    fn uninstall_slot(&mut self, block: Logical, is_log: bool) -> Slot {
        let entry = self.leaves.get(block);
        let (slot, rest) = if is_log {
            (entry.log, Entry { log: NONE, ..entry })
        } else {
            (entry.ssd, Entry { ssd: NONE, ..entry })
        };
        self.leaves.replace(block, rest);
        self.slots.leave(slot);
        self.slots.disown(slot);
        self.slots.set_recorded(slot, false);
        if !is_log {
            self.release_unused(Run { slot, count: 1 });
        }
        slot
    }

    fn install_slot(
        &mut self,
        block: Logical,
        slot: Slot,
        sum: u32,
        bit: u8,
    ) -> Result<(), String> {
        self.install_taken(slot, block, sum)?;
        self.name_slot(slot, block, bit);
        Ok(())
    }

    /// The slot, whose owner is set, is a recorded place of the block.
    fn take_slot(&mut self, slot: Slot, block: Logical, bit: u8) {
        self.slots.set_recorded(slot, true);
        self.take_from_allocator(slot);
        self.name_slot(slot, block, bit);
    }

    fn name_slot(&mut self, slot: Slot, block: Logical, bit: u8) {
        let entry = self.leaves.get(block);
        let is_free = if bit == SSD { entry.ssd == NONE } else { entry.log == NONE };
        assert!(is_free, "block {block} has one place of a kind");
        let (ssd, log) = if bit == SSD { (slot, entry.log) } else { (entry.ssd, slot) };
        self.leaves.replace(block, Entry { ssd, log, ..entry });
    }

    fn take_from_allocator(&mut self, slot: Slot) {
        let mut first = 0;
        for (allocator, closed) in self.allocators.iter_mut().zip(&self.closed) {
            if slot < first + allocator.slot_count() {
                allocator.take(slot);
                assert!(*closed || self.ssd_free > 0, "what is free of open SSDs is counted");
                self.ssd_free -= u64::from(!closed);
                return;
            }
            first += allocator.slot_count();
        }
    }

    pub(super) fn install_fragments(
        &mut self,
        block: Logical,
        mut fragments: Vec<(u8, Slot, u8, u32)>,
    ) -> Result<(), String> {
        if fragments.len() > FRAGMENTS_MAX {
            return Err(format!("block {block} has {} fragments", fragments.len()));
        }
        fragments.sort_unstable();
        for (order, slot, mask, checksum) in fragments {
            self.install_fragment(block, slot, (mask, order), checksum)?;
        }
        Ok(())
    }

    fn install_fragment(
        &mut self,
        block: Logical,
        slot: Slot,
        mask: (u8, u8),
        checksum: u32,
    ) -> Result<(), String> {
        self.install_taken(slot, block, checksum)?;
        self.masks.insert(slot, mask);
        self.fragments.entry(block).or_default().push(Fragment { slot, mask: mask.0 });
        let entry = self.leaves.get(block);
        self.leaves.replace(block, Entry { fragmented: true, ..entry });
        Ok(())
    }

    fn install_taken(&mut self, slot: Slot, block: Logical, checksum: u32) -> Result<(), String> {
        if slot as usize >= self.slots.len() {
            return Err(format!(
                "block {block} is said to lie in slot {slot}, which does not exist"
            ));
        }
        if self.slots.owner(slot) != NONE {
            let other = self.slots.owner(slot);
            return Err(format!("slot {slot} belongs to block {block} and to block {other}"));
        }
        self.slots.assign(slot, block, checksum);
        self.slots.set_recorded(slot, true);
        self.take_from_allocator(slot);
        Ok(())
    }

    /// Marks homes valid as if they had been written and recorded long ago: how a replay begins.
    pub(crate) fn assume_home(&mut self, first: Logical, count: u64) {
        self.leaves.assume_home(first, count);
    }

    /// Puts a block on an SSD as a clean copy of its valid home, as if long ago. False: SSD full.
    pub(crate) fn assume_ssd_copy(&mut self, block: Logical, checksum: u32) -> bool {
        let Some(run) = self.allocate_ssd(1) else { return false };
        assert!(self.leaves.recorded_home(block), "the home of a clean copy is valid");
        self.slots.assign(run.slot, block, checksum);
        self.slots.set_recorded(run.slot, true);
        let entry = self.leaves.get(block);
        assert_eq!(entry.ssd, NONE, "a block has one place on the SSDs");
        self.leaves.replace(block, Entry { ssd: run.slot, ..entry });
        true
    }
}
