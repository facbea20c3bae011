//! How many of the papers' figures come out, and does our own policy stand beside theirs?
//!
//! Source: acceptance of write steering, line 1.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Share of the relations that must hold, in percent.
const HOLD_PERCENT: usize = 80;
/// All of them together take at most this long.
const MINUTES_MAX: u64 = 10;
/// Relations that are named one by one, at most.
const NAMED_MAX: usize = 60;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let tandem = cargo::build_tandem(true)?;
    let began = Instant::now();
    let output = Command::new(&tandem)
        .arg("run")
        .args(experiments()?)
        .arg("--json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting tandem run")?;
    let took = began.elapsed();
    let told: Value = serde_json::from_slice(&output.stdout).context("what tandem run printed")?;
    let Some(experiments) = told["experiments"].as_array() else { bail!("no experiments in it") };
    let mut rows = relations(experiments);
    rows.extend(ours(experiments));
    rows.push(Row::new(
        format!("all of them within {MINUTES_MAX} minutes"),
        format!("{} s", took.as_secs()),
        took.as_secs() <= MINUTES_MAX * 60,
    ));
    Ok(rows)
}

fn experiments() -> Result<Vec<PathBuf>> {
    let folder = cargo::root().join("experiments");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".toml") && (name.starts_with("bcw-") || name.starts_with("serw-")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn relations(experiments: &[Value]) -> Vec<Row> {
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let all: Vec<&Value> =
        experiments.iter().flat_map(|one| one["relations"].as_array()).flatten().collect();
    // what calibrates or is built in says nothing of steering
    let all: Vec<&Value> = all.into_iter().filter(|one| one["kind"] == "scores").collect();
    let holding = all.iter().filter(|relation| relation["holds"] == true).count();
    let failed: Vec<&&Value> = all.iter().filter(|relation| relation["holds"] != true).collect();
    let unexplained: Vec<String> = failed
        .iter()
        .filter(|relation| text(relation, "why").is_empty())
        .map(|relation| text(relation, "id"))
        .collect();
    let mut rows = vec![
        Row::new(
            format!("at least {HOLD_PERCENT} % of the relations hold"),
            format!("{holding} of {}", all.len()),
            !all.is_empty() && holding * 100 >= all.len() * HOLD_PERCENT,
        ),
        Row::new(
            "each that does not is explained in its file",
            if unexplained.is_empty() { "all are".to_owned() } else { unexplained.join(", ") },
            unexplained.is_empty(),
        ),
    ];
    for relation in failed.iter().take(NAMED_MAX) {
        rows.push(Row::info(
            format!(
                "{} ({}): paper {}",
                text(relation, "id"),
                text(relation, "what"),
                text(relation, "paper")
            ),
            format!("{}; {}", text(relation, "ours"), text(relation, "why")),
        ));
    }
    rows
}

/// Does `ect` stand in every table, and is it dominated by a published policy in less than half?
fn ours(experiments: &[Value]) -> Vec<Row> {
    // a case of ssd-first alone calibrates, and compares no policies
    let compares = |case: &&Value| case["policies"].as_array().is_some_and(|all| all.len() > 1);
    let cases =
        || experiments.iter().flat_map(|one| one["cases"].as_array()).flatten().filter(compares);
    let (all, mut with_ours, mut free) = (cases().count(), 0, [0, 0]);
    for case in cases() {
        let dominated = ["dominated_in_mean_by", "dominated_in_p999_by"]
            .map(|name| case[name].as_array().map(Vec::is_empty));
        with_ours += usize::from(dominated.iter().any(Option::is_some));
        for (count, is_free) in free.iter_mut().zip(dominated) {
            *count += usize::from(is_free == Some(true));
        }
    }
    let half = |count: usize| all > 0 && count * 2 >= all;
    vec![
        Row::new(
            "ect stands in every table",
            format!("in {with_ours} of {all}"),
            all > 0 && with_ours == all,
        ),
        Row::new(
            "on at least half no published policy dominates it (mean or p99.9 against SSD bytes)",
            format!("mean {} of {all}, p99.9 {} of {all}", free[0], free[1]),
            half(free[0]) || half(free[1]),
        ),
    ]
}
