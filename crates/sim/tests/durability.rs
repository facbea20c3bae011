//! Does a volume keep what its durability class says, whatever its requests ask for?
//!
//! Source: design, "A request", durability classes; requirements B3. The arm `classes` of the swarm cuts
//! the power at every event; here is what one class has and another has not.

use tandem_block::{BLOCK_BYTES, DurabilityClass, Duration, KIB, Op, Request, RequestId};
use tandem_drives::media::CutMode;
use tandem_engine::steer::Reason;
use tandem_sim::Simulation;
use tandem_sim::swarm::{Failure, Run, SwarmConfig, VOLUME};

/// What a change of the map waits for its commit at most (5 ms), and what two commits take.
const A_COMMIT_LATER: Duration = Duration::from_ms(15);

/// A pool that redirects nearly everything, and nobody flushes.
fn config(seed: u64, durability: DurabilityClass) -> SwarmConfig {
    let mut config = SwarmConfig::logged(seed, "mios-e", 400);
    config.shape.mix.flush = 0;
    config.shape.mix.fua = 0;
    // so little that the bound on a drive's tail does not bring on the flush that nobody asks for, nor
    // commits wait for checkpoints
    config.shape.length_bytes_max = 8 * KIB;
    config.shape.pause = Duration::from_ms(1);
    config.tuning.journal_bytes = 1024 * KIB;
    config.durability = durability;
    config
}

/// Cuts the power in the middle of it. What was answered so long before must be there then.
fn cut_in_the_middle(
    seed: u64,
    durability: DurabilityClass,
    before: Duration,
) -> Result<u64, Failure> {
    let mut run = Run::new(config(seed, durability))?;
    let middle = run.sim.now + Duration::from_ms(40);
    while run.sim.now < middle && run.step()? {}
    run.go_on_and_expect_durable(before)?;
    let redirected = run.sim.engine.stats().redirected.0;
    run.crash(CutMode::DropAll, None)?;
    Ok(redirected)
}

#[test]
fn journaled_writes_are_durable_a_commit_later_and_volatile_ones_need_a_flush() {
    let (mut redirected, mut lost) = (0, 0);
    for seed in 0..12 {
        let cut = |class| cut_in_the_middle(seed, class, A_COMMIT_LATER);
        redirected += cut(DurabilityClass::Journaled).expect("nothing is lost");
        lost += u64::from(cut(DurabilityClass::VolatileOk).is_err());
    }
    assert!(redirected > 300, "only {redirected} writes were redirected");
    assert!(lost > 6, "only {lost} of 12 volatile pools lost what was not flushed");
}

#[test]
fn strict_writes_are_durable_when_they_are_answered() {
    let at_once = Duration::from_ns(0);
    let mut lost = 0;
    for seed in 0..12 {
        cut_in_the_middle(seed, DurabilityClass::Strict, at_once).expect("nothing is lost");
        lost += u64::from(cut_in_the_middle(seed, DurabilityClass::Journaled, at_once).is_err());
    }
    assert!(lost > 6, "only {lost} of 12 other pools lost what was not flushed");
}

/// One write to a volume of this class, to its answer; the simulation as it stands then.
fn one_write(durability: DurabilityClass) -> Simulation {
    written(config(1, durability))
}

fn written(config: SwarmConfig) -> Simulation {
    let engine = tandem_engine::Engine::new(config.engine(true)).expect("valid");
    let mut sim = Simulation::new(engine, config.drives(), true);
    sim.start().expect("a pool");
    // the drive's buffer is believed to be empty after a while, and its writes fast
    sim.run_until(sim.now + Duration::from_ms(20));
    let mut write = Request::new(RequestId(1), VOLUME, Op::Write, (0, 8 * KIB), sim.now);
    write.payload = sim.payload((0..16).map(|sector| sector + 1));
    sim.request(&write);
    let mut answered = false;
    while !answered {
        assert!(sim.step(), "a write never hangs");
        sim.drain_done(|done| {
            done.status.expect("no faults");
            answered = true;
        });
    }
    sim
}

#[test]
fn where_a_write_is_when_it_is_answered() {
    let places = |durability| {
        let sim = one_write(durability);
        let engine = &sim.engine;
        let copied: u64 = engine.stats().devices.iter().map(|device| device.tail_bytes).sum();
        (engine.stats().redirected.0, copied, engine.bytes_at_risk())
    };
    assert_eq!(places(DurabilityClass::VolatileOk), (1, 0, 2 * BLOCK_BYTES));
    assert_eq!(places(DurabilityClass::Journaled), (1, 2 * BLOCK_BYTES, 0));
    assert_eq!(places(DurabilityClass::Protected), (1, 0, 0), "its drives keep what they buffer");
    assert_eq!(places(DurabilityClass::Strict), (0, 0, 0));
    let strict = one_write(DurabilityClass::Strict);
    assert!(strict.engine.stats().steered.get(Reason::Durability).requests > 0);
}

/// What was redirected and zeroed since is in the tail, but nobody needs it: there is nothing to copy,
/// and a FLUSH must not wait for that.
#[test]
fn a_flush_of_a_tail_that_was_overwritten_is_answered() {
    let mut config = config(1, DurabilityClass::VolatileOk);
    config.tuning.flush_ns = 200_000_000; // tails are copied, not flushed
    let mut sim = written(config);
    assert_eq!(sim.engine.stats().redirected.0, 1);
    let zeroes = Request::new(RequestId(2), VOLUME, Op::WriteZeroes, (0, 8 * KIB), sim.now);
    sim.request(&zeroes);
    let flush = Request::new(RequestId(3), VOLUME, Op::Flush, (0, 0), sim.now);
    sim.request(&flush);
    let (asked, mut left) = (sim.now, 2);
    // far below the next moment at which the controller of the drive would ask by itself
    let soon = asked + Duration::from_ms(5);
    while left > 0 {
        assert!(sim.next_at() <= soon && sim.step(), "nobody goes on with the FLUSH");
        sim.drain_done(|done| {
            done.status.expect("no faults");
            left -= 1;
        });
    }
    let copied: u64 = sim.engine.stats().devices.iter().map(|device| device.tail_bytes).sum();
    assert_eq!((copied, sim.engine.stats().devices[1].flushes), (0, 0), "nothing was needed");
}
