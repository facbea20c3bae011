//! Can the crash tests fail? Every mutant of the engine must be caught, and the engine without one
//! must pass the same.
//!
//! Source: design, "Tests" (mutants must be caught); acceptance of the spine, line 6. A rule is
//! guarded by others, so that breaking it shows only where those do not reach: each mutant has a
//! pool and a workload that lead there.

use tandem_block::{BLOCK_BYTES, DeviceId, Drive, DurabilityClass, Duration, KIB, MIB};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::format::layout::{self, Layout};
use tandem_engine::mutant::Mutant;
use tandem_engine::{Engine, TierConfig};
use tandem_sim::Simulation;
use tandem_sim::arms::Case;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::Met;
use tandem_sim::evacuation::Plan;
use tandem_sim::leg_deaths;
use tandem_sim::pool::{SwarmConfig, Tuning};
use tandem_sim::swarm::{Failure, Run};
use tandem_sim::workload::Mix;

/// Seeds that a mutant may survive, at most.
const SEEDS: u64 = 20;

/// Crashes at every so many events, and each fork lives on once.
const OFTEN: Campaign =
    Campaign { window: ALWAYS, stride: 5, recovery_stride: 40, lives: 2, more_requests: 40 };

/// Crashes seldom: what is wrong shows while the pool serves.
const SELDOM: Campaign =
    Campaign { window: ALWAYS, stride: 200, recovery_stride: 0, lives: 1, more_requests: 1 };

/// What is done to a pool.
#[derive(Clone, Copy)]
enum Hunt {
    /// Power cuts.
    Cuts(Campaign),
    /// Power cuts together with the death of a leg, after every so many events.
    AtOnce(u64),
    /// … and the dead one is back, after every so many events.
    Returns(u64),
    /// The leg dies that the other one is copied from, after every so many events.
    DeathOfTheSource(u64),
    /// Power cuts, while each root takes the first SSD long.
    SlowRoots(Campaign),
    /// Power cuts, while each flush takes the hard drive long.
    SlowFlushes(Campaign),
    /// A root of the only SSD cannot be read once, and the power is cut again in the life after that.
    UnreadRoot,
}

impl From<Campaign> for Hunt {
    fn from(campaign: Campaign) -> Hunt {
        Hunt::Cuts(campaign)
    }
}

/// Returns how many crashes it was.
fn hunt(mutant: Option<Mutant>, config: SwarmConfig, hunt: Hunt) -> Result<u64, Failure> {
    let mut run = match hunt {
        Hunt::UnreadRoot => Run::over(config.clone(), with_unread_root(&config))?,
        Hunt::SlowRoots(_) => Run::over(config.clone(), with_slow_roots(&config))?,
        Hunt::SlowFlushes(_) => Run::over(config.clone(), with_slow_flushes(&config))?,
        _ => Run::new(config)?,
    };
    run.sim.engine.set_mutant(mutant);
    match hunt {
        Hunt::UnreadRoot => cut_twice(run),
        Hunt::Cuts(campaign) | Hunt::SlowRoots(campaign) | Hunt::SlowFlushes(campaign) => {
            Ok(campaign.run(run)?.get(Met::Crashes))
        }
        Hunt::AtOnce(stride) => Ok(leg_deaths::at_once(run, stride)?.cuts),
        Hunt::Returns(stride) => Ok(leg_deaths::returns(run, stride)?.returns),
        Hunt::DeathOfTheSource(stride) => {
            Ok(leg_deaths::death_of_the_source(run, 0, stride)?.returns)
        }
    }
}

/// Drives of which the first one gives no bytes of a root at one start. That one asks for it in halves, until
/// its first block is alone.
fn with_unread_root(config: &SwarmConfig) -> Simulation {
    let layout = first_layout(config);
    let root = layout.root_offset + config.seed % 2 * layout.root_bytes;
    let error = FaultRule {
        ops: OpFilter::Reads,
        range: Some((root, root + BLOCK_BYTES)),
        count: u64::from((layout.root_bytes / BLOCK_BYTES).ilog2()) + 1,
        ..FaultRule::once(Fault::Error)
    };
    with_rule(config, 0, error)
}

