//! Where are the steps of a drive's writes? Fast, slow and mid, by size of write.
//!
//! Source: [BCW §3, Fig. 4, Table 2] for the stages; models §5.2 for how each is found: bytes to the
//! first spike, bytes between spikes, medians between them. A busy host makes spikes, too, but of
//! any length, while those of a drive are alike: the most frequent length is the drive's. The first
//! may be shorter, since the platter is not behind yet; it is known by the level that follows it.
//! Names: `W_f` → `fast_bytes`, `W_m` → `mid_bytes`, `T_s` → `slow_ns`, `L_f`, `L_m` → `fast_ns`,
//! `mid_ns`.

use super::probe::{MeasureError, Session};
use super::series::{kept, mean, median, ppm, variance};
use std::collections::VecDeque;
use tandem_block::{KIB, MIB};

/// Sizes that are measured.
pub(crate) const WRITE_SIZES: [u64; 4] = [4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB];
/// A spike is longer than this, in ns …
const SPIKE_NS: u64 = 2_000_000;
/// … and than so many medians of the writes before it.
const SPIKE_MEDIANS: u64 = 5;
/// Writes that the running median looks back on.
const MEDIAN_WRITES: usize = 63;
/// Writes before and after a spike that tell its levels …
const LEVEL_WRITES: usize = 8;
/// … and by how much the second is above the first: a half in the paper's drive.
const LEVEL_PERCENT: u64 = 120;
/// Streams of each size, each from an empty buffer.
const ROUNDS: usize = 6;
/// Mid stages of each stream.
const MID_STAGES: usize = 8;
/// Bytes without a slow write after which a stream is given up: as much as the largest DRAM of the
/// drives that the paper measured.
const STREAM_BYTES_MAX: u64 = 256 * MIB;
/// Stages that spread more than this, in millionths, cannot be predicted.
const JITTER_PPM_MAX: u64 = 250_000;

/// One stream of writes of one size from an empty buffer: their latencies in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Size of each write.
    pub write_bytes: u64,
    /// Latency of each.
    pub latencies_ns: Vec<u64>,
}

/// Finds spikes as latencies come.
#[derive(Clone, Debug)]
pub(super) struct Spikes {
    least_ns: u64,
    recent: VecDeque<u64>,
}

impl Default for Spikes {
    /// Of any length.
    fn default() -> Self {
        Spikes { least_ns: SPIKE_NS, recent: VecDeque::new() }
    }
}

impl Spikes {
    /// Those that last as long as the slow writes of these steps, or longer.
    pub(super) fn like(steps: &Steps) -> Self {
        Spikes { least_ns: alike(steps.slow_ns).0, ..Spikes::default() }
    }

    /// Is this latency a spike? The first write of a stream never is.
    pub(super) fn see(&mut self, latency_ns: u64) -> bool {
        if latency_ns > self.least_ns && !self.recent.is_empty() {
            let usual = median(self.recent.make_contiguous());
            if latency_ns > usual.saturating_mul(SPIKE_MEDIANS) {
                return true;
            }
        }
        self.recent.push_back(latency_ns);
        if self.recent.len() > MEDIAN_WRITES {
            self.recent.pop_front();
        }
        false
    }
}

/// Slow writes of one drive lie between these.
fn alike(slow_ns: u64) -> (u64, u64) {
    (slow_ns - slow_ns / 4, slow_ns + slow_ns / 4)
}

/// The length that most spikes have, and how many have it. The longer of two equal ones.
fn usual_spike(spikes_ns: &[u64]) -> (u64, usize) {
    let count = |length: u64| {
        let (least, most) = alike(length);
        spikes_ns.iter().filter(|spike| (least..=most).contains(spike)).count()
    };
    let counted = spikes_ns.iter().map(|spike| (count(*spike), *spike));
    counted.max().map_or((0, 0), |(count, length)| (length, count))
}

