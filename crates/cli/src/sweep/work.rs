//! The runs of a sweep: each case from each start under each policy, side by side as memory allows.

use super::cases::{Case, Sweep};
use super::compare::{Figures, Starts};
use crate::failure::{Failure, said};
use crate::input::{Loaded, Reading, Source};
use crate::replay::pace;
use crate::report::json;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tandem_sim::replay::{ReplayConfig, plan, replay};
use tandem_traces::{OpenOptions, transform};

/// Arrivals of one workload that stay in RAM: 40 MiB. A longer one is read again for each run.
const KEPT_MAX: usize = 1 << 20;
/// The later starts of a trace are so many of these parts behind its beginning.
const START_PART: u64 = 16;

/// A p99.9 is of so many requests at least.
const P999_OF: u64 = 1_000;

/// One run.
#[derive(Clone, Copy)]
struct Job {
    case: usize,
    start: u32,
    policy: usize,
    requests: u64,
}

/// Workloads by their names and seeds. A trace has no seed.
type Workloads = BTreeMap<(String, u64), Loaded>;

/// Runs everything. Results by case, policy and start, with these fields.
///
/// # Errors
/// If a workload cannot be made or read.
pub(super) fn run_all(
    sweep: &Sweep,
    fields: &BTreeSet<String>,
) -> Result<Vec<Vec<Starts>>, Failure> {
    let loaded = load_all(sweep)?;
    let mut jobs = Vec::new();
    for (case, of) in sweep.cases.iter().enumerate() {
        for start in 0..sweep.starts {
            let requests = loaded[&workload(of, start)].survey.requests;
            let job = |policy| Job { case, start, policy, requests };
            jobs.extend((0..sweep.policies.len()).map(job));
        }
    }
    // the longest first, so that no processor waits for one at the end
    jobs.sort_by_key(|job| std::cmp::Reverse(job.requests));
    let progress = pace::bar(Some(jobs.iter().map(|job| job.requests).sum()));
    let room = pace::Room::of_free_memory();
    let threads = pace::threads_max().min(jobs.len()).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let run = |job: Job| (job, one(sweep, job, &loaded, fields, &room, &progress));
    let done: Vec<(Job, Result<Figures, String>)> =
        pool.install(|| jobs.into_iter().par_bridge().map(run).collect());
    progress.finish_and_clear();
    let nothing = || Err("it was not run".to_owned());
    let of_policy = || (0..sweep.starts).map(|_| nothing()).collect::<Starts>();
    let of_case = || sweep.policies.iter().map(|_| of_policy()).collect::<Vec<_>>();
    let mut results: Vec<Vec<Starts>> = sweep.cases.iter().map(|_| of_case()).collect();
    for (job, result) in done {
        results[job.case][job.policy][job.start as usize] = result;
    }
    Ok(results)
}

/// What a case replays from this start.
fn workload(case: &Case, start: u32) -> (String, u64) {
    let seed = match case.source {
        Source::File(_) => 0,
        Source::Synth(_) => seed_of(start),
    };
    (case.source.name(), seed)
}

/// Of drives and synthetic workloads.
fn seed_of(start: u32) -> u64 {
    u64::from(start) + 1
}

fn load_all(sweep: &Sweep) -> Result<Workloads, Failure> {
    let mut wanted = BTreeMap::new();
    for case in &sweep.cases {
        for start in 0..sweep.starts {
            wanted.insert(workload(case, start), case.source.clone());
        }
    }
    let bar = pace::bar(None);
    let load = |(key, source): ((String, u64), Source)| {
        let reading = Reading {
            sources: vec![source],
            options: OpenOptions { skip_bad: true, ..OpenOptions::default() },
            limit: None,
            seed: key.1,
            kept_max: KEPT_MAX,
        };
        let loaded = reading.load(|count| bar.set_position(count))?;
        Ok((key, loaded))
    };
    let loaded = wanted.into_iter().map(load).collect();
    bar.finish_and_clear();
    loaded
}

fn one(
    sweep: &Sweep,
    job: Job,
    loaded: &Workloads,
    fields: &BTreeSet<String>,
    room: &pace::Room,
    progress: &ProgressBar,
) -> Result<Figures, String> {
    let case = &sweep.cases[job.case];
    let policy = &sweep.policies[job.policy];
    let loaded = &loaded[&workload(case, job.start)];
    let config = ReplayConfig {
        steer: policy.steer.clone(),
        tier: policy.tier.clone(),
        seed: seed_of(job.start),
        ..case.config.clone()
    };
    let plan = plan(&config, &loaded.survey).map_err(|why| why.to_string())?;
    // a workload that prepares itself begins where it is prepared; another seed makes it another one
    let is_whole = loaded.survey.warm_up_requests > 0;
    let left_out = if is_whole { 0 } else { left_out(loaded.survey.requests, job.start) };
    let run = |arrivals: &mut dyn Iterator<Item = _>| {
        let later = transform::begin_at(arrivals, left_out);
        replay(&config, &plan, pace::counted(&mut { later }, progress))
    };
    let result = room.with(pace::need_bytes(&plan), || loaded.replay(case.speedup, run));
    let result = result.map_err(said)?;
    let run = json::run(String::new(), &result, Vec::new());
    let run = serde_json::to_value(run).map_err(|why| why.to_string())?;
    Ok(figures(&run, fields))
}

/// How many requests of a trace this start leaves out.
fn left_out(requests: u64, start: u32) -> u64 {
    requests / START_PART * u64::from(start) % requests.max(1)
}

/// These fields of a run, as far as something was measured.
fn figures(run: &Value, fields: &BTreeSet<String>) -> Figures {
    let value = |field: &String| {
        let (mut at, mut above) = (run, run);
        for name in field.split('.') {
            above = at;
            at = match name.parse::<usize>() {
                Ok(number) => at.get(number)?,
                Err(_) => at.get(name)?,
            };
        }
        // a latency of no requests is 0, and the p99.9 of a few is the longest of them
        let least = if field.ends_with("p999_ns") { P999_OF } else { 1 };
        let count = above.get("count").and_then(Value::as_u64);
        let is_measured = count.is_none_or(|count| count >= least);
        at.as_f64().filter(|_| is_measured)
    };
    fields.iter().filter_map(|field| Some((field.clone(), value(field)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_latency_of_no_requests_is_none() {
        let run = json!({
            "read": { "count": 0, "mean_ns": 0 },
            "write": { "count": 3, "mean_ns": 7, "p999_ns": 9 },
            "ssd": { "written_bytes": 0 },
            "devices": [{ "id": 4 }],
        });
        let fields = [
            "read.mean_ns",
            "write.mean_ns",
            "write.p999_ns",
            "ssd.written_bytes",
            "devices.0.id",
            "x.y",
        ];
        let found = figures(&run, &fields.map(str::to_owned).into());
        let want = [("devices.0.id", 4.0), ("ssd.written_bytes", 0.0), ("write.mean_ns", 7.0)];
        assert_eq!(found, want.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn starts_are_apart_and_within_the_trace() {
        assert_eq!([0, 1, 2, 15, 16].map(|start| left_out(160, start)), [0, 10, 20, 150, 0]);
        assert_eq!([0, 1, 31].map(|start| left_out(7, start)), [0, 0, 0]);
        assert_eq!(left_out(0, 3), 0);
    }
}
