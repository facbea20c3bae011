//! Checksums of some blocks, kept by the page of the table that they belong to.
//!
//! Most writes are of blocks that lie apart, or of many that follow each other. A page with one value takes no list.

use super::Logical;
use crate::format::page::PAGE_CHECKSUMS;
use std::collections::BTreeMap;

/// Block within its page, and checksum.
type Value = (u16, u32);

/// The values of one page, in the order of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageValues {
    One(Value),
    Many(Vec<Value>),
}

impl PageValues {
    /// All of them.
    pub(super) fn as_slice(&self) -> &[Value] {
        match self {
            PageValues::One(value) => std::slice::from_ref(value),
            PageValues::Many(values) => values,
        }
    }

    fn get(&self, within: u16) -> Option<u32> {
        let values = self.as_slice();
        let at = values.binary_search_by_key(&within, |value| value.0).ok()?;
        Some(values[at].1)
    }

    /// Notes a value. Returns whether there was none of this block.
    fn set(&mut self, within: u16, checksum: u32) -> bool {
        if let PageValues::One(value) = *self {
            if value.0 == within {
                *self = PageValues::One((within, checksum));
                return false;
            }
            *self = PageValues::Many(vec![value]);
        }
        let PageValues::Many(values) = self else { unreachable!("it is a list now") };
        // most writes go upwards
        if values.last().is_some_and(|last| last.0 < within) {
            values.push((within, checksum));
            return true;
        }
        match values.binary_search_by_key(&within, |value| value.0) {
            Ok(at) => values[at].1 = checksum,
            Err(at) => {
                values.insert(at, (within, checksum));
                return true;
            }
        }
        false
    }
}

/// Values of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pages: BTreeMap<u32, PageValues>,
    count: usize,
}

/// The page of a block, and the block within it.
#[inline]
fn split(block: Logical) -> (u32, u16) {
    let page = PAGE_CHECKSUMS as u64;
    ((block / page) as u32, (block % page) as u16)
}

impl Values {
    /// The value of a block, if there is one.
    #[inline]
    pub(super) fn get(&self, block: Logical) -> Option<u32> {
        if self.pages.is_empty() {
            return None;
        }
        let (page, within) = split(block);
        self.pages.get(&page)?.get(within)
    }

    /// Notes the value of a block.
    #[inline]
    pub(super) fn set(&mut self, block: Logical, checksum: u32) {
        let (page, within) = split(block);
        let value = (within, checksum);
        let is_new = match self.pages.get_mut(&page) {
            Some(values) => values.set(within, checksum),
            None => self.pages.insert(page, PageValues::One(value)).is_none(),
        };
        self.count += usize::from(is_new);
    }

    /// Puts values of a page back, where no newer ones are.
    pub(super) fn put_back(&mut self, page: u32, older: &PageValues) {
        let first = u64::from(page) * PAGE_CHECKSUMS as u64;
        for &(within, checksum) in older.as_slice() {
            let block = first + u64::from(within);
            if self.get(block).is_none() {
                self.set(block, checksum);
            }
        }
    }

    /// The values of a page.
    pub(super) fn of_page(&self, page: u32) -> &[Value] {
        self.pages.get(&page).map_or(&[], PageValues::as_slice)
    }

    /// Takes the values of a page.
    pub(super) fn take_page(&mut self, page: u32) -> Option<PageValues> {
        let values = self.pages.remove(&page)?;
        let taken = values.as_slice().len();
        assert!(taken > 0 && self.count >= taken, "values are counted");
        self.count -= taken;
        Some(values)
    }

    /// Keeps the values of a page that has none.
    pub(super) fn put_page(&mut self, page: u32, values: PageValues) {
        self.count += values.as_slice().len();
        let old = self.pages.insert(page, values);
        assert!(old.is_none(), "the values of a page are kept once");
    }

    /// All pages with their values, in order.
    pub(super) fn into_pages(self) -> impl Iterator<Item = (u32, PageValues)> {
        self.pages.into_iter()
    }

    /// The first page from `from` on that has values.
    pub(super) fn next_page(&self, from: u32) -> Option<u32> {
        self.pages.range(from..).next().map(|(&page, _)| page)
    }

    /// How many values.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Is there none?
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
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
        let (mut values, mut plain, mut rng) = (Values::default(), BTreeMap::new(), Rng::new(4));
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
                assert_eq!(taken.as_ref().map_or(&[][..], PageValues::as_slice), known);
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
            let other = rng.below(6 * 1024);
            assert_eq!(values.get(other), plain.get(&other).copied());
            let from = rng.below(7) as u32;
            let next = plain.range(u64::from(from) * 1024..).next();
            assert_eq!(values.next_page(from), next.map(|(&block, _)| (block / 1024) as u32));
        }
        assert!(!values.is_empty());
    }
}
