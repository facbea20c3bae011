//! Do all policies live together? A share of the matrix of steering, tiers and orders of service.
//!
//! Source: acceptance of tiers and caches, line 5, which runs all of it.

use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::matrix::{Combination, combinations, run};

#[test]
fn a_share_of_the_matrix_loses_nothing() {
    let mut met = Coverage::default();
    for combination in combinations().iter().step_by(7) {
        met += run(combination, 3).unwrap_or_else(|failure| panic!("{combination}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 2_000 && met.get(Met::Came) > 50, "{met}");
}

/// A user waits for both places of a write, its home waits for an older version to settle, and nobody
/// flushed the hard drive for that: on a pool with nothing else to do it never ended.
#[test]
fn who_waits_for_both_places_is_answered_on_an_idle_pool() {
    let all = combinations();
    let is_it =
        |c: &&Combination| c.steer == "even-split" && c.tier.name() == "cache-write-through-all";
    let found = all.iter().find(is_it).expect("it is one of the matrix");
    let combination = Combination { order: "batches", ..found.clone() };
    for seed in [0, 1, 3] {
        if let Err(failure) = run(&combination, seed) {
            panic!("{}", failure.to_string().lines().next().unwrap_or_default());
        }
    }
}
