//! Is the milestone of trust reached?
//!
//! Source: acceptance of trust, by its lines.

mod line1_tests;
mod line2_campaign;
mod line3_jobs;
mod line4_live;
mod line5_attacks;
mod line6_speed;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, line1_tests::measure),
    (2, line2_campaign::measure),
    (3, line3_jobs::measure),
    (4, line4_live::measure),
    (5, line5_attacks::measure),
    (6, line6_speed::measure),
];
