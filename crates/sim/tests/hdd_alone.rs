//! Does a pool of hard drives alone keep the promise, and go on when its logs are full?
//!
//! Source: design decisions 7 and 10. Without an SSD every write goes to a log, and only homes can make
//! room in it: what moves them must not wait behind the writes that wait for room.

use tandem_block::KIB;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::swarm::{Run, SwarmConfig};

/// A pool of one or two hard drives.
fn alone(mut config: SwarmConfig) -> SwarmConfig {
    config.drives = (0, 1 + (config.seed % 2) as usize);
    config
}

#[test]
fn full_logs_are_emptied_while_writes_wait() {
    for seed in 0..12 {
        let config = alone(SwarmConfig::crowded(seed, "ssd-first", 600));
        let mut run = Run::new(config).expect("a pool");
        run.finish().unwrap_or_else(|failure| panic!("{failure}"));
        let stats = run.sim.engine.stats();
        assert!(stats.backpressure_ns > 0, "seed {seed}: no write waited for room");
        assert!(stats.moves > 500, "seed {seed}: {} blocks moved home", stats.moves);
    }
}

/// Logs of four segments and a little more, and writes that need three of them.
#[test]
fn logs_as_small_as_can_be_go_on() {
    let seeds = (0..6).chain([31, 32, 43]);
    let sizes = [(1, 64), (1, 128), (3, 64), (3, 256), (4, 128)];
    for (seed, (percent, segment_kib)) in seeds.flat_map(|seed| sizes.map(|size| (seed, size))) {
        let policy = ["ssd-first", "mios-d", "mios-e"][seed as usize % 3];
        let mut config = alone(SwarmConfig::crowded(seed, policy, 300));
        config.tuning.log_percent = percent;
        config.tuning.log_segment_bytes = segment_kib * KIB;
        config.shape.length_bytes_max =
            [2 * segment_kib, segment_kib / 2][(seed / 6 % 2) as usize] * KIB;
        config.shape.unaligned_ppm = [0, 300_000, 900_000][(seed / 2) as usize % 3];
        let mut run = Run::new(config).expect("a pool");
        run.finish().unwrap_or_else(|failure| panic!("{percent} %, {segment_kib}: {failure}"));
    }
}

#[test]
fn no_power_cut_breaks_the_promise() {
    let campaign =
        Campaign { window: ALWAYS, stride: 1, recovery_stride: 50, lives: 1, more_requests: 1 };
    let mut met = Coverage::default();
    for seed in 0..2 {
        for config in [SwarmConfig::tiny, SwarmConfig::logged, SwarmConfig::crowded] {
            let run = Run::new(alone(config(seed, "ssd-first", 40))).expect("a pool");
            met += campaign.run(run).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    assert!(met.get(Met::Crashes) > 500, "{met}");
}
