//! The only SSD is gone: is everything that is left still readable, and never something else?
//!
//! Source: design decision 7 (metadata has two homes) and "The promise". A pool whose metadata replica is
//! level is served without its SSD: exactly the blocks that only the SSD held are errors, all others
//! are right. Cut at any moment, what is answered was once written to that very place. The metadata replica
//! knows the volumes from the format on, and under load that never pauses it stays within its lag.

use std::collections::{BTreeMap, BTreeSet};
use tandem_block::{
    BLOCK_BYTES, DeviceId, Duration, IoError, KIB, MIB, ObjectId, Op, Request, RequestId, Rng,
    SECTOR_BYTES, SECTORS_PER_BLOCK,
};
use tandem_drives::media::CutMode;
use tandem_engine::{EngineConfig, StartError};
use tandem_sim::campaign::MODES;
use tandem_sim::check::token;
use tandem_sim::succession::Plan;
use tandem_sim::swarm::{Run, SwarmConfig, VOLUME};
use tandem_sim::workload::Mix;

const SSD: DeviceId = DeviceId(0);

fn without_ssd(config: &SwarmConfig) -> EngineConfig {
    EngineConfig { absent: vec![SSD], ..config.engine(false) }
}

fn one_ssd(seed: u64, requests: u64) -> SwarmConfig {
    let policy = ["ssd-first", "mios-d", "mios-e"][seed as usize % 3];
    let mut config = SwarmConfig::tiny(seed, policy, requests);
    config.drives = (1, 1 + seed as usize % 2);
    config
}

/// The same pool, formatted with an empty place for an SSD and one for a hard drive.
fn with_places(mut config: SwarmConfig) -> SwarmConfig {
    let (ssds, hdds) = (config.drives.0 + 1, config.drives.1 + 1);
    config.drives = (ssds, hdds);
    config.spares = vec![DeviceId(1), DeviceId((ssds + hdds - 1) as u8)];
    config
}

fn ask(run: &mut Run, op: Op, range: (u64, u64)) -> Result<Vec<u64>, IoError> {
    let id = RequestId(1 << 50);
    let mut request = Request::new(id, VOLUME, op, range, run.sim.now);
    if op == Op::Write {
        request.payload = run.sim.payload((0..range.1 / SECTOR_BYTES).map(|i| i + 1));
    }
    run.sim.request(&request);
    loop {
        for (done, tokens) in run.sim.take_said().done {
            if done.request == id {
                return done.status.map(|()| tokens);
            }
        }
        assert!(run.sim.step(), "a request never hangs");
    }
}

fn contents(run: &mut Run) -> BTreeMap<u64, Result<Vec<u64>, IoError>> {
    let blocks = run.config().shape.volume_bytes / BLOCK_BYTES;
    (0..blocks).map(|b| (b, ask(run, Op::Read, (b * BLOCK_BYTES, BLOCK_BYTES)))).collect()
}

#[test]
fn a_level_metadata_replica_loses_what_only_the_ssd_held_and_nothing_else() {
    let (mut lost_all, mut kept_all, mut snapshots) = (0, 0, 0);
    for seed in 0..18 {
        let config = one_ssd(seed % 9, 400);
        // places for drives that may come change nothing of it
        let config = if seed < 9 { config } else { with_places(config) };
        let mut run = Run::new(config).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        run.flush_all().unwrap_or_else(|failure| panic!("{failure}"));
        while run.sim.step() {}
        let metadata_replica =
            run.sim.engine.metadata_replica().expect("a set with one SSD has a metadata replica");
        let state = run.sim.engine.debug_state();
        assert_eq!(metadata_replica.units_behind, 0, "seed {seed}: quiet makes it level; {state}");
        let before = contents(&mut run);
        while run.sim.step() {}
        let snapshots_before = run.sim.engine.stats().metadata_replica_snapshots;
        let losses = run.sim.engine.loss_without(SSD);
        let lost: u64 = losses.iter().map(|loss| loss.blocks).sum();
        let mut rng = Rng::new(seed);
        let config = without_ssd(run.config());
        if seed % 2 == 1 {
            // a clean stop leaves nothing in the journal: home checksums are in their pages alone
            run.sim.shut_down();
            while !run.sim.take_said().stopped {
                assert!(run.sim.step(), "a stop never hangs");
            }
        }
        run.sim.power_cut(config, CutMode::DropAll, &mut rng);
        run.sim.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let after = contents(&mut run);
        let mut failed = 0;
        for (block, found) in &after {
            match found {
                Ok(tokens) => {
                    assert_eq!(Ok(tokens), before[block].as_ref(), "seed {seed}, block {block}");
                }
                Err(error) => {
                    assert_eq!(*error, IoError::Dead(SSD), "seed {seed}, block {block}");
                    failed += 1;
                }
            }
        }
        assert_eq!(failed, lost, "seed {seed}: what was foretold, and no more");
        let (ssd, range) = (run.sim.engine.stats().devices[0], (0, BLOCK_BYTES));
        assert_eq!((ssd.read_requests, ssd.write_requests, ssd.flushes), (0, 0, 0));
        assert_eq!(ask(&mut run, Op::Write, range), Err(IoError::ReadOnly));
        assert_eq!(ask(&mut run, Op::Flush, (0, 0)), Ok(Vec::new()));
        lost_all += lost;
        snapshots += snapshots_before;
        kept_all +=
            after.values().filter(|f| f.as_ref().is_ok_and(|t| t.iter().any(|&t| t > 0))).count();
        // nothing was changed: with the SSD back, everything is there again
        let config = run.config().engine(false);
        run.sim.power_cut(config, CutMode::DropAll, &mut rng);
        run.sim.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(contents(&mut run), before, "seed {seed}: with the SSD back");
    }
    assert!(snapshots > 18, "{snapshots} snapshots");
    assert!(
        lost_all > 0 && kept_all > 0,
        "{lost_all} lost, {kept_all} kept: one would prove nothing"
    );
}

