//! Which extents have earned the SSD? What every collector has that counts: both tiers in order of heat.
//!
//! Source: [LORIS §III]: the hottest on the hard drives, the coldest on the SSD, and an extent qualifies
//! only if it is hotter than the last one that was evicted from the SSD.
//!
//! Differs: heat may be halved every epoch, the bar with it (the paper's never falls: after a hot phase
//! nothing gets in). Not every extent is tracked: at the bound one of the coldest of the hard drives
//! is forgotten, as if it had never been used.

use super::apart::{Apart, Place};
use super::ranks::{Rank, Side};
use super::{CollectConfig, Collector, Extent, Memory, Touch};
use tandem_block::{Duration, Instant};

/// What a collector makes of a request. It may keep words of its own of each extent.
pub(crate) trait Measure<const KEPT: usize>:
    std::fmt::Debug + Clone + Send + 'static
{
    /// Makes one.
    fn new(config: &CollectConfig) -> Self;
    /// How hot an extent is after a request; `was` is 0 if it was never used, and so is what is kept.
    fn heat(&self, was: u64, kept: &mut [u64; KEPT], touch: &Touch, epoch: u32) -> u64;
    /// Is this heat one that the SSD is for?
    fn is_for_ssd(&self, heat: u64) -> bool {
        heat > 0
    }
}

/// A collector that counts.
#[derive(Clone, Debug)]
pub(crate) struct ByHeat<M, const KEPT: usize> {
    measure: M,
    ranks: Apart<KEPT>,
    epoch: Epoch,
    uses: u64,
    /// Heat of the last extent that was evicted from the SSD.
    bar: Option<u64>,
    /// Where the last victim was found: it is asked for next.
    victim: Option<Place>,
}

impl<M: Measure<KEPT>, const KEPT: usize> ByHeat<M, KEPT> {
    /// As it was configured.
    pub(crate) fn new(config: &CollectConfig) -> Self {
        ByHeat {
            measure: M::new(config),
            ranks: Apart::new(config.tracked_max as usize, config.held_max as usize),
            epoch: Epoch { length: config.epoch, now: 0 },
            uses: 0,
            bar: None,
            victim: None,
        }
    }

    /// As `find`, and faster for an extent that was just named as the victim.
    #[inline]
    fn find_victim(&self, extent: Extent) -> Option<Place> {
        let named = self.victim.filter(|&place| self.ranks.is_at(place, extent));
        named.or_else(|| self.ranks.find(extent))
    }

    fn track(&mut self, extent: Extent, side: Side, heat: u64) -> Place {
        if self.ranks.is_full()
            && let Some(cold) = self.ranks.cold()
        {
            self.ranks.remove(cold);
        }
        self.uses += 1;
        self.ranks.insert(extent, side, Rank { heat, used: self.uses })
    }

    /// Like [`Collector::touched`], but an extent that is not tracked stays so.
    pub(crate) fn touched_if_tracked(&mut self, touch: &Touch) -> bool {
        self.epoch.at(touch.now);
        let Some(place) = self.ranks.find_used(touch.extent) else { return false };
        self.count(place, touch) == Side::Ssd
    }

    #[inline]
    fn count(&mut self, place: Place, touch: &Touch) -> Side {
        self.uses += 1;
        let (measure, epoch) = (&self.measure, self.epoch.now);
        self.ranks.heat_up(place, self.uses, |was, kept| measure.heat(was, kept, touch, epoch))
    }

    fn heat(&self, extent: Extent) -> Option<u64> {
        self.ranks.find(extent).map(|place| self.ranks.rank(place).heat)
    }
}

impl<M: Measure<KEPT>, const KEPT: usize> Collector for ByHeat<M, KEPT> {
    fn touched(&mut self, touch: &Touch) -> bool {
        self.epoch.at(touch.now);
        match self.ranks.find_used(touch.extent) {
            Some(place) => self.count(place, touch) == Side::Ssd,
            None => {
                let place = self.track(touch.extent, Side::Hdd, 0);
                self.count(place, touch);
                false
            }
        }
    }

    fn promoted(&mut self, extent: Extent) {
        match self.ranks.find(extent) {
            Some(place) => self.ranks.shift(place, Side::Ssd),
            None => {
                self.track(extent, Side::Ssd, 0);
            }
        }
    }

    fn demoted(&mut self, extent: Extent) {
        let Some(place) = self.find_victim(extent) else { return };
        if self.ranks.side(place) == Side::Ssd {
            self.bar = Some(self.ranks.rank(place).heat);
            self.ranks.shift(place, Side::Hdd);
        }
    }

    fn removed(&mut self, extent: Extent) {
        if let Some(place) = self.find_victim(extent) {
            self.ranks.remove(place);
        }
    }

    fn is_held(&self, extent: Extent) -> bool {
        self.find_victim(extent).is_some_and(|place| self.ranks.side(place) == Side::Ssd)
    }

    fn qualifies(&self, extent: Extent) -> bool {
        let heat = self.heat(extent).unwrap_or(0);
        self.measure.is_for_ssd(heat) && self.bar.is_none_or(|bar| heat > bar)
    }

    fn hottest(&self) -> Option<Extent> {
        let place = self.ranks.first(Side::Hdd)?;
        let is_for_ssd = self.measure.is_for_ssd(self.ranks.rank(place).heat);
        is_for_ssd.then(|| self.ranks.extent(place))
    }

    fn victim(&mut self, _: Option<Extent>) -> Option<Extent> {
        self.victim = self.ranks.first(Side::Ssd);
        self.victim.map(|place| self.ranks.extent(place))
    }

    fn memory(&self) -> Memory {
        self.ranks.memory()
    }

    fn boxed_clone(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }
}

/// Which epoch it is; it never goes back.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    length: Option<Duration>,
    now: u32,
}

impl Epoch {
    fn at(&mut self, now: Instant) {
        if let Some(length) = self.length {
            let epoch = now.ns / length.ns;
            self.now = self.now.max(u32::try_from(epoch).unwrap_or(u32::MAX));
        }
    }
}
