//! Does the map say what a naive one says?
//!
//! Random changes, the same on both; after each the whole entry is compared, and at commits what a
//! checkpoint would bring back.

use super::entry::{self, FRAGMENTS, HOME, SSD};
use super::objects::BlockRange;
use super::recovered::{Recovered, Recovery, slots_in_logs, strays};
use super::slots::first_slot;
use super::*;
use crate::format::leaf::LeafImage;
use crate::format::pointer::Kind;
use crate::format::record_writer::RecordWriter;
use std::collections::BTreeSet;
use tandem_block::{DeviceId, Rng};

/// Blocks that are looked at: at the ends of rows, leaves and groups of leaves, and at both ends of the pool.
const BLOCKS: u64 = 40;
const BEGINS: [Logical; 10] = [0, 62, 126, 1_022, 2_046, 5_000, 262_014, 262_142, 263_166, ALL - 4];
const ALL: u64 = 262_144 + 1_500;

fn at(index: u64) -> Logical {
    BEGINS[(index / 4) as usize] + index % 4
}

type Naives = BTreeMap<Logical, Naive>;

fn nowhere() -> Naives {
    (0..BLOCKS).map(|index| (at(index), Naive::default())).collect()
}

const SSD_SLOTS: u64 = 160;
const LOG_SLOTS: u64 = 120;

/// A block as anyone would write it down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Naive {
    home: bool,
    ssd: Option<Slot>,
    log: Option<Slot>,
    fragments: Vec<Fragment>,
}

impl Naive {
    fn is_absent(&self) -> bool {
        !self.home && self.ssd.is_none() && self.log.is_none() && self.fragments.is_empty()
    }

    fn named(&self) -> impl Iterator<Item = Slot> + '_ {
        self.ssd.into_iter().chain(self.log).chain(self.fragments.iter().map(|f| f.slot))
    }

    /// Older fragments that newer ones cover go; so does a base that they cover together.
    fn lay(&mut self, slot: Slot, mask: u8) {
        self.fragments.push(Fragment { slot, mask });
        let mut covered = 0;
        let mut kept = Vec::new();
        for fragment in self.fragments.iter().rev() {
            if fragment.mask & !covered != 0 {
                covered |= fragment.mask;
                kept.insert(0, *fragment);
            }
        }
        self.fragments = kept;
        if covered == 255 {
            (self.home, self.ssd, self.log) = (false, None, None);
        }
    }
}

struct Pair {
    map: Map,
    naive: Naives,
    recorded: Naives,
    log_free: BTreeSet<Slot>,
    rng: Rng,
    sums: BTreeMap<Slot, u32>,
    /// Of the versions that are recorded.
    table: BTreeMap<Logical, u32>,
}

fn regions() -> Vec<SlotRegion> {
    let region = |device, is_log, count| SlotRegion::new(DeviceId(device), is_log, count, 0);
    vec![
        region(0, false, SSD_SLOTS / 2),
        region(1, false, SSD_SLOTS / 2),
        region(2, true, LOG_SLOTS),
    ]
}

const LOG: DeviceId = DeviceId(2);

fn log_slots() -> std::ops::Range<Slot> {
    first_slot(LOG)..first_slot(LOG) + LOG_SLOTS
}

fn fresh() -> Map {
    Map::new(regions(), ALL as usize, 3)
}

impl Pair {
    fn new(seed: u64) -> Self {
        Pair {
            map: fresh(),
            naive: nowhere(),
            recorded: nowhere(),
            log_free: log_slots().collect(),
            rng: Rng::new(seed),
            sums: BTreeMap::new(),
            table: BTreeMap::new(),
        }
    }

    fn take_slot(&mut self, log: bool) -> Option<Slot> {
        let slot = if log { self.log_free.pop_first() } else { None };
        let slot = match (log, slot) {
            (true, found) => found?,
            _ => self.map.allocate_ssd(1)?.slot,
        };
        self.sums.insert(slot, self.rng.bits() as u32);
        Some(slot)
    }

    fn touch(&mut self, block: Logical, slot: Slot, durable: bool) {
        self.map.touch(Touch { logical: block, count: 1 }, slot, durable);
    }

