//! Does an extent want requests per second, or bytes per second?
//!
//! Source: EDT, as [LORIS §III] tells of it: extents that are heavy by IOPS belong on the SSD, those that
//! are heavy by bandwidth on drives with good streams.
//!
//! Both are counted and age alike. An extent whose requests have more bytes than a bound on average is
//! heavy by bandwidth: colder than all others whatever it has, and never asked for. The others are in
//! order of their requests. Unclear: where the bound lies; `large_bytes` is EasyTier's 64 KiB.

use super::by_heat::{ByHeat, Measure};
use super::heat::Heat;
use super::{CollectConfig, CollectorEntry, Touch};
use tandem_block::SECTOR_BYTES;

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "edt",
    summary: "heat is requests; extents of large requests on average are left to hard drives",
    source: "Loris, section III; EDT",
    ranks: true,
    build: |config| Box::new(ByHeat::<Edt, 1>::new(config)),
};

/// Over the heat: heavy by IOPS.
const BY_REQUESTS: u64 = 1 << (64 - Heat::SPARE_BITS);

#[derive(Clone, Debug)]
struct Edt {
    large_sectors: u64,
}

impl Measure<1> for Edt {
    fn new(config: &CollectConfig) -> Self {
        Edt { large_sectors: config.large_bytes / SECTOR_BYTES }
    }

    /// What is kept is the sectors that were asked for, as heat.
    #[inline]
    fn heat(&self, was: u64, [sectors]: &mut [u64; 1], touch: &Touch, epoch: u32) -> u64 {
        let more = u32::try_from(touch.bytes.div_ceil(SECTOR_BYTES)).unwrap_or(u32::MAX);
        let (moved, moved_sectors) = Heat::from_number(*sectors).plus_worth(more, epoch);
        *sectors = moved.number();
        let (requests, count) = Heat::from_number(was & !BY_REQUESTS).plus_worth(1, epoch);
        let is_small = u64::from(moved_sectors) <= u64::from(count) * self.large_sectors;
        requests.number() | u64::from(is_small) << (64 - Heat::SPARE_BITS)
    }

    fn is_for_ssd(&self, heat: u64) -> bool {
        heat & BY_REQUESTS != 0
    }
}
