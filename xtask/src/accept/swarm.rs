//! What does the swarm find: shares of its arms, and jobs of which each command fails once?

use crate::cargo;
use anyhow::{Context as _, Result};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A share of an arm.
pub(super) struct Share {
    pub arm: String,
    pub what: String,
    pub runs: u64,
    pub crashes: u64,
    pub faults: u64,
    pub failed: u64,
    /// Of all arms together, told with the first.
    pub seconds: u64,
}

/// Jobs of which each command failed once.
pub(super) struct Jobs {
    pub jobs: u64,
    pub commands: u64,
    pub violated: u64,
}

fn call(words: &[&str]) -> Result<String> {
    let build = ["-p", "tandem-sim", "--release", "--example", "swarm"];
    let output = Command::new(cargo::build(&build, "swarm")?)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting the swarm")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().filter(|line| line.starts_with("FAILED")).for_each(|line| eprintln!("{line}"));
    Ok(said)
}

/// So many seeds from the first on, of these arms, or of all.
pub(super) fn share((first, seeds): (u64, u64), arms: &[&str]) -> Result<Vec<Share>> {
    let (first, seeds) = (first.to_string(), seeds.to_string());
    let mut words = vec!["share", "--json", "--first", &first, "--seeds", &seeds];
    arms.iter().for_each(|arm| words.extend(["--arm", arm]));
    let began = Instant::now();
    let said = call(&words)?;
    let seconds = began.elapsed().as_secs();
    let objects = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut shares: Vec<Share> = objects.map(|object: serde_json::Value| of(&object)).collect();
    if let Some(first) = shares.first_mut() {
        first.seconds = seconds;
    }
    Ok(shares)
}

fn of(object: &serde_json::Value) -> Share {
    let number = |key: &str| object[key].as_u64().unwrap_or(0);
    let word = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    Share {
        arm: word("arm"),
        what: word("what"),
        runs: number("runs"),
        crashes: number("crashes"),
        faults: number("faults"),
        failed: number("failed"),
        seconds: 0,
    }
}

/// All jobs, with these words.
pub(super) fn jobs(words: &[&str]) -> Result<Jobs> {
    let said = call(&[&["jobs"], words].concat())?;
    let number = |name: &str| -> Result<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.and_then(|word| word.parse().ok()).with_context(|| format!("no number of {name}"))
    };
    let (jobs, commands, violated) = (number("jobs")?, number("commands")?, number("violated")?);
    Ok(Jobs { jobs, commands, violated })
}
