//! What do systems do that are in use, or were published elsewhere?
//!
//! Source: requirements P10 to P16, each the rules of an architecture (`rules.rs`) with settings of its
//! own. They come as near as extents and collectors allow: what differs is said with each.

use super::TierEntry;
use super::rules::{
    CACHE_READ_ONLY, CACHE_WRITE_BACK, CACHE_WRITE_THROUGH, CACHE_WRITE_THROUGH_ALL, HOT_DST,
};
use super::settings::{COLLECTOR, EXTENT, HALF_LIFE, INTERVAL, RATE, READS, SIEVE_BYTES};
use tandem_block::{KIB, MIB};

const SECOND: u64 = 1_000_000_000;
/// Words of `collector`.
const COUNTS: (&str, u64) = (COLLECTOR.name, 1);
const EDT_RATES: (&str, u64) = (COLLECTOR.name, 2);
const LRU: (&str, u64) = (COLLECTOR.name, 3);

/// ZFS feeds from the end of its cache in RAM, once a second; here what a hard drive was read for
/// comes, at ZFS's rate. Its ring evicts the oldest, here the least recently used.
pub(crate) const L2ARC: TierEntry = TierEntry {
    name: "l2arc",
    summary: "as ZFS's L2ARC: a read-only cache that is fed 64 MiB/s at most",
    source: "OpenZFS, requirements P10",
    presets: &[LRU, (EXTENT.name, 128 * KIB), (RATE.name, 64 * MIB)],
    ..CACHE_READ_ONLY
};

/// NetApp's: read-only, in blocks of 4 KiB, invalid once written to.
pub(crate) const FLASHCACHE: TierEntry = TierEntry {
    name: "flashcache",
    summary: "as NetApp's Flash Cache: a read-only cache of 4 KiB blocks",
    source: "requirements P11",
    presets: &[LRU, (EXTENT.name, 4 * KIB)],
    ..CACHE_READ_ONLY
};

/// EMC's: pages of 64 KiB come at the third access. Its flash is mirrored: give the pool a pair.
pub(crate) const FASTCACHE: TierEntry = TierEntry {
    name: "fastcache",
    summary: "as EMC's FAST Cache: a write-back cache of 64 KiB pages that were read three times",
    source: "requirements P12",
    presets: &[LRU, (EXTENT.name, 64 * KIB), (READS.name, 3)],
    ..CACHE_WRITE_BACK
};

/// Azor chooses by access counts; its first level, file systems' metadata, is what `sieve_type` sees.
pub(crate) const AZOR: TierEntry = TierEntry {
    name: "azor",
    summary: "as Azor: a write-through cache that admits what is accessed more often than what leaves",
    source: "LORIS II-A, requirements P13",
    presets: &[COUNTS, (EXTENT.name, 4 * KIB)],
    ..CACHE_WRITE_THROUGH
};

/// EDT places 64 MiB extents every half hour, by requests and bytes a second; extents here are smaller.
pub(crate) const EDT: TierEntry = TierEntry {
    name: "edt",
    summary: "as EDT: what has many small requests comes, every half hour; what is read in bulk does not",
    source: "LORIS II-B, requirements P14",
    presets: &[EDT_RATES, (EXTENT.name, 4 * MIB), (INTERVAL.name, 1800 * SECOND)],
    ..HOT_DST
};

/// Hystor remaps critical blocks by inverse bitmaps, in the background; its write-back area is what
/// steering does here.
pub(crate) const HYSTOR: TierEntry = TierEntry {
    name: "hystor",
    summary: "as Hystor: what has many small requests, by inverse bitmaps, comes every ten seconds",
    source: "LORIS II-B, requirements P15",
    presets: &[(EXTENT.name, 16 * KIB), (INTERVAL.name, 10 * SECOND)],
    ..HOT_DST
};

/// IBM's samples five minutes, forgets over a day, and does not look at requests above 64 KiB.
pub(crate) const EASYTIER: TierEntry = TierEntry {
    name: "easytier",
    summary: "as IBM's Easy Tier: every five minutes, by small requests of the last day",
    source: "LORIS II-B, requirements P16",
    presets: &[
        COUNTS,
        (EXTENT.name, 4 * MIB),
        (INTERVAL.name, 300 * SECOND),
        (HALF_LIFE.name, 86_400 * SECOND),
        (SIEVE_BYTES.name, 64 * KIB),
    ],
    ..HOT_DST
};

/// MOST mirrors segments of 2 MiB that are hot. Which side serves them is the affair of the steering policy
/// of the same name. Its tiered data lies on the faster device alone; here what is not hot is on hard drives.
pub(crate) const MOST: TierEntry = TierEntry {
    name: "most",
    summary: "as MOST's mirrored data: what is used most is on both sides; for the policy most",
    source: "MOST (FAST 2026), requirements P20",
    presets: &[COUNTS, (EXTENT.name, 2 * MIB)],
    ..CACHE_WRITE_THROUGH_ALL
};