    fn step(&mut self) {
        let block = at(self.rng.below(BLOCKS));
        let before = self.naive[&block].clone();
        match self.rng.below(10) {
            0..3 => self.write(block, 255),
            3 => {
                let mask = self.rng.between(1, 254) as u8;
                self.write(block, mask);
            }
            4 => {
                self.map.clear(block);
                self.naive.insert(block, Naive::default());
                self.touch(block, NONE, true);
            }
            5 => self.note_home(block, &before),
            6 => self.drop_place(block, &before),
            7 => self.add_copy(block, &before),
            8 => self.move_place(block, &before),
            _ => self.commit(),
        }
        self.compare();
    }

    fn write(&mut self, block: Logical, mask: u8) {
        let log = self.rng.chance_ppm(300_000);
        let Some(slot) = self.take_slot(log) else { return self.commit() };
        let sum = self.sums[&slot];
        let naive = self.naive.get_mut(&block).expect("it is looked at");
        let over = mask != 255 && self.map.assign_fragment(block, slot, mask, sum);
        if mask != 255 {
            assert_eq!(over, !naive.is_absent(), "a fragment needs a base");
        }
        if over {
            naive.lay(slot, mask);
        } else {
            self.map.assign(block, slot, sum);
            *naive = Naive::default();
            *(if log { &mut naive.log } else { &mut naive.ssd }) = Some(slot);
        }
        self.touch(block, slot, log);
    }

    fn note_home(&mut self, block: Logical, before: &Naive) {
        if before.ssd.or(before.log).is_none() {
            return;
        }
        let copied = self.map.watch(block);
        let done = self.map.note_home(&copied);
        assert_eq!(done, before.fragments.is_empty() && !before.home);
        if done {
            self.naive.get_mut(&block).expect("it is looked at").home = true;
            self.touch(block, NONE, true);
        }
        self.map.forget(copied);
    }

    fn drop_place(&mut self, block: Logical, before: &Naive) {
        let places = before.named().count() - before.fragments.len() + usize::from(before.home);
        let Some(slot) = before.ssd.or(before.log).filter(|_| places > 1) else { return };
        assert!(self.map.drop_place(block, slot));
        let naive = self.naive.get_mut(&block).expect("it is looked at");
        *(if before.ssd.is_some() { &mut naive.ssd } else { &mut naive.log }) = None;
        self.touch(block, NONE, true);
        assert!(!self.map.drop_place(block, slot), "a place is given up once");
    }

    fn add_copy(&mut self, block: Logical, before: &Naive) {
        let Some(log) = before.log else { return };
        let Some(ssd) = self.take_slot(false) else { return };
        let done = self.map.add_copy(block, (log, ssd), self.sums[&log]);
        assert_eq!(done, before.ssd.is_none());
        if done {
            self.sums.insert(ssd, self.sums[&log]);
            self.naive.get_mut(&block).expect("it is looked at").ssd = Some(ssd);
            self.touch(block, ssd, false);
        } else {
            self.map.release_unused(Run { slot: ssd, count: 1 });
        }
    }

    fn move_place(&mut self, block: Logical, before: &Naive) {
        let Some(to) = self.take_slot(false) else { return };
        assert!(!self.map.move_place(block, (to, to), 0), "it is not there");
        let Some(from) = before.ssd else {
            return self.map.release_unused(Run { slot: to, count: 1 });
        };
        let sum = self.sums[&from];
        assert!(self.map.move_place(block, (from, to), sum));
        assert!(!self.map.move_place(block, (from, to), sum), "it has moved on");
        self.sums.insert(to, self.sums[&from]);
        self.naive.get_mut(&block).expect("it is looked at").ssd = Some(to);
        self.touch(block, to, false);
    }

    /// Composes everything; what is free afterwards is exactly what neither state names.
    fn commit(&mut self) {
        let limits = Limits { blocks: u64::MAX, body_bytes: 4096 };
        let mut records = RecordWriter::default();
        let batch = self.map.compose(Cover::SsdFlush, limits, &mut records);
        assert!(!batch.is_partial);
        self.recorded = self.naive.clone();
        self.table.extend(batch.sums);
        let mut freed = batch.freed;
        freed.extend(self.map.take_freed());
        for slot in freed {
            self.map.release(slot);
            if log_slots().contains(&slot) {
                assert!(self.log_free.insert(slot), "slot {slot} is freed once");
            }
        }
        let named: BTreeSet<Slot> = self.naive.values().flat_map(Naive::named).collect();
        let in_use = SSD_SLOTS - self.map.ssd_free();
        assert_eq!(in_use, named.iter().filter(|slot| !log_slots().contains(slot)).count() as u64);
        let log_free = log_slots().filter(|slot| !named.contains(slot)).collect();
        assert_eq!(self.log_free, log_free, "freed are exactly the slots that nothing names");
        assert_eq!(self.map.displaced_count(), 0);
    }