/// Drives of which the first one takes long to write a root, so that a cut often leaves it without the newest
/// one.
fn with_slow_roots(config: &SwarmConfig) -> Simulation {
    let layout = first_layout(config);
    let stall = FaultRule {
        ops: OpFilter::Writes,
        range: Some((layout.root_offset, layout.root_offset + 2 * layout.root_bytes)),
        count: u64::MAX,
        ..FaultRule::once(Fault::Stall(Duration::from_ms(40)))
    };
    with_rule(config, 0, stall)
}

/// One SSD, and a hard drive that takes long to flush.
fn with_slow_flushes(config: &SwarmConfig) -> Simulation {
    assert_eq!(config.drives, (1, 1), "the second drive is a hard drive");
    let stall = FaultRule {
        ops: OpFilter::Flushes,
        count: u64::MAX,
        ..FaultRule::once(Fault::Stall(Duration::from_ms(100)))
    };
    with_rule(config, 1, stall)
}

fn first_layout(config: &SwarmConfig) -> Layout {
    layout::plan(&config.engine(true)).expect("a valid configuration")[0]
}

fn with_rule(config: &SwarmConfig, drive: usize, rule: FaultRule) -> Simulation {
    let drives = config.drives().into_iter().zip(0..).map(|(inner, index)| {
        let script = if usize::from(index) == drive {
            FaultScript::of([rule])
        } else {
            FaultScript::default()
        };
        Box::new(Faulty::new(inner, DeviceId(index), script, config.seed)) as Box<dyn Drive>
    });
    let drives = drives.collect();
    Simulation::new(Engine::new(config.engine(true)).expect("a valid configuration"), drives, true)
}

/// Cuts the power now and then, and again at many moments of the start that misses the root, and of the
/// checkpoint that comes behind it.
fn cut_twice(mut run: Run) -> Result<u64, Failure> {
    let (mut events, mut cuts) = (0u64, 0);
    while run.step()? {
        events += 1;
        if !events.is_multiple_of(350) || run.sim.engine.stats().checkpoints < 3 {
            continue;
        }
        for within in (10..200).step_by(3) {
            run.clone().crash(CutMode::RandomSubset, Some(within))?;
            cuts += 2;
        }
    }
    Ok(cuts)
}

/// The mutant is caught by one of the first seeds, and under that seed the sound engine is not.
fn caught(mutant: Mutant, how: impl Into<Hunt>, config: impl Fn(u64) -> SwarmConfig) {
    let (how, mut survived) = (how.into(), 0);
    for seed in 0..SEEDS {
        match hunt(Some(mutant), config(seed), how) {
            Ok(crashes) => survived += crashes,
            Err(failure) => {
                let told = failure.to_string();
                println!("{mutant:?}: seed {seed}, after {survived} crashes: {told:.150}");
                assert!(
                    matches!(
                        failure,
                        Failure::Broken { .. } | Failure::Refused { .. } | Failure::Audit { .. }
                    ),
                    "caught for another reason than lost data: {told}"
                );
                hunt(None, config(seed), how)
                    .unwrap_or_else(|failure| panic!("the sound engine too: {failure}"));
                return;
            }
        }
    }
    panic!("{mutant:?} survives {SEEDS} seeds and {survived} crashes");
}

/// Whole blocks only, written and flushed.
fn plain(seed: u64, policy: &str, requests: u64, mix: Mix) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(seed, policy, requests);
    config.shape.unaligned_ppm = 0;
    config.shape.mix = mix;
    config
}

/// More data than the SSD holds, so that copies are dropped as soon as they are home.
fn crowded(seed: u64, requests: u64) -> SwarmConfig {
    let mix = Mix { read: 50_000, flush: 0, zero: 0, fua: 0 };
    let mut config = plain(seed, "ssd-first", requests, mix);
    config.drives = (1, 1);
    config.shape.depth = 4;
    config.shape.footprint_bytes = 12 * MIB;
    config.shape.length_bytes_max = 512 * KIB;
    config.shape.pause = Duration::from_us(100);
    config.tuning = Tuning {
        writeback_percent: (5, 1),
        commit_interval: Duration::from_ms(1),
        ..Tuning::default()
    };
    config
}

