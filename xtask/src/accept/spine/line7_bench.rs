//! Is it fast enough?
//!
//! Source: acceptance of the spine, "Speed and memory" and line 7.

use super::Options;
use crate::bench;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    Ok(bench::rows(bench::WANTED).into_iter().map(|(_, row)| row).collect())
}