/// Every token that each sector may ever have held.
fn ever_written(config: &SwarmConfig) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut rng = Rng::new(config.seed);
    let mut ever: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for number in 0..config.shape.requests {
        let step = config.shape.draw(&mut rng);
        if step.op == Op::Write {
            for i in 0..step.length_bytes / SECTOR_BYTES {
                let sector = step.offset_bytes / SECTOR_BYTES + i;
                ever.entry(sector).or_default().insert(token(number, i));
            }
        }
    }
    ever
}

#[test]
fn cut_at_any_moment_only_what_was_written_there_is_answered() {
    let (mut served, mut refused, mut full) = (0, 0, 0);
    for seed in 20..29 {
        let mut run = Run::new(one_ssd(seed, 300)).expect("a pool");
        let ever = ever_written(run.config());
        let mut events = 0u64;
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {
            events += 1;
            if !events.is_multiple_of(97) {
                continue;
            }
            let mut fork = run.clone();
            let mut rng = Rng::new(seed ^ events);
            let mode = MODES[rng.below(3) as usize];
            fork.sim.power_cut(without_ssd(run.config()), mode, &mut rng);
            match fork.sim.start() {
                Ok(()) => served += 1,
                Err(StartError::JournalGap { .. } | StartError::Corrupt(_)) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("seed {seed}, event {events}: {error}"),
            }
            for (block, found) in contents(&mut fork) {
                let Ok(tokens) = found else { continue };
                for (i, token) in tokens.into_iter().enumerate() {
                    let sector = block * SECTORS_PER_BLOCK + i as u64;
                    let sound =
                        token == 0 || ever.get(&sector).is_some_and(|all| all.contains(&token));
                    assert!(sound, "seed {seed}, event {events}, sector {sector}: {token:x}");
                    full += u64::from(token != 0);
                }
            }
        }
    }
    // the one moment without a root that holds: a snapshot that outlasts the ring takes its place
    let told = format!("{served} served with {full} sectors, {refused} refused");
    assert!(served > 50 && full > 100 && refused * 50 <= served, "{told}");
}

/// Requests one behind the other, so that the pool is never quiet.
fn restless(seed: u64, requests: u64) -> SwarmConfig {
    let mut config = one_ssd(seed, requests);
    config.shape.pause = Duration::from_us(50);
    config.shape.depth = 4;
    config.shape.length_bytes_max = 8 * KIB;
    config.tuning.metadata_replica_lag = Duration::from_ms(20);
    config
}

#[test]
fn load_that_never_pauses_leaves_the_metadata_replica_within_its_lag() {
    let (mut forced, mut snapshots, mut gaps) = (0, 0, 0);
    for seed in 40..46 {
        let mut config = restless(seed, 6000);
        // seldom flushed for users' sake, and with a long journal seldom for a checkpoint's
        config.shape.mix = Mix { read: 100_000, flush: 1_000, zero: 10_000, fua: 20_000 };
        config.shape.footprint_bytes = 2 * MIB;
        config.tuning.journal_bytes = [64 * KIB, 512 * KIB][seed as usize / 3 % 2];
        let mut run = Run::new(config).expect("a pool");
        gaps += stays_within_its_lag(&mut run);
        forced += run.sim.engine.stats().metadata_replica_forced;
        // after a recovery only a snapshot makes it level
        run.flush_all().unwrap_or_else(|failure| panic!("{failure}"));
        let config = run.config().engine(false);
        run.sim.power_cut(config, CutMode::DropAll, &mut Rng::new(seed));
        run.sim.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        run.extend(3000, seed);
        gaps += stays_within_its_lag(&mut run);
        snapshots += run.sim.engine.stats().metadata_replica_snapshots;
    }
    assert!(forced > 10, "{forced} flushes");
    assert!(snapshots > 5 && gaps > 100, "{snapshots} snapshots, {gaps} events waited for one");
}

