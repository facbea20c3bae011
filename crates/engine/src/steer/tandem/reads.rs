//! How probable is it that what is written here will be read soon?
//!
//! Source: frontier D0, `E[future]`. A table of fixed size counts reads and writes by extent. Extents that share an
//!         entry share its numbers: then a block looks as often read as the busiest of them.

use crate::map::Logical;

/// Blocks of an extent, as a power of two: 1 MiB.
const EXTENT_SHIFT: u32 = 8;
/// Entries, as a power of two: 32 KiB in all.
const ENTRIES_SHIFT: u32 = 13;
/// When a count is full, both of its entry are halved: the past fades.
const COUNT_MAX: u16 = 255;
/// Of a place that nobody has read or written yet, as if so many had been seen beside the mean of all.
const PRIOR: u64 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct ExtentCounts {
    reads: u16,
    writes: u16,
}

/// Counts by extent.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    entries: Vec<ExtentCounts>,
    all: ExtentCounts,
}

impl Default for Reads {
    fn default() -> Self {
        Reads {
            entries: vec![ExtentCounts::default(); 1 << ENTRIES_SHIFT],
            all: ExtentCounts::default(),
        }
    }
}

fn place(block: Logical) -> usize {
    // Fibonacci hashing: the upper bits of the product are spread evenly
    ((block >> EXTENT_SHIFT).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - ENTRIES_SHIFT)) as usize
}

impl ExtentCounts {
    fn count(&mut self, read: bool) {
        let count = if read { &mut self.reads } else { &mut self.writes };
        *count += 1;
        if *count == COUNT_MAX {
            (self.reads, self.writes) = (self.reads / 2, self.writes / 2);
        }
    }
}

impl Reads {
    /// A request for this block.
    pub(super) fn note(&mut self, block: Logical, read: bool) {
        self.entries[place(block)].count(read);
        self.all.count(read);
    }

    /// Reads of this extent, as millionths of its reads and writes.
    pub(super) fn share_ppm(&self, block: Logical) -> u64 {
        let (of, all) = (self.entries[place(block)], self.all);
        let total = |entry: ExtentCounts| u64::from(entry.reads) + u64::from(entry.writes);
        let prior = PRIOR * u64::from(all.reads) * 1_000_000 / total(all).max(1);
        (u64::from(of.reads) * 1_000_000 + prior) / (total(of) + PRIOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_told_from_what_was_only_written() {
        let mut reads = Reads::default();
        assert_eq!(reads.share_ppm(0), 0, "nothing was read");
        for round in 0..200 {
            reads.note(5, true);
            reads.note(5, round % 2 == 0);
            reads.note(5_000_000, false);
        }
        let (often, never) = (reads.share_ppm(5), reads.share_ppm(5_000_000));
        assert!(often > 700_000 && never < 20_000, "{often} {never}");
        let unknown = reads.share_ppm(77_000_000);
        assert!((400_000..600_000).contains(&unknown), "as all of it: {unknown}");
    }

    #[test]
    fn the_past_fades() {
        let mut reads = Reads::default();
        (0..10_000).for_each(|_| reads.note(5, true));
        (0..1_000).for_each(|_| reads.note(5, false));
        assert!(reads.share_ppm(5) < 300_000, "{}", reads.share_ppm(5));
    }
}
