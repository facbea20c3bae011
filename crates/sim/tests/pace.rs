//! Do writes wait for commits and checkpoints, so that neither memory nor the journal runs full?

use tandem_block::{BLOCK_BYTES, Duration, KIB, Op, Request, RequestId};
use tandem_engine::Engine;
use tandem_sim::Simulation;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Run, VOLUME};

/// Writes that come without a pause, and SSDs whose flush takes longer than some hundred of them.
fn without_a_pause(uncommitted_blocks_max: u64) -> SwarmConfig {
    let mut config = SwarmConfig::squeezed(1, "ssd-first", 3_000);
    config.shape.pause = Duration::ZERO;
    config.shape.depth = 32;
    config.tuning.ssd_latency_ns = (40_000, 20_000_000);
    config.tuning.uncommitted_blocks_max = uncommitted_blocks_max;
    config.tuning.writeback_percent = (100, 99);
    config
}

/// Runs it. Returns the most blocks that no commit named, and how many writes waited.
fn run(config: SwarmConfig) -> (u64, u64) {
    let mut run = Run::new(config).expect("a pool");
    let mut most = 0;
    while run.step().unwrap_or_else(|failure| panic!("{failure}")) {
        most = most.max(run.sim.engine.map().uncommitted());
    }
    (most, run.sim.engine.stats().writes_paced)
}

#[test]
fn writes_wait_while_there_is_much_that_no_commit_names() {
    // a write that has begun is carried out: so many come at once, of so many blocks
    let begun = 32 * 3;
    let ((free, _), (bounded, waited)) = (run(without_a_pause(1 << 20)), run(without_a_pause(64)));
    assert!(free > 64 + begun, "where nothing waits there are {free}");
    assert!(bounded <= 64 + begun && waited > 100, "{bounded} blocks, {waited} writes waited");
}

#[test]
fn no_power_cut_while_writes_wait_breaks_the_promise() {
    let campaign = Campaign {
        window: ALWAYS,
        stride: 1_499,
        recovery_stride: 40,
        lives: 2,
        more_requests: 40,
    };
    let mut met = Coverage::default();
    for (seed, max) in [(0, 1), (1, 16)] {
        let mut config = SwarmConfig::squeezed(seed, "ssd-first", 2_000);
        config.tuning.uncommitted_blocks_max = max;
        config.tuning.journal_bytes = 64 * KIB;
        let run = Run::new(config).expect("a pool");
        met += campaign.run(run).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 20, "{met}");
}

/// Zeroing what holds nothing changes nothing: its commit has nothing to write, and ends at once.
#[test]
fn a_commit_with_nothing_to_write_lets_writes_begin() {
    let mut config = SwarmConfig::tiny(1, "ssd-first", 0);
    config.shape.volume_bytes = 64 * BLOCK_BYTES;
    config.tuning.uncommitted_blocks_max = 1;
    let engine = Engine::new(config.engine(true)).expect("a valid configuration");
    let mut sim = Simulation::new(engine, config.drives(), true);
    sim.start().expect("a pool");
    let began = sim.now;
    for block in 0..64 {
        let range = (block * BLOCK_BYTES, BLOCK_BYTES);
        sim.request(&Request::new(RequestId(block), VOLUME, Op::WriteZeroes, range, sim.now));
    }
    let mut answered = 0;
    while answered < 64 {
        assert!(sim.step(), "{answered} of 64 are answered, and nothing is due");
        sim.drain_done(|answer| {
            answer.status.expect("no faults");
            answered += 1;
        });
    }
    assert!(sim.engine.stats().writes_paced > 50);
    let took = sim.now.since(began);
    assert!(
        took < Duration::from_ms(1),
        "nothing is written to any drive, and yet it took {took:?}"
    );
}