    fn compare(&self) {
        assert_same(&self.map, &self.naive, &self.sums, &self.table);
        let mut want = [0; 5];
        for block in (0..BLOCKS).map(at) {
            let bits = self.map.state(block);
            let alone = bits & (SSD | entry::LOG | HOME);
            let is_in_both = bits & (SSD | entry::LOG) == SSD | entry::LOG;
            let in_log = bits & entry::LOG != 0;
            let counts =
                [alone == SSD, alone == SSD | HOME, in_log, is_in_both, bits & FRAGMENTS != 0];
            want.iter_mut().zip(counts).for_each(|(count, is)| *count += u64::from(is));
        }
        let found = self.map.population();
        let copies = found.log_copies();
        let all = [found.dirty_ssd, found.clean_ssd, found.in_log, copies, found.fragmented];
        assert_eq!(all, want);
    }
}

fn assert_same(
    map: &Map,
    naive: &Naives,
    sums: &BTreeMap<Slot, u32>,
    table: &BTreeMap<Logical, u32>,
) {
    for (&block, want) in naive {
        let entry = map.entry(block);
        let some = |slot: Slot| (slot != NONE).then_some(slot);
        let found = Naive {
            home: entry.home,
            ssd: some(entry.ssd),
            log: some(entry.log),
            fragments: map.fragments(block).to_vec(),
        };
        assert_eq!(found, *want, "block {block}");
        assert_eq!(entry.fragmented, !want.fragments.is_empty());
        for slot in want.named() {
            let sum = match map.fragments(block).iter().any(|it| it.slot == slot) {
                true => Some(map.fragment_checksum(slot)),
                false => map.unrecorded_checksum(slot).or(table.get(&block).copied()),
            };
            assert_eq!(sum, Some(sums[&slot]), "block {block}");
            assert!(map.slots().is_place(slot) && map.lies_in(block, slot));
            let is_log = map.slots().is_log(slot);
            assert!(!is_log || map.slots().log_owner(slot) == block);
        }
    }
}

#[test]
fn nothing_new_goes_to_an_ssd_that_is_closed() {
    let mut map = fresh();
    let half = SSD_SLOTS / 2;
    let old = map.allocate_on(0, 10).expect("it is empty");
    map.close_ssd(0, true);
    assert_eq!((map.ssd_slots(), map.ssd_free()), (half, half));
    assert_eq!((map.ssd_used(0), map.ssd_used(1)), (10, 0));
    // what was on its way there still is
    let late = map.allocate_on(0, 2).expect("there is room");
    for _ in 0..half {
        assert!(map.allocate_ssd(1).expect("there is room").slot >= first_slot(DeviceId(1)));
    }
    assert_eq!((map.allocate_ssd(1), map.ssd_free()), (None, 0));
    map.release_unused(old);
    map.release_unused(late);
    assert_eq!((map.ssd_used(0), map.ssd_free()), (0, 0), "it is drained, and counts for nothing");
    map.close_ssd(0, false);
    assert_eq!((map.ssd_slots(), map.ssd_free()), (SSD_SLOTS, half));
}

#[test]
fn the_map_says_what_a_naive_one_says() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        for _ in 0..600 {
            pair.step();
        }
    }
}

