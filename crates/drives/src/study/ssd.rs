//! Do the SSD models show what the papers measured on the drives?
//!
//! Source: models §6.3, whose column "model" is compared with; [IANUS §2.1], [BCW Fig. 15]. The
//! capacities are the models page's fractions (1/8, 1/16, 1/64), with whole lines.

use super::load::{ClosedLoop, LARGE, SECOND, percentile};
use crate::spec::{ModelSpec, Ppm, Sourced, SsdSpec, load};
use crate::ssd::{SsdModel, SsdState};
use tandem_block::{Drive, DriveEvent, DriveOp, DriveOpKind, Instant, KIB, Rng};

/// Kernel queue depth of Ianus's experiments [IANUS §2.1].
const DEPTH: usize = 31;

/// The spec of a built-in SSD at another capacity.
fn ssd(name: &str, capacity_bytes: u64) -> SsdSpec {
    let spec = load(name).expect("known");
    match spec.with_capacity_bytes(capacity_bytes).expect("a fraction is possible").model {
        ModelSpec::Ssd(ssd) => ssd,
        _ => panic!("{name} is an SSD"),
    }
}

/// A row of fixed intervals on the 960 EVO [BCW Fig. 15].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvoRow {
    /// Time between two writes.
    pub interval_ns: u64,
    /// 99th percentile over all writes.
    pub p99_ns: u64,
    /// Over the first half of them.
    pub first_half_p99_ns: u64,
    /// Over the second half.
    pub second_half_p99_ns: u64,
    /// Mean over all.
    pub mean_ns: u64,
}

/// 960 EVO, 30 GB, SLC cache used up, 32 KiB sequential writes every `interval_ns`, `bytes` in all
/// (acceptance: 16 * 10^9).
pub fn evo_intervals(interval_ns: u64, bytes: u64) -> EvoRow {
    const SIZE: u64 = 32 * KIB;
    let spec = ssd("960evo", 30_000_000_000);
    let mut drive = SsdModel::new(&spec, SsdState::SlcFull, 1, false);
    let places = drive.capacity_bytes() / SIZE;
    let mut latencies: Vec<u64> = (0..bytes / SIZE)
        .map(|index| {
            let op = DriveOp {
                kind: DriveOpKind::Write { fua: false },
                offset_bytes: index % places * SIZE,
                length_bytes: SIZE,
            };
            let now = Instant::from_ns(index * interval_ns);
            drive.submit(now, op).ack_at.since(now).ns
        })
        .collect();
    let mean_ns = latencies.iter().sum::<u64>() / latencies.len() as u64;
    let (first, second) = latencies.split_at_mut(bytes as usize / SIZE as usize / 2);
    let (first_half_p99_ns, second_half_p99_ns) = (percentile(first, 99), percentile(second, 99));
    let p99_ns = percentile(&mut latencies, 99);
    EvoRow { interval_ns, p99_ns, first_half_p99_ns, second_half_p99_ns, mean_ns }
}

/// Large random writes on the X25-E [IANUS Figs 3, 4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomWrites {
    /// Writes in the first second.
    pub first_second: u64,
    /// Writes per second over the second half of the run.
    pub late_per_s: u64,
    /// GC events per 100 s in the second half.
    pub events_per_100_s: u64,
    /// Mean length of an event.
    pub event_ns: u64,
    /// Share of time in events, in thousandths.
    pub share_permille: u64,
    /// Write amplification in thousandths.
    pub amplification_permille: u64,
}

/// X25-E at an eighth, filled, then large random writes over 50/65 of it.
fn x25e_aged(spec: &SsdSpec) -> (ClosedLoop<SsdModel>, RandomWrites) {
    const WRITES: u64 = 60_000;
    let mut rig = ClosedLoop::new(Box::new(SsdModel::new(spec, SsdState::Fresh, 1, true)), DEPTH);
    rig.fill();
    rig.rest(10 * SECOND);
    let before = rig.drive.flash_pages();
    let span = rig.drive.capacity_bytes() * 50 / 65 / LARGE;
    let mut rng = Rng::new(7);
    let begin = rig.now_ns;
    let mut acks = Vec::with_capacity(WRITES as usize);
    for _ in 0..WRITES {
        acks.push(rig.write(rng.below(span) * LARGE, LARGE));
    }
    let end = rig.now_ns;
    let middle = begin + (end - begin) / 2;
    let after = rig.drive.flash_pages();
    let events: Vec<DriveEvent> =
        rig.drive.take_events().into_iter().filter(|event| event.start.ns > middle).collect();
    let busy: u64 = events.iter().map(|event| event.end.since(event.start).ns).sum();
    let late = acks.iter().filter(|ack| (middle..end).contains(ack)).count() as u64;
    let half = end - middle;
    let row = RandomWrites {
        first_second: acks.iter().filter(|ack| **ack < begin + SECOND).count() as u64,
        late_per_s: late * SECOND / half,
        events_per_100_s: events.len() as u64 * 100 * SECOND / half,
        event_ns: busy / (events.len() as u64).max(1),
        share_permille: busy * 1000 / half,
        amplification_permille: (after.0 - before.0) * 1000 / (after.1 - before.1),
    };
    (rig, row)
}

