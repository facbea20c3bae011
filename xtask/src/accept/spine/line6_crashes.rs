//! Does nothing get lost when the power goes or the process is killed, and would we see it?
//!
//! Source: acceptance of the spine, line 6.

use super::Options;
use crate::row::Row;
use crate::{cargo, packages};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::{Command, Stdio};

const CRASHES_WANTED: u64 = 10_000;
/// Seeds that the tests of every day do not use.
// six have every alignment of writes, which four of them lack (7000 to 7003: none of 70 % unaligned)
const SEEDS: [&str; 2] = ["7000", "6"];

/// Front, rounds, and whether the drives ignore flushes, so that something must be lost.
const KILLS: [(&str, &str, bool); 3] =
    [("nbd", "100", false), ("fuse", "30", false), ("nbd", "20", true)];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let mut rows = swarm()?;
    let words = ["test", "-p", "tandem-sim", "--features", "mutants", "--test", "mutants"];
    let output = cargo::cargo()
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .context("starting the mutants")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().find(|line| line.starts_with("test result:")).unwrap_or("no result");
    rows.push(Row::new("every mutant is caught", result, output.status.success()));
    let tandem = cargo::build_tandem(true)?;
    let words = ["-p", "tandem", "--example", "sigkill", "--release"];
    let sigkill = cargo::build(&words, "sigkill")?;
    for (front, rounds, lying) in KILLS {
        rows.push(kills(&sigkill, &tandem, (front, rounds, lying))?);
    }
    Ok(rows)
}

/// Rounds of SIGKILL over emulated drives: exit 0 if nothing was lost, 1 if something was.
fn kills(sigkill: &Path, tandem: &Path, (front, rounds, lying): (&str, &str, bool)) -> Result<Row> {
    let output = Command::new("timeout")
        .arg("30m")
        .arg(sigkill)
        .args([rounds, front])
        .args(lying.then_some("--ignore-flushes"))
        .arg("--tandem")
        .arg(tandem)
        .stdin(Stdio::null())
        .output()
        .context("starting the rounds of SIGKILL")?;
    let said = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    let lost = said[0].lines().filter(|line| line.starts_with("LOST")).count();
    let first = said.concat().lines().next().unwrap_or("it said nothing").to_owned();
    let wanted = if lying {
        format!("{rounds} rounds over {front} with drives that ignore flushes: the loss is seen")
    } else {
        format!("{rounds} rounds of SIGKILL over {front} on emulated drives: nothing lost")
    };
    let code = if lying { Some(1) } else { Some(0) };
    let holds = output.status.code() == code && (lost > 0) == lying;
    Ok(Row::new(wanted, format!("{first}; {lost} lines of loss; {}", output.status), holds))
}

/// Power cuts in virtual time: a row for each kind of pool, and one for all crash points together.
pub(crate) fn swarm() -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-sim", "--example", "swarm", "--"];
    let output = cargo::cargo()
        .args(words)
        .args(["share", "--json", "--first", SEEDS[0], "--seeds", SEEDS[1]])
        .stderr(Stdio::inherit())
        .output()
        .context("starting the swarm")?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().filter(|line| line.starts_with("FAILED")).for_each(|line| eprintln!("{line}"));
    let mut rows = Vec::new();
    let mut crashes = 0;
    for line in said.lines() {
        let Ok(arm) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let number = |key: &str| arm[key].as_u64().unwrap_or(0);
        let word = |key: &str| arm[key].as_str().unwrap_or_default();
        let missing = arm["missing"].as_array().map_or(1, Vec::len);
        crashes += number("crashes");
        rows.push(Row::new(
            format!("power cuts, {} ({}): none violated, enough met", word("arm"), word("what")),
            format!(
                "{} crashes, {} faults, {} violated, {missing} floors missed",
                number("crashes"),
                number("faults"),
                number("failed")
            ),
            number("runs") > 0 && number("failed") == 0 && missing == 0,
        ));
    }
    rows.push(Row::new(
        format!("at least {CRASHES_WANTED} crash points, none violated"),
        format!("{crashes}; {}", output.status),
        output.status.success() && crashes >= CRASHES_WANTED,
    ));
    Ok(rows)
}