#[test]
fn commit_without_flush() {
    caught(Mutant::CommitWithoutFlush, OFTEN, |seed| {
        plain(seed, "ssd-first", 100, Mix { read: 0, flush: 200_000, zero: 0, fua: 0 })
    });
}

#[test]
fn early_reuse() {
    caught(Mutant::EarlyReuse, OFTEN, |seed| SwarmConfig::tiny(seed, "mios-e", 150));
}

#[test]
fn flush_without_tails() {
    caught(Mutant::FlushWithoutTails, OFTEN, |seed| {
        plain(seed, "mios-e", 100, Mix { read: 0, flush: 200_000, zero: 0, fua: 0 })
    });
}

/// Few blocks in a log of few segments.
#[test]
fn tail_by_place() {
    caught(Mutant::TailByPlace, OFTEN, |seed| SwarmConfig::cycled(seed, "mios-e", 300));
}

/// What came too late is over what was written since.
#[test]
fn late_is_newest() {
    caught(Mutant::LateIsNewest, SELDOM, |seed| {
        let mut config = SwarmConfig::late(2 * seed + 1, "tandem", 300);
        config.shape.footprint_bytes = 256 * KIB;
        config
    });
}

#[test]
fn units_without_fua() {
    caught(Mutant::UnitsWithoutFua, OFTEN, |seed| {
        plain(seed, "ssd-first", 100, Mix { read: 0, flush: 200_000, zero: 0, fua: 0 })
    });
}

#[test]
fn recovery_without_flush() {
    caught(Mutant::RecoveryWithoutFlush, OFTEN, |seed| SwarmConfig::tiny(seed, "mios-d", 150));
}

/// A home is the only recorded place of a block whose SSD copy was dropped: written over before the
/// newer version's record is durable, it takes that version away.
#[test]
fn early_home() {
    let campaign =
        Campaign { window: (300, 600), stride: 7, lives: 1, recovery_stride: 0, ..OFTEN };
    caught(Mutant::EarlyHome, campaign, |seed| {
        let mut config = crowded(seed, 200);
        // slow flushes: long between a batch and its durability
        config.tuning.ssd_latency_ns = (100_000, 3_000_000);
        config
    });
}

/// Nothing but the flush of write-back itself settles homes under ssd-first.
#[test]
fn volatile_home() {
    let campaign =
        Campaign { window: (300, 600), stride: 50, lives: 1, recovery_stride: 0, ..OFTEN };
    caught(Mutant::VolatileHome, campaign, |seed| crowded(seed, 200));
}

/// FUA alone never flushes the SSD, so nothing else settles the leaves.
#[test]
fn root_without_flush() {
    let campaign = Campaign { stride: 3, lives: 1, recovery_stride: 0, ..OFTEN };
    caught(Mutant::RootWithoutFlush, campaign, |seed| {
        let mix = Mix { read: 0, flush: 0, zero: 0, fua: 1_000_000 };
        let mut config = plain(seed, "ssd-first", 200, mix);
        config.tuning.commit_interval = Duration::from_s(10);
        config
    });
}

#[test]
fn replay_without_last() {
    caught(Mutant::ReplayWithoutLast, Campaign { stride: 1, lives: 1, ..OFTEN }, |seed| {
        plain(seed, "ssd-first", 60, Mix { read: 0, flush: 300_000, zero: 0, fua: 0 })
    });
}

/// Many reads of few blocks that are written over all the time, in runs that are trimmed when freed.
/// A tier that what is read comes to, of whole blocks that are written to meanwhile.
fn tiered(seed: u64, name: &str) -> SwarmConfig {
    let mut config = SwarmConfig::tiered(seed, "ssd-first", 300);
    config.tier = TierConfig::named(name).with("extent", 64 * KIB).with("size", 256 * KIB);
    config.shape.unaligned_ppm = 0;
    config.shape.footprint_bytes = MIB;
    config
}

