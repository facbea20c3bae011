//! How does the recorded map become shards, and shards a map?

use super::bits::Bits;
use super::objects::BlockRange;
use super::{Fragment, Logical, Map, NONE, Slot};
use crate::format::shard::{SHARD_HOMES, SHARD_SLOTS, ShardWriter, SlotEntry};
use crate::map::logical::{FRAGMENTS, HOME, LOG, SSD};
use std::collections::BTreeMap;

impl Map {
    /// All shards of the map, slots first.
    pub fn shard_count(&self) -> usize {
        self.dirty_shards.len()
    }

    /// Shards that changed since they were last taken.
    pub fn take_dirty_shards(&mut self) -> Bits {
        let clean = Bits::new(self.dirty_shards.len());
        std::mem::replace(&mut self.dirty_shards, clean)
    }

    /// Puts a shard back among the dirty ones, after a failed checkpoint.
    pub fn mark_shard_dirty(&mut self, index: usize) {
        self.dirty_shards.set(index, true);
    }

    /// The bytes of a shard: the recorded state of its range at this moment. Bounded: at most 2,700
    /// slots or 4,000 words.
    pub fn encode_shard(&self, pool: u128, checkpoint: u64, index: usize) -> Vec<u8> {
        let mut writer = ShardWriter::new(pool, checkpoint, index as u64);
        if index < self.slot_shards {
            let first = index * SHARD_SLOTS;
            for slot in first..(first + SHARD_SLOTS).min(self.slots.len()) {
                writer.slot(self.slot_entry(slot as Slot));
            }
        } else {
            let first = (index - self.slot_shards) * SHARD_HOMES / 64;
            let words = self.logical.recorded_homes().words();
            for &word in &words[first..words.len().min(first + SHARD_HOMES / 64)] {
                writer.homes(word);
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
        SlotEntry { owner, checksum: self.slots.checksum(slot), mask, order }
    }
}

/// One block as recovery pieces it together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredBlock {
    /// The home is valid.
    pub home: bool,
    /// SSD slot and checksum.
    pub ssd: Option<(Slot, u32)>,
    /// Log slot and checksum.
    pub log: Option<(Slot, u32)>,
    /// Fragments: order, slot, mask, checksum.
    pub fragments: Vec<(u8, Slot, u8, u32)>,
}

/// The map while shards and records are read: from the checkpoint, then absolutely by record.
///
/// Shards of one checkpoint are written at different moments, so two may claim the same block, or
/// one slot may still stand under an owner that has left. Every such block was changed after the
/// checkpoint began, so a record that is replayed afterwards says what holds.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Blocks that have a slot or fragments. Homes alone are in `homes`.
    blocks: BTreeMap<Logical, RecoveredBlock>,
    homes: Option<Bits>,
    /// Slots and home bits whose shards on disk say something else than what holds: they are due
    /// at the next checkpoint, or a claim that was overruled would come back with the one after.
    stale_slots: Vec<Slot>,
    stale_homes: Vec<Logical>,
}

impl Recovered {
    /// Nothing read yet.
    pub fn new(logical_blocks: usize) -> Self {
        Recovered { homes: Some(Bits::new(logical_blocks)), ..Recovered::default() }
    }

    fn homes(&mut self) -> &mut Bits {
        self.homes.as_mut().expect("set by new")
    }

    /// Takes over one slot of a shard. Returns false if it cannot be.
    pub fn slot(&mut self, slot: Slot, is_log: bool, entry: SlotEntry) -> bool {
        if entry.owner == NONE {
            return true;
        }
        if entry.owner as usize >= self.homes().len() || entry.mask == 0 {
            return false;
        }
        let block = self.blocks.entry(entry.owner).or_default();
        if entry.mask != 255 {
            block.fragments.push((entry.order, slot, entry.mask, entry.checksum));
        } else {
            let place = if is_log { &mut block.log } else { &mut block.ssd };
            if let Some((other, _)) = place.replace((slot, entry.checksum)) {
                self.stale_slots.push(other);
            }
        }
        true
    }

    /// Takes over one word of home bits.
    pub fn home_word(&mut self, index: usize, word: u64) {
        if let Some(target) = self.homes().words_mut().get_mut(index) {
            *target = word;
        }
    }

