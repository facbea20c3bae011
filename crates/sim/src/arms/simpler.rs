//! How can a pool and its load be made smaller, one thing at a time? What a failing case is shrunk by.

use crate::pool::SwarmConfig;
use tandem_block::{Duration, KIB};

/// One thing that is made smaller.
#[derive(Clone, Copy)]
pub struct Simpler {
    /// Its name, as a case spells it.
    pub name: &'static str,
    /// Makes it smaller.
    pub apply: fn(&mut SwarmConfig),
}

/// All of them, those that change most first.
pub const SIMPLER: &[Simpler] = &[
    Simpler { name: "one-ssd", apply: |config| config.drives.0 = config.drives.0.min(1) },
    Simpler { name: "one-hdd", apply: |config| config.drives.1 = config.drives.1.min(1) },
    Simpler { name: "one-at-a-time", apply: |config| config.shape.depth = 1 },
    Simpler { name: "whole-blocks", apply: |config| config.shape.unaligned_ppm = 0 },
    Simpler {
        name: "short",
        apply: |config| {
            config.shape.length_bytes_max = config.shape.length_bytes_max.min(8 * KIB);
        },
    },
    Simpler { name: "no-pauses", apply: |config| config.shape.pause = Duration::ZERO },
    Simpler { name: "no-zeroes", apply: |config| config.shape.mix.zero = 0 },
    Simpler { name: "no-fua", apply: |config| config.shape.mix.fua = 0 },
    Simpler { name: "no-reads", apply: |config| config.shape.mix.read = 0 },
    Simpler { name: "no-flushes", apply: |config| config.shape.mix.flush = 0 },
];
