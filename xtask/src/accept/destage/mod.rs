//! Is the milestone of destaging reached? A full cache faster than every kernel peer, and a hard drive that may rest.
//!
//! Source: acceptance of destaging, by its lines. All of it is virtual time over models of drives, but for the last line.

mod line1_full;
mod line2_never_slower;
mod line3_mixed;
mod line4_rest;
mod line5_flushes;
mod line6_bursts;
mod line7_live;
pub(super) mod measured;
pub mod peers;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, line1_full::measure),
    (2, line2_never_slower::measure),
    (3, line3_mixed::measure),
    (4, line4_rest::measure),
    (5, line5_flushes::measure),
    (6, line6_bursts::measure),
    (7, line7_live::measure),
];
