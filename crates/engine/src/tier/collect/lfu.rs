//! Which extent on the SSD was used least often since it came?
//!
//! Source: least frequently used; of equals the one that was not used for the longest time goes. What
//! has gone begins anew when it comes back. Counts are halved every epoch, if there are epochs.

use super::by_heat::{ByHeat, Measure};
use super::heat::Heat;
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub const ENTRY: CollectorEntry = CollectorEntry {
    name: "lfu",
    summary: "gives up what was used least often since it came",
    source: "least frequently used",
    ranks: false,
    build: |config| Box::new(Lfu::new(config)),
};

#[derive(Clone, Debug)]
struct Uses;

impl Measure<0> for Uses {
    fn new(_: &CollectConfig) -> Self {
        Uses
    }

    fn heat(&self, was: u64, _: &mut [u64; 0], _: &Touch, epoch: u32) -> u64 {
        Heat::from_number(was).plus(1, epoch).number()
    }
}

/// It tracks what the SSD holds and nothing else.
#[derive(Clone, Debug)]
struct Lfu {
    held: ByHeat<Uses, 0>,
}

impl Lfu {
    fn new(config: &CollectConfig) -> Self {
        let config = CollectConfig { tracked_max: config.held_max, ..*config };
        Lfu { held: ByHeat::new(&config) }
    }
}

impl Collector for Lfu {
    fn touched(&mut self, touch: &Touch) -> bool {
        self.held.touched_if_tracked(touch)
    }

    fn promoted(&mut self, extent: Extent) {
        self.held.promoted(extent);
    }

    fn demoted(&mut self, extent: Extent) {
        self.held.removed(extent);
    }

    fn removed(&mut self, extent: Extent) {
        self.held.removed(extent);
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.held.is_held(extent)
    }

    fn victim(&mut self, comes: Option<Extent>) -> Option<Extent> {
        self.held.victim(comes)
    }

    fn memory(&self) -> Memory {
        self.held.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}
