//! Which block is asked for next, when few are popular and most are not?
//!
//! Rank k of 1..=n is drawn with probability proportional to k^-theta. Ranks are gathered in buckets
//! of at most 1/64 of their first rank; a bucket is found through a guide table, and the rank in it
//! by rejection against a straight line between the bucket's ends (accepted at least 96 times of
//! 100). The line departs from the curve by less than one part in 10,000. Integers only, so every
//! machine draws the same ranks; about 900 buckets for 2^24 ranks, two or three draws per rank.

use crate::Rng;
use crate::fixed;

/// Weights are at most 2^62 before scaling: relative accuracy 2^-29 and better for common ranks.
const WEIGHT_BITS: u64 = 62;
/// Entries of the guide table, a power of two.
const GUIDE_BITS: u32 = 12;

/// A Zipf distribution over the ranks `0..ranks` (0 is the most popular).
#[derive(Clone, Debug)]
pub struct Zipf {
    buckets: Vec<Bucket>,
    /// For every 1/4096 of the total: the first bucket that may hold it.
    guide: Vec<u32>,
    guide_shift: u32,
    total: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Sum of the (scaled) weights of the buckets before and of this one.
    upto: u64,
    /// Its first rank, from 0.
    first: u64,
    /// How many ranks it holds.
    count: u64,
    /// Weight of its last rank over that of its first, in Q32.
    last_over_first_q32: u64,
}

impl Zipf {
    /// Over this many ranks, with the exponent in millionths (900,000 is a theta of 0.9; 0 is
    /// uniform).
    ///
    /// # Panics
    /// If `ranks` is not in 1..=2^40 or theta is above 2.
    pub fn new(ranks: u64, theta_ppm: u64) -> Zipf {
        assert!((1..=1 << 40).contains(&ranks), "{ranks} ranks are not in 1..=2^40");
        assert!(theta_ppm <= 2_000_000, "theta is at most 2");
        let mut sums = Vec::new();
        let mut total = 0u128;
        let mut first = 1u64;
        while first <= ranks {
            let count = (first / 64).max(1).min(ranks - first + 1);
            let (high, low) = (weight(first, theta_ppm), weight(first + count - 1, theta_ppm));
            total += u128::from(count) * (u128::from(high) + u128::from(low));
            let last_over_first_q32 = u64::try_from((u128::from(low) << 32) / u128::from(high))
                .map_or(fixed::ONE, |ratio| ratio.min(fixed::ONE));
            sums.push((total, Bucket { upto: 0, first: first - 1, count, last_over_first_q32 }));
            first += count;
        }
        let shift = (128 - total.leading_zeros()).saturating_sub(63);
        let buckets: Vec<Bucket> = sums
            .into_iter()
            .map(|(sum, bucket)| Bucket {
                upto: u64::try_from(sum >> shift).expect("scaled to 63 bits"),
                ..bucket
            })
            .collect();
        let total = buckets.last().expect("there is at least one rank").upto;
        let guide_shift = (64 - total.leading_zeros()).saturating_sub(GUIDE_BITS);
        let guide = (0..=total >> guide_shift)
            .map(|slot| {
                let least = slot << guide_shift;
                buckets.partition_point(|bucket| bucket.upto <= least) as u32
            })
            .collect();
        Zipf { buckets, guide, guide_shift, total }
    }

    /// The next rank, from 0 (most popular).
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let point = rng.below(self.total);
        let mut index = self.guide[(point >> self.guide_shift) as usize] as usize;
        while self.buckets[index].upto <= point {
            index += 1;
        }
        let bucket = &self.buckets[index];
        if bucket.count == 1 {
            return bucket.first;
        }
        loop {
            let place = rng.below(bucket.count);
            // the line falls from 1 at the first rank to last_over_first at the last
            let fall = fixed::ONE - bucket.last_over_first_q32;
            if rng.below(fixed::ONE) < fixed::ONE - fall * place / (bucket.count - 1) {
                return bucket.first + place;
            }
        }
    }
}

