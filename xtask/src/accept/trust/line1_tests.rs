//! Do the tests pass that show the seven bugs, and what was found beside them?
//!
//! Source: acceptance of trust, line 1. On the commit before they fail: docs/TESTING.md tells which run of
//! which arm found what.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::process::Stdio;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let output = cargo::cargo()
        .args(["test", "--release", "-p", "tandem-sim", "--test", "trust"])
        .stderr(Stdio::inherit())
        .output()
        .context("starting the tests")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut rows = rows(&said);
    rows.push(Row::new("all of them ran", output.status.to_string(), output.status.success()));
    Ok(rows)
}

fn rows(said: &str) -> Vec<Row> {
    let tests = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    tests.map(|(name, how)| Row::new(name.replace('_', " "), how, how == "ok")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_test() {
        let said = "running 2 tests\ntest a_home ... ok\ntest b ... FAILED\ntest result: FAILED. 1";
        let rows = rows(said);
        let told: Vec<_> = rows.iter().map(|row| (row.wanted.as_str(), row.holds)).collect();
        assert_eq!(told, [("a home", Some(true)), ("b", Some(false))]);
    }
}
