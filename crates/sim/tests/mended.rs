//! Do engine bugs that were found and mended stay mended? One test each, by name.
//!
//! Source: what the swarm found (docs/TESTING.md). Each test was seen to fail with its mending undone.

use tandem_block::{
    BLOCK_BYTES, DeviceId, Duration, Instant, IoError, KIB, MIB, Op, Request, RequestId, Rng,
};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::format::layout::{self, Layout};
use tandem_engine::format::pointer::PAGE_BYTES;
use tandem_engine::{Engine, EngineConfig, Placement, StartError};
use tandem_sim::Simulation;
use tandem_sim::swarm::{Run, SwarmConfig, VOLUME};

/// When faults begin: after the pool was formatted.
const FROM: Instant = Instant::from_ns(3_000_000);

fn layouts(config: &SwarmConfig) -> Vec<Layout> {
    layout::plan(&config.engine(true)).expect("a valid configuration")
}

/// A run over drives of which one follows a script.
fn run_with(config: &SwarmConfig, target: usize, script: &FaultScript) -> Run {
    let drives = config.drives().into_iter().enumerate().map(|(i, drive)| {
        let script = if i == target { script.clone() } else { FaultScript::default() };
        let drive = Faulty::new(drive, DeviceId(i as u8), script, config.seed);
        Box::new(drive) as Box<dyn tandem_block::Drive>
    });
    let drives = drives.collect();
    let engine = Engine::new(config.engine(true)).expect("a valid configuration");
    Run::over(config.clone(), Simulation::new(engine, drives, true)).expect("no faults yet")
}

/// One flush, and how it ended.
fn flush(sim: &mut Simulation) -> Result<(), IoError> {
    let id = RequestId(1 << 42);
    sim.request(&Request::new(id, VOLUME, Op::Flush, (0, 0), sim.now));
    loop {
        let ended = sim.take_said().done.into_iter().find(|(done, _)| done.request == id);
        if let Some((done, _)) = ended {
            return done.status;
        }
        assert!(sim.step(), "a flush never hangs: {}", sim.engine.debug_state());
    }
}

/// A commit that is due and waits for a checkpoint to make room asked to be woken at once, and again,
/// for ever. `Run::step` fails where time stands still.
#[test]
fn a_commit_that_waits_for_a_checkpoint_does_not_spin() {
    let mut turns = 0;
    for seed in 0..12 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (1, 1);
        config.shape.depth = 8;
        config.shape.length_bytes_max = 4 * KIB;
        config.shape.footprint_bytes = 6 * MIB;
        config.shape.pause = Duration::ZERO;
        config.shape.mix.flush = 2_000;
        config.shape.unaligned_ppm = 1_000_000; // records of fragments are long
        config.shape.mix.fua = 0;
        config.tuning.journal_bytes = 32 * KIB;
        let layout = layouts(&config)[0];
        let pages = (layout.area_offset, layout.area_offset + layout.area_pages * PAGE_BYTES);
        let stall = FaultRule {
            ops: OpFilter::Writes,
            range: Some(pages),
            from: FROM,
            count: u64::MAX,
            ..FaultRule::once(Fault::Stall(Duration::from_ms(40)))
        };
        let mut run = run_with(&config, 0, &FaultScript::of([stall]));
        run.finish().unwrap_or_else(|failure| panic!("{failure}"));
        turns += run.sim.engine.journal_turns();
    }
    assert!(turns > 12, "the journal was written over {turns} times");
}

/// An SSD that was taken out of service still holds acknowledged bytes in its buffer. A FLUSH that did
/// not flush it too was answered with success, and a power cut took them.
#[test]
fn a_flush_covers_what_a_faulted_ssd_holds() {
    let mut faulted = 0;
    for seed in 0..40 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 400);
        config.drives = (2, 1);
        config.shape.depth = 8;
        config.shape.mix.flush = 20_000;
        let layout = layouts(&config)[1];
        let journal = (layout.journal_offset, layout.journal_offset + layout.journal_bytes);
        let error = FaultRule {
            ops: OpFilter::Writes,
            range: Some(journal),
            from: FROM,
            skip: seed % 5,
            ..FaultRule::once(Fault::Error)
        };
        let mut run = run_with(&config, 1, &FaultScript::of([error]));
        run.allow_failures();
        let is_faulted = |run: &Run| run.sim.engine.stats().faulted_drives > 0;
        while !is_faulted(&run) && run.step().unwrap_or_else(|failure| panic!("{failure}")) {}
        if !is_faulted(&run) {
            continue;
        }
        faulted += 1;
        run.flush_all().unwrap_or_else(|failure| panic!("{failure}"));
        // the fault is over, and it damaged nothing but a unit that stands a second time
        run.forbid_failures();
        run.crash(CutMode::DropAll, None)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
    assert!(faulted > 20, "only {faulted} runs met the fault");
}

