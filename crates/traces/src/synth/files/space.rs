//! Where in its volume does a file lie? First fit, in units of one size.
//!
//! The papers' tiers move whole files. A tier of blocks moves extents; where a unit is one extent, a
//! file of at most one unit is moved whole and alone. What is given back is used again, so that a
//! volume does not grow without end. **Choice of ours:** [LORIS] does not say how its physical layer
//! places files.

use std::collections::{BTreeMap, BTreeSet};

/// Free runs of this many units and more are in one class.
const LONG: u32 = 16;

/// Consecutive units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// Who owns which unit.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Of every unit up to the last that was ever used: its owner, or `FREE`.
    owners: Vec<u32>,
    /// Free runs by their first unit …
    free: BTreeMap<u32, u32>,
    /// … and their first units by length; the last class has those of `LONG` and more.
    by_length: Vec<BTreeSet<u32>>,
}

const FREE: u32 = u32::MAX;

impl Space {
    pub(super) fn new() -> Space {
        Space {
            owners: Vec::new(),
            free: BTreeMap::new(),
            by_length: vec![BTreeSet::new(); LONG as usize],
        }
    }

    /// Units up to the last that was ever used.
    pub(super) fn units(&self) -> u32 {
        self.owners.len() as u32
    }

    /// Whose is this unit? `None` if it is nobody's.
    pub(super) fn owner(&self, unit: u32) -> Option<u32> {
        self.owners.get(unit as usize).copied().filter(|&owner| owner != FREE)
    }

    /// The lowest free run of `count` units, or units behind all others. If `behind` names the unit
    /// that ends a file, the units that follow it are taken where they are free.
    ///
    /// # Panics
    /// If nothing is asked for.
    pub(super) fn take(&mut self, count: u32, owner: u32, behind: Option<u32>) -> Run {
        assert!(count > 0, "a run has units");
        let follows = behind.map(|unit| unit + 1).filter(|first| {
            *first == self.units() || self.free.get(first).is_some_and(|&length| length >= count)
        });
        let first = follows.or_else(|| self.lowest(count)).unwrap_or_else(|| self.units());
        if let Some(length) = self.free.get(&first).copied() {
            self.unlist(first, length);
            if length > count {
                self.list(first + count, length - count);
            }
        }
        let end = (first + count) as usize;
        if end > self.owners.len() {
            self.owners.resize(end, FREE);
        }
        for unit in &mut self.owners[first as usize..end] {
            assert_eq!(*unit, FREE, "a unit has one owner");
            *unit = owner;
        }
        Run { first, count }
    }

    /// These units are free again.
    ///
    /// # Panics
    /// If one of them was free.
    pub(super) fn give(&mut self, run: Run) {
        let Run { mut first, mut count } = run;
        for unit in &mut self.owners[first as usize..(first + count) as usize] {
            assert_ne!(*unit, FREE, "a unit is given back once");
            *unit = FREE;
        }
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
        {
            self.unlist(before, length);
            (first, count) = (before, count + length);
        }
        if let Some(&length) = self.free.get(&(first + count)) {
            self.unlist(first + count, length);
            count += length;
        }
        self.list(first, count);
    }

    fn lowest(&self, count: u32) -> Option<u32> {
        let from = class(count) as usize;
        let fits = |first: &&u32| self.free[*first] >= count;
        // every run of a short class fits; in the long one the first that does
        self.by_length[from..].iter().filter_map(|class| class.iter().find(fits)).min().copied()
    }

    fn list(&mut self, first: u32, count: u32) {
        self.free.insert(first, count);
        self.by_length[class(count) as usize].insert(first);
    }

    fn unlist(&mut self, first: u32, count: u32) {
        self.free.remove(&first);
        self.by_length[class(count) as usize].remove(&first);
    }
}

fn class(count: u32) -> u32 {
    count.min(LONG) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    #[test]
    fn the_lowest_run_that_fits_is_taken() {
        let mut space = Space::new();
        let runs: Vec<Run> = (0..10).map(|owner| space.take(3, owner, None)).collect();
        assert_eq!((runs[9], space.units()), (Run { first: 27, count: 3 }, 30));
        space.give(runs[2]);
        space.give(runs[7]);
        space.give(runs[6]);
        assert_eq!(space.take(2, 11, None).first, 6);
        assert_eq!(space.take(2, 12, None).first, 18, "one unit at 8 is too few");
        assert_eq!(space.take(1, 13, None).first, 8);
        assert_eq!(space.take(5, 14, None).first, 30, "nothing fits: behind all others");
        assert_eq!(space.take(1, 14, Some(34)).first, 35, "a file grows where it ends");
        assert_eq!(space.take(1, 9, Some(29)).first, 20, "… or elsewhere");
        assert_eq!((space.owner(20), space.owner(21), space.owner(40)), (Some(9), None, None));
    }

    /// Against a search of every unit.
    #[test]
    fn it_is_first_fit_whatever_was_given_back() {
        let mut rng = Rng::new(7);
        let mut space = Space::new();
        let mut held: Vec<Run> = Vec::new();
        for step in 0..4000 {
            if !held.is_empty() && rng.below(100) < 48 {
                let index = rng.below(held.len() as u64) as usize;
                space.give(held.swap_remove(index));
                continue;
            }
            let count = rng.between(1, 40) as u32;
            let fits = |first: u32| (first..first + count).all(|unit| space.owner(unit).is_none());
            let want = (0..=space.units()).find(|&first| {
                fits(first) && {
                    // a run at the very end that is too short is not grown
                    first + count <= space.units() || first == space.units()
                }
            });
            let run = space.take(count, step, None);
            assert_eq!(Some(run.first), want);
            held.push(run);
        }
        let used: u32 = held.iter().map(|run| run.count).sum();
        assert!(space.units() < used * 2, "{} units for {used}", space.units());
    }
}
