//! Is the milestone of fidelity reached? Inputs first, then what tells a policy from none, then every item.
//!
//! Source: acceptance of fidelity, by its lines.

mod line1_inputs;
mod line2_scores;
mod line3_kept;
mod line4_items;
pub(super) mod line5_live;
mod runs;

use super::Line;

pub(super) const LINES: &[Line] = &[
    (1, line1_inputs::measure),
    (2, line2_scores::measure),
    (3, line3_kept::measure),
    (4, line4_items::measure),
    (5, line5_live::measure),
];
