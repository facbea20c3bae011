//! What goes into the next journal batch?
//!
//! Source: design decision 6, first way: a record names durable places only. Recovery then needs no
//! second look at the data, and a bad block is an error with a name instead of a silent step back.

use super::{Entry, Hinted, Logical, Map, NONE, Slot, Touch};
use crate::format::pointer::LEAF_BLOCKS;
use crate::format::record::{
    BLOCK_RECORDS_BYTES_MAX, FLAG_CHECKSUMS, FLAG_HOME, FLAG_LOG_VOLATILE, FragmentRecord,
    FragmentedRecord,
};
use crate::format::record_writer::RecordWriter;

/// Which volatile places a batch may call durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// None: only what is durable already.
    Durable,
    /// All SSD slots: a flush of the SSDs begins at this instant, and the batch is written only
    /// after it succeeded.
    SsdFlush,
}

/// A composed batch.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Bodies of journal units, in order.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Checksums of the versions that it records, which no record has named before.
    pub(crate) sums: Vec<(Logical, u32)>,
    /// Slots that nothing names once the last unit is durable.
    pub(crate) freed: Vec<Slot>,
    /// How many block updates it carries.
    pub(crate) updates: u64,
    /// The limit on blocks cut it short.
    pub(crate) is_partial: bool,
}

/// How large a batch may become.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks in it at most; the rest waits for the next batch.
    pub(crate) blocks: u64,
    /// Bytes of one unit's body at most.
    pub(crate) body_bytes: usize,
}

/// Where touches were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Ready,
    Ssd,
    Hdd(usize),
}

/// How many touches ahead of its record memory is asked for a block: the records between take that long.
const COMPOSED_AHEAD: usize = 8;

impl Map {
    /// Records every touched block whose places are all durable (or covered), and moves the others
    /// on to the queue of what they still wait for.
    pub(crate) fn compose(
        &mut self,
        cover: Cover,
        limits: Limits,
        records: &mut RecordWriter,
    ) -> Batch {
        let mut batch = Batch::default();
        assert!(limits.body_bytes >= BLOCK_RECORDS_BYTES_MAX, "the longest record fits a body");
        let ready = std::mem::take(&mut self.pending.ready);
        self.compose_queue(ready, Queue::Ready, cover, limits, records, &mut batch);
        if cover == Cover::SsdFlush {
            let ssd = std::mem::take(&mut self.pending.ssd);
            self.compose_queue(ssd, Queue::Ssd, cover, limits, records, &mut batch);
        }
        for device in 0..self.pending.hdd.len() {
            if !std::mem::take(&mut self.pending.hdd_durable[device]) {
                continue;
            }
            let hdd = std::mem::take(&mut self.pending.hdd[device]);
            let queue = Queue::Hdd(device);
            self.compose_queue(hdd, queue, cover, limits, records, &mut batch);
        }
        if !records.is_empty() {
            batch.updates += records.updates();
            batch.bodies.push(records.take());
        }
        assert!(batch.bodies.iter().all(|body| !body.is_empty()), "a unit says something");
        assert!(
            cover == Cover::Durable || batch.is_partial || self.pending_blocks == 0,
            "behind a flush of the SSDs blocks wait for hard drives alone"
        );
        batch
    }

    fn compose_queue(
        &mut self,
        touches: Vec<Hinted>,
        queue: Queue,
        cover: Cover,
        limits: Limits,
        records: &mut RecordWriter,
        batch: &mut Batch,
    ) {
        for (at, &Hinted { touch, slot }) in touches.iter().enumerate() {
            if let Some(later) = touches.get(at + COMPOSED_AHEAD) {
                self.prefetch_record(later);
            }
            if !matches!(queue, Queue::Hdd(_)) {
                assert!(self.pending_blocks >= touch.count, "what waits is counted");
                self.pending_blocks -= touch.count;
            }
            if matches!(queue, Queue::Ssd) {
                self.pending_ssd_blocks -= touch.count;
            }
            for i in 0..touch.count {
                let block = touch.logical + i;
                let hint = if slot == NONE { NONE } else { slot + i };
                if batch.updates + records.updates() >= limits.blocks {
                    batch.is_partial = true;
                    let rest = Touch { logical: block, count: touch.count - i };
                    self.put_back(Hinted { touch: rest, slot: hint }, queue);
                    break;
                }
                if records.len_bytes() + BLOCK_RECORDS_BYTES_MAX > limits.body_bytes {
                    batch.updates += records.updates();
                    batch.bodies.push(records.take());
                }
                if self.is_written_to(block, hint, cover) {
                    let checksum = self.unrecorded.get(hint).expect("no record names it");
                    batch.sums.push((block, checksum));
                    let is_log = self.slots.is_log(hint);
                    let (ssd, log) = if is_log { (NONE, hint) } else { (hint, NONE) };
                    records.block(FLAG_CHECKSUMS, block, ssd, log, checksum);
                    self.mark_recorded(block, ssd, log, false, batch);
                } else {
                    self.record_block(block, cover, records, batch);
                }
            }
        }
    }

