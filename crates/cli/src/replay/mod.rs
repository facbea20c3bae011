//! `tandem replay`: what would each policy do with this trace over these drives?

pub mod arguments;
pub mod doubts;
pub mod pace;
mod promises;
mod tables;
mod way;

pub use arguments::Arguments;

use crate::failure::Failure;
use crate::input::{KEPT_MAX, Loaded, Reading, Source};
use crate::report::html;
use crate::report::json::{self, Document};
use crate::report::print_json;
use anyhow::Context as _;
use pace::{bar, counted, threads};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use tandem_sim::replay::{Plan, ReplayConfig, ReplayError, RunResult, bare, plan, replay};
use tandem_traces::transform::Speedup;
use way::Way;

/// Does it.
///
/// # Errors
/// Words that make no sense, traces that cannot be read, drives that cannot hold them.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.settings()?;
    let mut documents = Vec::new();
    for sources in traces(arguments) {
        let document = one(arguments, &settings, sources)?;
        if !arguments.json {
            crate::report::print_text(&tables::render(&document))?;
        }
        if let Some(path) = &arguments.report {
            let several = traces(arguments).len() > 1;
            report(&document, &numbered(path, documents.len(), several))?;
        }
        documents.push(document.json);
    }
    if arguments.json {
        match documents.as_slice() {
            [only] if traces(arguments).len() == 1 => print_json(only)?,
            several => print_json(&several)?,
        }
    }
    Ok(())
}

/// What the command line asks for, read and checked.
pub struct Settings {
    /// What is replayed: drives alone, and policies, each with each tier.
    choices: Vec<Way>,
    speedup: Speedup,
    config: ReplayConfig,
    promises: promises::Wanted,
}

/// One trace under all policies.
pub struct Replayed {
    json: Document,
    loaded: Loaded,
    config: ReplayConfig,
    plan: Plan,
    speedup: String,
    runs: Vec<(String, RunResult, Vec<String>)>,
}

/// The sources of each document: one each, or all of them overlaid.
fn traces(arguments: &Arguments) -> Vec<Vec<Source>> {
    let sources: Vec<Source> = arguments.traces.iter().map(|trace| Source::parse(trace)).collect();
    if arguments.merge { vec![sources] } else { sources.into_iter().map(|s| vec![s]).collect() }
}

/// Where the page of the `index`-th of several traces goes.
fn numbered(path: &Path, index: usize, several: bool) -> PathBuf {
    if !several {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.html", index + 1))
}

fn report(replayed: &Replayed, path: &Path) -> Result<(), Failure> {
    let facts = tables::facts(replayed);
    let page = html::Page {
        title: &replayed.loaded.name,
        facts: &facts,
        hdds: &replayed.config.hdds,
        runs: replayed.runs.iter().map(|(label, result, _)| (label.as_str(), result)).collect(),
    };
    let text = html::render(&page)?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    crate::stderr::note(format_args!("report: {}", path.display()));
    Ok(())
}

fn one(
    arguments: &Arguments,
    settings: &Settings,
    sources: Vec<Source>,
) -> Result<Replayed, Failure> {
    let reading = Reading {
        sources,
        options: arguments.open_options()?,
        limit: arguments.limit,
        seed: arguments.seed,
        kept_max: KEPT_MAX,
    };
    let reading_bar = bar(None);
    let loaded = reading.load(|count| reading_bar.set_position(count))?;
    reading_bar.finish_and_clear();
    let config = settings.config.clone();
    let mut plan = plan(&config, &loaded.survey).with_context(|| loaded.name.clone())?;
    if !settings.promises.is_usual() {
        plan.engine_mut().qos = settings.promises.config(&config, &plan)?;
    }
    for drive in plan.drives.iter().filter(|drive| drive.is_scaled) {
        crate::stderr::note(format_args!(
            "note: {}: {} is scaled to {}, because the trace reaches over {}",
            loaded.name,
            drive.name,
            crate::report::table::capacity(drive.model_bytes),
            crate::report::table::bytes(loaded.survey.footprint_bytes()),
        ));
    }
    let results = all_policies(settings, &loaded, &plan)?;
    let mut document = json::document(&loaded, &config, &plan, &arguments.speedup);
    let mut runs = Vec::new();
    for (way, result) in settings.choices.iter().zip(results) {
        let label = way.label();
        let doubts = match way {
            Way::Pool(steer, _) => doubts::of(steer, &result, &config),
            Way::Bare(_) => doubts::of_bare(&result, &config, &settings.promises),
        };
        document.runs.push(json::run(label.clone(), &result, doubts.clone()));
        runs.push((label, result, doubts));
    }
    let speedup = arguments.speedup.clone();
    Ok(Replayed { json: document, loaded, config, plan, speedup, runs })
}

/// Runs every policy, two at a time if memory allows; each run is an event loop of its own.
fn all_policies(
    settings: &Settings,
    loaded: &Loaded,
    plan: &Plan,
) -> Result<Vec<RunResult>, Failure> {
    let arrivals = loaded.survey.requests + loaded.survey.flushes;
    let progress = bar(Some(arrivals * settings.choices.len() as u64));
    let one = |way: &Way| {
        loaded.replay(settings.speedup, |arrivals| {
            run_way(way, settings, loaded, plan, counted(arrivals, &progress))
                .with_context(|| format!("{} under {}", loaded.name, way.label()))
        })
    };
    let threads = threads(plan).min(settings.choices.len());
    let results = if threads > 1 && loaded.is_kept() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        pool.install(|| settings.choices.par_iter().map(one).collect())
    } else {
        settings.choices.iter().map(one).collect()
    };
    progress.finish_and_clear();
    results
}

fn run_way(
    way: &Way,
    settings: &Settings,
    loaded: &Loaded,
    plan: &Plan,
    arrivals: impl Iterator<Item = tandem_block::Arrival>,
) -> Result<RunResult, ReplayError> {
    match way {
        Way::Pool(steer, tier) => {
            let (steer, tier) = (steer.clone(), tier.clone());
            replay(&ReplayConfig { steer, tier, ..settings.config.clone() }, plan, arrivals)
        }
        Way::Bare(role) => bare(&settings.config, &loaded.survey, *role, arrivals),
    }
}
