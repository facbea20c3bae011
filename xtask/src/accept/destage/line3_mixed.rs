//! Do reads beside destaging stay short?
//!
//! Source: acceptance of destaging, line 3.

use super::Options;
use super::measured::{Job, MIX73, MIXHOT, Measured, ms, program, replay, seconds};
use crate::row::Row;
use anyhow::{Context as _, Result};

/// The policy and the tier of the comparison with the kernel's caches.
const POLICIES: &str = "bare,ect";
/// Small requests come in as they are: there are at most 60 MiB of them.
const MIX73_TIER: &str = "cache-write-back:extent=4KiB";
const MIXHOT_TIER: &str = "cache-write-back";
const SEEDS: u64 = 3;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let mut rows = Vec::new();
    for seed in 1..=SEEDS {
        let of = |workload, tier| -> Result<Measured> {
            let tiers = Some(tier);
            let runs = replay(
                &program,
                Job { workload, policies: POLICIES, tiers, seed, ..Job::default() },
            )?;
            runs.into_iter().next_back().context("a replay has runs")
        };
        let mix = of(MIX73, MIX73_TIER)?;
        rows.push(time("mix73", &mix, seed, 29));
        rows.push(tail("mix73", &mix, seed, 200));
        rows.push(Row::new(
            format!("mix73, seed {seed}: at most 60 MiB to the SSD"),
            format!("{} MiB", mix.ssd_mib),
            mix.ssd_mib <= 60,
        ));
        let hot = of(MIXHOT, MIXHOT_TIER)?;
        rows.push(time("mixhot", &hot, seed, 68));
        rows.push(tail("mixhot", &hot, seed, 190));
        let longest = ms(hot.read.longest.max(hot.write.longest));
        rows.push(Row::new(
            format!("mixhot, seed {seed}: the longest below 1 s"),
            format!("{longest} ms"),
            longest < 1_000,
        ));
    }
    Ok(rows)
}

fn time(name: &str, run: &Measured, seed: u64, most_s: u64) -> Row {
    Row::new(
        format!("{name}, {}, seed {seed}: at most {most_s} s", run.policy),
        seconds(run.took_ms),
        run.took_ms <= most_s * 1_000,
    )
}

fn tail(name: &str, run: &Measured, seed: u64, most_ms: u64) -> Row {
    Row::new(
        format!("{name}, seed {seed}: reads' p99.9 at most {most_ms} ms"),
        format!("{} ms, mean {} ms", ms(run.read.p999), ms(run.read.mean)),
        ms(run.read.p999) <= most_ms,
    )
}
