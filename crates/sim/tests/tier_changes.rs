//! May a volume's tier be changed while it is served?
//!
//! Source: acceptance of tiers and caches, "Build" 3: changing a volume's policy live is safe and drains
//! what it must. Every tier becomes every other one, in the midst of requests, with power cuts.

use tandem_drives::media::CutMode;
use tandem_engine::settings::Registry as _;
use tandem_engine::tier::Tiers;
use tandem_engine::{ConfigError, TierConfig};
use tandem_sim::pool::{SwarmConfig, VOLUME};
use tandem_sim::swarm::Run;

/// Events between two changes.
const EVENTS: u64 = 60;

fn named(name: &str) -> TierConfig {
    TierConfig::named(name).with("extent", 16 << 10).with("size", 256 << 10)
}

#[test]
fn every_tier_becomes_every_other_one() {
    let names = Tiers::names();
    let mut moved = (0, 0);
    for (seed, step) in [(1, 1), (2, 4), (3, 7), (5, 2)] {
        let mut config = SwarmConfig::tiered(seed, "mios-d", 1_200);
        config.tier = named(names[seed as usize]);
        let mut run = Run::new(config).expect("a pool");
        let (mut which, mut crashes) = (0usize, 0u64);
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            if run.events.is_multiple_of(EVENTS) {
                which += step;
                let tier = named(names[which % names.len()]);
                run.sim.engine.set_tier(VOLUME, tier).expect("a tier that these drives allow");
            }
            if run.events.is_multiple_of(31) {
                let mut fork = run.clone();
                fork.crash(CutMode::RandomSubset, None)
                    .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
                crashes += 1;
            }
        }
        let tiers = run.sim.engine.stats().tiers;
        moved =
            (moved.0 + tiers.came_blocks, moved.1 + tiers.dropped_blocks + tiers.demoted_blocks);
        run.finish().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert!(which > names.len() && crashes > 30, "{which} changes, {crashes} crashes");
    }
    assert!(moved.0 > 0 && moved.1 > 0, "{moved:?}");
}

#[test]
fn a_tier_that_cannot_be_is_refused_and_nothing_changes() {
    let mut config = SwarmConfig::tiered(3, "ssd-first", 50);
    config.tier = named("cold-dst");
    let mut run = Run::new(config).expect("a pool");
    while run.step().expect("no failure") {}
    let room = run.sim.engine.tier_room();
    let unknown = run.sim.engine.set_tier(VOLUME, TierConfig::named("cold-dts"));
    assert!(matches!(unknown, Err(ConfigError::Unknown { what: "tier", .. })), "{unknown:?}");
    let tiny = TierConfig::named("hot-dst").with("size", 64 << 10).with("extent", 4 << 20);
    let tiny = run.sim.engine.set_tier(VOLUME, tiny);
    assert!(matches!(tiny, Err(ConfigError::Tier { .. })), "{tiny:?}");
    let nobody = run.sim.engine.set_tier(tandem_block::ObjectId(77), named("hot-dst"));
    assert!(matches!(nobody, Err(ConfigError::Volume { .. })), "{nobody:?}");
    assert_eq!(run.sim.engine.tier_room(), room);
    run.finish().expect("nothing is lost");
}
