//! Is the milestone of tiers and caches reached?
//!
//! Source: acceptance of tiers and caches; line 6 is what its part "Build" asks of the collectors.

mod line1_experiments;
mod line2_replay;
mod line3_mount;
mod line4_drives;
mod line5_matrix;
mod line6_collectors;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, line1_experiments::measure),
    (2, line2_replay::measure),
    (3, line3_mount::measure),
    (4, line4_drives::measure),
    (5, line5_matrix::measure),
    (6, line6_collectors::measure),
];
