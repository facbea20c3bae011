//! Does nothing get lost when the power goes or the process is killed?
//!
//! Source: issue "the spine", acceptance 6.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};

const CUTS_WANTED: u64 = 10_000;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let mut rows = vec![swarm("200", "1", "50", "2")?, swarm("2000", "40", "100", "5")?];
    let words = ["test", "-p", "tandem-sim", "--features", "mutants", "--test", "mutants"];
    let status = cargo::cargo().args(words).status().context("starting the mutants")?;
    rows.push(Row::new("every mutant is caught", status.to_string(), status.success()));
    rows.push(Row::not_built("100 rounds of SIGKILL over NBD on emulated drives: nothing lost"));
    rows.push(Row::not_built("30 rounds of SIGKILL over the FUSE file: nothing lost"));
    rows.push(Row::not_built("a build that drops flushes fails the SIGKILL rounds"));
    Ok(rows)
}

/// Power cuts at every `stride`th event of workloads of this many requests, under all policies.
fn swarm(requests: &str, stride: &str, recovery_stride: &str, seeds: &str) -> Result<Row> {
    let words = ["run", "--release", "-p", "tandem-sim", "--example", "swarm", "--", "7000"];
    let text = cargo::cargo()
        .args(words)
        .args([seeds, requests, stride, recovery_stride])
        .output()
        .context("starting the swarm")?;
    let said = String::from_utf8_lossy(&text.stdout);
    let first = said.lines().next().unwrap_or("it said nothing").to_owned();
    let cuts = first
        .split(", ")
        .find_map(|part| part.strip_suffix(" power cuts"))
        .and_then(|number| number.parse::<u64>().ok());
    let enough = cuts.is_some_and(|cuts| stride != "1" || cuts >= CUTS_WANTED);
    Ok(Row::new(
        format!("{requests} requests, a cut at every {stride}. event, recovery too: none violated"),
        first,
        text.status.success() && enough,
    ))
}
