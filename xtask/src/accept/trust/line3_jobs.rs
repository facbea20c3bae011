//! Does a job of 2,000 commands hold whichever of them fails, under every policy, tier and placement?
//!
//! Source: acceptance of trust, line 3.

use super::Options;
use crate::accept::swarm;
use crate::row::Row;
use anyhow::Result;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let jobs = swarm::jobs(&[])?;
    let swarm::Jobs { jobs: count, commands, violated, .. } = jobs;
    Ok(vec![Row::new(
        "the n-th command fails, for each of 2,000 of every policy, tier and placement: 0 lost, 0 hung",
        format!("{count} jobs, {commands} commands; {violated} jobs lost something or hung"),
        violated == 0 && count > 0 && commands == 2_000 * count,
    )])
}
