//! Can a mirrored pair lose data? `pair_crashes FIRST_SEED SEEDS`: a power cut at every event of 200
//! requests, and sampled ones of 2,000; the death of either twin at every event; power cuts and deaths
//! while a new twin is copied to. Under every durability mode of a pair and several policies. Exit 1 if
//! the promise was broken, with the seed.

use rayon::prelude::*;
use std::process::ExitCode;
use tandem_engine::mirror::Answer;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::Met;
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};
use tandem_sim::twin_deaths;

const EVERY: Campaign =
    Campaign { window: ALWAYS, stride: 1, recovery_stride: 150, lives: 1, more_requests: 60 };
const SAMPLED: Campaign =
    Campaign { window: ALWAYS, stride: 151, recovery_stride: 20, lives: 3, more_requests: 60 };
const POLICIES: [&str; 3] = ["ssd-first", "mios-d", "ect"];

fn config(seed: u64, answer: Answer, requests: u64) -> SwarmConfig {
    let policy = POLICIES[(seed % 3) as usize];
    let mut config = SwarmConfig::paired(seed, policy, requests);
    config.pair.as_mut().expect("it is a pair").answer = answer;
    config
}

/// Power cuts of 200 requests, of 2,000, deaths, cuts after them, cuts while copying.
fn one(seed: u64, answer: Answer) -> Result<[u64; 5], Failure> {
    let every = EVERY.run(Run::new(config(seed, answer, 200))?)?;
    let sampled = SAMPLED.run(Run::new(config(seed, answer, 2_000))?)?;
    let deaths = twin_deaths::deaths(config(seed, answer, 200))?;
    let copying = twin_deaths::replacement(config(seed, answer, 100), (seed % 2) as u8, 3)?;
    Ok([every.get(Met::Crashes), sampled.get(Met::Crashes), deaths.deaths, deaths.cuts, copying])
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(seeds)) = (number(0), number(1)) else {
        eprintln!("usage: pair_crashes FIRST_SEED SEEDS");
        return ExitCode::from(2);
    };
    let mut sound = true;
    for (name, answer) in [("written", Answer::Written), ("cached", Answer::Cached)] {
        let all: Vec<u64> = (first..first + seeds).collect();
        let results: Vec<_> = all.par_iter().map(|&seed| one(seed, answer)).collect();
        let mut sums = [0u64; 5];
        for result in results {
            match result {
                Ok(counts) => sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
                Err(failure) => {
                    println!("FAILED {name}: {failure}");
                    sound = false;
                }
            }
        }
        let [every, sampled, deaths, cuts, copying] = sums;
        println!(
            "{name}: {every} power cuts at every event of 200 requests, {sampled} sampled of 2,000, \
             {deaths} deaths at every event, {cuts} power cuts after them, {copying} while a twin is \
             copied to"
        );
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
