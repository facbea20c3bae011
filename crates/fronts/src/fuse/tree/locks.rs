//! Who may touch the bytes of a file now? Any number that leave its size alone, or one that does not.

use std::collections::{BTreeMap, VecDeque};
use tandem_block::ObjectId;

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Beside others.
    Shared,
    /// Alone.
    Alone,
}

#[derive(Debug, Default)]
struct Lock {
    /// Jobs that have it.
    users: usize,
    /// It is one, and alone.
    alone: bool,
    /// In the order in which they came.
    waiting: VecDeque<(usize, Use)>,
}

/// Locks of all files in use, and none of others.
#[derive(Debug, Default)]
pub(super) struct Locks {
    files: BTreeMap<ObjectId, Lock>,
}

impl Locks {
    /// Does nobody change the size of this file, or wait for it?
    pub fn is_calm(&self, file: ObjectId) -> bool {
        self.files.get(&file).is_none_or(|lock| !lock.alone && lock.waiting.is_empty())
    }

    /// Takes a file, or puts the job into the queue; true if it has it now.
    pub fn take(&mut self, file: ObjectId, job: usize, how: Use) -> bool {
        let lock = self.files.entry(file).or_default();
        let fits = lock.waiting.is_empty() && lock.fits(how);
        if fits {
            lock.enter(how);
        } else {
            lock.waiting.push_back((job, how));
        }
        fits
    }

    /// Gives a file back; gives those that have it now.
    pub fn give_back(&mut self, file: ObjectId) -> Vec<usize> {
        let lock = self.files.get_mut(&file).expect("what is given back was taken");
        lock.users -= 1;
        lock.alone = false;
        let mut entered = Vec::new();
        while let Some(&(job, how)) = lock.waiting.front().filter(|(_, how)| lock.fits(*how)) {
            lock.waiting.pop_front();
            lock.enter(how);
            entered.push(job);
        }
        if lock.users == 0 {
            self.files.remove(&file);
        }
        entered
    }
}

impl Lock {
    fn fits(&self, how: Use) -> bool {
        self.users == 0 || how == Use::Shared && !self.alone
    }

    fn enter(&mut self, how: Use) {
        self.users += 1;
        self.alone = how == Use::Alone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_for_all_and_all_for_one() {
        let (mut locks, file) = (Locks::default(), ObjectId(3));
        assert!(locks.take(file, 0, Use::Shared) && locks.take(file, 1, Use::Shared));
        assert!(locks.is_calm(file));
        assert!(!locks.take(file, 2, Use::Alone) && !locks.is_calm(file));
        assert!(!locks.take(file, 3, Use::Shared), "nobody overtakes");
        assert!(!locks.take(file, 4, Use::Shared));
        assert!(locks.take(ObjectId(4), 5, Use::Alone), "another file");
        assert!(locks.give_back(file).is_empty());
        assert_eq!(locks.give_back(file), [2]);
        assert_eq!(locks.give_back(file), [3, 4]);
        assert!(locks.give_back(file).is_empty());
        assert!(locks.give_back(file).is_empty());
        assert!(locks.take(file, 6, Use::Alone), "free again");
    }
}
