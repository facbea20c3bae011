//! What if it crashes again and again? Chains of lives, with kills, cuts and clean stops.

use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::swarm::{Run, SwarmConfig};

#[test]
fn four_lives_lose_nothing() {
    let mut met = Coverage::default();
    for seed in 500..512 {
        let policy = ["mios-e", "ssd-first", "mios-d"][(seed % 3) as usize];
        let run = Run::new(SwarmConfig::tiny(seed, policy, 100)).expect("a pool");
        let campaign = Campaign {
            window: ALWAYS,
            stride: 17,
            recovery_stride: 30,
            lives: 4,
            more_requests: 60,
        };
        met += campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 1000, "{met}");
}
