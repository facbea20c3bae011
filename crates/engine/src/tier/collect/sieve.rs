//! Which extent on the SSD has the hand found unused? SIEVE: one bit, one queue, one hand.
//!
//! Source: *SIEVE is Simpler than LRU*, NSDI 2024. Extents keep the place at which they came; a use
//! sets their bit. A hand goes from the oldest to the newest, clears bits, and the first extent
//! without one goes.

use super::lists::{Lists, Slot};
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "sieve",
    summary: "a hand gives up what was not used since it passed",
    source: "SIEVE, NSDI 2024",
    ranks: false,
    build: |config| Box::new(Sieve::new(config)),
};

const HELD: usize = 0;

#[derive(Clone, Debug)]
struct Sieve {
    lists: Lists<1>,
    /// Where the hand stands; none: it begins with the oldest.
    hand: Option<Slot>,
}

impl Sieve {
    fn new(config: &CollectConfig) -> Self {
        Sieve { lists: Lists::new(config.held_max as usize), hand: None }
    }
}

impl Collector for Sieve {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.lists.find(touch.extent) else { return false };
        self.lists.set_mark(slot, 1);
        true
    }

    fn promoted(&mut self, extent: Extent) {
        if self.lists.find(extent).is_none() {
            self.lists.insert(extent, HELD);
        }
    }

    fn demoted(&mut self, extent: Extent) {
        self.removed(extent);
    }

    fn removed(&mut self, extent: Extent) {
        let Some(slot) = self.lists.find(extent) else { return };
        if self.hand == Some(slot) {
            self.hand = self.lists.newer(slot);
        }
        self.lists.remove(slot);
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.lists.find(extent).is_some()
    }

    fn victim(&mut self, _: Option<Extent>) -> Option<Extent> {
        let mut slot = self.hand.or_else(|| self.lists.oldest(HELD))?;
        while self.lists.mark(slot) > 0 {
            self.lists.set_mark(slot, 0);
            slot = self.lists.newer(slot).or_else(|| self.lists.oldest(HELD))?;
        }
        self.hand = Some(slot);
        Some(self.lists.extent(slot))
    }

    fn memory(&self) -> Memory {
        self.lists.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}
