//! What do a pair, redirected writes and reservations give together, beside each alone?
//!
//! Source: issue "reservations and the pair", acceptance 5: one experiment, and a table of the p99.9 of
//! reads, the mean of writes and SSD bytes (of a pair: of both legs).

use super::Options;
use crate::accept::experiments;
use crate::cargo;
use crate::row::Row;
use anyhow::Result;

/// Its relations that must hold, in percent.
const HOLD_PERCENT: usize = 80;
/// Everything that can be combined: the case and the order, and what that is.
const CASES: [(&str, &str); 8] = [
    ("one/fifo", "one drive"),
    ("one/edf", "reservations"),
    ("mios/fifo", "mios-d"),
    ("mios/edf", "mios-d + reservations"),
    ("pair/fifo", "pair"),
    ("pair/edf", "pair + reservations"),
    ("both/fifo", "pair + mios-d"),
    ("both/edf", "pair + mios-d + reservations"),
];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let told = experiments::run(&[cargo::root().join("experiments/ianus-together.toml")])?;
    let mut rows = Vec::new();
    for (run, what) in CASES {
        let run = format!("ianus-together/{run}");
        let ms = |field: &str| told.number(&run, field).map(|ns| ns / 1e6);
        let gb = |field: &str| told.number(&run, field).map(|bytes| bytes / 1e9);
        let mut kept = [0.0; 2];
        for (kept, stream) in kept.iter_mut().zip(["reads", "payments"]) {
            *kept = told.number(&run, &format!("streams.{stream}.windows.1s.near"))? * 100.0;
        }
        rows.push(Row::info(
            what,
            format!(
                "reads p99.9 {:.2} ms; writes mean {:.1} ms; SSD {:.2} GB; hard drive {:.2} GB; promises \
                 kept in {:.1} % (reads) and {:.1} % (small writes) of the seconds",
                ms("reads.p999_ns")?,
                ms("writes.mean_ns")?,
                gb("ssd_written_bytes")?,
                gb("hdd_written_bytes")?,
                kept[0],
                kept[1],
            ),
        ));
    }
    rows.extend(told.relations(HOLD_PERCENT));
    Ok(rows)
}
