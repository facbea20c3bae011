//! `tandem sweep`: which policy is best over many workloads and drives, and does ours reach its goals?
//!
//! ```text
//! file ─▶ cases (checked) ─▶ work: case x start x policy ─▶ compare: medians, ratios ─▶ goals, told
//! ```

mod cases;
mod compare;
mod file;
mod goal;
mod oracle;
mod told;
mod work;

use crate::failure::Failure;
use crate::output::Output;
use crate::report::{print_json, print_text};
use anyhow::anyhow;
use cases::Sweep;
use compare::Compared;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Replay many workloads over many drives under several policies, and compare these with one.
///
/// Fails if a goal of the file is not reached. experiments/README.md tells what is in such a file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The sweep
    #[arg(value_name = "SWEEP.toml")]
    file: PathBuf,
    /// Only so many of its cases, drawn at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// Decides which cases are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only cases whose names contain this word
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Name the cases and leave
    #[arg(long)]
    list: bool,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// Write the JSON document to a file beside the tables
    #[arg(long, value_name = "F")]
    details: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// A file that makes no sense, workloads that cannot be read, goals that are not reached.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let traces = std::env::var_os("TANDEM_TRACES");
    let mut sweep = Sweep::read(&arguments.file, traces.as_deref())?;
    if let Some(word) = &arguments.only {
        sweep.cases.retain(|case| case.name.contains(word));
    }
    if let Some(count) = arguments.sample {
        sweep.cases = cases::sampled(sweep.cases, count as usize, arguments.seed);
    }
    if sweep.cases.is_empty() {
        return Err(Failure::usage(nothing_left(arguments, &sweep)));
    }
    if arguments.list {
        let names: Vec<&str> = sweep.cases.iter().map(|case| case.name.as_str()).collect();
        print_text(&(names.join("\n") + "\n"))?;
        return Ok(());
    }
    let details = arguments.details.as_ref();
    let details = details.map(|path| Output::check("--details", path)).transpose()?;
    let fixed =
        told::LATENCIES.into_iter().chain([told::SSD_BYTES, told::SSD_USER_BYTES, told::HDD_BYTES]);
    let mut fields: BTreeSet<String> = fixed.map(str::to_owned).collect();
    fields.extend(sweep.goals.iter().flat_map(|goal| goal.fields.iter().cloned()));
    let results = work::run_all(&sweep, &fields)?;
    let labels = sweep.policies.iter().map(|policy| policy.label.clone()).collect();
    let cases = sweep.cases.iter().map(|case| case.name.clone()).collect();
    let compared = oracle::add_all(&sweep, Compared::new(labels, cases, results))?;
    let document = told::Document::new(&sweep, &compared);
    if let Some(file) = details {
        file.write(&serde_json::to_string_pretty(&document)?)?;
    }
    if arguments.json {
        print_json(&document)?;
    } else {
        print_text(&document.text())?;
    }
    if document.holds() {
        return Ok(());
    }
    let short = document.goals.iter().filter(|goal| !goal.holds).count();
    let goals = document.goals.len();
    Err(Failure::Failed(anyhow!("{short} of {goals} goals are not reached, or a run failed")))
}

fn nothing_left(arguments: &Arguments, sweep: &Sweep) -> String {
    let why = match (&arguments.only, sweep.skipped.first()) {
        (Some(word), _) => format!("--only: no case's name contains {word:?}; --list names them"),
        (None, Some(why)) => why.clone(),
        (None, None) => "it has no cases".to_owned(),
    };
    format!("{}: {why}", arguments.file.display())
}
