//! What would the textbook do? Each collector again, as plainly as its source says it, by scans.
//!
//! Tests compare hits and the order of evictions. Nothing is shared with what is tested.

use super::{Extent, Seen};
use std::collections::VecDeque;

/// A cache written down plainly.
pub(crate) trait Plain {
    /// One request.
    fn request(&mut self, extent: Extent) -> Seen;
}

fn take(queue: &mut VecDeque<Extent>, extent: Extent) -> bool {
    let found = queue.iter().position(|held| *held == extent);
    found.is_some_and(|at| queue.remove(at).is_some())
}

/// Back is newest.
pub(crate) struct Lru {
    pub(crate) max: usize,
    pub(crate) queue: VecDeque<Extent>,
}

impl Plain for Lru {
    fn request(&mut self, extent: Extent) -> Seen {
        let hit = take(&mut self.queue, extent);
        let went = if !hit && self.queue.len() == self.max { self.queue.pop_front() } else { None };
        self.queue.push_back(extent);
        if hit { Seen::Hit } else { Seen::Came(went) }
    }
}

/// Figure 1 of the paper: 0 is the newest (the head), the hand goes from the tail to it.
pub(crate) struct Sieve {
    pub(crate) max: usize,
    pub(crate) queue: Vec<(Extent, bool)>,
    /// Extent at which the hand stands.
    pub(crate) hand: Option<Extent>,
}

impl Plain for Sieve {
    fn request(&mut self, extent: Extent) -> Seen {
        if let Some(held) = self.queue.iter_mut().find(|held| held.0 == extent) {
            held.1 = true;
            return Seen::Hit;
        }
        let mut went = None;
        if self.queue.len() == self.max {
            let hand = self.hand.and_then(|hand| self.queue.iter().position(|h| h.0 == hand));
            let tail = self.queue.len() - 1;
            let mut at = hand.unwrap_or(tail);
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = at.checked_sub(1).unwrap_or(tail);
            }
            self.hand = at.checked_sub(1).map(|newer| self.queue[newer].0);
            went = Some(self.queue.remove(at).0);
        }
        self.queue.insert(0, (extent, false));
        Seen::Came(went)
    }
}

/// Back is newest.
pub(crate) struct S3Fifo {
    pub(crate) max: usize,
    pub(crate) small: VecDeque<(Extent, u32)>,
    pub(crate) main: VecDeque<(Extent, u32)>,
    pub(crate) ghost: VecDeque<Extent>,
}

impl S3Fifo {
    fn evict(&mut self) -> Option<Extent> {
        let main_max = self.max - self.max * 10 / 100;
        if self.main.len() > main_max || self.small.is_empty() {
            return self.evict_main();
        }
        while let Some((extent, uses)) = self.small.pop_front() {
            if uses < 2 {
                if self.ghost.len() == self.max * 90 / 100 {
                    self.ghost.pop_front();
                }
                self.ghost.push_back(extent);
                return Some(extent);
            }
            self.main.push_back((extent, 0));
        }
        self.evict_main()
    }

    fn evict_main(&mut self) -> Option<Extent> {
        loop {
            let (extent, uses) = self.main.pop_front()?;
            if uses == 0 {
                return Some(extent);
            }
            self.main.push_back((extent, uses.min(3) - 1));
        }
    }
}

impl Plain for S3Fifo {
    fn request(&mut self, extent: Extent) -> Seen {
        let held = self.small.iter_mut().chain(&mut self.main).find(|held| held.0 == extent);
        if let Some(held) = held {
            held.1 += 1;
            return Seen::Hit;
        }
        let was_ghost = take(&mut self.ghost, extent);
        let is_full = self.small.len() + self.main.len() == self.max;
        let went = if is_full { self.evict() } else { None };
        let queue = if was_ghost { &mut self.main } else { &mut self.small };
        queue.push_back((extent, 0));
        Seen::Came(went)
    }
}

/// The full version of the paper; front is newest there, back is newest here.
pub(crate) struct TwoQ {
    pub(crate) max: usize,
    pub(crate) a1in: VecDeque<Extent>,
    pub(crate) a1out: VecDeque<Extent>,
    pub(crate) am: VecDeque<Extent>,
}

