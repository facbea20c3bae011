//! Is FLUSH true, through the real program, and would we see it if it were not?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::path::Path;
use support::sigkill::{self, Outcome, Plan, over_nbd};

fn run(rounds: u64, seed: u64, ignore_flushes: bool) -> Outcome {
    let tandem = Path::new(env!("CARGO_BIN_EXE_tandem")).to_owned();
    let plan = Plan { tandem, rounds, seed, ignore_flushes };
    let (outcome, took) = sigkill::timed(&plan, over_nbd).unwrap();
    println!("{}", sigkill::describe(&outcome, took));
    outcome
}

/// A few of the rounds that `examples/sigkill.rs` runs a hundred of.
#[test]
fn what_was_flushed_survives_sigkill() {
    let outcome = run(12, 5, false);
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    assert_eq!(outcome.rounds, 12);
    // it was a test: both drives had something to lose, and something was lost that might be
    assert!(outcome.redirected > 100 && outcome.in_recovery > 0 && outcome.flushes > 100);
    assert!(outcome.flushed > 0 && outcome.kept > 0 && outcome.gone > 0, "{outcome:?}");
}

#[test]
fn drives_that_ignore_flushes_are_found_out() {
    let outcome = run(10, 6, true);
    assert!(!outcome.lost.is_empty(), "{outcome:?}");
}
