//! What does a flush cost, by the bytes that are dirty?
//!
//! Source: models §5.2: flushes at no dirty bytes and at parts of `W_f`; the line through them has
//! the base at 0, and its slope is the rate at which the buffer is written out, at the beginning of
//! the drive.

use super::probe::{MeasureError, Session};
use super::series::Line;
use super::staircase::Steps;

/// What is measured here.
pub(super) const WHAT: &str = "what a flush costs";
/// Trials of each fill.
const TRIALS: usize = 4;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushCost {
    /// A flush of an empty buffer, in ns.
    pub base_ns: u64,
    /// Dirty bytes written per second beyond that; `None` if they cost nothing.
    pub bytes_per_s: Option<u64>,
}

/// Flushes at no, a quarter, a half and three quarters of the fast stage.
///
/// # Errors
/// The drive's or the budget's.
pub(crate) fn measure(session: &mut Session<'_>, steps: &Steps) -> Result<FlushCost, MeasureError> {
    session.begin(WHAT);
    let mut points = Vec::new();
    for quarters in 0..4 {
        for _ in 0..TRIALS {
            session.rewind();
            session.flush(steps.fast_bytes)?;
            let writes = steps.fast_bytes * quarters / 4 / steps.write_bytes;
            for _ in 0..writes {
                session.write_next(steps.write_bytes)?;
            }
            let latency = session.flush(steps.fast_bytes)?;
            points.push((writes * steps.write_bytes, latency));
        }
    }
    Ok(fit(&points))
}

/// The line through (dirty bytes, latency).
pub(crate) fn fit(points: &[(u64, u64)]) -> FlushCost {
    let signed: Vec<(u64, i64)> =
        points.iter().map(|point| (point.0, i64::try_from(point.1).unwrap_or(i64::MAX))).collect();
    let Some(line) = Line::through(&signed) else {
        return FlushCost { base_ns: points.first().map_or(0, |point| point.1), bytes_per_s: None };
    };
    // ns per 2^20 bytes, so that no digit is lost
    let ns_per_mib = line.slope(1 << 20);
    let bytes_per_s = (1u64 << 20) * 1_000_000_000;
    FlushCost {
        base_ns: u64::try_from(line.at_zero()).unwrap_or(0),
        bytes_per_s: bytes_per_s.checked_div(ns_per_mib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_rate_are_found() {
        let points: Vec<(u64, u64)> =
            (0..4u64).map(|i| (i << 22, 200_000_000 + (i << 22) * 1_000 / 210)).collect();
        let cost = fit(&points);
        assert!(cost.base_ns.abs_diff(200_000_000) < 100_000, "{cost:?}");
        assert!(cost.bytes_per_s.expect("a rate").abs_diff(210_000_000) < 1_000_000, "{cost:?}");
        let free = fit(&[(0, 5_000), (1 << 20, 5_000), (2 << 20, 5_000)]);
        assert_eq!(free, FlushCost { base_ns: 5_000, bytes_per_s: None });
    }
}
