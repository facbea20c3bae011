//! Where on an axis does a value stand, and which values are written beside it?

/// Most values that are written beside an axis: more do not fit on a telephone.
const TICKS_MAX: usize = 5;
/// Fewer say too little.
const TICKS_MIN: usize = 2;
/// An axis of a quantity is logarithmic from this ratio of its ends on.
const LOG_FROM: f64 = 10.0;
/// The part of the width that is left free at each end, in percent.
const MARGIN_PERCENT: f64 = 3.0;

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

/// A place on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// From its left end.
    pub percent: f64,
    /// The value lies beyond the end.
    pub is_beyond: bool,
}

impl Scale {
    /// An axis on which these can be shown. A ratio has a logarithmic one, on which 1 can be seen. One of
    /// other quantities is logarithmic where they are far apart; it begins at 0 otherwise.
    pub fn of(values: impl IntoIterator<Item = f64>, is_ratio: bool) -> Scale {
        let finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let above = finite.iter().copied().filter(|value| *value > 0.0);
        let ends = above.chain(is_ratio.then_some(1.0)).fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        });
        let (low, high): (f64, f64) = ends.unwrap_or((1.0, 1.0));
        if is_ratio || high / low >= LOG_FROM {
            // a wide axis gets more room, and one of a single value some
            let room = (high / low).powf(0.06).max(1.1);
            return Scale { low: low / room, high: high * room, is_log: true };
        }
        let least = finite.iter().copied().fold(0.0, f64::min);
        let most = finite.iter().copied().fold(least, f64::max);
        let most = if most > least { most } else { least + 1.0 };
        Scale { low: least, high: most + (most - least) * 0.06, is_log: false }
    }

    /// Is it logarithmic?
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Where this value stands. What lies beyond an end, as 0 and infinity may, stands at the end.
    pub fn place(&self, value: f64) -> Place {
        let part = if !self.is_log {
            (value - self.low) / (self.high - self.low)
        } else if value > 0.0 {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            f64::NEG_INFINITY
        };
        let inside = 100.0 - 2.0 * MARGIN_PERCENT;
        Place {
            percent: MARGIN_PERCENT + part.clamp(0.0, 1.0) * inside,
            is_beyond: !(-1e-9..=1.0 + 1e-9).contains(&part),
        }
    }

    /// Round values on it, in rising order.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            const MULTIPLES: [&[f64]; 4] =
                [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
            let all = MULTIPLES.into_iter().map(|multiples| self.decades(multiples));
            if let Some(found) =
                all.clone().find(|ticks| (TICKS_MIN + 1..=TICKS_MAX).contains(&ticks.len()))
            {
                return found;
            }
            let tens = self.decades(&[1.0]);
            if tens.len() > TICKS_MAX {
                let step = tens.len().div_ceil(TICKS_MAX);
                return tens.into_iter().step_by(step).collect();
            }
        }
        self.steps()
    }

    fn decades(&self, multiples: &[f64]) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all =
            (first..=last).flat_map(|decade| multiples.iter().map(move |m| m * 10f64.powi(decade)));
        all.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    /// Equal steps of 1, 2 or 5 times a power of ten.
    fn steps(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / TICKS_MAX as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|at| at as f64 * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(scale: &Scale, value: f64) -> f64 {
        scale.place(value).percent
    }

    #[test]
    fn ratios_are_logarithmic_and_show_1() {
        let scale = Scale::of([0.25, 0.5], true);
        assert!(scale.is_log());
        let half = percent(&scale, 0.5);
        let steps = [half - percent(&scale, 0.25), percent(&scale, 1.0) - half];
        assert!((steps[0] - steps[1]).abs() < 1e-6, "halves are equally far apart: {steps:?}");
        assert!(!scale.place(1.0).is_beyond);
        assert!(scale.ticks().contains(&1.0), "{:?}", scale.ticks());
    }

    #[test]
    fn what_has_no_place_stands_at_an_end() {
        let scale = Scale::of([2.0, 3000.0, f64::INFINITY, f64::NAN], false);
        assert!(scale.is_log(), "3000 is far from 2");
        for (value, want) in [(0.0, MARGIN_PERCENT), (f64::INFINITY, 100.0 - MARGIN_PERCENT)] {
            let found = scale.place(value);
            assert_eq!((found.percent, found.is_beyond), (want, true), "{value}");
        }
        let near = Scale::of([0.0, 3.0], false);
        assert_eq!(near.place(0.0), Place { percent: MARGIN_PERCENT, is_beyond: false });
    }

    #[test]
    fn an_axis_of_anything_has_a_few_round_values() {
        for values in [vec![], vec![0.0], vec![7.0], vec![0.999, 1.001], vec![1e-9, 1e12]] {
            for is_ratio in [true, false] {
                let scale = Scale::of(values.clone(), is_ratio);
                let ticks = scale.ticks();
                let count = ticks.len();
                assert!((1..=TICKS_MAX + 1).contains(&count), "{values:?}: {ticks:?}");
                assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
                assert!(ticks.iter().all(|tick| !scale.place(*tick).is_beyond), "{ticks:?}");
            }
        }
        let times = Scale::of([20_000.0, 40_000.0], false);
        assert_eq!(times.ticks(), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
    }
}
