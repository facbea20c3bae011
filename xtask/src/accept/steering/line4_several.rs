//! Do more hard drives help?
//!
//! Source: issue "write steering", acceptance 4.

use super::Options;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(
        "1, 2 and 4 hard drives on pangu-b at 1x and 2x: user slow-hits and p99.9 fall with each",
    )])
}
