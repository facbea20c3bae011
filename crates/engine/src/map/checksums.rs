//! What is the checksum of a block, as recorded?
//!
//! Source: design decision 7. A block has one version that a record names, and all its places hold that one: home, slot
//! of an SSD, slot of a log. So the table goes by block. On the drives it has leaves of the map's table (`pages`),
//! which is kept here, too. In RAM there are a bounded cache of its leaves as they are there, and over them the values
//! that the journal holds and the leaves do not have yet. A checkpoint carries those into the leaves before it
//! cuts the journal. What no record names yet is kept by slot (`unrecorded`). Fragments have their own (`fragment`).
//!
//! ```text
//! set ─▶ fresh ─▶ carry (a checkpoint writes the leaf elsewhere) ─▶ carried ─▶ durable: the root names the leaf
//!          ▲                                                              │
//!          └──────────────────────── failed ◀─────────────────────────────┘
//! ```

use super::values::{PageValues, Values};
use super::{Entry, FixedState, Logical, Map, NONE, Slot};
use crate::format::leaf::LeafImage;
use crate::format::page::{self, Checksums, PAGE_CHECKSUMS};
use crate::format::pointer::{
    Kind, MAP_TABLE, MapLeaf, PAGE_BYTES, Pointer, TableRoot, groups_of, leaves_of,
};
use crate::pages::{Counts, NoRoom, PageWrite, Pages};
use hashbrown::HashMap;
use std::collections::{BTreeSet, VecDeque};

/// The table of the map, and the cache of its leaves with checksums.
#[derive(Clone, Debug)]
pub(crate) struct BlockChecksums {
    table: Pages,
    blocks: u64,
    homes: u64,
    /// `None`: all of it is zero, or nobody looks.
    pages: HashMap<u32, Option<Box<Checksums>>, FixedState>,
    order: VecDeque<u32>,
    pages_max: usize,
    /// A mutant: a page that is read while it is written lacks what is written.
    forgets_carried: bool,
    /// Somebody looks at what is read. Else pages come and go, and have no bytes in memory.
    contents: bool,
    /// Pages that stay in RAM, since requests are about to read their blocks; and how many do.
    pinned: HashMap<u32, u32, FixedState>,
    /// Pages in RAM that nobody could read.
    lost: BTreeSet<u32>,
    /// Recorded values not yet in a page on the drive.
    fresh: Values,
    /// Values whose pages no durable root names yet. A page that was read where it was before lacks them.
    carried: Values,
}

/// Pages that a checkpoint awaits at once (guess: a drive that goes bad has some hundreds that cannot be read).
const AWAITED_MAX: usize = 64;
/// … from a hard drive: each read takes 8 ms, and users wait as long (guess).
const AWAITED_OF_HDD_MAX: usize = 4;
/// Pages that leave memory in one step, beside those that make room for another (guess: 30 us).
const EVICTED_MAX: usize = 256;

/// Page that holds the block's checksum.
pub(crate) const fn page_of(block: Logical) -> u32 {
    (block / PAGE_CHECKSUMS as u64) as u32
}

/// The leaf of the table that is this page.
fn leaf_of(page: u32) -> u64 {
    MapLeaf::Checksums.leaf(u64::from(page))
}

fn encode(page: Option<&Checksums>) -> Vec<u8> {
    page.map_or_else(|| vec![0; PAGE_BYTES as usize], page::encode)
}

fn no_checksums() -> Box<Checksums> {
    Box::new([0; PAGE_CHECKSUMS])
}

impl BlockChecksums {
    /// A table without blocks, and a cache of at most so many pages.
    pub(crate) fn new(pages_max: usize, contents: bool) -> Self {
        BlockChecksums {
            table: Pages::new(0, MAP_TABLE, 0, 0),
            blocks: 0,
            homes: 0,
            pages: HashMap::default(),
            order: VecDeque::new(),
            pinned: HashMap::default(),
            pages_max: pages_max.max(2),
            contents,
            forgets_carried: false,
            lost: BTreeSet::new(),
            fresh: Values::default(),
            carried: Values::default(),
        }
    }