/// The steps at one size of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Size of the writes.
    pub write_bytes: u64,
    /// Median latency in the fast stage.
    pub fast_ns: u64,
    /// … in the mid stages.
    pub mid_ns: u64,
    /// What a slow write takes beyond a fast one.
    pub slow_ns: u64,
    /// Mean bytes of the fast stage.
    pub fast_bytes: u64,
    /// … of a mid stage.
    pub mid_bytes: u64,
    /// Mean writes of the fast stage.
    pub fast_writes: u64,
    /// … of a mid stage.
    pub mid_writes: u64,
    /// Standard deviation of the fast stage, in millionths of its bytes.
    pub fast_jitter_ppm: u64,
    /// … of the mid stage.
    pub mid_jitter_ppm: u64,
}

/// What the streams say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staircase {
    /// Steps by size, ascending; sizes without any are left out.
    pub steps: Vec<Steps>,
    /// Why there is no staircase that writes could be steered by; `None` if there is one.
    pub(crate) none: Option<String>,
    /// The first stream of each size, for a plot.
    pub streams: Vec<Stream>,
}

/// The steps of streams of one size; `None` if a stage is missing.
pub(crate) fn fit(streams: &[Stream]) -> Option<Steps> {
    let write_bytes = streams.first()?.write_bytes;
    assert!(
        streams.iter().all(|stream| stream.write_bytes == write_bytes),
        "steps are of one size of write"
    );
    let (mut fast, mut mid, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fast_counts, mut mid_counts) = (Vec::new(), Vec::new());
    let spikes_ns: Vec<u64> = streams.iter().flat_map(spikes_of).collect();
    let least_ns = alike(usual_spike(&spikes_ns).0).0.max(1);
    for stream in streams {
        let mut spikes = Spikes::default();
        let mut first = None;
        let mut since = 0;
        for (index, latency) in stream.latencies_ns.iter().enumerate() {
            let is_drives =
                || *latency >= least_ns || (first.is_none() && rises(&stream.latencies_ns, index));
            if spikes.see(*latency) && is_drives() {
                slow.push(*latency);
                let counts = if first.is_none() { &mut fast_counts } else { &mut mid_counts };
                counts.push(since);
                (first, since) = (Some(()), 0);
            } else {
                let stage = if first.is_none() { &mut fast } else { &mut mid };
                stage.push(*latency);
                since += 1;
            }
        }
    }
    if fast_counts.is_empty() || mid_counts.is_empty() {
        return None;
    }
    let fast_ns = median(&fast);
    let (fast_counts, mid_counts) = (kept(&fast_counts), kept(&mid_counts));
    // The budget lies between the last write that fitted and the one that did not.
    let bytes = |counts: &[u64]| mean_bytes(counts, write_bytes);
    Some(Steps {
        write_bytes,
        fast_ns,
        mid_ns: median(&mid).max(fast_ns),
        slow_ns: median(&slow).saturating_sub(fast_ns),
        fast_bytes: bytes(&fast_counts),
        mid_bytes: bytes(&mid_counts),
        fast_writes: mean(&fast_counts),
        mid_writes: mean(&mid_counts),
        fast_jitter_ppm: jitter_ppm(&fast_counts),
        mid_jitter_ppm: jitter_ppm(&mid_counts),
    })
}

/// Do writes take longer after this one than before it?
fn rises(latencies_ns: &[u64], at: usize) -> bool {
    let before = &latencies_ns[at.saturating_sub(LEVEL_WRITES)..at];
    let after = &latencies_ns[at + 1..latencies_ns.len().min(at + 1 + LEVEL_WRITES)];
    let is_enough = before.len().min(after.len()) >= LEVEL_WRITES / 2;
    is_enough && median(after) > median(before) * LEVEL_PERCENT / 100
}

/// Everything in a stream that takes unusually long.
fn spikes_of(stream: &Stream) -> Vec<u64> {
    let mut spikes = Spikes::default();
    stream.latencies_ns.iter().copied().filter(|latency| spikes.see(*latency)).collect()
}

