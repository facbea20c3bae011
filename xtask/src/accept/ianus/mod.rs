//! Is the milestone of reservations and pairs reached?
//!
//! Source: acceptance of reservations and the pair.

mod line1_experiments;
mod line2_reads;
mod line3_live;
mod line4_crashes;
mod line5_together;

use super::{Line, Options, row};

pub(super) const LINES: &[Line] = &[
    (1, line1_experiments::measure),
    (2, line2_reads::measure),
    (3, line3_live::measure),
    (4, line4_crashes::measure),
    (5, line5_together::measure),
];
