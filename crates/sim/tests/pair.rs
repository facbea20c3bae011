//! Does a mirrored pair keep the promise, whenever the power fails or a twin dies?
//!
//! Source: issue "Ianus", acceptance 4; requirements I13, I14, B9.

use tandem_drives::media::CutMode;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};

fn ok<T>(result: Result<T, Failure>, what: &str) -> T {
    result.unwrap_or_else(|failure| panic!("{what}: {failure}"))
}

#[test]
fn nothing_is_lost_without_a_fault() {
    for seed in 0..30 {
        let config = SwarmConfig::paired(seed, "ssd-first", 400);
        let mut run = Run::new(config).unwrap();
        run.finish().unwrap_or_else(|failure| panic!("{failure}"));
        let pair = run.world.engine.pairs()[0];
        println!("seed {seed}: {pair:?}");
    }
}

#[test]
fn power_cuts() {
    for seed in 0..6 {
        let config = SwarmConfig::paired(seed, "ssd-first", 200);
        let campaign = Campaign {
            window: ALWAYS,
            stride: 3,
            recovery_stride: 20,
            lives: 2,
            more_requests: 40,
        };
        let met = campaign.run(Run::new(config).unwrap()).unwrap_or_else(|f| panic!("{f}"));
        println!("seed {seed}: {met}");
    }
}

/// Either twin dies at every event: no request fails, and what is flushed afterwards survives a power
/// cut on the other one alone.
#[test]
fn a_twin_dies() {
    let (mut deaths, mut cuts) = (0, 0);
    for seed in 0..6 {
        let mut run = Run::new(SwarmConfig::paired(seed, "ssd-first", 120)).unwrap();
        while run.step().unwrap() {
            for twin in 0..2 {
                let mut fork = run.clone();
                fork.lose_twin(twin);
                deaths += 1;
                let what = format!("seed {seed}, twin {twin} dies at {}", run.events);
                for _ in 0..run.events % 40 {
                    ok(fork.step(), &what);
                }
                let mut cut = fork.clone();
                ok(cut.flush_all(), &what);
                // a death that nobody noticed before the power failed is two faults at once, and so is
                // one whose cache was not written to the survivor yet
                for _ in 0..1_000 {
                    if !cut.world.engine.pairs()[0].exposed {
                        break;
                    }
                    ok(cut.step(), &what);
                }
                let pair = cut.world.engine.pairs()[0];
                if pair.alive != [true; 2] && !pair.exposed {
                    ok(cut.crash(CutMode::RandomSubset, None), &what);
                    cut.extend(20, 7);
                    ok(cut.finish(), &what);
                    cuts += 1;
                }
                ok(fork.finish(), &what);
            }
        }
        run.finish().unwrap();
    }
    println!("{deaths} deaths, {cuts} power cuts after them");
    assert!(deaths > 5_000 && cuts > 2_500, "{deaths}, {cuts}");
}

/// A new drive takes the place of a dead twin: everything is copied to it while the pair serves, across
/// power cuts, and then it is as good as the other one.
#[test]
fn a_twin_is_replaced() {
    let mut cuts = 0;
    for seed in 0..6 {
        let twin = (seed % 2) as u8;
        let mut run = Run::new(SwarmConfig::paired(seed, "ssd-first", 100)).unwrap();
        while run.step().unwrap() {}
        run.lose_twin(twin);
        run.extend(30, 1);
        run.finish().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        run.replace_twin(twin);
        let what = format!("seed {seed}, twin {twin}");
        ok(run.kill(None), &what);
        run.twin_is_known();
        run.extend(200, 2);
        while ok(run.step(), &what) {
            if run.events.is_multiple_of(7) {
                let mut fork = run.clone();
                ok(fork.crash(CutMode::RandomSubset, None), &what);
                fork.extend(30, 3);
                ok(fork.finish(), &what);
                cuts += 1;
            }
        }
        // the old twin goes; what the new one got is all there is
        let settled = |run: &Run| run.world.engine.pairs()[0].stale_bytes == [0, 0];
        run.extend(1_000_000, 4);
        let mut patience = 100_000;
        while !settled(&run) && patience > 0 {
            ok(run.step(), &what);
            patience -= 1;
        }
        assert!(settled(&run), "seed {seed}: the copying ends");
        ok(run.flush_all(), &what);
        run.lose_twin(1 - twin);
        run.extend(50, 5);
        ok(run.finish(), &what);
    }
    println!("{cuts} cuts while a twin was copied to");
    assert!(cuts > 200, "{cuts}");
}
