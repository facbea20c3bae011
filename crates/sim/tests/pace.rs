//! Do writes wait for commits and checkpoints, so that neither memory nor the journal runs full?

use tandem_block::KIB;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::Run;

/// Writes that come without a pause, and SSDs whose flush takes longer than some hundred of them.
fn without_a_pause(uncommitted_blocks_max: u64) -> SwarmConfig {
    let mut config = SwarmConfig::squeezed(1, "ssd-first", 3_000);
    config.shape.pause = tandem_block::Duration::ZERO;
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
        most = most.max(run.sim.engine.map().pending_blocks());
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
