//! What does a replay of one of these workloads give?
//!
//! The drives and the workloads are those of the comparison with the kernel's caches: a 960 EVO and a WD Red, cut to a
//! few GiB, 16 requests outstanding.

use crate::cargo;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 10,000 writes of 256 KiB over 6 GiB.
pub(in crate::accept) const SAT: &str =
    "synth:uniform:size=256KiB,read_share=0%,footprint=6GiB,requests=10000";
/// Three times as many.
pub(in crate::accept) const SATLONG: &str =
    "synth:uniform:size=256KiB,read_share=0%,footprint=6GiB,requests=30000";
/// Reads for the most part, cold, over twice the SSD.
pub(in crate::accept) const MIX73: &str =
    "synth:zipf:size=4KiB,read_share=70%,footprint=2GiB,requests=9000";
/// The same for longer over as much as the SSD.
pub(in crate::accept) const MIXHOT: &str =
    "synth:zipf:size=4KiB,read_share=70%,footprint=1GiB,requests=36000";

/// The hard drive alone, as replays call it.
pub(in crate::accept) const BARE: &str = "bare-hdd";
const HDD_SIZE: &str = "16GiB";
const OUTSTANDING: &str = "16";

/// One replay.
#[derive(Clone, Copy, Debug)]
pub(in crate::accept) struct Job<'a> {
    pub workload: &'a str,
    pub ssd_size: &'a str,
    pub seed: u64,
    /// A list, `bare` in it if wanted.
    pub policies: &'a str,
    pub tiers: Option<&'a str>,
    /// A hard drive, by its name or by its file.
    pub hdd: &'a str,
}

impl Default for Job<'_> {
    fn default() -> Self {
        Job {
            workload: SAT,
            ssd_size: "1GiB",
            seed: 1,
            policies: "bare,ssd-first",
            tiers: None,
            hdd: "wd100efax",
        }
    }
}

/// What one policy made of it. Times in ms.
#[derive(Clone, Debug)]
pub(in crate::accept) struct Measured {
    pub policy: String,
    pub took_ms: u64,
    pub write: Latency,
    pub read: Latency,
    pub ssd_mib: u64,
    pub home_mib: u64,
    pub flushes: u64,
    pub errors: u64,
}

/// In ns.
#[derive(Clone, Copy, Debug)]
pub(in crate::accept) struct Latency {
    pub mean: u64,
    pub p999: u64,
    pub longest: u64,
}

impl Measured {
    /// Its time as a share of another one's, in percent.
    pub fn percent_of(&self, other: &Measured) -> u64 {
        (self.took_ms * 100).div_ceil(other.took_ms.max(1))
    }
}

/// Milliseconds as seconds with one digit behind the point.
pub(in crate::accept) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// Nanoseconds as milliseconds.
pub(in crate::accept) fn ms(ns: u64) -> u64 {
    ns.div_ceil(1_000_000)
}

/// The program that replays.
pub(in crate::accept) fn program() -> Result<PathBuf> {
    cargo::build_tandem(true)
}

/// Runs it. What was measured, by policy, in their order.
///
/// # Errors
/// If the program says no, or what it prints is not what was wanted.
pub(in crate::accept) fn replay(program: &Path, job: Job<'_>) -> Result<Vec<Measured>> {
    let seed = job.seed.to_string();
    let mut words = vec![job.workload, "--closed-loop", OUTSTANDING, "--ssd-size", job.ssd_size];
    words.extend(["--hdd", job.hdd, "--hdd-size", HDD_SIZE, "--seed", &seed]);
    words.extend(["--policy", job.policies]);
    if let Some(tiers) = job.tiers {
        words.extend(["--tier", tiers]);
    }
    runs(program, &words)?.iter().map(measured).collect()
}

/// What `tandem replay` with these words says of each policy.
///
/// # Errors
/// As `replay`.
pub(in crate::accept) fn runs(program: &Path, words: &[&str]) -> Result<Vec<Value>> {
    let mut command = Command::new(program);
    command.arg("replay").args(words).arg("--json");
    let output = command.stdin(Stdio::null()).output().context("starting tandem replay")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("replay of {} gave {}: {}", words.join(" "), output.status, said.trim());
    }
    let json: Value = serde_json::from_slice(&output.stdout).context("the replay's JSON")?;
    Ok(json["runs"].as_array().context("the replay has runs")?.clone())
}

fn measured(run: &Value) -> Result<Measured> {
    let number = |value: &Value, what: &str| {
        value.as_u64().with_context(|| format!("a replay says no {what}"))
    };
    let latency = |of: &Value| -> Result<Latency> {
        if of["count"].as_u64() == Some(0) {
            return Ok(Latency { mean: 0, p999: 0, longest: 0 });
        }
        Ok(Latency {
            mean: number(&of["mean_ns"], "mean")?,
            p999: number(&of["p999_ns"], "p99.9")?,
            longest: number(&of["max_ns"], "longest")?,
        })
    };
    let hdd = &run["hdd"];
    let home = number(&hdd["home_bytes"], "bytes home")? + number(&hdd["gc_bytes"], "bytes of GC")?;
    Ok(Measured {
        policy: run["policy"].as_str().context("a run has a policy")?.to_owned(),
        took_ms: number(&run["elapsed_ns"], "time")? / 1_000_000,
        write: latency(&run["write"])?,
        read: latency(&run["read"])?,
        ssd_mib: number(&run["ssd"]["written_bytes"], "bytes to the SSD")? >> 20,
        home_mib: home >> 20,
        flushes: number(&hdd["flushes"], "flushes")?,
        errors: number(&run["errors"], "errors")?,
    })
}
