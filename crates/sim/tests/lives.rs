//! What if it crashes again and again? Chains of lives, with kills, cuts and clean stops.

use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::swarm::{Run, SwarmConfig};

#[test]
fn four_lives_lose_nothing() {
    let mut crashes = 0;
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
        crashes += campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
    }
    assert!(crashes > 1000, "{crashes}");
}