/// Runs to the end; returns after how many events it waited for a snapshot.
fn stays_within_its_lag(run: &mut Run) -> u64 {
    // what is under way when the lag is over: a command of the drive, hand-overs, pages, flushes
    let slack = Duration::from_ms(5);
    let (seed, lag) = (run.config().seed, run.config().tuning.metadata_replica_lag);
    let (mut gaps, mut moves, began) = (0, 0, run.sim.now);
    let mut missing_since = None;
    while run.step().unwrap_or_else(|failure| panic!("{failure}")) {
        let metadata_replica =
            run.sim.engine.metadata_replica().expect("a set with one SSD has a metadata replica");
        assert_eq!(metadata_replica.lag_max, lag);
        gaps += u64::from(metadata_replica.awaits_snapshot);
        // under a load that never pauses it need not be level at any moment, but it must move on
        moves += u64::from(metadata_replica.missing_since != missing_since);
        missing_since = metadata_replica.missing_since;
        let Some(since) = missing_since else { continue };
        let (behind, state) = (run.sim.now.since(since), || run.sim.engine.debug_state());
        assert!(behind < lag + slack, "seed {seed}: {behind:?} behind\n{}", state());
    }
    assert!(run.sim.now > began + lag + lag, "seed {seed}: long enough");
    let laps = run.sim.now.since(began).ns / (lag + slack).ns;
    assert!(moves >= laps, "seed {seed}: it moved on {moves} times in {laps} times its lag");
    gaps
}

#[test]
fn a_volume_made_later_is_known_to_the_metadata_replica_though_the_load_never_pauses() {
    let second = |config: &SwarmConfig, absent| {
        let mut engine = EngineConfig { absent, ..config.engine(false) };
        let mut volume = engine.volumes[0].clone();
        (volume.object, volume.name, volume.size_bytes) = (ObjectId(2), "vol1".into(), MIB);
        engine.volumes.push(volume);
        engine
    };
    // under 373 the snapshot lasts for rings of the journal: its units must not take the root's away
    for seed in (50..56).chain([373]) {
        let mut config = restless(seed, 100);
        config.tuning.metadata_replica_lag = Duration::from_s(3600); // only the change itself is a reason
        let mut run = Run::new(config).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        let mut rng = Rng::new(seed);
        run.sim.power_cut(second(run.config(), Vec::new()), MODES[seed as usize % 3], &mut rng);
        run.after_damage().unwrap_or_else(|failure| panic!("{failure}"));
        run.extend(2000, seed);
        let made = run.sim.now;
        // the commit that makes it, a checkpoint if the journal was not empty, a snapshot, two flushes
        while run.sim.now < made + Duration::from_ms(40) {
            assert!(run.step().unwrap_or_else(|failure| panic!("{failure}")), "seed {seed}: busy");
        }
        let state = run.sim.engine.debug_state();
        let config = second(run.config(), vec![SSD]);
        run.sim.power_cut(config, CutMode::DropAll, &mut rng);
        run.sim.start().unwrap_or_else(|error| panic!("seed {seed}: {error}\n{state}"));
    }
}

/// When an SSD has come to an empty place the metadata replica goes on as before: both SSDs may be lost.
#[test]
fn the_metadata_replica_stays_when_an_ssd_comes() {
    let mut lost = 0;
    for seed in 0..6 {
        let mut config = with_places(one_ssd(seed, 300));
        config.replace = Some(Plan { device: DeviceId(1), at: 40, more_bytes: 0, then: None });
        let mut run = Run::new(config).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        assert!(!run.sim.engine.devices()[1].is_gone(), "seed {seed}: it came");
        run.extend(200, seed);
        while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        run.flush_all().unwrap_or_else(|failure| panic!("{failure}"));
        while run.sim.step() {}
        let state = run.sim.engine.debug_state();
        let metadata_replica = run.sim.engine.metadata_replica().expect("it follows still");
        assert_eq!(metadata_replica.units_behind, 0, "seed {seed}: quiet makes it level; {state}");
        let before = contents(&mut run);
        while run.sim.step() {}
        let mut config = without_ssd(run.config());
        (config.absent, config.gone) = (vec![SSD, DeviceId(1)], run.config().spares[1..].to_vec());
        run.sim.power_cut(config, CutMode::DropAll, &mut Rng::new(seed));
        run.sim.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (block, found) in contents(&mut run) {
            match found {
                Ok(tokens) => {
                    assert_eq!(Ok(&tokens), before[&block].as_ref(), "seed {seed}, block {block}");
                }
                Err(IoError::Dead(DeviceId(0 | 1))) => lost += 1,
                Err(other) => panic!("seed {seed}, block {block}: {other}"),
            }
        }
    }
    assert!(lost > 0, "some lay on the SSDs alone");
}

#[test]
fn without_any_metadata_nothing_is_served() {
    let mut run = Run::new(one_ssd(1, 10)).expect("a pool");
    while run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
    let all = (0..run.config().drives.0 + run.config().drives.1).map(|i| DeviceId(i as u8));
    let config = EngineConfig { absent: all.collect(), ..run.config().engine(false) };
    run.sim.power_cut(config, CutMode::DropAll, &mut Rng::new(1));
    assert_eq!(run.sim.start(), Err(StartError::NoMetadata));
}