/// A checkpoint that one of two SSDs cannot write took all durability with it; it goes on with the
/// other SSD instead.
#[test]
fn a_checkpoint_that_fails_on_one_of_two_ssds_goes_on_with_the_other() {
    for (seed, target) in (0..12).zip([0, 1].into_iter().cycle()) {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (2, 1);
        config.shape.length_bytes_max = 8 * KIB;
        config.shape.footprint_bytes = 6 * MIB;
        config.shape.pause = Duration::from_us(20);
        let layout = layouts(&config)[target];
        // roots and pages lie side by side; the third command there is of a checkpoint under way
        let error = FaultRule {
            ops: OpFilter::Writes,
            range: Some((layout.root_offset, layout.area_offset + layout.area_pages * PAGE_BYTES)),
            from: FROM,
            skip: seed % 3,
            ..FaultRule::once(Fault::Error)
        };
        let mut run = run_with(&config, target, &FaultScript::of([error]));
        run.allow_failures();
        while run.sim.hits().is_empty() {
            let more = run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
            assert!(more, "seed {seed}: no checkpoint met the fault");
        }
        let before = run.sim.engine.stats().checkpoints;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {}
        assert_eq!(flush(&mut run.sim), Ok(()), "seed {seed}: the other SSD is sound");
        let after = run.sim.engine.stats().checkpoints;
        assert!(after > before + 1, "seed {seed}: {before} checkpoints, then {after}");
        assert_eq!(run.sim.engine.stats().faulted_drives, 1);
        run.forbid_failures();
        run.crash(CutMode::DropAll, None)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// One of two SSDs was silent in a flush, and the other one was full. The same write was refused and sent out
/// again for ever, within one event.
#[test]
fn a_write_that_nobody_has_room_for_is_refused_once() {
    let mut refused = 0;
    for seed in 0..6 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (2, 0);
        config.shape.volume_bytes = config.space_bytes() / MIB * MIB;
        config.shape.footprint_bytes = config.shape.volume_bytes;
        config.shape.length_bytes_max = 256 * KIB;
        config.shape.pause = Duration::ZERO;
        config.shape.mix.read = 0;
        let silent = FaultRule {
            ops: OpFilter::Flushes,
            from: FROM,
            skip: 2 + seed,
            ..FaultRule::once(Fault::Never)
        };
        let mut run = run_with(&config, 1, &FaultScript::of([silent]));
        run.allow_failures();
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {}
        refused += run.sim.engine.stats().refused_without_room;
    }
    assert!(refused > 0, "no write was refused, so nothing was tried");
}

/// Log GC whose move waited for the drive did not hurry when the log filled meanwhile: users wanted the
/// drive all the more, and it waited for them to leave.
#[test]
fn log_gc_is_not_short_of_space_by_users_who_find_the_log_full() {
    for seed in 0..8 {
        let mut config = SwarmConfig::logged(seed, "mios-e", 3_000);
        config.drives = (1, 1);
        config.shape.pause = Duration::from_us(20);
        config.shape.mix.read = 300_000;
        let mut run = run_with(&config, 0, &FaultScript::default());
        let mut was_full = false;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            was_full |= run.sim.engine.activity().logs_full;
        }
        // half a segment is little: 150 KiB and more are moved, and 4 KiB at most were before
        let moved = run.sim.engine.stats().devices[1].gc_bytes;
        assert!(was_full && moved >= 64 * KIB, "seed {seed}: {moved} bytes were moved home");
    }
}

