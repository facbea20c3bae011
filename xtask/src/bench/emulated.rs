//! Does an emulated drive answer when its model says?
//!
//! Source: acceptance of the spine, "Speed and memory": p50 within 20 % of the model at 35 us, the fast
//! write of 4 KiB of the WD100EFAX; one write at a time into its buffer, nothing above the drive.

use super::{RUNS, example, median, output, value};
use crate::row::Row;
use anyhow::Result;

/// Fewer than its buffer takes fast.
const WRITES: &str = "3000";
const PERCENT: u64 = 20;

/// Measures it.
///
/// # Errors
/// If the example cannot run.
pub fn rows() -> Result<Vec<Row>> {
    let null_front = example("tandem-fronts", "null_front")?;
    let (mut p50, mut p99, mut model) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        let text = output(&null_front, &["emulated", WRITES])?;
        p50.push(value(&text, "p50")?);
        p99.push(value(&text, "p99")?);
        model = value(&text, "model")?;
    }
    let (p50, p99) = (median(p50), median(p99));
    Ok(vec![Row::new(
        format!("an emulated drive in real time: p50 within {PERCENT} % of its model's {model} ns"),
        format!("p50 {p50} ns, p99 {p99} ns"),
        p50.abs_diff(model) * 100 <= model * PERCENT,
    )])
}
