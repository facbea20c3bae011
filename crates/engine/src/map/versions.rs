//! Versions of blocks that somebody copies: is what was copied still what the block holds?
//!
//! Rule: who copies a block watches it first, and what he copied counts only while the block has not been
//! written to, zeroed or discarded since. Slot numbers do not tell: a slot that was freed may hold a newer
//! version of the same block. The map counts a version with each change, in one place, and refuses stale
//! copies itself.

use super::{Entry, FixedState, Logical, Map};
use hashbrown::HashMap;

/// A version of a block that somebody copies. It is given back once, with `Map::forget`.
///
/// It can be cloned only because a whole engine can, for tests that fork one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a version that is not given back is watched for ever"]
pub struct Copied {
    block: Logical,
    version: u64,
}

impl Copied {
    /// Which block.
    pub(crate) fn block(&self) -> Logical {
        self.block
    }
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    version: u64,
    holders: u32,
}

/// The blocks that somebody watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions {
    watched: HashMap<Logical, Watched, FixedState>,
    /// Only rises, so that no two versions of any block have the same number.
    last: u64,
}

impl Versions {
    /// Watches a block as it is now.
    pub(crate) fn watch(&mut self, block: Logical) -> Copied {
        let next = self.last + 1;
        let watched = self.watched.entry(block).or_insert(Watched { version: next, holders: 0 });
        watched.holders += 1;
        assert!(watched.version <= next, "no version is newer than the newest");
        self.last = self.last.max(watched.version);
        Copied { block, version: watched.version }
    }

    /// The block holds something else from now on.
    #[inline]
    pub(crate) fn change(&mut self, block: Logical) {
        if self.watched.is_empty() {
            return;
        }
        if let Some(watched) = self.watched.get_mut(&block) {
            self.last += 1;
            watched.version = self.last;
        }
    }

    /// Has the block not changed since?
    pub(crate) fn is_latest(&self, copied: &Copied) -> bool {
        let watched =
            self.watched.get(&copied.block).expect("a version is watched until given back");
        assert!(copied.version <= watched.version, "versions of a block only rise");
        watched.version == copied.version
    }

    /// Nobody needs this version any more.
    ///
    /// # Panics
    /// If it was given back before.
    pub(crate) fn forget(&mut self, copied: Copied) {
        let watched = self.watched.get_mut(&copied.block).expect("it is given back once");
        assert!(watched.holders > 0, "whoever watches a block is counted");
        assert!(copied.version <= watched.version, "versions of a block only rise");
        watched.holders -= 1;
        if watched.holders == 0 {
            self.watched.remove(&copied.block);
        }
    }

    /// How many blocks are watched.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.watched.len()
    }
}

impl Map {
    /// Somebody is about to copy the block as it is now.
    pub(crate) fn watch(&mut self, block: Logical) -> Copied {
        self.versions.watch(block)
    }

    /// Does the block still hold what was copied?
    pub(crate) fn is_latest(&self, copied: &Copied) -> bool {
        self.versions.is_latest(copied)
    }

    /// Nobody needs to know any more whether the block still holds what was copied.
    pub(crate) fn forget(&mut self, copied: Copied) {
        self.versions.forget(copied);
    }

    /// Notes that the home now holds the version that was copied, durable. Returns false, and changes
    /// nothing, if the block has moved on since.
    pub(crate) fn note_home(&mut self, copied: &Copied) -> bool {
        let block = copied.block();
        let entry = self.leaves.get(block);
        if !self.is_latest(copied) || entry.fragmented || entry.home {
            return false;
        }
        assert!(entry != Entry::NOWHERE, "block {block} was copied from a place that it still has");
        self.leaves.replace(block, Entry { home: true, ..entry });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_latest_until_its_block_changes() {
        let mut versions = Versions::default();
        versions.change(7);
        let (first, other) = (versions.watch(7), versions.watch(8));
        assert!(versions.is_latest(&first) && versions.is_latest(&other));
        versions.change(7);
        assert!(!versions.is_latest(&first) && versions.is_latest(&other));
        let second = versions.watch(7);
        assert!(versions.is_latest(&second) && !versions.is_latest(&first));
        versions.forget(second);
        assert!(!versions.is_latest(&first), "who watches longer still knows");
        versions.forget(first);
        versions.forget(other);
        assert_eq!(versions.len(), 0);
        let again = versions.watch(7);
        assert!(versions.is_latest(&again));
        versions.forget(again);
    }
}
