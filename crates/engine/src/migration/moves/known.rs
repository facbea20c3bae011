//! Does a move know what its sources must hold, and which pages stay in RAM until it does?

/// What it knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    are_known: bool,
    pages: Vec<u32>,
}

impl Sums {
    /// Is all known?
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// A page is needed. False: it was noted before.
    pub(super) fn pin(&mut self, page: u32) -> bool {
        let is_new = !self.pages.contains(&page);
        if is_new {
            self.pages.push(page);
        }
        is_new
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
