//! Which few of very many things are marked? A bitmap with a summary, which is searched and emptied by what it holds.
//!
//! Groups of blocks and pages of an area are hundreds of millions in a large pool, and a checkpoint has to do with some
//! thousands of them. A bit of the summary says that a word of 64 has a mark. So a search over all of it looks at a
//! 64th of the words. `Bits` is for what is dense, or asked for with every block.

use tandem_block::Table;

/// Marks for a fixed number of things.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    words: Table<u64>,
    /// A bit for each word that is not zero.
    summary: Table<u64>,
    length: usize,
}

impl Marks {
    /// None of so many is marked.
    pub(crate) fn new(length: usize) -> Self {
        let words = length.div_ceil(64);
        Marks { words: Table::new(words), summary: Table::new(words.div_ceil(64)), length }
    }

    /// Of how many things.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Is it marked?
    #[inline]
    pub(crate) fn get(&self, index: usize) -> bool {
        debug_assert!(index < self.length);
        self.words[index >> 6] >> (index & 63) & 1 == 1
    }

    /// Marks it.
    #[inline]
    pub(crate) fn mark(&mut self, index: usize) {
        assert!(index < self.length, "what is marked exists");
        let (at, bit) = (index >> 6, 1u64 << (index & 63));
        let word = self.words[at];
        if word & bit == 0 {
            if word == 0 {
                self.summary[at >> 6] |= 1 << (at & 63);
            }
            self.words[at] = word | bit;
        }
    }

    /// Its mark goes, if it has one.
    pub(crate) fn unmark(&mut self, index: usize) {
        assert!(index < self.length, "what is marked exists");
        let (at, bit) = (index >> 6, 1u64 << (index & 63));
        let word = self.words[at];
        if word & bit != 0 {
            self.words[at] = word & !bit;
            if word == bit {
                self.summary[at >> 6] &= !(1 << (at & 63));
            }
        }
    }

    /// The first one from `from` on that is marked.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        if from >= self.length {
            return None;
        }
        let at = from >> 6;
        let word = self.words[at] >> (from & 63);
        if word != 0 {
            return Some(from + word.trailing_zeros() as usize);
        }
        let at = self.next_word(at + 1)?;
        Some((at << 6) + self.words[at].trailing_zeros() as usize)
    }

    /// The first word from this one on that is not zero.
    fn next_word(&self, from: usize) -> Option<usize> {
        let mut at = from >> 6;
        let mut beyond = u64::MAX << (from & 63);
        while let Some(summary) = self.summary.get(at) {
            let found = summary & beyond;
            if found != 0 {
                return Some((at << 6) + found.trailing_zeros() as usize);
            }
            (at, beyond) = (at + 1, u64::MAX);
        }
        None
    }

    /// How many are marked.
    pub(crate) fn count(&self) -> u64 {
        let (mut from, mut count) = (0, 0);
        while let Some(at) = self.next_word(from) {
            count += u64::from(self.words[at].count_ones());
            from = at + 1;
        }
        count
    }

    /// All that are marked, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next(from)?;
            from = found + 1;
            Some(found)
        })
    }

    /// Marks all that the other one has marked. It is of as many things.
    pub(crate) fn mark_all(&mut self, other: &Marks) {
        assert_eq!(self.length, other.length, "marks of the same things");
        let mut from = 0;
        while let Some(at) = other.next_word(from) {
            self.words[at] |= other.words[at];
            self.summary[at >> 6] |= 1 << (at & 63);
            from = at + 1;
        }
    }

    /// Takes all marks, in time that goes with them.
    pub(crate) fn take(&mut self) -> Marks {
        let none = Marks::new(self.length);
        std::mem::replace(self, none)
    }

    /// All marks go.
    pub(crate) fn clear(&mut self) {
        let mut from = 0;
        while let Some(at) = self.next_word(from) {
            self.words[at] = 0;
            self.summary[at >> 6] &= !(1 << (at & 63));
            from = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tandem_block::Rng;

    const ALL: usize = 70_000;

    #[test]
    fn as_a_set_would() {
        let mut rng = Rng::new(5);
        let (mut marks, mut plain) = (Marks::new(ALL), BTreeSet::new());
        for round in 0..4_000 {
            let index = (rng.below(9) * 8_190 + rng.below(70)) as usize % ALL;
            match rng.below(9) {
                0..4 => {
                    marks.mark(index);
                    plain.insert(index);
                }
                4..8 => {
                    marks.unmark(index);
                    plain.remove(&index);
                }
                _ => {
                    let from = rng.below(ALL as u64) as usize;
                    assert_eq!(marks.next(from), plain.range(from..).next().copied(), "{from}");
                }
            }
            assert_eq!(marks.get(index), plain.contains(&index));
            if round % 500 == 499 {
                assert!(marks.iter().eq(plain.iter().copied()));
                let mut other = Marks::new(ALL);
                other.mark(round);
                other.mark_all(&marks);
                assert!(plain.iter().all(|&index| other.get(index)) && other.get(round));
                other.clear();
                assert_eq!((other.next(0), other.iter().count()), (None, 0));
            }
        }
        let taken = marks.take();
        assert!(taken.iter().eq(plain.iter().copied()) && marks.next(0).is_none());
    }

    #[test]
    fn the_ends_count() {
        let mut marks = Marks::new(64 * 64 + 1);
        assert_eq!(marks.next(0), None);
        marks.mark(64 * 64);
        for from in [0, 63, 4_095, 4_096] {
            assert_eq!(marks.next(from), Some(4_096));
        }
        assert_eq!((marks.next(4_097), marks.next(usize::MAX)), (None, None));
        assert_eq!(Marks::new(0).next(0), None);
    }

    #[test]
    #[should_panic(expected = "what is marked exists")]
    fn what_does_not_exist_is_not_marked() {
        Marks::new(64).mark(64);
    }
}
