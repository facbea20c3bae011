//! Is the milestone of our own steering reached? Never worse than the SSD alone, and most of what can be saved.
//!
//! Source: acceptance of our own steering, by its lines. The goals stand in `experiments/own-steer.toml`, and were written
//! down before the policy.

mod line3_full;
mod line4_live;
mod line5_parts;
mod line6_swarm;
mod sweep;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[
    (1, sweep::never_worse),
    (2, sweep::spared),
    (3, line3_full::measure),
    (4, line4_live::measure),
    (5, line5_parts::measure),
    (6, line6_swarm::measure),
];
