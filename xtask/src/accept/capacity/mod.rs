//! Is the milestone of capacity reached? Petabytes, in memory that goes with the SSD, back in seconds.
//!
//! Source: acceptance of capacity, by its lines.

mod line1_sizes;

use super::{Line, Options};
use crate::row::Row;
use anyhow::Result;

pub(super) const LINES: &[Line] = &[
    (1, line1_sizes::measure),
    (2, |_| not_built("memory and latencies under random writes, with caches of 10, 50 and 100 %")),
    (3, |_| not_built("10^6 crash points with paging and a cache of 1 %: 0 violated")),
    (4, |_| not_built("golden images of version 3, and ten minutes of fuzzing for each structure")),
    (5, |_| not_built("replay and NBD: at least 1.00x of the end of the house")),
];

fn not_built(wanted: &str) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(wanted)])
}
