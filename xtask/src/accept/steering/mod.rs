//! Is the second milestone reached: write steering with every policy of the papers, measured against
//! them?
//!
//! Source: acceptance of write steering.

mod line1_experiments;
mod line2_profiles;
mod line3_drift;
mod line4_several;
mod line5_live;
mod line6_swarm;

use super::{Line, Options, row};
use anyhow::{Context as _, Result};

pub(super) const LINES: &[Line] = &[
    (1, line1_experiments::measure),
    (2, line2_profiles::measure),
    (3, line3_drift::measure),
    (4, line4_several::measure),
    (5, line5_live::measure),
    (6, line6_swarm::measure),
];

/// Mean of the stage `device` in ns and the count of latencies as Tandem tells them.
fn numbers_of(latencies: &serde_json::Value) -> Result<(u64, u64)> {
    let mean = latencies["stages"]["device"]["mean_ns"].as_u64();
    Ok((mean.context("no mean of the stage device")?, latencies["count"].as_u64().unwrap_or(0)))
}
