//! How many blocks live where?

use super::entry::{FRAGMENTS, HOME, LOG, SSD};

/// Counts of blocks by where they live now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// On an SSD and nowhere else.
    pub dirty_ssd: u64,
    /// On an SSD and at home.
    pub clean_ssd: u64,
    /// In a log (with or without a copy).
    pub in_log: u64,
    /// … and on an SSD, too: a copy of a tail, or one that stays.
    log_copies: u64,
    /// Under fragments.
    pub fragmented: u64,
}

impl Population {
    /// In a log and on an SSD: copies of tails, and those that stay.
    pub(crate) fn log_copies(&self) -> u64 {
        self.log_copies
    }

    pub(super) fn count(&mut self, bits: u8, add: bool) {
        let step = |counter: &mut u64| {
            assert!(add || *counter > 0, "a block was counted where it lived");
            *counter = if add { *counter + 1 } else { *counter - 1 };
        };
        if bits & LOG != 0 {
            step(&mut self.in_log);
            if bits & SSD != 0 {
                step(&mut self.log_copies);
            }
        } else if bits & (SSD | HOME) == SSD {
            step(&mut self.dirty_ssd);
        } else if bits & SSD != 0 {
            step(&mut self.clean_ssd);
        }
        if bits & FRAGMENTS != 0 {
            step(&mut self.fragmented);
        }
    }
}
