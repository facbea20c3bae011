//! Do the README's two commands do what it says?
//!
//! Source: acceptance of the spine, line 1.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Instant;

const TEST_MINUTES: u64 = 25;

pub(super) fn measure(options: &Options) -> Result<Vec<Row>> {
    let mut rows = demo()?;
    let wanted = format!("`cargo xtask test` passes in under {TEST_MINUTES} min");
    if options.without_tests {
        rows.push(Row::info(wanted, "not run: --without-tests"));
        return Ok(rows);
    }
    let began = Instant::now();
    let output = cargo::cargo()
        .args(["xtask", "test"])
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo xtask test")?;
    let took_s = began.elapsed().as_secs();
    let text = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<&str> = text.lines().filter(|line| line.contains("FAILED")).take(5).collect();
    rows.push(Row::new(
        wanted,
        format!("{} after {took_s} s; {}", output.status, failed.join("; ")),
        output.status.success() && took_s < TEST_MINUTES * 60,
    ));
    Ok(rows)
}

fn demo() -> Result<Vec<Row>> {
    let tandem = cargo::build_tandem(true)?;
    let output = Command::new(tandem)
        .args(["demo", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("starting the demo")?;
    let status = output.status;
    let mut rows = vec![Row::new("demo exits with 0", status.to_string(), status.success())];
    let json: Value = serde_json::from_slice(&output.stdout).context("the demo's JSON")?;
    let runs = |part: &str| json[part]["runs"].as_array().cloned().unwrap_or_default();
    let live = runs("live");
    let errors = |run: &Value| run["errors"].as_u64();
    rows.push(Row::new(
        "demo: live runs of two policies without errors",
        format!("{} runs, errors {:?}", live.len(), live.iter().map(errors).collect::<Vec<_>>()),
        live.len() >= 2 && live.iter().all(|run| errors(run) == Some(0)),
    ));
    let modelled = runs("virtual");
    let p999 = |policy: &str| {
        let run = modelled.iter().find(|run| run["policy"].as_str() == Some(policy))?;
        run["write"]["p999_ns"].as_u64()
    };
    let (plain, mios) = (p999("ssd-first"), p999("mios-d"));
    rows.push(Row::new(
        "demo: p99.9 of virtual writes lower under mios-d than under ssd-first",
        format!("{mios:?} ns against {plain:?} ns"),
        mios.is_some() && plain.is_some() && mios < plain,
    ));
    Ok(rows)
}
