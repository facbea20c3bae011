//! Checksums of some blocks, kept by the page of the table that they belong to.
//!
//! Most writes are of blocks that lie apart, or of many that follow each other. A page with one value takes no list, and
//! one with many has a place for each of its blocks. A page is found by its number, without a search.

use super::Logical;
use super::marks::Marks;
use crate::format::page::{Checksums, PAGE_CHECKSUMS};
use tandem_block::Table;

/// Block within its page, and checksum.
type Value = (u16, u32);

/// What a page with values takes beside them: its places and its mark.
const PAGE_BYTES: usize = size_of::<PageValues>() + 8;
/// Values of a page that are kept in a list at most.
const LISTED_MAX: usize = 128;

/// A place for each block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dense {
    known: [u64; PAGE_CHECKSUMS / 64],
    checksums: Checksums,
    count: usize,
}

/// The values of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageValues {
    One(Value),
    /// In the order of blocks.
    Few(Vec<Value>),
    Many(Box<Dense>),
}

impl Dense {
    #[inline]
    fn set(&mut self, (within, checksum): Value) -> bool {
        let (word, bit) = (usize::from(within) / 64, 1 << (within % 64));
        let is_new = self.known[word] & bit == 0;
        self.known[word] |= bit;
        self.checksums[usize::from(within)] = checksum;
        self.count += usize::from(is_new);
        is_new
    }

    #[inline]
    fn get(&self, within: u16) -> Option<u32> {
        let is_known = self.known[usize::from(within) / 64] >> (within % 64) & 1 == 1;
        is_known.then(|| self.checksums[usize::from(within)])
    }
}

impl PageValues {
    /// How many.
    fn len(&self) -> usize {
        match self {
            PageValues::One(_) => 1,
            PageValues::Few(values) => values.len(),
            PageValues::Many(dense) => dense.count,
        }
    }

    /// Memory that they take, by calculation: a list has room for half as many again.
    #[inline]
    fn bytes(&self) -> usize {
        PAGE_BYTES
            + match self {
                PageValues::One(_) => 0,
                PageValues::Few(values) => 12 * values.len(),
                PageValues::Many(_) => size_of::<Dense>(),
            }
    }

    /// Hands on each of them, in the order of blocks.
    pub(super) fn for_each(&self, mut take: impl FnMut(Value)) {
        match self {
            PageValues::One(value) => take(*value),
            PageValues::Few(values) => values.iter().copied().for_each(take),
            PageValues::Many(dense) => {
                let all = 0..PAGE_CHECKSUMS as u16;
                all.filter_map(|within| Some((within, dense.get(within)?))).for_each(take);
            }
        }
    }

    #[inline]
    fn get(&self, within: u16) -> Option<u32> {
        match self {
            PageValues::One(value) => (value.0 == within).then_some(value.1),
            PageValues::Few(values) => {
                let at = values.binary_search_by_key(&within, |value| value.0).ok()?;
                Some(values[at].1)
            }
            PageValues::Many(dense) => dense.get(within),
        }
    }

    /// Notes a value. Returns whether there was none of this block.
    #[inline]
    fn set(&mut self, value: Value) -> bool {
        match self {
            PageValues::Many(dense) => dense.set(value),
            PageValues::One(known) if known.0 == value.0 => {
                known.1 = value.1;
                false
            }
            PageValues::One(known) => {
                *self = PageValues::Few(vec![(*known).min(value), (*known).max(value)]);
                true
            }
            PageValues::Few(values) => {
                match values.binary_search_by_key(&value.0, |known| known.0) {
                    Ok(at) => {
                        values[at].1 = value.1;
                        return false;
                    }
                    Err(at) => values.insert(at, value),
                }
                if values.len() > LISTED_MAX {
                    self.spread();
                }
                true
            }
        }
    }

    fn spread(&mut self) {
        let (known, checksums) = ([0; PAGE_CHECKSUMS / 64], [0; PAGE_CHECKSUMS]);
        let mut dense = Box::new(Dense { known, checksums, count: 0 });
        self.for_each(|value| _ = dense.set(value));
        *self = PageValues::Many(dense);
    }
}

/// Values of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// By page: where its values stand, counted from 1.
    places: Table<u32>,
    values: Vec<PageValues>,
    free: Vec<u32>,
    pages: Marks,
    count: usize,
    /// Memory of all lists, by calculation.
    bytes: usize,
}

/// The page of a block, and the block within it.
#[inline]
fn split(block: Logical) -> (u32, u16) {
    let page = PAGE_CHECKSUMS as u64;
    ((block / page) as u32, (block % page) as u16)
}

impl Values {
    /// None, of blocks in so many pages.
    pub(super) fn new(pages: usize) -> Self {
        let (places, marks) = (Table::new(pages), Marks::new(pages));
        let (values, free) = (Vec::new(), Vec::new());
        Values { places, values, free, pages: marks, count: 0, bytes: 0 }
    }

