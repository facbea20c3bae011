//! Is the milestone of tiers and caches reached?
//!
//! Source: acceptance of tiers and caches. Line 4 is not built; line 6 is what its part
//! "Build" asks of the collectors.

mod line1_experiments;
mod line2_replay;
mod line3_mount;
mod line5_matrix;
mod line6_collectors;

use super::{Line, Options};
use crate::row::Row;
use anyhow::Result;

pub(super) const LINES: &[Line] = &[
    (1, line1_experiments::measure),
    (2, line2_replay::measure),
    (3, line3_mount::measure),
    (4, |_| not_built("drain, remove and replace of an SSD and of a hard drive under load")),
    (5, line5_matrix::measure),
    (6, line6_collectors::measure),
];

/// A line that nobody has built yet.
fn not_built(wanted: &str) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(wanted)])
}
