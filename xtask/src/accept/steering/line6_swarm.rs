//! Does the promise hold under every policy and every durability class?
//!
//! Source: issue "write steering", acceptance 6.

use super::Options;
use crate::accept::spine;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    spine::swarm()
}
