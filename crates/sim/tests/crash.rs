//! Can it lose data? A power cut at every event of small workloads.

use tandem_engine::steer::POLICIES;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::SwarmConfig;
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

/// Writes that are redirected only because the SSDs' budget is spent are as safe as others.
#[test]
fn no_power_cut_breaks_the_promise_where_ssds_have_a_budget() {
    let campaign =
        Campaign { window: ALWAYS, stride: 3, recovery_stride: 50, lives: 1, more_requests: 20 };
    let met = |budget: Option<u64>| {
        let mut met = Coverage::default();
        for seed in 100..104 {
            let mut config = SwarmConfig::logged(seed, "mios-d", 120);
            config.shape.depth = 1;
            config.tuning.ssd_write_budget_bytes = budget;
            let run = Run::new(config).expect("a pool");
            met += campaign.run(run).unwrap_or_else(|failure| panic!("{budget:?}: {failure}"));
        }
        met
    };
    let (free, bound) = (met(None), met(Some(64 << 10)));
    let redirected = |met: &Coverage| met.get(Met::Redirected);
    assert!(redirected(&bound) > 2 * redirected(&free), "{free}; {bound}");
    assert!(bound.get(Met::Crashes) > 1_000, "{bound}");
}
