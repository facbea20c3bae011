//! Can it lose data, if one looks for longer? Runs the arms of the swarm: a share of seeds, or all of
//! them for as long as one likes; and replays one run.
//!
//! Exit 0: nothing was violated; 1: something was, or a share met less than it must; 2: misuse.

mod campaign;
mod crew;
mod jobs;
mod share;
mod worker;

use std::process::ExitCode;
use std::str::FromStr;
use tandem_sim::arms::{self, Arm, Case, job};

const USAGE: &str = "\
usage: swarm share [--first N] [--seeds N] [--arm NAME]... [--json]
       swarm campaign [--minutes N] [--seed N] [--arm NAME]... [--mutant NAME]
       swarm replay ARM/POLICY/SEED [requests=N] [without=N,N-N] [points=N-N] [simpler=NAME,...]
       swarm jobs [--job POLICY/TIER/SSDS+HDDS/CLASS]... [--commands N] [--command N]
       swarm arms
";

/// What the command line asks for.
struct Words {
    rest: std::vec::IntoIter<String>,
}

impl Words {
    /// The value of a flag.
    fn value<T: FromStr>(&mut self, flag: &str) -> Result<T, String> {
        let value = self.rest.next().ok_or_else(|| format!("{flag} wants a value"))?;
        value.parse().map_err(|_| format!("{flag} wants a number, not {value:?}"))
    }

    /// The arm that a flag names.
    fn arm(&mut self, flag: &str) -> Result<&'static Arm, String> {
        let name: String = self.value(flag)?;
        let known = || arms::all().map(|arm| arm.name).collect::<Vec<_>>().join(", ");
        arms::find(&name).ok_or_else(|| format!("there is no arm {name}; there are {}", known()))
    }
}

/// No arm named means every one.
fn or_all(named: Vec<&'static Arm>) -> Vec<&'static Arm> {
    if named.is_empty() { arms::all().collect() } else { named }
}

fn share(words: &mut Words) -> Result<bool, String> {
    let mut plan = share::Plan { first: 0, seeds: 6, arms: Vec::new(), json: false };
    while let Some(word) = words.rest.next() {
        match word.as_str() {
            "--first" => plan.first = words.value(&word)?,
            "--seeds" => plan.seeds = words.value(&word)?,
            "--arm" => plan.arms.push(words.arm(&word)?),
            "--json" => plan.json = true,
            other => return Err(format!("there is no {other}\n{USAGE}")),
        }
    }
    plan.arms = or_all(plan.arms);
    share::run(&plan).map_err(|error| error.to_string())
}

fn campaign(words: &mut Words) -> Result<bool, String> {
    let (seed, arms) = (campaign::any_seed(), Vec::new());
    let mut plan = campaign::Plan { minutes: 10, seed, arms, mutant: None };
    while let Some(word) = words.rest.next() {
        match word.as_str() {
            "--minutes" => plan.minutes = words.value(&word)?,
            "--seed" => plan.seed = words.value(&word)?,
            "--arm" => plan.arms.push(words.arm(&word)?),
            "--mutant" => {
                let name: String = words.value(&word)?;
                plan.mutant = Some(arms::read_mutant(&name).map_err(|error| error.to_string())?);
            }
            other => return Err(format!("there is no {other}\n{USAGE}")),
        }
    }
    plan.arms = or_all(plan.arms);
    campaign::run(&plan).map_err(|error| error.to_string())
}

fn jobs(words: &mut Words) -> Result<bool, String> {
    let mut plan = jobs::Plan { jobs: Vec::new(), commands: job::COMMANDS, only: None };
    while let Some(word) = words.rest.next() {
        match word.as_str() {
            "--job" => {
                let name: String = words.value(&word)?;
                plan.jobs.push(name.parse().map_err(|error: job::NoJob| error.to_string())?);
            }
            "--commands" => plan.commands = words.value(&word)?,
            "--command" => plan.only = Some(words.value(&word)?),
            other => return Err(format!("there is no {other}\n{USAGE}")),
        }
    }
    if plan.jobs.is_empty() {
        plan.jobs = job::Job::all();
    }
    Ok(jobs::run(&plan))
}

fn replay(words: &mut Words) -> Result<bool, String> {
    let line: Vec<String> = words.rest.by_ref().collect();
    let case = line.join(" ").parse::<Case>().map_err(|error| error.to_string())?;
    match case.run() {
        Ok(met) => {
            println!("{case}: nothing was violated; {met}");
            Ok(true)
        }
        Err(failure) => {
            println!("{case}: {}: {failure}", failure.kind());
            Ok(false)
        }
    }
}

fn main() -> ExitCode {
    let mut words = Words { rest: std::env::args().skip(1).collect::<Vec<_>>().into_iter() };
    let result = match words.rest.next().as_deref() {
        Some("share") => share(&mut words),
        Some("campaign") => campaign(&mut words),
        Some("jobs") => jobs(&mut words),
        Some("replay") => replay(&mut words),
        Some("work") => {
            worker::work();
            Ok(true)
        }
        Some("arms") => {
            arms::all().for_each(|arm| println!("{:<10} {}", arm.name, arm.what));
            Ok(true)
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error.trim_end());
            ExitCode::from(2)
        }
    }
}
