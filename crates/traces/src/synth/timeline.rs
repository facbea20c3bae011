//! When do bursty requests arrive, so that the mean and the peak rate are both the paper's?
//!
//! ```text
//! peak ┤     ██          ███              █
//!      │     ██          ███              █
//! base ┤▄█▄▆▄██▆▄█▄▄▆█▄▆▄███▄▆▄█▄▆▄▆█▄▆▄▄▆█▄▆▄    one bar: one second
//! ```
//! Bursts last 1 to 5 s (guess), each of their seconds has exactly the peak's number of requests. With
//! [`Bursts::Tailed`] only the greatest has, and most have far fewer.
//! Between bursts the rate is half of the mean (guess), each second 0.5 to 1.5 of that. How many
//! seconds burst is solved from the mean; the total is exact. Within a burst, requests may come in
//! groups, each at one instant; else, as in quiet seconds, each at its own. How these instants lie in
//! the second: [`Within`]. With [`Within::Groups`] all seconds have groups, of lengths that vary.

use super::TICK_NS;
use super::intensity::Amount;
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

/// A group of requests is followed by a further request of the same group so often, of `GROUP_WHOLE`.
/// The number is geometric with a mean of 18/5 = 3.6. **Guess:** no paper counts groups. The mean and
/// `GROUP_MAX` are chosen for the greatest queue of 23 that the 960 EVO has in [BCW Fig. 8].
const GROUP_GOES_ON: u64 = 13;
const GROUP_WHOLE: u64 = 18;
/// Requests of the greatest group. The same guess.
const GROUP_MAX: u64 = 24;

/// How arrivals lie within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Each instant is as likely as any other.
    Even,
    /// In bursts of bursts, as in real traces.
    Cascade,
    /// In groups, as far from one another within a second.
    Groups,
}

impl Within {
    pub(super) const SETTING: Setting = Setting {
        name: "arrivals",
        default: "even",
        kind: Kind::Choice(&["even", "cascade", "groups"]),
        summary: "within a second: any instant is as likely as another, or bursts of bursts as measured in real \
                  traces, or groups of 3.6 requests in the mean, 24 at most, each at one instant and as far from the next",
    };

    pub(super) fn of(settings: &Settings) -> Within {
        [Within::Even, Within::Cascade, Within::Groups][settings.get(Self::SETTING.name) as usize]
    }
}

/// How many requests come in a second of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bursts {
    /// As many as the peak.
    Exact,
    /// From the mean rate to the peak, heavy-tailed. The greatest second is at the peak.
    Tailed,
}

impl Bursts {
    pub(super) const SETTING: Setting = Setting {
        name: "bursts",
        default: "exact",
        kind: Kind::Choice(&["exact", "tailed"]),
        summary: "the seconds of a burst: all at the peak, or heavy-tailed below it and the greatest at it",
    };

    pub(super) fn of(settings: &Settings) -> Bursts {
        if settings.get(Self::SETTING.name) == 1 { Bursts::Tailed } else { Bursts::Exact }
    }
}

/// What comes in one second.
#[derive(Clone, Copy, Debug)]
struct Second {
    requests: u64,
    is_burst: bool,
}

