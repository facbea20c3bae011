//! Does recalibration help when a drive changes under way?
//!
//! Source: issue "write steering", acceptance 3.

use super::Options;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(
        "drifting drive: user slow-hits per million writes with and without recalibration",
    )])
}
