//! How many per second, lately?
//!
//! A window of eight steps; each step that ends weighs an eighth against what was known before, so
//! that what is older than a few windows is forgotten. Integers, and no clock but the caller's.

use tandem_block::{Duration, Instant};

const STEPS: u64 = 8;
/// Events of a step are kept with so many bits behind the point.
const FRACTION_BITS: u32 = 16;
/// After so many empty steps nothing is left of any rate.
const EMPTY_STEPS_MAX: u64 = 256;

/// A rate with decay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    step_ns: u64,
    began: Instant,
    in_step: u64,
    smoothed: u64,
    per_s: u64,
}

impl Rate {
    /// A rate of nothing yet, over a window of at least 8 ns.
    pub(crate) fn new(window: Duration) -> Self {
        let step_ns = (window.ns / STEPS).max(1);
        Rate { step_ns, began: Instant::ZERO, in_step: 0, smoothed: 0, per_s: 0 }
    }

    /// One more.
    #[inline]
    pub(crate) fn add(&mut self, now: Instant) {
        self.advance(now);
        self.in_step += 1;
    }

    /// Lets time pass; so many steps have ended by it.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) -> u64 {
        assert!(now >= self.began, "a rate is of what is over");
        if now.since(self.began).ns < self.step_ns {
            return 0;
        }
        self.end_steps(now)
    }

    fn end_steps(&mut self, now: Instant) -> u64 {
        let steps = now.since(self.began).ns / self.step_ns;
        self.began += Duration::from_ns(steps * self.step_ns);
        let fresh = (self.in_step << FRACTION_BITS) / STEPS;
        self.in_step = 0;
        self.smoothed = self.smoothed - self.smoothed / STEPS + fresh;
        if steps > EMPTY_STEPS_MAX {
            self.smoothed = 0;
        }
        for _ in 1..steps.min(EMPTY_STEPS_MAX) {
            self.smoothed -= self.smoothed.div_ceil(STEPS);
        }
        let per_s = u128::from(self.smoothed) * 1_000_000_000 / u128::from(self.step_ns);
        self.per_s = u64::try_from(per_s >> FRACTION_BITS).unwrap_or(u64::MAX);
        steps
    }

    /// As of the last step that ended.
    #[inline]
    pub(crate) fn per_s(&self) -> u64 {
        self.per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::new(Duration::from_s(1));
        for ms in 0..10_000 {
            rate.add(Instant::from_ns(ms * 1_000_000));
        }
        assert!((950..=1_000).contains(&rate.per_s()), "{}", rate.per_s());
        rate.advance(Instant::from_ns(11_000_000_000));
        assert!((250..=400).contains(&rate.per_s()), "a window later: {}", rate.per_s());
        assert!(rate.advance(Instant::from_ns(60_000_000_000)) > 300);
        assert_eq!(rate.per_s(), 0);
    }
}
