//! Do the seams hold? A tier and an order of service that no registry knows, two SSDs and three
//! hard drives, a workload and crashes.
//!
//! Source: design decision 5 and "Tests". What a tier answers must never cost a byte, and what it
//! wants in two places comes to be there, also if steering took it elsewhere first.

use tandem_engine::Engine;
use tandem_engine::device::Class;
use tandem_engine::qos::{Qos, QueueView};
use tandem_engine::tier::{Intention, Tier, TierView};
use tandem_sim::Simulation;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::Met;
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
        let run = Run::over(config, Simulation::new(engine, drives, true)).expect("a pool");
        let campaign = Campaign {
            window: ALWAYS,
            stride: 11,
            recovery_stride: 20,
            lives: 2,
            more_requests: 40,
        };
        let met = campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
        assert!(met.get(Met::Crashes) > 100, "{met}");
    }
}

/// Everything on an SSD and on a hard drive.
#[derive(Clone, Copy, Debug)]
struct Twice;

impl Tier for Twice {
    fn intend(&self, _: &TierView) -> Intention {
        Intention::Both
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}

#[test]
fn a_tier_that_wants_two_copies_gets_them() {
    for policy in ["ssd-first", "mios-e"] {
        let mut config = SwarmConfig::tiny(5, policy, 300);
        config.drives = (2, 3);
        config.shape.unaligned_ppm = 0;
        config.shape.footprint_bytes = 1 << 20;
        let engine = Engine::new(config.engine(true))
            .expect("a valid configuration")
            .with_tier(VOLUME, Box::new(Twice));
        let drives = config.drives();
        let mut run = Run::over(config, Simulation::new(engine, drives, true)).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("{policy}: {failure}")) {}
        while run.sim.step() {}
        let population = run.sim.engine.map().population();
        let stats = run.sim.engine.stats();
        assert!(population.clean_ssd > 0, "{policy}: {population:?}");
        let single = (population.dirty_ssd, population.in_log, population.fragmented);
        assert_eq!(single, (0, 0, 0), "{policy}: every block is in two places");
        assert!(stats.copies_made >= population.clean_ssd, "{policy}: {stats:?}");
        if policy == "mios-e" {
            assert!(stats.redirected.0 > 0, "{policy}: some were detoured first");
        }
        run.finish().unwrap_or_else(|failure| panic!("{policy}: {failure}"));
    }
}