    /// An empty table for so many blocks, of which so many have homes, in an area with so many pages.
    pub(crate) fn begin_life(&mut self, pool: u128, (blocks, homes): (u64, u64), area_pages: u64) {
        assert!(self.fresh.is_empty() && self.carried.is_empty(), "a life begins with its records");
        assert!(homes <= blocks, "a home is of a block");
        self.table = Pages::new(pool, MAP_TABLE, leaves_of(groups_of(blocks)), area_pages);
        (self.blocks, self.homes) = (blocks, homes);
        let pages = groups_of(blocks) as usize;
        (self.fresh, self.carried) = (Values::new(pages), Values::new(pages));
    }

    /// What a place of a block must hold: this slot, or its home (`NONE`). `None`: a page has to be read.
    #[inline]
    pub(crate) fn of_place(&self, block: Logical, slot: Slot, map: &Map) -> Option<u32> {
        let unrecorded = if slot == NONE {
            // of a version that no record names yet another place tells
            let Entry { ssd, log, .. } = map.entry(block);
            let mut slots = [ssd, log].into_iter().filter(|slot| *slot != NONE);
            slots.find_map(|slot| map.unrecorded_checksum(slot))
        } else {
            map.unrecorded_checksum(slot)
        };
        unrecorded.or_else(|| self.get(block))
    }

    /// Is a page needed before these blocks can be read, or copied?
    pub(crate) fn lacks(&self, block: Logical, map: &Map) -> bool {
        let entry = map.entry(block);
        let needs = |slot: Slot| map.unrecorded_checksum(slot).is_none();
        let is_recorded = entry.home && entry.ssd == NONE && entry.log == NONE
            || [entry.ssd, entry.log].into_iter().any(|slot| slot != NONE && needs(slot));
        is_recorded && self.get(block).is_none()
    }

    /// How many blocks have homes: all, or none in a pool without hard drives.
    pub(crate) fn homes(&self) -> u64 {
        self.homes
    }

    /// The table on the drives.
    pub(crate) fn table(&self) -> &Pages {
        &self.table
    }

    /// The table, while a start reads it.
    pub(crate) fn table_mut(&mut self) -> &mut Pages {
        assert!(self.carried.is_empty(), "a start reads the table before anything is carried");
        &mut self.table
    }

    /// The checksum, if it is in RAM; otherwise the page must be loaded.
    pub(crate) fn get(&self, block: Logical) -> Option<u32> {
        if let Some(checksum) = self.fresh.get(block).or_else(|| self.carried.get(block)) {
            return Some(checksum);
        }
        let number = page_of(block);
        match self.pages.get(&number) {
            Some(page) => {
                Some(page.as_ref().map_or(0, |page| page[block as usize % PAGE_CHECKSUMS]))
            }
            None => self.was_never_written(number).then_some(0),
        }
    }

    fn was_never_written(&self, page: u32) -> bool {
        self.place(page).kind == Kind::Nothing
    }

    /// Where the page can be read.
    pub(crate) fn place(&self, page: u32) -> Pointer {
        self.table.leaf(leaf_of(page))
    }

    /// Is the page in RAM? One that was never written is: it has no bytes on a drive.
    pub(crate) fn has_page(&self, page: u32) -> bool {
        self.pages.contains_key(&page) || self.was_never_written(page)
    }

    /// Takes a page that was read. False: these are not the bytes that it has now.
    pub(crate) fn load(&mut self, page: u32, bytes: &[u8]) -> bool {
        if self.table.check_leaf(leaf_of(page), bytes).is_err() {
            return false;
        }
        let Ok(mut checksums) = page::decode(bytes) else { return false };
        self.lay_carried_over(page, &mut checksums);
        self.keep(page, Some(checksums));
        true
    }

    /// Takes a page as never written: nobody can read it, or there is nothing to read, in an event loop without
    /// contents.
    pub(crate) fn load_empty(&mut self, page: u32) {
        let is_zero = !self.contents || !self.carried.has_page(page);
        let checksums = (!is_zero).then(|| {
            let mut checksums = no_checksums();
            self.lay_carried_over(page, &mut checksums);
            checksums
        });
        self.keep(page, checksums);
    }