/// Arrival times in nanoseconds, ascending, the first at 0.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// The seconds to come, in reverse order.
    seconds: Vec<Second>,
    second: u64,
    /// The current second is part of a burst.
    is_burst: bool,
    /// Ticks of the current second, descending.
    ticks: Vec<u64>,
    /// Requests that come together in a second that bursts.
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
        bursts: Bursts,
        group: u64,
        within: Within,
        mut rng: Rng,
    ) -> Timeline {
        assert!(0 < mean_per_s && mean_per_s < peak_per_s, "the peak is above the mean");
        let mut seconds = plan(seconds, (mean_per_s, peak_per_s), bursts, &mut rng);
        seconds.reverse();
        let group = group.max(1);
        let ticks = Vec::new();
        Timeline { seconds, second: 0, is_burst: false, ticks, group, within, rng }
    }

    /// What comes in bursts, and what in quiet seconds, from here on.
    pub(super) fn amounts(&self) -> (Amount, Amount) {
        let of = |is_burst: bool| {
            let seconds = self.seconds.iter().filter(|second| second.is_burst == is_burst);
            seconds.fold(Amount::default(), |sum, second| sum.and_second(second.requests))
        };
        (of(true), of(false))
    }

    /// Does the latest arrival come in a burst?
    pub(super) const fn is_burst(&self) -> bool {
        self.is_burst
    }

    /// Draws when the requests of this second come.
    fn draw(&mut self, Second { requests: count, is_burst }: Second) {
        let base = self.second * SECOND_TICKS;
        let group = if is_burst { self.group } else { 1 };
        let instants = count.div_ceil(group);
        let ticks = match self.within {
            Within::Even => (0..instants).map(|_| self.rng.below(SECOND_TICKS)).collect(),
            Within::Cascade => self.cascade(instants),
            Within::Groups => return self.draw_groups(base, count),
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

    /// Draws groups of this second, as far from one another, so that none grow together.
    fn draw_groups(&mut self, base: u64, count: u64) {
        assert!(count <= SECOND_TICKS / 2, "a second has instants for all groups");
        let mut groups = Vec::new();
        let mut left = count;
        while left > 0 {
            let mut together = 1;
            while together < GROUP_MAX.min(left) && self.rng.below(GROUP_WHOLE) < GROUP_GOES_ON {
                together += 1;
            }
            groups.push(together);
            left -= together;
        }
        let apart = SECOND_TICKS / groups.len().max(1) as u64;
        let first = base + self.rng.below(apart);
        for (index, together) in groups.into_iter().enumerate().rev() {
            let tick = first + index as u64 * apart;
            self.ticks.extend(std::iter::repeat_n(tick, together as usize));
        }
    }

    /// Moves the first arrival to 0. One of the groups moves as a whole.
    fn begin_at_zero(&mut self) {
        let Some(&first) = self.ticks.last() else { return };
        let together = match self.within {
            Within::Groups => self.ticks.iter().rev().take_while(|&&tick| tick == first).count(),
            Within::Even | Within::Cascade => 1,
        };
        let later = self.ticks.len() - together;
        self.ticks[later..].fill(0);
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
        let seconds = self.seconds.iter().map(|second| second.requests);
        seconds.sum::<u64>() + self.ticks.len() as u64
    }
}

impl Iterator for Timeline {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.ticks.is_empty() {
            let second = self.seconds.pop()?;
            self.is_burst = second.is_burst;
            self.draw(second);
            if self.second == 0 {
                self.begin_at_zero();
            }
            self.second += 1;
        }
        self.ticks.pop().map(|tick| tick * TICK_NS)
    }
}

/// How many requests each second has.
fn plan(
    seconds: u64,
    (mean_per_s, peak_per_s): (u64, u64),
    bursts: Bursts,
    rng: &mut Rng,
) -> Vec<Second> {
    let total = seconds * mean_per_s;
    let mut burst_counts = match bursts {
        Bursts::Exact => exact_counts(seconds, mean_per_s, peak_per_s),
        Bursts::Tailed => tailed_counts(seconds, mean_per_s, peak_per_s, rng),
    }
    .into_iter();
    let mut left = burst_counts.len() as u64;
    let quiet_total = total - burst_counts.as_slice().iter().sum::<u64>();
    let quiet = quiet_counts(seconds - left, quiet_total, rng);
    let mut lengths = Vec::new();
    while left > 0 {
        let length = rng.between(1, BURST_SECONDS_MAX).min(left);
        lengths.push(length);
        left -= length;
    }
    // each burst is followed by a quiet second as long as there are some, so that none grow together
    let loose = quiet.len().saturating_sub(lengths.len());
    let mut order: Vec<u64> = lengths.into_iter().chain(std::iter::repeat_n(0, loose)).collect();
    shuffle(&mut order, rng);
    let mut quiet = quiet.into_iter();
    let mut plan = Vec::new();
    for length in order {
        let burst = burst_counts.by_ref().take(length as usize);
        plan.extend(burst.map(|requests| Second { requests, is_burst: true }));
        plan.extend(quiet.next().map(|requests| Second { requests, is_burst: false }));
    }
    let planned = plan.iter().map(|second| second.requests).sum::<u64>();
    assert_eq!(planned, total, "every request has its second");
    plan
}

/// Requests in a quiet second, in the mean. Guess: half of the mean of all seconds.
const fn base_per_s(mean_per_s: u64) -> u64 {
    mean_per_s / 2
}

/// The seconds of bursts, all at the peak.
fn exact_counts(seconds: u64, mean_per_s: u64, peak_per_s: u64) -> Vec<u64> {
    let base_per_s = base_per_s(mean_per_s);
    let burst_seconds = ((mean_per_s - base_per_s) * seconds)
        .div_ceil(peak_per_s - base_per_s)
        .min(seconds * mean_per_s / peak_per_s)
        .min(seconds.saturating_sub(1));
    vec![peak_per_s; burst_seconds as usize]
}

