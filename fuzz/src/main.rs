//! Can a decoder be fooled? Tries every one that reads what others wrote with changed inputs, from a
//! seed, and saves the input that breaks it. `cargo xtask fuzz` runs this.

mod campaign;
mod mutate;
mod seeds;
mod targets;

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use targets::Target;

const USAGE: &str = "\
usage: cargo xtask fuzz [TARGET...] [--seconds N] [--seed N] [--input FILE] [--list]

  --seconds N    for all targets together; default 60
  --seed N       where the changes come from; default 1
  --input FILE   decode this file once, with one target
  --list         the names of all targets
";

/// What to do.
#[derive(Debug)]
struct Arguments {
    targets: Vec<String>,
    seconds: u64,
    seed: u64,
    input: Option<PathBuf>,
    /// Set in the process that decodes: where each input is written before it is tried; the seconds
    /// are milliseconds then.
    child: Option<PathBuf>,
    list: bool,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
        let (targets, input, child) = (Vec::new(), None, None);
        let mut parsed = Arguments { targets, seconds: 60, seed: 1, input, child, list: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} wants a value"));
            match word.as_str() {
                "--seconds" => parsed.seconds = value()?.parse().context("--seconds")?,
                "--seed" => parsed.seed = value()?.parse().context("--seed")?,
                "--input" => parsed.input = Some(value()?.into()),
                "--child" => parsed.child = Some(value()?.into()),
                "--list" => parsed.list = true,
                flag if flag.starts_with('-') => bail!("unknown flag {flag}\n{USAGE}"),
                _ => parsed.targets.push(word),
            }
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if arguments.list {
        targets::all().iter().for_each(|target| println!("{}", target.name));
        return Ok(true);
    }
    let chosen: Vec<Target> = match &arguments.targets[..] {
        [] => targets::all(),
        names => names.iter().map(|name| targets::named(name)).collect::<Result<_>>()?,
    };
    if let Some(path) = &arguments.input {
        let [target] = &chosen[..] else { bail!("--input wants one target\n{USAGE}") };
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        println!("{}: {:?}", target.name, (target.run)(&bytes));
        return Ok(true);
    }
    if let Some(current) = &arguments.child {
        let [target] = &chosen[..] else { bail!("the process that decodes has one target") };
        campaign::child(target, arguments.seconds, arguments.seed, current)?;
        return Ok(true);
    }
    campaigns(&chosen, &arguments)
}

/// One process per core at a time; the seconds are shared out.
fn campaigns(chosen: &[Target], arguments: &Arguments) -> Result<bool> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz");
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    let millis = arguments.seconds * 1000 * workers as u64 / chosen.len() as u64;
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = campaign::run(target, millis, arguments.seed, &folder);
                    results.lock().expect("nobody panics with it").push((target, outcome));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nobody panics with it");
    results.sort_by_key(|(target, _)| chosen.iter().position(|one| one.name == target.name));
    let mut sound = true;
    for (target, outcome) in results {
        let outcome = outcome.with_context(|| format!("trying {}", target.name))?;
        match outcome.failure {
            None => println!("{:<20} {:>9} tries, sound", target.name, outcome.tries),
            Some((what, input)) => {
                sound = false;
                let (name, seed, tries) = (&target.name, arguments.seed, outcome.tries);
                println!("{name:<20} {tries:>9} tries, FAILED: {what}");
                let input = input.canonicalize().unwrap_or(input);
                println!("  again: cargo xtask fuzz {name} --input {}", input.display());
                println!("  seed {seed}, try {tries}");
            }
        }
    }
    Ok(sound)
}
