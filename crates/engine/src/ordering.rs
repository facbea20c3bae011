//! Which requests must wait for which?
//!
//! Requests that overlap in flight are ordered: a read or write waits for every earlier write that
//! touches one of its blocks and has not been acknowledged. Reads hold nothing, since writes go out
//! of place and a place is not reused while a read is under way.

use crate::map::{FixedState, Logical};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Index of a task.
pub type TaskId = u32;
const NIL: u32 = u32::MAX;
/// Blocks per region, as a power of two: one lookup serves requests up to 256 KiB.
const REGION_SHIFT: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct Lock {
    first: Logical,
    end: Logical,
    task: TaskId,
    next: u32,
}

/// Blocks under write, and who waits for them.
#[derive(Clone, Debug, Default)]
pub struct Ordering {
    regions: HashMap<u32, u32, FixedState>,
    locks: Vec<Lock>,
    free: Vec<u32>,
    /// Who waits for a holder, in the order of waiting.
    waits: HashMap<TaskId, Vec<TaskId>, FixedState>,
}

impl Ordering {
    /// How many earlier writes overlap `first..end`; `task` will be returned by `release` of each.
    pub fn wait_for(&mut self, task: TaskId, first: Logical, end: Logical) -> u32 {
        if self.regions.is_empty() {
            return 0;
        }
        let mut holders: Vec<TaskId> = Vec::new();
        for region in first >> REGION_SHIFT..=(end - 1) >> REGION_SHIFT {
            let Some(&head) = self.regions.get(&region) else { continue };
            let mut at = head;
            while at != NIL {
                let lock = self.locks[at as usize];
                if lock.first < end && first < lock.end && !holders.contains(&lock.task) {
                    holders.push(lock.task);
                }
                at = lock.next;
            }
        }
        for &holder in &holders {
            self.waits.entry(holder).or_default().push(task);
        }
        holders.len() as u32
    }

    /// Notes that `task` writes `first..end`.
    pub fn hold(&mut self, task: TaskId, first: Logical, end: Logical) {
        for region in first >> REGION_SHIFT..=(end - 1) >> REGION_SHIFT {
            let lock = Lock { first, end, task, next: NIL };
            let at = match self.free.pop() {
                Some(at) => {
                    self.locks[at as usize] = lock;
                    at
                }
                None => {
                    self.locks.push(lock);
                    self.locks.len() as u32 - 1
                }
            };
            match self.regions.entry(region) {
                Entry::Occupied(mut head) => {
                    self.locks[at as usize].next = *head.get();
                    head.insert(at);
                }
                Entry::Vacant(empty) => {
                    empty.insert(at);
                }
            }
        }
    }

    /// `task` is done with `first..end`; every task that waited for it is handed to `woken`.
    pub fn release(&mut self, task: TaskId, first: Logical, end: Logical, woken: &mut Vec<TaskId>) {
        for region in first >> REGION_SHIFT..=(end - 1) >> REGION_SHIFT {
            let head = self.regions.get_mut(&region).expect("a held region is listed");
            let mut at = *head;
            let mut before = NIL;
            while self.locks[at as usize].task != task {
                before = at;
                at = self.locks[at as usize].next;
            }
            let next = self.locks[at as usize].next;
            self.free.push(at);
            if before != NIL {
                self.locks[before as usize].next = next;
            } else if next != NIL {
                *head = next;
            } else {
                self.regions.remove(&region);
            }
        }
        if !self.waits.is_empty()
            && let Some(waiters) = self.waits.remove(&task)
        {
            woken.extend(waiters);
        }
    }

    /// Does any write hold a block of `first..end`?
    pub fn is_held(&self, first: Logical, end: Logical) -> bool {
        (first >> REGION_SHIFT..=(end - 1) >> REGION_SHIFT).any(|region| {
            let mut at = self.regions.get(&region).copied().unwrap_or(NIL);
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
        assert_eq!(ordering.wait_for(1, 0, 100), 0);
        ordering.hold(1, 0, 100);
        assert_eq!(ordering.wait_for(2, 99, 101), 1);
        ordering.hold(2, 99, 101);
        assert_eq!(ordering.wait_for(3, 98, 100), 2, "both earlier writes");
        assert_eq!(ordering.wait_for(4, 200, 201), 0);
        assert!(ordering.is_held(64, 65) && !ordering.is_held(101, 200));
        let mut woken = Vec::new();
        ordering.release(1, 0, 100, &mut woken);
        assert_eq!(woken, [2, 3]);
        woken.clear();
        ordering.release(2, 99, 101, &mut woken);
        assert_eq!(woken, [3]);
        assert!(!ordering.is_held(0, 1000));
    }
}
