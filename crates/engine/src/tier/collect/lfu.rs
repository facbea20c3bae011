//! Which extent on the SSD was used least often since it came?
//!
//! Source: least frequently used; of equals the one that was not used for the longest time goes. What
//! has gone begins anew when it comes back. Counts are halved every epoch, if there are epochs: then it is
//! one of those that keep heat in order (`by_heat`), otherwise queues of equals do (`by_uses`).

use super::by_heat::{ByHeat, Measure};
use super::by_uses::ByUses;
use super::heat::Heat;
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "lfu",
    summary: "gives up what was used least often since it came",
    source: "least frequently used",
    ranks: false,
    build: |config| match config.epoch {
        None => Box::new(ByUses::new(config.held_max)),
        Some(_) => Box::new(Aging::new(config)),
    },
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
struct Aging {
    held: ByHeat<Uses, 0>,
}

impl Aging {
    fn new(config: &CollectConfig) -> Self {
        let config = CollectConfig { tracked_max: config.held_max, ..*config };
        Aging { held: ByHeat::new(&config) }
    }
}

impl Collector for Aging {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_block::{Duration, Instant};

    proptest! {
        /// With an epoch that never ends both ways keep the same order, whatever is asked of them.
        #[test]
        fn queues_of_equals_are_in_order_of_heat(
            steps in proptest::collection::vec((0u64..12, 0u32..8), 1..600),
        ) {
            const HELD: usize = 8;
            let never = Some(Duration::from_s(1 << 30));
            let config = CollectConfig { epoch: never, ..CollectConfig::new(HELD as u32, 0) };
            let mut searched = Aging::new(&config);
            let mut queues = ByUses::new(HELD as u32);
            let mut held = std::collections::BTreeSet::new();
            for (extent, what) in steps {
                let extent = Extent(extent << 30);
                match what {
                    0 => {
                        held.remove(&extent);
                        searched.removed(extent);
                        queues.removed(extent);
                    }
                    1 | 2 if held.contains(&extent) || held.len() < HELD => {
                        held.insert(extent);
                        searched.promoted(extent);
                        queues.promoted(extent);
                    }
                    3 => {
                        let victim = queues.victim(None);
                        prop_assert_eq!(victim, searched.victim(None));
                        let Some(victim) = victim else { continue };
                        prop_assert!(held.remove(&victim));
                        searched.demoted(victim);
                        queues.demoted(victim);
                    }
                    _ => {
                        let touch = Touch { extent, bytes: 1, now: Instant::ZERO };
                        prop_assert_eq!(queues.touched(&touch), held.contains(&extent));
                        searched.touched(&touch);
                    }
                }
                prop_assert_eq!(queues.victim(None), searched.victim(None));
                prop_assert!((0..12).map(|e| Extent(e << 30)).all(|e| queues.is_held(e) == held.contains(&e)));
            }
        }
    }
}
