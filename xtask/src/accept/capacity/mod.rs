//! Is the milestone of capacity reached? Petabytes, in memory that goes with the SSD, back in seconds.
//!
//! Source: acceptance of capacity, by its lines.

mod line1_sizes;
mod line2_memory;
mod line3_campaign;
mod line4_frozen;
mod line5_speed;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, line1_sizes::measure),
    (2, line2_memory::measure),
    (3, line3_campaign::measure),
    (4, line4_frozen::measure),
    (5, line5_speed::measure),
];
