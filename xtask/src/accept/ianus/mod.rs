//! Is the milestone of reservations and pairs reached?
//!
//! Source: issue "reservations and the pair", "Shows that it is done". The lines that are about one
//! drive are here.

mod line1_single;
mod line3_live;

use super::{Line, Options, row};

pub(super) const LINES: &[Line] = &[(1, line1_single::measure), (3, line3_live::measure)];