#[test]
fn leaves_bring_back_the_recorded_state_and_nothing_newer() {
    for seed in 100..130 {
        let mut pair = Pair::new(seed);
        for _ in 0..200 {
            pair.step();
        }
        pair.commit();
        let mut want = pair.recorded.clone();
        let sums = pair.sums.clone();
        for block in 0..4 {
            // changes that no batch carries; with the slots kept, as the engine keeps them
            let Some(run) = pair.map.allocate_ssd(1) else { continue };
            pair.map.assign(at(block), run.slot, 7);
        }
        for _ in 0..20 {
            // … nor these, which cover some of the recorded fragments
            let Some(run) = pair.map.allocate_ssd(1) else { continue };
            let (block, mask) = (4 + pair.rng.below(BLOCKS - 4), pair.rng.between(1, 254));
            if !pair.map.assign_fragment(at(block), run.slot, mask as u8, 7) {
                pair.map.release_unused(run);
            }
        }
        // of a copy and its log place one comes back: the log, which is durable here, while the block has it
        for (&block, place) in
            want.iter_mut().filter(|(_, it)| it.ssd.is_some() && it.log.is_some())
        {
            let left =
                if pair.map.entry(block).log == NONE { &mut place.log } else { &mut place.ssd };
            *left = None;
        }
        let (mut map, none) = (fresh(), Recovered::nothing());
        for group in 0..pair.map.group_count() as u64 {
            let (image, counts) = pair.map.places(group);
            let blocks = pair.map.blocks_of_group(group);
            assert!(counts.dirty <= counts.on_ssd && usize::from(counts.on_ssd) <= blocks);
            match image.kind(blocks) {
                Kind::Nothing => {}
                Kind::AtHome => {
                    taking(&mut map, &none, true)
                        .at_home(&(group..group + 1))
                        .expect("there are homes");
                }
                _ => {
                    let read = LeafImage::decode(&image.encode().concat()).expect("it comes back");
                    taking(&mut map, &none, true).group(group, &read).expect("a sound leaf");
                }
            }
        }
        assert_same(&map, &want, &sums, &pair.table);
        let used = want.values().flat_map(Naive::named).filter(|s| !log_slots().contains(s)).count()
            as u64;
        assert_eq!(map.ssd_free(), SSD_SLOTS - used);
    }
}

/// What leaves say is a stranger's: no block has more fragments than its record has room for.
#[test]
fn a_block_with_too_many_fragments_is_damaged() {
    for (count, is_sound) in [(8u8, true), (9, false)] {
        let fragments = (0..count).map(|order| (order, Slot::from(order), 1, 7)).collect();
        let (mut map, none) = (fresh(), Recovered::nothing());
        let installed = taking(&mut map, &none, true).fragments(3, fragments);
        assert_eq!(installed.is_ok(), is_sound, "{count}: {installed:?}");
    }
}

/// Two leaves claim one slot: one was composed before its block left it, the other one when it was another's.
/// A record says who left. Without one the leaves contradict each other.
#[test]
fn a_slot_that_two_leaves_claim_goes_to_the_one_that_no_record_replaces() {
    let leaf = |slot| LeafImage {
        placed: std::array::from_fn(|word| u64::from(word == 0)),
        slots: vec![slot],
        ..LeafImage::default()
    };
    // (which of the two blocks a record replaces, who has the slot then)
    for (replaced, owner) in [(Some(0), Some(1024)), (Some(1024), Some(0)), (None, None)] {
        for order in [[0, 1], [1, 0]] {
            let mut recovered = Recovered::default();
            if let Some(block) = replaced {
                // the last record of a block holds
                for slot in [8, 9] {
                    recovered.replace(BlockRange { first: block, count: 1 }, false, slot);
                }
            }
            recovered.end_records();
            let mut map = fresh();
            let mut groups = order.into_iter();
            let taken =
                groups.try_for_each(|it| taking(&mut map, &recovered, true).group(it, &leaf(7)));
            assert_eq!(taken.is_ok(), owner.is_some(), "{replaced:?}: {taken:?}");
            let (Some(owner), Some(replaced)) = (owner, replaced) else { continue };
            assert!(map.lies_in(owner, 7));
            assert!(map.lies_in(replaced, 9) && !map.slots().is_place(8));
            let dirty = map.take_dirty_groups();
            assert!(dirty.get(replaced as usize / 1024) && !dirty.get(owner as usize / 1024));
        }
    }
    let (mut map, none) = (fresh(), Recovered::nothing());
    let beyond = leaf(log_slots().end);
    let taken = taking(&mut map, &none, true).group(0, &beyond);
    assert!(taken.is_err(), "a slot that does not exist");
    let at_home = LeafImage { homes: [1; 16], ..leaf(7) };
    for has_homes in [false, true] {
        let taken = taking(&mut map, &none, has_homes).group(0, &at_home);
        assert_eq!(taken.is_ok(), has_homes, "homes that do not exist");
        let taken = taking(&mut map, &none, has_homes).at_home(&(1..2));
        assert_eq!(taken.is_ok(), has_homes, "homes that do not exist");
    }
    let groups = map.group_count() as u64;
    let taken = taking(&mut map, &none, true).at_home(&(groups..groups + 1));
    assert!(taken.is_err(), "a group too many");
}

