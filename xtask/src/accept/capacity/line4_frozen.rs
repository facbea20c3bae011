//! Do pools that an earlier commit has written open, and does every structure stand ten minutes of changed bytes?
//!
//! Source: acceptance of capacity, line 4.

use super::Options;
use crate::row::Row;
use crate::{cargo, fuzz};
use anyhow::{Context as _, Result};
use std::process::Stdio;

/// Seconds of each structure.
const SECONDS: &str = "600";
/// What lies on the drives, as the fuzzer calls it.
const STRUCTURES: &[&str] = &[
    "superblock",
    "successor-mark",
    "pair record",
    "pair-journal-head",
    "pair-journal-unit",
    "journal-unit",
    "journal-records",
    "checkpoint-root",
    "object-page",
    "checksum-page",
    "leaf",
    "pointers",
];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let mut rows = vec![images()?];
    for structure in STRUCTURES.iter().copied() {
        let holds = fuzz::run(&[structure, "--seconds", SECONDS].map(str::to_owned))?;
        let said = if holds { "no panic, no wrong data" } else { "broken: see above" };
        rows.push(Row::new(format!("{structure}: {SECONDS} s of changed bytes"), said, holds));
    }
    Ok(rows)
}

fn images() -> Result<Row> {
    let words = ["test", "-p", "tandem", "--test", "program", "--", "pool_image"];
    let output = cargo::cargo().args(words).stderr(Stdio::inherit()).output();
    let output = output.context("starting the tests of images")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let result = said.lines().find(|line| line.starts_with("test result:")).unwrap_or("no result");
    Ok(Row::new(
        "images of version 3 open, and hold what was written",
        result,
        output.status.success(),
    ))
}
