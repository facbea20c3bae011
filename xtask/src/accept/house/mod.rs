//! Is the milestone of the house reached? Owners, words, documents, and nothing that got worse.
//!
//! Source: acceptance of the house, by its lines.

mod line1_counts;
mod line2_walks;
mod line3_before;
mod line4_questions;
mod line5_speed;
mod page;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, line1_counts::measure),
    (2, line2_walks::measure),
    (3, line3_before::measure),
    (4, line4_questions::measure),
    (5, line5_speed::measure),
];