impl TwoQ {
    fn reclaim(&mut self) -> Option<Extent> {
        if self.a1in.len() + self.am.len() < self.max {
            return None;
        }
        let from_in = self.a1in.len() > self.max / 4 || self.am.is_empty();
        if !from_in {
            return self.am.pop_front();
        }
        let went = self.a1in.pop_front()?;
        self.a1out.push_back(went);
        if self.a1out.len() > self.max / 2 {
            self.a1out.pop_front();
        }
        Some(went)
    }
}

impl Plain for TwoQ {
    fn request(&mut self, extent: Extent) -> Seen {
        if take(&mut self.am, extent) {
            self.am.push_back(extent);
            return Seen::Hit;
        }
        if self.a1in.contains(&extent) {
            return Seen::Hit;
        }
        // "if X is on the A1out queue": it is taken off it before room is made
        let queue = take(&mut self.a1out, extent);
        let went = self.reclaim();
        if queue { &mut self.am } else { &mut self.a1in }.push_back(extent);
        Seen::Came(went)
    }
}

/// Figure 4 of the paper, case by case; back is most recent.
pub(crate) struct Arc {
    pub(crate) c: usize,
    pub(crate) p: usize,
    pub(crate) t1: VecDeque<Extent>,
    pub(crate) t2: VecDeque<Extent>,
    pub(crate) b1: VecDeque<Extent>,
    pub(crate) b2: VecDeque<Extent>,
}

impl Arc {
    fn replace(&mut self, in_b2: bool) -> Option<Extent> {
        if self.t1.len() + self.t2.len() < self.c {
            return None;
        }
        let one = self.t1.len();
        let from_t1 = one >= 1 && (in_b2 && one == self.p || one > self.p);
        // all of it was used once, and all of it may have been
        if from_t1 || self.t2.is_empty() {
            let went = self.t1.pop_front()?;
            self.b1.push_back(went);
            Some(went)
        } else {
            let went = self.t2.pop_front()?;
            self.b2.push_back(went);
            Some(went)
        }
    }
}

impl Plain for Arc {
    fn request(&mut self, x: Extent) -> Seen {
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push_back(x);
            return Seen::Hit;
        }
        if self.b1.contains(&x) {
            let more = (self.b2.len() / self.b1.len()).max(1);
            self.p = (self.p + more).min(self.c);
            let went = self.replace(false);
            take(&mut self.b1, x);
            self.t2.push_back(x);
            return Seen::Came(went);
        }
        if self.b2.contains(&x) {
            let less = (self.b1.len() / self.b2.len()).max(1);
            self.p = self.p.saturating_sub(less);
            let went = self.replace(true);
            take(&mut self.b2, x);
            self.t2.push_back(x);
            return Seen::Came(went);
        }
        let l1 = self.t1.len() + self.b1.len();
        let all = l1 + self.t2.len() + self.b2.len();
        let went = if l1 == self.c && self.t1.len() == self.c {
            self.t1.pop_front()
        } else {
            if l1 == self.c {
                self.b1.pop_front();
            } else if all == self.c * 2 {
                self.b2.pop_front();
            }
            self.replace(false)
        };
        self.t1.push_back(x);
        Seen::Came(went)
    }
}

/// Count, last use, extent: the least goes.
pub(crate) struct Lfu {
    pub(crate) max: usize,
    pub(crate) uses: u64,
    pub(crate) held: Vec<(u64, u64, Extent)>,
}

impl Plain for Lfu {
    fn request(&mut self, extent: Extent) -> Seen {
        self.uses += 1;
        if let Some(held) = self.held.iter_mut().find(|held| held.2 == extent) {
            *held = (held.0 + 1, self.uses, extent);
            return Seen::Hit;
        }
        let mut went = None;
        if self.held.len() == self.max {
            let least = (0..self.held.len()).min_by_key(|at| self.held[*at]).expect("full");
            went = Some(self.held.remove(least).2);
        }
        self.held.push((1, self.uses, extent));
        Seen::Came(went)
    }
}
