//! What do clients that misbehave do to a good one, and to the server's memory?
//!
//! `attacks [NAME...] [--tandem PATH] [--without-keys] [--list]`: a row of a table for each attack. Exit
//! 0: in all of them the good client keeps half of its rate, and memory its bound; 1: not so; 2: it could
//! not be tried. `--without-keys` leaves out keys of `[serve]` that older programs do not know.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use support::attacks::{ATTACKS, Attack, HEAD, Plan, named, row};

/// What the good client must keep of its rate.
const RATIO: f64 = 0.5;

fn plan() -> Result<(Plan, Vec<&'static Attack>), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // examples lie in a folder beside the program
    let beside = program.parent().and_then(|examples| examples.parent());
    let tandem = beside.map(|folder| folder.join("tandem")).unwrap_or_default();
    let (window, windows) = (Duration::from_millis(500), 12);
    let mut plan = Plan { tandem, keys: true, window, windows };
    let mut chosen = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--tandem" => {
                plan.tandem = PathBuf::from(arguments.next().ok_or("--tandem wants a value")?);
            }
            "--without-keys" => plan.keys = false,
            "--list" => {
                for attack in ATTACKS {
                    println!("{:20} {}", attack.name, attack.what);
                }
            }
            name => chosen.push(named(name).ok_or(format!("there is no attack {name}"))?),
        }
    }
    if !plan.tandem.exists() {
        return Err(format!("{} is not there: build it, or say --tandem", plan.tandem.display()));
    }
    if chosen.is_empty() {
        chosen = ATTACKS.iter().collect();
    }
    Ok((plan, chosen))
}

fn run() -> Result<bool, String> {
    let (plan, chosen) = plan()?;
    println!("{HEAD}");
    let mut holds = true;
    for attack in chosen {
        match attack.run(&plan) {
            Ok(outcome) => {
                println!("{}", row(&outcome));
                holds &= outcome.faults(RATIO).is_empty();
            }
            Err(why) => {
                println!("| {} | - | - | - | - | - | {} |", attack.name, why.replace('\n', " "));
                holds &= why.starts_with("skipped");
            }
        }
    }
    Ok(holds)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("attacks: {error}");
            ExitCode::from(2)
        }
    }
}
