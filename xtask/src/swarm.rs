//! Can it lose data, if one looks for longer? A share of seeds, or a campaign for as long as one likes;
//! the promise is checked by `tandem-sim`, this file only builds its program and hands it its words.

use crate::cargo;
use anyhow::{Context as _, Result, bail};
use std::process::Command;

/// Flags of `cargo xtask swarm`, all of which have a value.
const SHARE: [&str; 3] = ["--first", "--seeds", "--arm"];
/// Flags of `cargo xtask campaign`.
const CAMPAIGN: [&str; 4] = ["--minutes", "--seed", "--arm", "--mutant"];
/// … of its jobs of which each command fails once.
const JOBS: [&str; 3] = ["--job", "--commands", "--command"];
/// … of its arm over a real server.
const LIVE: [&str; 10] = [
    "--minutes",
    "--seconds",
    "--seed",
    "--runs",
    "--run-seconds",
    "--life-seconds",
    "--kind",
    "--behind",
    "--files",
    "--place",
];
/// Seeds of a share, if it is not said: more than the 3 of every test run.
const SEEDS: [&str; 2] = ["--seeds", "200"];

/// Runs a share of every arm. False if the promise was broken; the seed is printed then.
///
/// # Errors
/// If the arguments make no sense or cargo cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    check(words, &SHARE)?;
    let standard = SEEDS.map(str::to_owned);
    let standard = if words.iter().any(|word| word == "--seeds") { &[][..] } else { &standard };
    swarm("share", &[standard, words].concat())
}

/// Runs all arms for as long as it is said, or replays one run. False if the promise was broken.
///
/// # Errors
/// If the arguments make no sense or cargo cannot be started.
pub fn campaign(words: &[String]) -> Result<bool> {
    match words.split_first() {
        Some((word, case)) if word == "--replay" => {
            if case.is_empty() {
                bail!("--replay wants a run as the campaign prints it, such as small/mios-e/31");
            }
            swarm("replay", case)
        }
        _ if words.windows(2).any(|pair| pair == ["--arm", "live"]) => live(words),
        _ if words.windows(2).any(|pair| pair == ["--arm", "jobs"]) => {
            let words = without_arm(words, "jobs");
            check(&words, &JOBS)?;
            swarm("jobs", &words)
        }
        _ => {
            check(words, &CAMPAIGN)?;
            swarm("campaign", words)
        }
    }
}

/// The arm that is no part of the virtual event loop: a real server, built as tests are, with every
/// assertion, which is used, administered and killed.
fn live(words: &[String]) -> Result<bool> {
    let words = without_arm(words, "live");
    check(&words, &LIVE)?;
    let tandem = cargo::build_tandem(false)?;
    let build = ["-p", "tandem", "--profile", "test", "--example", "live"];
    let program = cargo::build(&build, "live")?;
    let status = Command::new(&program)
        .arg("--tandem")
        .arg(&tandem)
        .args(words)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(status.success())
}

fn without_arm(words: &[String], arm: &str) -> Vec<String> {
    words.chunks(2).filter(|pair| *pair != ["--arm", arm]).flatten().cloned().collect()
}

/// Every other word is one of these flags. What their values must be the program says.
fn check(words: &[String], flags: &[&str]) -> Result<()> {
    for pair in words.chunks(2) {
        if !flags.contains(&pair[0].as_str()) {
            bail!("unknown flag {}; there are {}", pair[0], flags.join(", "));
        }
        if pair.len() < 2 {
            bail!("{} wants a value", pair[0]);
        }
    }
    Ok(())
}

/// Builds the program as it is used and calls it: at its fastest, with mutants only if one is named,
/// since an engine that can break its rules is a little slower.
fn swarm(verb: &str, words: &[String]) -> Result<bool> {
    let mut build = vec!["-p", "tandem-sim", "--release", "--example", "swarm"];
    if words.iter().any(|word| word.starts_with("mutant=") || word == "--mutant") {
        build.extend(["--features", "mutants"]);
    }
    let program = cargo::build(&build, "swarm")?;
    let status = Command::new(&program)
        .arg(verb)
        .args(words)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_any_order_and_errors_that_name_them() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for line in ["", "--arm long --seeds 5", "--seeds 5 --arm long --arm small"] {
            assert!(check(&words(line), &SHARE).is_ok(), "{line}");
        }
        for (line, told) in [("--seed 5", "--seeds"), ("--seeds", "a value"), ("5", "--first")] {
            let error = format!("{:#}", check(&words(line), &SHARE).unwrap_err());
            assert!(error.contains(told), "{line}: {error}");
        }
        assert!(campaign(&words("--replay")).is_err());
        assert!(campaign(&words("--arm live --arm small")).is_err());
        assert!(campaign(&words("--seeds 5")).is_err());
    }
}
