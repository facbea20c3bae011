//! What is the checksum of a home block?
//!
//! Source: design decision 7. On the drive a table of pages; in RAM a bounded cache of pages as they
//! are there, and over them the values that the journal holds and the pages do not have yet. A
//! checkpoint carries those into the pages before it cuts the journal.

use super::{FixedState, Logical};
use crate::format::FormatError;
use crate::format::page::{self, PAGE_CHECKSUMS};
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug)]
struct Page {
    version: u64,
    checksums: Box<[u32; PAGE_CHECKSUMS]>,
}

/// Cache of the table.
#[derive(Clone, Debug)]
pub(crate) struct HomeChecksums {
    pages: HashMap<u32, Page, FixedState>,
    order: VecDeque<u32>,
    pages_max: usize,
    /// Recorded values not yet in a page on the drive.
    fresh: BTreeMap<Logical, u32>,
    /// Values whose pages are being written: until that is done, a page that was dropped from the
    /// cache and read again may lack them.
    carried: BTreeMap<Logical, u32>,
    /// The versions that these pages are being given.
    carried_versions: BTreeMap<u32, u64>,
    /// Pages that were written and not flushed since: the copy that holds may be the other one.
    unsure: BTreeSet<u32>,
}

/// What was found where a page is stored twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// Both copies are sound, or as before the page was ever written.
    Sound,
    /// One copy is damaged: it may have been the newer one, so the sound one may be too old.
    Doubtful,
    /// Neither can be read.
    Lost,
}

/// Page that holds the block's checksum.
pub(crate) const fn page_of(block: Logical) -> u32 {
    (block / PAGE_CHECKSUMS as u64) as u32
}

impl HomeChecksums {
    /// An empty cache of at most so many pages.
    pub(crate) fn new(pages_max: usize) -> Self {
        HomeChecksums {
            pages: HashMap::default(),
            order: VecDeque::new(),
            pages_max: pages_max.max(2),
            fresh: BTreeMap::new(),
            carried: BTreeMap::new(),
            carried_versions: BTreeMap::new(),
            unsure: BTreeSet::new(),
        }
    }

    /// The checksum, if it is in RAM; otherwise the page must be loaded.
    pub(crate) fn get(&self, block: Logical) -> Option<u32> {
        if let Some(&checksum) = self.fresh.get(&block).or_else(|| self.carried.get(&block)) {
            return Some(checksum);
        }
        let page = self.pages.get(&page_of(block))?;
        Some(page.checksums[block as usize % PAGE_CHECKSUMS])
    }

    /// Is the page in RAM?
    pub(crate) fn has_page(&self, page: u32) -> bool {
        self.pages.contains_key(&page)
    }

    /// Takes a page that was read (the sounder and newer of its two copies), unless a newer one is known
    /// from another home of the metadata.
    pub(crate) fn load(&mut self, pool: u128, page: u32, bytes: &[u8]) -> Loaded {
        let mut best: Option<Page> = None;
        let (mut foreign, mut damaged) = (0, 0);
        for copy in bytes.chunks_exact(page::PAGE_BYTES as usize) {
            let mut checksums = Box::new([0u32; PAGE_CHECKSUMS]);
            match page::decode(copy, pool, u64::from(page), &mut checksums) {
                Ok(version) if best.as_ref().is_none_or(|best| version > best.version) => {
                    best = Some(Page { version, checksums });
                }
                Ok(_) => {}
                // what a drive held before it was formatted: such a page was never written
                Err(FormatError::Magic { .. } | FormatError::Field { .. }) => foreign += 1,
                Err(_) => damaged += 1,
            }
        }
        let never_written = || Page { version: 0, checksums: Box::new([0; PAGE_CHECKSUMS]) };
        let best = best.or_else(|| (foreign == 2).then(never_written));
        let Some(mut best) = best else { return Loaded::Lost };
        self.bring_up_to_date(page, &mut best);
        if self.pages.get(&page).is_none_or(|known| known.version < best.version) {
            self.keep(page, best);
        }
        if damaged == 0 { Loaded::Sound } else { Loaded::Doubtful }
    }

    /// What was read while the page was being written may be what it was before.
    fn bring_up_to_date(&self, number: u32, page: &mut Page) {
        let Some(&version) = self.carried_versions.get(&number) else { return };
        page.version = page.version.max(version);
        let first = u64::from(number) * PAGE_CHECKSUMS as u64;
        let range = first..first + PAGE_CHECKSUMS as u64;
        for (&block, &checksum) in self.carried.range(range) {
            page.checksums[(block - first) as usize] = checksum;
        }
    }

    /// Takes a page as never written: in an event loop without contents nothing can be read.
    pub(crate) fn load_empty(&mut self, page: u32) {
        self.keep(page, Page { version: 0, checksums: Box::new([0; PAGE_CHECKSUMS]) });
    }

