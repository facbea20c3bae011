//! Can a pair lose data?
//!
//! Source: acceptance of reservations and the pair, line 4: a power cut at every event and the death of
//! either drive at every event of 200 requests, 2,000 sampled, and while a leg is copied to, in each
//! durability mode.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::process::Stdio;

/// Seeds, from here on.
const FIRST_SEED: &str = "7000";
const SEEDS: &str = "6";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-sim", "--example", "pair_crashes", "--"];
    let output = cargo::cargo()
        .args(words)
        .args([FIRST_SEED, SEEDS])
        .stderr(Stdio::inherit())
        .output()
        .context("starting the crashes")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mode = |name: &str, what: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        let failed = printed.lines().find(|line| line.starts_with(&format!("FAILED {name}")));
        let measured = failed.or(line).unwrap_or("nothing was printed").to_owned();
        let holds = output.status.success() && failed.is_none() && line.is_some();
        Row::new(format!("{what}: no oracle violated"), measured, holds)
    };
    Ok(vec![
        mode("written", "answered when written"),
        mode("cached", "answered when cached"),
        mode("journal", "a journal on a third device, both faults at once"),
        mode(
            "hdd-journal",
            "a journal on a hard drive of its own, in its fast windows, both faults at once",
        ),
    ])
}
