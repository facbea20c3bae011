//! Which of many things are marked? A plain bitmap with run search.

use tandem_block::Table;

/// A fixed number of bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Table<u64>,
    length: usize,
}

impl Bits {
    /// `length` bits, all clear.
    pub(crate) fn new(length: usize) -> Self {
        Bits { words: Table::new(length.div_ceil(64)), length }
    }

    /// How many bits there are.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Is the bit set?
    #[inline]
    pub(crate) fn get(&self, index: usize) -> bool {
        debug_assert!(index < self.length);
        self.words[index >> 6] >> (index & 63) & 1 == 1
    }

    /// Asks memory for a bit.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        self.words.prefetch(index >> 6);
    }

    /// Sets or clears one bit.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: bool) {
        debug_assert!(index < self.length);
        let mask = 1u64 << (index & 63);
        if value {
            self.words[index >> 6] |= mask;
        } else {
            self.words[index >> 6] &= !mask;
        }
    }

    /// Sets or clears `count` bits from `start`.
    pub(crate) fn set_run(&mut self, start: usize, count: usize, value: bool) {
        assert!(start + count <= self.length, "run beyond the end");
        let mut index = start;
        while index < start + count {
            let within = index & 63;
            let here = (64 - within).min(start + count - index);
            let mask = if here == 64 { u64::MAX } else { ((1u64 << here) - 1) << within };
            if value {
                self.words[index >> 6] |= mask;
            } else {
                self.words[index >> 6] &= !mask;
            }
            index += here;
        }
    }

    /// The first set bit in `from..to`.
    pub(crate) fn next_set(&self, from: usize, to: usize) -> Option<usize> {
        self.next(from, to, 0)
    }

    /// The first clear bit in `from..to`.
    pub(crate) fn next_clear(&self, from: usize, to: usize) -> Option<usize> {
        self.next(from, to, u64::MAX)
    }

    fn next(&self, from: usize, to: usize, flip: u64) -> Option<usize> {
        let to = to.min(self.length);
        let mut index = from;
        while index < to {
            let word = (self.words[index >> 6] ^ flip) >> (index & 63);
            if word != 0 {
                let found = index + word.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            index = (index | 63) + 1;
        }
        None
    }

    /// How many bits are set.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_searches_cross_words() {
        let mut bits = Bits::new(200);
        bits.set_run(60, 80, true);
        assert_eq!(bits.count(), 80);
        assert_eq!(bits.next_set(0, 200), Some(60));
        assert_eq!(bits.next_clear(60, 200), Some(140));
        assert_eq!(bits.next_set(140, 200), None);
        assert_eq!(bits.next_set(0, 60), None);
        bits.set_run(64, 64, false);
        assert_eq!(bits.next_clear(60, 200), Some(64));
        assert_eq!(bits.next_set(64, 200), Some(128));
    }
}
