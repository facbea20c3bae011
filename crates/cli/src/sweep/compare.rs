//! What the policies of a sweep came to beside each other: medians over starts, and ratios.

use std::collections::BTreeMap;

/// A ratio below this counts as this. Else one case in which nothing was written would be all that a geometric mean
/// tells of.
const RATIO_MIN: f64 = 0.001;
/// Added to both times of a ratio, in ns: nobody sees a microsecond, and what RAM answers takes none.
const UNSEEN_NS: f64 = 1_000.0;

/// What one run gave, by field. A field of which nothing was measured is not there.
pub(super) type Figures = BTreeMap<String, f64>;

/// Results of one case under one policy, from each start.
pub(super) type Starts = Vec<Result<Figures, String>>;

/// All cases under all policies.
#[derive(Debug)]
pub(super) struct Compared {
    pub labels: Vec<String>,
    pub cases: Vec<String>,
    /// By case and policy, the figures of each start. None: a run failed.
    starts: Vec<Vec<Option<Vec<Figures>>>>,
    /// Why a run failed, with its case and policy.
    pub failed: Vec<String>,
}

/// In how many cases a bound holds.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Within {
    pub cases: usize,
    pub held: usize,
    /// The largest factor, its field and its case.
    pub worst: Option<(f64, String, String)>,
}

impl Compared {
    /// Of the results by case and policy.
    pub fn new(labels: Vec<String>, cases: Vec<String>, results: Vec<Vec<Starts>>) -> Compared {
        assert_eq!(cases.len(), results.len(), "a result for each case");
        let mut failed = Vec::new();
        let mut all = Vec::new();
        for (case, by_policy) in cases.iter().zip(results) {
            assert_eq!(by_policy.len(), labels.len(), "a result for each policy");
            let of_policy = |(label, starts): (&String, Starts)| {
                let runs: Result<Vec<Figures>, String> = starts.into_iter().collect();
                runs.map_err(|why| failed.push(format!("{case}, {label}: {why}"))).ok()
            };
            all.push(labels.iter().zip(by_policy).map(of_policy).collect());
        }
        Compared { labels, cases, starts: all, failed }
    }

    /// Adds a row that was not run: in each case, what it has of each field in parts of another row's.
    #[must_use]
    pub fn with(self, label: String, over: usize, ratios: &[Figures]) -> Compared {
        let Compared { mut labels, cases, mut starts, failed } = self;
        assert_eq!(ratios.len(), cases.len(), "ratios for each case");
        labels.push(label);
        for (case, ratios) in starts.iter_mut().zip(ratios) {
            let figures = |of: &Figures| -> Figures {
                let scaled =
                    |(field, ratio): (&String, &f64)| Some((field.clone(), of.get(field)? * ratio));
                ratios.iter().filter_map(scaled).collect()
            };
            let row = case[over].as_ref().map(|starts| starts.iter().map(figures).collect());
            case.push(row);
        }
        Compared { labels, cases, starts, failed }
    }

    /// What each of two policies spares of a field, summed over the cases in which both have it, in parts of `over`'s.
    /// The first one is not counted beyond the second: what it spares there it buys with time that the other one has not.
    pub fn saved(&self, policies: [usize; 2], over: usize, field: &str) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for case in 0..self.cases.len() {
            let ratios = policies.map(|policy| self.ratio(case, policy, over, field));
            if let [Some(one), Some(other)] = ratios {
                let most = (1.0 - other).max(0.0);
                sums[0] += (1.0 - one).min(most);
                sums[1] += most;
            }
        }
        sums
    }

    /// A field of one policy in one case: the median over the starts.
    pub fn value(&self, case: usize, policy: usize, field: &str) -> Option<f64> {
        let starts = self.starts[case][policy].as_ref()?;
        median(starts.iter().map(|figures| figures.get(field).copied()))
    }

    /// How many times another policy's: the median over the starts. None where either has nothing in most of them.
    pub fn ratio(&self, case: usize, policy: usize, over: usize, field: &str) -> Option<f64> {
        let (ours, others) =
            (self.starts[case][policy].as_ref()?, self.starts[case][over].as_ref()?);
        let added = if field.ends_with("_ns") { UNSEEN_NS } else { 0.0 };
        let of_start = |(ours, other): (&Figures, &Figures)| {
            let (value, other) = (ours.get(field)? + added, other.get(field)? + added);
            match other > 0.0 {
                true => Some((value / other).max(RATIO_MIN)),
                false => (value <= 0.0).then_some(1.0),
            }
        };
        median(ours.iter().zip(others).map(of_start))
    }

    /// The geometric mean of the ratios over all cases that have one.
    pub fn mean(&self, policy: usize, over: usize, field: &str) -> Option<f64> {
        let ratios = (0..self.cases.len()).filter_map(|case| self.ratio(case, policy, over, field));
        let (sum, count) = ratios.fold((0.0, 0u32), |(sum, n), ratio| (sum + ratio.ln(), n + 1));
        (count > 0).then(|| (sum / f64::from(count)).exp())
    }

    /// In how many cases is each field at most so many times the other's?
    pub fn within(&self, policy: usize, over: usize, fields: &[String], at_most: f64) -> Within {
        let mut found = Within::default();
        for case in 0..self.cases.len() {
            let mut highest: Option<(f64, &String)> = None;
            for field in fields {
                if let Some(ratio) = self.ratio(case, policy, over, field)
                    && highest.is_none_or(|(most, _)| ratio > most)
                {
                    highest = Some((ratio, field));
                }
            }
            // a run that failed is no success
            let is_lost = self.starts[case][policy].is_none();
            let Some((ratio, field)) = highest else {
                found.cases += usize::from(is_lost);
                continue;
            };
            found.cases += 1;
            found.held += usize::from(ratio <= at_most);
            if found.worst.as_ref().is_none_or(|(most, ..)| ratio > *most) {
                found.worst = Some((ratio, field.clone(), self.cases[case].clone()));
            }
        }
        found
    }
}

