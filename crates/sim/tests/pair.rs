//! Does a mirrored pair keep the promise, whenever the power fails or a leg dies?
//!
//! Source: requirements I13 to I18, B9. A longer look is
//! `cargo run --release -p tandem-sim --example pair_crashes`.

use tandem_block::{BLOCK_BYTES, DeviceId, Instant};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;
use tandem_engine::format::layout::Layout;
use tandem_engine::format::pair::HEADER_BYTES;
use tandem_engine::mirror::Answer;
use tandem_sim::Simulation;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::leg_deaths;
use tandem_sim::pool::SwarmConfig;
use tandem_sim::swarm::{Failure, Run};

fn ok<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn nothing_is_lost_without_a_fault() {
    let (mut turns, mut early, mut resting) = (0, 0, 0);
    for seed in 0..30 {
        let mut run = ok(Run::new(SwarmConfig::paired(seed, "ssd-first", 400)));
        ok(run.finish());
        let pair = run.sim.engine.pairs()[0];
        assert!(pair.cache_bytes == 0, "seed {seed}: both legs have everything: {pair:?}");
        // one write that is larger than the cache passes all the same
        assert!(pair.cache_bytes_max <= pair.cache_bytes_bound.max(256 << 10), "{pair:?}");
        turns += pair.stats.turns;
        early += pair.stats.early_turns;
        resting += u64::from(pair.idle.ns > 0);
    }
    assert!(turns > 300 && early > 0 && resting > 5, "{turns} {early} {resting}");
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
        let met = ok(campaign.run(ok(Run::new(config))));
        println!("seed {seed}: {met}");
    }
}

/// Either leg dies at every event: no request fails, and what is flushed afterwards survives a power
/// cut on the other one alone.
#[test]
fn a_leg_dies() {
    let (mut deaths, mut cuts) = (0, 0);
    for seed in 0..6 {
        let found = ok(leg_deaths::deaths(SwarmConfig::paired(seed, "ssd-first", 120)));
        deaths += found.deaths;
        cuts += found.cuts;
    }
    println!("{deaths} deaths, {cuts} power cuts after them");
    assert!(deaths > 5_000 && cuts > 2_500, "{deaths}, {cuts}");
}

/// A new drive takes the place of a dead leg: everything is copied to it while the pair serves, across
/// power cuts, and then it is as good as the other one.
#[test]
fn a_leg_is_replaced() {
    let mut cuts = 0;
    for seed in 0..6 {
        let config = SwarmConfig::paired(seed, "ssd-first", 100);
        cuts += ok(leg_deaths::replacement(config, (seed % 2) as u8, 7));
    }
    println!("{cuts} cuts while a leg was copied to");
    assert!(cuts > 200, "{cuts}");
}

/// A power cut on top of a death, at any moment: with the dead leg back nothing is lost, and the survivor
/// alone has everything or is refused.
#[test]
fn a_dead_leg_comes_back() {
    let mut found = leg_deaths::Returns::default();
    for seed in 0..6 {
        let run = ok(Run::new(SwarmConfig::paired(seed, "ssd-first", 120)));
        found += ok(leg_deaths::returns(run, 3));
    }
    println!("{found:?}");
    assert!(found.returns > 1_000 && found.refused > 100, "{found:?}");
    assert!(found.alone > found.refused + 500, "{found:?}");
}

/// The only whole leg dies while the other one is copied to.
#[test]
fn the_source_of_a_copy_dies() {
    let mut found = leg_deaths::Returns::default();
    for seed in 0..6 {
        let run = ok(Run::new(SwarmConfig::paired(seed, "ssd-first", 100)));
        found += ok(leg_deaths::death_of_the_source(run, (seed % 2) as u8, 7));
    }
    println!("{found:?}");
    assert!(found.copying > 200 && found.refused > 100, "{found:?}");
}

#[test]
fn a_journal_changes_nothing_without_a_fault() {
    let (mut units, mut heads, mut early) = (0, 0, 0);
    for seed in 0..30 {
        let mut run = ok(Run::new(SwarmConfig::journaled(seed, "ssd-first", 400)));
        ok(run.finish());
        let pair = run.sim.engine.pairs()[0];
        assert!(pair.cache_bytes == 0, "seed {seed}: both legs have everything: {pair:?}");
        let journal = pair.journal.expect("it has one");
        assert!(journal.alive && journal.used_bytes <= journal.ring_bytes, "{journal:?}");
        units += journal.stats.units;
        heads += journal.stats.heads;
        early += pair.stats.early_turns;
    }
    assert!(units > 1_000 && heads > 30, "{units} {heads} {early}");
}

/// … also in a life that began after a clean stop, when the journal held nothing.
#[test]
fn both_at_once_in_a_second_life() {
    let mut found = leg_deaths::AtOnce::default();
    for seed in 20..26 {
        let mut run = ok(Run::new(SwarmConfig::journaled(seed, "ssd-first", 40)));
        ok(run.finish());
        ok(run.crash(CutMode::KeepAll, None));
        run.extend(50, seed);
        found += ok(leg_deaths::at_once(run, 3));
    }
    assert!(found.cuts > 1_000 && found.resyncing > 200, "{found:?}");
}

/// With a journal a power cut and the death of either leg at once lose nothing that was flushed.
#[test]
fn both_at_once() {
    let mut found = leg_deaths::AtOnce::default();
    for seed in 0..6 {
        let run = ok(Run::new(SwarmConfig::journaled(seed, "ssd-first", 120)));
        found += ok(leg_deaths::at_once(run, 2));
    }
    println!("{found:?}");
    assert!(found.cuts > 2_000 && found.resyncing > 500 && found.journals > 1_000, "{found:?}");
}

