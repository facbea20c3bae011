//! How long until the head is there, and how fast do bytes pass under it? Reads alone tell.
//!
//! Source: models §5.2: single reads at distances of the stroke, sequential reads in its regions.
//! The wait for the platter is anything up to one turn, so among many reads at one distance the
//! fastest shows the seek and the range shows the turn.

use super::probe::{MeasureError, Session};
use super::series::rate;
use tandem_block::{KIB, MIB};

/// Reads at each distance: the least wait among them is a turn over so many.
const READS: u64 = 384;
/// … at the nearest, where a seek is short.
const READS_NEAR: u64 = 1_536;
/// A neighbouring track that no read-ahead covers.
const NEAR_BYTES: u64 = 4 * MIB;
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
pub fn measure(session: &mut Session<'_>) -> Result<Mechanics, MeasureError> {
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
        let before = session.now_ns();
        for chunk in 1..=REGION_BYTES / MIB {
            session.read(begin + chunk * MIB, MIB)?;
        }
        mechanics.regions.push((begin, rate(REGION_BYTES, session.now_ns() - before)));
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
    let room = (capacity - distance) / STEP_BYTES;
    let place = |index: u64| index / 2 % room.max(1) * STEP_BYTES + index % 2 * distance;
    (0..=READS).map(|index| place(index) / 4096 * 4096).collect()
}

/// The least that a read can take, and the turn: of values spread evenly over one turn the least and
/// the largest are a part of it from its ends.
pub fn seek_and_turn(latencies_ns: &[u64]) -> (u64, u64) {
    let count = latencies_ns.len() as u64;
    let least = latencies_ns.iter().min().copied().unwrap_or(0);
    let largest = latencies_ns.iter().max().copied().unwrap_or(0);
    let range = largest - least;
    let turn = range * (count + 1) / count.saturating_sub(1).max(1);
    (least.saturating_sub(turn / (count + 1)), turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    #[test]
    fn seek_and_turn_are_found_in_even_waits() {
        let mut rng = Rng::new(5);
        let latencies: Vec<u64> = (0..500).map(|_| 9_000_000 + rng.below(11_111_111)).collect();
        let (seek, turn) = seek_and_turn(&latencies);
        assert!(seek.abs_diff(9_000_000) < 90_000, "{seek}");
        assert!(turn.abs_diff(11_111_111) < 110_000, "{turn}");
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