    /// A checkpoint may write the page just now.
    fn lay_carried_over(&self, page: u32, checksums: &mut Checksums) {
        if !self.forgets_carried {
            let mut lay = |(within, checksum)| checksums[usize::from(within)] = checksum;
            self.carried.for_each_of(page, &mut lay);
        }
    }

    /// Takes a page as never written, since nobody can read it.
    pub(crate) fn load_lost(&mut self, page: u32) {
        self.load_empty(page);
        self.lost.insert(page);
    }

    /// Does the page in RAM lack what the one on the drives has, since nobody could read that?
    pub(crate) fn is_lost(&self, page: u32) -> bool {
        self.lost.contains(&page)
    }

    fn keep(&mut self, number: u32, page: Option<Box<Checksums>>) {
        self.lost.remove(&number);
        if self.pages.insert(number, page).is_none() {
            self.order.push_back(number);
        }
        self.pin(number);
        self.evict();
        self.unpin(number);
    }

    /// Pages that came first leave memory, some of those that there are too many of.
    pub(crate) fn evict(&mut self) {
        let (mut looks, mut left) = (self.order.len(), EVICTED_MAX);
        while self.pages.len() > self.pages_max && looks > 0 && left > 0 {
            looks -= 1;
            let oldest = self.order.pop_front().expect("every page is in the order");
            if self.pinned.contains_key(&oldest) {
                self.order.push_back(oldest);
                continue;
            }
            left -= 1;
            self.pages.remove(&oldest);
            self.lost.remove(&oldest);
        }
        assert_eq!(self.order.len(), self.pages.len(), "each page in memory is in the order once");
    }

    /// So many pages stay in RAM at most.
    pub(crate) fn set_pages_max(&mut self, pages: usize) {
        self.pages_max = pages.max(2);
    }

    /// How many pages are in RAM.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// How many may be.
    #[cfg(test)]
    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// The page stays in RAM once it is there, until somebody unpins it. Else a request that needs several of them might
    /// never have all.
    pub(crate) fn pin(&mut self, page: u32) {
        *self.pinned.entry(page).or_insert(0) += 1;
    }

    /// A request that has pinned it has what it needs, or has failed.
    pub(crate) fn unpin(&mut self, page: u32) {
        let pins = self.pinned.get_mut(&page).expect("a page is unpinned once for each pin");
        *pins -= 1;
        if *pins == 0 {
            self.pinned.remove(&page);
        }
    }

    /// How often pages are pinned.
    pub(crate) fn pins(&self) -> u64 {
        self.pinned.values().map(|pins| u64::from(*pins)).sum()
    }

    /// Notes the checksum of a version that a batch has just recorded, or a record that is replayed.
    #[inline]
    pub(crate) fn set(&mut self, block: Logical, checksum: u32) {
        assert!(block < self.blocks, "block {block} has a checksum");
        self.fresh.set(block, checksum);
    }

    /// How many pages a checkpoint may await at once: those of half the cache, and no more than so many.
    pub(crate) fn awaited_max(&self, has_ssds: bool) -> usize {
        let most = if has_ssds { AWAITED_MAX } else { AWAITED_OF_HDD_MAX };
        (self.pages_max / 2).clamp(2, most)
    }

