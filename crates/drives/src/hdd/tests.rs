//! Does the HDD model do what its page of the models says?

use super::{HddModel, Stage};
use crate::spec::{DrainLaw, HddSpec, ModelSpec, Rotation, Sourced, load};
use crate::study;
use tandem_block::{Drive, DriveEventKind, DriveOp, DriveOpKind, Instant, KIB, MIB};

fn spec(name: &str) -> HddSpec {
    match load(name).expect("known").model {
        ModelSpec::Hdd(hdd) => hdd,
        _ => panic!("{name} is a hard drive"),
    }
}

fn op(kind: DriveOpKind, offset_bytes: u64, length_bytes: u64) -> DriveOp {
    DriveOp { kind, offset_bytes, length_bytes }
}

const WRITE: DriveOpKind = DriveOpKind::Write { fua: false };
const FLUSH: DriveOp = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };

/// Submits at `now` and returns when it is acknowledged, both in ns.
fn run(drive: &mut dyn Drive, now: u64, op: DriveOp) -> u64 {
    drive.submit(Instant::from_ns(now), op).ack_at.ns
}

/// Writes `count` extents of `bytes` in sequence from `now`; returns the end.
fn stream(drive: &mut HddModel, mut now: u64, (offset, bytes): (u64, u64), count: u64) -> u64 {
    for index in 0..count {
        now = run(drive, now, op(WRITE, offset + index * bytes, bytes));
    }
    now
}

/// Models §5.3 and [BCW §3]: the steps of the 10 TB drive.
#[test]
fn wd100efax_has_the_steps_of_the_paper() {
    const US: u64 = 1_000;
    for (bytes, fast, mid, fast_writes, mid_writes, megabytes_per_s) in [
        (4 * KIB, 35 * US, 55 * US, 4096, 2048, 70),
        (16 * KIB, 66 * US, 135 * US, 1024, 512, 109),
        (64 * KIB, 180 * US, 280 * US, 256, 128, 183),
    ] {
        let row = study::staircase(&spec("wd100efax"), bytes);
        assert_eq!((row.fast_ns, row.mid_ns), (fast, mid), "{bytes} bytes");
        assert_eq!(row.slow_ns, 12_000 * US + fast);
        assert_eq!((row.fast_writes, row.mid_writes), (fast_writes, mid_writes));
        assert_eq!((row.bytes_per_s + 500_000) / 1_000_000, megabytes_per_s, "{bytes} bytes");
        let (fast_mean, mid_mean) = study::stage_counts(&spec("wd100efax"), bytes, 50);
        assert!(fast_mean.abs_diff(fast_writes * 1000) <= fast_writes * 20, "{fast_mean}");
        assert!(mid_mean.abs_diff(mid_writes * 1000) <= mid_writes * 20, "{mid_mean}");
    }
}

/// [BCW §4.1]: 99.5 / 98.1 / 60.3 % of the writes that were fast, mid, slow are predicted so.
#[test]
fn algorithm_1_predicts_as_well_as_in_the_paper() {
    for seed in 1..=3 {
        let recall = study::predict(&spec("wd100efax"), 128 * KIB, 100, seed).recall();
        println!("seed {seed}: recall in hundredths of a percent {recall:?}");
        for (share, paper) in recall.into_iter().zip([9950, 9810, 6030]) {
            assert!(share.abs_diff(paper) <= 100, "seed {seed}: {recall:?}");
        }
    }
}

/// Models §5.2: after `idle` the buffer empties at the media rate, and an empty one is fast again.
#[test]
fn after_idle_the_buffer_empties() {
    for (wait_ms, dirty, stage_bytes) in [(49, 12 * MIB, 12 * MIB), (200, 0, 0)] {
        let mut drive = HddModel::new(&spec("wd100efax"), 1, true);
        let end = stream(&mut drive, 0, (0, 64 * KIB), 192);
        let now = end + wait_ms * 1_000_000;
        assert_eq!(drive.volatile_bytes(Instant::from_ns(now)), dirty, "{wait_ms} ms");
        run(&mut drive, now, op(WRITE, 12 * MIB, 4 * KIB));
        assert_eq!(drive.stage_bytes(), stage_bytes + 4 * KIB);
        let drained =
            drive.take_events().iter().any(|event| event.kind == DriveEventKind::IdleDrain);
        assert_eq!(drained, wait_ms == 200);
    }
    // Half drained: 50 ms of quiet, then 30 ms at 210 MB/s.
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let end = stream(&mut drive, 0, (0, 64 * KIB), 192);
    let left = drive.volatile_bytes(Instant::from_ns(end + 80_000_000));
    assert!(left.abs_diff(12 * MIB - 6_300_000) < 10_000, "{left}");
}

