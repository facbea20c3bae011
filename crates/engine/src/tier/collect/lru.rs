//! Which extent on the SSD was not used for the longest time?
//!
//! Source: the oldest of rules; a collector for second-level caches beside those of the paper.

use super::lists::Lists;
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "lru",
    summary: "gives up what was not used for the longest time",
    source: "least recently used",
    ranks: false,
    build: |config| Box::new(Lru::new(config)),
};

const HELD: usize = 0;

#[derive(Clone, Debug)]
struct Lru {
    lists: Lists<1>,
}

impl Lru {
    fn new(config: &CollectConfig) -> Self {
        Lru { lists: Lists::new(config.held_max as usize) }
    }
}

impl Collector for Lru {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.lists.find(touch.extent) else { return false };
        self.lists.renew(slot, HELD);
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
        if let Some(slot) = self.lists.find(extent) {
            self.lists.remove(slot);
        }
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.lists.find(extent).is_some()
    }

    fn victim(&mut self, _: Option<Extent>) -> Option<Extent> {
        self.lists.oldest(HELD).map(|slot| self.lists.extent(slot))
    }

    fn memory(&self) -> Memory {
        self.lists.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}
