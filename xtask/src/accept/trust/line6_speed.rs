//! Is it as fast as before this issue? Replays and NBD, both versions side by side in one run.
//!
//! Source: acceptance of trust, line 6. In every round each of the two is measured, so that a neighbour's
//! load hits both; what counts is the median of the rounds' ratios.

use super::Options;
use crate::fio::Fio;
use crate::row::Row;
use crate::served::{Pool, Server};
use crate::{cargo, packages};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The commit before.
const BEFORE: &str = "7e05906";
const WANTED_PERCENT: f64 = 97.0;
const ROUNDS: usize = 7;
/// Policies of the replays.
const POLICIES: [&str; 2] = ["ssd-first", "mios-d"];
const WORKLOAD: &str = "4 KiB over 8 GiB";

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

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let before = checkout()?;
    let mut rows = replays(&before)?;
    rows.extend(nbd(&before)?);
    Ok(rows)
}

/// The commit before, in a folder of its own.
fn checkout() -> Result<PathBuf> {
    let folder = cargo::root().join("target/accept/before");
    if !folder.join("Cargo.toml").exists() {
        let status = Command::new("git")
            .current_dir(cargo::root())
            .args(["worktree", "add", "--force", "--detach"])
            .arg(&folder)
            .arg(BEFORE)
            .status()
            .context("starting git")?;
        if !status.success() {
            bail!("commit {BEFORE} cannot be checked out: {status}; fetch the whole history");
        }
    }
    Ok(folder)
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

fn replays(before: &Path) -> Result<Vec<Row>> {
    let words = ["-p", "tandem-sim", "--example", "virtual_time"];
    let programs = [
        build(before, &words, "examples/virtual_time")?,
        cargo::build(&[&words[..], &["--release"]].concat(), "virtual_time")?,
    ];
    let mut ratios = POLICIES.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        let said: Vec<String> = programs.iter().map(|it| output(it)).collect::<Result<_>>()?;
        for (policy, ratios) in POLICIES.iter().zip(&mut ratios) {
            ratios.push(rate(&said[1], policy)? / rate(&said[0], policy)?);
        }
    }
    let rows = POLICIES.iter().zip(ratios);
    Ok(rows.map(|(policy, ratios)| row(&format!("replay, {policy}"), ratios)).collect())
}

fn output(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Requests a second in the row of a policy: the third column from the end.
fn rate(text: &str, policy: &str) -> Result<f64> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.starts_with(policy) && line.contains(WORKLOAD));
    let word = line.and_then(|line| line.split_whitespace().rev().nth(2));
    word.and_then(|word| word.parse().ok()).with_context(|| format!("no rate of {policy}"))
}

fn nbd(before: &Path) -> Result<Vec<Row>> {
    let tandems = [
        build(before, &["-p", "tandem", "--bin", "tandem"], "tandem")?,
        cargo::build_tandem(true)?,
    ];
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
        for _ in 0..ROUNDS {
            let rates: Vec<f64> = served
                .iter()
                .map(|(pool, _)| fio(pattern, block, depth, &pool.uri("vol0"), true))
                .collect::<Result<_>>()?;
            ratios.push(rates[1] / rates[0]);
        }
        rows.push(row(&format!("NBD {pattern} {block} depth {depth}"), ratios));
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

fn row(what: &str, mut ratios: Vec<f64>) -> Row {
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    Row::new(
        format!("{what}: at least {:.2}x of {BEFORE}", WANTED_PERCENT / 100.0),
        format!("{median:.3}x, median of {ROUNDS} pairs ({least:.3} to {most:.3})"),
        median * 100.0 >= WANTED_PERCENT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts() {
        assert_eq!(row("x", vec![0.5, 0.98, 1.2]).holds, Some(true));
        assert_eq!(row("x", vec![0.5, 0.96, 1.2]).holds, Some(false));
        let text = "mios-d     4 KiB over 8 GiB, 32 GB drive  800  1250000  1.50  2.00";
        assert_eq!(rate(text, "mios-d").unwrap(), 1_250_000.0);
        assert!(rate(text, "ssd-first").is_err());
    }
}
