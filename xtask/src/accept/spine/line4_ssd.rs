//! Do the SSD models behave like the drives that the papers measured?
//!
//! Source: acceptance of the spine, line 4; the wanted values are the model column of models 6.3.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::Result;

const MS: u64 = 1_000_000;

/// Name, what it is, and the model column.
const ROWS: &[(&str, &str, u64)] = &[
    ("x25e-first-second", "X25-E, large random writes in the first second", 625),
    ("x25e-late", "X25-E, large random writes a second later on", 300),
    ("x25e-events", "X25-E, GC events in 100 s", 950),
    ("x25e-event-ns", "X25-E, ns of a GC event", 55_000_000),
    ("x25e-share", "X25-E, thousandths of time in GC", 520),
    ("x25e-amplification", "X25-E, write amplification in thousandths", 1_790),
    ("x25e-sequential-mean", "X25-E, 4 KiB sequential writes a second", 25_800),
    ("x25e-sequential-max", "X25-E, the best 100 ms of them, a second", 40_000),
    ("x25e-sequential-min", "X25-E, the worst 100 ms of them, a second", 640),
    ("x25e-worst-1", "X25-E, the worst second of them", 1_088),
    ("x25e-worst-2", "X25-E, the worst 2 s, a second", 3_840),
    ("x25e-worst-3", "X25-E, the worst 3 s, a second", 15_900),
    ("x25e-worst-4", "X25-E, the worst 4 s, a second", 18_700),
    ("510-reads-alone", "510, large reads a second", 1_103),
    ("510-random-writes", "510, large random writes, bytes a second", 66_000_000),
    ("510-amplification", "510, write amplification in thousandths", 4_350),
    ("510-reads", "510, four streams, reads a second", 518),
    ("510-reads-deviation", "510, four streams, their deviation", 235),
    ("510-writes", "510, four streams, writes a second", 99),
    ("510-event-ns", "510, four streams, ns of a GC event", 91_000_000),
    ("510-ten-seconds-min", "510, fewest reads a second over 10 s", 503),
    ("510-ten-seconds-max", "510, most reads a second over 10 s", 547),
    ("amplification-7", "write amplification at 7 % over-provisioning, thousandths", 6_690),
    ("amplification-15", "the same at 15 %", 3_780),
    ("amplification-28", "the same at 28 %", 2_370),
];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-drives", "--example", "accept", "ssd"];
    let text = cargo::output(&words)?;
    let mut rows = Vec::new();
    for interval_us in [40, 60, 80, 100, 160, 320] {
        let found = super::numbers(&text, &format!("evo {interval_us}"))?;
        let &[p99, first, second] = &found[..] else { anyhow::bail!("evo rows have 3 numbers") };
        let (wanted, holds) = if interval_us >= 100 {
            ("p99 below 1 ms, not rising", p99 < MS && second <= first + first / 10)
        } else {
            ("p99 above 100 ms", p99 > 100 * MS)
        };
        rows.push(Row::new(
            format!("960 EVO, a write every {interval_us} us: {wanted}"),
            format!("{p99} ns, halves {first} and {second}"),
            holds,
        ));
    }
    for (name, what, wanted) in ROWS {
        let found = super::numbers(&text, name)?;
        let &[measured] = &found[..] else { anyhow::bail!("{name} is one number") };
        rows.push(Row::new(
            format!("{what}: {wanted}, within 15 %"),
            measured.to_string(),
            measured.abs_diff(*wanted) * 100 <= wanted * 15,
        ));
    }
    Ok(rows)
}