#[test]
fn stale_promoting() {
    let often = Campaign { stride: 40, ..OFTEN };
    caught(Mutant::StalePromoting, often, |seed| tiered(seed, "cache-read-only"));
}

#[test]
fn evicts_volatile() {
    caught(Mutant::EvictsVolatile, OFTEN, |seed| {
        let mut config = tiered(seed, "cache-write-through-all");
        config.tier = config.tier.with("acknowledge", 1).with("detours", 1);
        config.shape.mix = Mix { read: 200_000, flush: 100_000, zero: 0, fua: 0 };
        config
    });
}

#[test]
fn reuse_under_read() {
    caught(Mutant::ReuseUnderRead, SELDOM, |seed| {
        let mix = Mix { read: 400_000, flush: 0, zero: 0, fua: 0 };
        let mut config = plain(seed, "ssd-first", 400, mix);
        config.shape.depth = 8;
        config.shape.pause = Duration::ZERO;
        config.shape.footprint_bytes = MIB;
        config.shape.length_bytes_max = 512 * KIB;
        config
    });
}

#[test]
fn early_fua() {
    caught(Mutant::EarlyFua, Campaign { stride: 1, lives: 1, ..OFTEN }, |seed| {
        plain(seed, "ssd-first", 60, Mix { read: 0, flush: 0, zero: 0, fua: 500_000 })
    });
}

#[test]
fn unordered() {
    caught(Mutant::Unordered, SELDOM, |seed| {
        let mix = Mix { read: 300_000, flush: 0, zero: 0, fua: 0 };
        let mut config = plain(seed, "mios-e", 300, mix);
        config.shape.depth = 8;
        config.shape.pause = Duration::ZERO;
        config.shape.footprint_bytes = 512 * KIB;
        config
    });
}

/// Writes that go to the SSD over blocks that were redirected before, and reads of both.
fn rereading(seed: u64) -> SwarmConfig {
    let mut config = SwarmConfig::reread(seed, "mios-d", 300);
    config.shape.unaligned_ppm = 0;
    config.shape.footprint_bytes = 512 * KIB;
    config
}

#[test]
fn stale_read_back() {
    caught(Mutant::StaleReadBack, SELDOM, rereading);
}

/// What is promoted is written over while it is moved.
#[test]
fn move_without_compare() {
    caught(Mutant::MoveWithoutCompare, SELDOM, |seed| {
        let mut config = rereading(seed);
        config.tuning.promote_after_reads = 1;
        config.tuning.ssd_latency_ns = (2_000_000, 200_000);
        config
    });
}

/// A mutant without a test of its own would never be looked for.
#[test]
fn every_mutant_has_a_test() {
    let source = include_str!("mutants.rs");
    for mutant in Mutant::ALL {
        let calls = ["caught", "caught_in_service", "caught_by"];
        let is_hunted = |call: &str| source.contains(&format!("{call}(Mutant::{mutant:?},"));
        assert!(calls.into_iter().any(is_hunted), "{mutant:?}");
    }
}

/// A FLUSH finds something else to write, and forgets what batches have changed before it.
#[test]
fn forgets_quiet_batches() {
    caught(Mutant::ForgetsQuietBatches, OFTEN, |seed| SwarmConfig::filed(seed, "ssd-first", 150));
}

/// Files come and go, and soon lie where others lay.
#[test]
fn retired_at_once() {
    caught(Mutant::RetiredAtOnce, OFTEN, |seed| SwarmConfig::filed(seed, "ssd-first", 300));
}

/// What is cloned is written to soon.
#[test]
fn writes_shared() {
    caught(Mutant::WritesShared, SELDOM, |seed| SwarmConfig::cloned(seed, "ssd-first", 150));
}

#[test]
fn links_ahead() {
    caught(Mutant::LinksAhead, OFTEN, |seed| SwarmConfig::cloned(seed, "ssd-first", 150));
}

#[test]
fn clones_volatile() {
    caught(Mutant::ClonesVolatile, OFTEN, |seed| SwarmConfig::cloned(seed, "ssd-first", 150));
}

/// A drive is replaced to the end.
fn replaced(seed: u64) -> SwarmConfig {
    let mut config = SwarmConfig::replaced(seed, "mios-d", 200);
    config.replace.as_mut().expect("a drive is replaced").then = None;
    config
}

