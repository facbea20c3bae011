//! Does a power cut lose what our own policy answered?
//!
//! Source: acceptance of our own steering, line 6. The arm `late` is of it alone: writes that a log takes before an SSD
//! that stalls, and blocks that the SSD takes over later.

use super::Options;
use crate::accept::swarm;
use crate::row::Row;
use anyhow::Result;

const ARM: &str = "late";
const SEEDS: (u64, u64) = (21_000, 60);
const CRASHES_MIN: u64 = 200_000;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let shares = swarm::share(SEEDS, &[ARM])?;
    let rows = shares.iter().map(|share| {
        Row::new(
            format!("arm {}: at least {CRASHES_MIN} crashes, none violated", share.arm),
            format!("{} crashes of {} runs, {} violated", share.crashes, share.runs, share.failed),
            share.crashes >= CRASHES_MIN && share.failed == 0,
        )
    });
    Ok(rows.collect())
}