    fn keep(&mut self, number: u32, page: Page) {
        if self.pages.insert(number, page).is_none() {
            self.order.push_back(number);
        }
        while self.pages.len() > self.pages_max {
            let oldest = self.order.pop_front().expect("every page is in the order");
            self.pages.remove(&oldest);
        }
        assert_eq!(self.order.len(), self.pages.len(), "each page in memory is in the order once");
    }

    /// Notes the checksum of a home that a durable record calls valid.
    pub(crate) fn set(&mut self, block: Logical, checksum: u32) {
        self.fresh.insert(block, checksum);
    }

    /// How many values wait for a checkpoint.
    pub(crate) fn fresh_count(&self) -> usize {
        self.fresh.len()
    }

    /// The first page from `from` on that has values to carry.
    pub(crate) fn next_fresh_page(&self, from: u32) -> Option<u32> {
        let first = u64::from(from) * PAGE_CHECKSUMS as u64;
        self.fresh.range(first..).next().map(|(&block, _)| page_of(block))
    }

    /// Carries the waiting values of a loaded page into it. Returns which copy to write (0 or 1)
    /// and its bytes.
    ///
    /// # Panics
    /// If the page is not in RAM.
    pub(crate) fn carry(&mut self, pool: u128, number: u32) -> (u64, Vec<u8>) {
        let first = u64::from(number) * PAGE_CHECKSUMS as u64;
        let range = first..first + PAGE_CHECKSUMS as u64;
        let values: Vec<(Logical, u32)> =
            self.fresh.range(range).map(|(&block, &checksum)| (block, checksum)).collect();
        assert!(!values.is_empty(), "a page is written for values that it lacks");
        let page = self.pages.get_mut(&number).expect("the page was loaded");
        for (block, checksum) in values {
            page.checksums[(block - first) as usize] = checksum;
            self.fresh.remove(&block);
            self.carried.insert(block, checksum);
        }
        // a copy that may not be durable is written over itself, and never the one that is
        page.version += if self.unsure.insert(number) { 1 } else { 2 };
        let before = self.carried_versions.insert(number, page.version);
        assert!(before.is_none(), "a checkpoint carries a page once");
        let bytes = page::encode(pool, u64::from(number), page.version, &page.checksums);
        (page.version % 2, bytes)
    }

    /// A loaded page as it is on the drive: which copy it is and its bytes.
    ///
    /// # Panics
    /// If the page is not in RAM.
    pub(crate) fn encode(&self, pool: u128, number: u32) -> (u64, Vec<u8>) {
        let page = self.pages.get(&number).expect("the page was loaded");
        let bytes = page::encode(pool, u64::from(number), page.version, &page.checksums);
        (page.version % 2, bytes)
    }

    /// Every page that was carried until now is durable.
    pub(crate) fn carried_durably(&mut self) {
        assert!(self.carried.is_empty(), "pages are flushed when they are written");
        self.unsure.clear();
    }

    /// The pages that were carried are written (or not: then their values wait again).
    pub(crate) fn carried_done(&mut self, written: bool) {
        let carried = std::mem::take(&mut self.carried);
        self.carried_versions.clear();
        if !written {
            for (block, checksum) in carried {
                self.fresh.entry(block).or_insert(checksum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_read_while_it_is_written_has_what_is_written() {
        let mut table = HomeChecksums::new(2);
        table.load_empty(0);
        table.set(5, 55);
        let before = [table.encode(9, 0).1, vec![0; page::PAGE_BYTES as usize]].concat();
        let (copy, _) = table.carry(9, 0);
        // it is dropped, and read again before its write has ended
        table.load_empty(1);
        table.load_empty(2);
        assert!(!table.has_page(0));
        // what was being written is not damaged, it was never there
        assert_eq!(table.load(9, 0, &before), Loaded::Sound);
        table.carried_done(true);
        table.carried_durably();
        assert_eq!(table.get(5), Some(55), "the write has ended, and the cache has the page");
        table.set(6, 66);
        let (next, bytes) = table.carry(9, 0);
        assert_ne!(copy, next, "the copy that holds is not written over");
        let mut checksums = [0; PAGE_CHECKSUMS];
        assert_eq!(page::decode(&bytes, 9, 0, &mut checksums), Ok(2));
        assert_eq!((checksums[5], checksums[6]), (55, 66));
    }

    #[test]
    fn a_page_that_may_not_be_durable_is_written_over_itself() {
        let mut table = HomeChecksums::new(2);
        table.load_empty(0);
        table.set(5, 55);
        let first = table.carry(9, 0).0;
        table.carried_done(false);
        assert_eq!(table.get(5), Some(55), "it waits again");
        assert_eq!(table.carry(9, 0).0, first, "the other copy is the one that holds");
        table.carried_done(true);
        table.carried_durably();
        table.set(6, 66);
        assert_ne!(table.carry(9, 0).0, first);
    }
}
