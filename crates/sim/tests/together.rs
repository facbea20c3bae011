//! Do all policies live together? A share of the matrix of steering, tiers and orders of service.
//!
//! Source: acceptance of tiers and caches, line 5, which runs all of it.

use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::matrix::{combinations, run};

#[test]
fn a_share_of_the_matrix_loses_nothing() {
    let mut met = Coverage::default();
    for combination in combinations().iter().step_by(5) {
        met += run(combination, 3).unwrap_or_else(|failure| panic!("{combination}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 2_000 && met.get(Met::Came) > 50, "{met}");
}
