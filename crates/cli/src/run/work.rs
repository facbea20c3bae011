//! What runs, on how many processors? Every case under every policy, equal ones once.

use super::experiment::{Choice, Experiment, Kind, Predictor, Replay, Staircase, Which};
use crate::failure::{Failure, said};
use crate::input::{Loaded, Reading, Source};
use crate::replay::{doubts, pace};
use crate::report::json;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tandem_drives::study::staircase;
use tandem_engine::bcw::predictor::WriteState;
use tandem_sim::prediction::predict;
use tandem_sim::replay::{Plan, ReplayConfig, plan, replay};
use tandem_traces::OpenOptions;

/// What came out, by `key`; a run that failed has its reason.
pub type Results = BTreeMap<String, Result<Value, String>>;

/// What makes two runs the same.
pub fn key(case: &Kind, which: Which<'_>) -> String {
    match case {
        Kind::Sharing(sharing) => match which {
            Which::Order(order) => format!("{sharing:?} {}", sharing.served(order)),
            other => unreachable!("clients have an order, not {other:?}"),
        },
        Kind::Predictor(predictor) => format!("{predictor:?}"),
        Kind::Staircase(staircase) => format!("{staircase:?}"),
        Kind::Drive(drive) => format!("{drive:?}"),
        Kind::Replay(replay) => {
            let mut config = replay.config.clone();
            if let Which::Choice(choice) = which {
                config = configured(choice, config);
            }
            format!("{} {:?} {config:?}", replay.workload, replay.speedup)
        }
    }
}

/// The configuration of one run.
fn configured(choice: &Choice, config: ReplayConfig) -> ReplayConfig {
    let Choice { steer, tier, volume_tiers, .. } = choice.clone();
    ReplayConfig { steer, tier, volume_tiers, ..config }
}

/// One run to be done.
struct Job<'a> {
    key: String,
    kind: &'a Kind,
    which: Which<'a>,
}

/// Runs everything.
///
/// # Errors
/// If a workload cannot be made or read, or does not fit its drives.
pub fn run_all<'a>(experiments: impl Iterator<Item = &'a Experiment>) -> Result<Results, Failure> {
    let mut jobs: BTreeMap<String, Job<'_>> = BTreeMap::new();
    for case in experiments.flat_map(|experiment| &experiment.cases) {
        for (_, which) in case.kind.runs() {
            let key = key(&case.kind, which);
            jobs.entry(key.clone()).or_insert(Job { key, kind: &case.kind, which });
        }
    }
    // what cannot be run here is told by the report
    let mut skipped = Results::new();
    jobs.retain(|key, job| match job.kind {
        Kind::Replay(replay) => match &replay.skipped {
            Some(why) => {
                skipped.insert(key.clone(), Err(why.clone()));
                false
            }
            None => true,
        },
        Kind::Predictor(_) | Kind::Staircase(_) | Kind::Sharing(_) | Kind::Drive(_) => true,
    });
    let loaded = load_all(jobs.values())?;
    let mut jobs: Vec<(u64, Job<'_>)> =
        jobs.into_values().map(|job| (requests(&job, &loaded), job)).collect();
    // the longest first, so that no processor waits for one at the end
    jobs.sort_by_key(|job| std::cmp::Reverse(job.0));
    let total = jobs.iter().map(|(requests, _)| requests).sum::<u64>();
    let progress = pace::bar(Some(total));
    // one large set of drives must not make all others take turns
    let room = pace::Room::of_free_memory();
    let mut ready = Vec::with_capacity(jobs.len());
    for (_, job) in jobs {
        let need_bytes = match job.kind {
            Kind::Replay(replay) => pace::need_bytes(&plan_of(replay, &loaded)?),
            Kind::Drive(drive) => drive.need_bytes(),
            Kind::Predictor(_) | Kind::Staircase(_) | Kind::Sharing(_) => 0,
        };
        ready.push((need_bytes, job));
    }
    let threads = pace::threads_max().min(ready.len()).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut results: Results = pool.install(|| {
        let one = |(need_bytes, job): (u64, Job<'_>)| {
            let result = room.with(need_bytes, || run_one(&job, &loaded, &progress));
            (job.key, result)
        };
        ready.into_iter().par_bridge().map(one).collect()
    });
    progress.finish_and_clear();
    results.append(&mut skipped);
    Ok(results)
}

type Workloads = BTreeMap<(String, u64), Loaded>;

/// Every workload, counted; its requests are made again for each run, which costs less than to keep
/// tens of millions of them.
fn load_all<'a>(jobs: impl Iterator<Item = &'a Job<'a>>) -> Result<Workloads, Failure> {
    let mut wanted: Vec<(String, u64)> = jobs
        .filter_map(|job| match job.kind {
            Kind::Replay(replay) => Some((replay.workload.clone(), replay.config.seed)),
            Kind::Predictor(_) | Kind::Staircase(_) | Kind::Sharing(_) | Kind::Drive(_) => None,
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    let bar = pace::bar(None);
    let loaded = wanted
        .into_par_iter()
        .map(|(workload, seed)| {
            let reading = Reading {
                sources: vec![Source::parse(&workload)],
                options: OpenOptions::default(),
                limit: None,
                seed,
                kept_max: 0,
            };
            Ok(((workload, seed), reading.load(|count| bar.set_position(count))?))
        })
        .collect();
    bar.finish_and_clear();
    loaded
}

fn of_case<'a>(replay: &Replay, loaded: &'a Workloads) -> &'a Loaded {
    &loaded[&(replay.workload.clone(), replay.config.seed)]
}

