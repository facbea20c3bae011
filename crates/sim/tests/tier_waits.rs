//! Who waits for whom, where tiers move data under a load that never pauses?
//!
//! Source: requirements L13, L15, L19, B8; [LORIS §II, §IV]. One client that asks again at once leaves a
//! hard drive no pause, and still what is cold must leave, users' writes must not wait for all that an
//! interval brings, and a tier may say that writes wait for the hard drive or for both drives.

use tandem_block::{Arrival, GIB, Instant, KIB, MIB, ObjectId, Op, RequestType, Rng, StreamId};
use tandem_engine::stats::recorder::served_index;
use tandem_engine::{ServedFrom, SteerConfig, TierConfig};
use tandem_sim::replay::{DriveChoice, ReplayConfig, RunResult, Survey, plan, replay};

const EXTENT_BYTES: u64 = 64 * KIB;
/// Extents that the workloads touch: 256 MiB.
const EXTENTS: u64 = 4096;

fn tier(name: &str) -> TierConfig {
    TierConfig::named(name).with("extent", EXTENT_BYTES).with("size", 64 * MIB).with("collector", 0)
}

fn config(tier: TierConfig) -> ReplayConfig {
    ReplayConfig {
        tier,
        closed_loop: Some(1),
        ..ReplayConfig::of(
            SteerConfig::named("ssd-first"),
            vec![DriveChoice::shipped("vertex3", Some(2 * GIB))],
            vec![DriveChoice::shipped("wd5000aaks", None)],
        )
    }
}

fn whole_extent(op: Op, extent: u64) -> Arrival {
    Arrival {
        at: Instant::ZERO,
        object: ObjectId(0),
        op,
        offset_bytes: extent * EXTENT_BYTES,
        length_bytes: EXTENT_BYTES,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    }
}

fn page(op: Op, extent: u64) -> Arrival {
    Arrival { length_bytes: 4 * KIB, ..whole_extent(op, extent) }
}

/// Each extent once, then `run`, of which results tell.
fn behind_warm_up(config: &ReplayConfig, run: impl Iterator<Item = Arrival>) -> RunResult {
    let mut arrivals: Vec<Arrival> = (0..EXTENTS).map(|e| whole_extent(Op::Write, e)).collect();
    let warm_up_requests = arrivals.len() as u64;
    arrivals.extend(run);
    for (number, arrival) in (0..).zip(&mut arrivals) {
        arrival.at = Instant::from_ns(number * 1000);
    }
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    survey.warm_up_requests = warm_up_requests;
    let plan = plan(config, &survey).expect("it fits");
    replay(config, &plan, arrivals.into_iter()).expect("it runs")
}

/// Pages anywhere, reads and writes in turn.
fn mixed(count: u64) -> impl Iterator<Item = Arrival> {
    let mut rng = Rng::new(5);
    (0..count).map(move |number| {
        let op = if number.is_multiple_of(2) { Op::Read } else { Op::Write };
        page(op, rng.below(EXTENTS))
    })
}

/// Writes that found no room went to the hard drive, and were demand there: nothing left it for them, and
/// nothing ever made room.
#[test]
fn what_is_cold_leaves_under_a_load_that_never_pauses() {
    let mut rng = Rng::new(5);
    // more extents than may be on their way out at once
    let writes = (0..20_000).map(move |_| page(Op::Write, rng.below(EXTENTS)));
    let tier = tier("cold-dst-plain").with("extent", 16 * KIB);
    let result = behind_warm_up(&config(tier), writes);
    let (tiers, elapsed_ms) = (result.stats.tiers, result.elapsed_ns / 1_000_000);
    let demoted = tiers.demoted_blocks / 4;
    // each is a write elsewhere, which takes the drive some 3 ms: a third of its time at least
    assert!(demoted > 500 && demoted * 9 > elapsed_ms, "{demoted} in {elapsed_ms} ms: {tiers:?}");
}

