//! Is anything lost when the server is killed, again and again?
//!
//! `sigkill ROUNDS [FRONT] [--ignore-flushes] [--seed N] [--tandem PATH]`: rounds of writing,
//! SIGKILL, recovery and comparing over emulated drives. Exit 0: nothing was lost; 1: something was;
//! 2: it could not be tried. With `--ignore-flushes` the drives lie, and the loss must be seen.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use support::sigkill::{self, Plan};

fn plan() -> Result<(Plan, String), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // examples lie in a folder beside the program
    let beside = program.parent().and_then(|examples| examples.parent());
    let mut plan = Plan {
        tandem: beside.map(|folder| folder.join("tandem")).unwrap_or_default(),
        rounds: 0,
        seed: 1,
        ignore_flushes: false,
    };
    let mut front = "nbd".to_owned();
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().ok_or("how many ROUNDS?")?;
    plan.rounds = rounds.parse().map_err(|error| format!("ROUNDS: {error}"))?;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--ignore-flushes" => plan.ignore_flushes = true,
            "--seed" => plan.seed = value()?.parse().map_err(|error| format!("--seed: {error}"))?,
            "--tandem" => plan.tandem = PathBuf::from(value()?),
            name if !name.starts_with('-') => front = name.to_owned(),
            other => return Err(format!("what is {other}?")),
        }
    }
    if !plan.tandem.exists() {
        return Err(format!("{} is not there: build it, or say --tandem", plan.tandem.display()));
    }
    Ok((plan, front))
}

fn run() -> Result<bool, String> {
    let (plan, front) = plan()?;
    let fronts = sigkill::fronts();
    let way = fronts.get(front.as_str());
    let way = way.ok_or(format!("FRONT is one of {:?}", fronts.keys()))?;
    let (outcome, took) = sigkill::timed(&plan, way)?;
    print!("{front}: {}", sigkill::describe(&outcome, took));
    Ok(outcome.lost.is_empty())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sigkill: {error}");
            ExitCode::from(2)
        }
    }
}
