//! What do systems do that are in use, or were published elsewhere?
//!
//! Source: requirements P10 to P16, each the rules of an architecture (`rules.rs`) with settings of its
//! own. They come as near as extents and collectors allow: what differs is said with each.

use super::TierEntry;
use super::rules::{CACHE_READ_ONLY, CACHE_WRITE_BACK, CACHE_WRITE_THROUGH, HOT_DST};
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
