//! Which pages of an area are free?
//!
//! Pages are given out behind the last ones that were given. So a page that nobody names any more stays as it
//! was for as long as there is room.

use crate::map::bits::Bits;

/// The pages of an area.
#[derive(Clone, Debug)]
pub(super) struct PageSpace {
    used: Bits,
    next: usize,
    free: u64,
}

impl PageSpace {
    /// So many pages, all free.
    pub(super) fn new(pages: u64) -> Self {
        let used = Bits::new(
            usize::try_from(pages).expect("an area has fewer pages than memory has bytes"),
        );
        PageSpace { used, next: 0, free: pages }
    }

    /// How many there are.
    pub(super) fn pages(&self) -> u64 {
        self.used.len() as u64
    }

    /// How many are free.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes a page. `None`: none is free.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.free == 0 {
            return None; // and nothing is searched
        }
        let end = self.used.len();
        let behind = self.used.next_clear(self.next, end);
        let page = behind.or_else(|| self.used.next_clear(0, self.next));
        let page = page.expect("what is free is counted");
        self.used.set(page, true);
        self.free -= 1;
        self.next = page + 1;
        Some(page as u64)
    }

    /// This page is named by what a start has read. False: it does not exist, or was named before.
    pub(super) fn occupy(&mut self, page: u64) -> bool {
        let Some(page) = usize::try_from(page).ok().filter(|&page| page < self.used.len()) else {
            return false;
        };
        if self.used.get(page) {
            return false;
        }
        self.used.set(page, true);
        self.free -= 1;
        self.next = self.next.max(page + 1);
        true
    }

    /// Nobody names this page any more.
    pub(super) fn give_back(&mut self, page: u64) {
        assert!(self.used.get(page as usize), "a page is given back once");
        self.used.set(page as usize, false);
        self.free += 1;
    }

    /// The first page from this one on that is in use.
    pub(super) fn next_used(&self, page: u64) -> Option<u64> {
        let end = self.used.len();
        let found = self.used.next_set((page as usize).min(end), end)?;
        Some(found as u64)
    }

    /// Is this page in use?
    #[cfg(test)]
    pub(super) fn is_used(&self, page: u64) -> bool {
        self.used.get(page as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_in_turn_and_found_behind_the_end_again() {
        let mut space = PageSpace::new(4);
        assert_eq!([space.take(), space.take()], [Some(0), Some(1)]);
        space.give_back(0);
        assert_eq!(space.take(), Some(2), "not what was given back just now");
        assert_eq!([space.take(), space.take(), space.take()], [Some(3), Some(0), None]);
        space.give_back(2);
        assert_eq!((space.free(), space.take(), space.take()), (1, Some(2), None));
    }

    #[test]
    fn what_a_start_reads_is_occupied_once_and_within_the_area() {
        let mut space = PageSpace::new(8);
        // (page, is it so)
        for (page, holds) in
            [(2, true), (2, false), (6, true), (7, true), (7, false), (8, false), (u64::MAX, false)]
        {
            assert_eq!(space.occupy(page), holds, "page {page}");
        }
        assert_eq!(space.free(), 5);
        assert!(space.is_used(7) && !space.is_used(5));
        assert_eq!(space.take(), Some(0), "behind the last one there are none");
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_page_that_is_free_is_not_given_back() {
        let mut space = PageSpace::new(8);
        space.take();
        space.give_back(1);
    }
}