/// Large random writes on the X25-E in credit mode, its spec's.
pub fn x25e_random() -> RandomWrites {
    x25e_aged(&ssd("x25e", 8_000_000_000)).1
}

/// 4 KiB sequential writes into a randomly written area of the X25-E [IANUS Figs 5, 6].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequentialRow {
    /// Rates over 100 ms, per second: the lowest and the highest.
    pub rate_min_per_s: u64,
    /// See above.
    pub rate_max_per_s: u64,
    /// Mean rate per second.
    pub mean_per_s: u64,
    /// Lowest rate over any window of 1, 2, 3, 4 s, per second.
    pub worst_per_s: [u64; 4],
}

/// 4 KiB sequential writes on the X25-E in cluster mode: `gc.high_lines` 60 and `gc.gap_pages` 64
/// are fitted for this drive at an eighth (models §6.2).
pub fn x25e_sequential() -> SequentialRow {
    const WINDOW_NS: u64 = SECOND / 10;
    const SECONDS: u64 = 60;
    let mut spec = ssd("x25e", 8_000_000_000);
    spec.gc.high_lines = Sourced::of(60, "fitted: models 6.2");
    spec.gc.gap_pages = Sourced::of(64, "fitted: models 6.2");
    let (mut rig, _) = x25e_aged(&spec);
    let span = rig.drive.capacity_bytes() * 50 / 65 / 4096;
    let begin = rig.now_ns;
    let mut windows = vec![0u64; (SECONDS * 10) as usize];
    let mut index = 0;
    while rig.now_ns < begin + SECONDS * SECOND {
        let ack = rig.write(index % span * 4096, 4096);
        index += 1;
        if let Some(window) = windows.get_mut(((ack - begin) / WINDOW_NS) as usize) {
            *window += 1;
        }
    }
    // The first ten seconds still show the run before.
    let steady = &windows[100..];
    let worst = |seconds: usize| {
        let sums = steady.windows(seconds * 10).map(|window| window.iter().sum::<u64>());
        sums.min().unwrap_or(0) / seconds as u64
    };
    SequentialRow {
        rate_min_per_s: steady.iter().min().copied().unwrap_or(0) * 10,
        rate_max_per_s: steady.iter().max().copied().unwrap_or(0) * 10,
        mean_per_s: steady.iter().sum::<u64>() * 10 / steady.len() as u64,
        worst_per_s: [worst(1), worst(2), worst(3), worst(4)],
    }
}

/// 510 at a sixteenth, filled, then overwritten at random over 200/250 of it.
fn i510_aged() -> ClosedLoop<SsdModel> {
    let spec = ssd("510", 250_000_000_000 / 16);
    let mut rig = ClosedLoop::new(Box::new(SsdModel::new(&spec, SsdState::Fresh, 1, true)), DEPTH);
    rig.fill();
    let span = i510_span(&rig);
    let mut rng = Rng::new(7);
    for _ in 0..span * 4 {
        rig.write(rng.below(span) * LARGE, LARGE);
    }
    rig.rest(5 * SECOND);
    rig
}

fn i510_span(rig: &ClosedLoop<SsdModel>) -> u64 {
    rig.drive.capacity_bytes() * 200 / 250 / LARGE
}

/// Large random reads per second on the aged 510 with nothing else.
pub fn i510_reads_alone() -> u64 {
    const READS: u64 = 8_000;
    let mut rig = i510_aged();
    let span = i510_span(&rig);
    let mut rng = Rng::new(9);
    let begin = rig.now_ns;
    for _ in 0..READS {
        rig.read(rng.below(span) * LARGE, LARGE);
    }
    READS * SECOND / (rig.now_ns - begin)
}

/// The four streams of [IANUS Figs 8-10] on one 510.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FourStreams {
    /// Large random writes alone, in bytes per second.
    pub random_write_bytes_per_s: u64,
    /// Write amplification of those, in thousandths.
    pub amplification_permille: u64,
    /// Reads per second in the mix.
    pub reads_per_s: u64,
    /// Standard deviation of that over single seconds.
    pub reads_deviation: u64,
    /// Fewest and most reads in one second.
    pub reads_min_max: (u64, u64),
    /// Fewest and most reads per second over ten seconds.
    pub ten_seconds_min_max: (u64, u64),
    /// Writes per second in the mix.
    pub writes_per_s: u64,
    /// Mean length of a GC event.
    pub event_ns: u64,
}

