//! Does a replay begin, count and end as it says?

use super::*;
use tandem_block::{
    Arrival, DriveOp, DriveOpKind, GIB, Instant, MIB, ObjectId, Op, RequestType, Rng, StreamId,
};
use tandem_engine::{Placement, Role, SteerConfig};

fn config(policy: &str) -> ReplayConfig {
    ReplayConfig::of(
        SteerConfig::named(policy),
        vec![DriveChoice::shipped("960evo", Some(2 * GIB))],
        vec![DriveChoice::shipped("wd100efax", Some(16 * GIB))],
    )
}

fn arrival(at_us: u64, op: Op, offset_bytes: u64, length_bytes: u64) -> Arrival {
    Arrival {
        at: Instant::from_ns(at_us * 1000),
        object: ObjectId(0),
        op,
        offset_bytes,
        length_bytes,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    }
}

fn survey(arrivals: &[Arrival]) -> Survey {
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    survey
}

fn run(config: &ReplayConfig, arrivals: &[Arrival]) -> RunResult {
    let plan = plan(config, &survey(arrivals)).expect("it fits");
    replay(config, &plan, arrivals.iter().copied()).expect("it runs")
}

/// Writes of 32 KiB, one every so many microseconds, over 256 MiB.
fn burst(count: u64, interval_us: u64) -> Vec<Arrival> {
    let mut rng = Rng::new(3);
    let place = |rng: &mut Rng| rng.below(8192) * 32_768;
    (0..count).map(|i| arrival(i * interval_us, Op::Write, place(&mut rng), 32_768)).collect()
}

#[test]
fn equal_runs_have_equal_digests_and_other_seeds_others() {
    let arrivals = burst(3000, 80);
    let first = run(&config("mios-e"), &arrivals);
    let again = run(&config("mios-e"), &arrivals);
    assert_eq!(first.digest, again.digest);
    assert_eq!(first.elapsed_ns, again.elapsed_ns);
    assert_eq!(first.devices[0].gauge, again.devices[0].gauge);
    let other = run(&ReplayConfig { seed: 2, ..config("mios-e") }, &arrivals);
    assert_ne!(first.digest, other.digest);
}

/// What is written by users is what the trace wrote, wherever it went.
#[test]
fn bytes_are_conserved() {
    let arrivals = burst(3000, 40);
    let written: u64 = arrivals.iter().map(|arrival| arrival.length_bytes).sum();
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        for placement in [Placement::Mapped, Placement::Fixed] {
            let result = run(&ReplayConfig { placement, ..config(policy) }, &arrivals);
            let user: u64 = result.devices.iter().map(|d| d.stats.user_bytes).sum();
            assert_eq!(user, written, "{policy} {placement:?}");
            let steered: u64 = result.stats.steered.iter().map(|(_, decided)| decided.bytes).sum();
            assert_eq!(steered, written, "{policy} {placement:?}");
            assert_eq!(result.latencies.write.total.count(), 3000);
            let redirects = policy != "ssd-first";
            assert_eq!(result.stats.redirected.0 > 0, redirects, "{policy} {placement:?}");
            for device in &result.devices {
                assert_eq!(device.gauge.elapsed_ns, result.elapsed_ns);
                assert!(device.gauge.net_ppm() <= device.gauge.gross_ppm());
                assert!(device.gauge.gross_ppm() <= 1_000_000);
            }
        }
    }
}

/// What crosses the end of a log segment is written in two pieces at once. The second waits for the
/// first, which is not the drive's slow state: users met as many slow writes as took 12 ms.
#[test]
fn m15_a_write_in_two_pieces_is_not_taken_for_a_slow_one() {
    let (count, length_bytes) = (512, 1028 << 10);
    let arrivals: Vec<Arrival> = (0..count)
        .map(|i| arrival(i * 20_000, Op::Write, i * length_bytes, length_bytes))
        .collect();
    let result = run(&config("hdd-only"), &arrivals);
    let took = result.latencies.write.device.buckets().filter(|(ns, _)| *ns > 8_000_000);
    let slow: u64 = took.map(|(_, writes)| writes).sum();
    assert!(slow > 30, "{slow} writes of 12 ms");
    assert_eq!(result.steering.user_slow_writes, slow);
}