/// The seconds of bursts, one at the peak and the others bounded Pareto from the mean rate to the
/// peak. None if the run has fewer requests than the peak.
///
/// Of a bounded Pareto with alpha 1, the reciprocals are uniform. **Guess:** alpha and the least
/// rate. A quiet second has at most three quarters of the mean rate, so that bursts stand out. There
/// are so many seconds that the quiet ones are left with half of the mean.
fn tailed_counts(seconds: u64, mean_per_s: u64, peak_per_s: u64, rng: &mut Rng) -> Vec<u64> {
    let base_per_s = base_per_s(mean_per_s);
    let mut excess_left = (mean_per_s - base_per_s) * seconds;
    let mut total_left = seconds * mean_per_s;
    let mut counts = Vec::new();
    let mut count = peak_per_s;
    while excess_left > 0 && count <= total_left && counts.len() as u64 + 1 < seconds {
        counts.push(count);
        total_left -= count;
        excess_left = excess_left.saturating_sub(count - base_per_s);
        let drawn = mean_per_s * peak_per_s / rng.between(mean_per_s, peak_per_s);
        // the last takes no more than is left
        count = drawn.min((base_per_s + excess_left).max(mean_per_s));
    }
    shuffle(&mut counts, rng);
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
            let timeline =
                Timeline::new(seconds, (mean, peak), Bursts::Exact, 1, Within::Even, Rng::new(9));
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
    fn tailed_bursts_have_one_second_at_the_peak_and_the_mean_of_all() {
        for (seconds, mean, peak, seed) in [
            (2700, 230, 3400, 1),
            (1800, 2500, 9300, 1),
            (1560, 3000, 11_100, 2),
            (30, 230, 3400, 1),
            (15, 230, 3400, 1),
            (7, 2700, 9600, 1),
            (4, 2500, 9300, 1),
        ] {
            let mut rng = Rng::new(seed);
            let plan = plan(seconds, (mean, peak), Bursts::Tailed, &mut rng);
            assert_eq!(plan.len() as u64, seconds);
            let total: u64 = plan.iter().map(|second| second.requests).sum();
            assert_eq!(total, seconds * mean, "the mean is exact");
            assert_eq!(plan.iter().map(|second| second.requests).max(), Some(peak));
            let (bursts, quiet): (Vec<Second>, Vec<Second>) =
                plan.iter().partition(|second| second.is_burst);
            assert!(bursts.iter().all(|second| (mean..=peak).contains(&second.requests)));
            assert!(quiet.iter().all(|second| second.requests < mean), "bursts stand out");
            let runs = plan.split(|second| !second.is_burst).map(<[Second]>::len);
            assert!(runs.max() <= Some(5));
            if seconds < 1000 {
                continue;
            }
            let quiet_mean =
                quiet.iter().map(|second| second.requests).sum::<u64>() / quiet.len() as u64;
            assert!(quiet_mean.abs_diff(mean / 2) * 50 <= mean, "{quiet_mean} in quiet seconds");
            // the share above x is (low * high / x - low) / (high - low)
            for times in [2, 3] {
                let above = bursts.iter().filter(|second| second.requests >= times * mean);
                let permille = above.count() as u64 * 1000 / bursts.len() as u64;
                let want = 1000 * (peak - times * mean) / (times * (peak - mean));
                assert!(permille.abs_diff(want) <= 50, "{permille}, not {want}");
            }
            let at_peak = bursts.iter().filter(|second| second.requests == peak).count();
            assert!((1..=4).contains(&at_peak), "{at_peak} of {}", bursts.len());
        }
    }

    #[test]
    fn tailed_bursts_are_those_of_the_seed_and_come_in_groups() {
        let times = |seed| {
            let rng = Rng::new(seed);
            Timeline::new(60, (230, 3400), Bursts::Tailed, 100, Within::Even, rng)
        };
        assert!(times(1).eq(times(1)) && times(1).ne(times(2)));
        let mut bins = vec![Vec::new(); 60];
        times(1).for_each(|at_ns| bins[(at_ns / 1_000_000_000) as usize].push(at_ns));
        assert_eq!(bins.iter().map(Vec::len).max(), Some(3400));
        for bin in bins {
            let mut instants = bin.clone();
            instants.dedup();
            let together = if bin.len() >= 230 { 100 } else { 1 };
            assert!(instants.len() * together <= bin.len() + 200, "{}", instants.len());
            assert!(together > 1 || instants.len() * 10 > bin.len() * 9);
        }
    }

    #[test]
    fn bursts_come_in_groups() {
        let times: Vec<u64> =
            Timeline::new(60, (230, 3400), Bursts::Exact, 100, Within::Even, Rng::new(9)).collect();
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
        let even = Timeline::new(60, (2500, 9300), Bursts::Exact, 1, Within::Even, Rng::new(9));
        let cascade =
            Timeline::new(60, (2500, 9300), Bursts::Exact, 1, Within::Cascade, Rng::new(9));
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
    fn groups_are_geometric_and_have_instants_of_their_own() {
        for (seconds, mean, peak, seed) in
            [(300, 230, 3400, 9), (60, 2500, 9300, 9), (60, 3000, 11_100, 1), (1, 230, 3400, 4)]
        {
            let timeline = |within| {
                Timeline::new(seconds, (mean, peak), Bursts::Exact, 1, within, Rng::new(seed))
            };
            let mut groups = std::collections::BTreeMap::<u64, u64>::new();
            let mut bins = vec![0u64; seconds as usize];
            let mut even = bins.clone();
            for at_ns in timeline(Within::Groups) {
                assert!(groups.last_entry().is_none_or(|last| *last.key() <= at_ns), "ascending");
                *groups.entry(at_ns).or_default() += 1;
                bins[(at_ns / 1_000_000_000) as usize] += 1;
            }
            timeline(Within::Even).for_each(|at_ns| even[(at_ns / 1_000_000_000) as usize] += 1);
            assert_eq!(bins, even, "the seconds are kept");
            assert_eq!(groups.keys().next(), Some(&0), "the first is at 0");
            let (count, requests) = (groups.len() as u64, groups.values().sum::<u64>());
            assert!(groups.values().all(|&together| together <= GROUP_MAX));
            if seconds == 1 {
                continue;
            }
            // the last group of a second is cut off, which takes 2 % where the seconds are short
            let mean_permille = requests * 1000 / count;
            assert!((3500..=3650).contains(&mean_permille), "{mean_permille} for {mean}");
            assert!(groups.values().any(|&together| together == GROUP_MAX), "some are this great");
            let single = groups.values().filter(|&&together| together == 1).count() as u64;
            let permille = single * 1000 / count;
            assert!((268..=292).contains(&permille), "5/18 are alone: {permille} per mille");
            for second in 1..seconds {
                let second = second * 1_000_000_000..(second + 1) * 1_000_000_000;
                let instants: Vec<u64> = groups.range(second).map(|(&at_ns, _)| at_ns).collect();
                let apart_ns = instants[1] - instants[0];
                assert!(instants.windows(2).all(|two| two[1] - two[0] == apart_ns));
                assert_eq!(apart_ns, 1_000_000_000 / TICK_NS / instants.len() as u64 * TICK_NS);
            }
            // even: as many groups begin in each quarter of the seconds
            let mut quarters = [0u64; 4];
            groups
                .keys()
                .for_each(|at_ns| quarters[(at_ns % 1_000_000_000 / 250_000_000) as usize] += 1);
            assert!(quarters.iter().all(|quarter| quarter.abs_diff(count / 4) * 20 < count / 4));
        }
    }

    #[test]
    fn the_first_group_is_at_zero_as_a_whole() {
        let groups = (0..40).map(|seed| {
            let rng = Rng::new(seed);
            let timeline = Timeline::new(2, (2500, 9300), Bursts::Exact, 1, Within::Groups, rng);
            timeline.take_while(|&at_ns| at_ns == 0).count()
        });
        let groups: Vec<usize> = groups.collect();
        let sum = groups.iter().sum::<usize>();
        assert!((80..=210).contains(&sum), "3.6 in the mean, not 1: {groups:?}");
    }

    #[test]
    fn a_run_too_short_for_a_burst_has_none() {
        for bursts in [Bursts::Exact, Bursts::Tailed] {
            let timeline = Timeline::new(1, (230, 3400), bursts, 1, Within::Even, Rng::new(9));
            assert_eq!(timeline.count(), 230);
            let mut bins = [0u64; 14];
            Timeline::new(14, (230, 3400), bursts, 1, Within::Even, Rng::new(9))
                .for_each(|at_ns| bins[(at_ns / 1_000_000_000) as usize] += 1);
            assert_eq!(bins.iter().sum::<u64>(), 14 * 230, "3,220 are less than the peak");
            assert!(bins.iter().all(|&count| (80..600).contains(&count)), "{bins:?}");
        }
    }
}