/// Reads and writes 525:100, half of the writes sequential, in a closed loop for 60 s.
pub fn i510_four_streams() -> FourStreams {
    const SECONDS: u64 = 60;
    let mut rig = i510_aged();
    let span = i510_span(&rig);
    let mut rng = Rng::new(11);
    let (random_write_bytes_per_s, amplification_permille) =
        random_writes(&mut rig, span, &mut rng);
    rig.rest(5 * SECOND);
    let begin = rig.now_ns;
    let mut reads = vec![0u64; SECONDS as usize];
    let (mut writes, mut sequential) = (0, 0);
    while rig.now_ns < begin + SECONDS * SECOND {
        if rng.below(625) < 525 {
            let ack = rig.read(rng.below(span) * LARGE, LARGE);
            if let Some(second) = reads.get_mut(((ack - begin) / SECOND) as usize) {
                *second += 1;
            }
        } else {
            sequential += rng.below(2);
            let place = if rng.below(2) == 0 { sequential % span } else { rng.below(span) };
            rig.write(place * LARGE, LARGE);
            writes += 1;
        }
    }
    let events = rig.drive.take_events();
    let busy: u64 = events.iter().map(|event| event.end.since(event.start).ns).sum();
    let seconds = &reads[2..58];
    let mean = seconds.iter().sum::<u64>() / seconds.len() as u64;
    let squares: u64 = seconds.iter().map(|count| count.abs_diff(mean).pow(2)).sum();
    let tens = || seconds.windows(10).map(|ten| ten.iter().sum::<u64>() / 10);
    FourStreams {
        random_write_bytes_per_s,
        amplification_permille,
        reads_per_s: mean,
        reads_deviation: (squares / seconds.len() as u64).isqrt(),
        reads_min_max: (
            seconds.iter().min().copied().unwrap_or(0),
            seconds.iter().max().copied().unwrap_or(0),
        ),
        ten_seconds_min_max: (tens().min().unwrap_or(0), tens().max().unwrap_or(0)),
        writes_per_s: writes / SECONDS,
        event_ns: busy / (events.len() as u64).max(1),
    }
}

/// 4,000 large random writes: (bytes per second, write amplification in thousandths).
fn random_writes(rig: &mut ClosedLoop<SsdModel>, span: u64, rng: &mut Rng) -> (u64, u64) {
    const WRITES: u64 = 4_000;
    let (begin, before) = (rig.now_ns, rig.drive.flash_pages());
    for _ in 0..WRITES {
        rig.write(rng.below(span) * LARGE, LARGE);
    }
    let after = rig.drive.flash_pages();
    let amplification = (after.0 - before.0) * 1000 / (after.1 - before.1);
    let milliseconds = (rig.now_ns - begin) / 1_000_000;
    (WRITES * LARGE * 1000 / milliseconds, amplification)
}

/// Write amplification in thousandths under uniform random 4 KiB writes, greedy collection, on the
/// 510's geometry at 1/64 with this much over-provisioning.
pub fn write_amplification(over_provisioning: Ppm, state: SsdState) -> u64 {
    let mut spec = ssd("510", 250_000_000_000 / 64);
    spec.over_provisioning = Sourced::of(over_provisioning, "paper: models 6.3, a row");
    spec.gc.high_lines = Sourced::of(0, "derived: credit mode, as models 6.3");
    amplification_of(&spec, state)
}

/// Write amplification in thousandths of any drive under uniform random 4 KiB writes.
///
/// From `Fresh` the drive is filled and overwritten four times before it is measured over two
/// more; from `Steady` it is measured at once, over a half (what was constructed must hold).
pub fn amplification_of(spec: &SsdSpec, state: SsdState) -> u64 {
    let mut rig = ClosedLoop::new(Box::new(SsdModel::new(spec, state, 1, false)), 1);
    let pages = rig.drive.capacity_bytes() / 4096;
    let mut rng = Rng::new(11);
    let mut overwrite = |rig: &mut ClosedLoop<SsdModel>, count: u64| {
        for _ in 0..count {
            rig.write(rng.below(pages) * 4096, 4096);
        }
    };
    let measured = if state == SsdState::Steady {
        pages / 2
    } else {
        rig.fill();
        overwrite(&mut rig, pages * 4);
        pages * 2
    };
    // Only collection counts: folding an SLC cache is another matter.
    let before = rig.drive.gc_pages();
    overwrite(&mut rig, measured);
    1000 + (rig.drive.gc_pages() - before) * 1000 / measured
}
