//! Does everything hold that must? Parts in order, each with the time it may take.
//!
//! A part that fails does not stop the ones after it: one run shows all that is wrong. One that hangs
//! is ended and told of, and so is what a part leaves running or mounted (`watch`).

use crate::watch::Watch;
use crate::{cargo, packages, tidy};
use anyhow::{Context as _, Result, bail};
use std::time::{Duration, Instant};

/// A part that takes this many times what it may hangs. Generous: a machine that others use is slow,
/// and this is no judgement of speed.
const HANGS_AFTER_TIMES: u64 = 3;

/// What a part does.
enum Work {
    /// Cargo with these words and environment.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// The tidy rules, in this process.
    Tidy,
}

/// One part: its name, the seconds it may take on two cores from a clean clone, and its work.
struct Part {
    name: &'static str,
    allowed_s: u64,
    work: Work,
}

const PARTS: &[Part] = &[
    Part { name: "format", allowed_s: 30, work: Work::Cargo(&["fmt", "--all", "--check"], &[]) },
    Part { name: "tidy", allowed_s: 10, work: Work::Tidy },
    Part {
        name: "lints",
        allowed_s: 240,
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
    },
    Part {
        name: "docs",
        allowed_s: 120,
        work: Work::Cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")]),
    },
    Part {
        name: "tests",
        allowed_s: 600,
        work: Work::Cargo(&["test", "--workspace", "--no-fail-fast"], &[]),
    },
    Part {
        name: "fuzz",
        allowed_s: 60,
        work: Work::Cargo(
            &["run", "--profile", "test", "-p", "tandem-fuzz", "--", "--seconds", "45"],
            &[],
        ),
    },
    Part {
        name: "mutants",
        allowed_s: 120,
        work: Work::Cargo(
            &["test", "-p", "tandem-sim", "--features", "mutants", "--test", "mutants"],
            &[],
        ),
    },
    Part {
        name: "swarm",
        allowed_s: 240,
        work: Work::Cargo(
            &["run", "--release", "-p", "tandem-sim", "--example", "swarm", "--", "0", "6"],
            &[],
        ),
    },
];

/// Runs the parts named, or all, and prints what each took. False if one failed or there was none.
///
/// # Errors
/// If a part is unknown or cargo cannot be started.
pub fn run(only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("there is no part {unknown}; there are {}", known.join(", "));
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|word| word == name);
    let watch = Watch::new()?;
    if wanted("tests") {
        packages::install();
    }
    let mut rows = Vec::new();
    for part in PARTS.iter().filter(|part| wanted(part.name)) {
        let began = Instant::now();
        let sound = perform(part, &watch)?;
        let took_s = began.elapsed().as_secs();
        println!("== {}: {} in {took_s} s", part.name, verdict(sound));
        rows.push((part, took_s, sound));
    }
    println!("\n{:<10} {:>9} {:>9}  verdict", "part", "allowed", "took");
    for (part, took_s, sound) in &rows {
        let late = if *took_s > part.allowed_s { ", later than allowed" } else { "" };
        let allowed_s = part.allowed_s;
        println!("{:<10} {allowed_s:>7} s {took_s:>7} s  {}{late}", part.name, verdict(*sound));
    }
    let all_s: u64 = rows.iter().map(|(_, took_s, _)| took_s).sum();
    let allowed_s: u64 = rows.iter().map(|(part, _, _)| part.allowed_s).sum();
    println!("{:<10} {allowed_s:>7} s {all_s:>7} s", "all");
    Ok(!rows.is_empty() && rows.iter().all(|(_, _, sound)| *sound))
}

fn verdict(sound: bool) -> &'static str {
    if sound { "ok" } else { "FAILED" }
}

fn perform(part: &Part, watch: &Watch) -> Result<bool> {
    match &part.work {
        Work::Tidy => {
            println!("\n== {}", part.name);
            tidy::run()
        }
        Work::Cargo(words, environment) => {
            println!("\n== {}: cargo {}", part.name, words.join(" "));
            let mut command = cargo::cargo();
            command.args(*words).envs(environment.iter().copied());
            let limit = Duration::from_secs(part.allowed_s * HANGS_AFTER_TIMES);
            let ended = watch.run(&mut command, limit);
            Ok(ended.with_context(|| format!("cargo for {}", part.name))?.is_clean())
        }
    }
}
