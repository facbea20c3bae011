//! Is the first milestone reached: one engine that serves, replays and keeps its promise?
//!
//! Source: acceptance of the spine.

mod file_systems;
mod line1_commands;
mod line2_replay;
mod line3_hdd;
mod line4_ssd;
mod line5_clients;
mod line6_crashes;
mod line7_bench;

use super::{Line, Options, call, numbers, row};
pub(super) use line6_crashes::swarm;

pub(super) const LINES: &[Line] = &[
    (1, line1_commands::measure),
    (2, line2_replay::measure),
    (3, line3_hdd::measure),
    (4, line4_ssd::measure),
    (5, line5_clients::measure),
    (6, line6_crashes::measure),
    (7, line7_bench::measure),
];
