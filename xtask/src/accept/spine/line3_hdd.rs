//! Does the WD100EFAX model have the paper's staircase, and does the predictor see it?
//!
//! Source: acceptance of the spine, line 3.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::Result;

/// Latency in microseconds of fast and mid writes by KiB, exact.
const STEPS: [(u64, u64, u64); 3] = [(4, 35, 55), (16, 66, 135), (64, 180, 280)];
/// KiB, mean fast writes, mean mid writes over 50 sequences, jitter on.
const COUNTS: [(u64, u64, u64); 3] = [(4, 4096, 2048), (16, 1024, 512), (64, 256, 128)];
/// Shares predicted right at 128 KiB in hundredths of a percent.
const SHARES: [u64; 3] = [9950, 9810, 6030];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let words = ["run", "--release", "-p", "tandem-drives", "--example", "accept", "hdd"];
    let text = cargo::output(&words)?;
    let found = |name: &str, kib: u64| super::numbers(&text, &format!("{name} {kib}"));
    let mut rows = Vec::new();
    for (kib, fast_us, mid_us) in STEPS {
        let measured = found("staircase", kib)?;
        let wanted = [fast_us * 1000, mid_us * 1000, 12_000_000 + fast_us * 1000];
        rows.push(Row::new(
            format!("{kib} KiB: F {fast_us} us, M {mid_us} us, S = 12 ms + F"),
            format!("{measured:?} ns"),
            measured == wanted,
        ));
    }
    for (kib, fast, mid) in COUNTS {
        let measured = found("counts", kib)?;
        let near = |got: u64, wanted: u64| got.abs_diff(wanted * 1000) * 100 <= wanted * 1000 * 2;
        rows.push(Row::new(
            format!("{kib} KiB: {fast} fast and {mid} mid writes a stage, within 2 %"),
            format!("{measured:?} thousandths"),
            measured.len() == 2 && near(measured[0], fast) && near(measured[1], mid),
        ));
    }
    let measured = found("recall", 128)?;
    let near = measured.iter().zip(SHARES).all(|(got, wanted)| got.abs_diff(wanted) <= 100);
    rows.push(Row::new(
        "Algorithm 1 at 128 KiB: 99.5 / 98.1 / 60.3 % predicted right, within a point",
        format!("{measured:?} hundredths of a percent"),
        measured.len() == SHARES.len() && near,
    ));
    for kib in [16, 64] {
        let measured = format!("{:?} hundredths of a percent", found("recall", kib)?);
        rows.push(Row::info(format!("the same at {kib} KiB, printed"), measured));
    }
    Ok(rows)
}
