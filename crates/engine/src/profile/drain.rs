//! When and how fast does a drive empty its buffer while it is left alone?
//!
//! Source: models §5.2: write part of `W_f`, wait, and see how much room there is. The three laws
//! differ in what the room does: it grows at once (continuous), after a time, or never. All trials
//! are made in one region, the outermost, since the rate is that of the platter.

use super::detail::DrainLaw;
use super::probe::{MeasureError, Session};
use super::series::{Line, kept, mean};
use super::staircase::{Spikes, Steps, until_slow};

/// What is measured here.
pub(super) const WHAT: &str = "how it empties when idle";
/// Waits that are tried at first: doubling from 1 ms.
const WAITS_NS: [u64; 13] = {
    let mut waits = [1_000_000; 13];
    let mut index = 1;
    while index < waits.len() {
        waits[index] = waits[index - 1] * 2;
        index += 1;
    }
    waits
};
/// A gain below this share of what was dirty is jitter.
const NOTHING_PERCENT: i64 = 10;
/// Halvings of the interval in which emptying begins, or ends.
const HALVINGS: u32 = 8;
/// Points of the line, and trials of each.
const POINTS: u64 = 6;
const TRIALS: usize = 6;
/// … while the points are sought.
const TRIALS_SEARCHING: usize = 3;
/// An emptying that begins sooner than this, in ns, never waited.
const AT_ONCE_NS: i128 = 2_000_000;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// The law.
    pub law: DrainLaw,
    /// Quiet time before it begins, in ns; 0 for continuous, the longest wait tried for when-full.
    pub idle_ns: u64,
    /// Then bytes/s; `None` for when-full.
    pub bytes_per_s: Option<u64>,
}

/// One trial: how long the wait was, bytes that still fit after it, and the time that writing them
/// took.
#[derive(Clone, Copy)]
struct Room {
    wait_ns: u64,
    bytes: u64,
    tail_ns: u64,
}

/// What most trials agree in.
fn agreed(rooms: &[Room]) -> Room {
    let of = |part: fn(&Room) -> u64| mean(&kept(&rooms.iter().map(part).collect::<Vec<_>>()));
    Room {
        wait_ns: of(|room| room.wait_ns),
        bytes: of(|room| room.bytes),
        tail_ns: of(|room| room.tail_ns),
    }
}

/// By how much `bytes` are more.
fn gain(bytes: u64, base: &Room) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX) - i64::try_from(base.bytes).unwrap_or(i64::MAX)
}

fn trial(
    session: &mut Session<'_>,
    steps: &Steps,
    dirty_bytes: u64,
    wait_ns: u64,
) -> Result<Room, MeasureError> {
    session.rewind();
    session.flush(steps.fast_bytes * 4)?;
    let mut spikes = Spikes::like(steps);
    for _ in 0..dirty_bytes / steps.write_bytes {
        spikes.see(session.write_next(steps.write_bytes)?);
    }
    let idle = session.now_ns();
    session.rest(wait_ns);
    // a host that sleeps wakes late
    let before = session.now_ns();
    let (bytes, at) = until_slow(session, steps.write_bytes, &mut spikes)?;
    Ok(Room { wait_ns: before - idle, bytes, tail_ns: at - before })
}

/// Finds the law with the writes of these steps.
///
/// # Errors
/// The drive's or the budget's.
pub(crate) fn measure(session: &mut Session<'_>, steps: &Steps) -> Result<Drain, MeasureError> {
    session.begin(WHAT);
    let dirty = steps.fast_bytes * 3 / 4;
    let trials = |session: &mut Session<'_>, wait_ns, count: usize| {
        let rooms: Result<Vec<Room>, MeasureError> =
            (0..count).map(|_| trial(session, steps, dirty, wait_ns)).collect();
        rooms
    };
    let base = agreed(&trials(session, 0, TRIALS)?);
    let mut gain_at = |session: &mut Session<'_>, wait_ns| {
        Ok(gain(agreed(&trials(session, wait_ns, TRIALS_SEARCHING)?).bytes, &base))
    };
    let longest = WAITS_NS[WAITS_NS.len() - 1];
    let whole = gain_at(session, longest)?;
    if whole < i64::try_from(dirty).unwrap_or(i64::MAX) * NOTHING_PERCENT / 100 {
        return Ok(Drain { law: DrainLaw::WhenFull, idle_ns: longest, bytes_per_s: None });
    }
    let (low, high) = window(session, whole, &mut gain_at)?;
    let (mut points, mut tails) = (Vec::new(), Vec::new());
    for index in 0..POINTS {
        let wait_ns = low + (high - low) * index / (POINTS - 1);
        for room in trials(session, wait_ns, TRIALS)? {
            let gain = gain(room.bytes, &base);
            points.push((room.wait_ns, gain));
            tails.push((room.wait_ns + room.tail_ns.saturating_sub(base.tail_ns), gain));
        }
    }
    Ok(law(&points, &tails, low))
}

/// The waits at which about a fifth and four fifths of the `whole` gain are there.
fn window<'a>(
    session: &mut Session<'a>,
    whole: i64,
    gain_at: &mut impl FnMut(&mut Session<'a>, u64) -> Result<i64, MeasureError>,
) -> Result<(u64, u64), MeasureError> {
    let mut edges = [0; 2];
    let mut from = 0;
    for (edge, percent) in edges.iter_mut().zip([20, 80]) {
        let enough = whole * percent / 100;
        let mut low = from;
        let mut high = WAITS_NS[WAITS_NS.len() - 1];
        for wait in WAITS_NS.into_iter().filter(|wait| *wait > from) {
            if gain_at(session, wait)? >= enough {
                high = wait;
                break;
            }
            low = wait;
        }
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2;
            if gain_at(session, middle)? >= enough {
                high = middle;
            } else {
                low = middle;
            }
        }
        (*edge, from) = (high, high);
    }
    Ok((edges[0], edges[1].max(edges[0] + 1)))
}

/// The law of points (wait, gain); `tails` count the longer writing afterwards as waiting, too,
/// because a drive that always empties does so then as well.
fn law(points: &[(u64, i64)], tails: &[(u64, i64)], low: u64) -> Drain {
    let line = Line::through(points);
    let begins = line.and_then(|line| line.zero_at());
    match begins {
        Some(begins) if begins >= AT_ONCE_NS => Drain {
            law: DrainLaw::AfterIdle,
            idle_ns: u64::try_from(begins).unwrap_or(low),
            bytes_per_s: line.map(|line| line.slope(1_000_000_000)),
        },
        Some(_) => Drain {
            law: DrainLaw::Continuous,
            idle_ns: 0,
            bytes_per_s: Line::through(tails).map(|line| line.slope(1_000_000_000)),
        },
        // all at once, so fast that no wait sees a part of it
        None => Drain { law: DrainLaw::AfterIdle, idle_ns: low, bytes_per_s: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_told_apart() {
        let at = |begin: u64| -> Vec<(u64, i64)> {
            (1..6).map(|i| (begin + i * 1_000_000, i as i64 * 200_000)).collect()
        };
        let idle = law(&at(50_000_000), &at(50_000_000), 0);
        assert_eq!(idle.law, DrainLaw::AfterIdle);
        assert!(idle.idle_ns.abs_diff(50_000_000) < 50_000, "{}", idle.idle_ns);
        assert!(idle.bytes_per_s.expect("a rate").abs_diff(200_000_000) < 1_000_000);
        assert_eq!(law(&at(0), &at(0), 0).law, DrainLaw::Continuous);
    }
}
