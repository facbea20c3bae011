//! Is the milestone of trust reached?
//!
//! Source: acceptance of trust, by its lines.

mod line5_attacks;

use super::{Line, Options};

pub(super) const LINES: &[Line] = &[(5, line5_attacks::measure)];
