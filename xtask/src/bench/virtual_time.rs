//! How many requests a second does a replay take, on one thread and with full statistics?
//!
//! Source: acceptance of the spine, "Speed and memory": 4 KiB random writes, SSD garbage collection
//! active, `mapped`, trace decoded before.

use super::{RUNS, median};
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

/// Policy and requests a second, at least.
const WANTED: [(&str, u64); 2] = [("ssd-first", 1_500_000), ("mios-d", 1_000_000)];
/// The workload of the example that the wanted rates are for.
const WORKLOAD: &str = "4 KiB over 8 GiB";
/// Its workload of larger requests, where the flash pages behind each count.
const LARGER: &str = "64 KiB over 8 GiB";

/// Measures the rates; the whole table of the last run goes to stderr.
///
/// # Errors
/// If the example cannot run.
pub fn rows() -> Result<Vec<Row>> {
    let mut rates = WANTED.map(|_| Vec::new());
    let mut pages = WANTED.map(|_| Vec::new());
    for _ in 0..RUNS {
        let words = ["run", "-q", "--release", "-p", "tandem-sim", "--example", "virtual_time"];
        let text = cargo::output(&words)?;
        for (((policy, _), rates), pages) in WANTED.iter().zip(&mut rates).zip(&mut pages) {
            rates.push(rate(&text, policy)?);
            pages.push(pages_per_s(&text, policy)?);
        }
        eprintln!("{text}");
    }
    let speed = WANTED.iter().zip(rates).map(|((policy, wanted), rates)| {
        let median = median(rates);
        Row::new(
            format!("virtual time, {policy}: at least {wanted} requests/s"),
            format!("{median} requests/s, median of {RUNS}"),
            median >= *wanted,
        )
    });
    let flash = WANTED.iter().zip(pages).map(|((policy, _), pages)| {
        let measured = format!("{} flash pages/s, median of {RUNS}", median(pages));
        Row::info(format!("virtual time, {policy}, 64 KiB requests"), measured)
    });
    Ok(speed.chain(flash).collect())
}

/// The requests a second in the example's row `policy workload … requests/s WA Mpages/s`.
fn rate(text: &str, policy: &str) -> Result<u64> {
    let column = from_the_end(text, policy, WORKLOAD, 3)?;
    column.parse().with_context(|| format!("{policy}: {column:?} is no rate"))
}

/// The flash pages a second in its row of larger requests, which tells millions.
fn pages_per_s(text: &str, policy: &str) -> Result<u64> {
    let column = from_the_end(text, policy, LARGER, 1)?;
    let millions: f64 =
        column.parse().with_context(|| format!("{policy}: {column:?} is no rate of pages"))?;
    Ok((millions * 1e6) as u64)
}

/// A column of a row, counted from its end, since workloads are several words.
fn from_the_end(text: &str, policy: &str, workload: &str, column: usize) -> Result<String> {
    let line = text
        .lines()
        .find(|line| line.starts_with(policy) && line.contains(workload))
        .with_context(|| format!("the example printed no row of {policy}, {workload}"))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    let Some(at) = columns.len().checked_sub(column) else { bail!("the row {line:?} is cut") };
    Ok(columns[at].to_owned())
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
        assert!(pages_per_s(text, "mios-d").is_err());
        let larger = "mios-d     64 KiB over 8 GiB, 32 GB drive  800  1250000  1.50  2.25";
        assert_eq!(pages_per_s(larger, "mios-d").unwrap(), 2_250_000);
    }
}
