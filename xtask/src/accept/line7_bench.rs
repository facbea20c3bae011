//! Is it fast enough?
//!
//! Source: issue "the spine", "Speed and memory" and acceptance 7.

use super::Options;
use crate::bench;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = bench::rows(bench::WANTED).into_iter().map(|(_, row)| row).collect();
    rows.push(Row::info(
        "clean builds: 60 s debug, 120 s release on 2 cores",
        "not part of this: cargo xtask bench builds, on a quiet machine",
    ));
    Ok(rows)
}