#[cfg(test)]
mod tests {
    use crate::tier::{Comes, Intention, Tier, TierConfig, TierView};
    use tandem_block::{BLOCK_BYTES, KIB, MIB, RequestType};

    const SECOND: u64 = super::SECOND;

    fn named(name: &str) -> (TierConfig, Box<dyn Tier>) {
        let config = TierConfig::named(name);
        let tier = config.build().expect(name);
        (config, tier)
    }

    fn view(held: bool, bytes: u64) -> TierView {
        let data_type = RequestType::Data;
        TierView { logical: 0, count: bytes / BLOCK_BYTES, data_type, held }
    }

    /// Where new data belongs, and where a write to what the SSD holds does.
    fn places(tier: &dyn Tier) -> (Intention, Intention) {
        (tier.intend(&view(false, 4096)), tier.intend(&view(true, 4096)))
    }

    fn collector(config: &TierConfig) -> &'static str {
        crate::tier::settings::collector_name(config.get("collector"))
    }

    /// A read-only cache: what is read comes, and a write goes to the hard drive.
    fn is_read_only(tier: &dyn Tier) -> bool {
        places(tier) == (Intention::Hdd, Intention::Hdd)
            && tier.comes() == Comes::WhenRead
            && !tier.keeps_alone()
    }

    /// Hot-DST at intervals: new data on the hard drive, the hottest come by the clock, in one place.
    fn is_interval_hot_dst(tier: &dyn Tier) -> bool {
        places(tier) == (Intention::Hdd, Intention::Ssd)
            && tier.comes() == Comes::AtIntervals
            && tier.keeps_alone()
    }

    #[test]
    fn p10_l2arc_is_read_only_and_fed_slowly() {
        let (config, tier) = named("l2arc");
        assert!(is_read_only(&*tier));
        assert_eq!(config.get("move_bytes_per_s"), 64 * MIB);
    }

    #[test]
    fn p11_flashcache_is_read_only_and_a_write_makes_its_block_invalid() {
        let (config, tier) = named("flashcache");
        assert!(is_read_only(&*tier));
        assert_eq!(config.get("extent"), 4 * KIB, "no other block is invalid with it");
    }

    #[test]
    fn p12_fastcache_is_write_back_and_takes_what_was_read_three_times() {
        let (config, tier) = named("fastcache");
        assert_eq!(places(&*tier), (Intention::Ssd, Intention::Ssd));
        assert!(!tier.keeps_alone(), "a copy of what came stays at home");
        assert_eq!((config.get("reads"), config.get("extent")), (3, 64 * KIB));
    }

    #[test]
    fn p13_azor_writes_to_both_and_counts_accesses() {
        let (config, tier) = named("azor");
        assert_eq!(places(&*tier), (Intention::Hdd, Intention::Both));
        assert_eq!(collector(&config), "counts");
        let metadata = config.with("sieve_type", 1).build().expect("its first level");
        let directory = TierView { data_type: RequestType::Metadata, ..view(false, 4096) };
        assert!(metadata.admits(&directory) && !metadata.admits(&view(false, 4096)));
    }

    #[test]
    fn p14_edt_moves_extents_by_its_two_rates() {
        let (config, tier) = named("edt");
        assert!(is_interval_hot_dst(&*tier));
        assert_eq!((collector(&config), config.get("interval")), ("edt", 1800 * SECOND));
    }

    #[test]
    fn p15_hystor_moves_what_its_inverse_bitmaps_say() {
        let (config, tier) = named("hystor");
        assert!(is_interval_hot_dst(&*tier));
        assert_eq!(collector(&config), "inverse-bitmap");
    }

    #[test]
    fn p16_easytier_moves_every_five_minutes_by_small_requests_of_a_day() {
        let (config, tier) = named("easytier");
        assert!(is_interval_hot_dst(&*tier));
        assert_eq!(config.get("interval"), 300 * SECOND);
        assert_eq!(config.get("half_life"), 86_400 * SECOND);
        assert!(tier.admits(&view(false, 64 * KIB)) && !tier.admits(&view(false, 68 * KIB)));
    }

    #[test]
    fn p20_mosts_mirror_is_on_both_sides_and_has_what_is_used_most() {
        let (config, tier) = named("most");
        assert_eq!(places(&*tier), (Intention::Both, Intention::Both));
        assert!(!tier.keeps_alone(), "the home has it, too");
        assert_eq!((collector(&config), config.get("extent")), ("counts", 2 * MIB));
    }
}
