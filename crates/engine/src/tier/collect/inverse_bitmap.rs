//! How much is a request worth? More the smaller it is: the inverse bitmap.
//!
//! Source: [LORIS §III, Eq. 1], after Hystor: `b = 2^(6 - floor(log2 N))` for `N` pages of 4 KiB is
//! added to a counter of 32 bits at every read and write.
//! Differs: the paper's cache asks for 64 pages at most; more count as 64, for which `b` is 1.

use super::by_heat::{ByHeat, Measure};
use super::heat::Heat;
use super::{CollectConfig, CollectorEntry, Touch};
use tandem_block::BLOCK_BYTES;

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "inverse-bitmap",
    summary: "small requests heat an extent more than large ones",
    source: "Loris, section III; Hystor",
    ranks: true,
    build: |config| Box::new(ByHeat::<InverseBitmap, 0>::new(config)),
};

/// The paper's 6: the logarithm of the pages that a request has at most.
const PAGES_MAX_LOG2: u32 = 6;

/// The paper's `b` for so many bytes; none has none.
pub(crate) fn inverse_bitmap(bytes: u64) -> u32 {
    match bytes.div_ceil(BLOCK_BYTES) {
        0 => 0,
        pages => 1 << PAGES_MAX_LOG2.saturating_sub(pages.ilog2()),
    }
}

#[derive(Clone, Debug)]
struct InverseBitmap;

impl Measure<0> for InverseBitmap {
    fn new(_: &CollectConfig) -> Self {
        InverseBitmap
    }

    fn heat(&self, was: u64, _: &mut [u64; 0], touch: &Touch, epoch: u32) -> u64 {
        Heat::from_number(was).plus(inverse_bitmap(touch.bytes), epoch).number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loris_equation_1() {
        let table = [
            (1, 64),
            (2, 32),
            (3, 32),
            (4, 16),
            (7, 16),
            (8, 8),
            (16, 4),
            (32, 2),
            (63, 2),
            (64, 1),
            (65, 1),
            (1 << 40, 1),
        ];
        for (pages, b) in table {
            assert_eq!(inverse_bitmap(pages * BLOCK_BYTES), b, "{pages} pages");
        }
        assert_eq!(inverse_bitmap(512), 64, "a part of a page is a page");
        assert_eq!(inverse_bitmap(0), 0);
    }
}
