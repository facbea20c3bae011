//! Does recalibration help when a drive changes under way?
//!
//! Source: acceptance of write steering, line 3.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let table = study("drift")?;
    let mut rows = Vec::new();
    for (what, without) in &table {
        let Some(drive) = what.strip_suffix(", off") else { continue };
        let with = table.get(&format!("{drive}, on")).context("a row without its other leg")?;
        rows.push(Row::new(
            format!("{drive}: user slow-hits per million with recalibration, not above without"),
            format!(
                "{} with, {} without; p99.9 {} and {} us",
                with.slow_per_million,
                without.slow_per_million,
                with.write_p999_us,
                without.write_p999_us
            ),
            with.slow_per_million <= without.slow_per_million,
        ));
    }
    ensure!(!rows.is_empty(), "the study printed no rows");
    Ok(rows)
}

/// A row of the study.
pub(super) struct Figures {
    pub(super) slow_per_million: u64,
    pub(super) write_p999_us: u64,
}

/// Runs one table of the study; its rows by their names.
pub(super) fn study(table: &str) -> Result<BTreeMap<String, Figures>> {
    let words =
        ["run", "--release", "-q", "-p", "tandem-sim", "--example", "steering_study", "--", table];
    Ok(rows(&cargo::output(&words)?))
}

/// The name ends where two spaces are; then come redirected, slow, slow per million, mean, p99, p99.9.
fn rows(printed: &str) -> BTreeMap<String, Figures> {
    printed
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once("  ")?;
            let numbers: Vec<u64> =
                rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            let (slow_per_million, write_p999_us) = (*numbers.get(2)?, *numbers.get(5)?);
            Some((name.to_owned(), Figures { slow_per_million, write_p999_us }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_is_read_as_it_is_printed() {
        let printed = "mios-d, pangu-b, one\nthe drive  redirected slow slow/M\n\
                       W halved, off        31034   115   3705   5320607  25065160  56841207  5271\n";
        let rows = rows(printed);
        assert_eq!(rows.len(), 1);
        let row = &rows["W halved, off"];
        assert_eq!((row.slow_per_million, row.write_p999_us), (3705, 56_841_207));
    }
}