/// One after the other, as a drive takes them from nobody but this test.
fn asked_directly(role: Role, arrivals: &[Arrival]) -> u64 {
    let config = config("ssd-first");
    let choice = if role == Role::Ssd { &config.ssds[0] } else { &config.hdds[0] };
    let options = tandem_drives::BuildOptions {
        seed: 1,
        ssd_state: config.ssd_state,
        capacity_bytes: choice.size_bytes,
        keep_events: false,
    };
    let mut drive = tandem_drives::build(&choice.spec, options).expect("a model");
    let mut now = Instant::default();
    for arrival in arrivals {
        let kind = match arrival.op {
            Op::Read => DriveOpKind::Read,
            Op::Write => DriveOpKind::Write { fua: false },
            _ => DriveOpKind::Flush,
        };
        let (offset_bytes, length_bytes) = (arrival.offset_bytes, arrival.length_bytes);
        let op = DriveOp { kind, offset_bytes, length_bytes };
        now = drive.submit(now, op).ack_at;
    }
    now.ns
}

/// Nothing is added and nothing left out: no log, no map, no flush that nobody asks for.
#[test]
fn a_drive_alone_does_what_its_model_does() {
    let mut rng = Rng::new(7);
    let mut arrivals: Vec<Arrival> = (0..3_000)
        .map(|_| {
            let op = if rng.chance_ppm(300_000) { Op::Read } else { Op::Write };
            arrival(0, op, rng.below(8192) * 65_536, 65_536)
        })
        .collect();
    arrivals.insert(1_000, arrival(0, Op::Flush, 0, 0));
    let writes = arrivals.iter().filter(|arrival| arrival.op == Op::Write).count() as u64;
    for role in [Role::Hdd, Role::Ssd] {
        let config = ReplayConfig { closed_loop: Some(1), ..config("mios-e") };
        let result = bare(&config, &survey(&arrivals), role, arrivals.iter().copied());
        let result = result.expect("it fits and runs");
        let [drive] = result.devices.as_slice() else { panic!("one drive") };
        assert_eq!((drive.role, drive.stats.flushes), (role, 1));
        assert_eq!(
            (drive.stats.write_requests, drive.stats.read_requests),
            (writes, 3_000 - writes)
        );
        assert_eq!((drive.stats.user_bytes, drive.stats.map_bytes), (writes * 65_536, 0));
        let places = result.latencies.read_from.each_ref().map(|place| place.count());
        let of_reads = 3_000 - writes;
        let wanted =
            if role == Role::Ssd { [0, of_reads, 0, 0, 0] } else { [0, 0, 0, 0, of_reads] };
        assert_eq!(places, wanted, "{role:?}: a read is counted for the drive that served it");
        let direct = asked_directly(role, &arrivals);
        let differs = direct.abs_diff(result.elapsed_ns);
        assert!(differs * 100 < direct, "{role:?}: {} and {direct} ns", result.elapsed_ns);
    }
}

#[test]
fn a_drive_alone_is_one_that_is_there() {
    let config = ReplayConfig { hdds: Vec::new(), ..config("ssd-first") };
    let arrivals = burst(10, 100);
    let error = bare(&config, &survey(&arrivals), Role::Hdd, arrivals.iter().copied()).err();
    assert!(matches!(error, Some(ReplayError::NoDrives)), "{error:?}");
}

/// Formatting is not part of the trace.
#[test]
fn counters_begin_with_the_trace() {
    let result = run(&config("ssd-first"), &[arrival(0, Op::Read, 0, 4096)]);
    let ssd = &result.devices[0];
    assert_eq!((ssd.stats.user_bytes, ssd.stats.map_bytes, ssd.flash_pages), (0, 0, (0, 0)));
}

/// What comes before the measured phase is answered before it begins, and counted nowhere.
#[test]
fn statistics_begin_anew_behind_a_warm_up() {
    let warm: Vec<Arrival> = (0..200).map(|i| arrival(i, Op::Write, i * 65_536, 65_536)).collect();
    // of blocks that nobody wrote: what was just written may be read from RAM, in no time
    let reads = (0..50).map(|i| arrival(200 + i, Op::Read, 64 * MIB + i * 65_536, 4096));
    let arrivals: Vec<Arrival> = warm.iter().copied().chain(reads).collect();
    for closed_loop in [None, Some(4)] {
        for policy in ["ssd-first", "hdd-only"] {
            let config = ReplayConfig { closed_loop, timeline: true, ..config(policy) };
            let told = |warm_up_requests| {
                let mut survey = survey(&arrivals);
                survey.warm_up_requests = warm_up_requests;
                let plan = plan(&config, &survey).expect("it fits");
                replay(&config, &plan, arrivals.iter().copied()).expect("it runs")
            };
            let (whole, measured) = (told(0), told(200));
            assert_eq!(whole.latencies.write.total.count(), 200);
            assert_eq!(measured.latencies.write.total.count(), 0, "{policy} {closed_loop:?}");
            assert_eq!(measured.latencies.read.total.count(), 50);
            assert!(measured.elapsed_ns > 0 && measured.elapsed_ns < whole.elapsed_ns);
            let written = |result: &RunResult| -> u64 {
                result.devices.iter().map(|device| device.stats.user_bytes).sum()
            };
            assert_eq!((written(&whole), written(&measured)), (200 * 65_536, 0));
            let jobs = |result: &RunResult| -> u64 {
                result.devices.iter().map(|device| device.queue_found.count()).sum()
            };
            assert!(jobs(&measured) + 100 <= jobs(&whole), "those that wrote do not count");
            for device in &measured.devices {
                assert_eq!(device.gauge.elapsed_ns, measured.elapsed_ns);
            }
            let steady = told(250);
            assert_eq!(steady.digest, whole.digest, "a warm-up that is never over changes nothing");
        }
    }
}

