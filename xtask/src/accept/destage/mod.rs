//! Is the milestone of destaging reached? A full cache faster than every kernel peer, and a hard drive that may rest.
//!
//! Source: acceptance of destaging, by its lines. All of it is virtual time over models of drives, but for the last line.

mod line1_full;
mod line2_never_slower;
mod line3_mixed;
mod line5_flushes;
mod measured;

use super::{Line, Options};
use crate::row::Row;
use anyhow::Result;

pub(super) const LINES: &[Line] = &[
    (1, line1_full::measure),
    (2, line2_never_slower::measure),
    (3, line3_mixed::measure),
    (4, rest),
    (5, line5_flushes::measure),
    (6, bursts),
    (7, live),
];

fn rest(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built("web0 and an idle pool: the hard drive rests")])
}

fn bursts(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built("bursts as good as before, and replays at their rate")])
}

fn live(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built("over NBD: at least 1.3x of the bare emulated hard drive")])
}
