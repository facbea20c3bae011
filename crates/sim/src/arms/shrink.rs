//! What is the smallest run that fails in the same way?
//!
//! Source: delta debugging (Zeller and Hildebrandt, 2002), on the requests of a run. First only the
//! crash that failed is tried, then fewer requests are sent, then parts of them are left out, then the
//! pool and the load are made simpler, and that again as long as it gets smaller. A run that leaves
//! something out goes its own way from there on, so each try is a run of its own, and what comes out
//! was seen to fail.

use super::{Case, SIMPLER};

/// How a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What kind of failure it is: only the same kind counts as the same failure.
    pub kind: String,
    /// The event at which the crash was tried that failed; 0 if it failed without one.
    pub at: u64,
    /// In words.
    pub told: String,
}

/// A failing case, made smaller.
pub struct Shrunk {
    /// The case.
    pub case: Case,
    /// How it fails.
    pub failed: Failed,
    /// Runs that were tried.
    pub tries: u64,
}

/// Makes a case smaller that failed like this, with at most so many tries of `run`, which says how a
/// case fails.
pub fn shrink(
    case: &Case,
    failed: &Failed,
    tries_max: u64,
    run: &mut dyn FnMut(&Case) -> Option<Failed>,
) -> Shrunk {
    let best = Shrunk { case: case.clone(), failed: failed.clone(), tries: 0 };
    let mut shrinker = Shrinker { best, tries_max, run };
    shrinker.narrow();
    while shrinker.fewer_requests() | shrinker.leave_out() | shrinker.simplify() {
        shrinker.narrow();
    }
    shrinker.narrow();
    shrinker.best
}

struct Shrinker<'a> {
    best: Shrunk,
    tries_max: u64,
    run: &'a mut dyn FnMut(&Case) -> Option<Failed>,
}

impl Shrinker<'_> {
    /// Tries a smaller case, which is the best from now on if it fails in the same way.
    fn fails(&mut self, case: &Case) -> bool {
        if self.best.tries >= self.tries_max {
            return false;
        }
        self.best.tries += 1;
        let Some(failed) = (self.run)(case) else { return false };
        let is_same = failed.kind == self.best.failed.kind;
        if is_same {
            (self.best.case, self.best.failed) = (case.clone(), failed);
        }
        is_same
    }

    /// Only the crash that failed.
    fn narrow(&mut self) {
        let at = self.best.failed.at;
        if self.best.case.points != Some((at, at)) {
            let mut case = self.best.case.clone();
            case.points = Some((at, at));
            self.fails(&case);
        }
    }

    /// The best case, with crashes at all events up to the one that failed: what leaves something out
    /// fails earlier.
    fn with_earlier_points(&self) -> Case {
        let mut case = self.best.case.clone();
        if let Some((_, last)) = case.points {
            case.points = Some((0, last));
        }
        case
    }

    /// The shortest beginning of the requests that fails, by bisection.
    fn fewer_requests(&mut self) -> bool {
        let before = self.best.case.requests_max;
        let (mut enough, mut few) = (before.unwrap_or(1 << 14), 0);
        // what was sent in all is not known: the first halves cost nothing but a few runs
        while enough - few > 1 {
            let mut case = self.best.case.clone();
            let half = few + (enough - few) / 2;
            case.requests_max = Some(half);
            if self.fails(&case) { enough = half } else { few = half }
        }
        self.best.case.requests_max != before
    }

    /// Requests in the middle that can be missed: halves, quarters, down to single ones.
    fn leave_out(&mut self) -> bool {
        let Some(count) = self.best.case.requests_max else { return false };
        let before = self.best.case.without.clone();
        let mut length = count.div_ceil(2);
        while length > 0 {
            let mut first = 0;
            while first < count {
                let last = (first + length - 1).min(count - 1);
                let mut case = self.with_earlier_points();
                if !is_within(&case.without, (first, last)) {
                    add_range(&mut case.without, (first, last));
                    if self.fails(&case) {
                        self.narrow();
                    }
                }
                first += length;
            }
            length /= 2;
        }
        self.best.case.without != before
    }

    /// A smaller pool and simpler load.
    fn simplify(&mut self) -> bool {
        let before = self.best.case.simpler.len();
        for simpler in SIMPLER {
            if self.best.case.simpler.iter().any(|known| known.name == simpler.name) {
                continue;
            }
            let mut case = self.best.case.clone();
            case.points = None;
            case.simpler.push(*simpler);
            if self.fails(&case) {
                self.narrow();
            }
        }
        self.best.case.simpler.len() != before
    }
}

