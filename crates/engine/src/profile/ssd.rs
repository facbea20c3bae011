//! What does an SSD take for its writes: at each queue depth, when its cache is used up, and while
//! it collects garbage?
//!
//! Source: models §6.4 (which step gives which number); [BCW §4.3] for what the latency by queue
//! depth is wanted for: `L` is the smallest queue at which it exceeds the hard drive's mid latency.

use super::SsdProfile;
use super::probe::{MeasureError, Session, write_at};
use super::series::{mean_of_most, median, ppm, rate};
use super::staircase::Spikes;
use tandem_block::{BLOCK_BYTES, DriveOp, DriveOpKind, GIB, KIB, MIB, Rng};

/// Depths that are measured.
pub(crate) const DEPTHS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Bursts at each depth, and the rest before each, in ns.
const BURSTS: usize = 5;
const REST_NS: u64 = 50_000_000;
/// Reads at each depth.
const READS: usize = 2_048;
/// Large writes, and how many are under way, while the cache is used up.
const LARGE_BYTES: u64 = 128 * KIB;
const LARGE_DEPTH: usize = 8;
/// Rates are taken over so many bytes.
const CHUNK_BYTES: u64 = 4 * MIB;
/// A cache is used up when this many chunks in a row are slower than this share of the ones before.
const KNEE_CHUNKS: usize = 6;
const KNEE_PERCENT: u64 = 85;
/// Chunks that a write buffer may take, and chunks that make a level.
const BUFFER_CHUNKS: usize = 8;
const LEVEL_CHUNKS: usize = 8;
/// Chunks after the knee that tell the rate beyond it.
const BEYOND_CHUNKS: usize = 96;
/// No cache is sought beyond so many bytes.
const SEARCH_BYTES_MAX: u64 = 48 * GIB;
/// Small writes at each depth once the cache is used up; the second half counts.
const SUSTAINED_WRITES: usize = 8_192;
/// Collections that are awaited, and writes that are spent on it at most.
const COLLECTIONS: usize = 60;
const COLLECTING_WRITES_MAX: usize = 60_000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SsdCosts {
    /// A write of 4 KiB into an empty buffer, by queue depth: (depth, ns).
    pub write_latency: Vec<(u64, u64)>,
    /// … when writes have gone on for long.
    pub sustained_latency: Vec<(u64, u64)>,
    /// A read of 4 KiB by queue depth: (depth, ns).
    pub read_latency: Vec<(u64, u64)>,
    /// Bytes/s of large writes at first.
    pub burst_bytes_per_s: Option<u64>,
    /// … once the cache is used up, or from the beginning if there is none.
    pub sustained_bytes_per_s: Option<u64>,
    /// … of random writes on a full drive.
    pub steady_bytes_per_s: Option<u64>,
    /// Bytes that are written at the first rate; `None` if the rate never fell.
    pub slc_bytes: Option<u64>,
    /// What one collection of garbage stops writes for, in ns.
    pub gc_event_ns: Option<u64>,
    /// Share of the time, in millionths, that goes to it under random writes.
    pub gc_share_ppm: Option<u64>,
    /// A flush with nothing to write, in ns.
    pub flush_ns: Option<u64>,
}

impl SsdCosts {
    /// Paper: `L`. The smallest queue at which a write takes longer than `mid_ns`, the hard drive's
    /// mid latency; `None` if none of the measured ones does.
    pub fn queue_length(&self, mid_ns: u64) -> Option<u64> {
        let profile =
            SsdProfile { sustained_ns: self.sustained_by_depth(), ..SsdProfile::default() };
        profile.depth_slower_than(mid_ns)
    }

    /// What a write takes at each of `DEPTHS` when writes have gone on for long, in ns.
    pub fn sustained_by_depth(&self) -> Option<[u64; DEPTHS.len()]> {
        let at = |depth| super::latency_at(&self.sustained_latency, depth).unwrap_or(0);
        (!self.sustained_latency.is_empty()).then(|| DEPTHS.map(at))
    }
}

/// Reads by queue depth: nothing is written.
///
/// # Errors
/// The drive's.
pub fn reads(session: &mut Session<'_>, costs: &mut SsdCosts) -> Result<(), MeasureError> {
    session.begin("reads by queue depth");
    let mut rng = Rng::new(1);
    for depth in DEPTHS {
        let ops: Vec<DriveOp> = (0..READS)
            .map(|_| DriveOp { kind: DriveOpKind::Read, ..small(session, &mut rng) })
            .collect();
        let latencies = session.keep(depth as usize, &ops)?;
        costs.read_latency.push((depth, mean_of_most(&latencies[depth as usize..])));
    }
    Ok(())
}

