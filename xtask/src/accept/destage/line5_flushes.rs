//! How often is the hard drive flushed while an SSD is full?
//!
//! Source: acceptance of destaging, line 5.

use super::Options;
use super::measured::{Job, SAT, SATLONG, program, replay};
use crate::accept::swarm;
use crate::row::Row;
use anyhow::{Context as _, Result};

/// Written home for each flush, at least.
const MIB_A_FLUSH: u64 = 32;
/// Seeds that the tests of every day do not use.
const FULL_SEEDS: (u64, u64) = (9_000, 40);
/// Both tiers full.
const FULL: &[&str] = &["crowded"];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let mut rows = Vec::new();
    for (name, workload) in [("sat", SAT), ("satlong", SATLONG)] {
        for seed in 1..=3 {
            let runs = replay(&program, Job { workload, seed, ..Job::default() })?;
            let ours = runs.last().context("a replay has runs")?;
            let each = ours.home_mib / ours.flushes.max(1);
            let row = Row::new(
                format!("{name}, seed {seed}: at most one flush for each {MIB_A_FLUSH} MiB home"),
                format!("{} flushes for {} MiB: {each} MiB each", ours.flushes, ours.home_mib),
                each >= MIB_A_FLUSH,
            );
            rows.push(row.shown());
        }
    }
    let shares = swarm::share(FULL_SEEDS, FULL)?;
    let crashes: u64 = shares.iter().map(|share| share.crashes).sum();
    let failed: u64 = shares.iter().map(|share| share.failed).sum();
    rows.push(Row::new(
        "power cuts with full drives: 0 violated",
        format!("{crashes} crashes, {failed} violated"),
        failed == 0 && crashes > 0,
    ));
    Ok(rows)
}
