//! What are the least and the greatest of a million keys, when one of them changes?
//!
//! A tree of eights over groups of keys: every entry has the least and the greatest key below it. A key that
//! changes and was neither of them in its group changes nothing above, which is what most requests find;
//! a key that becomes one of them is compared on its way up; only one that was the least and rises, or
//! the greatest and falls, has those beside it looked at, and so on above. So a change takes a few cache lines
//! at most, however many keys there are.
//!
//! Keys are below zero on one side and above it on the other; zero is none.

use std::hint::select_unpredictable;
use std::ops::Range;
use tandem_block::Table;

/// Children of an entry.
pub(crate) const FAN: usize = 8;

/// The least of the keys below zero and the greatest of those above; zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// At most zero.
    pub(crate) least: i128,
    /// At least zero.
    pub(crate) greatest: i128,
}

/// How they lie in memory: both of them, low half first.
const ENDS_WORDS: usize = 4;

impl Ends {
    /// From memory.
    #[inline]
    fn from_words([a, b, c, d]: [u64; ENDS_WORDS]) -> Self {
        Ends { least: key(a, b), greatest: key(c, d) }
    }
}

/// A key from its halves, low half first.
#[inline(always)]
pub(crate) fn key(low: u64, high: u64) -> i128 {
    i128::from(high.cast_signed()) << 64 | i128::from(low)
}

/// Its halves, low half first.
#[inline]
pub(crate) fn key_words(key: i128) -> [u64; 2] {
    [key as u64, (key >> 64) as u64]
}

/// Ends that lie in memory at equal distances: those of the groups, which whoever asks keeps, or of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// All the memory.
    pub(crate) words: &'a [u64],
    /// Where those of the first lie.
    pub(crate) first: usize,
    /// From one to the next.
    pub(crate) distance: usize,
}

impl Row<'_> {
    /// The end of a child that is asked for: the least if so, otherwise the greatest.
    #[inline(always)]
    fn end<const LEAST: bool>(&self, child: usize) -> i128 {
        let at = self.first + child * self.distance + if LEAST { 0 } else { 2 };
        let halves = &self.words[at..][..2];
        key(halves[0], halves[1])
    }
}

/// Ends of eight groups each, of eight of those, and so on up to one of all.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    words: Table<u64>,
    /// Where each level begins, and how many children it has.
    levels: Vec<(usize, usize)>,
}

impl Levels {
    /// Over so many groups.
    pub(crate) fn new(groups: usize) -> Self {
        let (mut levels, mut count, mut words) = (Vec::new(), groups, 0);
        while count > 1 || levels.is_empty() {
            levels.push((words, count));
            count = count.div_ceil(FAN);
            words += count * ENDS_WORDS;
        }
        Levels { words: Table::new(words), levels }
    }

    /// Of all keys.
    #[inline]
    pub(crate) fn root(&self) -> Ends {
        Ends::from_words(*self.words.last_chunk().expect("one of all"))
    }

    /// The least of a group changed, or the greatest, if this says so.
    #[inline]
    pub(crate) fn rise<const LEAST: bool>(
        &mut self,
        groups: Row<'_>,
        group: usize,
        mut was: i128,
        mut is: i128,
    ) {
        let mut child = group;
        for level in 0..self.levels.len() {
            let parent = child / FAN;
            let at = self.levels[level].0 + parent * ENDS_WORDS + if LEAST { 0 } else { 2 };
            let halves = &self.words[at..][..2];
            let before = key(halves[0], halves[1]);
            if further::<LEAST>(is, before) != is {
                if was != before {
                    return;
                }
                let (row, children) = self.children(groups, level, parent);
                is = 0;
                for child in children {
                    is = further::<LEAST>(is, row.end::<LEAST>(child));
                }
            }
            if is == before {
                return;
            }
            let halves = &mut self.words[at..][..2];
            [halves[0], halves[1]] = key_words(is);
            (child, was) = (parent, before);
        }
    }

    /// The group where the least key of all is, or the greatest; it is never zero.
    #[inline]
    pub(crate) fn find<const LEAST: bool>(&self, groups: Row<'_>, end: i128) -> usize {
        let mut parent = 0;
        for level in (0..self.levels.len()).rev() {
            let (row, children) = self.children(groups, level, parent);
            // all of them: nobody foresees which one it is
            for child in children {
                parent = select_unpredictable(row.end::<LEAST>(child) == end, child, parent);
            }
        }
        parent
    }

