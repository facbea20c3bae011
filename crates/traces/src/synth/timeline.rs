//! When do bursty requests arrive, so that the mean and the peak rate are both the paper's?
//!
//! ```text
//! peak ┤     ██          ███              █
//!      │     ██          ███              █
//! base ┤▄█▄▆▄██▆▄█▄▄▆█▄▆▄███▄▆▄█▄▆▄▆█▄▆▄▄▆█▄▆▄    one bar: one second
//! ```
//! Bursts last 1 to 5 s (guess), each of their seconds has exactly the peak's number of requests.
//! Between bursts the rate is half of the mean (guess), each second 0.5 to 1.5 of that. How many
//! seconds burst is solved from the mean; the total is exact. With `bursts=tailed` one second has the
//! peak, and the others that burst have less: [`Bursts`]. Within a burst, requests may come in
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

/// Requests that come at one instant with `arrivals=groups`: their mean, in hundredths, and how many there
/// are at most. **Guess:** with these the greatest queue of node B is the 23 of [BCW Fig. 8].
const GROUP_MEAN_HUNDREDTHS: u64 = 360;
const GROUP_MAX: u64 = 24;

/// How arrivals lie within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Each instant is as likely as any other.
    Even,
    /// In bursts of bursts, as in real traces.
    Cascade,
    /// In groups of geometric size, each at one instant, which is as likely as any other.
    Groups,
}

impl Within {
    pub(super) const SETTING: Setting = Setting {
        name: "arrivals",
        default: "even",
        kind: Kind::Choice(&["even", "cascade", "groups"]),
        summary: "within a second: any instant is as likely as another, or bursts of bursts as measured in real \
                  traces, or groups of 3.6 requests in the mean",
    };

    pub(super) fn of(settings: &Settings) -> Within {
        [Within::Even, Within::Cascade, Within::Groups][settings.get(Self::SETTING.name) as usize]
    }
}

/// How many requests the seconds of a burst have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bursts {
    /// Each has the peak's number.
    Exact,
    /// One has the peak's number. The others have at least twice the mean and at most the peak, by a
    /// bounded Pareto distribution with an exponent of 1. **Guess:** the paper has the peak alone.
    Tailed,
}

impl Bursts {
    pub(super) const SETTING: Setting = Setting {
        name: "bursts",
        default: "exact",
        kind: Kind::Choice(&["exact", "tailed"]),
        summary: "the seconds of a burst: each has the peak's requests, or one has and the others have fewer",
    };

    pub(super) fn of(settings: &Settings) -> Bursts {
        [Bursts::Exact, Bursts::Tailed][settings.get(Self::SETTING.name) as usize]
    }

    /// The requests of the seconds that burst, of `total` requests in `seconds`. The others have about
    /// `base_per_s` each.
    fn seconds(
        self,
        (seconds, total): (u64, u64),
        base_per_s: u64,
        peak_per_s: u64,
        rng: &mut Rng,
    ) -> Vec<u64> {
        let surplus = total.saturating_sub(base_per_s * seconds);
        if self == Bursts::Exact {
            let count = surplus
                .div_ceil(peak_per_s - base_per_s)
                .min(total / peak_per_s)
                .min(seconds.saturating_sub(1));
            return vec![peak_per_s; count as usize];
        }
        let least_per_s = (2 * total / seconds.max(1)).min(peak_per_s);
        let (mut counts, mut above, mut left) = (Vec::new(), 0, total);
        while above < surplus && (counts.len() as u64) + 1 < seconds {
            let is_first = counts.is_empty();
            let count = if is_first { peak_per_s } else { pareto(least_per_s, peak_per_s, rng) };
            if count > left {
                break;
            }
            above += count - base_per_s;
            left -= count;
            counts.push(count);
        }
        // the peak is in one of them, not in the first
        shuffle(&mut counts, rng);
        counts
    }
}

/// A number from `least` to `most`: that it is above x is about as likely as `least / x`.
fn pareto(least: u64, most: u64, rng: &mut Rng) -> u64 {
    const PARTS: u64 = 1 << 20;
    // 1 / x lies evenly between 1 / most and 1 / least
    let (least, most) = (u128::from(least), u128::from(most));
    let part = u128::from(rng.below(PARTS));
    let whole = u128::from(PARTS);
    let drawn = least * most * whole / (least * whole + (most - least) * part);
    u64::try_from(drawn).expect("at most the largest")
}

/// Arrival times in nanoseconds, ascending, the first at 0.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Requests in each second, in reverse order.
    seconds: Vec<Second>,
    second: u64,
    /// Ticks of the current second, descending.
    ticks: Vec<u64>,
    /// The current second is one of a burst.
    bursts: bool,
    /// Requests that come together in such a second.
    group: u64,
    within: Within,
    rng: Rng,
}