/// A record goes over the end of a group, and later ones over parts of it.
#[test]
fn a_record_of_many_blocks_counts_where_no_later_one_does() {
    let range = |first, count| BlockRange { first, count };
    let mut recovered = Recovered::default();
    recovered.replace_fragmented(1_030, false, 30, vec![(0, 31, 1, 7)]);
    recovered.replace(range(1_000, 40), false, 40);
    recovered.replace(range(1_020, 6), true, NONE);
    recovered.replace(range(1_023, 2), false, 5);
    recovered.replace_fragmented(1_001, true, NONE, vec![(0, 32, 2, 7)]);
    recovered.end_records();
    let mut map = fresh();
    for group in [1, 0] {
        let image = LeafImage::default();
        taking(&mut map, &recovered, true).group(group, &image).expect("all is sound");
    }
    for (block, home, ssd) in [
        (999, false, NONE),
        (1_000, false, 40),
        (1_001, true, NONE),
        (1_019, false, 59),
        (1_020, true, NONE),
        (1_023, false, 5),
        (1_024, false, 6),
        (1_025, true, NONE),
        (1_026, false, 66),
        (1_030, false, 70),
        (1_039, false, 79),
        (1_040, false, NONE),
    ] {
        let entry = map.entry(block);
        assert_eq!((entry.home, entry.ssd), (home, ssd), "block {block}");
        assert_eq!(map.fragments(block).len(), usize::from(block == 1_001), "block {block}");
    }
    // what was trimmed takes memory by group, and not by block
    let mut trimmed = Recovered::default();
    (0..1_000).for_each(|run| trimmed.replace(range(run * 8_192, 8_192), false, NONE));
    assert_eq!((trimmed.len(), trimmed.next_group(0)), (8_000, Some(0)));
}

/// Records say what blocks are, also of those whose leaf says something else, or that have no leaf.
#[test]
fn records_go_over_leaves() {
    let mut recovered = Recovered::default();
    let fragments = vec![(0, 11, 1, 7), (1, 12, 2, 7)];
    let one = |first| BlockRange { first, count: 1 };
    recovered.replace(one(5), false, NONE);
    recovered.replace_fragmented(6, true, NONE, fragments.clone());
    recovered.replace_fragmented(7, true, NONE, fragments);
    recovered.replace(one(7), true, NONE);
    recovered.replace(one(1_500), false, log_slots().start);
    recovered.end_records();
    let mut map = fresh();
    assert_eq!((recovered.next_group(0), recovered.next_group(1)), (Some(0), Some(1)));
    assert_eq!(recovered.next_group(2), None);
    for (group, blocks) in [(0, 1024), (1, 0)] {
        let image = LeafImage::at_home(blocks);
        taking(&mut map, &recovered, true).group(group, &image).expect("all is sound");
    }
    taking(&mut map, &recovered, true).at_home(&(2..4)).expect("there are homes");
    let homes = [4, 5, 6, 7, 1_023, 1_024, 2_048, 4_095, 4_096].map(|block| map.entry(block).home);
    assert_eq!(homes, [true, false, true, true, true, false, true, true, false]);
    assert_eq!(map.entry(5), Entry::NOWHERE);
    assert_eq!(map.fragments(6).iter().map(|it| it.slot).collect::<Vec<_>>(), [11, 12]);
    assert!(map.fragments(7).is_empty() && map.entry(1_500).log == log_slots().start);
    assert_eq!(slots_in_logs(&map), [(LOG, vec![log_slots().start])].into());
    // it is kept until a record says that it is nobody's
    map.clear(1_500);
    assert_eq!(slots_in_logs(&map), [(LOG, vec![log_slots().start])].into());
    // what nobody owns
    let owned = [(0, 3), (1_000, 600), (4_000, 500)];
    let owned = owned.map(|(first, count)| BlockRange { first, count });
    let strays = strays(&map, &owned).into_iter().map(|range| (range.first, range.count));
    assert_eq!(strays.collect::<Vec<_>>(), [(3, 2), (6, 994), (2_048, 1_952)]);
}

fn taking<'a>(map: &'a mut Map, recovered: &'a Recovered, has_homes: bool) -> Recovery<'a> {
    Recovery::new(map, recovered, has_homes)
}
