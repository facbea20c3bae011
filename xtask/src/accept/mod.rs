//! Is the milestone reached? One file per line of the issue; each says what is wanted and measures it.
//!
//! A line that nobody has built a measurement for says so and fails: it is never passed over.

mod line1_commands;
mod line2_replay;
mod line3_hdd;
mod line4_ssd;
mod line5_clients;
mod line6_crashes;
mod line7_bench;

use anyhow::{Context as _, Result, bail};
use std::time::Instant;

/// What was wanted, what was found, and whether that is enough.
#[derive(Clone, Debug)]
pub struct Row {
    /// What must hold.
    pub wanted: String,
    /// What was measured.
    pub measured: String,
    /// Does it hold?
    pub holds: bool,
}

impl Row {
    /// A row.
    pub fn new(wanted: impl Into<String>, measured: impl Into<String>, holds: bool) -> Self {
        Row { wanted: wanted.into(), measured: measured.into(), holds }
    }

    /// What nobody has built a measurement for: it fails.
    pub fn not_built(wanted: impl Into<String>) -> Self {
        Row::new(wanted, "not built yet", false)
    }
}

/// The numbers after `name:` in what a program printed.
fn numbers(text: &str, name: &str) -> Result<Vec<u64>> {
    let start = format!("{name}:");
    let Some(rest) = text.lines().find_map(|line| line.strip_prefix(&start)) else {
        bail!("the measurement printed no {name:?}");
    };
    rest.split_whitespace()
        .map(|word| word.parse().with_context(|| format!("{name}: {word:?} is no number")))
        .collect()
}

/// Number of the line and what measures it.
type Line = (u32, fn() -> Result<Vec<Row>>);

const SPINE: &[Line] = &[
    (1, line1_commands::measure),
    (2, line2_replay::measure),
    (3, line3_hdd::measure),
    (4, line4_ssd::measure),
    (5, line5_clients::measure),
    (6, line6_crashes::measure),
    (7, line7_bench::measure),
];

/// Measures the lines of a milestone and prints the table. False if one fails.
///
/// # Errors
/// If the milestone or a line is unknown.
pub fn run(words: &[String]) -> Result<bool> {
    let Some(("spine", numbers)) = words.split_first().map(|(a, b)| (a.as_str(), b)) else {
        bail!("usage: cargo xtask accept spine [N...]");
    };
    if let Some(bad) =
        numbers.iter().find(|word| SPINE.iter().all(|(n, _)| n.to_string() != **word))
    {
        bail!("there is no line {bad}; there are 1 to {}", SPINE.len());
    }
    let mut table = Vec::new();
    for (number, measure) in SPINE {
        if !numbers.is_empty() && !numbers.contains(&number.to_string()) {
            continue;
        }
        eprintln!("== line {number}");
        let began = Instant::now();
        let rows = measure().unwrap_or_else(|error| {
            vec![Row::new("the measurement runs", format!("{error:#}"), false)]
        });
        eprintln!("== line {number}: {} s", began.elapsed().as_secs());
        table.extend(rows.into_iter().map(|row| (*number, row)));
    }
    println!("| line | wanted | measured | verdict |\n|---|---|---|---|");
    for (number, row) in &table {
        let verdict = if row.holds { "ok" } else { "FAIL" };
        println!("| {number} | {} | {} | {verdict} |", row.wanted, row.measured);
    }
    let failed = table.iter().filter(|(_, row)| !row.holds).count();
    println!("\n{} rows, {failed} fail", table.len());
    Ok(failed == 0)
}
