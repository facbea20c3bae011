//! Can it lose data? A power cut at every event of small workloads.

use tandem_engine::steer::POLICIES;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::share::{ARMS, Tally};
use tandem_sim::swarm::Run;

#[test]
fn small_workloads_run_clean() {
    for policy in POLICIES.iter().map(|entry| entry.name) {
        for seed in 0..20 {
            let mut run = Run::new(SwarmConfig::tiny(seed, policy, 300)).unwrap();
            run.finish().unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        }
    }
}

#[test]
fn no_power_cut_breaks_the_promise() {
    let campaign =
        Campaign { window: ALWAYS, stride: 1, recovery_stride: 50, lives: 1, more_requests: 1 };
    let mut met = Coverage::default();
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        for seed in 100..104 {
            let run = Run::new(SwarmConfig::tiny(seed, policy, 60)).expect("a pool");
            met += campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        }
    }
    assert!(met.get(Met::Crashes) > 5000, "{met}");
}

/// The line that a share prints can say "too little".
#[test]
fn a_share_that_met_nothing_fails() {
    for arm in ARMS {
        assert!(!arm.missing(&Tally::default(), 1).is_empty(), "{}", arm.name);
    }
}
