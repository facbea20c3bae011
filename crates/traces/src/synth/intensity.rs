//! How large are requests in bursts and in quiet seconds, so that both means of a table hold?
//!
//! A table may give bytes and requests, and beside them a mean size that is not their quotient.
//! **Reading taken:** the quotient is a mean over requests, the other a mean over seconds. In the
//! second, a quiet second counts as much as one with a burst. The two differ if sizes depend on the
//! intensity, and they say how. Sizes themselves: `sizes`.

use super::sizes::Sizes;
use std::ops::RangeInclusive;

/// What a run has of seconds and of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    seconds: u64,
    requests: u64,
}

impl Amount {
    /// With one more second.
    pub(super) fn and_second(self, requests: u64) -> Amount {
        Amount { seconds: self.seconds + 1, requests: self.requests + requests }
    }
}

/// A mean size for bursts and one for quiet seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Means {
    burst_bytes: u64,
    quiet_bytes: u64,
}

impl Means {
    /// Both means are within `bounds`, and their mean over requests and over seconds are these.
    ///
    /// Bursts have the part `p` of the seconds and the part `f` of the requests. With the means `m`
    /// over requests and `t` over seconds:
    /// ```text
    /// f burst + (1-f) quiet = m       quiet = m + f (t-m) / (f-p)
    /// p burst + (1-p) quiet = t       burst = m - (1-f) (t-m) / (f-p)
    /// ```
    /// Where a solution is out of bounds, the bound is taken, and the other follows from `m`: the bytes
    /// hold, and `t` is as near as can be. A run with bursts alone or without one has `m` for both.
    pub(super) fn solve(
        (burst, quiet): (Amount, Amount),
        over_requests_bytes: u64,
        over_seconds_bytes: u64,
        bounds: &RangeInclusive<u64>,
    ) -> Means {
        let wide = |number: u64| i128::from(number);
        let (seconds, requests) = (burst.seconds + quiet.seconds, burst.requests + quiet.requests);
        // (f-p), times all seconds and all requests
        let apart = wide(burst.requests) * wide(seconds) - wide(burst.seconds) * wide(requests);
        if burst.requests == 0 || quiet.requests == 0 || apart <= 0 {
            return Means { burst_bytes: over_requests_bytes, quiet_bytes: over_requests_bytes };
        }
        let scale = (wide(over_seconds_bytes) - wide(over_requests_bytes)) * wide(seconds);
        let solved = wide(over_requests_bytes) - wide(quiet.requests) * scale / apart;
        let bytes = wide(over_requests_bytes) * wide(requests);
        let follows = |of: i128, part: u64, other: u64| {
            let other = (bytes - of * wide(part)) / wide(other);
            within(other, bounds)
        };
        let burst_bytes = within(solved, bounds);
        let quiet_bytes = follows(burst_bytes, burst.requests, quiet.requests);
        let burst_bytes = follows(quiet_bytes, quiet.requests, burst.requests);
        let narrow = |bytes: i128| u64::try_from(bytes).expect("within the bounds");
        Means { burst_bytes: narrow(burst_bytes), quiet_bytes: narrow(quiet_bytes) }
    }
}

fn within(bytes: i128, bounds: &RangeInclusive<u64>) -> i128 {
    bytes.clamp(i128::from(*bounds.start()), i128::from(*bounds.end()))
}

/// The sizes of the requests of one kind.
#[derive(Clone, Debug)]
pub(super) enum ByIntensity {
    /// The same sizes, however many requests come.
    Mixed(Sizes),
    /// Those of bursts and those of quiet seconds.
    Divided(Sizes, Sizes),
}

impl ByIntensity {
    /// Sizes with these means.
    pub(super) fn divided(means: Means, is_larger: bool, rngs: [tandem_block::Rng; 2]) -> Self {
        let [burst, quiet] = rngs;
        ByIntensity::Divided(
            Sizes::with_mean(means.burst_bytes, is_larger, burst),
            Sizes::with_mean(means.quiet_bytes, is_larger, quiet),
        )
    }

    /// The next size.
    pub(super) fn draw(&mut self, is_burst: bool) -> u64 {
        match self {
            ByIntensity::Mixed(sizes) => sizes.draw(),
            ByIntensity::Divided(burst, quiet) => if is_burst { burst } else { quiet }.draw(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RangeInclusive<u64> = 760..=88_000;

    #[test]
    fn both_means_follow_from_what_is_solved() {
        // seconds and requests of bursts and of all, mean over requests and over seconds
        for ((burst_seconds, burst_requests), (seconds, requests), over_requests, over_seconds) in [
            ((95, 323_000), (2_700, 621_000), 32_045, 56_000),
            ((280, 2_604_000), (1_800, 4_500_000), 16_978, 17_700),
            ((295, 2_832_000), (1_800, 4_860_000), 2_634, 4_200),
            ((10, 900), (100, 1_000), 5_000, 4_000),
            ((1, 9_300), (4, 10_000), 16_978, 17_700),
        ] {
            let burst = Amount { seconds: burst_seconds, requests: burst_requests };
            let quiet =
                Amount { seconds: seconds - burst_seconds, requests: requests - burst_requests };
            let means = Means::solve((burst, quiet), over_requests, over_seconds, &BOUNDS);
            let mean = |of_bursts: u64, of_quiet: u64| {
                (means.burst_bytes * of_bursts + means.quiet_bytes * of_quiet)
                    / (of_bursts + of_quiet)
            };
            let got = mean(burst.requests, quiet.requests);
            assert!(got.abs_diff(over_requests) <= 10, "{got}, not {over_requests}: {means:?}");
            let got = mean(burst.seconds, quiet.seconds);
            assert!(got.abs_diff(over_seconds) <= 20, "{got}, not {over_seconds}: {means:?}");
        }
    }

    #[test]
    fn the_bytes_hold_where_the_bounds_are_in_the_way() {
        let burst = Amount { seconds: 10, requests: 6_000 };
        let quiet = Amount { seconds: 90, requests: 4_000 };
        for (over_requests, over_seconds) in [(2_000, 9_000), (40_000, 200_000), (2_000, 10)] {
            let means = Means::solve((burst, quiet), over_requests, over_seconds, &BOUNDS);
            let bytes = means.burst_bytes * 6_000 + means.quiet_bytes * 4_000;
            assert!(bytes.abs_diff(over_requests * 10_000) <= 10_000, "{means:?}");
            for mean in [means.burst_bytes, means.quiet_bytes] {
                assert!(BOUNDS.contains(&mean), "{means:?}");
            }
        }
        let none = Amount::default();
        let same = Means { burst_bytes: 5_000, quiet_bytes: 5_000 };
        for amounts in [(none, quiet), (burst, none), (quiet, burst), (none, none)] {
            assert_eq!(Means::solve(amounts, 5_000, 9_000, &BOUNDS), same);
        }
    }
}
