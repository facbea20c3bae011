//! Is FLUSH true, through the real program, and would we see it if it were not?

use crate::support::sigkill::{self, FUSE, JOURNALED, MOUNT, NBD, Outcome, PAIR, Plan, Way};
use std::path::Path;

fn run(way: &Way, rounds: u64, seed: u64, ignore_flushes: bool) -> Outcome {
    let tandem = crate::support::program::program().to_owned();
    let plan = Plan { tandem, rounds, seed, ignore_flushes };
    let (outcome, took) = sigkill::timed(&plan, way).unwrap();
    println!("{}", sigkill::describe(&outcome, took));
    outcome
}

/// A few of the rounds that `examples/sigkill.rs` runs a hundred of.
#[test]
fn what_was_flushed_survives_sigkill() {
    let outcome = run(&NBD, 12, 5, false);
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    assert_eq!(outcome.rounds, 12);
    // it was a test: both drives had something to lose, and something was lost that might be
    assert!(outcome.redirected > 100 && outcome.in_recovery > 0 && outcome.flushes > 100);
    assert!(outcome.flushed > 0 && outcome.kept > 0 && outcome.gone > 0, "{outcome:?}");
}

/// The same over a mirrored pair; and with lying drives it is seen there too.
#[test]
fn what_was_flushed_to_a_pair_survives_sigkill() {
    let outcome = run(&PAIR, 8, 9, false);
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    assert!(outcome.rounds == 8 && outcome.flushes > 50 && outcome.flushed > 0, "{outcome:?}");
    let outcome = run(&PAIR, 10, 10, true);
    assert!(!outcome.lost.is_empty(), "{outcome:?}");
}

/// The same with a journal.
#[test]
fn what_was_flushed_to_a_pair_with_a_journal_survives_sigkill() {
    let outcome = run(&JOURNALED, 8, 11, false);
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    assert!(outcome.rounds == 8 && outcome.flushes > 50 && outcome.flushed > 0, "{outcome:?}");
}

#[test]
fn drives_that_ignore_flushes_are_found_out() {
    let outcome = run(&NBD, 10, 6, true);
    assert!(!outcome.lost.is_empty(), "{outcome:?}");
}

#[test]
fn what_was_synced_through_the_file_survives_sigkill() {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse here, so crashes under files are NOT tested");
        return;
    }
    for way in [FUSE, MOUNT] {
        let outcome = run(&way, 5, 7, false);
        assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
        assert!(outcome.rounds == 5 && outcome.flushes > 50 && outcome.flushed > 0, "{outcome:?}");
        let outcome = run(&way, 8, 8, true);
        assert!(!outcome.lost.is_empty(), "{outcome:?}");
    }
}
