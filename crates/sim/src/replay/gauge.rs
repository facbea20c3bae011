//! How busy was a device, and how long was its queue, weighted by time?
//!
//! Sampled after every event of the simulation; only changes cost anything.

use tandem_block::Instant;

/// A device's running account.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    since: Instant,
    depth: u32,
    in_flight: u32,
    background: u32,
    user_ns: u64,
    busy_ns: u64,
    /// Time spent at each queue length.
    at_depth_ns: Vec<u64>,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GaugeSummary {
    /// Time with a user's command in flight.
    pub user_ns: u64,
    /// Time with any command in flight.
    pub busy_ns: u64,
    /// Time observed.
    pub elapsed_ns: u64,
    /// Time spent at each queue length, by length.
    pub at_depth_ns: Vec<u64>,
}

impl Gauge {
    /// Begins at `now`, idle.
    pub(super) fn new(now: Instant) -> Gauge {
        Gauge {
            since: now,
            depth: 0,
            in_flight: 0,
            background: 0,
            user_ns: 0,
            busy_ns: 0,
            at_depth_ns: vec![0; 64],
        }
    }

    /// The device stands so now.
    #[inline]
    pub(super) fn sample(&mut self, now: Instant, depth: u32, in_flight: u32, background: u32) {
        if (depth, in_flight, background) != (self.depth, self.in_flight, self.background) {
            self.account(now);
            (self.depth, self.in_flight, self.background) = (depth, in_flight, background);
        }
    }

    fn account(&mut self, now: Instant) {
        let span_ns = now.since(self.since).ns;
        self.since = self.since.max(now);
        if span_ns == 0 {
            return;
        }
        self.user_ns += if self.in_flight > self.background { span_ns } else { 0 };
        self.busy_ns += if self.in_flight > 0 { span_ns } else { 0 };
        let depth = self.depth as usize;
        if depth >= self.at_depth_ns.len() {
            self.at_depth_ns.resize((depth + 1).next_power_of_two(), 0);
        }
        self.at_depth_ns[depth] += span_ns;
    }

    /// The account until `now`.
    pub(super) fn finish(mut self, now: Instant) -> GaugeSummary {
        self.account(now);
        while self.at_depth_ns.last() == Some(&0) {
            self.at_depth_ns.pop();
        }
        GaugeSummary {
            user_ns: self.user_ns,
            busy_ns: self.busy_ns,
            elapsed_ns: self.at_depth_ns.iter().sum(),
            at_depth_ns: self.at_depth_ns,
        }
    }
}

impl GaugeSummary {
    /// Share of the time with a user's command in flight, in millionths.
    pub fn net_ppm(&self) -> u64 {
        share_ppm(self.user_ns, self.elapsed_ns)
    }

    /// Share of the time with any command in flight, in millionths.
    pub fn gross_ppm(&self) -> u64 {
        share_ppm(self.busy_ns, self.elapsed_ns)
    }

    /// The queue length that was not exceeded for this share of the time.
    pub fn depth_percentile(&self, percent: u64) -> u32 {
        let wanted = (u128::from(self.elapsed_ns) * u128::from(percent)).div_ceil(100);
        let mut seen = 0u128;
        for (depth, ns) in self.at_depth_ns.iter().enumerate() {
            seen += u128::from(*ns);
            if seen >= wanted {
                return depth as u32;
            }
        }
        0
    }

    /// The longest queue that lasted for any time.
    pub fn depth_max(&self) -> u32 {
        self.at_depth_ns.len().saturating_sub(1) as u32
    }

    /// Adds another device's account.
    pub fn add(&mut self, other: &GaugeSummary) {
        self.user_ns += other.user_ns;
        self.busy_ns += other.busy_ns;
        self.elapsed_ns += other.elapsed_ns;
        let longest = self.at_depth_ns.len().max(other.at_depth_ns.len());
        self.at_depth_ns.resize(longest, 0);
        for (sum, ns) in self.at_depth_ns.iter_mut().zip(&other.at_depth_ns) {
            *sum += ns;
        }
    }
}

fn share_ppm(part: u64, whole: u64) -> u64 {
    let ppm = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(ppm).expect("a part is at most the whole")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_what_weighs() {
        let at = Instant::from_ns;
        let mut gauge = Gauge::new(at(100));
        gauge.sample(at(110), 3, 1, 0); // 10 ns idle
        gauge.sample(at(140), 70, 2, 2); // 30 ns at 3, a user's
        gauge.sample(at(140), 0, 0, 0); // no time at 70
        gauge.sample(at(180), 1, 1, 1); // 40 ns idle
        let summary = gauge.finish(at(200)); // 20 ns at 1, background
        assert_eq!((summary.user_ns, summary.busy_ns, summary.elapsed_ns), (30, 50, 100));
        assert_eq!((summary.net_ppm(), summary.gross_ppm()), (300_000, 500_000));
        assert_eq!([50, 51, 70, 71, 99].map(|p| summary.depth_percentile(p)), [0, 1, 1, 3, 3]);
        assert_eq!(summary.depth_max(), 3);
        let mut sum = GaugeSummary::default();
        assert_eq!((sum.net_ppm(), sum.depth_percentile(99), sum.depth_max()), (0, 0, 0));
        sum.add(&summary);
        assert_eq!(sum, summary);
    }
}