    /// Asks memory for what the record of a touch's first block will read.
    #[inline]
    fn prefetch_record(&self, later: &Hinted) {
        self.leaves.prefetch(later.touch.logical, 1);
        if later.slot != NONE {
            self.slots.prefetch(later.slot);
        }
    }

    fn put_back(&mut self, rest: Hinted, queue: Queue) {
        assert!(rest.touch.count > 0, "a batch that is cut short leaves some blocks");
        let pending = match queue {
            Queue::Ready => &mut self.pending.ready,
            Queue::Ssd => {
                self.pending_ssd_blocks += rest.touch.count;
                &mut self.pending.ssd
            }
            Queue::Hdd(device) => {
                self.pending.hdd[device].push(rest);
                self.pending.hdd_durable[device] = true;
                return;
            }
        };
        pending.push(rest);
        self.pending_blocks += rest.touch.count;
    }

    /// The common case: is this slot the block's only place, whole, durable (or covered) and not
    /// recorded yet? Then it is news.
    #[inline]
    fn is_written_to(&self, block: Logical, slot: Slot, cover: Cover) -> bool {
        if slot == NONE || self.slots.is_recorded(slot) {
            return false;
        }
        let is_log = self.slots.is_log(slot);
        if self.leaves.get(block) != Entry::in_slot(slot, is_log) {
            return false;
        }
        if is_log { !self.log_volatile.contains_key(&slot) } else { cover == Cover::SsdFlush }
    }

    fn record_block(
        &mut self,
        block: Logical,
        cover: Cover,
        records: &mut RecordWriter,
        batch: &mut Batch,
    ) {
        let entry = self.entry(block);
        if !entry.fragmented {
            // the common case: at most one SSD and one log place
            if !self.may_record(block, entry.ssd, entry.log, cover) {
                return;
            }
            if !self.is_news(block, entry.home, [entry.ssd, entry.log].into_iter()) {
                return;
            }
            let (mut flags, checksum) = self.new_version(block, &entry, batch);
            if entry.home {
                flags |= FLAG_HOME;
            }
            if entry.log != NONE && self.log_volatile.contains_key(&entry.log) {
                flags |= FLAG_LOG_VOLATILE;
            }
            records.block(flags, block, entry.ssd, entry.log, checksum);
        } else if !self.record_fragmented(block, entry, cover, records, batch) {
            return;
        }
        self.mark_recorded(block, entry.ssd, entry.log, entry.home, batch);
    }

    /// The checksum of a version that no record has named before, and the flag that says so. What was recorded once
    /// keeps its checksum, wherever it lies.
    fn new_version(&self, block: Logical, entry: &Entry, batch: &mut Batch) -> (u8, u32) {
        let mut slots = [entry.ssd, entry.log].into_iter().filter(|slot| *slot != NONE);
        match slots.find_map(|slot| self.unrecorded.get(slot)) {
            Some(checksum) => {
                batch.sums.push((block, checksum));
                (FLAG_CHECKSUMS, checksum)
            }
            None => (0, 0),
        }
    }

    fn record_fragmented(
        &mut self,
        block: Logical,
        entry: Entry,
        cover: Cover,
        records: &mut RecordWriter,
        batch: &mut Batch,
    ) -> bool {
        if !self.may_record(block, entry.ssd, entry.log, cover) {
            return false;
        }
        let list = self.fragments.get(&block).expect("the state bits say so").clone();
        assert!(!list.is_empty(), "a block under fragments has some");
        for fragment in &list {
            let (ssd, log) = if self.slots.is_log(fragment.slot) {
                (NONE, fragment.slot)
            } else {
                (fragment.slot, NONE)
            };
            if !self.may_record(block, ssd, log, cover) {
                return false;
            }
        }
        let places = [entry.ssd, entry.log].into_iter().chain(list.iter().map(|f| f.slot));
        if !self.is_news(block, entry.home, places) {
            return false;
        }
        let (mut flags, checksum) = self.new_version(block, &entry, batch);
        if entry.home {
            flags |= FLAG_HOME;
        }
        if entry.log != NONE && self.log_volatile.contains_key(&entry.log) {
            flags |= FLAG_LOG_VOLATILE;
        }
        records.fragmented(&FragmentedRecord {
            flags,
            logical: block,
            ssd: entry.ssd,
            log: entry.log,
            checksum,
            fragments: list
                .iter()
                .map(|f| FragmentRecord {
                    slot: f.slot,
                    checksum: self.fragment_slots[&f.slot].checksum,
                    mask: f.mask,
                })
                .collect(),
        });
        for (order, fragment) in list.iter().enumerate() {
            let known = self.fragment_slots.get_mut(&fragment.slot).expect("it is a fragment");
            known.order = order as u8;
            self.mark_slot(fragment.slot, true);
        }
        true
    }

