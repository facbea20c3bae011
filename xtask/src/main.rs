//! Which repository task shall run? `cargo xtask test` runs everything that must hold.

use std::process::ExitCode;
use xtask::{accept, bench, fuzz, swarm, test, tidy};

const USAGE: &str = "\
usage: cargo xtask VERB

  test [PART...]     everything that must hold; with names, only those parts
  tidy [--lower]     the rules of the house that no compiler checks; --lower writes counts that have fallen
  swarm [--first N] [--seeds N] [--arm NAME]...
                     a search for lost data: these seeds of random pools, loads and power cuts
  campaign [--minutes N] [--seed N] [--arm NAME]...
                     the same for as long as one likes; what fails is made smaller
  campaign --replay RUN
                     one run, as the campaign has printed it
  campaign --arm jobs [--job POLICY/TIER/SSDS+HDDS/CLASS] [--commands N] [--command N]
                     every policy, tier and placement, with each command of a job failing once
  campaign --arm live [--minutes N] [--seed N] [--runs N] [--run-seconds N] [--life-seconds N]
           [--kind plain|many|pair] [--behind files|emulated|full] [--files yes|no]
                     a real server, used, administered and killed for as long as one likes
  fuzz [TARGET...] [--seconds N] [--seed N] [--input FILE] [--list]
                     every decoder of what others wrote, tried with changed inputs
  bench [NAME...]    speed, as ratios and rates; slow
  peers              the page that puts Tandem beside the kernel's caches, docs/PEERS.md;
                     needs TANDEM_TRACES
  accept spine|steering|ianus|loris|trust|house|capacity|destage [N...]
                     what a milestone promises, line by line; spine needs TANDEM_TRACES, and without it
                     ianus skips what asks for traces
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rest = words.get(1..).unwrap_or_default();
    let result = match words.first().map(String::as_str) {
        Some("test") => test::run(rest),
        Some("tidy") => tidy::run(rest),
        Some("swarm") => swarm::run(rest),
        Some("campaign") => swarm::campaign(rest),
        Some("fuzz") => fuzz::run(rest),
        Some("bench") => bench::run(rest),
        Some("accept") => accept::run(rest),
        Some("peers") => accept::peers(rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
