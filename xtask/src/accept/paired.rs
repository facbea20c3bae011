//! This version beside an earlier one, both measured in one run.
//!
//! In every round each of the two is measured, the one first and then the other one, so that a neighbour's load
//! hits both; what counts is the median of the rounds' ratios. A replay is one thread, and counts in time of the
//! processor, which other work disturbs least.

use crate::cargo;
use crate::fio::Fio;
use crate::row::Row;
use crate::served::{Pool, Server};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A commit that this version is measured against.
#[derive(Clone, Copy)]
pub(super) enum Before {
    /// Before the walls inside the engine were built.
    House,
    /// When they stood.
    EndOfHouse,
    /// Before destaging was rebuilt.
    Destage,
}

impl Before {
    fn commit(self) -> &'static str {
        match self {
            Before::House => "7e05906",
            Before::EndOfHouse => "84dd626",
            Before::Destage => "9cd2a92",
        }
    }
}

const ROUNDS: usize = 7;
/// Replays of each kind take a second or two.
const REPLAYS: usize = 15;
/// Policies of the replays.
const POLICIES: [&str; 3] = ["ssd-first", "mios-d", "mios-e"];
/// Its two smaller workloads.
const WORKLOADS: [&str; 2] = ["4 KiB over 8 GiB", "64 KiB over 8 GiB"];

const POOL: &str = r#"
[pool]
name = "bench"
[[device]]
role = "ssd"
path = "ram:3GiB"
[[volume]]
name = "vol0"
size = "1GiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// Pattern, block, depth.
const LOADS: [(&str, &str, u32); 6] = [
    ("randwrite", "4k", 32),
    ("randread", "4k", 32),
    ("write", "1m", 8),
    ("read", "1m", 8),
    ("randwrite", "4k", 1),
    ("randread", "4k", 1),
];

/// The commit before, in a folder of its own.
fn checkout(before: Before) -> Result<PathBuf> {
    let commit = before.commit();
    let folder = cargo::root().join(format!("target/accept/{commit}"));
    if !folder.join("Cargo.toml").exists() {
        let status = Command::new("git")
            .current_dir(cargo::root())
            .args(["worktree", "add", "--force", "--detach"])
            .arg(&folder)
            .arg(commit)
            .status()
            .context("starting git")?;
        if !status.success() {
            bail!("commit {commit} cannot be checked out: {status}; fetch the whole history");
        }
    }
    Ok(folder)
}

/// A program of the commit before, and the same of this one.
///
/// # Errors
/// If one of the two does not build.
pub(super) fn programs(before: Before, words: &[&str], program: &str) -> Result<[PathBuf; 2]> {
    let folder = checkout(before)?;
    let name = program.rsplit('/').next().expect("a name");
    let now = cargo::build(&[words, &["--release"]].concat(), name)?;
    Ok([build(&folder, words, program)?, now])
}

/// Builds a program of the commit before.
fn build(folder: &Path, words: &[&str], program: &str) -> Result<PathBuf> {
    let status = cargo::cargo()
        .current_dir(folder)
        .args(["build", "--release"])
        .args(words)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .status()
        .context("starting cargo")?;
    if !status.success() {
        bail!("the commit before does not build: {status}");
    }
    Ok(folder.join("target/release").join(program))
}

/// Replays of a second or two, in time of the processor.
///
/// # Errors
/// If one of the two programs does not build or run.
pub(super) fn replays(before: Before, wanted_percent: u32) -> Result<Vec<Row>> {
    let words = ["-p", "tandem-sim", "--example", "virtual_time"];
    let programs = programs(before, &words, "examples/virtual_time")?;
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        for policy in POLICIES {
            let mut ratios = Vec::new();
            for round in 0..REPLAYS {
                let [then, now] =
                    both(round, |it| cost(&output(programs[it].as_path(), policy, workload)?))?;
                ratios.push(then / now);
            }
            let what = format!("replay, {policy}, {workload}");
            rows.push(row(&what, ratios, (before, wanted_percent)));
        }
    }
    Ok(rows)
}

