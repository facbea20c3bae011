//! How fast is it? One file per bench; each measures ratios side by side in one run, medians of five,
//! and says what is wanted, what was measured, and what it was compared with.

pub mod builds;
pub mod collect;
pub mod decode;
pub mod device;
pub mod drives;
pub mod emulated;
pub mod files;
pub mod fuse;
pub mod journal;
pub mod map;
pub mod nbd;
pub mod qos;
pub mod steer;
pub mod virtual_time;

use crate::cargo;
use crate::row::{Row, print_table};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Measurements of one thing; the median counts.
const RUNS: usize = 5;

/// One bench.
struct Bench {
    name: &'static str,
    question: &'static str,
    rows: fn() -> Result<Vec<Row>>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "virtual",
        question: "How many requests a second does a replay take?",
        rows: virtual_time::rows,
    },
    Bench {
        name: "nbd",
        question: "Is our NBD server as fast as the best of others?",
        rows: nbd::rows,
    },
    Bench {
        name: "fuse",
        question: "Is a volume as a file nearly as fast as a bare one?",
        rows: fuse::rows,
    },
    Bench {
        name: "files",
        question: "Is a file on a mount nearly as fast as one of a bare file system?",
        rows: files::rows,
    },
    Bench {
        name: "device",
        question: "What do ring and engine cost over a real drive?",
        rows: device::rows,
    },
    Bench { name: "journal", question: "How fast does the journal commit?", rows: journal::rows },
    Bench {
        name: "emulated",
        question: "Does an emulated drive answer when its model says?",
        rows: emulated::rows,
    },
    Bench { name: "map", question: "How much memory does the map take?", rows: map::memory_rows },
    Bench {
        name: "recovery",
        question: "How long does a large pool take to start?",
        rows: map::recovery_rows,
    },
    Bench { name: "builds", question: "How long does a clean build take?", rows: builds::rows },
    Bench { name: "steer", question: "What does one steering decision cost?", rows: steer::rows },
    Bench { name: "qos", question: "What do a thousand streams cost?", rows: qos::rows },
    Bench {
        name: "collect",
        question: "What does a collector cost per request?",
        rows: collect::rows,
    },
    Bench { name: "drives", question: "What does one modelled command cost?", rows: drives::rows },
    Bench { name: "decode", question: "How fast are traces decoded?", rows: decode::rows },
];

/// Those whose rows the "Speed and memory" asks for.
pub const WANTED: &[&str] =
    &["virtual", "nbd", "fuse", "device", "journal", "emulated", "map", "recovery", "builds"];

/// Runs the benches named, or all. False if one misses what is wanted.
///
/// # Errors
/// If there is no such bench.
pub fn run(words: &[String]) -> Result<bool> {
    let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
    if let Some(unknown) = words.iter().find(|word| !known.contains(&word.as_str())) {
        bail!("there is no bench {unknown}; there are {}", known.join(", "));
    }
    let chosen = |name: &&str| words.is_empty() || words.iter().any(|word| word == name);
    let names: Vec<&str> = known.iter().copied().filter(chosen).collect();
    Ok(print_table("bench", &rows(&names)))
}

/// The rows of some benches; one that cannot run is a row that fails.
pub fn rows(names: &[&str]) -> Vec<(String, Row)> {
    let mut rows = Vec::new();
    for bench in BENCHES.iter().filter(|bench| names.contains(&bench.name)) {
        let began = Instant::now();
        eprintln!("== {}: {} ({} run already)", bench.name, bench.question, load());
        let found = (bench.rows)()
            .unwrap_or_else(|error| vec![Row::broken(format!("{} runs", bench.name), &error)]);
        eprintln!("== {}: {} s", bench.name, began.elapsed().as_secs());
        rows.extend(found.into_iter().map(|row| (bench.name.to_owned(), row)));
    }
    rows
}

/// How many others want the processors, on average of the last minute: on a busy machine ratios at
/// depth 1 say little.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Where benches keep files: on the disk under the repository.
pub fn folder() -> PathBuf {
    cargo::root().join("target/bench")
}

/// The middle one.
fn median(mut found: Vec<u64>) -> u64 {
    assert!(!found.is_empty(), "something was measured");
    found.sort_unstable();
    found[found.len() / 2]
}

/// `1.05` for 105 of 100, rounded down, so that what is printed never looks better than it is.
fn ratio(ours: u64, theirs: u64) -> String {
    let hundredths = ours * 100 / theirs.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Builds an example in release and says where it is.
fn example(package: &str, name: &str) -> Result<PathBuf> {
    cargo::build(&["-p", package, "--example", name, "--release"], name)
}

/// What a program prints.
fn output(program: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} {} gave {}: {}", program.display(), words.join(" "), output.status, said.trim());
    }
    String::from_utf8(output.stdout).context("it printed what is not UTF-8")
}

/// The number after `name:` at the beginning of a line.
fn value(text: &str, name: &str) -> Result<u64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let word = found.with_context(|| format!("nothing named {name} was printed"))?.trim();
    word.parse().with_context(|| format!("{name}: {word:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_rounded_down_and_medians_are_the_middle() {
        assert_eq!(ratio(1049, 1000), "1.04");
        assert_eq!(ratio(3, 0), "3.00");
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(value("a: 1\nab: 2", "ab").unwrap(), 2);
        assert!(value("a: 1", "b").is_err());
    }

    #[test]
    fn what_is_wanted_exists() {
        assert!(WANTED.iter().all(|name| BENCHES.iter().any(|bench| bench.name == *name)));
    }
}
