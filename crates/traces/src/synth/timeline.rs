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
//! groups, each at one instant; else, as in quiet seconds, each at its own. How these instants lie in
//! the second: [`Within`].

use super::TICK_NS;
use super::settings::{Kind, Setting, Settings};
use super::sizes::shuffle;
use tandem_block::Rng;

const SECOND_TICKS: u64 = 1_000_000_000 / TICK_NS;
/// Guess.
const BURST_SECONDS_MAX: u64 = 5;

/// Share of a stretch's requests that come in the busier of its halves, per mille: of a second, of
/// half a second, … of half a millisecond. **Measured:** in the busiest seconds (at least 500
/// requests, at most 50 seconds a trace) of seven real traces (two of MSR Cambridge servers and a web server, FIU's
/// departmental server, a virtual machine of CloudPhysics, a Hadoop data node, PCMark), the median of
/// the seven at each length. The shape is the b-model of Wang, Madhyastha, Chan, Papadimitriou and
/// Faloutsos (ICDE 2002), with a bias for each length instead of one.
const BUSIER_HALF_PERMILLE: [u64; 12] =
    [610, 660, 620, 600, 600, 620, 720, 700, 760, 800, 860, 890];

/// How arrivals lie within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Each instant is as likely as any other.
    Even,
    /// In bursts of bursts, as in real traces.
    Cascade,
}

impl Within {
    pub(super) const SETTING: Setting = Setting {
        name: "arrivals",
        default: "even",
        kind: Kind::Choice(&["even", "cascade"]),
        summary: "within a second: any instant is as likely as another, or bursts of bursts as measured in real \
                  traces",
    };

    pub(super) fn of(settings: &Settings) -> Within {
        if settings.get(Self::SETTING.name) == 1 { Within::Cascade } else { Within::Even }
    }
}

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
    within: Within,
    rng: Rng,
}

impl Timeline {
    /// `mean_per_s * seconds` requests, at most `peak_per_s` in any second, where they come in groups
    /// of `group`.
    pub(super) fn new(
        seconds: u64,
        (mean_per_s, peak_per_s): (u64, u64),
        group: u64,
        within: Within,
        mut rng: Rng,
    ) -> Timeline {
        assert!(0 < mean_per_s && mean_per_s < peak_per_s, "the peak is above the mean");
        let mut counts = plan(seconds, mean_per_s, peak_per_s, &mut rng);
        counts.reverse();
        let group = group.max(1);
        Timeline { seconds: counts, second: 0, ticks: Vec::new(), peak_per_s, group, within, rng }
    }

    /// Draws when the `count` requests of this second come.
    fn draw(&mut self, count: u64) {
        let base = self.second * SECOND_TICKS;
        let group = if count == self.peak_per_s { self.group } else { 1 };
        let instants = count.div_ceil(group);
        let ticks = match self.within {
            Within::Even => (0..instants).map(|_| self.rng.below(SECOND_TICKS)).collect(),
            Within::Cascade => self.cascade(instants),
        };
        let mut left = count;
        for tick in ticks {
            let together = group.min(left);
            let tick = base + tick;
            self.ticks.extend(std::iter::repeat_n(tick, together as usize));
            left -= together;
        }
        self.ticks.sort_unstable_by(|left, right| right.cmp(left));
    }

    /// `count` instants of a second: each stretch, from the whole second on, has a busier half.
    fn cascade(&mut self, count: u64) -> Vec<u64> {
        let mut stretches = vec![(0, SECOND_TICKS, count)];
        for busier_permille in BUSIER_HALF_PERMILLE {
            let mut halves = Vec::with_capacity(stretches.len() * 2);
            for (begin, ticks, count) in stretches {
                let busier =
                    (0..count).filter(|_| self.rng.below(1000) < busier_permille).count() as u64;
                let (first, second) = match self.rng.below(2) {
                    0 => (busier, count - busier),
                    _ => (count - busier, busier),
                };
                let half = ticks / 2;
                halves.extend([(begin, half, first), (begin + half, ticks - half, second)]);
            }
            halves.retain(|&(_, _, count)| count > 0);
            stretches = halves;
        }
        let mut instants = Vec::with_capacity(count as usize);
        for (begin, ticks, count) in stretches {
            instants.extend((0..count).map(|_| begin + self.rng.below(ticks)));
        }
        instants
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
            let timeline = Timeline::new(seconds, (mean, peak), 1, Within::Even, Rng::new(9));
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
        let times: Vec<u64> =
            Timeline::new(60, (230, 3400), 100, Within::Even, Rng::new(9)).collect();
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
    fn a_cascade_keeps_the_seconds_and_bursts_within_them() {
        let even = Timeline::new(60, (2500, 9300), 1, Within::Even, Rng::new(9));
        let cascade = Timeline::new(60, (2500, 9300), 1, Within::Cascade, Rng::new(9));
        let bins = |timeline: Timeline, bin_ns: u64| {
            let mut last = 0;
            let mut bins = std::collections::BTreeMap::<u64, u64>::new();
            for at_ns in timeline {
                assert!(at_ns >= last, "ascending");
                last = at_ns;
                *bins.entry(at_ns / bin_ns).or_default() += 1;
            }
            bins
        };
        assert_eq!(bins(even.clone(), 1_000_000_000), bins(cascade.clone(), 1_000_000_000));
        // b^2 + (1-b)^2 of all pairs stay together at each halving, instead of half: 3.34 times as many in 1/1024 s
        let together = |bins: std::collections::BTreeMap<u64, u64>| {
            bins.values().map(|count| count * (count - 1)).sum::<u64>()
        };
        let even_pairs = together(bins(even, 1_000_000));
        let permille = together(bins(cascade, 1_000_000)) * 1000 / even_pairs;
        assert!((2900..=3800).contains(&permille), "{permille} per mille of the pairs");
    }

    #[test]
    fn a_run_too_short_for_a_burst_has_none() {
        let timeline = Timeline::new(1, (230, 3400), 1, Within::Even, Rng::new(9));
        assert_eq!(timeline.count(), 230);
    }
}