/// Measures the commit before and this one, in another order in each round.
///
/// # Errors
/// If one of the two cannot be measured.
pub(super) fn both(
    round: usize,
    mut measure: impl FnMut(usize) -> Result<f64>,
) -> Result<[f64; 2]> {
    let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    let mut measured = [0.0; 2];
    for which in order {
        measured[which] = measure(which)?;
    }
    Ok(measured)
}

fn output(program: &Path, policy: &str, workload: &str) -> Result<String> {
    let output = Command::new(program)
        .args([policy, workload])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Nanoseconds of the processor a request, in the only row: the fifth column from the end.
fn cost(text: &str) -> Result<f64> {
    let word = text.lines().nth(1).and_then(|line| line.split_whitespace().rev().nth(4));
    let ns = word.and_then(|word| word.parse().ok()).filter(|ns| *ns > 0.0);
    ns.with_context(|| format!("no row of figures in {text:?}"))
}

/// Both versions of the program that users run.
///
/// # Errors
/// If one of the two does not build.
pub(super) fn tandems(before: Before) -> Result<[PathBuf; 2]> {
    programs(before, &["-p", "tandem", "--bin", "tandem"], "tandem")
}

/// Requests a second of a volume in memory.
///
/// # Errors
/// If one of the two cannot be served or fio cannot run.
pub(super) fn nbd(before: Before, wanted_percent: u32) -> Result<Vec<Row>> {
    let tandems = tandems(before)?;
    let place = std::env::temp_dir();
    let served: Vec<(Pool, Server)> = tandems
        .iter()
        .map(|tandem| {
            let pool = Pool::new(tandem, &place, POOL)?;
            let server = pool.serve()?;
            fio("write", "1m", 4, &pool.uri("vol0"), false)?;
            Ok((pool, server))
        })
        .collect::<Result<_>>()?;
    let mut rows = Vec::new();
    for (pattern, block, depth) in LOADS {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let rate = |it: usize| fio(pattern, block, depth, &served[it].0.uri("vol0"), true);
            let [then, now] = both(round, rate)?;
            ratios.push(now / then);
        }
        let what = format!("NBD {pattern} {block} depth {depth}");
        rows.push(row(&what, ratios, (before, wanted_percent)));
    }
    Ok(rows)
}

fn fio(pattern: &str, block: &str, depth: u32, uri: &str, timed: bool) -> Result<f64> {
    let job = Fio::default().job("load").set("ioengine", "nbd").set("uri", uri);
    let job = job.set("rw", pattern).set("bs", block).set("iodepth", depth).set("size", "1g");
    let job = match timed {
        true => job
            .set("norandommap", 1)
            .set("time_based", 1)
            .set("ramp_time", "500ms")
            .set("runtime", "2s"),
        false => job,
    };
    Ok(job.run()?.iops as f64)
}

/// What the median of the ratios says.
pub(super) fn row(
    what: &str,
    mut ratios: Vec<f64>,
    (before, wanted_percent): (Before, u32),
) -> Row {
    let commit = before.commit();
    let rounds = ratios.len();
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    Row::new(
        format!("{what}: at least {:.2}x of {commit}", f64::from(wanted_percent) / 100.0),
        format!("{median:.3}x, median of {rounds} pairs ({least:.3} to {most:.3})"),
        median * 100.0 >= f64::from(wanted_percent),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts() {
        assert_eq!(row("x", vec![0.5, 0.98, 1.2], (Before::House, 97)).holds, Some(true));
        assert_eq!(row("x", vec![0.5, 0.96, 1.2], (Before::House, 97)).holds, Some(false));
        let head = "policy  workload  CPU ns  ns/req  requests/s  WA  Mpages/s\n";
        let row = "mios-d     4 KiB over 8 GiB, 32 GB drive  750  800  1250000  1.50  2.00\n";
        assert_eq!(cost(&format!("{head}{row}")).unwrap(), 750.0);
        assert!(cost(head).is_err(), "no row has these words");
    }
}
