//! Do the seams hold? A tier and an order of service that no registry knows, two SSDs and three
//! hard drives, a workload and crashes.
//!
//! Source: design decision 5 and "Tests". The engine takes `Intention::Both` as "on an SSD" until it
//! keeps two copies; what a tier answers must never cost a byte.

use tandem_engine::Engine;
use tandem_engine::device::Class;
use tandem_engine::qos::{Qos, QueueView};
use tandem_engine::tier::{Intention, Tier, TierView};
use tandem_sim::World;
use tandem_sim::campaign::Campaign;
use tandem_sim::swarm::{Run, SwarmConfig, VOLUME};

/// Every third block range on an SSD, in a log, on both.
#[derive(Clone, Copy, Debug)]
struct InTurn;

impl Tier for InTurn {
    fn intend(&self, view: &TierView) -> Intention {
        [Intention::Ssd, Intention::Hdd, Intention::Both][view.logical as usize / 16 % 3]
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}

/// Background first, then writes, then reads: the opposite of sense.
#[derive(Clone, Copy, Debug)]
struct Backwards;

impl Qos for Backwards {
    fn next(&self, view: &QueueView) -> Option<Class> {
        let background = view.background.map(|_| Class::Background);
        let write = view.write.map(|_| Class::Write);
        background.or(write).or(view.read.map(|_| Class::Read))
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}

#[test]
fn strangers_in_the_seams_lose_nothing() {
    for (seed, policy) in [(1, "ssd-first"), (2, "mios-d"), (3, "mios-e"), (4, "ssd-first")] {
        let mut config = SwarmConfig::tiny(seed, policy, 120);
        config.drives = (2, 3);
        let engine = Engine::new(config.engine(true))
            .expect("a valid configuration")
            .with_tier(VOLUME, Box::new(InTurn))
            .with_qos(Box::new(Backwards));
        let drives = config.drives();
        let run = Run::over(config, World::new(engine, drives, true)).expect("a pool");
        let campaign = Campaign { stride: 11, recovery_stride: 20, lives: 2, more_requests: 40 };
        let crashes = campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        assert!(crashes > 100, "{crashes}");
    }
}
