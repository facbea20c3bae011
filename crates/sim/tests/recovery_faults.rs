//! What if drives fail while the pool recovers?
//!
//! Source: acceptance of the spine, "never cut": faults during recovery. A sound run is cut at some event;
//! run again, it meets the same cut with drives whose faults begin there. The start may be refused,
//! with a cause; once the fault is over, nothing may be missing.

use tandem_block::{DeviceId, Duration, Instant, Rng};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::{Engine, StartError};
use tandem_sim::Simulation;
use tandem_sim::campaign::MODES;
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};

/// A run up to some event, over drives of which one has a script.
fn run_to(config: &SwarmConfig, events: u64, target: usize, script: &FaultScript) -> Run {
    let drives = config.drives().into_iter().enumerate().map(|(i, drive)| {
        let script = if i == target { script.clone() } else { FaultScript::default() };
        let seed = config.seed;
        Box::new(Faulty::new(drive, DeviceId(i as u8), script, seed))
            as Box<dyn tandem_block::Drive>
    });
    let drives = drives.collect();
    let engine = Engine::new(config.engine(true)).expect("a valid configuration");
    let mut run = Run::over(config.clone(), Simulation::new(engine, drives, true)).expect("a pool");
    while run.events < events && run.step().expect("no faults yet") {}
    run
}

/// Cuts every run at some event and recovers under `script`, made for the time of the cut. Calls
/// `then` with what came of it.
fn everywhere(
    drives: Option<(usize, usize)>,
    script: impl Fn(Instant, u64) -> FaultScript,
    mut then: impl FnMut(Run, CutMode, bool),
) {
    for seed in 0..16 {
        let policy = ["mios-e", "ssd-first", "mios-d"][(seed % 3) as usize];
        let mut config = SwarmConfig::tiny(seed, policy, 150);
        config.drives = drives.unwrap_or(config.drives);
        let events = Rng::new(seed).between(50, 500);
        let cut_at = run_to(&config, events, 0, &FaultScript::default()).sim.now;
        for target in 0..config.drives.0 + config.drives.1 {
            for (number, mode) in (0..).zip(MODES) {
                let script = script(cut_at, number);
                let mut run = run_to(&config, events, target, &script);
                run.allow_failures();
                let served = match run.crash(mode, None) {
                    Ok(_) => true,
                    Err(Failure::Refused { .. }) => false,
                    Err(failure) => panic!("seed {seed}, device {target}, {script:?}: {failure}"),
                };
                then(run, mode, served);
            }
        }
    }
}

/// One command of this kind fails, the first since the cut or one soon after.
fn one_error(ops: OpFilter) -> impl Fn(Instant, u64) -> FaultScript {
    move |from, number| {
        let skip = if ops == OpFilter::Reads { number * 2 } else { number % 2 };
        FaultScript::of([FaultRule { ops, from, skip, ..FaultRule::once(Fault::Error) }])
    }
}

/// The fault is over: the next start serves, and whatever was flushed is there.
fn recovers_after(ops: OpFilter) {
    let (mut refusals, mut starts) = (0, 0);
    everywhere(None, one_error(ops), |mut run, mode, served| {
        starts += 1;
        // the fault may have been too late for the first start and meet the second
        let served = served && !matches!(run.crash(mode, None), Err(Failure::Refused { .. }));
        if !served {
            refusals += 1;
            run.forbid_failures();
        }
        run.crash(mode, None).unwrap_or_else(|failure| panic!("afterwards: {failure}"));
    });
    assert!(refusals > 0 && refusals < starts, "{refusals} of {starts} starts were refused");
}

#[test]
fn a_read_fails() {
    recovers_after(OpFilter::Reads);
}

#[test]
fn a_flush_fails() {
    recovers_after(OpFilter::Flushes);
}

#[test]
fn a_stall_only_takes_time() {
    let stall = |from, number| FaultScript {
        stalls: vec![(from + Duration::from_us(50 * number), Duration::from_ms(300))],
        ..FaultScript::default()
    };
    everywhere(None, stall, |_, _, served| assert!(served, "a stall is no reason to refuse"));
}

/// A dead drive is named, or what it holds is.
#[test]
fn one_of_two_ssds_dies() {
    let death = |from, number| FaultScript {
        dies_at: Some(from + Duration::from_us(1 + 200 * number)),
        ..FaultScript::default()
    };
    let mut refusals = 0;
    everywhere(Some((2, 1)), death, |_, _, served| refusals += u64::from(!served));
    assert!(refusals > 0);
}

/// A drive that is shorter than it was is refused by that name.
#[test]
fn a_truncated_drive_is_refused() {
    for seed in 0..4 {
        let mut config = SwarmConfig::tiny(seed, "mios-e", 60);
        config.sizes = (12 << 20, 24 << 20);
        let mut run = run_to(&config, u64::MAX, 0, &FaultScript::default());
        let mut shorter = config.engine(false);
        for device in &mut shorter.devices {
            device.capacity_bytes -= 1 << 20;
        }
        run.sim.power_cut(shorter, CutMode::KeepAll, &mut Rng::new(seed));
        match run.after_damage() {
            Err(Failure::Refused { error: StartError::Shrunk { was, is, .. }, .. }) => {
                assert!(is < was, "{is} {was}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The engine stops at every event of this start. Commands that are under way end later.
fn stops_at_any_event(mut sim: Simulation, what: &str) -> u64 {
    let mut stops = 0;
    sim.begin_start();
    while sim.take_said().started.is_none() {
        let mut fork = sim.clone();
        fork.shut_down();
        let mut has_stopped = false;
        for _ in 0..1_000 {
            let said = fork.take_said();
            assert!(said.started.is_none(), "{what}, stop {stops}: it starts after a stop");
            assert!(!(has_stopped && said.stopped), "{what}, stop {stops}: it stops twice");
            has_stopped |= said.stopped;
            if !fork.step() {
                break;
            }
        }
        has_stopped |= fork.take_said().stopped;
        assert!(has_stopped, "{what}, stop {stops}: it never stops");
        stops += 1;
        assert!(sim.step(), "it starts");
    }
    stops
}

/// Seen: a command that ended after a stop had come during the start was a panic.
#[test]
fn a_stop_during_the_start_leaves_nothing_to_wait_for() {
    let mut stops = 0;
    for (seed, kind) in (0..).zip([
        SwarmConfig::tiny,
        SwarmConfig::filed,
        SwarmConfig::paired,
        SwarmConfig::journaled,
        SwarmConfig::replaced,
    ]) {
        let config = kind(seed, "mios-e", 150);
        let engine = Engine::new(config.engine(true)).expect("a valid configuration");
        let fresh = Simulation::new(engine, config.drives(), true);
        stops += stops_at_any_event(fresh, &format!("seed {seed}, fresh"));
        let life = config.clone();
        let mut run = Run::new(config).expect("a pool");
        while run.events < 300 && run.step().expect("no faults") {}
        let engine = life.engine(false);
        run.sim.power_cut(engine, CutMode::RandomSubset, &mut Rng::new(seed));
        stops += stops_at_any_event(run.sim.clone(), &format!("seed {seed}, recovered"));
    }
    assert!(stops > 100, "{stops}");
}
