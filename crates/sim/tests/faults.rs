//! Does a drive that fails lead to an error with a name, and never to wrong data?
//!
//! Source: design decisions 6 and 8, "The promise". Faulty drives around erratic ones; a request may
//! fail, but what is answered must be right, nothing may hang, and nothing may panic.

use tandem_block::{DeviceId, Duration, Instant, Rng};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;
use tandem_sim::Simulation;
use tandem_sim::swarm::{Run, SwarmConfig};

/// When faults begin: after the pool was formatted.
const FROM: Instant = Instant::from_ns(3_000_000);

fn rule(fault: Fault, ops: OpFilter, chance_ppm: u64) -> FaultScript {
    FaultScript::of([FaultRule { ops, from: FROM, ..FaultRule::by_chance(fault, chance_ppm) }])
}

/// Runs a workload with this script on an SSD or on a hard drive; then a power cut and a recovery.
fn survive(seed: u64, on_ssd: bool, script: &FaultScript, crash: bool) {
    let policy = ["mios-e", "ssd-first", "mios-d"][(seed % 3) as usize];
    let config = SwarmConfig::tiny(seed, policy, 200);
    let target = if on_ssd { 0 } else { config.drives.0 };
    let drives = config
        .drives()
        .into_iter()
        .enumerate()
        .map(|(i, drive)| {
            let script = if i == target { script.clone() } else { FaultScript::default() };
            let faulty = Faulty::new(drive, DeviceId(i as u8), script, seed);
            Box::new(faulty) as Box<dyn tandem_block::Drive>
        })
        .collect();
    let engine = Engine::new(config.engine(true)).expect("a valid configuration");
    let mut run = Run::over(config, Simulation::new(engine, drives, true)).expect("no faults yet");
    run.allow_failures();
    let fail = |failure| panic!("seed {seed}, ssd {on_ssd}, {script:?}: {failure}");
    let cut_at = Rng::new(seed).between(20, 600);
    while run.events < cut_at || !crash {
        if !run.step().unwrap_or_else(fail) {
            break;
        }
    }
    if crash {
        // a drive that fails may make the pool refuse, with a reason; it may not make it lie
        match run.crash(CutMode::RandomSubset, None) {
            Ok(_) | Err(tandem_sim::swarm::Failure::Refused { .. }) => {}
            Err(failure) => panic!("seed {seed}, ssd {on_ssd}, {script:?}: {failure}"),
        }
    }
}

fn everywhere(script: &FaultScript, hdd_only: bool) {
    for seed in 0..24 {
        for crash in [false, true] {
            survive(seed, false, script, crash);
            if !hdd_only {
                survive(seed, true, script, crash);
            }
        }
    }
}

#[test]
fn read_errors() {
    everywhere(&rule(Fault::Error, OpFilter::Reads, 50_000), false);
}

#[test]
fn write_errors() {
    everywhere(&rule(Fault::Error, OpFilter::Writes, 20_000), false);
}

#[test]
fn flush_errors() {
    everywhere(&rule(Fault::Error, OpFilter::Flushes, 200_000), false);
}

#[test]
fn bits_flip_in_reads() {
    let script = rule(Fault::BitFlip, OpFilter::Reads, 50_000);
    everywhere(&script, false);
}

#[test]
fn a_hard_drive_loses_tears_and_flips_writes_and_lies_about_flushes() {
    for fault in [Fault::Lost, Fault::Torn, Fault::BitFlip] {
        everywhere(&rule(fault, OpFilter::Writes, 50_000), true);
    }
    everywhere(&rule(Fault::IgnoreFlush, OpFilter::Flushes, 300_000), true);
}

#[test]
fn a_drive_dies_at_any_time() {
    for at_us in [3_100, 5_000, 9_000, 20_000] {
        let dies_at = Some(Instant::from_ns(at_us * 1_000));
        everywhere(&FaultScript { dies_at, ..FaultScript::default() }, false);
    }
}

#[test]
fn a_drive_stalls() {
    let stalls =
        vec![(FROM, Duration::from_ms(50)), (FROM + Duration::from_ms(70), Duration::from_ms(200))];
    everywhere(&FaultScript { stalls, ..FaultScript::default() }, false);
}
