//! Is an extent worth the drives' time that its move takes?
//!
//! Source: requirements B8 "require benefit > cost", L9, L10, L13. [LORIS §III] moves whatever is hotter than
//! what left last; here both sides are time of drives, by what is believed of them.
//!
//! *What it saves:* each read that a hard drive was needed for would have taken so much less on the SSD. What
//! an extent would have saved in the time just past it is expected to save in as much time to come: the sum
//! is kept by extent and halved every `pays_within`, and two thirds of it count, because it comes to one
//! to two times what one such time saves. The first read foretells nothing (most of what is read once is
//! never read again); writes do not count, since a hard drive's log takes them without coming to a place.
//!
//! *What it takes:* reading it where a hard drive is (reading more of it, if a user's read is there anyway),
//! writing it to the SSD, and, if another one has to leave for it that lies on the SSD alone, bringing
//! that home.

use super::collect::Extent;
use super::collect::heat::Heat;
use crate::config::{EngineConfig, Role};
use tandem_block::{BLOCK_BYTES, Duration, Instant};

/// Extents that are remembered at most, 16 bytes each: 2 MiB. Two share a place; of three the one goes that
/// would save least.
const REMEMBERED_MAX: u64 = 131_072;
const SHARING: usize = 2;
/// What the first read is worth: remembered for two more halvings, and nothing beside a move.
const FIRST_US: u32 = 4;
/// Of a hard drive without a profile: coming to a place, and its rate (guess).
const POSITION_NS: u64 = 12_000_000;
const HDD_BYTES_PER_S: u64 = 150_000_000;
/// An SSD's read beside its transfer (guess).
const SSD_READ_NS: u64 = 100_000;

/// What is believed of the drives of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriveCosts {
    /// A hard drive comes to a place, in ns.
    pub(crate) position_ns: u64,
    /// … and reads and writes there, in bytes/s.
    pub(crate) hdd_bytes_per_s: u64,
    /// An SSD writes, and at least so fast it reads, in bytes/s.
    pub(crate) ssd_bytes_per_s: u64,
}

impl Default for DriveCosts {
    fn default() -> Self {
        DriveCosts {
            position_ns: POSITION_NS,
            hdd_bytes_per_s: HDD_BYTES_PER_S,
            ssd_bytes_per_s: crate::profile::SsdProfile::default().write_bytes_per_s,
        }
    }
}

impl DriveCosts {
    /// Of the quickest hard drive and the slowest SSD: so nothing looks better than it is.
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let drives = |role| config.devices.iter().filter(move |drive| drive.role == role);
        let profiles = || drives(Role::Hdd).filter_map(|drive| drive.hdd_profile.as_ref());
        let rate = |regions: &[(u64, u64)]| regions.iter().map(|region| region.1).max();
        let usual = DriveCosts::default();
        DriveCosts {
            position_ns: profiles().map(|p| p.position_ns).min().unwrap_or(usual.position_ns),
            hdd_bytes_per_s: profiles()
                .filter_map(|p| rate(&p.detail.regions))
                .max()
                .unwrap_or(usual.hdd_bytes_per_s),
            ssd_bytes_per_s: drives(Role::Ssd)
                .map(|drive| drive.ssd_profile.write_bytes_per_s)
                .min()
                .unwrap_or(usual.ssd_bytes_per_s),
        }
    }

    fn hdd_ns(&self, bytes: u64) -> u64 {
        self.position_ns.saturating_add(transfer_ns(bytes, self.hdd_bytes_per_s))
    }

    /// What a read of so many bytes saves if it need not go to a hard drive.
    fn saved_ns(&self, bytes: u64) -> u64 {
        let ssd_ns = SSD_READ_NS.saturating_add(transfer_ns(bytes, self.ssd_bytes_per_s));
        self.hdd_ns(bytes).saturating_sub(ssd_ns)
    }

    /// What bringing `bytes` takes, if so many have to be brought home for them.
    fn move_ns(&self, bytes: u64, rides: bool, home_bytes: u64) -> u64 {
        let read =
            if rides { transfer_ns(bytes, self.hdd_bytes_per_s) } else { self.hdd_ns(bytes) };
        let home = match home_bytes {
            0 => 0,
            bytes => self.hdd_ns(bytes).saturating_add(transfer_ns(bytes, self.ssd_bytes_per_s)),
        };
        read.saturating_add(transfer_ns(bytes, self.ssd_bytes_per_s)).saturating_add(home)
    }
}

fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// What extents on hard drives would have saved.
#[derive(Clone, Debug)]
pub(crate) struct Benefit {
    costs: DriveCosts,
    /// In this time a move has to pay.
    within: Duration,
    now: Instant,
    /// Microseconds, as heat; never worth anything where nothing is.
    seen: Vec<[(Extent, Heat); SHARING]>,
}

impl Benefit {
    /// Of a pool with so many extents.
    pub(crate) fn new(within: Duration, extents: u64) -> Self {
        assert!(within.ns > 0, "checked with the configuration");
        let places = (extents.clamp(1, REMEMBERED_MAX).div_ceil(SHARING as u64)) as usize;
        Benefit {
            costs: DriveCosts::default(),
            within,
            now: Instant::ZERO,
            seen: vec![[(Extent(u64::MAX), Heat::ZERO); SHARING]; places],
        }
    }

    /// What is believed of the drives from now on.
    pub(crate) fn price(&mut self, costs: DriveCosts) {
        self.costs = costs;
    }

    /// Time passes.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn epoch(&self) -> u32 {
        u32::try_from(self.now.ns / self.within.ns).unwrap_or(u32::MAX)
    }

    fn place(&self, extent: Extent) -> usize {
        (extent.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % self.seen.len()
    }

    /// A hard drive is read for so many bytes of an extent.
    pub(crate) fn missed(&mut self, extent: Extent, bytes: u64) {
        assert!(bytes > 0, "a read that misses is of some bytes");
        let (at, epoch) = (self.place(extent), self.epoch());
        let saved_us = u32::try_from(self.costs.saved_ns(bytes) / 1000).unwrap_or(u32::MAX);
        let place = &mut self.seen[at];
        let known = place.iter_mut().find(|(known, _)| *known == extent);
        match known.filter(|(_, heat)| heat.value(epoch) > 0) {
            Some((_, heat)) => *heat = heat.plus(saved_us, epoch),
            None => {
                // its own, if it was forgotten, since then it is worth nothing
                let least = place
                    .iter_mut()
                    .min_by_key(|(known, heat)| (*known != extent, heat.value(epoch)));
                *least.expect("places are not empty") = (extent, Heat::ZERO.plus(FIRST_US, epoch));
            }
        }
    }

    /// What an extent is expected to save within the time, in ns.
    pub(crate) fn expected_ns(&self, extent: Extent) -> u64 {
        let epoch = self.epoch();
        let known = self.seen[self.place(extent)].iter().find(|(known, _)| *known == extent);
        u64::from(known.map_or(0, |(_, heat)| heat.value(epoch))) * 1000 * 2 / 3
    }

    /// Does it pay to bring an extent of so many blocks, with a user's read or without, if so many blocks
    /// of another one have to be brought home for it?
    pub(crate) fn pays(&self, extent: Extent, blocks: u64, rides: bool, home_blocks: u64) -> bool {
        assert!(home_blocks <= blocks, "extents are alike, and no more of one can leave");
        let cost_ns = self.costs.move_ns(blocks * BLOCK_BYTES, rides, home_blocks * BLOCK_BYTES);
        self.expected_ns(extent) > cost_ns
    }

    /// Bytes that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        std::mem::size_of_val(&self.seen[..]) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: DriveCosts = DriveCosts {
        position_ns: 10_000_000,
        hdd_bytes_per_s: 100_000_000,
        ssd_bytes_per_s: 400_000_000,
    };

    fn benefit() -> Benefit {
        let mut benefit = Benefit::new(Duration::from_s(100), 1000);
        benefit.price(COSTS);
        benefit
    }

    /// 16 blocks: 655 us from the hard drive, 163 us to the SSD, 10 ms to come to a place.
    #[test]
    fn what_a_move_takes_is_the_drives_time() {
        assert_eq!(COSTS.move_ns(65_536, true, 0), 655_360 + 163_840);
        assert_eq!(COSTS.move_ns(65_536, false, 0), 10_655_360 + 163_840);
        assert_eq!(
            COSTS.move_ns(65_536, true, 8192),
            655_360 + 163_840 + 10_081_920 + 20_480,
            "what lies on the SSD alone is read there and written home"
        );
        assert_eq!(COSTS.saved_ns(4096), 10_040_960 - 100_000 - 10_240);
        let quick = DriveCosts { position_ns: 0, hdd_bytes_per_s: u64::MAX, ..COSTS };
        assert_eq!(quick.saved_ns(4096), 0, "a hard drive that is quicker: nothing is saved");
    }

    #[test]
    fn b8_benefit_must_exceed_cost() {
        let mut benefit = benefit();
        let extent = Extent(7);
        assert!(!benefit.pays(extent, 1, true, 0), "it was never read");
        benefit.missed(extent, 4096);
        assert!(!benefit.pays(extent, 16, true, 0), "the first read foretells nothing");
        benefit.missed(extent, 4096);
        // 9.93 ms saved, of which 6.6 ms count
        assert_eq!(benefit.expected_ns(extent), (4 + 9930) * 1000 * 2 / 3);
        assert!(benefit.pays(extent, 16, true, 0), "0.8 ms with a read that is there anyway");
        assert!(!benefit.pays(extent, 16, false, 0), "10.8 ms without");
        assert!(!benefit.pays(extent, 16, true, 1), "what has to leave for it takes 10 ms");
        assert!(!benefit.pays(extent, 256, true, 0), "1 MiB takes 13 ms");
        benefit.missed(extent, 4096);
        assert!(benefit.pays(extent, 16, false, 0) && benefit.pays(extent, 16, true, 1));
        assert!(!benefit.pays(extent, 16, false, 1), "20.9 ms");
        assert!(!benefit.pays(Extent(8), 16, true, 0), "another one");
    }

    #[test]
    fn what_was_long_ago_is_worth_less() {
        let mut benefit = benefit();
        let extent = Extent(7);
        for _ in 0..4 {
            benefit.missed(extent, 4096);
        }
        let before = benefit.expected_ns(extent);
        benefit.advance(Instant::ZERO + Duration::from_s(100));
        assert!(benefit.expected_ns(extent).abs_diff(before / 2) < 1000);
        benefit.advance(Instant::ZERO + Duration::from_s(5000));
        assert_eq!(benefit.expected_ns(extent), 0);
        benefit.missed(extent, 4096);
        assert!(benefit.expected_ns(extent) < 4000, "it is the first again");
    }

    /// Of those that share a place the ones stay that would save most, and each keeps its own.
    #[test]
    fn memory_is_bounded_and_the_most_worth_stay() {
        let mut benefit = Benefit::new(Duration::from_s(100), 2);
        benefit.price(COSTS);
        for _ in 0..3 {
            benefit.missed(Extent(1), 4096);
        }
        for extent in 2..50 {
            benefit.missed(Extent(extent), 4096);
        }
        assert!(benefit.pays(Extent(1), 16, true, 0));
        assert!((2..50).all(|extent| !benefit.pays(Extent(extent), 16, true, 0)));
        benefit.missed(Extent(49), 4096);
        assert!(benefit.pays(Extent(49), 16, true, 0), "the last one was still known");
        let large = Benefit::new(Duration::from_s(1), u64::MAX);
        assert_eq!(large.memory_bytes(), REMEMBERED_MAX * 16);
    }
}
