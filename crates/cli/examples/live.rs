//! Does a real server lose, mix up or hang anything, for as long as one likes?
//!
//! `live [--minutes N | --seconds N] [--seed N] [--runs N] [--run-seconds N] [--kind NAME]
//! [--behind NAME] [--files yes|no] [--life-seconds N] [--ignore-flushes] [--tandem PATH] [--place DIR]`. The
//! first server of each run lives for `--life-seconds`, and its memory is watched. Exit 0: nothing was wrong;
//! 1: something was; 2: it could not be tried.

#[path = "../tests/support/live/mod.rs"]
mod live;

use live::lives::{self, Outcome, Plan};
use live::pools::{Behind, Kind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Each run of so many has a long life, to see whether the server's memory grows.
const LONG_EVERY: u64 = 8;
const LONG_LIFE: Duration = Duration::from_secs(240);

/// What the command line asks for.
struct Asked {
    plan: Plan,
    seed: u64,
    /// For how long runs are begun, and how many at most.
    time: Duration,
    runs: u64,
}

fn value<T: FromStr>(word: &str, rest: &mut impl Iterator<Item = String>) -> Result<T, String> {
    let value = rest.next().ok_or_else(|| format!("{word} wants a value"))?;
    value.parse().map_err(|_| format!("{word} does not take {value:?}"))
}

fn asked() -> Result<Asked, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // examples lie in a folder beside the program
    let beside = program.parent().and_then(|examples| examples.parent());
    let mut plan = Plan {
        tandem: beside.map(|folder| folder.join("tandem")).unwrap_or_default(),
        place: std::env::temp_dir(),
        run: Duration::from_secs(10),
        ignore_flushes: false,
        rolls_back: false,
        kind: None,
        behind: None,
        files: None,
        long_life: None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (mut seed, mut time, mut runs) = (now.as_secs(), Duration::from_secs(60), u64::MAX);
    let mut rest = std::env::args().skip(1);
    while let Some(word) = rest.next() {
        let word = word.as_str();
        match word {
            "--minutes" => time = Duration::from_secs(60 * value::<u64>(word, &mut rest)?),
            "--seconds" => time = Duration::from_secs(value(word, &mut rest)?),
            "--seed" => seed = value(word, &mut rest)?,
            "--runs" => runs = value(word, &mut rest)?,
            "--run-seconds" => plan.run = Duration::from_secs(value(word, &mut rest)?),
            "--life-seconds" => {
                plan.long_life = Some(Duration::from_secs(value(word, &mut rest)?));
            }
            "--tandem" => plan.tandem = value(word, &mut rest)?,
            "--place" => plan.place = value(word, &mut rest)?,
            "--files" => {
                plan.files = Some(match value::<String>(word, &mut rest)?.as_str() {
                    "yes" => true,
                    "no" => false,
                    other => return Err(format!("{other} is neither yes nor no")),
                });
            }
            "--ignore-flushes" => plan.ignore_flushes = true,
            "--kind" => {
                plan.kind = Some(match value::<String>(word, &mut rest)?.as_str() {
                    "plain" => Kind::Plain,
                    "many" => Kind::Many,
                    "pair" => Kind::Pair,
                    other => return Err(format!("{other} is none of plain, many and pair")),
                });
            }
            "--behind" => {
                plan.behind = Some(match value::<String>(word, &mut rest)?.as_str() {
                    "files" => Behind::Files,
                    "emulated" => Behind::Emulated,
                    "full" => Behind::Full,
                    other => return Err(format!("{other} is none of files, emulated and full")),
                });
            }
            other => return Err(format!("there is no {other}")),
        }
    }
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    (plan.tandem, plan.place) = (absolute(plan.tandem), absolute(plan.place));
    if !plan.tandem.exists() {
        return Err(format!("{} is not there: build it, or say --tandem", plan.tandem.display()));
    }
    Ok(Asked { plan, seed, time, runs })
}

fn run() -> Result<bool, String> {
    let Asked { plan, seed, time, runs } = asked()?;
    let began = Instant::now();
    let mut all = Outcome::default();
    println!("runs of {} s from seed {seed} on", plan.run.as_secs());
    for seed in seed..seed.saturating_add(runs) {
        // the first one always runs
        if seed > 0 && all.runs > 0 && began.elapsed() >= time {
            break;
        }
        let is_long = all.runs % LONG_EVERY == LONG_EVERY - 1;
        let long_life = plan.long_life.or(is_long.then_some(LONG_LIFE));
        let mut outcome = lives::run(&Plan { long_life, ..plan.clone() }, seed)?;
        for report in outcome.reports.drain(..) {
            println!("{report}");
        }
        let requests = outcome.requests;
        println!(
            "seed {seed}: {} lives, {} writes, {} reads, {} lost, {} hung",
            outcome.lives, requests.writes, requests.reads, outcome.lost, outcome.hung
        );
        all.add(outcome);
    }
    print!("\n{}", live::table::table(&all, began.elapsed()));
    Ok(all.lost == 0 && all.hung == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("live: {error}");
            ExitCode::from(2)
        }
    }
}