/// rank^-theta, at most 2^62.
fn weight(rank: u64, theta_ppm: u64) -> u64 {
    let exponent = u128::from(fixed::log2_q32(rank)) * u128::from(theta_ppm) / 1_000_000;
    let exponent = u64::try_from(exponent).expect("theta is at most 2");
    fixed::exp2_q32((WEIGHT_BITS << 32).saturating_sub(exponent)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact probability of the ranks before `rank`, by summing the harmonic series.
    fn exact_share(ranks: u64, theta: f64, rank: u64) -> f64 {
        let sum = |upto: u64| (1..=upto).map(|k| (k as f64).powf(-theta)).sum::<f64>();
        sum(rank) / sum(ranks)
    }

    #[test]
    fn the_table_is_the_harmonic_series() {
        for (ranks, theta_ppm) in
            [(1, 990_000), (10, 0), (1000, 900_000), (300_000, 990_000), (300_000, 1_500_000)]
        {
            let zipf = Zipf::new(ranks, theta_ppm);
            for bucket in zipf.buckets.iter().step_by(37) {
                let share = bucket.upto as f64 / zipf.total as f64;
                let want = exact_share(ranks, theta_ppm as f64 / 1e6, bucket.first + bucket.count);
                assert!((share - want).abs() < 2e-5, "{ranks} {theta_ppm}: {share} {want}");
            }
        }
    }

    #[test]
    fn draws_follow_the_harmonic_series() {
        const DRAWS: u64 = 1_000_000;
        for theta_ppm in [0, 600_000, 900_000, 1_200_000] {
            let zipf = Zipf::new(2000, theta_ppm);
            let mut rng = Rng::new(3);
            let mut counts = vec![0u64; 2000];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            let theta = theta_ppm as f64 / 1e6;
            // every hundred ranks, and the first ten one by one, within five standard deviations
            let groups =
                (0..10).map(|k| (k, k + 1)).chain((0..20).map(|g| (g * 100, g * 100 + 100)));
            for (from, upto) in groups {
                let got: u64 = counts[from as usize..upto as usize].iter().sum();
                let p = exact_share(2000, theta, upto) - exact_share(2000, theta, from);
                let (mean, sigma) = (p * DRAWS as f64, (p * DRAWS as f64).sqrt());
                assert!((got as f64 - mean).abs() < 5.0 * sigma, "{theta} {from}: {got} {mean}");
            }
        }
    }

    #[test]
    fn within_a_bucket_the_line_is_followed() {
        // ranks 64*k and up lie in buckets of more than one: compare the halves of a large bucket
        let zipf = Zipf::new(1 << 20, 2_000_000);
        let bucket = zipf.buckets.iter().rev().nth(1).expect("many buckets");
        let end = |rank: u64| (rank as f64).powi(-2);
        assert!(bucket.count > 1000);
        let ratio = bucket.last_over_first_q32 as f64 / fixed::ONE as f64;
        let want = end(bucket.first + bucket.count) / end(bucket.first + 1);
        assert!((ratio - want).abs() < 1e-4, "{ratio} {want}");
    }

    #[test]
    fn all_ranks_are_in_one_bucket() {
        for ranks in [1, 63, 64, 65, 127, 128, 129, 1000, 1 << 24] {
            let zipf = Zipf::new(ranks, 990_000);
            let mut next = 0;
            for bucket in &zipf.buckets {
                assert_eq!(bucket.first, next);
                next += bucket.count;
            }
            assert_eq!(next, ranks);
        }
    }

    #[test]
    fn draws_are_the_same_everywhere() {
        let zipf = Zipf::new(1 << 24, 900_000);
        let mut rng = Rng::new(1);
        let mix = (0..1000).fold(0u64, |mix, _| mix.rotate_left(5) ^ zipf.draw(&mut rng));
        assert_eq!(mix, PINNED_MIX);
    }
    const PINNED_MIX: u64 = 7_627_786_419_089_148_257;
}