/// Forks live on until the replacement is over.
const TO_THE_END: Campaign =
    Campaign { window: (150, 1_500), stride: 97, recovery_stride: 0, lives: 2, more_requests: 500 };

#[test]
fn replacement_single() {
    caught(Mutant::ReplacementSingle, TO_THE_END, replaced);
}

/// What of the metadata is written while a drive joins that gets a copy of it.
#[test]
fn joins_without_the_double() {
    let campaign = Campaign { window: (60, 1_500), stride: 13, ..TO_THE_END };
    caught(Mutant::ReplacementSingle, campaign, |seed| {
        // an SSD leaves
        let mut config = SwarmConfig::added(2 * (67 + seed), "mios-d", 300);
        config.replace.as_mut().expect("another one comes").then = None;
        config
    });
}

#[test]
fn replacement_without_flush() {
    caught(Mutant::ReplacementWithoutFlush, TO_THE_END, replaced);
}

#[test]
fn replacement_marks_early() {
    caught(Mutant::ReplacementMarksEarly, TO_THE_END, replaced);
}

/// The power fails soon after the successor took over.
#[test]
fn replacement_switches_unflushed() {
    let soon = Campaign { window: (150, 6_000), stride: 3, lives: 1, ..TO_THE_END };
    caught(Mutant::ReplacementSwitchesUnflushed, soon, replaced);
}

/// An SSD is drained and removed.
fn drained(seed: u64) -> SwarmConfig {
    let mut config = SwarmConfig::tiny(seed, "ssd-first", 250);
    config.drives = (2, 1);
    config.shape.depth = 8;
    config.shape.footprint_bytes = MIB;
    config.shape.unaligned_ppm = 0;
    config.shape.pause = Duration::from_us(50);
    let device = tandem_block::DeviceId((seed % 2) as u8);
    config.drain = Some(Plan { device, at: 60, cancels: None, lingers: 0 });
    config
}

/// Blocks are written over while they are moved off the drive.
#[test]
fn drain_without_compare() {
    caught(Mutant::DrainWithoutCompare, SELDOM, |seed| {
        let mut config = drained(seed);
        config.shape.footprint_bytes = 256 * KIB;
        config.shape.pause = Duration::ZERO;
        config.tuning.ssd_latency_ns = (1_000_000, 400_000);
        config
    });
}

/// The power fails after the drive was removed, and before a commit.
#[test]
fn drained_too_early() {
    caught(Mutant::DrainedTooEarly, Campaign { stride: 3, lives: 1, ..OFTEN }, drained);
}

/// A cut left one of two SSDs without the newest root, and the other one is removed before that is made up for.
#[test]
fn leaves_lagging() {
    let often = Campaign { stride: 5, recovery_stride: 0, lives: 4, more_requests: 60, ..OFTEN };
    caught(Mutant::LeavesLagging, Hunt::SlowRoots(often), |seed| {
        let mut config = SwarmConfig::drained(23 + seed, "mios-d", 200);
        config.drives = (2, 1);
        let plan = config.drain.as_mut().expect("a drive is drained");
        (plan.device, plan.cancels, plan.lingers) = (DeviceId(1), None, 0);
        config.tuning.journal_bytes = 32 * KIB; // many checkpoints
        config
    });
}

/// A hard drive is drained whose blocks are at home there alone.
#[test]
fn rehomed_volatile() {
    let lines = ["vacated/mios-d/301", "vacated/hdd-only/306"];
    caught_by(Mutant::RehomedVolatile, &lines, "is at home as [0, 0, 0, 0, 0, 0, 0, 0]");
}

/// A page of checksums leaves RAM while a checkpoint writes it, and is read again where it was.
#[test]
fn forgets_carried() {
    caught_in_service(Mutant::ForgetsCarried, &["paged/ect/2", "paged/mios-e/3"]);
}

