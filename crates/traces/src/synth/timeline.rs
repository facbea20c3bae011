//! When do bursty requests arrive, so that the mean and the peak rate are both the paper's?
//!
//! ```text
//! peak ┤     ██          ███              █
//!      │     ██          ███              █
//! base ┤▄█▄▆▄██▆▄█▄▄▆█▄▆▄███▄▆▄█▄▆▄▆█▄▆▄▄▆█▄▆▄    one bar: one second
//! ```
//! Bursts last 1 to 5 s (guess), each of their seconds has exactly the peak's number of requests.
//! Between bursts the rate is half of the mean (guess), each second 0.5 to 1.5 of that. How many
//! seconds burst is solved from the mean; the total is exact. Within a burst, requests may come in
//! groups, each at one instant; else, as in quiet seconds, each at its own.

use super::TICK_NS;
use super::sizes::shuffle;
use tandem_block::Rng;

const SECOND_TICKS: u64 = 1_000_000_000 / TICK_NS;
/// Guess.
const BURST_SECONDS_MAX: u64 = 5;

/// Arrival times in nanoseconds, ascending, the first at 0.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Requests in each second, in reverse order.
    seconds: Vec<u64>,
    second: u64,
    /// Ticks of the current second, descending.
    ticks: Vec<u64>,
    /// Requests in a second that bursts.
    peak_per_s: u64,
    /// Requests that come together there.
    group: u64,
    rng: Rng,
}

impl Timeline {
    /// `mean_per_s * seconds` requests, at most `peak_per_s` in any second, where they come in groups
    /// of `group`.
    pub(super) fn new(
        seconds: u64,
        (mean_per_s, peak_per_s): (u64, u64),
        group: u64,
        mut rng: Rng,
    ) -> Timeline {
        assert!(0 < mean_per_s && mean_per_s < peak_per_s, "the peak is above the mean");
        let mut counts = plan(seconds, mean_per_s, peak_per_s, &mut rng);
        counts.reverse();
        let group = group.max(1);
        Timeline { seconds: counts, second: 0, ticks: Vec::new(), peak_per_s, group, rng }
    }

    /// Draws when the `count` requests of this second come.
    fn draw(&mut self, count: u64) {
        let base = self.second * SECOND_TICKS;
        let group = if count == self.peak_per_s { self.group } else { 1 };
        let mut left = count;
        while left > 0 {
            let together = group.min(left);
            let tick = base + self.rng.below(SECOND_TICKS);
            self.ticks.extend(std::iter::repeat_n(tick, together as usize));
            left -= together;
        }
        self.ticks.sort_unstable_by(|left, right| right.cmp(left));
    }

    /// Requests that have not arrived yet.
    #[cfg(test)]
    fn left(&self) -> u64 {
        self.seconds.iter().sum::<u64>() + self.ticks.len() as u64
    }
}

impl Iterator for Timeline {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.ticks.is_empty() {
            let count = self.seconds.pop()?;
            self.draw(count);
            if self.second == 0
                && let Some(first) = self.ticks.last_mut()
            {
                *first = 0;
            }
            self.second += 1;
        }
        self.ticks.pop().map(|tick| tick * TICK_NS)
    }
}

/// How many requests each second has.
fn plan(seconds: u64, mean_per_s: u64, peak_per_s: u64, rng: &mut Rng) -> Vec<u64> {
    let total = seconds * mean_per_s;
    let base_per_s = mean_per_s / 2;
    let burst_seconds = ((mean_per_s - base_per_s) * seconds)
        .div_ceil(peak_per_s - base_per_s)
        .min(total / peak_per_s)
        .min(seconds.saturating_sub(1));
    let quiet = quiet_counts(seconds - burst_seconds, total - burst_seconds * peak_per_s, rng);
    let mut bursts = Vec::new();
    let mut left = burst_seconds;
    while left > 0 {
        let length = rng.between(1, BURST_SECONDS_MAX).min(left);
        bursts.push(length);
        left -= length;
    }
    // each burst is followed by a quiet second as long as there are some, so that none grow together
    let loose = quiet.len().saturating_sub(bursts.len());
    let mut order: Vec<u64> = bursts.into_iter().chain(std::iter::repeat_n(0, loose)).collect();
    shuffle(&mut order, rng);
    let mut quiet = quiet.into_iter();
    let mut counts = Vec::new();
    for burst in order {
        counts.extend(std::iter::repeat_n(peak_per_s, burst as usize));
        counts.extend(quiet.next());
    }
    assert_eq!(counts.iter().sum::<u64>(), total, "every request has its second");
    counts
}

/// `total` requests over so many seconds, in random parts of 0.5 to 1.5.
fn quiet_counts(seconds: u64, total: u64, rng: &mut Rng) -> Vec<u64> {
    let weights: Vec<u64> = (0..seconds).map(|_| rng.between(500, 1500)).collect();
    let whole = u128::from(weights.iter().sum::<u64>());
    let mut sum = 0u128;
    let mut given = 0u64;
    let mut counts = Vec::new();
    for weight in weights {
        sum += u128::from(weight);
        let upto = u64::try_from(u128::from(total) * sum / whole).expect("at most the total");
        counts.push(upto - given);
        given = upto;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_peak_are_exact() {
        for (seconds, mean, peak) in [
            (2700, 230, 3400),
            (1800, 2500, 9300),
            (30, 230, 3400),
            (30, 3000, 11_100),
            (7, 2700, 9600),
        ] {
            let timeline = Timeline::new(seconds, (mean, peak), 1, Rng::new(9));
            assert_eq!(timeline.left(), seconds * mean);
            let mut bins = vec![0u64; seconds as usize];
            let mut last = 0;
            for (number, at_ns) in timeline.enumerate() {
                assert!(at_ns >= last && (number > 0 || at_ns == 0));
                last = at_ns;
                bins[(at_ns / 1_000_000_000) as usize] += 1;
            }
            assert_eq!(bins.iter().max(), Some(&peak), "{seconds} s at {mean}");
            let burst = bins.iter().filter(|&&count| count == peak).count();
            let runs = bins.split(|&count| count < peak).map(<[u64]>::len);
            assert!(runs.max() <= Some(5), "{burst} burst seconds");
        }
    }

    #[test]
    fn bursts_come_in_groups() {
        let times: Vec<u64> = Timeline::new(60, (230, 3400), 100, Rng::new(9)).collect();
        assert_eq!(times.len(), 60 * 230, "the mean is kept");
        let mut bins = vec![Vec::new(); 60];
        for at_ns in times {
            bins[(at_ns / 1_000_000_000) as usize].push(at_ns);
        }
        for bin in &bins {
            let mut instants = bin.clone();
            instants.dedup();
            if bin.len() == 3400 {
                assert!((30..=34).contains(&instants.len()), "{}", instants.len());
            } else {
                assert!(instants.len() * 10 > bin.len() * 9, "quiet seconds have none");
            }
        }
        assert!(bins.iter().any(|bin| bin.len() == 3400), "something bursts");
    }

    #[test]
    fn a_run_too_short_for_a_burst_has_none() {
        let timeline = Timeline::new(1, (230, 3400), 1, Rng::new(9));
        assert_eq!(timeline.count(), 230);
    }
}
