//! When and how fast does a drive empty its buffer while it is left alone?
//!
//! Source: models §5.2: write part of `W_f`, wait, and see how much room there is. The three laws
//! differ in what the room does: it grows at once (continuous), after a time, or never.

use super::detail::DrainLaw;
use super::probe::{MeasureError, Session};
use super::series::{Line, mean};
use super::staircase::{Spikes, Steps, until_slow};

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

/// One trial: bytes that still fit after the wait, and the time that writing them took.
struct Room {
    bytes: i64,
    tail_ns: u64,
}

fn trial(
    session: &mut Session<'_>,
    steps: &Steps,
    dirty_bytes: u64,
    wait_ns: u64,
) -> Result<Room, MeasureError> {
    session.flush(steps.fast_bytes * 4)?;
    let mut spikes = Spikes::default();
    for _ in 0..dirty_bytes / steps.write_bytes {
        spikes.see(session.write_next(steps.write_bytes)?);
    }
    session.rest(wait_ns);
    let before = session.now_ns();
    let (bytes, at) = until_slow(session, steps.write_bytes, &mut spikes)?;
    Ok(Room { bytes: i64::try_from(bytes).unwrap_or(i64::MAX), tail_ns: at - before })
}

/// Finds the law with the writes of these steps.
///
/// # Errors
/// The drive's or the budget's.
pub fn measure(session: &mut Session<'_>, steps: &Steps) -> Result<Drain, MeasureError> {
    session.begin("how it empties when idle");
    let dirty = steps.fast_bytes * 3 / 4;
    let trials = |session: &mut Session<'_>, wait_ns, count: usize| {
        let mut rooms = (Vec::new(), Vec::new());
        for _ in 0..count {
            let room = trial(session, steps, dirty, wait_ns)?;
            rooms.0.push(room.bytes.unsigned_abs());
            rooms.1.push(room.tail_ns);
        }
        let bytes = i64::try_from(mean(&rooms.0)).unwrap_or(i64::MAX);
        Ok::<_, MeasureError>(Room { bytes, tail_ns: mean(&rooms.1) })
    };
    let base = trials(session, 0, TRIALS)?;
    let longest = WAITS_NS[WAITS_NS.len() - 1];
    let whole = trials(session, longest, 2)?.bytes - base.bytes;
    if whole < i64::try_from(dirty).unwrap_or(i64::MAX) * NOTHING_PERCENT / 100 {
        return Ok(Drain { law: DrainLaw::WhenFull, idle_ns: longest, bytes_per_s: None });
    }
    let (low, high) =
        window(session, whole, |session, wait| Ok(trials(session, wait, 2)?.bytes - base.bytes))?;
    let (mut points, mut tails) = (Vec::new(), Vec::new());
    for index in 0..POINTS {
        let wait_ns = low + (high - low) * index / (POINTS - 1);
        let room = trials(session, wait_ns, TRIALS)?;
        let gain = room.bytes - base.bytes;
        points.push((wait_ns, gain));
        tails.push((wait_ns + room.tail_ns.saturating_sub(base.tail_ns), gain));
    }
    Ok(law(&points, &tails, low))
}

/// The waits at which about a fifth and four fifths of the `whole` gain are there.
fn window<'a>(
    session: &mut Session<'a>,
    whole: i64,
    mut gain: impl FnMut(&mut Session<'a>, u64) -> Result<i64, MeasureError>,
) -> Result<(u64, u64), MeasureError> {
    let mut edges = [0; 2];
    for (edge, percent) in edges.iter_mut().zip([20, 80]) {
        let enough = whole * percent / 100;
        let mut low = 0;
        let mut high = WAITS_NS[WAITS_NS.len() - 1];
        for wait in WAITS_NS {
            if gain(session, wait)? >= enough {
                high = wait;
                break;
            }
            low = wait;
        }
        for _ in 0..HALVINGS {
            let middle = low + (high - low) / 2;
            if gain(session, middle)? >= enough {
                high = middle;
            } else {
                low = middle;
            }
        }
        *edge = high;
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