#[test]
fn residence_decides_where_a_first_read_goes() {
    let reads = [arrival(0, Op::Read, MIB, 4096), arrival(50_000, Op::Read, 8 * MIB, 4096)];
    // RAM, SSD, SSD copy, HDD log, HDD home
    for (resident, placement, want) in [
        (Resident::Hdd, Placement::Mapped, [0, 0, 0, 0, 2]),
        (Resident::Ssd, Placement::Mapped, [0, 0, 2, 0, 0]),
        (Resident::None, Placement::Mapped, [2, 0, 0, 0, 0]),
        (Resident::Hdd, Placement::Fixed, [0, 0, 0, 0, 2]),
        (Resident::Ssd, Placement::Fixed, [0, 2, 0, 0, 0]),
        (Resident::None, Placement::Fixed, [0, 2, 0, 0, 0]),
    ] {
        let result = run(&ReplayConfig { resident, placement, ..config("ssd-first") }, &reads);
        let from = result.latencies.read_from.each_ref().map(|place| place.count());
        assert_eq!(from, want, "{resident:?} {placement:?}");
    }
}

/// Latency counts from the trace's time also while the engine is full.
#[test]
fn open_loop_latency_counts_from_the_trace() {
    // one head serves 100 random reads at once: the last waits for all
    let mut rng = Rng::new(5);
    let reads: Vec<Arrival> =
        (0..100).map(|_| arrival(0, Op::Read, rng.below(1 << 18) * 4096, 4096)).collect();
    let open = run(&config("ssd-first"), &reads);
    let max_ns = open.latencies.read.total.max_ns();
    assert_eq!(max_ns, open.elapsed_ns, "the last one ends the run");
    assert!(max_ns > 300_000_000, "a hundred seeks take longer than {max_ns} ns");
    // closed loop of one: each counts from its own beginning
    let closed = run(&ReplayConfig { closed_loop: Some(1), ..config("ssd-first") }, &reads);
    assert!(closed.latencies.read.total.max_ns() < 60_000_000);
    assert_eq!(closed.devices[1].gauge.depth_max(), 1);
    assert!(open.devices[1].gauge.depth_max() > 90);
}

/// Reads at these times, in us, found p50, p99 and max. A read of 4 KiB takes 69 us alone.
#[test]
fn requests_find_the_queue_that_is_there_when_they_come() {
    let table: [(&[u64], [u32; 3]); 5] = [
        (&[0], [0, 0, 0]),
        (&[0, 500, 1_000, 1_500], [0, 0, 0]),
        (&[0, 0, 0, 0], [1, 3, 3]),
        (&[0, 500, 500, 1_000], [0, 1, 1]),
        (&[0, 40, 90, 130, 10_000], [1, 1, 1]),
    ];
    let found = |times_us: &[u64]| {
        let reads = times_us.iter().zip(0..);
        let reads = reads.map(|(at_us, place)| arrival(*at_us, Op::Read, place * MIB, 4096));
        let reads: Vec<Arrival> = reads.collect();
        let result = run(&ReplayConfig { resident: Resident::Ssd, ..config("ssd-first") }, &reads);
        let found = &result.devices[0].queue_found;
        assert_eq!(found.count(), times_us.len() as u64, "{times_us:?}");
        [found.percentile(50), found.percentile(99), found.max()]
    };
    let got = table.map(|(times_us, _)| found(times_us));
    assert_eq!(got, table.map(|(_, want)| want));
}

/// The engine takes 32 MiB at once; a trace may hold more.
#[test]
fn long_requests_come_in_pieces() {
    let result = run(
        &config("ssd-first"),
        &[arrival(0, Op::Write, 0, 80 * MIB), arrival(9, Op::Discard, 0, 80 * MIB)],
    );
    assert_eq!(result.latencies.write.total.count(), 4);
    assert_eq!(result.latencies.errors, 0);
    assert_eq!(result.devices[0].stats.user_bytes, 80 * MIB);
}

