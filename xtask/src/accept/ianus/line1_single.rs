//! How many of the figures about one drive come out, and what does one drive give?
//!
//! Source: acceptance of reservations and the pair, line 1: one drive gives about half the reads of the
//! pair (525 of 1100 in the paper), misses its targets at one second and meets them at ten; 80 % of the
//! relations hold, the rest are explained.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Share of the relations that must hold, in percent.
const HOLD_PERCENT: usize = 80;
/// Reads a second of the paper's one drive, and how far ours may be off in percent.
const READS: f64 = 525.0;
const READS_PERCENT: f64 = 15.0;
const FILES: [&str; 3] = ["ianus-state", "ianus-windows", "ianus-guarantees"];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let tandem = cargo::build_tandem(true)?;
    let folder = tempfile::tempdir()?;
    let details = folder.path().join("details.json");
    let files = FILES.map(|name| cargo::root().join(format!("experiments/{name}.toml")));
    let output = Command::new(&tandem)
        .arg("run")
        .args(&files as &[PathBuf])
        .arg("--json")
        .arg("--details")
        .arg(&details)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting tandem run")?;
    let told: Value = serde_json::from_slice(&output.stdout).context("what tandem run printed")?;
    let details: Value = serde_json::from_slice(&std::fs::read(&details)?)?;
    let mut rows = relations(&told)?;
    rows.extend(reads(&details["ianus-guarantees"])?);
    Ok(rows)
}

fn relations(told: &Value) -> Result<Vec<Row>> {
    let Some(experiments) = told["experiments"].as_array() else { bail!("no experiments in it") };
    let all =
        || experiments.iter().flat_map(|one| one["relations"].as_array().into_iter().flatten());
    let held = all().filter(|relation| relation["holds"] == true).count();
    let (count, explained) = (
        all().count(),
        all().filter(|relation| relation["holds"] == false && relation["why"].is_string()).count(),
    );
    let mut rows = vec![
        Row::new(
            format!("{HOLD_PERCENT} % of the relations about one drive hold"),
            format!("{held} of {count}"),
            count > 0 && held * 100 >= count * HOLD_PERCENT,
        ),
        Row::new(
            "for each of the others its file says why not",
            format!("{explained} of {}", count - held),
            explained == count - held,
        ),
    ];
    for relation in all().filter(|relation| relation["holds"] == false) {
        let text = |name: &str| relation[name].as_str().unwrap_or_default();
        rows.push(Row::info(format!("{}: {}", text("id"), text("paper")), text("ours")));
    }
    Ok(rows)
}

fn reads(cases: &Value) -> Result<Vec<Row>> {
    let of = |case: &str, path: &[&str]| -> Result<f64> {
        let run = &cases[case]["edf"];
        let found = path.iter().fold(run, |at, name| &at[*name]).as_f64();
        found.with_context(|| format!("{case} has no {}", path.join(".")))
    };
    let rate = of("ten-seconds", &["reads", "per_s"])?;
    let mut rows = vec![Row::new(
        format!(
            "one drive gives {READS} reads a second, as in the paper (within {READS_PERCENT} %)"
        ),
        format!("{rate:.0}"),
        (rate - READS).abs() * 100.0 <= READS * READS_PERCENT,
    )];
    for (case, window, wanted) in [("one-second", "1s", false), ("ten-seconds", "10s", true)] {
        let mut near = Vec::new();
        for stream in ["rr", "sr"] {
            near.push(of(case, &["streams", stream, "windows", window, "near"])?);
        }
        let least = near.iter().copied().fold(1.0, f64::min);
        let what = if wanted { "meets" } else { "misses" };
        rows.push(Row::new(
            format!("over windows of {window} it {what} its targets for reads (95 % of windows)"),
            format!("in {:.0} % of the windows", least * 100.0),
            (least >= 0.95) == wanted,
        ));
    }
    Ok(rows)
}