/// How many requests a second has.
#[derive(Clone, Copy, Debug)]
struct Second {
    count: u64,
    bursts: bool,
}

/// How requests lie in time, as settings say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) within: Within,
    pub(super) bursts: Bursts,
    /// Requests of a burst that come at the same instant.
    pub(super) group: u64,
}

impl Shape {
    #[cfg(test)]
    fn within(within: Within) -> Shape {
        Shape { within, bursts: Bursts::Exact, group: 1 }
    }
}

impl Timeline {
    /// `mean_per_s * seconds` requests, at most `peak_per_s` in any second.
    pub(super) fn new(
        seconds: u64,
        (mean_per_s, peak_per_s): (u64, u64),
        shape: Shape,
        mut rng: Rng,
    ) -> Timeline {
        assert!(0 < mean_per_s && mean_per_s < peak_per_s, "the peak is above the mean");
        let Shape { within, bursts, group } = shape;
        let mut seconds = plan(seconds, mean_per_s, (peak_per_s, bursts), &mut rng);
        seconds.reverse();
        let group = group.max(1);
        let ticks = Vec::new();
        Timeline { seconds, second: 0, ticks, bursts: false, group, within, rng }
    }

    /// Does the request that `next` gave last come in a second of a burst?
    pub(super) fn bursts(&self) -> bool {
        self.bursts
    }

    /// The share of the seconds that burst, and of the requests in them, in millionths. Before the first request.
    pub(super) fn burst_shares_ppm(&self) -> (u64, u64) {
        let bursts = || self.seconds.iter().filter(|second| second.bursts);
        let requests: u64 = self.seconds.iter().map(|second| second.count).sum();
        let in_bursts: u64 = bursts().map(|second| second.count).sum();
        let time = bursts().count() as u64 * 1_000_000 / (self.seconds.len() as u64).max(1);
        (time, in_bursts * 1_000_000 / requests.max(1))
    }

    /// Draws when the requests of this second come.
    fn draw(&mut self, Second { count, bursts }: Second) {
        self.bursts = bursts;
        let base = self.second * SECOND_TICKS;
        let group = if bursts { self.group } else { 1 };
        let instants = count.div_ceil(group);
        let ticks = match self.within {
            Within::Even => (0..instants).map(|_| self.rng.below(SECOND_TICKS)).collect(),
            Within::Cascade => self.cascade(instants),
            Within::Groups => self.groups(count),
        };
        let group = if self.within == Within::Groups { 1 } else { group };
        let mut left = count;
        for tick in ticks {
            let together = group.min(left);
            let tick = base + tick;
            self.ticks.extend(std::iter::repeat_n(tick, together as usize));
            left -= together;
        }
        self.ticks.sort_unstable_by(|left, right| right.cmp(left));
    }

    /// The instants of `count` requests that come in groups of geometric size.
    fn groups(&mut self, count: u64) -> Vec<u64> {
        const GOES_ON_PPM: u64 = 1_000_000 - 1_000_000 * 100 / GROUP_MEAN_HUNDREDTHS;
        let mut instants = Vec::with_capacity(count as usize);
        while (instants.len() as u64) < count {
            let tick = self.rng.below(SECOND_TICKS);
            let left = (count - instants.len() as u64).min(GROUP_MAX);
            let mut size = 1;
            while size < left && self.rng.chance_ppm(GOES_ON_PPM) {
                size += 1;
            }
            instants.extend(std::iter::repeat_n(tick, size as usize));
        }
        instants
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
        self.seconds.iter().map(|second| second.count).sum::<u64>() + self.ticks.len() as u64
    }
}