/// The middle value, the lower one of two, if most of them are there.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let all: Vec<Option<f64>> = values.collect();
    let mut there: Vec<f64> = all.iter().flatten().copied().collect();
    if there.is_empty() || there.len() * 2 <= all.len() {
        return None;
    }
    there.sort_by(f64::total_cmp);
    Some(there[(there.len() - 1) / 2])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two policies; rows are cases with the values of each start.
    pub(in crate::sweep) fn of_two(rows: &[(&[f64], &[f64])]) -> Compared {
        let starts = |values: &[f64]| -> Starts {
            let run = |value: &f64| Ok(Figures::from([("f".to_owned(), *value)]));
            values.iter().map(run).collect()
        };
        let results = rows.iter().map(|(null, own)| vec![starts(null), starts(own)]).collect();
        let cases = (0..rows.len()).map(|case| format!("case {case}")).collect();
        Compared::new(vec!["null".into(), "own".into()], cases, results)
    }

    #[test]
    fn one_lucky_start_of_three_decides_nothing() {
        let compared = of_two(&[(&[10.0, 12.0, 90.0], &[1.0, 6.0, 9.0])]);
        assert_eq!(compared.value(0, 0, "f"), Some(12.0));
        assert_eq!(compared.ratio(0, 1, 0, "f"), Some(0.1), "of 0.1, 0.5 and 0.1");
        assert_eq!(compared.ratio(0, 1, 0, "g"), None);
    }

    #[test]
    fn means_are_geometric() {
        let compared = of_two(&[(&[1.0], &[4.0]), (&[4.0], &[1.0]), (&[0.0], &[0.0])]);
        let mean = compared.mean(1, 0, "f").expect("there are values");
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
        let nothing = of_two(&[(&[1.0], &[0.0])]);
        assert_eq!(nothing.mean(1, 0, "f").map(|mean| (mean * 1e6).round()), Some(1000.0));
    }

    #[test]
    fn a_row_can_be_told_in_parts_of_another() {
        let compared = of_two(&[(&[10.0, 20.0], &[5.0, 10.0]), (&[8.0, 8.0], &[7.0, 7.0])]);
        let part = |part: f64| Figures::from([("f".to_owned(), part)]);
        let compared = compared.with("least".into(), 0, &[part(0.25), part(0.25)]);
        assert_eq!(compared.ratio(0, 2, 0, "f"), Some(0.25));
        assert_eq!(compared.saved([1, 2], 0, "f"), [0.5 + 0.125, 1.5]);
        assert_eq!(compared.saved([2, 1], 0, "f"), [0.5 + 0.125, 0.625], "no more than the other");
    }

    #[test]
    fn a_bound_is_of_each_case() {
        let rows: [(&[f64], &[f64]); 3] = [(&[1.0], &[1.04]), (&[1.0], &[1.2]), (&[1.0], &[0.1])];
        let found = of_two(&rows).within(1, 0, &["f".into()], 1.05);
        assert_eq!((found.cases, found.held), (3, 2));
        assert_eq!(found.worst, Some((1.2, "f".into(), "case 1".into())));
    }

    #[test]
    fn a_run_that_failed_is_no_success() {
        let runs = vec![vec![vec![Ok(Figures::new())], vec![Err("stuck".to_owned())]]];
        let compared = Compared::new(vec!["null".into(), "own".into()], vec!["c".into()], runs);
        assert_eq!(compared.failed, ["c, own: stuck"]);
        let found = compared.within(1, 0, &["f".into()], 9.0);
        assert_eq!((found.cases, found.held), (1, 0));
    }
}
