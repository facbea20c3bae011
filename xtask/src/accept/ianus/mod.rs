//! Is the milestone of reservations and pairs reached?
//!
//! Source: acceptance of reservations and the pair. What is not built yet says so.

mod line1_single;
mod line2_reads;
mod line3_live;
mod line4_crashes;

use super::{Line, Options, row};

pub(super) const LINES: &[Line] = &[
    (1, line1_single::measure),
    (2, line2_reads::measure),
    (3, line3_live::measure),
    (4, line4_crashes::measure),
];
