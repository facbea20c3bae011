//! Is it as fast as at the end of the house, with tables that fit?
//!
//! Source: acceptance of capacity, line 5.

use super::Options;
use crate::accept::paired::{self, Before};
use crate::packages;
use crate::row::Row;
use anyhow::Result;

const WANTED_PERCENT: u32 = 100;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let mut rows = paired::replays(Before::EndOfHouse, WANTED_PERCENT)?;
    rows.extend(paired::nbd(Before::EndOfHouse, WANTED_PERCENT)?);
    Ok(rows)
}