#[test]
fn drain_laws_differ() {
    // 64 KiB every 10 ms: 6.5 MB/s, far below the media rate.
    let met_slow = |law| {
        let mut spec = spec("wd100efax");
        spec.drain = Sourced::of(law, "guess: test");
        let mut drive = HddModel::new(&spec, 1, false);
        (0..600u64).any(|index| {
            run(&mut drive, index * 10_000_000, op(WRITE, index * 64 * KIB, 64 * KIB));
            drive.last_write_met() == Some(Stage::Slow)
        })
    };
    assert!(!met_slow(DrainLaw::Continuous));
    assert!(met_slow(DrainLaw::AfterIdle), "10 ms of quiet are not idle");
    assert!(met_slow(DrainLaw::WhenFull));
    // Continuous at full speed: 364 MB/s come and 210 leave, so the fast stage takes 16 MiB more
    // than leaves meanwhile: between 2.0 and 2.6 times its budget.
    let mut continuous = spec("wd100efax");
    continuous.drain = Sourced::of(DrainLaw::Continuous, "guess: test");
    let mut drive = HddModel::new(&continuous, 1, false);
    let (mut now, mut offset) = (0, 0);
    while drive.last_write_met() != Some(Stage::Slow) {
        now = run(&mut drive, now, op(WRITE, offset, 64 * KIB));
        offset += 64 * KIB;
    }
    assert!((32 * MIB..42 * MIB).contains(&offset), "{offset}");
    // and when-full never drains by itself
    let mut full = spec("wd100efax");
    full.drain = Sourced::of(DrainLaw::WhenFull, "guess: test");
    let mut drive = HddModel::new(&full, 1, false);
    let end = stream(&mut drive, 0, (0, 64 * KIB), 100);
    assert_eq!(drive.volatile_bytes(Instant::from_ns(end + 10_000_000_000)), 6400 * KIB);
}

/// Models §5.2: base + dirty / rate, then fast; volatile until it is acknowledged.
#[test]
fn a_flush_costs_base_and_drain() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let end = stream(&mut drive, 0, (0, 64 * KIB), 160);
    let flushed = run(&mut drive, end, FLUSH);
    let expected = 200_000_000 + 10 * MIB * 1_000_000_000 / 210_000_000;
    assert!((flushed - end).abs_diff(expected) < 1_000_000);
    assert_eq!(drive.volatile_bytes(Instant::from_ns(end)), 10 * MIB);
    assert_eq!(drive.volatile_bytes(Instant::from_ns(flushed)), 0);
    assert_eq!((drive.stage(), drive.stage_bytes()), (Stage::Fast, 0));
    let next = run(&mut drive, flushed, op(WRITE, 10 * MIB, 4 * KIB));
    assert_eq!(next - flushed, 35_000, "a flush does not break the stream");
}

/// A slow write frees a mid stage only once it is over.
#[test]
fn what_a_slow_write_frees_is_volatile_until_its_end() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let mut end = 0;
    let mut offset = 0;
    while drive.stage() == Stage::Fast {
        let before = (end, drive.volatile_bytes(Instant::from_ns(end)));
        end = run(&mut drive, end, op(WRITE, offset, 64 * KIB));
        offset += 64 * KIB;
        if drive.last_write_met() == Some(Stage::Slow) {
            assert_eq!(drive.volatile_bytes(Instant::from_ns(before.0)), before.1);
            assert_eq!(drive.volatile_bytes(Instant::from_ns(end)), before.1 - 8 * MIB);
        }
    }
    assert!(offset > 15 * MIB);
}

