//! Do the policies of peers do what they are for? Each in a small replay, beside `ssd-first`.
//!
//! Source: requirements P17, P19, P20. What they decide is tested beside each; this is what comes of it.

use tandem_block::{Arrival, GIB, Instant, KIB, MIB, ObjectId, Op, RequestType, StreamId};
use tandem_engine::{Role, ServedFrom, SteerConfig, TierConfig};
use tandem_sim::replay::{
    DriveChoice, ReadBack, ReplayConfig, Resident, RunResult, Survey, plan, replay,
};

const MS: u64 = 1_000_000;

fn config(steer: SteerConfig) -> ReplayConfig {
    ReplayConfig {
        // reads show where data lies, and not what is in RAM
        read_back: ReadBack { bytes: Some(0), promote_after_reads: None },
        ..ReplayConfig::of(
            steer,
            vec![DriveChoice::shipped("960evo", Some(2 * GIB))],
            vec![DriveChoice::shipped("wd100efax", Some(16 * GIB))],
        )
    }
}

fn named(policy: &str) -> ReplayConfig {
    config(SteerConfig::named(policy))
}

fn arrival(at_ns: u64, op: Op, offset_bytes: u64, length_bytes: u64) -> Arrival {
    Arrival {
        at: Instant::from_ns(at_ns),
        object: ObjectId(0),
        op,
        offset_bytes,
        length_bytes,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    }
}

fn run(config: &ReplayConfig, arrivals: &[Arrival]) -> RunResult {
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let plan = plan(config, &survey).expect("it fits");
    let result = replay(config, &plan, arrivals.iter().copied()).expect("it runs");
    assert_eq!(result.latencies.errors, 0);
    result
}

/// Reads that this place served.
fn reads_from(result: &RunResult, from: ServedFrom) -> u64 {
    let at = match from {
        ServedFrom::Ram => 0,
        ServedFrom::Ssd => 1,
        ServedFrom::SsdCopy => 2,
        ServedFrom::HddLog => 3,
        ServedFrom::HddHome => 4,
    };
    result.latencies.read_from[at].count()
}

fn ssd_written(result: &RunResult) -> u64 {
    let ssds = result.devices.iter().filter(|device| device.role == Role::Ssd);
    ssds.map(|device| device.stats.written_bytes()).sum()
}

#[test]
fn p19_a_long_write_goes_to_the_hard_drive_unless_it_is_flushed_in_between() {
    for (policy, flushes, least, most) in
        [("ziggurat", false, 90, 96), ("ziggurat", true, 0, 0), ("ssd-first", false, 0, 0)]
    {
        let mut arrivals = Vec::new();
        for n in 0..100 {
            arrivals.push(arrival(n * 20 * MS, Op::Write, n * MIB, MIB));
            if flushes {
                arrivals.push(arrival((n * 20 + 10) * MS, Op::Flush, 0, 0));
            }
        }
        let redirected = run(&named(policy), &arrivals).stats.redirected.0;
        assert!((least..=most).contains(&redirected), "{policy} {flushes}: {redirected}");
    }
}

/// 4 MiB are written ten times over within a second, and read before the log has aged and behind that.
#[test]
fn p17_what_is_overwritten_in_the_log_never_comes_to_the_ssd() {
    let mut arrivals = Vec::new();
    for n in 0..10 * 64 {
        arrivals.push(arrival(n * MS, Op::Write, n % 64 * 64 * KIB, 64 * KIB));
    }
    let reads = |at_s: u64| {
        (0..20).map(move |n| arrival((at_s * 1_000 + n * 20) * MS, Op::Read, n * 64 * KIB, 4 * KIB))
    };
    arrivals.extend(reads(3).chain(reads(20)));
    let second = 1_000 * MS;
    let tier =
        TierConfig::named("griffin").with("log_age", 10 * second).with("log_reads", 1_000_000);
    let logged = run(&ReplayConfig { tier, ..named("ssd-first") }, &arrivals);
    let first = run(&named("ssd-first"), &arrivals);
    assert_eq!((logged.stats.redirected.0, first.stats.redirected.0), (10 * 64, 0));
    assert_eq!(reads_from(&logged, ServedFrom::HddLog), 20, "before it has aged");
    assert_eq!(reads_from(&logged, ServedFrom::Ssd), 20, "behind that");
    assert_eq!(logged.stats.tiers.came_blocks, 64 * 16, "each block once");
    assert!(ssd_written(&first) > 40 * MIB, "{}", ssd_written(&first));
    assert!(ssd_written(&logged) < 8 * MIB, "{}", ssd_written(&logged));
}

/// Reads of what an SSD and a hard drive both have.
fn mirrored_reads(interval_ns: u64, length_bytes: u64, count: u64) -> Vec<Arrival> {
    let place = |n: u64| n * 7 % 256 * MIB;
    (0..count).map(|n| arrival(n * interval_ns, Op::Read, place(n), length_bytes)).collect()
}

#[test]
fn p20_nhc_tries_how_much_the_hard_drive_serves() {
    let arrivals = mirrored_reads(100_000, 4 * KIB, 10_000);
    for (policy, serves) in [("nhc", true), ("ssd-first", false)] {
        let config = ReplayConfig { resident: Resident::Ssd, ..named(policy) };
        let result = run(&config, &arrivals);
        let (ssd, hdd) =
            (reads_from(&result, ServedFrom::SsdCopy), reads_from(&result, ServedFrom::HddHome));
        assert_eq!((ssd + hdd, hdd > 0), (10_000, serves), "{policy}: {hdd}");
        assert!(hdd < 1_000, "{policy}: {hdd}");
    }
}

#[test]
fn p20_most_sends_reads_to_the_hard_drive_while_the_ssd_is_slower() {
    // 960 EVO: 3.2 GB/s; 1 MiB every 200 us is more, every 2 ms is less
    for (policy, interval_ns, serves) in
        [("most", 200_000, true), ("most", 2_000_000, false), ("ssd-first", 200_000, false)]
    {
        let arrivals = mirrored_reads(interval_ns, MIB, 1_000_000_000 / interval_ns);
        let config = ReplayConfig { resident: Resident::Ssd, ..named(policy) };
        let hdd = reads_from(&run(&config, &arrivals), ServedFrom::HddHome);
        assert_eq!(hdd > 0, serves, "{policy} {interval_ns}: {hdd}");
    }
}
