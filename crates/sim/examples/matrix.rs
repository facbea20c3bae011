//! Do all policies live together? `matrix FIRST_SEED SEEDS [PART]` runs every combination of steering,
//! tier and order of service with these seeds, with power cuts; with PART only those whose names contain it. Exit 1 if the promise was broken.

use rayon::prelude::*;
use std::process::ExitCode;
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::matrix::{combinations, run};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(first), Some(seeds)) = (number(0), number(1)) else {
        eprintln!("usage: matrix FIRST_SEED SEEDS [PART]");
        return ExitCode::from(2);
    };
    let part = words.get(2).map_or("", String::as_str);
    let mut all = combinations();
    all.retain(|combination| combination.to_string().contains(part));
    let jobs: Vec<_> =
        all.iter().flat_map(|c| (first..first + seeds).map(move |seed| (c, seed))).collect();
    let results: Vec<_> = jobs.par_iter().map(|(c, seed)| run(c, *seed)).collect();
    let (mut met, mut violated) = (Coverage::default(), 0u64);
    for ((combination, _), result) in jobs.iter().zip(results) {
        match result {
            Ok(more) => met += more,
            Err(failure) => {
                println!("FAILED {combination}: {failure}");
                violated += 1;
            }
        }
    }
    println!("combinations: {}", all.len());
    println!("violated: {violated}");
    println!("crashes: {}", met.get(Met::Crashes));
    println!("came: {}", met.get(Met::Came));
    println!("left: {}", met.get(Met::Demoted) + met.get(Met::LeftAsCopies));
    println!("redirected: {}", met.get(Met::Redirected));
    if violated == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