fn mean_bytes(counts: &[u64], write_bytes: u64) -> u64 {
    assert!(!counts.is_empty(), "a mean is of some stages");
    let halves: u64 = counts.iter().map(|count| 2 * count + 1).sum();
    write_bytes * halves / (2 * counts.len() as u64)
}

/// Standard deviation in millionths of the mean, without what counting in whole writes adds (a
/// twelfth of a write squared, Sheppard's correction).
fn jitter_ppm(counts: &[u64]) -> u64 {
    let fine: Vec<u64> = counts.iter().map(|count| count * 1_000).collect();
    let spread = variance(&fine).saturating_sub(1_000_000 / 12).isqrt();
    ppm(u64::try_from(spread).unwrap_or(u64::MAX), mean(&fine))
}

/// Writes streams of every size, as far as the budget goes, and finds their steps.
///
/// # Errors
/// The drive's.
pub(crate) fn measure(session: &mut Session<'_>) -> Result<Staircase, MeasureError> {
    let mut staircase = Staircase { steps: Vec::new(), none: None, streams: Vec::new() };
    let (mut slowest_fast_ns, mut is_over) = (0, false);
    for write_bytes in WRITE_SIZES {
        session.begin("the staircase");
        let mut streams = Vec::new();
        for _ in 0..ROUNDS {
            let found = stream(session, write_bytes);
            let Some(stream) = session.within_budget(found)? else {
                is_over = true;
                break;
            };
            let has_steps = fit(std::slice::from_ref(&stream)).is_some();
            streams.push(stream);
            if !has_steps {
                break;
            }
        }
        if let Some(first) = streams.first() {
            slowest_fast_ns = slowest_fast_ns.max(median(&first.latencies_ns));
            staircase.steps.extend(fit(&streams));
            staircase.streams.push(streams.swap_remove(0));
        }
        if is_over || slowest_fast_ns > SPIKE_NS {
            break;
        }
    }
    staircase.none = match is_over && staircase.steps.is_empty() {
        true => Some("its budget of writes was used up before any stage had ended".to_owned()),
        false => verdict(&staircase.steps, slowest_fast_ns),
    };
    Ok(staircase)
}

/// Why these steps are of no use.
fn verdict(steps: &[Steps], typical_ns: u64) -> Option<String> {
    if typical_ns > SPIKE_NS {
        let us = typical_ns / 1_000;
        return Some(format!(
            "a typical write takes {us} us, as long as moving the head: the write cache is off"
        ));
    }
    if steps.is_empty() {
        let mib = STREAM_BYTES_MAX / MIB;
        return Some(format!("no slow write in {mib} MiB of a stream, at any size"));
    }
    let spread = |step: &Steps| step.fast_jitter_ppm.max(step.mid_jitter_ppm);
    let least = steps.iter().map(spread).min().unwrap_or(0);
    (least > JITTER_PPM_MAX).then(|| {
        let percent = least / 10_000;
        format!("slow writes come at irregular distances: they spread by {percent} % at least")
    })
}

/// One stream from an empty buffer: a fast stage and [`MID_STAGES`] mid stages.
fn stream(session: &mut Session<'_>, write_bytes: u64) -> Result<Stream, MeasureError> {
    session.flush(STREAM_BYTES_MAX)?;
    let mut latencies_ns = Vec::new();
    let mut spikes = Spikes::default();
    let (mut spikes_ns, mut slow, mut since) = (Vec::new(), 0, 0);
    while slow <= MID_STAGES && since < STREAM_BYTES_MAX {
        let latency = session.write_next(write_bytes)?;
        latencies_ns.push(latency);
        since += write_bytes;
        if spikes.see(latency) {
            spikes_ns.push(latency);
            let alike = usual_spike(&spikes_ns).1;
            if alike > slow {
                (slow, since) = (alike, 0);
            }
        }
        // a drive whose every write is slow shows that soon
        if latencies_ns.len() == MEDIAN_WRITES && median(&latencies_ns) > SPIKE_NS {
            break;
        }
    }
    Ok(Stream { write_bytes, latencies_ns })
}

