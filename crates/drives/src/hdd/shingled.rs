//! Where do a shingled drive's random writes go? Into a media cache, until it is full.
//!
//! Source: models §5.2, SMR option: random writes at staircase speed into the cache; once it is
//! full each pays a band rewrite; appends to a stream bypass it.
//!
//! Divergence from a real drive: which bands the cached data belong to is not kept; an idle drive
//! cleans at one rate whatever they are, and reads never look the cache up.

use crate::rate::bytes_in;
use crate::spec::SmrSpec;

/// The media cache of a shingled drive.
#[derive(Clone, Debug)]
pub(super) struct MediaCache {
    size_bytes: u64,
    band_bytes: u64,
    clean_bytes_per_s: u64,
    pub(super) used_bytes: u64,
}

impl MediaCache {
    pub(super) fn new(spec: &SmrSpec) -> Self {
        MediaCache {
            size_bytes: spec.media_cache.get().0,
            band_bytes: spec.band.get().0,
            clean_bytes_per_s: spec.idle_clean_rate.get().0,
            used_bytes: 0,
        }
    }

    /// Takes a random write, or says how many bytes must be rewritten for it: each band that it
    /// touches is read and written.
    pub(super) fn take(&mut self, offset: u64, bytes: u64) -> u64 {
        if self.used_bytes + bytes <= self.size_bytes {
            self.used_bytes += bytes;
            return 0;
        }
        let first = offset / self.band_bytes;
        let last = (offset + bytes - 1) / self.band_bytes;
        (last - first + 1) * self.band_bytes * 2
    }

    /// The drive was left alone for `idle_ns`. Returns how long it cleaned.
    pub(super) fn clean(&mut self, idle_ns: u64) -> u64 {
        let cleaned = bytes_in(idle_ns, self.clean_bytes_per_s).min(self.used_bytes);
        self.used_bytes -= cleaned;
        crate::rate::transfer_ns(cleaned, self.clean_bytes_per_s)
    }
}
