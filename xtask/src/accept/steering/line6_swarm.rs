//! Does the promise hold under every policy and every durability class?
//!
//! Source: acceptance of write steering, line 6.

use super::Options;
use crate::accept::spine;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    spine::swarm()
}