#[test]
fn a_write_that_may_not_go_around_waits_for_the_hard_drive() {
    let [detoured, waited] = [0, 1].map(|detours| {
        behind_warm_up(&config(tier("hot-dst").with("detours", detours)), mixed(4000))
    });
    assert!(detoured.stats.tiers.strays > 100, "{:?}", detoured.stats.tiers);
    assert_eq!(waited.stats.tiers.strays, 0, "{:?}", waited.stats.tiers);
    let mean = |result: &RunResult| result.latencies.write.total.mean_ns();
    assert!(mean(&waited) > mean(&detoured), "{} {}", mean(&waited), mean(&detoured));
}

/// Four extents in eight are held and written to: as write-through-update both places have what was
/// written before its user hears of it. The log of the hard drive takes it, so nobody waits for a home or a flush.
#[test]
fn a_write_for_both_places_waits_for_both_if_its_tier_says_so() {
    let results = [0, 1].map(|acknowledge| {
        let tier = tier("cache-write-through-all").with("acknowledge", acknowledge);
        let mut rng = Rng::new(5);
        let writes = (0..1000).map(move |_| page(Op::Write, rng.below(64)));
        behind_warm_up(&config(tier), writes)
    });
    let mean_us = results.each_ref().map(|result| result.latencies.write.total.mean_ns() / 1000);
    assert!(mean_us[0] < 500, "the SSD alone: {mean_us:?} us");
    // a write to the log of the hard drive, and one to the SSD behind it
    assert!(mean_us[1] > 2 * mean_us[0] && mean_us[1] < 1000, "both: {mean_us:?} us");
    let stats = &results[1].stats;
    assert!(stats.redirected.0 >= 990, "logs took nearly all: {:?}", stats.redirected);
    assert!(stats.copies_made + stats.copies_forgone < 10, "homes were written: {stats:?}");
}

/// Each of 500 extents is read once and comes: with the user's read, or with another one of the hard drive.
#[test]
fn what_a_read_brings_is_read_again_if_its_tier_says_so() {
    let [with_it, again] = [0, 1].map(|reread| {
        let tier = tier("hot-dst").with("reread", reread);
        let reads = (0..500).map(|extent| whole_extent(Op::Read, extent));
        behind_warm_up(&config(tier), reads)
    });
    let rode = [&with_it, &again].map(|result| result.stats.tiers.rode);
    assert!(rode[0] > 450 && rode[1] == 0, "{rode:?}");
    let came = [&with_it, &again].map(|result| result.stats.tiers.came_blocks / 16);
    assert!(came.iter().all(|came| *came > 400), "{came:?}");
    let reads = [&with_it, &again].map(|result| result.devices[1].stats.read_requests);
    assert!(reads[1] > reads[0] + 400, "{reads:?}");
}

/// Thousands of extents come at an interval, one read behind the other: a write that came then waited for
/// all of them.
#[test]
fn users_writes_do_not_wait_for_what_an_interval_brings() {
    let tier = tier("hot-dst").with("detours", 1).with("interval", 2_000_000_000);
    let result = behind_warm_up(&config(tier), mixed(8000));
    assert!(result.stats.tiers.came_blocks > 10_000, "{:?}", result.stats.tiers);
    let worst_ms = result.latencies.write.total.max_ns() / 1_000_000;
    assert!(worst_ms < 1000, "a write waited for {worst_ms} ms");
}

#[test]
fn what_was_made_ahead_can_be_taken_to_have_gone_home() {
    let reads = || (0..EXTENTS).map(|extent| page(Op::Read, extent));
    let from = |at_home| {
        let config = ReplayConfig { at_home, ..config(TierConfig::default()) };
        let steer = SteerConfig::named("hdd-only");
        let result = behind_warm_up(&ReplayConfig { steer, ..config }, reads());
        [ServedFrom::HddLog, ServedFrom::HddHome]
            .map(|place| result.latencies.read_from[served_index(place)].count())
    };
    let (there, home) = (from(false), from(true));
    assert!(there[0] > EXTENTS / 2 && there[1] == 0, "{there:?}");
    assert!(home[1] > EXTENTS * 9 / 10, "{home:?}");
}
