//! Does a file system over the engine survive a power cut at any event?
//!
//! Source: issue of tiers and caches ("its names and directories a pure crate over the object interface and
//! `Batch`, so that the simulator cuts power under it too"). Random operations of names run over the real
//! engine in virtual time, as the server does them, beside the plain file system of the names' own tests.
//! At many events the power is cut in a fork: what is mounted then must be sound and a state that the file
//! system was in, not older than the last fsync; bytes must be such as were there since; and files that grow
//! must grow over zeroes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails, also the oracle's part of it")]

#[path = "names/past.rs"]
mod past;
#[path = "../../names/tests/support/mod.rs"]
mod plain;
#[path = "names/pool.rs"]
mod pool;
#[path = "names/run.rs"]
mod run;

use past::Counts;
use std::collections::BTreeMap;
use tandem_block::{Duration, KIB, MIB};
use tandem_sim::swarm::SwarmConfig;

/// Runs of each kind of pool.
const SEEDS: u64 = 20;

/// Room for files, and a table for them.
fn files(mut config: SwarmConfig) -> SwarmConfig {
    config.shape.volume_bytes = MIB;
    config.tuning.object_table_bytes = 256 * KIB;
    config
}

/// A journal that wraps every few commits, and commits that do not wait: checkpoints all the time.
fn hasty(seed: u64) -> SwarmConfig {
    let mut config = files(SwarmConfig::filed(seed, "mios-e", 0));
    config.tuning.journal_bytes = 32 * KIB;
    config.tuning.commit_interval = Duration::from_us(200);
    config
}

/// What it is, and the pool of a seed.
type Arm = (&'static str, fn(u64) -> SwarmConfig);

#[test]
fn a_power_cut_under_files_leaves_a_state_that_was() {
    let arms: [Arm; 4] = [
        ("files", |seed| files(SwarmConfig::filed(seed, "ssd-first", 0))),
        ("redirected, into small logs", |seed| files(SwarmConfig::cycled(seed, "mios-e", 0))),
        ("checkpoints", hasty),
        ("a pair", |seed| files(SwarmConfig::paired(seed, "mios-d", 0))),
    ];
    let mut totals: BTreeMap<&str, Counts> = BTreeMap::new();
    for (arm, config) in arms {
        let total = totals.entry(arm).or_default();
        for seed in 0..SEEDS {
            let counts = run::run(&config(seed), 1 + seed % 2);
            total.steps += counts.steps;
            total.refused += counts.refused;
            total.cuts += counts.cuts;
            total.older += counts.older;
            total.restarts += counts.restarts;
            total.crashes += counts.crashes;
            total.checkpoints += counts.checkpoints;
            total.commits += counts.commits;
            total.redirected += counts.redirected;
            total.snapshots += counts.snapshots;
            total.snapshot_batches += counts.snapshot_batches;
            total.undecided += counts.undecided;
        }
        println!("{arm}: {total:?}");
        assert!(total.cuts > 1000 && total.older > 300 && total.commits > 50, "{arm}: {total:?}");
        assert!(total.snapshots > 20 && total.undecided > 300, "{arm}: {total:?}");
        assert!(total.restarts > 2 && total.crashes > 2, "{arm}: {total:?}");
    }
    assert!(totals["checkpoints"].checkpoints > 30, "{totals:?}");
}
