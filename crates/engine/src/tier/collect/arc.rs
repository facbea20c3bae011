//! Which extent on the SSD should go: one used once, or one used often? ARC learns which.
//!
//! Source: *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST 2003, figure 4. Names of what
//! went are kept for as many extents as are held; one that is asked for again shifts the balance.
//!
//! Names: c → held_max, p → once_target, T1 → ONCE, T2 → OFTEN, B1 → ONCE_GONE, B2 → OFTEN_GONE.
//! Differs: the balance moves in whole extents, by the ratio of the names rounded down, one at least.
//! Names are dropped when something comes, not before something goes: the same ones.

use super::lists::{Lists, Slot};
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "arc",
    summary: "balances what was used once and what was used often by what was missed",
    source: "ARC, FAST 2003",
    ranks: false,
    build: |config| Box::new(Arc::new(config)),
};

const ONCE: usize = 0;
const OFTEN: usize = 1;
const ONCE_GONE: usize = 2;
const OFTEN_GONE: usize = 3;

#[derive(Clone, Debug)]
struct Arc {
    lists: Lists<4>,
    held_max: usize,
    /// How many extents used once should be held.
    once_target: usize,
}

impl Arc {
    fn new(config: &CollectConfig) -> Self {
        let held_max = config.held_max as usize;
        Arc { lists: Lists::new(held_max * 2 + 1), held_max, once_target: 0 }
    }

    fn held(&self, extent: Extent) -> Option<Slot> {
        self.lists.find(extent).filter(|slot| self.lists.queue(*slot) <= OFTEN)
    }

    /// How far one name that is asked for again shifts the balance.
    fn shift(&self, other: usize, own: usize) -> usize {
        (self.lists.len(other) / self.lists.len(own)).max(1)
    }

    /// Room for the name of an extent that was not known.
    fn make_room(&mut self) {
        let once = self.lists.len(ONCE);
        self.lists.trim(ONCE_GONE, (self.held_max - 1).saturating_sub(once));
        let others = once + self.lists.len(ONCE_GONE) + self.lists.len(OFTEN);
        self.lists.trim(OFTEN_GONE, (self.held_max * 2 - 1).saturating_sub(others));
    }
}

impl Collector for Arc {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.lists.find(touch.extent) else { return false };
        match self.lists.queue(slot) {
            ONCE_GONE => {
                let more = self.shift(OFTEN_GONE, ONCE_GONE);
                self.once_target = (self.once_target + more).min(self.held_max);
                false
            }
            OFTEN_GONE => {
                let less = self.shift(ONCE_GONE, OFTEN_GONE);
                self.once_target = self.once_target.saturating_sub(less);
                false
            }
            _ => {
                self.lists.renew(slot, OFTEN);
                true
            }
        }
    }

    fn promoted(&mut self, extent: Extent) {
        match self.lists.find(extent) {
            None => {
                self.make_room();
                self.lists.insert(extent, ONCE);
            }
            Some(slot) if self.lists.queue(slot) > OFTEN => self.lists.renew(slot, OFTEN),
            Some(_) => {}
        }
    }

    fn demoted(&mut self, extent: Extent) {
        let Some(slot) = self.held(extent) else { return };
        let gone = if self.lists.queue(slot) == ONCE { ONCE_GONE } else { OFTEN_GONE };
        self.lists.renew(slot, gone);
    }

    fn removed(&mut self, extent: Extent) {
        if let Some(slot) = self.lists.find(extent) {
            self.lists.remove(slot);
        }
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.held(extent).is_some()
    }

    fn victim(&mut self, comes: Option<Extent>) -> Option<Extent> {
        let slot = comes.and_then(|extent| self.lists.find(extent));
        let was_often = slot.is_some_and(|slot| self.lists.queue(slot) == OFTEN_GONE);
        let once = self.lists.len(ONCE);
        let too_many = once > self.once_target || was_often && once == self.once_target;
        let (first, second) = if too_many { (ONCE, OFTEN) } else { (OFTEN, ONCE) };
        let slot = self.lists.oldest(first).or_else(|| self.lists.oldest(second))?;
        Some(self.lists.extent(slot))
    }

    fn memory(&self) -> Memory {
        self.lists.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}