    /// Are these places of the block durable? If not, the block waits in the queue of the first
    /// that is not, and those that this batch's flush settles are noted as such.
    fn may_record(&mut self, block: Logical, ssd: Slot, log: Slot, cover: Cover) -> bool {
        let touch = Touch { logical: block, count: 1 };
        let ssd_fine = ssd == NONE
            || self.slots.is_recorded(ssd)
            || cover == Cover::SsdFlush
            || self.durable.contains(&ssd);
        // a volatile log place may be named only beside a durable copy of it
        let log_fine = log == NONE || ssd != NONE || !self.log_volatile.contains_key(&log);
        if !ssd_fine {
            self.touch(touch, ssd, false);
            return false;
        }
        if !log_fine {
            if cover == Cover::SsdFlush {
                self.note_covered(block);
            }
            self.touch(touch, log, false);
            return false;
        }
        true
    }

    /// The batch's flush settles the block's SSD slots although it cannot be recorded yet.
    fn note_covered(&mut self, block: Logical) {
        let entry = self.entry(block);
        if entry.ssd != NONE && !self.slots.is_recorded(entry.ssd) {
            self.durable.insert(entry.ssd);
        }
        let list = self.fragments.get(&block).map_or(&[][..], Vec::as_slice);
        for fragment in list {
            if !self.slots.is_log(fragment.slot) && !self.slots.is_recorded(fragment.slot) {
                self.durable.insert(fragment.slot);
            }
        }
    }

    /// Does the recorded state differ from the current one?
    fn is_news(&self, block: Logical, home: bool, places: impl Iterator<Item = Slot>) -> bool {
        self.leaves.recorded_home(block) != home
            || self.settled.contains(&block)
            || self.displaced.contains(block)
            || places.into_iter().any(|slot| slot != NONE && !self.slots.is_recorded(slot))
    }

    /// Does a record that is composed, or durable, say what this block is, or what it was after it was last
    /// nobody's?
    pub(crate) fn is_recorded(&self, block: Logical) -> bool {
        let entry = self.entry(block);
        if entry == Entry::NOWHERE
            || self.leaves.recorded_home(block)
            || self.displaced.contains(block)
        {
            return true;
        }
        let places = [entry.ssd, entry.log].into_iter();
        let mut places = places.chain(self.fragments(block).iter().map(|f| f.slot));
        places.any(|slot| slot != NONE && self.slots.is_recorded(slot))
    }

    fn mark_recorded(
        &mut self,
        block: Logical,
        ssd: Slot,
        log: Slot,
        home: bool,
        batch: &mut Batch,
    ) {
        for slot in [ssd, log] {
            if slot != NONE {
                assert!(self.slots.is_place(slot), "a record names places that its block has");
                debug_assert!(
                    [self.leaves.get(block).ssd, self.leaves.get(block).log].contains(&slot),
                    "… and not those of another one"
                );
                self.mark_slot(slot, true);
            }
        }
        while let Some(slot) = self.displaced.take(block) {
            assert!(
                slot != ssd && slot != log && !self.slots.is_place(slot),
                "a slot that the record names is not freed with it"
            );
            assert!(self.slots.is_recorded(slot), "what was not recorded waits for no record");
            self.mark_slot(slot, false);
            if !self.log_volatile.is_empty() {
                self.log_volatile.remove(&slot);
            }
            batch.freed.push(slot);
        }
        if !self.settled.is_empty() {
            self.settled.remove(&block);
        }
        self.leaves.set_recorded_home(block, home);
        self.dirty_groups.mark(block as usize / LEAF_BLOCKS);
    }

    fn mark_slot(&mut self, slot: Slot, recorded: bool) {
        self.slots.set_recorded(slot, recorded);
        if recorded {
            self.unrecorded.remove(slot);
        }
        if !self.durable.is_empty() {
            self.durable.remove(&slot);
        }
    }
}
