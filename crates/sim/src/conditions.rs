//! Under which conditions does a pool of the swarm serve?
//!
//! Three of four seeds have hot spots, or drives that answer a few commands late, or both, whatever the arm:
//! a command that takes long is overtaken by commits, by checkpoints and by the reuse of its slot, and few
//! blocks that are written all the time are freed and written again meanwhile.

use crate::erratic::Tails;
use crate::pool::SwarmConfig;
use tandem_block::{KIB, Rng};

impl SwarmConfig {
    /// The same pool under conditions that its seed draws.
    #[must_use]
    pub fn under_conditions(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0xC0_4D);
        let (is_hot, is_late) =
            [(false, false), (true, false), (false, true), (true, true)][rng.below(4) as usize];
        if is_hot {
            self.shape.hot_ppm = rng.between(600_000, 900_000);
        }
        if is_late {
            self.tails = (late(&mut rng), late(&mut rng));
        }
        self
    }

    /// As `tiny`, and an SSD stalls now and then. Every other seed's redirected writes all follow to an SSD.
    pub fn late(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.shape.depth = 8;
        config.shape.length_bytes_max = 32 * KIB;
        config.tails.0 = Tails { chance_ppm: 150_000, latency_ns_max: 50_000_000 };
        // now and then it is the log that comes second
        config.tails.1 = Tails { chance_ppm: 100_000, latency_ns_max: 50_000_000 };
        config
    }
}

/// Between one command in ten thousand and one in a hundred takes up to so long: what a few hundred
/// commands take, or seconds.
fn late(rng: &mut Rng) -> Tails {
    Tails {
        chance_ppm: [0, 1_000, 10_000][rng.below(3) as usize],
        latency_ns_max: [5_000_000, 50_000_000, 3_000_000_000][rng.below(3) as usize],
    }
}
