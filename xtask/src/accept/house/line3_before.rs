//! Does all that was accepted before still hold?
//!
//! Source: acceptance of the house, line 3: the campaign for an hour, and the commands of before.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::process::Stdio;

/// Seeds that no test of every day uses.
const SEED: &str = "1400000";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["xtask", "campaign", "--minutes", "60", "--seed", SEED];
    let output = cargo::cargo()
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .context("starting the campaign")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        // an hour is long, and says which run failed only once
        eprintln!("{said}");
    }
    let all = said.lines().rev().find(|line| line.starts_with("all ")).unwrap_or("no result");
    let mut rows =
        vec![Row::new("a campaign of an hour, 0 violated", all, output.status.success())];
    let before = ["spine", "steering", "ianus", "loris", "trust"];
    rows.extend(before.map(|name| {
        Row::info(
            format!("the verdicts of `cargo xtask accept {name}`"),
            "run it by itself: it takes long",
        )
    }));
    Ok(rows)
}
