//! Which value is larger than so many of those seen lately?
//!
//! A histogram with four buckets per octave; when it is full every count is halved, so that the past
//! fades. B7: SeRW takes its thresholds from the whole trace, which no server has before the end.

pub(super) const BUCKETS: usize = 256;
/// Values seen before all counts are halved.
const FULL: u64 = 1 << 14;
/// The answer is looked up again after so many values.
const STALE: u32 = 64;

/// A sketch of values, for one quantile.
#[derive(Clone, Debug)]
pub(crate) struct Quantile {
    share_ppm: u64,
    counts: Vec<u32>,
    total: u64,
    since: u32,
    value: u64,
}

impl Quantile {
    /// Of nothing yet; `share_ppm` millionths of the values shall be at most the answer.
    pub(crate) fn new(share_ppm: u64) -> Self {
        assert!(share_ppm <= 1_000_000, "a share is of all values");
        Quantile { share_ppm, counts: vec![0; BUCKETS], total: 0, since: STALE, value: 0 }
    }

    /// One more value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        if self.total >= FULL {
            self.total = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.total += u64::from(*count);
            }
        }
        self.since += 1;
        if self.since >= STALE || self.total <= u64::from(STALE) {
            self.since = 0;
            self.value = self.look_up();
        }
    }

    /// Values seen and not yet faded away.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The quantile, rounded up within an eighth.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    fn look_up(&self) -> u64 {
        let wanted = (self.total * self.share_ppm).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return largest(bucket);
            }
        }
        unreachable!("the counts of all buckets add up to the total")
    }
}

/// Which bucket has this value: four for each octave.
pub(super) fn bucket(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let octave = value.ilog2();
    let quarter = value >> (octave - 2) & 3;
    (octave as usize - 1) * 4 + quarter as usize
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let shift = (bucket / 4 - 1) as u32;
    let first = (4 + (bucket as u64 & 3)) << shift;
    first + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..70).chain([4095, 4096, 5119, 5120, 1 << 40, u64::MAX]) {
            let found = bucket(value);
            assert!(value <= largest(found), "{value}");
            assert!(found == 0 || value > largest(found - 1), "{value}");
        }
    }

    #[test]
    fn the_median_follows_what_comes() {
        let mut median = Quantile::new(500_000);
        for value in [1, 2, 3] {
            median.add(value);
        }
        assert_eq!(median.value(), 2);
        for _ in 0..40_000 {
            median.add(4096);
            median.add(65_536);
        }
        assert_eq!(median.value(), 5119);
        for _ in 0..40_000 {
            median.add(65_536);
        }
        assert_eq!(median.value(), 81_919, "the past has faded");
    }
}