/// Looking at a drive never changes it.
#[test]
fn asking_for_volatile_bytes_changes_nothing() {
    let mut asked = HddModel::new(&spec("wd100efax"), 1, false);
    let mut left_alone = asked.clone();
    let mut now = 0;
    for index in 0..2_000u64 {
        asked.volatile_bytes(Instant::from_ns(now));
        let command = op(WRITE, index * 16 * KIB, 16 * KIB);
        let outcome = asked.submit(Instant::from_ns(now), command);
        assert_eq!(left_alone.submit(Instant::from_ns(now), command), outcome);
        asked.volatile_bytes(outcome.ack_at);
        now = outcome.ack_at.ns + if index % 100 == 0 { 61_234_567 } else { 0 };
    }
}

/// Models §5.2: half of seek and turn for a write elsewhere; a read breaks the stream.
#[test]
fn leaving_the_stream_costs() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let end = stream(&mut drive, 0, (0, 64 * KIB), 10);
    let far = run(&mut drive, end, op(WRITE, 5_000_000_000_000, 64 * KIB));
    assert!((4_500_000..20_000_000).contains(&(far - end)), "{}", far - end);
    let on = run(&mut drive, far, op(WRITE, 5_000_000_000_000 + 64 * KIB, 64 * KIB));
    assert_eq!(on - far, 180_000);
    let read = run(&mut drive, on, op(DriveOpKind::Read, 1_000_000_000_000, 4 * KIB));
    let back = run(&mut drive, read, op(WRITE, 5_000_000_000_000 + 128 * KIB, 64 * KIB));
    assert!(back - read > 180_000 + 4_500_000 / 2, "{}", back - read);
}

/// The command under way ends first; those that wait are overtaken.
#[test]
fn a_read_queues_behind_the_current_command_only() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let first = run(&mut drive, 0, op(WRITE, 0, 64 * KIB));
    let mut last = first;
    for index in 1..100 {
        last = run(&mut drive, 0, op(WRITE, index * 64 * KIB, 64 * KIB));
    }
    let hit = run(&mut drive, 1, op(DriveOpKind::Read, 0, 4 * KIB));
    assert!(hit < first + 100_000, "a buffer hit right after the first write");
    let after = run(&mut drive, 2, op(WRITE, 100 * 64 * KIB, 64 * KIB));
    assert_eq!(after - last, 180_000 + (hit - first), "commands after it pay");
}

#[test]
fn reads_come_from_the_buffer_where_they_can() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let read = |drive: &mut HddModel, now, offset| {
        run(drive, now, op(DriveOpKind::Read, offset, 64 * KIB)) - now
    };
    let written = stream(&mut drive, 0, (0, 64 * KIB), 4);
    assert!(read(&mut drive, written, 64 * KIB) < 200_000, "just written");
    let now = written + 1_000_000;
    let miss = read(&mut drive, now, 1_000_000_000);
    assert!(miss > 1_000_000, "{miss}");
    let next = read(&mut drive, now + miss, 1_000_000_000 + 64 * KIB);
    assert_eq!(next, 30_000 + 64 * KIB * 1_000_000_000 / 209_989_000, "at the media rate");
    let later = now + miss + next + 5_000_000;
    assert!(read(&mut drive, later, 1_000_000_000 + 128 * KIB) < 190_000, "read ahead");
}

/// FUA ends on the platter: it needs the mechanics and leaves the buffer as it was.
#[test]
fn fua_writes_durable_at_their_acknowledgement() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let fua = DriveOpKind::Write { fua: true };
    let outcome = drive.submit(Instant::ZERO, op(fua, 1_000_000_000_000, 4 * KIB));
    assert_eq!(outcome.durable_at, Some(outcome.ack_at));
    assert!(outcome.ack_at.ns > 3_000_000);
    assert_eq!((drive.dirty_bytes(), drive.stage_bytes()), (0, 0));
    let cached = drive.submit(outcome.ack_at, op(WRITE, 1_000_000_000_000 + 4 * KIB, 4 * KIB));
    assert_eq!(cached.durable_at, None);
}

/// With the cache off each write of a stream waits for a turn: 11.1 ms at 5400 rpm.
#[test]
fn without_write_cache_latency_is_mechanical() {
    let mut off = spec("wd100efax");
    off.write_cache = Sourced::of(false, "guess: test");
    let mut drive = HddModel::new(&off, 1, false);
    let end = stream(&mut drive, 0, (0, 4 * KIB), 101);
    assert!((1_110_000_000..1_160_000_000).contains(&end), "{end}");
    assert_eq!(drive.volatile_bytes(Instant::from_ns(end)), 0);
}

