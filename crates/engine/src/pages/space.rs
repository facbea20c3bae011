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
    #[cfg(test)]
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Takes `count` pages that follow each other. `None`: so many are not free anywhere.
    pub(super) fn take(&mut self, count: usize) -> Option<u64> {
        assert!(count > 0, "some pages are taken");
        if self.free < count as u64 {
            return None; // and nothing is searched
        }
        let end = self.used.len();
        let behind = self.find(self.next, end, count);
        let first = behind.or_else(|| self.find(0, (self.next + count - 1).min(end), count))?;
        self.used.set_run(first, count, true);
        self.free -= count as u64;
        self.next = first + count;
        Some(first as u64)
    }

    fn find(&self, mut from: usize, to: usize, count: usize) -> Option<usize> {
        loop {
            let first = self.used.next_clear(from, to)?;
            let end = self.used.next_set(first, to).unwrap_or(to);
            if end - first >= count {
                return Some(first);
            }
            from = end;
        }
    }

    /// These pages are named by what a start has read. False: they do not exist, or were named before.
    pub(super) fn occupy(&mut self, first: u64, count: usize) -> bool {
        let end = self.used.len();
        let Some(first) =
            usize::try_from(first).ok().filter(|&first| first < end && count <= end - first)
        else {
            return false;
        };
        if self.used.next_set(first, first + count).is_some() {
            return false;
        }
        self.used.set_run(first, count, true);
        self.free -= count as u64;
        self.next = self.next.max(first + count);
        true
    }

    /// Nobody names these pages any more.
    pub(super) fn give_back(&mut self, first: u64, count: usize) {
        let first = first as usize;
        assert_eq!(self.used.next_clear(first, first + count), None, "pages are given back once");
        self.used.set_run(first, count, false);
        self.free += count as u64;
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
        let mut space = PageSpace::new(10);
        assert_eq!((space.take(3), space.take(4)), (Some(0), Some(3)));
        space.give_back(0, 3);
        assert_eq!(space.take(3), Some(7), "not what was given back just now");
        assert_eq!((space.take(4), space.free()), (None, 3));
        assert_eq!((space.take(2), space.take(2)), (Some(0), None));
        space.give_back(3, 1);
        assert_eq!(space.take(2), Some(2), "pages that became free at different times");
        assert_eq!((space.take(1), space.free()), (None, 0));
    }

    #[test]
    fn a_run_over_the_last_place_is_found() {
        let mut space = PageSpace::new(8);
        assert_eq!((space.take(4), space.take(4)), (Some(0), Some(4)));
        space.give_back(2, 4);
        assert_eq!(space.take(1), Some(2));
        // the last place is 3: behind it there are three, and two before the end
        assert_eq!((space.take(2), space.take(2), space.take(1)), (Some(3), None, Some(5)));
    }

    #[test]
    fn what_a_start_reads_is_occupied_once_and_within_the_area() {
        let mut space = PageSpace::new(8);
        // (first, count, is it so)
        for (first, count, holds) in [
            (2, 2, true),
            (3, 1, false),
            (1, 2, false),
            (7, 1, true),
            (7, 1, false),
            (6, 2, false),
            (8, 1, false),
            (u64::MAX, 1, false),
            (0, 9, false),
        ] {
            assert_eq!(space.occupy(first, count), holds, "{count} pages from {first}");
        }
        assert_eq!(space.free(), 5);
        assert!(space.is_used(7) && !space.is_used(6));
        assert_eq!(space.take(2), Some(0), "behind the last one there are none");
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_page_that_is_free_is_not_given_back() {
        let mut space = PageSpace::new(8);
        space.take(2);
        space.give_back(1, 2);
    }
}