/// Flushes, bursts, the cache and what follows it. The drive is rested and its cache empty.
///
/// # Errors
/// The drive's or the budget's.
pub fn writes(session: &mut Session<'_>, costs: &mut SsdCosts) -> Result<(), MeasureError> {
    session.begin("flushes");
    let mut flushes = Vec::new();
    for _ in 0..BURSTS {
        session.write_next(BLOCK_BYTES)?;
        session.flush(0)?;
        flushes.push(session.flush(0)?);
    }
    costs.flush_ns = Some(median(&flushes));
    session.begin("writes by queue depth");
    let mut rng = Rng::new(2);
    for depth in DEPTHS {
        let mut latencies = Vec::new();
        for _ in 0..BURSTS {
            session.rest(REST_NS);
            let ops: Vec<DriveOp> =
                (0..(2 * depth).max(8)).map(|_| small(session, &mut rng)).collect();
            latencies.extend_from_slice(&session.keep(depth as usize, &ops)?[depth as usize..]);
        }
        costs.write_latency.push((depth, median(&latencies)));
    }
    session.begin("the cache");
    let chunks = until_used_up(session)?;
    let knee = knee(&chunks);
    costs.slc_bytes = knee.map(|chunks| chunks as u64 * CHUNK_BYTES);
    costs.burst_bytes_per_s =
        Some(rate(CHUNK_BYTES, median(&chunks[..knee.unwrap_or(chunks.len())])));
    // the buffer took the first of them at the old rate
    let beyond = knee.map_or(0, |knee| knee + 4);
    assert!(beyond <= chunks.len(), "a knee is found when chunks behind it were written");
    let ns: u64 = chunks[beyond..].iter().sum();
    costs.sustained_bytes_per_s = Some(rate(CHUNK_BYTES * (chunks.len() - beyond) as u64, ns));
    session.begin("long writes by queue depth");
    for depth in DEPTHS {
        let ops: Vec<DriveOp> = (0..SUSTAINED_WRITES).map(|_| small(session, &mut rng)).collect();
        let latencies = session.keep(depth as usize, &ops)?;
        costs.sustained_latency.push((depth, mean_of_most(&latencies[SUSTAINED_WRITES / 2..])));
    }
    Ok(())
}

/// Large writes in sequence until the rate has fallen and is steady; the time of each chunk in ns.
fn until_used_up(session: &mut Session<'_>) -> Result<Vec<u64>, MeasureError> {
    let capacity = session.capacity_bytes() / CHUNK_BYTES * CHUNK_BYTES;
    let most = SEARCH_BYTES_MAX.min(capacity) / CHUNK_BYTES;
    let mut chunks = Vec::new();
    let mut found = None;
    for chunk in 0..most {
        let ops: Vec<DriveOp> = (0..CHUNK_BYTES / LARGE_BYTES)
            .map(|index| write_at(chunk * CHUNK_BYTES + index * LARGE_BYTES, LARGE_BYTES))
            .collect();
        let before = session.now_ns();
        session.keep(LARGE_DEPTH, &ops)?;
        chunks.push(session.now_ns() - before);
        found = found.or_else(|| knee_at_end(&chunks));
        if found.is_some_and(|knee| chunks.len() >= knee + BEYOND_CHUNKS) {
            break;
        }
    }
    Ok(chunks)
}

/// Where the rate falls for good, in chunks.
pub(crate) fn knee(chunks_ns: &[u64]) -> Option<usize> {
    (KNEE_CHUNKS..=chunks_ns.len()).find_map(|end| knee_at_end(&chunks_ns[..end]))
}

/// … if the last chunks are the first slower ones. The level before is that of the chunks just
/// before and not of all, so that this stays cheap over a long search; the first ones went into the
/// buffer.
fn knee_at_end(chunks_ns: &[u64]) -> Option<usize> {
    let knee = chunks_ns.len().checked_sub(KNEE_CHUNKS)?;
    let level = knee.saturating_sub(32).max(BUFFER_CHUNKS)..knee;
    if level.len() < LEVEL_CHUNKS {
        return None;
    }
    let before = median(&chunks_ns[level]);
    let slower = |ns: &u64| ns * KNEE_PERCENT / 100 > before;
    chunks_ns[knee..].iter().all(slower).then_some(knee)
}

/// Writes the whole drive once in sequence and once more at random, so that it is full and aged.
///
/// # Errors
/// The drive's or the budget's.
pub fn fill(session: &mut Session<'_>) -> Result<(), MeasureError> {
    session.begin("filling the drive");
    let places = session.capacity_bytes() / LARGE_BYTES;
    let mut rng = Rng::new(4);
    for lap in 0..2 {
        let mut next = 0;
        while next < places {
            let count = (places - next).min(LARGE_DEPTH as u64 * 16);
            let ops: Vec<DriveOp> = (next..next + count)
                .map(|place| if lap == 0 { place } else { rng.below(places) })
                .map(|place| write_at(place * LARGE_BYTES, LARGE_BYTES))
                .collect();
            session.keep(LARGE_DEPTH, &ops)?;
            next += count;
        }
    }
    Ok(())
}