impl Iterator for Timeline {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.ticks.is_empty() {
            let second = self.seconds.pop()?;
            self.draw(second);
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
fn plan(
    seconds: u64,
    mean_per_s: u64,
    (peak_per_s, bursts): (u64, Bursts),
    rng: &mut Rng,
) -> Vec<Second> {
    let total = seconds * mean_per_s;
    let of_bursts = bursts.seconds((seconds, total), mean_per_s / 2, peak_per_s, rng);
    let burst_seconds = of_bursts.len() as u64;
    let left = total - of_bursts.iter().sum::<u64>();
    let quiet = quiet_counts(seconds - burst_seconds, left, rng);
    let mut of_bursts = of_bursts.into_iter();
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
        let of_burst = of_bursts.by_ref().take(burst as usize);
        counts.extend(of_burst.map(|count| Second { count, bursts: true }));
        counts.extend(quiet.next().map(|count| Second { count, bursts: false }));
    }
    let planned = counts.iter().map(|second| second.count).sum::<u64>();
    assert_eq!(planned, total, "every request has its second");
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
                Timeline::new(seconds, (mean, peak), Shape::within(Within::Even), Rng::new(9));
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
        let times: Vec<u64> = Timeline::new(
            60,
            (230, 3400),
            Shape { group: 100, ..Shape::within(Within::Even) },
            Rng::new(9),
        )
        .collect();
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
        let even = Timeline::new(60, (2500, 9300), Shape::within(Within::Even), Rng::new(9));
        let cascade = Timeline::new(60, (2500, 9300), Shape::within(Within::Cascade), Rng::new(9));
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
        let timeline = Timeline::new(1, (230, 3400), Shape::within(Within::Even), Rng::new(9));
        assert_eq!(timeline.count(), 230);
    }

    #[test]
    fn groups_have_their_mean_and_no_more_than_their_most() {
        let shape = Shape::within(Within::Groups);
        let times: Vec<u64> = Timeline::new(60, (2500, 9300), shape, Rng::new(9)).collect();
        assert_eq!(times.len(), 60 * 2500, "the mean is kept");
        let mut sizes = std::collections::BTreeMap::<u64, u64>::new();
        for at_ns in &times {
            *sizes.entry(*at_ns).or_default() += 1;
        }
        let hundredths = times.len() as u64 * 100 / sizes.len() as u64;
        assert!(hundredths.abs_diff(GROUP_MEAN_HUNDREDTHS) <= 5, "{hundredths}");
        // two groups may share an instant of 10 us by chance, three hardly
        let most = sizes.values().max().copied().unwrap_or(0);
        assert!((15..2 * GROUP_MAX).contains(&most), "{most}");
        let ones = sizes.values().filter(|count| **count == 1).count();
        assert!((25..31).contains(&(ones * 100 / sizes.len())), "{ones}: 1 / 3.6 are alone");
        let even = Timeline::new(60, (2500, 9300), Shape::within(Within::Even), Rng::new(9));
        let by_second = |times: Vec<u64>| {
            let mut bins = vec![0; 60];
            times.iter().for_each(|at_ns| bins[(at_ns / 1_000_000_000) as usize] += 1);
            bins
        };
        assert_eq!(by_second(times), by_second(even.collect()), "seconds are not touched");
    }

    #[test]
    fn tailed_bursts_keep_the_mean_and_reach_the_peak_once() {
        for (seconds, mean, peak) in
            [(2700, 230, 3400), (1800, 2500, 9300), (1560, 3000, 11_100), (30, 230, 3400)]
        {
            let shape = Shape { bursts: Bursts::Tailed, ..Shape::within(Within::Even) };
            let mut timeline = Timeline::new(seconds, (mean, peak), shape, Rng::new(9));
            let (time_ppm, requests_ppm) = timeline.burst_shares_ppm();
            let (mut bins, mut in_bursts) = (vec![0u64; seconds as usize], 0);
            while let Some(at_ns) = timeline.next() {
                bins[(at_ns / 1_000_000_000) as usize] += 1;
                in_bursts += u64::from(timeline.bursts());
            }
            assert_eq!(bins.iter().sum::<u64>(), seconds * mean, "the mean is kept");
            let at_peak = bins.iter().filter(|count| **count == peak).count();
            let above = bins.iter().filter(|count| **count > peak).count();
            assert_eq!((at_peak, above), (1, 0), "{seconds} s at {mean}");
            let bursts = bins.iter().filter(|count| **count >= 2 * mean).count() as u64;
            assert_eq!(bursts * 1_000_000 / seconds, time_ppm, "quiet seconds have less");
            assert_eq!(in_bursts * 1_000_000 / (seconds * mean), requests_ppm);
        }
    }

    #[test]
    fn a_number_of_the_tail_is_twice_as_large_half_as_often() {
        let mut rng = Rng::new(3);
        let drawn: Vec<u64> = (0..20_000).map(|_| pareto(100, 1_000_000, &mut rng)).collect();
        assert!(drawn.iter().all(|count| (100..=1_000_000).contains(count)));
        for (above, permille) in [(200, 500), (400, 250), (1000, 100)] {
            let got = drawn.iter().filter(|count| **count >= above).count() * 1000 / drawn.len();
            assert!(got.abs_diff(permille) <= 20, "{got} per mille of them are {above} or more");
        }
        assert_eq!(pareto(7, 7, &mut rng), 7);
    }
}
