//! Is a full cache faster than the hard drive below it, with every policy and tier?
//!
//! Source: acceptance of destaging, line 1.

use super::Options;
use super::measured::{BARE, Job, Measured, SAT, SATLONG, ms, program, replay, seconds};
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::path::Path;

const SEEDS: u64 = 3;
/// Workload, its name, and the most seconds of the default policy and tier.
const WORKLOADS: [(&str, &str, u64); 2] = [("sat", SAT, 20), ("satlong", SATLONG, 105)];
/// Sizes of the SSD, and the most time of a policy in percent of the drive alone.
const SIZES: [(&str, u64); 4] = [("1GiB", 90), ("512MiB", 90), ("256MiB", 100), ("128MiB", 100)];
/// What never writes to a hard drive while the SSD has room is left out.
const POLICIES: &str = "bare,ssd-first,mios-d,mios-e,mios-f,swr,serw,ect,hdd-only";
/// At most so many times its mean.
const TAIL_MAX: u64 = 4;
/// Named of those that are too slow.
const NAMED_MAX: usize = 5;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let mut rows = Vec::new();
    for (name, workload, most_s) in WORKLOADS {
        for seed in 1..=SEEDS {
            let measured = default_policy(&program, (name, workload), most_s, seed)?;
            rows.extend(measured.into_iter().map(Row::shown));
        }
    }
    for (name, workload, _) in WORKLOADS {
        for (ssd_size, most_percent) in SIZES {
            rows.push(all_policies(&program, (name, workload), ssd_size, most_percent)?.shown());
        }
    }
    Ok(rows)
}

fn default_policy(
    program: &Path,
    (name, workload): (&str, &str),
    most_s: u64,
    seed: u64,
) -> Result<Vec<Row>> {
    let runs = replay(program, Job { workload, seed, ..Job::default() })?;
    let [bare, ours] = runs.as_slice() else { anyhow::bail!("two runs are wanted") };
    let figures = format!(
        "{} (the drive alone {}), p99.9 {} ms, {} flushes",
        seconds(ours.took_ms),
        seconds(bare.took_ms),
        ms(ours.write.p999),
        ours.flushes
    );
    let mut rows = vec![Row::new(
        format!("{name}, {}, seed {seed}: at most {most_s} s", ours.policy),
        figures,
        ours.took_ms <= most_s * 1000,
    )];
    if workload == SATLONG {
        let tail = ours.write.p999.div_ceil(ours.write.mean.max(1));
        rows.push(Row::new(
            format!("{name}, {}, seed {seed}: p99.9 at most {TAIL_MAX}x its mean", ours.policy),
            format!("{} and {} ms: {tail}x", ms(ours.write.p999), ms(ours.write.mean)),
            tail <= TAIL_MAX,
        ));
    }
    Ok(rows)
}

fn all_policies(
    program: &Path,
    (name, workload): (&str, &str),
    ssd_size: &str,
    most_percent: u64,
) -> Result<Row> {
    let job = Job { workload, ssd_size, policies: POLICIES, tiers: Some("all"), ..Job::default() };
    let runs = replay(program, job)?;
    let bare = runs.iter().find(|run| run.policy == BARE).context("the drive alone is a row")?;
    let mut shares: Vec<(u64, &Measured)> = runs
        .iter()
        .filter(|run| run.policy != BARE)
        .map(|run| (run.percent_of(bare), run))
        .collect();
    shares.sort_by_key(|(percent, _)| std::cmp::Reverse(*percent));
    let slow = shares.iter().filter(|(percent, _)| *percent > most_percent).count();
    let named: Vec<String> = shares
        .iter()
        .take(slow.clamp(1, NAMED_MAX))
        .map(|(percent, run)| format!("{} {percent} %", run.policy))
        .collect();
    Ok(Row::new(
        format!(
            "{name}, SSD of {ssd_size}, every policy and tier: at most {most_percent} % of the drive alone"
        ),
        format!("{slow} of {} are slower: {}", shares.len(), named.join(", ")),
        slow == 0 && runs.iter().all(|run| run.errors == 0),
    ))
}
