//! Does the campaign violate nothing at a million crash points and in a hundred thousand runs with a fault?
//!
//! Source: acceptance of trust, line 2. A run with a fault is a run of an arm whose drives fail, or a job in
//! which one command failed.

use super::Options;
use crate::accept::swarm::{self, Share};
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::process::Stdio;

const CRASHES_WANTED: u64 = 1_000_000;
const FAULT_RUNS_WANTED: u64 = 100_000;
/// Seeds that the tests of every day do not use: of every arm, and of those with faults.
const SEEDS: (u64, u64) = (7_000, 10);
const FAULT_SEEDS: (u64, u64) = (8_000, 150);
/// Arms whose drives fail.
const FAULTS: [&str; 8] =
    ["faulted", "metadata", "nth", "lying", "twice", "stuck", "worn", "rolled"];
/// Commands of each job.
const COMMANDS: &str = "450";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let all = swarm::share(SEEDS, &[])?;
    let faults = swarm::share(FAULT_SEEDS, &FAULTS)?;
    let jobs = swarm::jobs(&["--commands", COMMANDS])?;
    let mut rows: Vec<Row> = all.iter().map(arm).collect();
    let (crashes, seconds) = (sum(&all, |share| share.crashes), sum(&all, |share| share.seconds));
    rows.push(Row::new(
        format!("at least {CRASHES_WANTED} crash points, 0 violated"),
        format!("{crashes}, {} an hour", crashes * 3_600 / seconds.max(1)),
        crashes >= CRASHES_WANTED && sum(&all, |share| share.failed) == 0,
    ));
    rows.extend(faults.iter().map(arm));
    let of_arms = all.iter().filter(|share| FAULTS.contains(&share.arm.as_str()));
    let runs = of_arms.map(|share| share.runs).sum::<u64>() + sum(&faults, |share| share.runs);
    let failed = sum(&faults, |share| share.failed) + jobs.violated;
    rows.push(Row::new(
        format!("at least {FAULT_RUNS_WANTED} runs with a fault, 0 violated, 0 hung"),
        format!("{runs} of arms, {} of jobs; {failed} violated or hung", jobs.commands),
        runs + jobs.commands >= FAULT_RUNS_WANTED && failed == 0,
    ));
    rows.push(mutants()?);
    Ok(rows)
}

fn sum(shares: &[Share], of: impl Fn(&Share) -> u64) -> u64 {
    shares.iter().map(of).sum()
}

fn arm(share: &Share) -> Row {
    let Share { arm, what, runs, crashes, faults, failed, .. } = share;
    Row::new(
        format!("{arm}: {what}"),
        format!("{runs} runs, {crashes} crashes, {faults} faults, {failed} violated"),
        *runs > 0 && *failed == 0,
    )
}

fn mutants() -> Result<Row> {
    let words =
        ["test", "--release", "-p", "tandem-sim", "--features", "mutants", "--test", "mutants"];
    let output = cargo::cargo()
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .context("starting the mutants")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().find(|line| line.starts_with("test result:")).unwrap_or("no result");
    Ok(Row::new("every mutant is killed", result, output.status.success()))
}
