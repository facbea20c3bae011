//! How many of the figures come out?
//!
//! Source: acceptance of tiers and caches, 1: at least 80 % of the relations hold, the rest are explained.
//! The four files of Loris hold all that its sections V-D and V-E state; none of their relations may be
//! skipped, and each that was committed before anything was run is there.

use super::Options;
use crate::accept::experiments;
use crate::row::Row;
use anyhow::Result;

/// Share of the relations that must hold, in percent.
const HOLD_PERCENT: usize = 80;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let told = experiments::run(&experiments::files("loris")?)?;
    let committed = experiments::ids_of_before("loris")?;
    let there = committed.iter().filter(|id| told.has(id)).count();
    let mut rows = vec![Row::new(
        format!(
            "all {} relations that were committed before the first run are there",
            committed.len()
        ),
        format!("{there}"),
        there == committed.len() && there > 0,
    )];
    rows.extend(told.relations(HOLD_PERCENT));
    Ok(rows)
}
