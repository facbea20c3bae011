//! How do experiments look on a page? The score, each figure with the paper's points and ours, and for each
//! case what every policy got and paid.
//!
//! Source: acceptance of write steering: one self-contained page, and a plot of latency against SSD
//! bytes for all policies. Acceptance of fidelity: each figure as a plot, with the verdicts.

mod panel;
mod scale;
mod strip;
mod summary;

use super::experiment::{Case, Experiment, Kind, Replay, Which};
use super::instead;
use super::relation::Path;
use super::report::{Document, Told};
use super::work::{Results, key};
use crate::report::html::{self, Column, REASONS, Series, Trade};
use anyhow::Result;
use panel::Entry;
use serde_json::Value;
use std::fmt::Write as _;
use strip::Look;

/// What plots and tables of verdicts look like; what they have in common with other pages is in `html`.
const STYLE: &str = include_str!("page/style.css");

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

/// The page. `with_nulls`: the nulls of each were run, too.
///
/// # Errors
/// If a chart cannot be drawn.
pub fn render(
    document: &Document,
    experiments: &[Experiment],
    results: &Results,
    with_nulls: bool,
) -> Result<String> {
    let mut body = String::new();
    summary::render(document, experiments, with_nulls, &mut body);
    legend(&mut body);
    for (told, experiment) in document.experiments.iter().zip(experiments) {
        verdicts((told, experiment), results, with_nulls, &mut body);
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
    Ok(html::document(&title, STYLE, &body))
}

/// What the marks mean.
fn legend(body: &mut String) {
    body.push_str("<h2>How to read the plots</h2>\n<p class=\"legend\">");
    let _ = write!(body, "<span>{}the paper's value</span>", strip::sample(None));
    for look in Look::ALL {
        let _ = write!(body, "<span>{}{}</span>", strip::sample(Some(look)), look.meaning());
    }
    body.push_str(
        "<span><i class=\"band\"></i>what holds: the bound</span></p>\n\
         <p class=\"note\">A row is a relation. The upper mark is the paper's, where it gives a number, and \
         the lower one is ours. Ratios have a logarithmic axis, where 0 % is no change. An arrow points to a \
         value beyond the axis. Of values that must rise or fall, each has its number.</p>\n",
    );
}

fn verdicts(
    (told, experiment): (&Told, &Experiment),
    results: &Results,
    with_nulls: bool,
    body: &mut String,
) {
    let (name, title) = (html::escape(&experiment.name), html::escape(&experiment.title));
    let _ = writeln!(body, "<h2 id=\"{name}\">{name}: {title}</h2>");
    body.push_str(&html::note(&experiment.source));
    told.score.text().lines().for_each(|line| body.push_str(&html::note(line)));
    body.push_str(
        "<details><summary>What was fitted to what, and which reading is taken</summary>\n",
    );
    for paragraph in experiment.about.trim().split("\n\n") {
        body.push_str(&html::note(paragraph));
    }
    body.push_str("</details>\n");
    let look_up = |path: &Path| instead::look_up(experiment, None, results, path);
    let of_relation = experiment.relations.iter().map(Some).chain(std::iter::repeat(None));
    let entries = told.relations.iter().zip(of_relation).map(|(row, relation)| Entry {
        row,
        relation,
        values: relation.map_or(Vec::new(), |relation| {
            relation.values(&look_up).map(|value| value.unwrap_or(f64::NAN)).collect()
        }),
    });
    let mut panels: Vec<(&str, Vec<Entry<'_>>)> = Vec::new();
    for entry in entries {
        let item = experiment.item_of(&entry.row.id).unwrap_or(&entry.row.id);
        match panels.iter_mut().find(|(known, _)| *known == item) {
            Some((_, list)) => list.push(entry),
            None => panels.push((item, vec![entry])),
        }
    }
    for (item, entries) in &panels {
        panel::render(item, entries, with_nulls, body);
    }
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
    let mut text = format!(
        "<details><summary>Case {}: what each policy got, and what it paid</summary>\n",
        html::escape(&case.name)
    );
    text.push_str(&html::note(&replay.workload));
    drawn.iter().for_each(|chart| text.push_str(&html::figure(4, chart)));
    text.push_str("</details>\n");
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

#[cfg(test)]
#[path = "page/tests.rs"]
mod tests;