fn plan_of(replay: &Replay, loaded: &Workloads) -> Result<Plan, Failure> {
    Ok(plan(&replay.config, &of_case(replay, loaded).survey)?)
}

fn requests(job: &Job<'_>, loaded: &Workloads) -> u64 {
    match job.kind {
        Kind::Replay(replay) => {
            let survey = &of_case(replay, loaded).survey;
            survey.requests + survey.flushes
        }
        Kind::Predictor(_) | Kind::Staircase(_) | Kind::Drive(_) => 0,
        // long ones, of which nobody knows how long
        Kind::Sharing(_) => u64::from(u32::MAX),
    }
}

fn run_one(job: &Job<'_>, loaded: &Workloads, progress: &ProgressBar) -> Result<Value, String> {
    let replay = match job.kind {
        Kind::Predictor(predictor) => return Ok(predicted(predictor)),
        Kind::Staircase(case) => return Ok(stepped(case)),
        Kind::Drive(case) => return case.run(),
        Kind::Sharing(sharing) => {
            let Which::Order(order) = job.which else { unreachable!("clients have an order") };
            return sharing.run(order);
        }
        Kind::Replay(replay) => replay,
    };
    let Which::Choice(choice) = job.which else { unreachable!("a replay has a policy") };
    let config = configured(choice, replay.config.clone());
    replayed(replay, &config, of_case(replay, loaded), progress).map_err(said)
}

fn replayed(
    case: &Replay,
    config: &ReplayConfig,
    loaded: &Loaded,
    progress: &ProgressBar,
) -> Result<Value, Failure> {
    let is_there = |object| loaded.survey.volumes().any(|(known, _)| known == object);
    if let Some((object, _)) = config.volume_tiers.iter().find(|(object, _)| !is_there(*object)) {
        return Err(Failure::usage(format!("the workload has no volume {}", object.0)));
    }
    let plan = plan(config, &loaded.survey)?;
    let result = loaded.replay(case.speedup, |arrivals| {
        replay(config, &plan, pace::counted(arrivals, progress))
    })?;
    let doubts = doubts::of(&config.steer, &result, config);
    let run = json::run(crate::policy::label(&config.steer), &result, doubts);
    Ok(serde_json::to_value(run)?)
}

fn predicted(case: &Predictor) -> Value {
    let seed = 1;
    let Predictor { spec, profile, size_bytes, rounds, round_bytes } = case;
    let confusion = predict(spec, profile, *size_bytes, *rounds, *round_bytes, seed);
    let share = |state| confusion.recall_ppm(state).map(|ppm| ppm as f64 / 1e6);
    let row = |state: WriteState| (state.name().to_owned(), json!(share(state)));
    json!({ "recall": serde_json::Map::from_iter(WriteState::ALL.map(row)) })
}

fn stepped(case: &Staircase) -> Value {
    let row = staircase(&case.spec, case.size_bytes);
    json!({
        "fast_ns": row.fast_ns,
        "mid_ns": row.mid_ns,
        "slow_ns": row.slow_ns,
        "fast_writes": row.fast_writes,
        "mid_writes": row.mid_writes,
        "fast_bytes": row.fast_writes * case.size_bytes,
        "mid_bytes": row.mid_writes * case.size_bytes,
        "bytes_per_s": row.bytes_per_s,
    })
}
