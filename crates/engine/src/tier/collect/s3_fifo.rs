//! Which extent on the SSD was a guest only, or has lost its uses? S3-FIFO: three queues.
//!
//! Source: *FIFO Queues are All You Need for Cache Eviction*, SOSP 2023, with its settings: a small
//! queue of 10 % for those that come, a main one for those that were used twice in it, ghosts of those
//! that were not, as many as 90 %. A ghost that is asked for again goes straight to the main queue. In
//! that one a use is worth a round, three at most.
//!
//! Unclear: how full the small queue may be. As in the authors' simulator it gives up extents unless
//! the main queue has more than its part.

use super::lists::{Lists, Slot};
use super::{CollectConfig, Collector, CollectorEntry, Extent, Memory, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "s3-fifo",
    summary: "small queue for newcomers, main queue for those used twice, ghosts of the others",
    source: "S3-FIFO, SOSP 2023",
    ranks: false,
    build: |config| Box::new(S3Fifo::new(config)),
};

const SMALL_PERCENT: usize = 10;
const GHOST_PERCENT: usize = 90;
/// Uses in the small queue that make an extent stay.
const STAYS_FROM: u32 = 2;
const MARK_MAX: u32 = 3;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// Ghosts that were asked for and are about to come back.
const RECALLED: usize = 3;
/// That many of them are remembered, if they do not come back at once.
const RECALLED_MAX: usize = 64;

#[derive(Clone, Debug)]
struct S3Fifo {
    lists: Lists<4>,
    main_max: usize,
    ghosts_max: usize,
}

impl S3Fifo {
    fn new(config: &CollectConfig) -> Self {
        let held_max = config.held_max as usize;
        let ghosts_max = held_max * GHOST_PERCENT / 100;
        S3Fifo {
            lists: Lists::new(held_max + ghosts_max + RECALLED_MAX + 1),
            main_max: held_max - held_max * SMALL_PERCENT / 100,
            ghosts_max,
        }
    }

    fn held(&self, extent: Extent) -> Option<Slot> {
        self.lists.find(extent).filter(|slot| self.lists.queue(*slot) <= MAIN)
    }

    fn victim_of_small(&mut self) -> Option<Slot> {
        loop {
            let slot = self.lists.oldest(SMALL)?;
            if self.lists.mark(slot) < STAYS_FROM {
                return Some(slot);
            }
            self.lists.set_mark(slot, 0);
            self.lists.renew(slot, MAIN);
        }
    }

    fn victim_of_main(&mut self) -> Option<Slot> {
        loop {
            let slot = self.lists.oldest(MAIN)?;
            let Some(less) = self.lists.mark(slot).checked_sub(1) else { return Some(slot) };
            self.lists.set_mark(slot, less);
            self.lists.renew(slot, MAIN);
        }
    }
}

impl Collector for S3Fifo {
    fn touched(&mut self, touch: &Touch) -> bool {
        let Some(slot) = self.lists.find(touch.extent) else { return false };
        match self.lists.queue(slot) {
            SMALL | MAIN => {
                let mark = self.lists.mark(slot);
                if mark < MARK_MAX {
                    self.lists.set_mark(slot, mark + 1);
                }
                true
            }
            GHOST => {
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
                self.lists.insert(extent, SMALL);
            }
            Some(slot) if self.lists.queue(slot) > MAIN => {
                self.lists.set_mark(slot, 0);
                self.lists.renew(slot, MAIN);
            }
            Some(_) => {}
        }
    }

    fn demoted(&mut self, extent: Extent) {
        let Some(slot) = self.held(extent) else { return };
        if self.lists.queue(slot) == MAIN || self.ghosts_max == 0 {
            self.lists.remove(slot);
        } else {
            self.lists.trim(GHOST, self.ghosts_max - 1);
            self.lists.renew(slot, GHOST);
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
        let of_small =
            if self.lists.len(MAIN) > self.main_max { None } else { self.victim_of_small() };
        let slot = of_small.or_else(|| self.victim_of_main()).or_else(|| self.victim_of_small())?;
        Some(self.lists.extent(slot))
    }

    fn memory(&self) -> Memory {
        self.lists.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}
