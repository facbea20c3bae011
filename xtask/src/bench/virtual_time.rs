//! How many requests a second does a replay take, on one thread and with full statistics?
//!
//! Source: issue "the spine", "Speed and memory": 4 KiB random writes, SSD garbage collection
//! active, `mapped`, trace decoded before.

use crate::accept::Row;
use crate::cargo;
use anyhow::{Context as _, Result, bail};

/// Policy and requests a second, at least.
const WANTED: [(&str, u64); 2] = [("ssd-first", 1_500_000), ("mios-d", 1_000_000)];
/// The workload of the example that the wanted rates are for.
const WORKLOAD: &str = "4 KiB over 8 GiB";
/// Medians of this many runs.
const RUNS: usize = 5;

/// Prints the rates and what is wanted of them.
///
/// # Errors
/// If the example cannot run.
pub fn run() -> Result<bool> {
    let rows = rows()?;
    for row in &rows {
        let verdict = if row.holds { "ok" } else { "MISSED" };
        println!("{}: {} {verdict}", row.wanted, row.measured);
    }
    Ok(rows.iter().all(|row| row.holds))
}

/// The same as rows of the acceptance table.
///
/// # Errors
/// If the example cannot run.
pub fn rows() -> Result<Vec<Row>> {
    let mut rates = WANTED.map(|_| Vec::new());
    for _ in 0..RUNS {
        let words = ["run", "-q", "--release", "-p", "tandem-sim", "--example", "virtual_time"];
        let text = cargo::output(&words)?;
        for ((policy, _), rates) in WANTED.iter().zip(&mut rates) {
            rates.push(rate(&text, policy)?);
        }
        println!("{text}");
    }
    let rows = WANTED.iter().zip(rates).map(|((policy, wanted), mut rates)| {
        rates.sort_unstable();
        let median = rates[rates.len() / 2];
        Row::new(
            format!("virtual time, {policy}: at least {wanted} requests/s"),
            format!("{median} requests/s, median of {RUNS}"),
            median >= *wanted,
        )
    });
    Ok(rows.collect())
}

/// The rate in the example's row `policy workload ns/req requests/s …`.
fn rate(text: &str, policy: &str) -> Result<u64> {
    let line = text
        .lines()
        .find(|line| line.starts_with(policy) && line.contains(WORKLOAD))
        .with_context(|| format!("the example printed no row of {policy}"))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    let Some(rate) = columns.len().checked_sub(3).and_then(|at| columns[at].parse().ok()) else {
        bail!("the row {line:?} has no rate");
    };
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found() {
        let text =
            "policy workload\nmios-d     4 KiB over 8 GiB, 32 GB drive  800  1250000  1.50  2.00";
        assert_eq!(rate(text, "mios-d").unwrap(), 1_250_000);
        assert!(rate(text, "ssd-first").is_err());
    }
}
