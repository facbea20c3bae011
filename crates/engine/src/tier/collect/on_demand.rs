//! What would a cache hit, if everything that qualifies came to it when it is asked for?
//!
//! A collector with nothing around it: no drive, no time that passes. Source: [LORIS §IV], on-demand
//! caching. Tests compare collectors by it, and hit ratios can be had without a replay.

use super::{Collector, Extent, Touch};

/// What one request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The SSD held it.
    Hit,
    /// It came, and perhaps another one went.
    Came(Option<Extent>),
    /// It did not qualify.
    Refused,
}

/// A cache that fills on demand.
#[derive(Clone, Debug)]
pub struct OnDemand {
    collector: Box<dyn Collector>,
    held: u32,
    held_max: u32,
}

impl OnDemand {
    /// Empty, for so many extents; the collector was made for as many.
    pub fn new(collector: Box<dyn Collector>, held_max: u32) -> Self {
        OnDemand { collector, held: 0, held_max }
    }

    /// One request.
    pub fn request(&mut self, touch: &Touch) -> Seen {
        if self.collector.touched(touch) {
            return Seen::Hit;
        }
        if !self.collector.qualifies(touch.extent) {
            return Seen::Refused;
        }
        let mut went = None;
        if self.held == self.held_max {
            went = self.collector.victim(Some(touch.extent));
            let Some(victim) = went else { return Seen::Refused };
            self.collector.demoted(victim);
        } else {
            self.held += 1;
        }
        self.collector.promoted(touch.extent);
        Seen::Came(went)
    }

    /// The collector.
    pub fn collector(&self) -> &dyn Collector {
        &*self.collector
    }
}
