//! Is the milestone reached? One file per line of the issue; each says what is wanted and measures it.
//!
//! A line that nobody has built a measurement for says so and fails: it is never passed over.

mod capacity;
mod destage;
mod experiments;
mod fidelity;
mod house;
mod ianus;
mod loris;
mod paired;
mod spine;
mod steer;
mod steering;
mod swarm;
mod trust;

pub use destage::peers::run as peers;

use crate::row::{Row, print_table};
use anyhow::{Context as _, Result, bail};
use std::process::{Command, Stdio};
use std::time::Instant;

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

/// How much of a line is measured.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// `cargo xtask test` is not run.
    without_tests: bool,
}

/// Number of the line and what measures it.
type Line = (u32, fn(&Options) -> Result<Vec<Row>>);

const WITHOUT_TESTS: &str = "--without-tests";

/// The milestones, with their lines.
const MILESTONES: &[(&str, &[Line])] = &[
    ("spine", spine::LINES),
    ("steering", steering::LINES),
    ("ianus", ianus::LINES),
    ("loris", loris::LINES),
    ("trust", trust::LINES),
    ("house", house::LINES),
    ("capacity", capacity::LINES),
    ("destage", destage::LINES),
    ("fidelity", fidelity::LINES),
    ("steer", steer::LINES),
];

/// Measures the lines of a milestone and prints the table. False if one fails.
///
/// # Errors
/// If the milestone or a line is unknown.
pub fn run(words: &[String]) -> Result<bool> {
    let known = || MILESTONES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("|");
    let named = words.split_first().and_then(|(name, rest)| {
        let found = MILESTONES.iter().find(|(known, _)| known == name)?;
        Some((found.1, rest))
    });
    let Some((lines, rest)) = named else {
        bail!("usage: cargo xtask accept {} [N...] [--without-tests]", known());
    };
    let options = Options { without_tests: rest.iter().any(|word| word == WITHOUT_TESTS) };
    let numbers: Vec<&String> = rest.iter().filter(|word| *word != WITHOUT_TESTS).collect();
    if let Some(bad) =
        numbers.iter().find(|word| lines.iter().all(|(n, _)| n.to_string() != ***word))
    {
        let known: Vec<String> = lines.iter().map(|(n, _)| n.to_string()).collect();
        bail!("there is no line {bad}; there are {}", known.join(", "));
    }
    let mut table = Vec::new();
    for (number, measure) in lines {
        if !numbers.is_empty() && !numbers.contains(&&number.to_string()) {
            continue;
        }
        eprintln!("== line {number}");
        let began = Instant::now();
        let rows = measure(&options)
            .unwrap_or_else(|error| vec![Row::broken("the measurement runs", &error)]);
        eprintln!("== line {number}: {} s", began.elapsed().as_secs());
        table.extend(rows.into_iter().map(|row| (number.to_string(), row)));
    }
    Ok(print_table("line", &table))
}

/// Said at once, too: some lines take a quarter of an hour.
fn row(wanted: String, result: Result<String>) -> Row {
    let row = match result {
        Ok(measured) => Row::new(wanted, measured, true),
        Err(error) => Row::broken(wanted, &error),
    };
    eprintln!("   {}: {}", row.wanted, row.measured);
    row
}

/// Runs a program; what it printed.
fn call(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {program}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        bail!("{program} {} gave {}: {}", words.join(" "), output.status, said.concat().trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("what {program} printed"))
}
