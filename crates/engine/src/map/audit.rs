//! What the map holds, counted: for audits, and for those who ask how much.

use super::{Allocator, Entry, Hinted, Logical, Map, Pending, Population, Slot, SlotRegion};
use tandem_block::DeviceId;

impl Pending {
    /// Memory that they take, by calculation.
    fn memory_bytes(&self) -> usize {
        let lists = self.hdd.iter().chain([&self.ssd, &self.ready]);
        lists.map(|list| list.capacity() * size_of::<Hinted>()).sum()
    }
}

impl Map {
    /// Bytes of memory held, by part.
    pub fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + self.unrecorded.memory_bytes()
            + self.leaves.memory_bytes()
            + self.pending.memory_bytes()
            + self.displaced.memory_bytes()
            + self.allocators.iter().map(Allocator::memory_bytes).sum::<usize>()
    }

    /// Of a range of blocks: how many lie on an SSD, and neither at home nor, durable, in a log.
    pub(crate) fn on_ssd_alone(&self, (first, end): (u64, u64)) -> u64 {
        let end = end.min(self.leaves.block_count() as u64);
        let (mut from, mut alone) = (first, 0);
        while let Some(block) = self.leaves.next_on_ssd(from, end) {
            alone += u64::from(self.is_alone_on_ssd(block));
            from = block + 1;
        }
        alone
    }

    /// Blocks in `from..to` that lie anywhere: the first one of some that follow each other, and behind the last.
    pub fn next_used(&self, from: Logical, to: Logical) -> Option<(Logical, Logical)> {
        let to = to.min(self.leaves.block_count() as u64);
        self.leaves.next_used(from, to).map(|found| (found.first, found.first + found.count))
    }

    /// A map that takes as much memory as one of its size can: each slot is some block's, far from those of its
    /// neighbours, and every other home is valid. For those who ask how much memory a pool may take.
    pub fn filled(ssd_slots: u64, log_slots: u64, blocks: u64) -> Map {
        let ssd = SlotRegion::new(DeviceId(0), false, ssd_slots, 0);
        let log = SlotRegion::new(DeviceId(1), true, log_slots, 0);
        let (regions, log_first) = (vec![ssd, log], log.first);
        let mut map = Map::new(regions, blocks as usize, 2);
        for block in (0..blocks).step_by(2) {
            map.leaves.assume_home(block, 1);
        }
        // a prime: it leads once to each block
        let mut block = 0;
        // a block has one slot of a kind
        let of_ssd = 0..ssd_slots.min(blocks);
        for slot in of_ssd.chain(log_first..log_first + log_slots.min(blocks)) {
            block = (block + 2_654_435_761) % blocks;
            let old = map.leaves.get(block);
            let new = if slot < ssd_slots {
                Entry { ssd: slot, ..old }
            } else {
                Entry { log: slot, ..old }
            };
            map.leaves.replace(block, new);
            map.slots.assign(slot, block);
        }
        map
    }

    /// Places kept only because the newer ones are not recorded yet.
    pub(crate) fn displaced_count(&self) -> usize {
        self.displaced.len()
    }

    /// Blocks and the recorded places that they have left.
    pub(crate) fn displaced_slots(&self) -> impl Iterator<Item = (Logical, Slot)> + '_ {
        self.displaced.iter()
    }

    /// Slots that nothing names and that nobody has taken yet.
    pub(crate) fn freed_slots(&self) -> &[Slot] {
        &self.freed
    }

    /// Slots that a record names.
    pub(crate) fn recorded_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.all().filter(|slot| self.slots.is_recorded(*slot))
    }

    /// Blocks that lie in some slot, with their state bits.
    fn blocks(&self) -> impl Iterator<Item = (Logical, u8)> + '_ {
        self.leaves.in_slots().map(|block| (block, self.state(block)))
    }

    /// Blocks by place, counted one by one.
    pub(crate) fn population_found(&self) -> Population {
        let mut found = Population::default();
        self.blocks().for_each(|(_, bits)| found.count(bits, true));
        found
    }

    /// What takes memory until a commit names it: blocks that were written to SSDs, and ranges of all others. A range that
    /// was discarded or removed is one, however long it is. What waits for a hard drive is bounded by its tail.
    pub fn uncommitted(&self) -> u64 {
        self.pending_ssd_blocks + self.pending.ready.len() as u64
    }

    /// Blocks that wait for no hard drive before they are recorded: as counted, and one by one.
    pub(crate) fn pending_counts(&self) -> (u64, u64) {
        let count =
            |queue: &[Hinted]| -> u64 { queue.iter().map(|hinted| hinted.touch.count).sum() };
        (self.pending_blocks, count(&self.pending.ready) + count(&self.pending.ssd))
    }
}
