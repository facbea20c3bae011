//! Into which page of checksums does a checkpoint carry values next, and which does it await?
//!
//! A page has to be in memory for that. All that are not are awaited side by side, so that pages that nobody can
//! read cost the time of one.

use crate::map::checksums::BlockChecksums;

/// RAM for checksums that wait for a checkpoint at most, before one begins (guess): a million that lie apart.
pub(super) const FRESH_BYTES_MAX: usize = 48 << 20;

/// How far a checkpoint has come with the pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Carrying {
    /// Values that come for pages before this one are for the next checkpoint.
    next_page: u32,
    /// Pages before that one that were not in memory.
    awaited: Vec<u32>,
}

impl Carrying {
    /// The next page, which is in memory. `None`: there is no other, or those that are left have to come first.
    pub(super) fn next(&mut self, checksums: &BlockChecksums, has_ssds: bool) -> Option<u32> {
        if let Some(at) = self.awaited.iter().position(|&page| checksums.has_page(page)) {
            return Some(self.awaited.remove(at));
        }
        while self.awaited.len() < checksums.awaited_max(has_ssds) {
            let page = checksums.next_fresh_page(self.next_page)?;
            self.next_page = page + 1;
            if checksums.has_page(page) {
                return Some(page);
            }
            self.awaited.push(page);
        }
        None
    }

    /// Pages that have to be in memory first.
    pub(super) fn missing(&self, checksums: &BlockChecksums) -> Vec<u32> {
        self.awaited.iter().copied().filter(|&page| !checksums.has_page(page)).collect()
    }

    /// Was there a next one for all values that there were?
    pub(super) fn is_over(&self, checksums: &BlockChecksums) -> bool {
        self.awaited.is_empty() && checksums.next_fresh_page(self.next_page).is_none()
    }
}
