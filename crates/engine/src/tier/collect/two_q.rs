//! Which extent on the SSD came and was never asked for again? 2Q: newcomers first prove themselves.
//!
//! Source: *2Q: A Low Overhead High Performance Buffer Management Replacement Algorithm*, VLDB 1994,
//! the full version with its settings: a queue of newcomers of a quarter, the names of those that left
//! it for half as many extents as are held, and the others by last use. Only a name that is asked for
//! again leads to the latter.

use super::lists::{Lists, Slot};
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "2q",
    summary: "newcomers in a queue; those asked for again after it by last use",
    source: "2Q, VLDB 1994",
    ranks: false,
    build: |config| Box::new(TwoQ::new(config)),
};

const IN_PERCENT: usize = 25;
const OUT_PERCENT: usize = 50;

/// The paper's `A1in`, `Am` and `A1out`.
const IN: usize = 0;
const MAIN: usize = 1;
const OUT: usize = 2;
/// Names that were asked for and are about to come back.
const RECALLED: usize = 3;
/// That many of them are remembered, if they do not come back at once.
const RECALLED_MAX: usize = 64;

#[derive(Clone, Debug)]
struct TwoQ {
    lists: Lists<4>,
    in_max: usize,
    out_max: usize,
}

impl TwoQ {
    fn new(config: &CollectConfig) -> Self {
        let held_max = config.held_max as usize;
        let out_max = held_max * OUT_PERCENT / 100;
        TwoQ {
            lists: Lists::new(held_max + out_max + RECALLED_MAX + 1),
            in_max: held_max * IN_PERCENT / 100,
            out_max,
        }
    }

    fn held(&self, extent: Extent) -> Option<Slot> {
        self.lists.find(extent).filter(|slot| self.lists.queue(*slot) <= MAIN)
    }
}

impl Collector for TwoQ {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.lists.find(touch.extent) else { return false };
        match self.lists.queue(slot) {
            IN => true,
            MAIN => {
                self.lists.renew(slot, MAIN);
                true
            }
            OUT => {
                self.lists.renew(slot, RECALLED);
                self.lists.trim(RECALLED, RECALLED_MAX);
                false
            }
            _ => false,
        }
    }

    fn promoted(&mut self, extent: Extent) {
        match self.lists.find(extent) {
            None => {
                self.lists.insert(extent, IN);
            }
            Some(slot) if self.lists.queue(slot) > MAIN => self.lists.renew(slot, MAIN),
            Some(_) => {}
        }
    }

    fn demoted(&mut self, extent: Extent) {
        let Some(slot) = self.held(extent) else { return };
        if self.lists.queue(slot) == MAIN || self.out_max == 0 {
            self.lists.remove(slot);
        } else {
            self.lists.renew(slot, OUT);
            self.lists.trim(OUT, self.out_max);
        }
    }

    fn removed(&mut self, extent: Extent) {
        if let Some(slot) = self.lists.find(extent) {
            self.lists.remove(slot);
        }
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.held(extent).is_some()
    }

    fn victim(&mut self, _: Option<Extent>) -> Option<Extent> {
        let (first, second) =
            if self.lists.len(IN) > self.in_max { (IN, MAIN) } else { (MAIN, IN) };
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