    /// Any group that has keys above zero: a number says which way. Two that follow each other lead far
    /// apart.
    pub(crate) fn any(&self, groups: Row<'_>, mut number: usize) -> Option<usize> {
        (0..self.levels.len()).rev().try_fold(0, |parent, level| {
            let (row, children) = self.children(groups, level, parent);
            let having = || children.clone().filter(|child| row.end::<false>(*child) > 0);
            let count = having().count();
            let found = having().nth(number.checked_rem(count)?);
            number /= count;
            found
        })
    }

    /// Bytes that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }

    /// The children of an entry of this level, and where they lie.
    #[inline(always)]
    fn children<'a>(
        &'a self,
        groups: Row<'a>,
        level: usize,
        parent: usize,
    ) -> (Row<'a>, Range<usize>) {
        let row = match level {
            0 => groups,
            _ => Row { words: &self.words, first: self.levels[level - 1].0, distance: ENDS_WORDS },
        };
        (row, parent * FAN..self.levels[level].1.min((parent + 1) * FAN))
    }
}

/// The one that is further towards the end; without a branch, because nobody foresees which it is.
#[inline(always)]
pub(crate) fn further<const LEAST: bool>(one: i128, other: i128) -> i128 {
    let nearer = if LEAST { one < other } else { one > other };
    select_unpredictable(nearer, one, other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_what_they_were() {
        for number in [0, 1, -1, i128::MAX, i128::MIN, -(1 << 126), 1 << 64, (1 << 64) - 1] {
            let [low, high] = key_words(number);
            assert_eq!(key(low, high), number);
        }
    }

    /// Of all groups.
    fn all(groups: &[Ends]) -> Ends {
        let both = |one: Ends, other: &Ends| Ends {
            least: one.least.min(other.least),
            greatest: one.greatest.max(other.greatest),
        };
        groups.iter().fold(Ends::default(), both)
    }

    fn words(of: &[Ends]) -> Vec<u64> {
        of.iter()
            .flat_map(|ends| [key_words(ends.least), key_words(ends.greatest)])
            .flatten()
            .collect()
    }

    fn row(words: &[u64]) -> Row<'_> {
        Row { words, first: 0, distance: ENDS_WORDS }
    }

    proptest! {
        /// Against a search, on trees of one to three levels.
        #[test]
        fn the_ends_are_those_of_all(
            groups in 1usize..600,
            steps in proptest::collection::vec((0usize..600, -9i128..=0, 0i128..9), 1..80),
        ) {
            let mut levels = Levels::new(groups);
            let mut truth = vec![Ends::default(); groups];
            for (number, (group, least, greatest)) in steps.into_iter().enumerate() {
                let group = group % groups;
                let (was, is) = (truth[group], Ends { least, greatest });
                truth[group] = is;
                let words = words(&truth);
                levels.rise::<true>(row(&words), group, was.least, is.least);
                levels.rise::<false>(row(&words), group, was.greatest, is.greatest);
                prop_assert_eq!(levels.root(), all(&truth));
                let Ends { least, greatest } = levels.root();
                if least < 0 {
                    let found = levels.find::<true>(row(&words), least);
                    prop_assert_eq!(truth[found].least, least);
                }
                if greatest > 0 {
                    let found = levels.find::<false>(row(&words), greatest);
                    prop_assert_eq!(truth[found].greatest, greatest);
                }
                let any = levels.any(row(&words), number);
                prop_assert_eq!(any.is_some(), greatest > 0);
                prop_assert!(any.is_none_or(|any| truth[any].greatest > 0));
            }
        }

        /// Numbers that follow each other lead to all of them.
        #[test]
        fn every_group_is_come_to(groups in 1usize..600) {
            let (mut levels, mut truth) = (Levels::new(groups), vec![Ends::default(); groups]);
            for group in 0..groups {
                truth[group].greatest = 1;
                levels.rise::<false>(row(&words(&truth)), group, 0, 1);
            }
            let (words, mut seen) = (words(&truth), vec![false; groups]);
            for number in 0..FAN.pow(4) {
                seen[levels.any(row(&words), number).expect("there are some")] = true;
            }
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }
}
