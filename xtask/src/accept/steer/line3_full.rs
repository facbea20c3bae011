//! Is a full cache as fast under our own policy, and is its tail the best of all?
//!
//! Source: acceptance of our own steering, line 3.

use super::Options;
use crate::accept::destage::measured::{
    BARE, Job, MIX73, MIXHOT, Measured, SAT, SATLONG, ms, program, replay, seconds,
};
use crate::row::Row;
use anyhow::{Context as _, Result};

/// Our own among those that are compared.
const OURS: &str = "tandem";
const POLICIES: &str = "bare,ssd-first,mios-d,mios-e,mios-f,swr,serw,ect,tandem";
/// Workload, its name, and how long it may take, in seconds.
const WORKLOADS: [(&str, &str, u64); 4] =
    [("sat", SAT, 20), ("satlong", SATLONG, 105), ("mix73", MIX73, 29), ("mixhot", MIXHOT, 68)];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let mut rows = Vec::new();
    for (name, workload, most_s) in WORKLOADS {
        let runs = replay(&program, Job { workload, policies: POLICIES, ..Job::default() })?;
        let named = |policy: &str| runs.iter().find(|run| run.policy == policy);
        let ours = named(OURS).context("our own policy is a row")?;
        let usual = named("ssd-first").context("the default policy is a row")?;
        let bare = named(BARE).context("the drive alone is a row")?;
        rows.push(
            Row::new(
                format!("{name}, {OURS}: at most {most_s} s"),
                format!(
                    "{} (ssd-first {}, the drive alone {})",
                    seconds(ours.took_ms),
                    seconds(usual.took_ms),
                    seconds(bare.took_ms)
                ),
                ours.took_ms <= most_s * 1000,
            )
            .shown(),
        );
        if workload == SATLONG {
            rows.push(best_tail(ours, &runs).shown());
        }
    }
    Ok(rows)
}

fn best_tail(ours: &Measured, runs: &[Measured]) -> Row {
    let others = runs.iter().filter(|run| run.policy != ours.policy && run.policy != BARE);
    let best = others.min_by_key(|run| run.write.p999);
    let told = best.map_or_else(String::new, |best| {
        format!("; the best of the others {} ms ({})", ms(best.write.p999), best.policy)
    });
    Row::new(
        "satlong: its p99.9 is the best of all policies",
        format!("{} ms{told}", ms(ours.write.p999)),
        best.is_none_or(|best| ours.write.p999 <= best.write.p999),
    )
}
