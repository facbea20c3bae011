//! Can it lose data? A power cut at every event of small workloads.

use tandem_sim::swarm::{Run, SwarmConfig, enumerate};

#[test]
fn small_workloads_run_clean() {
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        for seed in 0..20 {
            let mut run = Run::new(SwarmConfig::tiny(seed, policy, 300)).unwrap();
            run.finish().unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        }
    }
}

#[test]
fn no_power_cut_breaks_the_promise() {
    let mut cuts = 0;
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        for seed in 100..104 {
            cuts += enumerate(&SwarmConfig::tiny(seed, policy, 60), 1, 50)
                .unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        }
    }
    assert!(cuts > 1000, "{cuts}");
}