    #[inline]
    fn of(&self, page: u32) -> Option<&PageValues> {
        let place = *self.places.get(page as usize)?;
        (place > 0).then(|| &self.values[place as usize - 1])
    }

    /// The value of a block, if there is one.
    #[inline]
    pub(super) fn get(&self, block: Logical) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let (page, within) = split(block);
        self.of(page)?.get(within)
    }

    /// Notes the value of a block.
    #[inline]
    pub(super) fn set(&mut self, block: Logical, checksum: u32) {
        let (page, within) = split(block);
        let place = self.places[page as usize];
        if place == 0 {
            self.put_page(page, PageValues::One((within, checksum)));
        } else {
            let values = &mut self.values[place as usize - 1];
            let before = values.bytes();
            self.count += usize::from(values.set((within, checksum)));
            self.bytes = self.bytes + values.bytes() - before;
        }
    }

    /// Puts values of a page back, where no newer ones are.
    pub(super) fn put_back(&mut self, page: u32, older: &PageValues) {
        let first = u64::from(page) * PAGE_CHECKSUMS as u64;
        older.for_each(|(within, checksum)| {
            let block = first + u64::from(within);
            if self.get(block).is_none() {
                self.set(block, checksum);
            }
        });
    }

    /// Hands on each value of a page.
    pub(super) fn for_each_of(&self, page: u32, take: impl FnMut(Value)) {
        if let Some(values) = self.of(page) {
            values.for_each(take);
        }
    }

    /// Has the page any?
    pub(super) fn has_page(&self, page: u32) -> bool {
        self.of(page).is_some()
    }

    /// Takes the values of a page.
    pub(super) fn take_page(&mut self, page: u32) -> Option<PageValues> {
        let place = std::mem::take(self.places.get_mut(page as usize)?).checked_sub(1)?;
        self.pages.unmark(page as usize);
        self.free.push(place);
        let empty = PageValues::One((0, 0));
        let values = std::mem::replace(&mut self.values[place as usize], empty);
        assert!(self.count >= values.len(), "values are counted");
        self.count -= values.len();
        self.bytes -= values.bytes();
        Some(values)
    }

    /// Keeps the values of a page that has none.
    pub(super) fn put_page(&mut self, page: u32, values: PageValues) {
        assert_eq!(self.places[page as usize], 0, "the values of a page are kept once");
        self.count += values.len();
        self.bytes += values.bytes();
        self.pages.mark(page as usize);
        let place = self.free.pop().unwrap_or(self.values.len() as u32);
        match self.values.get_mut(place as usize) {
            Some(known) => *known = values,
            None => self.values.push(values),
        }
        self.places[page as usize] = place + 1;
    }

    /// The first page from `from` on that has values.
    pub(super) fn next_page(&self, from: u32) -> Option<u32> {
        self.pages.next(from as usize).map(|page| page as u32)
    }

    /// Memory that they take, by calculation.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// How many values.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Is there none?
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tandem_block::Rng;

    /// Against a plain map of blocks.
    #[test]
    fn values_are_those_of_a_plain_map() {
        let (mut values, mut plain, mut rng) = (Values::new(7), BTreeMap::new(), Rng::new(4));
        for round in 0..5000u32 {
            let spread = 1 << rng.below(11);
            let block = rng.below(6) * 1024 + rng.below(spread);
            if rng.chance_ppm(20_000) {
                let page = (block / 1024) as u32;
                let taken = values.take_page(page);
                let known: Vec<Value> = plain
                    .extract_if(.., |block: &u64, _| (block / 1024) as u32 == page)
                    .map(|(block, value)| ((block % 1024) as u16, value))
                    .collect();
                let mut found = Vec::new();
                taken.iter().for_each(|values| values.for_each(|value| found.push(value)));
                assert_eq!(found, known);
                if let Some(older) = taken.filter(|_| rng.chance_ppm(500_000)) {
                    values.set(block, round);
                    values.put_back(page, &older);
                    let first = u64::from(page) * 1024;
                    plain.extend(known.iter().map(|&(at, value)| (first + u64::from(at), value)));
                    plain.insert(block, round);
                }
            } else {
                values.set(block, round);
                plain.insert(block, round);
            }
            assert_eq!(values.len(), plain.len());
            let bytes: usize =
                (0..7).filter_map(|page| values.of(page)).map(PageValues::bytes).sum();
            assert_eq!(values.memory_bytes(), bytes);
            let other = rng.below(6 * 1024);
            assert_eq!(values.get(other), plain.get(&other).copied());
            let from = rng.below(7) as u32;
            let next = plain.range(u64::from(from) * 1024..).next();
            assert_eq!(values.next_page(from), next.map(|(&block, _)| (block / 1024) as u32));
        }
        assert!(!values.is_empty());
    }
}
