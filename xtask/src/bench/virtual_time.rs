//! How many requests a second does a replay take, on one thread and with full statistics?
//!
//! Source: issue "the spine", "Speed and memory": 4 KiB random writes, SSD garbage collection
//! active, `mapped`, trace decoded before.

use super::{RUNS, median};
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Policy and requests a second, at least.
const WANTED: [(&str, u64); 2] = [("ssd-first", 1_500_000), ("mios-d", 1_000_000)];
/// The workload of the example that the wanted rates are for.
const WORKLOAD: &str = "4 KiB over 8 GiB";

/// Measures the rates; the whole table of the last run goes to stderr.
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
        eprintln!("{text}");
    }
    let rows = WANTED.iter().zip(rates).map(|((policy, wanted), rates)| {
        let median = median(rates);
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