/// A journal on a hard drive is written in its windows where nobody waits for it, and keeps the same.
#[test]
fn both_at_once_on_a_hard_drive() {
    let (mut found, mut units, mut forced) = (leg_deaths::AtOnce::default(), 0, 0);
    for seed in 0..6 {
        let config = SwarmConfig::journaled_on_hdd(seed, "ssd-first", 100);
        let mut run = ok(Run::new(config.clone()));
        ok(run.finish());
        let journal = run.sim.engine.pairs()[0].journal.expect("it has one");
        units += journal.stats.units;
        forced += journal.forced;
        found += ok(leg_deaths::at_once(ok(Run::new(config)), 5));
    }
    println!("{found:?}, {forced} of {units} units forced");
    assert!(found.cuts > 800 && found.resyncing > 200, "{found:?}");
    assert!(forced > 10 && units > forced + 10, "{forced} of {units}");
}

/// Where the journal's drive is the last to have its superblock written, the pair hears of it that the
/// engine serves by nobody's answer. What users read from then on is not taken for what recovery built
/// on, which only the lead may have: it was refused when the lead died.
#[test]
fn what_users_read_after_a_start_hangs_on_no_leg() {
    let mut config = SwarmConfig::journaled_on_hdd(7_004, "ect", 200);
    config.pair.as_mut().expect("it is a pair").answer = Answer::Written;
    let mut run = ok(Run::new(config));
    while run.events < 84 {
        assert!(ok(run.step()), "the fault is met at event 86");
    }
    let found = ok(leg_deaths::at_once(run, 2));
    assert!(found.resyncing > 20, "{found:?}");
}

/// A pool whose second leg was replaced just now, and when that was. From some time on a block of the
/// other one cannot be read.
fn replaced(seed: u64, bad: Option<(u64, Instant)>) -> (Run, Instant) {
    let config = SwarmConfig::paired(seed, "ssd-first", 100);
    let rule = |(at, from): (u64, Instant)| FaultRule {
        ops: OpFilter::Reads,
        range: Some((HEADER_BYTES + at, HEADER_BYTES + at + 512)),
        from,
        count: u64::MAX,
        ..FaultRule::once(Fault::Error)
    };
    let drives = config.drives().into_iter().enumerate().map(|(i, drive)| {
        let rules: Vec<FaultRule> = bad.filter(|_| i == 0).map(rule).into_iter().collect();
        let drive = Faulty::new(drive, DeviceId(i as u8), FaultScript::of(rules), seed);
        Box::new(drive) as Box<dyn tandem_block::Drive>
    });
    let drives = drives.collect();
    let engine = Engine::new(config.engine(true)).expect("a valid configuration");
    let mut run = ok(Run::over(config, Simulation::new(engine, drives, true)));
    while ok(run.step()) {}
    run.lose_leg(1);
    run.extend(30, 1);
    ok(run.finish());
    run.replace_leg(1);
    run.allow_failures();
    let at = run.sim.now;
    ok(run.kill(None));
    run.leg_is_known();
    (run, at)
}

/// As `replaced`, and then it is used until the new leg lacks at most so much.
fn copied(seed: u64, bad: impl Fn(&Layout) -> u64, lacks_max: u64) -> Run {
    let (begins, at) = replaced(seed, None);
    let layout = begins.sim.engine.devices()[0].layout;
    let (mut run, _) = replaced(seed, Some((bad(&layout), at)));
    run.extend(1_000_000, 2);
    for _ in 0..400_000 {
        let stale_bytes = run.sim.engine.pairs()[0].stale_bytes;
        if stale_bytes[0] == 0 && stale_bytes[1] <= lacks_max {
            return run;
        }
        assert!(ok(run.step()), "there is always more");
    }
    panic!("seed {seed}: the copying ends: {}", run.sim.engine.debug_state());
}

/// One block of the leg that serves alone cannot be read: everything else is copied, and the pair is
/// whole. What is written there later is on both: without the bad leg all is as it was promised.
#[test]
fn a_bad_block_does_not_keep_a_pair_from_being_whole() {
    let (mut lost, mut turns) = (0, 0);
    for seed in 0..6 {
        let last =
            |layout: &Layout| layout.slot_offset + (layout.slot_count - 1 - seed) * BLOCK_BYTES;
        let mut run = copied(seed, last, 0);
        lost += run.sim.engine.pairs()[0].stats.unreadable_blocks;
        run.extend(400, 3);
        while ok(run.step()) {}
        ok(run.flush_all());
        turns += run.sim.engine.pairs()[0].stats.turns;
        for block in 0..20 {
            ok(run.write_and_read(block));
        }
        ok(run.flush_all());
        let mut alone = run.clone();
        alone.lose_leg(0);
        alone.extend(50, 5);
        ok(alone.finish());
        ok(alone.crash(CutMode::DropAll, None));
        ok(run.finish());
    }
    assert!(lost > 2 && turns > 20, "{lost} {turns}");
}

/// A bad block of metadata does not count as copied, since no checksum tells what is there. It alone is
/// lacking until it is written.
#[test]
fn a_bad_block_of_metadata_is_lacking_until_it_is_written() {
    let mut lacking = 0;
    for seed in 0..6 {
        let mut run = copied(seed, |layout| layout.slot_offset - BLOCK_BYTES, BLOCK_BYTES);
        let pair = run.sim.engine.pairs()[0];
        assert_eq!(pair.stats.unreadable_blocks, 0, "{pair:?}");
        lacking += pair.stale_bytes[1];
        run.extend(50, 5);
        ok(run.finish());
    }
    assert!(lacking > 0, "it was met");
}
