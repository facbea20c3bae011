//! Is anything that was fsynced lost when the server of a mount is killed, again and again?
//!
//! `synced ROUNDS [--ignore-flushes] [--seed N] [--tandem PATH]`: rounds of writing files, SIGKILL,
//! recovery and comparing over emulated drives. Exit 0: nothing was lost; 1: something was; 2: it
//! could not be tried. With `--ignore-flushes` the drives lie, and the loss must be seen.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use support::synced::{self, Plan};

fn plan() -> Result<Plan, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // examples lie in a folder beside the program
    let beside = program.parent().and_then(|examples| examples.parent());
    let tandem = beside.map(|folder| folder.join("tandem")).unwrap_or_default();
    let mut plan = Plan { tandem, rounds: 0, seed: 1, ignore_flushes: false };
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().ok_or("how many ROUNDS?")?;
    plan.rounds = rounds.parse().map_err(|error| format!("ROUNDS: {error}"))?;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--ignore-flushes" => plan.ignore_flushes = true,
            "--seed" => plan.seed = value()?.parse().map_err(|error| format!("--seed: {error}"))?,
            "--tandem" => plan.tandem = PathBuf::from(value()?),
            other => return Err(format!("what is {other}?")),
        }
    }
    if !plan.tandem.exists() {
        return Err(format!("{} is not there: build it, or say --tandem", plan.tandem.display()));
    }
    Ok(plan)
}

fn main() -> ExitCode {
    match plan().and_then(|plan| synced::run(&plan)) {
        Ok(outcome) => {
            print!("{}", synced::describe(&outcome));
            ExitCode::from(u8::from(!outcome.lost.is_empty()))
        }
        Err(error) => {
            eprintln!("synced: {error}");
            ExitCode::from(2)
        }
    }
}
