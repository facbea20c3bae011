//! Is the milestone of capacity reached? Petabytes, in memory that goes with the SSD, back in seconds.
//!
//! Source: acceptance of capacity, by its lines.

mod line1_sizes;
mod line2_memory;
mod line3_campaign;
mod line5_speed;

use super::{Line, Options};
use crate::row::Row;
use anyhow::Result;

pub(super) const LINES: &[Line] = &[
    (1, line1_sizes::measure),
    (2, line2_memory::measure),
    (3, line3_campaign::measure),
    (4, |_| not_built("golden images of version 3, and ten minutes of fuzzing for each structure")),
    (5, line5_speed::measure),
];

fn not_built(wanted: &str) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(wanted)])
}
