//! How do experiments look on a page? The verdicts, and for each case what every policy got and paid.
//!
//! Source: acceptance of write steering: one self-contained page, and a plot of latency against SSD
//! bytes for all policies.

use super::experiment::{Case, Experiment, Kind, Replay, Which};
use super::report::{Document, Told};
use super::work::{Results, key};
use crate::report::html::{self, Column, REASONS, Series, Trade};
use anyhow::Result;
use serde_json::Value;

/// The shares that took longer than a percentile, by its name in results.
const TAIL: [(&str, f64); 6] = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.1),
    ("p95_ns", 0.05),
    ("p99_ns", 0.01),
    ("p999_ns", 0.001),
    ("p9999_ns", 0.0001),
];

/// Names of a drive's bytes in results, in the order of `REASONS`; merges and promotions are one.
const PARTS: [&[&str]; REASONS.len()] = [
    &["user_bytes"],
    &["padding_bytes"],
    &["home_bytes"],
    &["gc_bytes"],
    &["tail_bytes"],
    &["writeback_bytes", "promotion_bytes"],
    &["map_bytes"],
];

/// The page.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn render(
    document: &Document,
    experiments: &[Experiment],
    results: &Results,
) -> Result<String> {
    let mut body = String::new();
    document.score.text().lines().for_each(|line| body.push_str(&html::note(line)));
    for (told, experiment) in document.experiments.iter().zip(experiments) {
        verdicts(told, experiment, &mut body);
        for case in &experiment.cases {
            if let Kind::Replay(replay) = &case.kind {
                body.push_str(&charts(case, replay, results)?);
            }
        }
    }
    let title = match experiments {
        [one] => one.title.clone(),
        _ => format!("{} experiments", experiments.len()),
    };
    Ok(html::document(&title, &body))
}

fn verdicts(told: &Told, experiment: &Experiment, body: &mut String) {
    let heading = format!("{}: {}", experiment.name, experiment.title);
    body.push_str(&format!("<h2>{}</h2>\n", html::escape(&heading)));
    body.push_str(&html::note(&experiment.source));
    for paragraph in experiment.about.trim().split("\n\n") {
        body.push_str(&html::note(paragraph));
    }
    let rows: Vec<Vec<String>> = told.relations.iter().map(|row| row.cells()).collect();
    body.push_str(&html::grid(&["id", "what", "paper", "ours", "verdict", "why not"], &rows));
}

fn charts(case: &Case, replay: &Replay, results: &Results) -> Result<String> {
    let side = if replay.is_about_reads { "read" } else { "write" };
    let runs: Vec<(&str, &Value)> = replay
        .policies
        .iter()
        .filter_map(|choice| {
            let run = results[&key(&case.kind, Which::Choice(choice))].as_ref().ok()?;
            Some((choice.label.as_str(), run))
        })
        .collect();
    let mut drawn = Vec::new();
    for (what, field) in [("Mean", "mean_ns"), ("p99.9", "p999_ns")] {
        let trades: Vec<Trade> = runs
            .iter()
            .filter(|(_, run)| whole(&run[side]["count"]) > 0)
            .map(|(label, run)| {
                let bytes = whole(&run["ssd"]["written_bytes"]);
                ((*label).to_owned(), bytes, whole(&run[side][field]))
            })
            .collect();
        drawn.extend(html::trade(&format!("{what} {side} latency"), &trades)?);
    }
    for side in ["write", "read"] {
        let most = runs.iter().map(|(_, run)| whole(&run[side]["count"])).max().unwrap_or(0);
        drawn.extend(html::tail(&format!("Latency of {side}s"), tails(&runs, side), most)?);
    }
    drawn.extend(html::columns(&written(&runs))?);
    let mut text = format!("<h3>{}</h3>\n", html::escape(&case.name));
    text.push_str(&html::note(&replay.workload));
    drawn.iter().for_each(|chart| text.push_str(&html::figure(4, chart)));
    Ok(text)
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The percentiles that results have, and the slowest request.
fn tails(runs: &[(&str, &Value)], side: &str) -> Series {
    let counted = runs.iter().filter(|(_, run)| whole(&run[side]["count"]) > 0);
    counted
        .map(|(label, run)| {
            let of = &run[side];
            let count = whole(&of["count"]) as f64;
            let known = TAIL.iter().filter(|(_, share)| share * count >= 1.0);
            let mut points: Vec<(f64, f64)> =
                known.map(|(name, share)| (whole(&of[*name]) as f64, *share)).collect();
            points.push((whole(&of["max_ns"]) as f64, 1.0 / count));
            ((*label).to_owned(), points)
        })
        .collect()
}

fn written(runs: &[(&str, &Value)]) -> Vec<Column> {
    let mut columns = Vec::new();
    for (role, word) in [("ssd", "SSD"), ("hdd", "HDD")] {
        for (label, run) in runs {
            let devices = run["devices"].as_array().map_or(&[][..], Vec::as_slice);
            let of_role = || devices.iter().filter(|device| device["role"] == role);
            let sum = |names: &[&str]| -> u64 {
                of_role().flat_map(|device| names.iter().map(|name| whole(&device[*name]))).sum()
            };
            if of_role().next().is_some() {
                columns.push(Column { name: format!("{word}: {label}"), parts: PARTS.map(sum) });
            }
        }
    }
    columns
}
