//! Which leaves of a group have blocks that write-back, or the dropping of copies, looks for?
//!
//! A search of a whole map, of which little is dirty or clean, goes from leaf to leaf without a look at the others.

use super::entry::{HOME, LOG, SSD};
use super::leaf::LEAF_BLOCKS;

/// What is looked for, by the state bits of a block. Fragments are not asked about: a leaf may have none of these
/// after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sought {
    /// On an SSD, and neither at home nor in a log.
    Dirty,
    /// On an SSD, and at home or in a log.
    Clean,
}

impl Sought {
    fn of(bits: u8) -> Option<Sought> {
        if bits & SSD == 0 {
            None
        } else if bits & (HOME | LOG) == 0 {
            Some(Sought::Dirty)
        } else {
            Some(Sought::Clean)
        }
    }
}

/// How many blocks of each leaf of a group are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    all: [u32; 2],
    of_leaf: Box<[[u16; 2]]>,
}

impl Counts {
    /// Of so many leaves, whose blocks lie on no SSD.
    pub(super) fn new(leaves: usize) -> Counts {
        Counts { all: [0; 2], of_leaf: vec![[0; 2]; leaves].into() }
    }

    /// A block of this leaf has other state bits now.
    #[inline]
    pub(super) fn change(&mut self, leaf: usize, before: u8, after: u8) {
        let (before, after) = (Sought::of(before), Sought::of(after));
        if before == after {
            return;
        }
        let of_leaf = &mut self.of_leaf[leaf];
        if let Some(sought) = before {
            let at = sought as usize;
            assert!(of_leaf[at] > 0 && self.all[at] > 0, "a block was counted in its leaf");
            of_leaf[at] -= 1;
            self.all[at] -= 1;
        }
        if let Some(sought) = after {
            let at = sought as usize;
            assert!(u64::from(of_leaf[at]) < LEAF_BLOCKS, "a leaf has no more blocks");
            of_leaf[at] += 1;
            self.all[at] += 1;
        }
    }

    /// The first leaf from this one on that has such blocks.
    #[inline]
    pub(super) fn next(&self, sought: Sought, from: usize) -> Option<usize> {
        let at = sought as usize;
        if self.all[at] == 0 {
            return None;
        }
        let found = self.of_leaf[from..].iter().position(|of_leaf| of_leaf[at] > 0);
        found.map(|leaf| from + leaf)
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val::<[[u16; 2]]>(&self.of_leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_found_while_it_has_what_is_looked_for() {
        let mut counts = Counts::new(4);
        let found = |counts: &Counts| {
            [Sought::Dirty, Sought::Clean]
                .map(|sought| [0, 2, 4].map(|from| counts.next(sought, from)))
        };
        let none = [None; 3];
        for (leaf, before, after, wanted) in [
            (1, 0, HOME, [none, none]),
            (1, HOME, SSD, [[Some(1), None, None], none]),
            (3, 0, SSD, [[Some(1), Some(3), None], none]),
            (1, SSD, SSD | HOME, [[Some(3), Some(3), None], [Some(1), None, None]]),
            (3, SSD, SSD | LOG, [none, [Some(1), Some(3), None]]),
            (3, SSD | LOG, SSD | HOME | LOG, [none, [Some(1), Some(3), None]]),
            (3, SSD | HOME | LOG, HOME | LOG, [none, [Some(1), None, None]]),
            (1, SSD | HOME, HOME, [none, none]),
        ] {
            counts.change(leaf, before, after);
            assert_eq!(found(&counts), wanted, "leaf {leaf}: {before} is {after} now");
        }
        assert_eq!(counts, Counts::new(4));
    }

    #[test]
    #[should_panic(expected = "a block was counted in its leaf")]
    fn a_block_leaves_the_leaf_it_came_to() {
        Counts::new(2).change(0, SSD, 0);
    }
}
