//! Does the server on emulated drives do what the engine does in virtual time, with each policy?
//!
//! Source: acceptance of fidelity, line 5.

use crate::accept::Options;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![Row::not_built(
        "each policy: live and virtual within 15 %, what a request costs in server and client taken off",
    )])
}
