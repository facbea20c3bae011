//! Does a checkpoint that has no room for all that has changed take it in parts, and is nothing lost then?

use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::Run;

#[test]
fn checkpoints_take_parts_and_the_last_one_takes_the_rest() {
    for (small_area, part_leaves, has_parts) in
        [(false, 1 << 17, false), (true, 1 << 17, true), (false, 24, true), (false, 1, true)]
    {
        let mut config = SwarmConfig::squeezed(1, "ssd-first", 3_000);
        (config.tuning.small_area, config.tuning.part_leaves) = (small_area, part_leaves);
        let mut run = Run::new(config).expect("a pool");
        run.finish().unwrap_or_else(|failure| panic!("{small_area}, {part_leaves}: {failure}"));
        let stats = run.sim.engine.stats();
        assert!(stats.checkpoints > stats.checkpoint_parts + 2, "{}", stats.checkpoints);
        assert_eq!(stats.checkpoint_parts > 0, has_parts, "of {}", stats.checkpoints);
    }
}

#[test]
fn no_power_cut_between_parts_breaks_the_promise() {
    let campaign =
        Campaign { window: ALWAYS, stride: 293, recovery_stride: 40, lives: 2, more_requests: 40 };
    let mut met = Coverage::default();
    for seed in 0..3 {
        let run = Run::new(SwarmConfig::squeezed(seed, "ssd-first", 2_000)).expect("a pool");
        met += campaign.run(run).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 50 && met.get(Met::CheckpointParts) > 10, "{met}");
}

#[test]
fn objects_that_change_between_parts_are_kept() {
    let campaign = Campaign {
        window: ALWAYS,
        stride: 1_999,
        recovery_stride: 160,
        lives: 2,
        more_requests: 40,
    };
    let mut config = SwarmConfig::squeezed_with_objects(1, 8_000);
    let mut run = Run::new(config.clone()).expect("a pool");
    run.finish().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(run.sim.engine.stats().checkpoint_parts > 2, "where no power fails");
    config.shape.requests = 6_000;
    let run = Run::new(config).expect("a pool");
    let met = campaign.run(run).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(met.get(Met::Crashes) > 50 && met.get(Met::CheckpointParts) > 2, "{met}");
    assert!(met.get(Met::Batches) > 500, "{met}");
}