#[test]
fn drives_keep_their_capacity_unless_the_footprint_needs_more() {
    let near = survey(&[arrival(0, Op::Write, 0, 4096)]);
    let far = survey(&[arrival(0, Op::Write, 40 * GIB, 4096)]);
    let standard = |ssd, hdd| ReplayConfig {
        ssds: vec![DriveChoice::shipped("960evo", ssd)],
        hdds: vec![DriveChoice::shipped("wd100efax", hdd)],
        ..config("ssd-first")
    };
    let planned = plan(&standard(None, None), &near).expect("it fits");
    let [ssd, hdd] = planned.drives.as_slice() else { panic!("two drives") };
    assert_eq!((ssd.role, ssd.is_scaled, ssd.model_bytes / 1_000_000_000), (Role::Ssd, false, 249));
    assert_eq!(
        (hdd.role, hdd.is_scaled, hdd.model_bytes / 1_000_000_000),
        (Role::Hdd, false, 10_000)
    );
    assert!(hdd.visible_bytes < 20 * GIB, "only what a trace can touch is mapped");
    // a hard drive that is too small grows, and says so
    let planned = plan(&standard(None, Some(20 * GIB)), &far).expect("it fits");
    assert!(planned.drives[1].is_scaled && planned.drives[1].visible_bytes > 40 * GIB);
    assert!(!planned.drives[0].is_scaled);
    // under fixed placement the SSD must hold everything
    let fixed = ReplayConfig { placement: Placement::Fixed, ..standard(Some(2 * GIB), None) };
    let planned = plan(&fixed, &far).expect("it fits");
    assert!(planned.drives[0].is_scaled && planned.drives[0].visible_bytes > 40 * GIB);
    // and without hard drives too
    let alone = ReplayConfig { hdds: Vec::new(), ..standard(Some(2 * GIB), None) };
    let planned = plan(&alone, &far).expect("it fits");
    assert!(planned.drives[0].is_scaled && planned.drives[0].visible_bytes > 47 * GIB);
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let some = survey(&[arrival(0, Op::Write, 0, 4096)]);
    let none = ReplayConfig { ssds: Vec::new(), hdds: Vec::new(), ..config("ssd-first") };
    assert!(matches!(plan(&none, &some), Err(ReplayError::NoDrives)));
    let fixed =
        ReplayConfig { ssds: Vec::new(), placement: Placement::Fixed, ..config("ssd-first") };
    assert!(matches!(plan(&fixed, &some), Err(ReplayError::FixedWithoutSsd)));
    let far = survey(&[arrival(0, Op::Write, 17 << 40, 4096)]);
    assert!(matches!(plan(&config("ssd-first"), &far), Err(ReplayError::TooWide { .. })));
    assert!(matches!(plan(&config("ssd-first"), &Survey::default()), Err(ReplayError::Empty)));
    let misnamed = config("no-such-policy");
    let plan = plan(&misnamed, &some).expect("sizes do not hang on policies");
    let error = replay(&misnamed, &plan, std::iter::empty()).expect_err("unknown");
    assert!(error.to_string().contains("no-such-policy"), "{error}");
}

/// Several drives of each role, none of a role, and one that answers at once.
#[test]
fn any_set_of_drives_runs() {
    let mut arrivals = burst(400, 50);
    arrivals.push(arrival(30_000, Op::Read, 0, 65_536));
    let small = |name| DriveChoice::shipped(name, Some(2 * GIB));
    let large = |name| DriveChoice::shipped(name, Some(16 * GIB));
    for (ssds, hdds) in [
        (vec![small("960evo"), small("660p")], vec![large("wd40ezrz"), large("wd8004fryz")]),
        (vec![small("x25e")], vec![]),
        (vec![], vec![large("wd5000aaks")]),
        (vec![small("null")], vec![large("null")]),
    ] {
        let policy = if hdds.is_empty() { "ssd-first" } else { "mios-e" };
        let config = ReplayConfig { ssds, hdds, ..config(policy) };
        let result = run(&config, &arrivals);
        assert_eq!(result.latencies.errors, 0);
        assert_eq!(result.latencies.write.total.count(), 400);
        assert_eq!(result.devices.len(), config.ssds.len() + config.hdds.len());
    }
    let lonely = ReplayConfig { ssds: vec![small("x25e")], hdds: vec![], ..config("mios-e") };
    let planned = plan(&lonely, &survey(&arrivals));
    let error = planned.and_then(|plan| replay(&lonely, &plan, arrivals.iter().copied()));
    let error = error.expect_err("nowhere to redirect to").to_string();
    assert!(error.contains("mios-e redirects to a hard drive, and there is none"), "{error}");
}