    /// Memory of the values that wait for a checkpoint, and of those that one carries, by calculation.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.fresh.memory_bytes() + self.carried.memory_bytes()
    }

    /// How many values wait for a checkpoint.
    #[cfg(test)]
    pub(crate) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    /// The first page from `from` on that has values to carry.
    pub(crate) fn next_fresh_page(&self, from: u32) -> Option<u32> {
        self.fresh.next_page(from)
    }

    /// A checkpoint begins. Both words are mutants.
    pub(crate) fn begin_checkpoint(&mut self, in_place: bool, forgets_carried: bool) {
        self.forgets_carried = forgets_carried;
        assert!(self.carried.is_empty(), "the checkpoint before this one has ended");
        self.table.begin();
        self.table.write_in_place(in_place);
    }

    /// Carries the waiting values of a loaded page into it. It is to be written elsewhere. `None`: there is no room,
    /// and the checkpoint fails.
    ///
    /// # Panics
    /// If the page is not in RAM.
    pub(crate) fn carry(&mut self, number: u32) -> Option<PageWrite> {
        let values =
            self.fresh.take_page(number).expect("a page is written for values that it lacks");
        assert!(!self.carried.has_page(number), "a checkpoint carries a page once");
        if !self.pages.contains_key(&number) {
            assert!(self.was_never_written(number), "the page was loaded");
            self.load_empty(number);
        }
        self.lost.remove(&number); // what is known of it is written
        let page = self.pages.get_mut(&number).expect("the page was loaded");
        if self.contents {
            let page = page.get_or_insert_with(no_checksums);
            values.for_each(|(within, checksum)| page[usize::from(within)] = checksum);
        }
        self.carried.put_page(number, values);
        let bytes = encode(page.as_deref());
        self.table.write(leaf_of(number), bytes, Counts::default())
    }

    /// Where the blocks of a group lie is to be written elsewhere. `None`: there is no room, and nothing has changed.
    /// Nobody reads it before the next start, so it counts as written at once.
    pub(crate) fn write_places(
        &mut self,
        group: u64,
        places: &(LeafImage, Counts),
        blocks: usize,
    ) -> Option<Vec<PageWrite>> {
        let writes = self.table.write_places(group, places, blocks)?;
        self.table.leaves_written();
        Some(writes)
    }

    /// A page as it is on the drives: its bytes.
    ///
    /// # Panics
    /// If it is not in RAM.
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        assert!(!self.table.is_under_way(), "a page is copied as a durable root names it");
        encode(self.pages.get(&number).expect("the page was loaded").as_deref())
    }

    /// All pages of this checkpoint so far were written: from now on they are read where they are now.
    pub(crate) fn pages_written(&mut self) {
        self.table.leaves_written();
    }

    /// The next page of pointers that is to be written. `Ok(None)`: there is no other.
    ///
    /// # Errors
    /// There is no room, and the checkpoint fails.
    pub(crate) fn write_pointers(&mut self) -> Result<Option<PageWrite>, NoRoom> {
        self.table.write_pointers()
    }

    /// A drive is brought level: its pages of pointers come from memory.
    pub(crate) fn write_all_pointers(&mut self) {
        self.table.write_all_pointers();
    }

    /// What the root says of the table.
    pub(crate) fn root(&self) -> TableRoot {
        self.table.root()
    }

    /// The root is durable.
    pub(crate) fn durable(&mut self) {
        self.table.durable();
        let carried = &self.carried;
        let was_carried = |page: &u32| carried.has_page(*page);
        for page in self.lost.extract_if(.., was_carried) {
            // it was taken as lost while it was being written, and can be read again now
            self.pages.remove(&page);
            self.order.retain(|&known| known != page);
        }
        self.end_carrying(|_, _| {});
    }

    /// The checkpoint has failed, and none of its commands is under way: what it carried waits again.
    pub(crate) fn failed(&mut self) {
        self.table.failed();
        let mut fresh = std::mem::take(&mut self.fresh);
        self.end_carrying(|page, values| fresh.put_back(page, values));
        self.fresh = fresh;
    }

    /// Nothing is carried any more. What was is handed on.
    fn end_carrying(&mut self, mut take: impl FnMut(u32, &PageValues)) {
        let mut from = 0;
        while let Some(page) = self.carried.next_page(from) {
            let values = self.carried.take_page(page).expect("it has values");
            take(page, &values);
            from = page;
        }
    }
}

