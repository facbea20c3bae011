//! Can a mirrored pair lose data? `pair_crashes FIRST_SEED SEEDS [MODE]`: a power cut at every event of 200
//! requests, and sampled ones of 2,000; the death of either leg at every event; power cuts and deaths
//! while a new leg is copied to; power cuts after a death, with the dead leg back and without it; with a
//! journal also power cuts together with the death of either leg or of the journal. Under every durability mode of a pair and several policies. Exit 1 if the promise
//! was broken, with the seed.

use rayon::prelude::*;
use std::process::ExitCode;
use tandem_engine::mirror::Answer;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::Met;
use tandem_sim::leg_deaths::{self, AtOnce, Returns};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};

const EVERY: Campaign =
    Campaign { window: ALWAYS, stride: 1, recovery_stride: 150, lives: 1, more_requests: 60 };
const SAMPLED: Campaign =
    Campaign { window: ALWAYS, stride: 151, recovery_stride: 20, lives: 3, more_requests: 60 };
const POLICIES: [&str; 3] = ["ssd-first", "mios-d", "ect"];

/// How a pair keeps what it promises.
#[derive(Clone, Copy)]
enum Mode {
    Alone(Answer),
    /// A journal on a third drive; answered in every way.
    Journal,
    /// … on a hard drive, in its fast windows.
    HddJournal,
}

const MODES: [(&str, Mode); 4] = [
    ("written", Mode::Alone(Answer::Written)),
    ("cached", Mode::Alone(Answer::Cached)),
    ("journal", Mode::Journal),
    ("hdd-journal", Mode::HddJournal),
];

fn config(seed: u64, mode: Mode, requests: u64) -> SwarmConfig {
    let policy = POLICIES[(seed % 3) as usize];
    match mode {
        Mode::Alone(answer) => {
            let mut config = SwarmConfig::paired(seed, policy, requests);
            config.pair.as_mut().expect("it is a pair").answer = answer;
            config
        }
        Mode::Journal | Mode::HddJournal => {
            let answers = [Answer::Written, Answer::Cached, Answer::Journaled];
            let mut config = match mode {
                Mode::HddJournal => SwarmConfig::journaled_on_hdd(seed, policy, requests),
                _ => SwarmConfig::journaled(seed, policy, requests),
            };
            let pair = config.pair.as_mut().expect("it is a pair");
            // not in step with the policies
            pair.answer = answers[(seed / 3 % 3) as usize];
            config
        }
    }
}

/// Power cuts together with deaths: after every event of 200 requests, and sampled of 2,000.
fn both(seed: u64, mode: Mode) -> Result<AtOnce, Failure> {
    let mut found = AtOnce::default();
    if let Mode::Alone(_) = mode {
        return Ok(found);
    }
    found += leg_deaths::at_once(Run::new(config(seed, mode, 200))?, 1)?;
    found += leg_deaths::at_once(Run::new(config(seed, mode, 2_000))?, 151)?;
    Ok(found)
}

/// Power cuts after a death, and the dead leg is back, or is not. With a journal the survivor is whole
/// wherever the journal is, and that is tried by `both`.
fn back(seed: u64, mode: Mode) -> Result<Returns, Failure> {
    let mut found = Returns::default();
    if let Mode::Alone(_) = mode {
        found += leg_deaths::returns(Run::new(config(seed, mode, 200))?, 2)?;
        let run = Run::new(config(seed, mode, 100))?;
        found += leg_deaths::death_of_the_source(run, (seed % 2) as u8, 3)?;
    }
    Ok(found)
}

/// What one seed met.
#[derive(Default)]
struct Found {
    /// Power cuts of 200 requests, of 2,000, deaths, cuts after them, cuts while copying.
    counts: [u64; 5],
    together: AtOnce,
    returns: Returns,
}

fn one(seed: u64, mode: Mode) -> Result<Found, Failure> {
    let every = EVERY.run(Run::new(config(seed, mode, 200))?)?;
    let sampled = SAMPLED.run(Run::new(config(seed, mode, 2_000))?)?;
    let deaths = leg_deaths::deaths(config(seed, mode, 200))?;
    let copying = leg_deaths::replacement(config(seed, mode, 100), (seed % 2) as u8, 3)?;
    let (every, sampled) = (every.get(Met::Crashes), sampled.get(Met::Crashes));
    Ok(Found {
        counts: [every, sampled, deaths.deaths, deaths.cuts, copying],
        together: both(seed, mode)?,
        returns: back(seed, mode)?,
    })
}

fn told(found: &Found) -> String {
    let AtOnce { cuts, resyncing, journals } = found.together;
    if cuts == 0 {
        let Returns { returns, refused, copying, .. } = found.returns;
        return format!(
            ", {returns} power cuts after which a dead leg was back ({copying} of them the source of a \
             copy) or was not ({refused} survivors refused)"
        );
    }
    format!(
        ", {cuts} together with the death of a leg, {resyncing} more while the legs were made equal, \
         {journals} deaths of the journal"
    )
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(seeds)) = (number(0), number(1)) else {
        eprintln!("usage: pair_crashes FIRST_SEED SEEDS [MODE]");
        return ExitCode::from(2);
    };
    let mut sound = true;
    let only = words.get(2);
    for (name, mode) in MODES.into_iter().filter(|(name, _)| only.is_none_or(|o| o == name)) {
        let all: Vec<u64> = (first..first + seeds).collect();
        let results: Vec<_> = all.par_iter().map(|&seed| one(seed, mode)).collect();
        let mut sum = Found::default();
        for result in results {
            match result {
                Ok(found) => {
                    let counts = sum.counts.iter_mut().zip(found.counts);
                    counts.for_each(|(sum, count)| *sum += count);
                    sum.together += found.together;
                    sum.returns += found.returns;
                }
                Err(failure) => {
                    println!("FAILED {name}: {failure}");
                    sound = false;
                }
            }
        }
        let [every, sampled, deaths, cuts, copying] = sum.counts;
        println!(
            "{name}: {every} power cuts at every event of 200 requests, {sampled} sampled of 2,000, \
             {deaths} deaths at every event, {cuts} power cuts after them, {copying} while a leg is \
             copied to{}",
            told(&sum)
        );
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
