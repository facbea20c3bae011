//! Is anything violated at a million crash points, with a cache of 1 % of the pages of checksums?
//!
//! Source: acceptance of capacity, line 3. The arm `paged` has 192 groups of blocks, and two pages in memory. All other
//! arms run with their caches of three pages, which hold all that they have until they start again.

use super::Options;
use crate::accept::swarm;
use crate::row::Row;
use anyhow::Result;

const CRASHES_WANTED: u64 = 1_000_000;
/// Seeds that the tests of every day do not use.
const PAGED_SEEDS: (u64, u64) = (9_000, 560);
const SEEDS: (u64, u64) = (9_000, 2);

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let paged = swarm::share(PAGED_SEEDS, &["paged"])?;
    let all = swarm::share(SEEDS, &[])?;
    let sum = |of: &dyn Fn(&swarm::Share) -> u64| paged.iter().chain(&all).map(of).sum::<u64>();
    let of_paged: u64 = paged.iter().map(|share| share.crashes).sum();
    let failed = sum(&|share| share.failed);
    Ok(vec![
        Row::new(
            format!("paging, a cache of 1 %: at least {CRASHES_WANTED} crash points, 0 violated"),
            format!("{of_paged}, {failed} violated"),
            of_paged >= CRASHES_WANTED && failed == 0,
        ),
        Row::info(
            "… and all other arms",
            format!("{} crash points", sum(&|it| it.crashes) - of_paged),
        ),
    ])
}