    /// Replaces all that is known of a block.
    pub fn replace(&mut self, block: Logical, home: bool, places: RecoveredBlock) {
        self.homes().set(block as usize, home);
        self.stale_homes.push(block);
        let named = |b: &RecoveredBlock| {
            let fragments = b.fragments.iter().map(|f| f.1);
            [b.ssd, b.log].into_iter().flatten().map(|p| p.0).chain(fragments).collect::<Vec<_>>()
        };
        self.stale_slots.extend(named(&places));
        if let Some(before) = self.blocks.get(&block) {
            self.stale_slots.extend(named(before));
        }
        if places.ssd.is_none() && places.log.is_none() && places.fragments.is_empty() {
            self.blocks.remove(&block);
        } else {
            self.blocks.insert(block, places);
        }
    }

    /// Runs of blocks that are in use and lie in none of these ranges, which are in order.
    pub fn strays(&self, owned: &[BlockRange]) -> Vec<BlockRange> {
        let homes = self.homes.as_ref().expect("set by new");
        let total = homes.len() as Logical;
        let mut strays: Vec<BlockRange> = Vec::new();
        let mut from = 0;
        let last = BlockRange { first: total, count: 0 };
        for next in owned.iter().chain([&last]) {
            let end = next.first;
            while from < end {
                let home = homes.next_set(from as usize, end as usize).map(|b| b as Logical);
                let slot = self.blocks.range(from..end).next().map(|(&block, _)| block);
                let Some(block) = home.into_iter().chain(slot).min() else { break };
                match strays.last_mut() {
                    Some(last) if last.first + last.count == block => last.count += 1,
                    _ => strays.push(BlockRange { first: block, count: 1 }),
                }
                from = block + 1;
            }
            from = end + next.count;
        }
        strays
    }

    /// Puts everything into an empty map. Returns the first contradiction found, if any.
    pub fn install(mut self, map: &mut Map) -> Result<(), String> {
        let homes = self.homes.take().expect("set by new");
        let mut from = 0;
        while let Some(start) = homes.next_set(from, homes.len()) {
            let end = homes.next_clear(start, homes.len()).unwrap_or(homes.len());
            map.logical.assume_home(start as Logical, (end - start) as u32);
            from = end;
        }
        for (block, mut places) in self.blocks {
            if let Some((slot, checksum)) = places.ssd {
                map.install_slot(block, slot, checksum, SSD)?;
                // the log place of a tail was never known to be settled: the SSD copy is the truth
                if let Some((log, _)) = places.log.take() {
                    self.stale_slots.push(log);
                }
            }
            if let Some((slot, checksum)) = places.log {
                map.install_slot(block, slot, checksum, LOG)?;
            }
            places.fragments.sort_unstable();
            for (order, slot, mask, checksum) in places.fragments {
                map.install_fragment(block, slot, (mask, order), checksum)?;
            }
        }
        for slot in self.stale_slots {
            if (slot as usize) < map.slots.len() {
                map.dirty_shards.set(slot as usize / SHARD_SLOTS, true);
            }
        }
        for block in self.stale_homes {
            map.dirty_shards.set(map.slot_shards + block as usize / SHARD_HOMES, true);
        }
        Ok(())
    }
}

impl Map {
    fn install_slot(
        &mut self,
        block: Logical,
        slot: Slot,
        sum: u32,
        bit: u8,
    ) -> Result<(), String> {
        self.install_taken(slot, block, sum)?;
        self.index.insert(block, slot);
        let bits = self.logical.get(block);
        self.set_bits(block, bits, bits | bit);
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
        let bits = self.logical.get(block);
        self.set_bits(block, bits, bits | FRAGMENTS);
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
        if !self.slots.is_log(slot) {
            let mut first = 0;
            for allocator in &mut self.allocators {
                if slot < first + allocator.slot_count() {
                    allocator.take(slot);
                    self.ssd_free -= 1;
                    break;
                }
                first += allocator.slot_count();
            }
        }
        Ok(())
    }

    /// Marks homes valid as if they had been written and recorded long ago: how a replay begins.
    pub fn assume_home(&mut self, first: Logical, count: u32) {
        for block in first..first + count {
            assert_eq!(self.logical.get(block) & !HOME, 0, "only before the first write");
        }
        self.logical.assume_home(first, count);
    }

    /// Puts a block on an SSD as a clean copy of its valid home, as if long ago. False: SSD full.
    pub fn assume_ssd_copy(&mut self, block: Logical, checksum: u32) -> bool {
        let Some(run) = self.allocate_ssd(1) else { return false };
        self.slots.assign(run.slot, block, checksum);
        self.slots.set_recorded(run.slot, true);
        self.index.insert(block, run.slot);
        let bits = self.logical.get(block);
        self.set_bits(block, bits, bits | SSD);
        true
    }
}