#[cfg(test)]
impl BlockChecksums {
    /// A table whose pages are on the drives, and not in memory.
    pub(crate) fn on_the_drives(homes: u64, area_pages: u64) -> Self {
        let mut table = BlockChecksums::new(2, true);
        table.begin_life(0, (homes, homes), area_pages);
        table.begin_checkpoint(false, false);
        for page in 0..groups_of(homes) as u32 {
            table.set(u64::from(page) * PAGE_CHECKSUMS as u64, 1);
            table.carry(page).expect("there is room");
        }
        table.pages_written();
        while table.write_pointers().expect("there is room").is_some() {}
        table.durable();
        table.pages.clear();
        table.order.clear();
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::area_pages;

    const HOMES: u64 = 5 * PAGE_CHECKSUMS as u64;

    fn table() -> BlockChecksums {
        let mut table = BlockChecksums::new(2, true);
        table.begin_life(9, (HOMES, HOMES), area_pages(5, 0));
        table
    }

    /// A checkpoint of one page, without its end.
    fn carry(table: &mut BlockChecksums, page: u32) -> PageWrite {
        table.begin_checkpoint(false, false);
        let write = table.carry(page).expect("there is room");
        table.pages_written();
        while table.write_pointers().expect("there is room").is_some() {}
        write
    }

    #[test]
    fn a_page_that_is_read_while_it_is_written_has_what_is_written() {
        let mut table = table();
        table.set(5, 55);
        let old = carry(&mut table, 0);
        table.durable();
        table.set(6, 66);
        table.begin_checkpoint(false, false);
        let new = table.carry(0).expect("there is room");
        assert_ne!(old.page, new.page, "the page that holds is not written over");
        // it is dropped, and read again before its write has ended
        table.load_empty(1);
        table.load_empty(2);
        assert!(!table.has_page(0) && table.place(0).page == old.page);
        assert!(!table.load(0, &new.bytes), "it is read where the durable root has it");
        assert!(table.load(0, &old.bytes));
        table.pages_written();
        while table.write_pointers().expect("there is room").is_some() {}
        table.durable();
        assert_eq!((table.get(5), table.get(6)), (Some(55), Some(66)), "the cache has the page");
        assert_eq!(table.place(0).page, new.page);
        assert!(
            table.load(0, &new.bytes) && !table.load(0, &old.bytes),
            "an older page is refused"
        );
    }

    #[test]
    fn what_a_failed_checkpoint_has_carried_waits_again() {
        // (is there a newer value by then, the checksum)
        for (is_newer, want) in [(false, 55), (true, 56)] {
            let mut table = table();
            table.set(5, 55);
            carry(&mut table, 0);
            if is_newer {
                table.set(5, 56);
            }
            table.failed();
            table.load_empty(0);
            assert_eq!((table.get(5), table.fresh_count()), (Some(want), 1));
            assert_eq!(table.next_fresh_page(0), Some(0));
            carry(&mut table, 0);
            table.durable();
            assert_eq!((table.get(5), table.fresh_count()), (Some(want), 0));
        }
    }

    /// Nobody could read it for long, while a checkpoint wrote it elsewhere.
    #[test]
    fn a_page_that_was_lost_is_read_again_when_its_checkpoint_is_durable() {
        // (was it lost before the checkpoint, is it in memory behind it, the checksum of a block that was not carried)
        for (is_before, is_known, want) in [(true, true, Some(0)), (false, false, None)] {
            let mut table = BlockChecksums::on_the_drives(HOMES, area_pages(5, 0));
            table.set(5, 55);
            if is_before {
                table.load_lost(0);
                assert!(table.is_lost(0));
                carry(&mut table, 0);
                assert!(!table.is_lost(0), "what is known of it is written");
            } else {
                table.load_empty(0); // it has the page
                carry(&mut table, 0);
                (1..=2).for_each(|page| table.load_empty(page));
                table.load_lost(0);
                assert_eq!(table.get(5), Some(55));
            }
            table.durable();
            assert_eq!((table.has_page(0), table.get(0)), (is_known, want));
        }
    }

    #[test]
    fn a_page_that_was_never_written_is_not_read() {
        let mut table = table();
        assert!(table.has_page(4));
        assert_eq!(table.get(HOMES - 1), Some(0));
        table.set(HOMES - 1, 7);
        carry(&mut table, 4);
        table.durable();
        (0..2).for_each(|page| table.load_empty(page));
        assert!(!table.has_page(4), "it is on a drive now");
        assert_eq!(table.get(HOMES - 1), None);
    }
}
