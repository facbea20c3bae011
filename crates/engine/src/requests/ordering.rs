//! Which requests must wait for which?
//!
//! Requests that overlap in flight are ordered: a read or write waits for every earlier write that
//! touches one of its blocks and has not been acknowledged. Reads hold nothing, since writes go out
//! of place and a place is not reused while a read is under way.

use crate::arena::Key;
use crate::map::{FixedState, Logical};
use hashbrown::HashMap;
use std::fmt;

/// Names a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Key for TaskId {
    #[inline]
    fn new(number: u32) -> Self {
        TaskId(number)
    }

    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

const NIL: u32 = u32::MAX;
/// Blocks per region, as a power of two: one lookup serves requests up to 256 KiB.
const REGION_SHIFT: u32 = 6;
/// Chains at the beginning, as a power of two; they double with the locks.
const CHAINS_SHIFT: u32 = 8;

/// One request in one region.
#[derive(Clone, Copy, Debug)]
struct Lock {
    first: Logical,
    end: Logical,
    task: TaskId,
    region: u64,
    next: u32,
}

/// Blocks under write, and who waits for them.
///
/// Locks hang in chains by the hash of their region. A chain may hold several regions: what counts
/// is whether the blocks overlap.
#[derive(Clone, Debug)]
pub(crate) struct Ordering {
    chains: Vec<u32>,
    /// `32 -` the logarithm of the number of chains.
    shift: u32,
    locks: Vec<Lock>,
    free: Vec<u32>,
    /// Who waits for a holder, in the order of waiting.
    waits: HashMap<TaskId, Vec<TaskId>, FixedState>,
}

impl Default for Ordering {
    fn default() -> Self {
        Ordering {
            chains: vec![NIL; 1 << CHAINS_SHIFT],
            shift: 32 - CHAINS_SHIFT,
            locks: Vec::new(),
            free: Vec::new(),
            waits: HashMap::default(),
        }
    }
}

/// The regions that these blocks lie in.
fn regions(first: Logical, end: Logical) -> std::ops::RangeInclusive<u64> {
    assert!(first < end, "who takes part in the order touches a block");
    first >> REGION_SHIFT..=(end - 1) >> REGION_SHIFT
}

impl Ordering {
    #[inline]
    fn chain(&self, region: u64) -> usize {
        ((region as u32).wrapping_mul(0x9E37_79B9) >> self.shift) as usize
    }

    /// How many earlier writes overlap `first..end`; `task` will be returned by `release` of each.
    #[inline]
    pub(crate) fn wait_for(&mut self, task: TaskId, first: Logical, end: Logical) -> u32 {
        if self.locks.len() == self.free.len() {
            assert!(self.waits.is_empty(), "where nobody holds a block nobody waits");
            return 0;
        }
        let mut holders: Vec<TaskId> = Vec::new();
        for region in regions(first, end) {
            let mut at = self.chains[self.chain(region)];
            while at != NIL {
                let lock = self.locks[at as usize];
                if lock.first < end && first < lock.end && !holders.contains(&lock.task) {
                    holders.push(lock.task);
                }
                at = lock.next;
            }
        }
        for &holder in &holders {
            assert!(holder != task, "nobody waits for itself");
            self.waits.entry(holder).or_default().push(task);
        }
        holders.len() as u32
    }

    /// Notes that `task` writes `first..end`.
    #[inline]
    pub(crate) fn hold(&mut self, task: TaskId, first: Logical, end: Logical) {
        for region in regions(first, end) {
            let chain = self.chain(region);
            let lock = Lock { first, end, task, region, next: self.chains[chain] };
            self.chains[chain] = match self.free.pop() {
                Some(at) => {
                    self.locks[at as usize] = lock;
                    at
                }
                None => {
                    self.locks.push(lock);
                    self.locks.len() as u32 - 1
                }
            };
        }
        if self.locks.len() > self.chains.len() && self.free.is_empty() {
            self.double();
        }
    }