/// Random large writes on a drive that is full: collections, one at a time.
///
/// # Errors
/// The drive's or the budget's.
pub fn collections(session: &mut Session<'_>, costs: &mut SsdCosts) -> Result<(), MeasureError> {
    session.begin("garbage collection");
    let mut rng = Rng::new(3);
    let places = session.capacity_bytes() / LARGE_BYTES;
    let mut latencies = Vec::new();
    let mut spikes = Spikes::default();
    let mut longest = 0;
    let mut seen = 0;
    let before = session.now_ns();
    while seen < COLLECTIONS && latencies.len() < COLLECTING_WRITES_MAX {
        let op = write_at(rng.below(places) * LARGE_BYTES, LARGE_BYTES);
        let latency = session.keep(1, &[op])?[0];
        latencies.push(latency);
        if !spikes.see(latency) {
            continue;
        }
        // Counted from the longest kind of stall on: shorter ones are programs.
        if latency > longest * 2 {
            seen = 0;
        }
        longest = longest.max(latency);
        seen += usize::from(latency > longest / 2);
    }
    let elapsed = session.now_ns() - before;
    costs.steady_bytes_per_s = Some(rate(LARGE_BYTES * latencies.len() as u64, elapsed));
    (costs.gc_event_ns, costs.gc_share_ppm) = stalls(&latencies);
    Ok(())
}

/// Median length of the stalls among these latencies, and their share of the time in millionths.
pub(crate) fn stalls(latencies_ns: &[u64]) -> (Option<u64>, Option<u64>) {
    let mut spikes = Spikes::default();
    let stalled: Vec<bool> = latencies_ns.iter().map(|latency| spikes.see(*latency)).collect();
    let of = |wanted: bool| -> Vec<u64> {
        let both = latencies_ns.iter().zip(&stalled);
        both.filter(|pair| *pair.1 == wanted).map(|pair| *pair.0).collect()
    };
    let usual = median(&of(false));
    let mut stalls: Vec<u64> = of(true).into_iter().map(|ns| ns - usual.min(ns)).collect();
    stalls.sort_unstable();
    // Where dies work in step a full buffer waits for a program, too: the longer kind is meant.
    let gap = |pair: &[u64]| pair[1] * 16 / pair[0].max(1);
    let widest = (1..stalls.len()).max_by_key(|at| gap(&stalls[at - 1..=*at]));
    if let Some(at) = widest.filter(|at| gap(&stalls[at - 1..=*at]) > 64) {
        stalls.drain(..at);
    }
    if stalls.is_empty() {
        return (None, None);
    }
    let all: u64 = latencies_ns.iter().sum();
    (Some(median(&stalls)), Some(ppm(stalls.iter().sum(), all)))
}

/// A write of one block anywhere.
fn small(session: &Session<'_>, rng: &mut Rng) -> DriveOp {
    write_at(rng.below(session.capacity_bytes() / BLOCK_BYTES) * BLOCK_BYTES, BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_ends_where_the_rate_falls_for_good() {
        let mut chunks = vec![10; 50];
        chunks[20] = 90;
        chunks.extend([40; 30]);
        assert_eq!(knee(&chunks), Some(50));
        assert_eq!(knee(&[10; 80]), None);
    }

    #[test]
    fn stalls_have_a_length_and_a_share() {
        let mut latencies = vec![400_000; 99];
        latencies.push(60_400_000);
        let latencies = latencies.repeat(5);
        let (event, share) = stalls(&latencies);
        assert_eq!(event, Some(60_000_000));
        assert_eq!(share, Some(600_000));
        assert_eq!(stalls(&[400_000; 50]), (None, None));
        let mut in_step = latencies;
        in_step.iter_mut().step_by(7).for_each(|latency| *latency = 3_000_000.max(*latency));
        assert_eq!(stalls(&in_step).0, Some(60_000_000), "waits for programs are none");
    }

    #[test]
    fn m27_the_queue_length_is_the_smallest_that_exceeds_the_mid_latency() {
        let costs = SsdCosts {
            sustained_latency: vec![(1, 40_000), (2, 80_000), (4, 160_000)],
            ..SsdCosts::default()
        };
        for (mid, want) in [(30_000, Some(1)), (55_000, Some(2)), (80_000, Some(3))] {
            assert_eq!(costs.queue_length(mid), want, "{mid}");
        }
        assert_eq!(costs.queue_length(10_000_000), None);
        assert_eq!(SsdCosts::default().queue_length(1), None);
    }
}