/// Without an SSD a write with FUA goes to a log. Its record said that the place had not been flushed,
/// so recovery did not believe it and went back to an older version.
#[test]
fn fua_survives_where_there_is_no_ssd() {
    for seed in 0..24 {
        let policy = ["ssd-first", "mios-d", "mios-e"][seed as usize % 3];
        let mut config = SwarmConfig::tiny(seed, policy, 300);
        config.drives = (0, 1 + seed as usize % 2);
        config.shape.volume_bytes = 4 * MIB;
        config.shape.footprint_bytes = 512 * KIB;
        config.shape.length_bytes_max = 128 * KIB;
        config.shape.mix.flush = 0;
        config.shape.mix.fua = 100_000;
        config.tuning.log_percent = 60;
        let mut run = Run::new(config).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {}
        run.crash(CutMode::RandomSubset, None)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// The copy of a tail failed once: the batch of that commit was dropped, and the next FLUSH promised
/// blocks that no record named.
#[test]
fn a_tail_copy_that_fails_is_no_reason_to_promise_more_than_is_recorded() {
    let (mut failed, mut copied) = (0, 0);
    for seed in 0..120 {
        let mut config = SwarmConfig::logged(seed, "mios-e", 150);
        config.drives = (1, 1);
        config.tuning.flush_ns = 20_000_000; // tails are copied
        let slots = layouts(&config)[0].slot_offset;
        let rule = FaultRule {
            ops: OpFilter::Writes,
            from: FROM,
            range: Some((slots, config.sizes.0)),
            skip: seed * 7 % 150,
            ..FaultRule::once(Fault::Error)
        };
        let mut run = run_with(&config, 0, &FaultScript::of([rule]));
        run.allow_failures();
        while run.step().expect("what fails is explained") {}
        let stats = run.sim.engine.stats();
        failed += stats.devices[0].errors;
        copied += stats.devices[0].tail_bytes;
        let _ = flush(&mut run.sim); // it may meet the last of the errors
        run.flush_all().expect("an answer");
        run.forbid_failures();
        run.crash(CutMode::DropAll, None).expect("all that a flush has promised is there");
    }
    assert!(failed > 60 && copied > 20 * MIB, "{failed} errors, {copied} bytes of tails");
}

/// A place of a log was used again before its drive was flushed, for the same block. Both versions were
/// still in the tail, and the older one was copied to the SSD as if it were the block's.
#[test]
fn a_tail_that_holds_two_versions_of_a_block_in_one_place_copies_the_newer() {
    let mut copied = 0;
    for seed in 0..60 {
        let mut config = SwarmConfig::cycled(seed, "mios-e", 300);
        config.drives = (1, 1);
        config.shape.unaligned_ppm = 0;
        let mut run = run_with(&config, 0, &FaultScript::default());
        let mut commits = 0;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            let now = run.sim.engine.stats().commits;
            if now > std::mem::replace(&mut commits, now) {
                let mut fork = run.clone();
                fork.crash(CutMode::DropAll, None).unwrap_or_else(|failure| panic!("{failure}"));
                assert_eq!(fork.sim.engine.stats().checksum_errors, 0, "seed {seed}");
            }
        }
        copied += run.sim.engine.stats().devices[0].tail_bytes;
    }
    assert!(copied > MIB, "{copied} bytes of tails");
}

/// A pool under fixed placement, of which one drive fails one write.
fn fixed_pool(policy: &str, drives: (usize, usize), target: usize, fault: Fault) -> Simulation {
    let mut config = SwarmConfig::tiny(3, policy, 0);
    config.drives = drives;
    config.sizes = (4 * MIB, 24 * MIB);
    let mut engine = EngineConfig {
        placement: Placement::Fixed,
        contents: false,
        deadlines: vec![Duration::from_s(1); drives.0 + drives.1],
        ..config.engine(true)
    };
    engine.volumes[0].size_bytes = MIB;
    let rule = FaultRule { ops: OpFilter::Writes, ..FaultRule::once(fault) };
    let drives = config.drives().into_iter().enumerate().map(|(i, drive)| {
        let rules = if i == target { vec![rule] } else { Vec::new() };
        let drive = Faulty::new(drive, DeviceId(i as u8), FaultScript::of(rules), config.seed);
        Box::new(drive) as Box<dyn tandem_block::Drive>
    });
    let engine = Engine::new(engine).expect("a valid configuration");
    let mut sim = Simulation::new(engine, drives.collect(), false);
    sim.start().expect("no faults yet");
    sim
}

fn write_fixed(sim: &mut Simulation) -> Result<(), IoError> {
    let id = RequestId(1);
    let mut request = Request::new(id, VOLUME, Op::Write, (0, 4 * KIB), sim.now);
    request.payload = sim.payload((0..8).map(|_| 1));
    sim.request(&request);
    loop {
        let ended = sim.take_said().done.into_iter().find(|(done, _)| done.request == id);
        if let Some((done, _)) = ended {
            return done.status;
        }
        let waits = sim.now < Instant::ZERO + Duration::from_s(60);
        assert!(waits && sim.step(), "a write never hangs: {}", sim.engine.debug_state());
    }
}

/// Under fixed placement SSDs have no slots. A write that a log, or an SSD, had failed waited for one for ever.
#[test]
fn a_write_that_fails_under_fixed_placement_waits_for_no_slot() {
    let mut sim = fixed_pool("hdd-only", (1, 1), 1, Fault::Error);
    assert_eq!(write_fixed(&mut sim), Ok(()), "its place on the SSD takes it");
    assert_eq!(sim.engine.stats().devices[1].errors, 1, "the log was asked first");
    let mut sim = fixed_pool("ssd-first", (2, 1), 0, Fault::Never);
    let silent = Err(IoError::NoAnswer(DeviceId(0)));
    assert_eq!(write_fixed(&mut sim), silent, "another SSD has no place for it");
}

/// The first block of a root gives no bytes at one start, however often that one asks: the root as a whole is
/// halved until the block is alone.
fn unread_once(layout: &Layout, copy: u64) -> FaultRule {
    let root = layout.root_offset + copy * layout.root_bytes;
    FaultRule {
        ops: OpFilter::Reads,
        range: Some((root, root + BLOCK_BYTES)),
        from: FROM,
        count: u64::from((layout.root_bytes / BLOCK_BYTES).ilog2()) + 1,
        ..FaultRule::once(Fault::Error)
    }
}

/// The newest root of the only SSD could not be read once. The start went on with the older one, whose journal
/// was written over since, and called the drive rolled back: "put the newer state back".
#[test]
fn a_root_that_cannot_be_read_is_no_drive_that_was_rolled_back() {
    let (mut refused, mut served) = (0, 0);
    for seed in 0..8 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (1, 1);
        config.shape.length_bytes_max = 8 * KIB;
        config.shape.footprint_bytes = 6 * MIB;
        config.shape.pause = Duration::from_us(20);
        config.shape.mix.flush = 50_000;
        let error = unread_once(&layouts(&config)[0], seed % 2);
        let mut run = run_with(&config, 0, &FaultScript::of([error]));
        let mut events = 0;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            events += 1;
            if events % 150 > 0 || run.sim.engine.stats().checkpoints < 3 {
                continue;
            }
            let (mut cut, mut rng) = (run.sim.clone(), Rng::new(events));
            cut.power_cut(config.engine(false), CutMode::DropAll, &mut rng);
            match cut.start() {
                Ok(()) => served += 1,
                Err(StartError::RootUnreadable { device: 0, found, .. }) => {
                    refused += 1;
                    assert!(!found.is_empty());
                    cut.power_cut(config.engine(false), CutMode::DropAll, &mut rng);
                    assert_eq!(cut.start(), Ok(()), "seed {seed}: the error was there once");
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
            let reads = error.count as usize;
            assert_eq!(cut.hits().len(), reads, "seed {seed}: the root was asked for in parts");
        }
    }
    assert!(refused >= 10 && served >= 10, "{refused} refused, {served} served");
}

/// A block behind the end of a root, and a root that cannot be read when it is asked for first, cost nothing. The
/// root counted as unread then, for ever in the first case.
#[test]
fn a_root_is_read_around_what_gives_no_bytes() {
    let mut starts = 0;
    for seed in 0..8 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (1, 1);
        let layout = layouts(&config)[0];
        let root = layout.root_offset + seed / 2 % 2 * layout.root_bytes;
        let last = (root + layout.root_bytes - BLOCK_BYTES, root + layout.root_bytes);
        let bad = FaultRule { count: u64::MAX, range: Some(last), ..unread_once(&layout, 0) };
        let whole = Some((root, root + layout.root_bytes));
        let first = FaultRule { count: 1, range: whole, ..unread_once(&layout, 0) };
        let error = if seed % 2 == 0 { bad } else { first };
        let mut run = run_with(&config, 0, &FaultScript::of([error]));
        let mut events = 0u64;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            events += 1;
            if !events.is_multiple_of(200) || run.sim.engine.stats().checkpoints < 2 {
                continue;
            }
            let (mut cut, mut rng) = (run.sim.clone(), Rng::new(events));
            cut.power_cut(config.engine(false), CutMode::DropAll, &mut rng);
            assert_eq!(cut.start(), Ok(()), "seed {seed}, event {events}");
            assert!(!cut.hits().is_empty(), "seed {seed}: the root was asked for");
            starts += 1;
        }
    }
    assert!(starts > 20, "{starts} starts");
}

