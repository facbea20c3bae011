//! How long until the head is there, and how fast do bytes pass under it? Reads alone tell.
//!
//! Source: models §5.2: single reads at distances of the stroke, sequential reads in its regions.
//! The wait for the platter is anything up to one turn, so among many reads at one distance the
//! fastest shows the seek and the range shows the turn. The waits lie close together within the turn;
//! beyond a gap lie those that the host was wrong about.

use super::probe::{MeasureError, Session};
use super::series::{median, rate};
use tandem_block::{KIB, MIB};

/// Reads at each distance: the least wait among them is a turn over so many.
const READS: u64 = 384;
/// … at the nearest, where a seek is short.
const READS_NEAR: u64 = 1_536;
/// A neighbouring track that no read-ahead covers.
const NEAR_BYTES: u64 = 4 * MIB;
/// Evenly spread values leave a gap of so many mean ones once in millions.
const GAP: u64 = 20;
/// From pair to pair the places move on, so that the drive holds none of them.
const STEP_BYTES: u64 = 64 * KIB;
/// Regions whose rate is measured, and bytes read in each.
const REGIONS: u64 = 9;
const REGION_BYTES: u64 = 32 * MIB;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mechanics {
    /// Command and seek without rotation, and 4 KiB read: (distance in bytes, ns), ascending.
    pub seeks: Vec<(u64, u64)>,
    /// One turn, in ns.
    pub turn_ns: u64,
    /// (first byte, bytes/s), ascending.
    pub regions: Vec<(u64, u64)>,
}

impl Mechanics {
    /// A typical positioning: a third of the stroke and half a turn, in ns.
    pub fn position_ns(&self, capacity_bytes: u64) -> u64 {
        let third = self.seeks.iter().min_by_key(|seek| seek.0.abs_diff(capacity_bytes / 3));
        third.map_or(0, |seek| seek.1) + self.turn_ns / 2
    }
}

/// Measures by reads.
///
/// # Errors
/// The drive's.
pub(crate) fn measure(session: &mut Session<'_>) -> Result<Mechanics, MeasureError> {
    session.begin("seeks");
    let capacity = session.capacity_bytes();
    let mut mechanics = Mechanics::default();
    // two of these steps are taken by pairs at the full stroke
    let full = capacity.saturating_sub(READS * STEP_BYTES);
    let mut distances = vec![NEAR_BYTES, capacity / 1000, capacity / 10, capacity / 3, full];
    distances.retain(|distance| *distance >= NEAR_BYTES && *distance <= full);
    distances.dedup();
    for distance in distances {
        let (reads, places) = if distance == NEAR_BYTES {
            (READS_NEAR, near_places(capacity))
        } else {
            (READS, pairs(distance, capacity))
        };
        let mut latencies = Vec::new();
        for place in places.into_iter().take(reads as usize + 1) {
            latencies.push(session.read(place, 4 * KIB)?);
        }
        // the first came from anywhere
        let (reach_ns, turn_ns) = seek_and_turn(&latencies[1..]);
        mechanics.seeks.push((distance, reach_ns));
        if distance == NEAR_BYTES {
            mechanics.turn_ns = turn_ns;
        }
    }
    session.begin("rates by region");
    for index in 0..REGIONS {
        let room = capacity.saturating_sub(REGION_BYTES + MIB);
        let begin = room / (REGIONS - 1) * index / MIB * MIB;
        session.read(begin, MIB)?;
        let mut latencies = Vec::new();
        for chunk in 1..=REGION_BYTES / MIB {
            latencies.push(session.read(begin + chunk * MIB, MIB)?);
        }
        mechanics.regions.push((begin, rate(MIB, median(&latencies))));
    }
    mechanics.regions.dedup_by_key(|region| region.0);
    Ok(mechanics)
}

/// Forward by [`NEAR_BYTES`] each.
fn near_places(capacity: u64) -> Vec<u64> {
    let laps = (capacity / NEAR_BYTES).max(1);
    (0..=READS_NEAR).map(|index| index % laps * NEAR_BYTES).collect()
}

/// To and fro over `distance`.
fn pairs(distance: u64, capacity: u64) -> Vec<u64> {
    assert!(distance <= capacity, "a seek stays on the drive");
    let room = (capacity - distance) / STEP_BYTES;
    let place = |index: u64| index / 2 % room.max(1) * STEP_BYTES + index % 2 * distance;
    (0..=READS).map(|index| place(index) / 4096 * 4096).collect()
}

/// The least that a read can take, and the turn: of values spread evenly over one turn the least and
/// the largest are a part of it from its ends.
pub(crate) fn seek_and_turn(latencies_ns: &[u64]) -> (u64, u64) {
    let mut sorted = latencies_ns.to_vec();
    sorted.sort_unstable();
    let sorted = together(&sorted);
    let (Some(least), Some(largest)) = (sorted.first(), sorted.last()) else { return (0, 0) };
    let count = sorted.len() as u64;
    let turn = (largest - least) * (count + 1) / count.saturating_sub(1).max(1);
    (least.saturating_sub(turn / (count + 1)), turn)
}

/// Those of the ascending values that lie within the turn: none follows another at more than [`GAP`]
/// mean distances. The middle half is taken to be there.
fn together(sorted: &[u64]) -> &[u64] {
    let sure = sorted.len() / 4..sorted.len() * 3 / 4;
    if sure.len() < 2 {
        return sorted;
    }
    let mean_gap = (sorted[sure.end] - sorted[sure.start]) / sure.len() as u64;
    let is_gap = |at: &usize| sorted[*at] - sorted[at - 1] > (mean_gap * GAP).max(1);
    let begin = (1..=sure.start).rev().find(is_gap).unwrap_or(0);
    let end = (sure.end + 1..sorted.len()).find(is_gap).unwrap_or(sorted.len());
    &sorted[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    #[test]
    fn seek_and_turn_are_found_in_even_waits() {
        let mut rng = Rng::new(5);
        let latencies: Vec<u64> = (0..500).map(|_| 9_000_000 + rng.below(11_111_111)).collect();
        let mut late = latencies.clone();
        late.iter_mut().step_by(60).for_each(|latency| *latency += 17_000_000);
        late.iter_mut().step_by(91).for_each(|latency| *latency /= 20);
        for latencies in [latencies, late] {
            let (seek, turn) = seek_and_turn(&latencies);
            assert!(seek.abs_diff(9_000_000) < 90_000, "{seek}");
            assert!(turn.abs_diff(11_111_111) < 110_000, "{turn}");
        }
        assert_eq!((seek_and_turn(&[]), seek_and_turn(&[7])), ((0, 0), (7, 0)));
    }

    #[test]
    fn places_lie_on_the_drive() {
        for capacity in [64 * MIB, 500_000_000_000] {
            let far = capacity - READS * STEP_BYTES;
            let mut places = near_places(capacity);
            places.extend(pairs(capacity / 3, capacity));
            places.extend(pairs(far, capacity));
            assert!(places.iter().all(|place| place + 4096 <= capacity && place % 4096 == 0));
        }
    }
}
