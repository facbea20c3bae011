//! Does a hard drive rest when there is little to do, or nothing?
//!
//! Source: acceptance of destaging, line 4. `TANDEM_TRACES` names the folder of the trace, and without it the line
//! fails. An idle pool is asked once more after ten minutes. What its hard drive did until then is compared with a pool
//! that is asked after one minute.

use super::Options;
use super::measured::{program, runs};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const WEB0: &str = "msr-web0.csv.gz";
const WEB0_REQUESTS: &str = "12000";
const SEEDS: [&str; 3] = ["1", "2", "3"];
const BUSY_S_MAX: u64 = 5;
const READ_MEAN_MS_MAX: u64 = 98;
/// The trace reaches over more than the drive of the other lines.
const HDD_SIZE: &str = "64GiB";

/// Writes of an idle pool before it has nothing to do, 64 KiB each, 10 ms apart.
const WRITES: u64 = 500;
const POLICIES: &str = "ssd-first,mios-e,ect";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let mut rows = web0(&program)?;
    let folder = tempfile::tempdir()?;
    let mut early = at_rest(&program, &trace(folder.path(), 60)?)?.into_iter();
    for (policy, late) in at_rest(&program, &trace(folder.path(), 600)?)? {
        let (_, early) = early.next().context("both replays have the same policies")?;
        rows.push(Row::new(
            format!("an idle pool, {policy}: no command of the hard drive after the first minute"),
            format!("after 1 minute {early}, after 10 {late}"),
            early == late,
        ));
    }
    Ok(rows)
}

/// The first requests of the trace on the hard drive alone, and under this policy.
///
/// # Errors
/// If the trace is not there, or the replay fails.
pub(super) fn web0_runs(program: &Path, policy: &str, seed: &str) -> Result<Vec<Value>> {
    let Some(folder) = std::env::var_os("TANDEM_TRACES") else {
        bail!("TANDEM_TRACES names no folder with the traces");
    };
    let trace = Path::new(&folder).join(WEB0);
    let policies = format!("bare,{policy}");
    let words = ["--limit", WEB0_REQUESTS, "--policy", &policies, "--seed", seed];
    replay(program, &trace, &words)
}

fn web0(program: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut means_us = Vec::new();
    for seed in SEEDS {
        let runs = web0_runs(program, "ssd-first", seed)?;
        let [bare, ours] = runs.as_slice() else { bail!("two runs are wanted") };
        let (ours_ms, bare_ms) = (busy_ms(ours)?, busy_ms(bare)?);
        let flushes = &ours["hdd"]["flushes"];
        rows.push(Row::new(
            format!("web0, ssd-first, seed {seed}: the hard drive busy for at most {BUSY_S_MAX} s"),
            format!("{ours_ms} ms, {flushes} flushes (the drive alone {bare_ms} ms)"),
            ours_ms <= BUSY_S_MAX * 1000,
        ));
        let mean_ns = ours["read"]["mean_ns"].as_u64().context("reads have a mean")?;
        means_us.push(mean_ns / 1000);
    }
    let told = means_us.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    means_us.sort_unstable();
    let median = means_us[means_us.len() / 2];
    rows.push(Row::new(
        format!("web0, ssd-first: reads take at most {READ_MEAN_MS_MAX} ms in the mean"),
        format!("{told} us by seed, median {median} us"),
        median <= READ_MEAN_MS_MAX * 1000,
    ));
    Ok(rows)
}

/// How long was the hard drive busy, in ms?
///
/// # Errors
/// If the run does not say so.
pub(super) fn busy_ms(run: &Value) -> Result<u64> {
    let ns = run["elapsed_ns"].as_u64().context("a replay says how long it took")?;
    let share = run["hdd"]["utilization_gross"].as_f64().context("a drive says how busy it was")?;
    Ok((ns as f64 * share / 1e6) as u64)
}

/// Writes all over a GiB, and a read so many seconds after the first one, in the format of MSR.
fn trace(folder: &Path, read_s: u64) -> Result<PathBuf> {
    /// Ticks of 100 ns.
    const TICKS_A_MS: u64 = 10_000;
    const KIB: u64 = 1024;
    let first = 128_166_372_000_000_000;
    let mut text = String::new();
    for write in 0..WRITES {
        let (at, offset) = (first + write * 10 * TICKS_A_MS, write * 37 % 512 * 2048 * KIB);
        writeln!(text, "{at},idle,0,Write,{offset},{},0", 64 * KIB)?;
    }
    writeln!(text, "{},idle,0,Read,0,{},0", first + read_s * 1000 * TICKS_A_MS, 64 * KIB)?;
    let path = folder.join(format!("idle-{read_s}.csv"));
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// What the hard drive has done in a replay, by policy.
fn at_rest(program: &Path, trace: &Path) -> Result<Vec<(String, String)>> {
    let runs = replay(program, trace, &["--policy", POLICIES])?;
    let done = |run: &Value| {
        let hdd = &run["hdd"];
        let policy = run["policy"].as_str().unwrap_or("?").to_owned();
        let written = hdd["written_bytes"].as_u64().unwrap_or(0) >> 10;
        let read = hdd["read_bytes"].as_u64().unwrap_or(0) >> 10;
        (policy, format!("{written} KiB written, {read} KiB read, {} flushes", hdd["flushes"]))
    };
    Ok(runs.iter().map(done).collect())
}

fn replay(program: &Path, trace: &Path, words: &[&str]) -> Result<Vec<Value>> {
    let trace = trace.to_str().context("a path in UTF-8")?;
    let drives = [trace, "--ssd-size", "1GiB", "--hdd-size", HDD_SIZE];
    runs(program, &[&drives, words].concat())
}
