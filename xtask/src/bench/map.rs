//! How much memory does the map take, and how long does a pool of ten million entries take to start?
//!
//! Source: acceptance of the spine, "Speed and memory". The examples `map_memory` and `recovery` of the
//! simulator; their drives answer at once, so recovery is the engine's own time.

use super::{RUNS, example, output};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};

const RECOVERY_S: f64 = 5.0;

/// The row of the memory table that begins so: measured and wanted GiB.
fn gib(text: &str, name: &str) -> Result<(f64, f64)> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("map_memory printed no row {name:?}"))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| -> Result<f64> {
        let word = columns.get(at).with_context(|| format!("{name}: too few columns"))?;
        word.parse().with_context(|| format!("{name}: {word:?} is no number"))
    };
    Ok((number(0)?, number(2)?))
}

/// Memory of each kind of pool.
///
/// # Errors
/// If the example cannot run.
pub fn memory_rows() -> Result<Vec<Row>> {
    let text = output(&example("tandem-sim", "map_memory")?, &[])?;
    let pools = ["1 TiB SSD alone", "4 TiB hard drive alone", "1 TiB SSD, 1 TiB HDD"];
    let row = |name: &&str| {
        let (found, wanted) = gib(&text, name)?;
        Ok(Row::new(
            format!("map, {name}, 4 KiB random: at most {wanted} GiB of RAM"),
            format!("{found} GiB"),
            found <= wanted,
        ))
    };
    pools.iter().map(row).collect()
}

/// Seconds in the line `recovery HOW  1.23 s, …`.
fn seconds(text: &str, how: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("recovery ")?.strip_prefix(how));
    let word = line.and_then(|line| line.split_whitespace().next());
    let Some(seconds) = word.and_then(|word| word.parse().ok()) else {
        bail!("recovery printed no time {how}");
    };
    Ok(seconds)
}

/// Recovery after a kill and after a clean stop.
///
/// # Errors
/// If the example cannot run.
pub fn recovery_rows() -> Result<Vec<Row>> {
    let program = example("tandem-sim", "recovery")?;
    let mut times = ["after a kill", "after a clean stop"].map(|how| (how, Vec::new()));
    for _ in 0..RUNS {
        let text = output(&program, &[])?;
        for (how, times) in &mut times {
            times.push(seconds(&text, how)?);
        }
    }
    let row = |(how, mut times): (&str, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        Row::new(
            format!("recovery of 10 million map entries {how}: under {RECOVERY_S} s"),
            format!("{median:.2} s, median of {RUNS}"),
            median < RECOVERY_S,
        )
    };
    Ok(times.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_examples_are_read() {
        let table = "1 TiB SSD alone   2.813   12.08   3.0\n";
        assert_eq!(gib(table, "1 TiB SSD alone").unwrap(), (2.813, 3.0));
        let text = "recovery after a kill        1.25 s, 1.20 of it on a processor\n";
        assert_eq!(seconds(text, "after a kill").unwrap(), 1.25);
        assert!(seconds(text, "after a clean stop").is_err());
    }
}
