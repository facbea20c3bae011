//! Can it lose data, if one looks for longer? `swarm FIRST_SEED SEEDS [ARM]` runs these seeds of
//! every arm (or of one) under every policy and says what was met. Exit 1 if the promise was broken,
//! with the seed, or if less was met than a share must meet.

use rayon::prelude::*;
use std::process::ExitCode;
use tandem_sim::arms::{self, Arm, Case, Tally};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(seeds)) = (number(0), number(1)) else {
        eprintln!("usage: swarm FIRST_SEED SEEDS [ARM]");
        return ExitCode::from(2);
    };
    let only = words.get(2);
    let arms: Vec<&'static Arm> =
        arms::all().filter(|arm| only.is_none_or(|name| name == arm.name)).collect();
    if arms.is_empty() {
        let known: Vec<&str> = arms::all().map(|arm| arm.name).collect();
        eprintln!("there is no such arm; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    let mut sound = true;
    for arm in arms {
        sound &= run(arm, first, seeds);
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All seeds of an arm, on all cores; what is printed hangs on the seeds alone.
fn run(arm: &'static Arm, first: u64, seeds: u64) -> bool {
    let began = std::time::Instant::now();
    let jobs: Vec<(u64, &'static str)> = (first..first + seeds)
        .flat_map(|seed| arm.policies(seed).map(move |policy| (seed, policy)))
        .collect();
    let run = |(seed, policy): &(u64, &'static str)| Case::new(arm, policy, *seed).run();
    let results: Vec<_> = jobs.par_iter().map(run).collect();
    let mut tally = Tally::default();
    let mut failures = 0;
    for ((_, policy), result) in jobs.iter().zip(results) {
        match result {
            Ok(met) => arm.count(&mut tally, policy, met),
            Err(failure) => {
                println!("FAILED {} {policy}: {failure}", arm.name);
                failures += 1;
            }
        }
    }
    println!("{} ({}), {seeds} seeds: {}", arm.name, arm.what, tally.total());
    eprintln!("{}: {} s", arm.name, began.elapsed().as_secs());
    let missing = if failures == 0 { arm.missing(&tally, seeds) } else { Vec::new() };
    for text in &missing {
        println!("TOO LITTLE {}: {text}", arm.name);
    }
    failures == 0 && missing.is_empty()
}