/// An SSD gave no bytes of a root, and the other one had everything. The first one lags from then on: nothing
/// has to be erased on it, and no later start believes its root.
#[test]
fn a_root_that_one_of_two_ssds_cannot_read_stops_nothing() {
    let mut cuts = 0;
    for seed in 0..6 {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_000);
        config.drives = (2, 1);
        config.shape.length_bytes_max = 8 * KIB;
        config.shape.footprint_bytes = 6 * MIB;
        config.shape.pause = Duration::from_us(20);
        config.shape.mix.flush = 50_000;
        let target = (seed / 2 % 2) as usize;
        let error = unread_once(&layouts(&config)[target], seed % 2);
        let mut run = run_with(&config, target, &FaultScript::of([error]));
        let mut events = 0u64;
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {
            events += 1;
            if !events.is_multiple_of(400) || run.sim.engine.stats().checkpoints < 3 {
                continue;
            }
            let once = run.clone().crash(CutMode::DropAll, None);
            once.unwrap_or_else(|failure| panic!("seed {seed}, event {events}: {failure}"));
            for within in (10..200).step_by(7) {
                let again = run.clone().crash(CutMode::RandomSubset, Some(within));
                again
                    .unwrap_or_else(|failure| panic!("seed {seed}, {events}, {within}: {failure}"));
                cuts += 1;
            }
        }
    }
    assert!(cuts > 200, "{cuts} cuts");
}
