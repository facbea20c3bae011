//! `tandem run`: where do our results agree with the papers', and where not?
//!
//! ```text
//! files ─▶ experiment (checked) ─▶ work: cases x policies, equal ones once ─▶ report
//!             │ paths, policies        │ in parallel, as memory allows          │ relation: verdict
//! ```

mod drive;
#[cfg(test)]
mod drive_tests;
mod experiment;
mod file;
mod instead;
#[cfg(test)]
mod items;
mod null;
mod page;
mod purpose;
mod relation;
mod report;
mod row;
pub mod schema;
mod score;
#[cfg(test)]
mod serw_tests;
mod sharing;
mod stated;
#[cfg(test)]
mod tests;
mod traces;
mod values;
mod work;

use crate::failure::Failure;
use crate::output::Output;
use crate::report::{print_json, print_text};
use crate::toml_fault;
use anyhow::anyhow;
use experiment::Experiment;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use work::Results;

/// Run experiments: the paper's number, ours and the verdict of each relation.
///
/// Fails if a relation does not hold, or if an item of the paper has none. experiments/README.md
/// tells what is in such a file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Experiments
    #[arg(value_name = "EXPERIMENT.toml", required = true)]
    files: Vec<PathBuf>,
    /// Also run each null of the experiments in the place of the policies, and count what tells a policy
    /// from none
    #[arg(long)]
    null: bool,
    /// Leave out runs that no relation names
    #[arg(long)]
    named: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a page: each figure with the paper's points and ours, the verdicts, and charts of every
    /// case. One file, nothing loaded from elsewhere
    #[arg(long, value_name = "F.html")]
    report: Option<PathBuf>,
    /// Write everything that each run gave to a file, as JSON: {experiment: {case: {policy: run}}}
    #[arg(long, value_name = "F")]
    details: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// Files that make no sense, workloads that cannot be run, relations that do not hold.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut experiments: Vec<Experiment> = Vec::new();
    for path in &arguments.files {
        if is_sweep(path) {
            let path = path.display();
            crate::stderr::note(format_args!("note: {path} is left out: tandem sweep runs it"));
            continue;
        }
        let experiment = Experiment::read(path)?;
        let experiment = match arguments.named {
            true => experiment::with_named_runs_only(experiment),
            false => experiment,
        };
        if experiments.iter().any(|known| known.name == experiment.name) {
            return Err(Failure::usage(format!("two experiments are called {}", experiment.name)));
        }
        experiments.push(experiment);
    }
    if experiments.is_empty() {
        let path = arguments.files[0].display();
        return Err(Failure::usage(format!(
            "there is no experiment: tandem sweep {path} runs that file"
        )));
    }
    // before anything runs: all of them take half an hour
    let (page_file, details_file) = outputs(arguments)?;
    let nulls = nulls(&experiments, arguments.null);
    let results = work::run_all(experiments.iter().chain(&nulls))?;
    check_nulls(&nulls, &results)?;
    if let Some(file) = details_file {
        file.write(&details_of(&experiments, &results)?)?;
    }
    let document = report::document(&experiments, &results, arguments.null);
    if let (Some(file), Some(path)) = (page_file, &arguments.report) {
        file.write(&page::render(&document, &experiments, &results, arguments.null)?)?;
        crate::stderr::note(format_args!("report: {}", path.display()));
    }
    if arguments.json {
        print_json(&document)?;
    } else {
        print_text(&document.text())?;
    }
    let stale = document.stale();
    if !stale.is_empty() {
        let ids = stale.join(", ");
        let text = "these relations hold, but their file says why they do not: remove `why` and `cause` of";
        return Err(Failure::Failed(anyhow!("{text} {ids}")));
    }
    match document.counts() {
        (all, held) if held < all => {
            Err(Failure::Failed(anyhow!("{} of {all} relations do not hold", all - held)))
        }
        _ => Ok(()),
    }
}

/// Is this file for `tandem sweep`? One that cannot be read is not.
fn is_sweep(path: &Path) -> bool {
    let text = toml_fault::read_file(path, "sweep").ok();
    let table = text.and_then(|text| text.parse::<toml::Table>().ok());
    table.is_some_and(|table| table.contains_key("grid"))
}

/// The files for the page and for the details.
fn outputs(arguments: &Arguments) -> Result<(Option<Output>, Option<Output>), Failure> {
    let Arguments { report, details, .. } = arguments;
    if let (Some(report), true) = (report, report == details) {
        let path = report.display();
        return Err(Failure::usage(format!("--report and --details both name {path}")));
    }
    let open = |option: &str, path: &Option<PathBuf>| {
        path.as_ref().map(|path| Output::check(option, path)).transpose()
    };
    Ok((open("--report", report)?, open("--details", details)?))
}

/// The experiments with each of their nulls in the place of the policies, if that is asked for.
fn nulls(experiments: &[Experiment], asked: bool) -> Vec<Experiment> {
    let of_one = |experiment: &Experiment| -> Vec<Experiment> {
        experiment
            .nulls
            .iter()
            .map(|null| instead::in_place_of_policies(*null, experiment))
            .collect()
    };
    if asked { experiments.iter().flat_map(of_one).collect() } else { Vec::new() }
}

/// A null that could not be run shows nothing, so the score must not count it.
fn check_nulls(nulls: &[Experiment], results: &Results) -> Result<(), Failure> {
    for experiment in nulls {
        for case in experiment.cases.iter().filter(|case| case.kind.skipped().is_none()) {
            for (label, which) in case.kind.runs() {
                if let Err(why) = &results[&work::key(&case.kind, which)] {
                    let place = format!("{}, {}/{label}", experiment.name, case.name);
                    return Err(Failure::Failed(anyhow!("{place} with a null failed: {why}")));
                }
            }
        }
    }
    Ok(())
}

/// Everything that each run gave, as JSON.
fn details_of(experiments: &[Experiment], results: &Results) -> Result<String, Failure> {
    let mut document = Map::new();
    for experiment in experiments {
        let mut cases = Map::new();
        for case in &experiment.cases {
            let mut runs = Map::new();
            for (label, which) in case.kind.runs() {
                let told = |why: &String| Value::from(format!("failed: {why}"));
                let run = results[&work::key(&case.kind, which)].clone();
                runs.insert(label.to_owned(), run.unwrap_or_else(|why| told(&why)));
            }
            cases.insert(case.name.clone(), Value::Object(runs));
        }
        document.insert(experiment.name.clone(), Value::Object(cases));
    }
    Ok(serde_json::to_string_pretty(&Value::Object(document))?)
}