/// What a part has not taken stands in the journal alone.
#[test]
fn part_cuts() {
    let campaign = Campaign { stride: 400, recovery_stride: 0, lives: 1, ..OFTEN };
    caught(Mutant::PartCuts, campaign, |seed| SwarmConfig::squeezed(seed, "ssd-first", 2_000));
}

/// In a run without faults no move meets damage.
#[test]
fn leaves_written() {
    let lines = ["paged/mios-e/14", "paged/mios-e/22", "paged/mios-e/31"];
    caught_by(Mutant::LeavesWritten, &lines, "and no drive had a fault");
}

/// What was written and answered while a discard over several runs was under way.
#[test]
fn gives_up_written() {
    let campaign = Campaign { stride: 7, recovery_stride: 15, more_requests: 60, ..OFTEN };
    caught(Mutant::GivesUpWritten, campaign, |seed| SwarmConfig::filed(seed, "ssd-first", 250));
}

/// A pair whose roles change often, so that the legs differ at most moments.
fn paired(seed: u64, requests: u64) -> SwarmConfig {
    let mut config = SwarmConfig::paired(seed, "ssd-first", requests);
    config.shape.mix.flush = 200_000;
    config
}

#[test]
fn write_before_mark() {
    caught(Mutant::WriteBeforeMark, OFTEN, |seed| paired(seed, 150));
}

#[test]
fn pair_flush_ignored() {
    caught(Mutant::PairFlushIgnored, OFTEN, |seed| paired(seed, 150));
}

#[test]
fn pair_alone_is_whole() {
    caught(Mutant::PairAloneIsWhole, Hunt::Returns(5), |seed| paired(seed, 100));
}

#[test]
fn pair_promise_before_record() {
    caught(Mutant::PairPromiseBeforeRecord, Hunt::DeathOfTheSource(11), |seed| paired(seed, 60));
}

/// A pair with a journal, and much to flush.
fn journaled(seed: u64, requests: u64) -> SwarmConfig {
    let mut config = SwarmConfig::journaled(seed, "ssd-first", requests);
    config.shape.mix.flush = 200_000;
    config
}

#[test]
fn pair_ack_before_journal() {
    caught(Mutant::PairAckBeforeJournal, Hunt::AtOnce(5), |seed| journaled(seed, 100));
}

/// A ring that is soon full, so that what is given up is soon written over.
#[test]
fn pair_journal_trimmed_early() {
    caught(Mutant::PairJournalTrimmedEarly, Hunt::AtOnce(5), |seed| {
        let mut config = journaled(seed, 200);
        config.shape.length_bytes_max = 128 * KIB;
        let pair = config.pair.as_mut().expect("it is a pair");
        pair.period = Duration::from_ms(10);
        pair.journal.as_mut().expect("it has a journal").capacity_bytes = 1_200 * KIB;
        config
    });
}

/// Like `caught`, by whole arms of the swarm: three volumes, hot spots, faults, restarts.
fn caught_in_service(mutant: Mutant, lines: &[&str]) {
    caught_by(mutant, lines, "");
}

/// The same. What is told of the failure has these words, so it is caught for what it does.
fn caught_by(mutant: Mutant, lines: &[&str], words: &str) {
    for line in lines {
        let mut case: Case = line.parse().expect("a line of the swarm");
        case.audits.flow = false;
        case.mutant = Some(mutant);
        if let Err(failure) = case.run() {
            let told = failure.to_string();
            println!("{mutant:?}: {line}: {told:.150}");
            assert!(told.contains(words), "caught for another reason than \"{words}\": {told}");
            case.mutant = None;
            case.run().unwrap_or_else(|failure| panic!("the sound engine too: {failure}"));
            return;
        }
    }
    panic!("{mutant:?} survives {lines:?}");
}

/// A base of a part of a block waits for its turn, and its slot is given to another volume meanwhile.
#[test]
fn base_unpinned() {
    caught_in_service(Mutant::BaseUnpinned, &["service/ssd-first/1"]);
}

