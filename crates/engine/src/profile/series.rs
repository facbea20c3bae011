//! What do many numbers say together? Median, spread, and the line through points.
//!
//! Whole numbers throughout: a profile made on one machine is the same on another.

/// The middle value; 0 of nothing.
pub(super) fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The mean, rounded down; 0 of nothing.
pub(super) fn mean(values: &[u64]) -> u64 {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    u64::try_from(sum / (values.len() as u128).max(1)).expect("a mean is no more than the largest")
}

/// The variance; 0 of fewer than two.
pub(super) fn variance(values: &[u64]) -> u128 {
    let mean = mean(values);
    let squares = values.iter().map(|value| u128::from(value.abs_diff(mean)).pow(2));
    squares.sum::<u128>() / (values.len() as u128).saturating_sub(1).max(1)
}

/// `share` of `whole` in millionths.
pub(super) fn ppm(share: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(share) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// `bytes` in `ns` as bytes/s.
pub(super) fn rate(bytes: u64, ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Those that belong together: within six median deviations of the middle, which for a bell are four
/// of its standard deviations. A few values that a busy host has spoilt are left out, and of clean
/// ones nothing.
pub(super) fn kept(values: &[u64]) -> Vec<u64> {
    let middle = median(values);
    let deviations: Vec<u64> = values.iter().map(|value| value.abs_diff(middle)).collect();
    let reach = median(&deviations).max(1).saturating_mul(6);
    values.iter().copied().filter(|value| value.abs_diff(middle) <= reach).collect()
}

/// The median of the means of [`PARTS`] parts: as a mean where values come in two kinds, but few
/// spoilt ones spoil few of the parts.
pub(super) fn mean_of_most(values: &[u64]) -> u64 {
    let part = values.len().div_ceil(PARTS).max(1);
    median(&values.chunks(part).map(mean).collect::<Vec<_>>())
}

/// Parts of [`mean_of_most`].
const PARTS: usize = 7;
/// Slopes are kept in these parts.
const SLOPE_BITS: u32 = 32;

/// `y = slope * x + base` after Theil and Sen: the median of the slopes between all pairs of points,
/// so that up to a quarter of them may be anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    slope: i128,
    base: i128,
}

impl Line {
    /// Through these points; `None` if they have fewer than two different x.
    pub(super) fn through(points: &[(u64, i64)]) -> Option<Line> {
        let mut slopes = Vec::new();
        for (index, left) in points.iter().enumerate() {
            for right in &points[index + 1..] {
                let run = i128::from(right.0) - i128::from(left.0);
                let rise = i128::from(right.1) - i128::from(left.1);
                if run != 0 {
                    slopes.push((rise << SLOPE_BITS) / run);
                }
            }
        }
        let slope = middle(slopes)?;
        let bases = points
            .iter()
            .map(|point| i128::from(point.1) - ((slope * i128::from(point.0)) >> SLOPE_BITS));
        Some(Line { slope, base: middle(bases.collect())? })
    }

    /// The slope times `factor`; 0 if it falls.
    pub(super) fn slope(&self, factor: i128) -> u64 {
        u64::try_from((self.slope * factor) >> SLOPE_BITS).unwrap_or(0)
    }

    /// Where the line is at `x` = 0.
    pub(super) fn at_zero(&self) -> i128 {
        self.base
    }

    /// Where the line crosses 0; `None` if it does not rise.
    pub(super) fn zero_at(&self) -> Option<i128> {
        (self.slope > 0).then(|| -(self.base << SLOPE_BITS) / self.slope)
    }
}

/// The middle, between two the mean of them; `None` of nothing.
fn middle(mut values: Vec<i128>) -> Option<i128> {
    values.sort_unstable();
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    Some(if values.len().is_multiple_of(2) { (values[half - 1] + upper) / 2 } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let points: Vec<(u64, i64)> =
            (0..9).map(|i| (50_000_000 + i * 1_000_000, 210_000 * i as i64)).collect();
        let line = Line::through(&points).expect("different x");
        assert!(line.slope(1_000_000_000).abs_diff(210_000_000) < 1_000);
        assert!(line.zero_at().expect("it rises").abs_diff(50_000_000) < 10_000);
        assert!((line.at_zero() + 10_500_000).abs() < 10_000, "{}", line.at_zero());
        assert_eq!(Line::through(&[(3, 4), (3, 5)]), None);
    }

    #[test]
    fn a_quarter_of_the_points_may_be_anywhere() {
        let mut points: Vec<(u64, i64)> =
            (0..20).map(|i| (i * 1_000_000, 5_000_000 + 210_000 * i as i64)).collect();
        for at in [0, 3, 11, 19] {
            points[at].1 += 90_000_000;
        }
        let line = Line::through(&points).expect("different x");
        assert!(line.slope(1_000_000_000).abs_diff(210_000_000) < 1_000_000);
        assert!((line.at_zero() - 5_000_000).abs() < 50_000, "{}", line.at_zero());
    }

    #[test]
    fn what_does_not_belong_is_left_out() {
        assert_eq!(kept(&[100, 102, 98, 101, 7, 99]), [100, 102, 98, 101, 99]);
        assert_eq!(kept(&[5, 5, 5]), [5, 5, 5]);
        let mut values = [[10u64, 30].repeat(50), vec![10_000]].concat();
        values.extend([10, 30].repeat(50));
        assert_eq!(mean_of_most(&values), 20);
        assert_eq!(mean_of_most(&[]), 0);
    }

    #[test]
    fn middle_and_spread() {
        assert_eq!((median(&[5, 1, 9]), mean(&[1, 2, 6]), median(&[])), (5, 3, 0));
        assert_eq!(variance(&[10, 10, 16, 4]), 24);
    }
}
