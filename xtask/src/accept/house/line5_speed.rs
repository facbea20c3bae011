//! Is it as fast as before, and are replays of hot spots much faster?
//!
//! Source: acceptance of the house, speed. Both versions side by side in one run.

use super::Options;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    Ok(vec![
        Row::info(
            "replay and every NBD row at least 1.0x",
            "`cargo xtask accept trust 6` measures it",
        ),
        Row::not_built(
            "`replay synth:zipf:requests=3000000` at least 1.7x, with ssd-first and mios-d",
        ),
    ])
}