/// A home counts for the version that was copied, and the slot holds a newer one: each flush is so slow that the few
/// blocks in use come back to their slots before it ends.
#[test]
fn home_by_slot() {
    caught(Mutant::HomeBySlot, Hunt::SlowFlushes(SELDOM), |seed| {
        let mix = Mix { read: 0, flush: 0, zero: 0, fua: 0 };
        let mut config = plain(6 + seed, "ssd-first", 6_000, mix);
        config.drives = (1, 1);
        config.shape.depth = 8;
        config.shape.footprint_bytes = MIB;
        config.shape.length_bytes_max = 64 * KIB;
        config.shape.pause = Duration::from_us(20);
        config.tuning = Tuning {
            writeback_percent: (0, 0),
            commit_interval: Duration::from_ms(1),
            ..Tuning::default()
        };
        config
    });
}

/// The only SSD is rolled back, and the drive that follows knows better.
#[test]
fn believes_rolled_back() {
    caught_in_service(Mutant::BelievesRolledBack, &["rolled/ssd-first/26", "rolled/ssd-first/38"]);
}

/// The start goes on with the older root. The newer one can be read again when checkpoints have written over
/// what it names.
#[test]
fn unread_root_comes_back() {
    caught(Mutant::UnreadRootComesBack, Hunt::UnreadRoot, |seed| {
        let mut config = SwarmConfig::tiny(seed, "ssd-first", 1_500);
        config.drives = (1, 1);
        config.shape.length_bytes_max = 8 * KIB;
        config.shape.footprint_bytes = 6 * MIB;
        config.shape.pause = Duration::from_us(20);
        config.shape.mix.flush = 50_000;
        config
    });
}

/// The room of an SSD that failed counts, and writes wait for it.
#[test]
fn counts_failed_room() {
    let lines = ["metadata/mios-e/62", "metadata/ssd-first/99", "metadata/mios-d/88"];
    caught_in_service(Mutant::CountsFailedRoom, &lines);
}

/// The power is cut before the root is durable that goes with a page.
#[test]
fn leaf_in_place() {
    caught(Mutant::LeafInPlace, OFTEN, |seed| SwarmConfig::tiny(10 + seed, "hdd-only", 300));
}

/// A commit of a pool of hard drives alone has failed, and FLUSH waits for ever.
#[test]
fn never_tries_again() {
    caught_by(Mutant::NeverTriesAgain, &["nth/mios-d/544", "nth/ssd-first/584"], "requests hang");
}

/// Another copy is read, newer than the fragments that are laid over it.
#[test]
fn keeps_old_fragments() {
    let lines = ["rolled/ssd-first/30463", "rolled/ssd-first/30787"];
    caught_by(Mutant::KeepsOldFragments, &lines, "read of block");
}

/// Part of a block was zeroed on a drive that needs no flush.
#[test]
fn awaits_needless_flush() {
    let lines = ["worn/ssd-first/100008", "rolled/ssd-first/100048"];
    caught_in_service(Mutant::AwaitsNeedlessFlush, &lines);
}

/// A client with a limit reads from an SSD that failed.
#[test]
fn forgets_limits() {
    let lines = ["twice/mios-e/432", "twice/mios-d/432", "twice/mios-e/100051"];
    caught_in_service(Mutant::ForgetsLimits, &lines);
}

/// A read waited for a write to shared blocks, which failed.
#[test]
fn reads_fail_with_links() {
    let lines = ["worn/ssd-first/1113", "worn/mios-d/1137", "worn/mios-e/1137"];
    caught_in_service(Mutant::ReadsFailWithLinks, &lines);
}

/// A hole is not recorded, and zeroing it is answered as durable: files that are cloned, and zeroed soon after.
#[test]
fn holes_at_once() {
    caught(Mutant::HolesAtOnce, Campaign { stride: 1, recovery_stride: 0, ..OFTEN }, |seed| {
        let mut config = SwarmConfig::cloned(seed, "ssd-first", 300);
        config.durability = DurabilityClass::Strict;
        config.shape.mix = Mix { read: 0, flush: 0, zero: 500_000, fua: 0 };
        config.shape.depth = 8;
        config.shape.footprint_bytes = 32 * KIB;
        config.shape.length_bytes_max = 16 * KIB;
        config.shape.unaligned_ppm = 0;
        config.shape.pause = Duration::from_us(10);
        config
    });
}
