//! How a sweep is told: policies side by side, the goals, and where each policy loses most.

use super::cases::Sweep;
use super::compare::Compared;
use super::goal::Verdict;
use crate::report::table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What must not get worse.
pub(super) const LATENCIES: [&str; 4] =
    ["write.mean_ns", "write.p999_ns", "read.mean_ns", "read.p999_ns"];
/// What is to be spared.
pub(super) const SSD_BYTES: &str = "ssd.written_bytes";
pub(super) const SSD_USER_BYTES: &str = "ssd.user_bytes";
pub(super) const HDD_BYTES: &str = "hdd.written_bytes";
/// A case counts as one that got worse above this.
const WORSE: f64 = 1.05;

/// Everything, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    name: String,
    about: String,
    null: String,
    starts: u32,
    skipped: Vec<String>,
    failed: Vec<String>,
    policies: Vec<Summary>,
    pub goals: Vec<Verdict>,
    cases: Vec<CaseTold>,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    count: usize,
}

/// One policy beside the null.
#[derive(Debug, Serialize)]
struct Summary {
    label: String,
    /// Cases in which no latency is above 1.05 times the null's, of so many.
    held: usize,
    of: usize,
    /// The geometric mean over all cases, by field.
    mean: BTreeMap<String, Option<f64>>,
    /// The largest ratio, by field, and its case.
    worst: BTreeMap<String, Option<(f64, String)>>,
}

/// One case: the null's values, and the ratios of each policy.
#[derive(Debug, Serialize)]
struct CaseTold {
    case: String,
    null: BTreeMap<String, f64>,
    ratios: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Document {
    pub fn new(sweep: &Sweep, compared: &Compared) -> Document {
        let null = sweep.null;
        let summary = |policy: usize| {
            let fields = LATENCIES.iter().chain([&SSD_BYTES]);
            let latencies = LATENCIES.map(str::to_owned);
            let within = compared.within(policy, null, &latencies, WORSE);
            let worst = |field: &str| {
                let all = compared.within(policy, null, &[field.to_owned()], WORSE);
                all.worst.map(|(factor, _, case)| (factor, case))
            };
            Summary {
                label: compared.labels[policy].clone(),
                held: within.held,
                of: within.cases,
                mean: fields
                    .map(|field| ((*field).to_owned(), compared.mean(policy, null, field)))
                    .collect(),
                worst: LATENCIES.iter().map(|field| ((*field).to_owned(), worst(field))).collect(),
            }
        };
        Document {
            name: sweep.name.clone(),
            about: sweep.about.clone(),
            title: sweep.title.clone(),
            null: compared.labels[null].clone(),
            starts: sweep.starts,
            skipped: sweep.skipped.clone(),
            failed: compared.failed.clone(),
            policies: (0..compared.labels.len()).map(summary).collect(),
            goals: sweep.goals.iter().map(|goal| goal.verdict(compared)).collect(),
            cases: (0..compared.cases.len()).map(|case| case_told(case, null, compared)).collect(),
            count: compared.cases.len(),
        }
    }

    /// Do all goals hold, and has every run ended well?
    pub fn holds(&self) -> bool {
        self.failed.is_empty() && self.goals.iter().all(|goal| goal.holds)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let Document { title, starts, null, .. } = self;
        let cases = if self.count == 1 { "case" } else { "cases" };
        let count = self.count;
        let _ = writeln!(
            text,
            "{title}\n{count} {cases}, the medians of {starts} starts. All numbers are times {null}'s.\n"
        );
        text.push_str(&self.policies_table());
        if !self.goals.is_empty() {
            text.push('\n');
            text.push_str(&self.goals_told());
        }
        for why in self.skipped.iter() {
            let _ = writeln!(text, "skipped: {why}");
        }
        for why in self.failed.iter() {
            let _ = writeln!(text, "FAILED: {why}");
        }
        text
    }

    fn policies_table(&self) -> String {
        let headings = [
            "<policy",
            "not worse",
            "of",
            "SSD bytes",
            "write mean",
            "p99.9",
            "read mean",
            "p99.9",
            "write mean",
            "p99.9",
            "read mean",
            "p99.9",
        ];
        let groups = [("", 3), ("geometric mean", 5), ("worst case", 4)];
        let mut table = Table::new(&headings).groups(&groups);
        let number = |number: Option<f64>| match number {
            None => "-".to_owned(),
            Some(number) if number >= 9.995 => format!("{number:.0}"),
            Some(number) => format!("{number:.2}"),
        };
        for policy in &self.policies {
            let mut cells =
                vec![policy.label.clone(), policy.held.to_string(), policy.of.to_string()];
            cells.push(number(policy.mean[SSD_BYTES]));
            cells.extend(LATENCIES.map(|field| number(policy.mean[field])));
            let worst = |field: &str| policy.worst[field].as_ref().map(|(factor, _)| *factor);
            cells.extend(LATENCIES.map(|field| number(worst(field))));
            table.row(cells);
        }
        table.render()
    }

    /// A goal is a line of words, and one of numbers below it: in one line nobody could read them.
    fn goals_told(&self) -> String {
        let mut text = String::new();
        for Verdict { id, what, wanted, measured, holds } in &self.goals {
            let verdict = if *holds { "holds" } else { "SHORT" };
            let _ = writeln!(text, "  {verdict}  {id}: {what}");
            let _ = writeln!(text, "         wanted {wanted}, measured {measured}");
        }
        text
    }
}

fn case_told(case: usize, null: usize, compared: &Compared) -> CaseTold {
    let fields = || LATENCIES.iter().chain([&SSD_BYTES, &HDD_BYTES]);
    let value = |field: &&str| Some(((*field).to_owned(), compared.value(case, null, field)?));
    let ratios = |policy: usize| -> BTreeMap<String, f64> {
        let ratio =
            |field: &&str| Some(((*field).to_owned(), compared.ratio(case, policy, null, field)?));
        fields().filter_map(ratio).collect()
    };
    let others = (0..compared.labels.len()).filter(|policy| *policy != null);
    CaseTold {
        case: compared.cases[case].clone(),
        null: fields().filter_map(value).collect(),
        ratios: others.map(|policy| (compared.labels[policy].clone(), ratios(policy))).collect(),
    }
}