    /// Twice as many chains for the same locks, all of which are in use.
    #[cold]
    fn double(&mut self) {
        assert!(self.free.is_empty(), "a lock that is free hangs in no chain");
        let count = self.chains.len() * 2;
        self.shift -= 1;
        self.chains.clear();
        self.chains.resize(count, NIL);
        for at in 0..self.locks.len() {
            let chain = self.chain(self.locks[at].region);
            self.locks[at].next = std::mem::replace(&mut self.chains[chain], at as u32);
        }
    }

    /// `task` is done with `first..end`; every task that waited for it is handed to `woken`.
    #[inline]
    pub(crate) fn release(
        &mut self,
        task: TaskId,
        first: Logical,
        end: Logical,
        woken: &mut Vec<TaskId>,
    ) {
        for region in regions(first, end) {
            let chain = self.chain(region);
            let mut at = self.chains[chain];
            let mut before = NIL;
            let (from, to, next) = loop {
                assert!(at != NIL, "who releases blocks holds them");
                let lock = self.locks[at as usize];
                if (lock.task, lock.region) == (task, region) {
                    break (lock.first, lock.end, lock.next);
                }
                (before, at) = (at, lock.next);
            };
            assert!((from, to) == (first, end), "blocks are released as they were held");
            self.free.push(at);
            if before == NIL {
                self.chains[chain] = next;
            } else {
                self.locks[before as usize].next = next;
            }
        }
        if !self.waits.is_empty()
            && let Some(waiters) = self.waits.remove(&task)
        {
            woken.extend(waiters);
        }
    }

    /// Tasks that this one waits for, in the order of their ids.
    pub(crate) fn holders_before(&self, task: TaskId) -> Vec<TaskId> {
        let mut holders: Vec<TaskId> = Vec::new();
        for (holder, waiting) in &self.waits {
            holders.extend(waiting.iter().filter(|waiter| **waiter == task).map(|_| *holder));
        }
        holders.sort_unstable();
        holders
    }

    /// Does any write hold a block of `first..end`?
    pub(crate) fn is_held(&self, first: Logical, end: Logical) -> bool {
        regions(first, end).any(|region| {
            let mut at = self.chains[self.chain(region)];
            while at != NIL {
                let lock = self.locks[at as usize];
                if lock.first < end && first < lock.end {
                    return true;
                }
                at = lock.next;
            }
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_writes_wait_in_order() {
        let mut ordering = Ordering::default();
        assert_eq!(ordering.wait_for(TaskId(1), 0, 100), 0);
        ordering.hold(TaskId(1), 0, 100);
        assert_eq!(ordering.wait_for(TaskId(2), 99, 101), 1);
        ordering.hold(TaskId(2), 99, 101);
        assert_eq!(ordering.wait_for(TaskId(3), 98, 100), 2, "both earlier writes");
        assert_eq!(ordering.wait_for(TaskId(4), 200, 201), 0);
        assert!(ordering.is_held(64, 65) && !ordering.is_held(101, 200));
        let mut woken = Vec::new();
        ordering.release(TaskId(1), 0, 100, &mut woken);
        assert_eq!(woken, [TaskId(2), TaskId(3)]);
        woken.clear();
        ordering.release(TaskId(2), 99, 101, &mut woken);
        assert_eq!(woken, [TaskId(3)]);
        assert!(!ordering.is_held(0, 1000));
    }

    #[test]
    fn chains_double_and_keep_every_lock() {
        let mut ordering = Ordering::default();
        let mut woken = Vec::new();
        // several regions each, more locks than chains at the beginning
        let range = |task: u32| (u64::from(task) * 200, u64::from(task) * 200 + 150);
        for task in 0..1000 {
            let (first, end) = range(task);
            assert_eq!(ordering.wait_for(TaskId(task), first, end), 0);
            ordering.hold(TaskId(task), first, end);
        }
        for task in (0..1000).rev() {
            let (first, end) = range(task);
            assert_eq!(ordering.wait_for(TaskId(5000 + task), first + 149, end), 1);
            ordering.release(TaskId(task), first, end, &mut woken);
            assert_eq!(woken, [TaskId(5000 + task)]);
            woken.clear();
            assert!(!ordering.is_held(first, end) && ordering.is_held(0, 1) == (task > 0));
        }
    }
}