fn is_within(ranges: &[(u64, u64)], (first, last): (u64, u64)) -> bool {
    ranges.iter().any(|range| range.0 <= first && last <= range.1)
}

/// Adds a range to others, which stay in order and apart.
fn add_range(ranges: &mut Vec<(u64, u64)>, range: (u64, u64)) {
    ranges.push(range);
    ranges.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for &(first, last) in ranges.iter() {
        match apart.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => apart.push((first, last)),
        }
    }
    *ranges = apart;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that fails if it sends all requests of `needed` and crashes after the last of them, each
    /// request being ten events.
    fn fails_with(needed: &[u64], simple: bool) -> impl FnMut(&Case) -> Option<Failed> {
        let needed = needed.to_vec();
        move |case| {
            let most = case.requests_max.unwrap_or(200).min(200);
            let is_sent = |n: u64| n < most && !is_within(&case.without, (n, n));
            if !needed.iter().all(|n| is_sent(*n)) {
                return None;
            }
            let has = |name: &str| case.simpler.iter().any(|simpler| simpler.name == name);
            if !simple && has("short") {
                let told = "another kind".to_owned();
                return Some(Failed { kind: "Other".into(), at: 1, told });
            }
            let last = *needed.iter().max()?;
            let at = 10 * (0..last).filter(|n| is_sent(*n)).count() as u64 + 10;
            let (first, end) = case.window((0, u64::MAX));
            let told = "lost".to_owned();
            (first..end).contains(&at).then(|| Failed { kind: "Lost".into(), at, told })
        }
    }

    fn shrunk(needed: &[u64], simple: bool) -> Shrunk {
        let case: Case = "small/mios-e/31".parse().unwrap();
        let mut run = fails_with(needed, simple);
        let failed = run(&case).expect("it fails");
        let shrunk = shrink(&case, &failed, 400, &mut run);
        assert_eq!(run(&shrunk.case), Some(shrunk.failed.clone()), "what is told fails so");
        shrunk
    }

    #[test]
    fn only_what_is_needed_stays() {
        let shrunk = shrunk(&[7, 41, 120], true);
        let case = shrunk.case;
        assert_eq!((case.requests_max, case.points), (Some(121), Some((30, 30))));
        assert_eq!(case.without, [(0, 6), (8, 40), (42, 119)]);
        assert_eq!(case.simpler.len(), SIMPLER.len());
        assert!(shrunk.tries < 400, "{} tries", shrunk.tries);
    }

    /// What fails in another way is no smaller case of the same failure.
    #[test]
    fn another_failure_does_not_count() {
        let case = shrunk(&[3], false).case;
        assert!(case.simpler.iter().all(|simpler| simpler.name != "short"));
        assert_eq!(case.simpler.len(), SIMPLER.len() - 1);
    }

    #[test]
    fn it_ends_when_there_are_no_more_tries() {
        let case: Case = "small/mios-e/31".parse().unwrap();
        let mut runs = 0;
        let mut run = fails_with(&[150], true);
        let failed = run(&case).expect("it fails");
        let shrunk = shrink(&case, &failed, 9, &mut |case| {
            runs += 1;
            run(case)
        });
        assert_eq!((runs, shrunk.tries), (9, 9));
        assert_eq!(run(&shrunk.case), Some(shrunk.failed));
    }
}
