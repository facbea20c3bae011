//! Does a move know what its sources must hold, and which pages of checksums does it still await?

/// Pages that a move awaits at once where no SSD has them: each read of a hard drive takes 8 ms, and users wait as
/// long (guess).
const AT_ONCE_ON_HDD: usize = 4;
/// … and on SSDs (guess).
const AT_ONCE: usize = 16;

/// What it knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    are_known: bool,
    is_gathered: bool,
    /// Pages that are needed, and stay in RAM until all is known.
    pages: Vec<u32>,
    /// So many of them have come, or do not come.
    over: usize,
    /// So many were asked for.
    asked: usize,
}

impl Sums {
    /// Is all known?
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// Are the pages that are needed noted?
    pub(super) fn is_gathered(&self) -> bool {
        self.is_gathered
    }

    /// Notes the pages that are needed, each once.
    pub(super) fn gather(&mut self, mut pages: Vec<u32>) -> &[u32] {
        assert!(!self.is_gathered && !self.are_known, "pages are gathered once");
        pages.sort_unstable();
        pages.dedup();
        (self.is_gathered, self.pages) = (true, pages);
        &self.pages
    }

    /// The page to await next, of those that were asked for.
    pub(super) fn next(&self) -> Option<u32> {
        self.pages[..self.asked].get(self.over).copied()
    }

    /// A page to be asked for now.
    pub(super) fn ask(&mut self, has_ssds: bool) -> Option<u32> {
        let at_once = if has_ssds { AT_ONCE } else { AT_ONCE_ON_HDD };
        let page = self.pages.get(self.asked).copied().filter(|_| self.asked < self.over + at_once);
        self.asked += usize::from(page.is_some());
        page
    }

    /// The page that was awaited is there, or does not come.
    pub(super) fn pass(&mut self) {
        assert!(self.over < self.asked, "a page that comes was asked for");
        self.over += 1;
    }

    /// A page has left RAM again: all of them are asked for once more.
    pub(super) fn ask_again(&mut self) {
        assert!(self.over == self.pages.len(), "all pages have come");
        (self.over, self.asked) = (0, 0);
    }

    /// All is known. Returns the pages that were needed.
    pub(super) fn learn(&mut self) -> Vec<u32> {
        assert!(!self.are_known, "a move learns once");
        self.are_known = true;
        std::mem::take(&mut self.pages)
    }

    /// How many pages stay in RAM for it.
    pub(crate) fn pinned(&self) -> usize {
        self.pages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_pages_are_awaited_at_once() {
        for (has_ssds, at_once) in [(true, AT_ONCE), (false, AT_ONCE_ON_HDD)] {
            let mut sums = Sums::default();
            assert_eq!(sums.gather(vec![9, 3, 9]), [3, 9]);
            let mut sums = Sums::default();
            sums.gather((0..100).rev().collect());
            assert_eq!(std::iter::from_fn(|| sums.ask(has_ssds)).count(), at_once);
            for page in 0..100 {
                assert_eq!(sums.next(), Some(page));
                sums.pass();
                let next = sums.ask(has_ssds);
                assert_eq!(next, Some(page + at_once as u32).filter(|next| *next < 100));
            }
            assert_eq!((sums.next(), sums.pinned()), (None, 100));
            sums.ask_again();
            assert_eq!((sums.next(), sums.ask(has_ssds)), (None, Some(0)));
            assert_eq!((sums.learn().len(), sums.pinned()), (100, 0));
        }
    }
}
