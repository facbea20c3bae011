//! Is it as fast as before this issue? Replays and NBD, both versions side by side in one run.
//!
//! Source: acceptance of trust, line 6.

use super::Options;
use crate::accept::paired::{self, Before};
use crate::packages;
use crate::row::Row;
use anyhow::Result;

const WANTED_PERCENT: u32 = 97;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let mut rows = paired::replays(Before::House, WANTED_PERCENT)?;
    rows.extend(paired::nbd(Before::House, WANTED_PERCENT)?);
    Ok(rows)
}
