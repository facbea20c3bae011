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

/// `y = rise/run * x + base` by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    rise: i128,
    run: i128,
    mean_x: i128,
    mean_y: i128,
}

impl Line {
    /// Through these points; `None` if they have fewer than two different x.
    pub(super) fn through(points: &[(u64, i64)]) -> Option<Line> {
        let count = i128::try_from(points.len()).ok().filter(|count| *count > 1)?;
        let mean_x = points.iter().map(|point| i128::from(point.0)).sum::<i128>() / count;
        let mean_y = points.iter().map(|point| i128::from(point.1)).sum::<i128>() / count;
        let (mut rise, mut run) = (0, 0);
        for (x, y) in points {
            let from_mean = i128::from(*x) - mean_x;
            rise += from_mean * (i128::from(*y) - mean_y);
            run += from_mean * from_mean;
        }
        (run > 0).then_some(Line { rise, run, mean_x, mean_y })
    }

    /// The slope times `factor`; 0 if it falls.
    pub(super) fn slope(&self, factor: i128) -> u64 {
        // both far below 2^96: ns and bytes of one measurement
        u64::try_from((self.rise / 1_000 * factor / (self.run / 1_000).max(1)).max(0)).unwrap_or(0)
    }

    /// Where the line is at `x` = 0.
    pub(super) fn at_zero(&self) -> i128 {
        self.mean_y - self.rise / 1_000 * self.mean_x / (self.run / 1_000).max(1)
    }

    /// Where the line crosses 0; `None` if it does not rise.
    pub(super) fn zero_at(&self) -> Option<i128> {
        let rise = self.rise / 1_000;
        (rise > 0).then(|| self.mean_x - self.mean_y * (self.run / 1_000) / rise)
    }
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
    fn middle_and_spread() {
        assert_eq!((median(&[5, 1, 9]), mean(&[1, 2, 6]), median(&[])), (5, 3, 0));
        assert_eq!(variance(&[10, 10, 16, 4]), 24);
    }
}