/// Bytes from here to the next slow write, and when it came.
pub(super) fn until_slow(
    session: &mut Session<'_>,
    write_bytes: u64,
    spikes: &mut Spikes,
) -> Result<(u64, u64), MeasureError> {
    let mut bytes = 0;
    while bytes < STREAM_BYTES_MAX {
        if spikes.see(session.write_next(write_bytes)?) {
            break;
        }
        bytes += write_bytes;
    }
    Ok((bytes + write_bytes / 2, session.now_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with these stages: writes of 100 us, then a spike of 12 ms and writes of 150 us.
    fn made(fast: usize, mids: &[usize]) -> Stream {
        let mut latencies_ns = vec![100_000; fast];
        for mid in mids {
            latencies_ns.push(12_100_000);
            latencies_ns.extend(vec![150_000; *mid]);
        }
        latencies_ns.push(12_100_000);
        Stream { write_bytes: 64 * KIB, latencies_ns }
    }

    #[test]
    fn steps_are_found_in_a_made_stream() {
        let steps = fit(&[made(256, &[128, 120]), made(250, &[124])]).expect("it has steps");
        assert_eq!((steps.fast_ns, steps.mid_ns, steps.slow_ns), (100_000, 150_000, 12_000_000));
        assert_eq!((steps.fast_writes, steps.mid_writes), (253, 124));
        assert_eq!(steps.fast_bytes, 64 * KIB * 253 + 32 * KIB);
        assert!((15_000..18_000).contains(&steps.fast_jitter_ppm), "{}", steps.fast_jitter_ppm);
        assert!((30_000..34_000).contains(&steps.mid_jitter_ppm), "{}", steps.mid_jitter_ppm);
    }

    /// Waits of any length, as when the host is busy, and slow writes that are seen late.
    #[test]
    fn spikes_that_are_not_the_drives_are_told_apart() {
        let mut streams: Vec<Stream> = (0..6).map(|_| made(256, &[128; 8])).collect();
        let mut rng = tandem_block::Rng::new(2);
        for latency in streams.iter_mut().flat_map(|stream| &mut stream.latencies_ns) {
            if rng.chance_ppm(10_000) {
                *latency += rng.between(2_000_000, 9_000_000);
            }
        }
        let steps = fit(&streams).expect("it has steps");
        assert_eq!((steps.fast_writes, steps.mid_writes), (256, 128));
        assert!(steps.slow_ns.abs_diff(12_000_000) < 200_000, "{}", steps.slow_ns);
        assert_eq!((steps.fast_ns, steps.mid_ns), (100_000, 150_000));
        assert_eq!(usual_spike(&[]), (0, 0));
    }

    #[test]
    fn a_spike_is_above_both_bounds() {
        let mut spikes = Spikes::default();
        let first = [9_000_000, 100_000, 1_900_000, 2_100_000];
        // the first is never one; 1.9 ms is too short; 2.1 ms is not five times 1.9 ms
        assert!(!first.map(|latency| spikes.see(latency)).contains(&true));
        assert!(![100_000; 5].map(|latency| spikes.see(latency)).contains(&true));
        assert!(spikes.see(2_100_000), "the median has come down");
    }

    #[test]
    fn without_spikes_there_is_no_staircase() {
        let flat = Stream { write_bytes: 4 * KIB, latencies_ns: vec![20_000; 1_000] };
        assert_eq!(fit(&[flat]), None);
        assert!(verdict(&[], 20_000).is_some_and(|why| why.contains("no slow write")));
        assert!(verdict(&[], 9_000_000).is_some_and(|why| why.contains("write cache is off")));
        let irregular = fit(&[made(250, &[10, 200, 30, 140])]).expect("it has spikes");
        let why = verdict(&[irregular], 100_000).expect("of no use");
        assert!(why.contains("irregular"), "{why}");
    }
}
