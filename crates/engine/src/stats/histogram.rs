//! How many values were about this large?
//!
//! The buckets of HdrHistogram with three significant digits: 1,024 for each doubling, so a value is
//! known to 0.1 %. Our own, since every request of a replay is counted four times: here that is a
//! shift and an addition, in the library it was a tenth of the replay. The test compares the two.

/// Buckets of one doubling.
const HALF: u64 = 1024;
/// Values below this have a bucket each.
const EXACT: u64 = 2 * HALF;

/// A histogram of all 64-bit values. Empty it takes no memory, and it grows with the largest value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

/// The bucket of a value.
#[inline]
const fn bucket(value: u64) -> usize {
    let doubling = EXACT.leading_zeros() + 1 - (value | (EXACT - 1)).leading_zeros();
    (doubling as u64 * HALF + (value >> doubling)) as usize
}

/// The largest value of a bucket.
const fn largest(bucket: usize) -> u64 {
    if (bucket as u64) < EXACT {
        return bucket as u64;
    }
    let doubling = bucket as u64 / HALF - 1;
    let first = bucket as u64 - doubling * HALF;
    (first << doubling) + ((1 << doubling) - 1)
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize((bucket + 1).next_multiple_of(HALF as usize), 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// How many values were counted.
    pub(crate) fn len(&self) -> u64 {
        self.total
    }

    /// (largest value of a bucket, values in it), ascending, without empty ones.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, &count)| (largest(bucket), count))
    }

    /// The largest value of the bucket in which the value of this rank lies (1 is the smallest);
    /// `None` beyond the last.
    pub(crate) fn at_rank(&self, rank: u128) -> Option<u64> {
        assert!(rank > 0, "the smallest value has rank 1");
        let mut seen = 0u128;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if count > 0 && seen >= rank {
                return Some(largest(bucket));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_says_what_the_library_says(
            values in proptest::collection::vec((any::<u64>(), 0u32..64), 1..200),
        ) {
            let mut ours = Histogram::default();
            let mut library = hdrhistogram::Histogram::<u64>::new(3).expect("three digits");
            for (value, shift) in values {
                // all magnitudes; the library ends at 2^63
                let value = (value >> shift) & (u64::MAX >> 1);
                ours.record(value);
                library.record(value).expect("it resizes itself");
            }
            prop_assert_eq!(ours.len(), library.len());
            let mut seen = 0;
            for step in library.iter_recorded() {
                seen += step.count_at_value();
                let want = Some(step.value_iterated_to());
                prop_assert_eq!(ours.at_rank(u128::from(seen)), want);
            }
            prop_assert_eq!(ours.at_rank(u128::from(seen) + 1), None);
        }
    }

    #[test]
    fn buckets_meet_without_gaps() {
        for index in 0..50_000 {
            assert_eq!(bucket(largest(index)), index);
            assert_eq!(bucket(largest(index) + 1), index + 1);
        }
        assert_eq!(largest(bucket(u64::MAX)), u64::MAX);
    }
}