#[test]
fn positional_rotation_follows_the_clock() {
    let mut positional = spec("wd100efax");
    positional.rotation = Sourced::of(Rotation::Positional, "guess: test");
    let ends: Vec<u64> = (0..2)
        .map(|seed| {
            let mut drive = HddModel::new(&positional, seed, false);
            run(&mut drive, 12_345, op(DriveOpKind::Read, 77 * MIB, 4 * KIB))
        })
        .collect();
    assert_eq!(ends[0], ends[1], "no chance in it");
    // one turn later the same read ends one turn later
    let mut drive = HddModel::new(&positional, 1, false);
    let turn = 60_000_000_000 / 5400;
    let later = run(&mut drive, 12_345 + turn, op(DriveOpKind::Read, 77 * MIB, 4 * KIB));
    assert!(later.abs_diff(ends[0] + turn) <= 2);
}

/// Requests beyond the stage budgets work, and no size beats the platter in the long run.
#[test]
fn large_writes_meet_the_state_at_their_start_and_obey_the_media_rate() {
    for name in ["wd100efax", "wd40ezrz", "wd5000aaks", "wd8004fryz"] {
        let spec = spec(name);
        let outer = spec.rate_outer.get().0;
        let buffer = spec.fast_stage.get().0;
        for bytes in [128 * KIB, MIB, 8 * MIB, 64 * MIB] {
            let mut drive = HddModel::new(&spec, 1, false);
            let end = stream(&mut drive, 0, (0, bytes), 1024 * MIB / bytes);
            let through = crate::rate::bytes_in(end, outer) + 2 * buffer;
            assert!(through >= 1024 * MIB, "{name}: {bytes} bytes at a time are too fast");
        }
    }
}

/// Models §5.2, SMR option.
#[test]
fn shingled_random_writes_go_to_the_media_cache_until_it_is_full() {
    let mut smr = spec("st4000dm004");
    let cache = smr.smr.as_mut().expect("it is shingled");
    cache.media_cache = Sourced::of(crate::spec::Bytes(64 * MIB), "guess: test");
    let mut drive = HddModel::new(&smr, 1, true);
    let place = |index: u64| index * 7_919 * MIB % 3_000_000_000_000 / 4096 * 4096;
    let mut now = 0;
    for index in 0..1024u64 {
        let end = run(&mut drive, now, op(WRITE, place(index), 64 * KIB));
        assert!(end - now < 13_000_000, "at staircase speed");
        now = end;
    }
    assert_eq!(drive.media_cache_bytes(), 64 * MIB);
    let end = run(&mut drive, now, op(WRITE, place(1024), 64 * KIB));
    assert!(end - now > 2 * 30 * MIB * 1_000_000_000 / 190_000_000, "a band is rewritten");
    let appended = run(&mut drive, end, op(WRITE, place(1024) + 64 * KIB, 64 * KIB));
    assert!(appended - end < 5_000_000, "a stream bypasses the cache");
    // idle cleaning at 10 MB/s
    run(&mut drive, appended + 2_000_000_000, op(DriveOpKind::Read, 0, 4096));
    let left = drive.media_cache_bytes();
    assert!(left.abs_diff(64 * MIB - 19_500_000) < 100_000, "{left}");
    let rewrites = drive.take_events();
    assert!(rewrites.iter().any(|event| event.kind == DriveEventKind::BandRewrite));
}

#[test]
fn stage_events_tell_each_change() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, true);
    stream(&mut drive, 0, (0, 64 * KIB), 600);
    let kinds: Vec<_> = drive.take_events().iter().map(|event| event.kind).collect();
    use DriveEventKind::{Fast, Mid, Slow};
    assert_eq!(kinds, [Fast, Slow, Mid, Slow, Mid, Slow, Mid]);
}

/// After a power cut the buffer is empty and the drive idle.
#[test]
fn power_cycle_empties_the_buffer() {
    let mut drive = HddModel::new(&spec("wd100efax"), 1, false);
    let end = stream(&mut drive, 0, (0, 64 * KIB), 300);
    let cut = Instant::from_ns(end - 1);
    drive.power_cycle(cut);
    assert_eq!(drive.volatile_bytes(cut), 0);
    assert_eq!((drive.stage(), drive.stage_bytes(), drive.free_at()), (Stage::Fast, 0, cut));
}
