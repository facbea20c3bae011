//! What does the paper say, what came out, and does it hold? As a table and as JSON.
//!
//! Names of the JSON are a contract (design, "The command line").

use super::experiment::{Case, Experiment, Kind, Replay, Which};
use super::relation::{Path, field_of};
use super::work::{Results, key};
use crate::report::table::{Table, bytes, wrap};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use tandem_block::Duration;

/// Our own policy, which every table compares with the published ones.
const OURS: &str = "ect";
const COLUMNS: usize = 120;

/// All experiments.
#[derive(Debug, Serialize)]
pub struct Document {
    /// In the order of the command line.
    pub experiments: Vec<Told>,
}

/// One experiment.
#[derive(Debug, Serialize)]
pub struct Told {
    name: String,
    title: String,
    source: String,
    about: String,
    /// Every relation, and every item that has none.
    pub relations: Vec<Row>,
    cases: Vec<CaseTold>,
}

/// One relation.
#[derive(Debug, Serialize)]
pub struct Row {
    id: String,
    what: String,
    paper: String,
    ours: String,
    /// Does it hold?
    pub holds: bool,
    why: Option<String>,
    /// It is about a case that could not be run here: it counts neither way.
    skipped: bool,
}

impl Row {
    /// As texts: id, what, paper, ours, verdict, why not.
    pub fn cells(&self) -> Vec<String> {
        let verdict = match (self.skipped, self.holds) {
            (true, _) => "skipped",
            (false, true) => "holds",
            (false, false) => "DOES NOT HOLD",
        };
        let why = self.why.as_deref().unwrap_or_default();
        [&self.id, &self.what, &self.paper, &self.ours, verdict, why].map(str::to_owned).to_vec()
    }
}

/// How the policies of one case stand to each other.
#[derive(Debug, Serialize)]
struct CaseTold {
    name: String,
    measure: &'static str,
    policies: Vec<PolicyTold>,
    /// Published policies that are no worse than ours in mean latency and SSD bytes, and better in one.
    dominated_in_mean_by: Option<Vec<String>>,
    /// The same with p99.9 latency.
    dominated_in_p999_by: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
struct PolicyTold {
    label: String,
    mean_ns: u64,
    p999_ns: u64,
    ssd_written_bytes: u64,
    wall_ns: u64,
}

/// What came out of all of them.
pub fn document(experiments: &[Experiment], results: &Results) -> Document {
    Document { experiments: experiments.iter().map(|one| told(one, results)).collect() }
}

fn told(experiment: &Experiment, results: &Results) -> Told {
    let look_up = |path: &Path| look_up(experiment, results, path);
    let mut relations: Vec<Row> = experiment
        .relations
        .iter()
        .map(|relation| {
            let verdict = relation.verdict(&look_up);
            let case = |path: &Path| experiment.cases.iter().find(|case| case.name == path.case);
            let skipped = relation.paths().find_map(|path| case(path)?.kind.skipped());
            Row {
                id: relation.id.clone(),
                what: relation.what.clone(),
                paper: relation.paper.clone(),
                ours: skipped.map_or(verdict.ours, str::to_owned),
                holds: verdict.holds,
                why: relation.why.clone().filter(|_| !verdict.holds),
                skipped: skipped.is_some(),
            }
        })
        .collect();
    relations.extend(experiment.missing().map(|item| Row {
        id: item.clone(),
        what: "an item of the paper without a relation".into(),
        paper: String::new(),
        ours: String::new(),
        holds: false,
        why: None,
        skipped: false,
    }));
    let replays = experiment.cases.iter().filter_map(|case| match &case.kind {
        Kind::Replay(replay) => Some(case_told(case, replay, results)),
        Kind::Predictor(_) | Kind::Staircase(_) | Kind::Sharing(_) => None,
    });
    Told {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        about: experiment.about.trim().to_owned(),
        relations,
        cases: replays.collect(),
    }
}

fn look_up(experiment: &Experiment, results: &Results, path: &Path) -> Result<f64, String> {
    let case = experiment.cases.iter().find(|case| case.name == path.case);
    let case = case.expect("paths were checked when the file was read");
    let mut runs = case.kind.runs().into_iter();
    let run = runs.find(|(label, _)| *label == path.policy);
    let (_, which) = run.expect("as the case");
    match &results[&key(&case.kind, which)] {
        Ok(run) => field_of(run, &path.field),
        Err(why) => Err(format!("{}/{} failed: {why}", path.case, path.policy)),
    }
}

fn case_told(case: &Case, replay: &Replay, results: &Results) -> CaseTold {
    let measure = if replay.is_about_reads { "read" } else { "write" };
    let mut policies = Vec::new();
    for choice in &replay.policies {
        let Ok(run) = &results[&key(&case.kind, Which::Choice(choice))] else { continue };
        let whole = |value: &Value| value.as_u64().unwrap_or_default();
        policies.push(PolicyTold {
            label: choice.label.clone(),
            mean_ns: whole(&run[measure]["mean_ns"]),
            p999_ns: whole(&run[measure]["p999_ns"]),
            ssd_written_bytes: whole(&run["ssd"]["written_bytes"]),
            wall_ns: whole(&run["wall_ns"]),
        });
    }
    let dominated = |latency: fn(&PolicyTold) -> u64| {
        let ours = policies.iter().find(|policy| policy.label == OURS)?;
        let point = |policy: &PolicyTold| (latency(policy), policy.ssd_written_bytes);
        let (time, written) = point(ours);
        let better = policies.iter().filter(|policy| {
            let (other_time, other_written) = point(policy);
            other_time <= time && other_written <= written && point(policy) != (time, written)
        });
        Some(better.map(|policy| policy.label.clone()).collect())
    };
    CaseTold {
        name: case.name.clone(),
        measure,
        dominated_in_mean_by: dominated(|policy| policy.mean_ns),
        dominated_in_p999_by: dominated(|policy| policy.p999_ns),
        policies,
    }
}

impl Document {
    /// Relations, and how many of them hold.
    pub fn counts(&self) -> (usize, usize) {
        let all = || self.rows().filter(|row| !row.skipped);
        (all().count(), all().filter(|row| row.holds).count())
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.experiments.iter().flat_map(|told| &told.relations)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for told in &self.experiments {
            told.text(&mut text);
        }
        let (all, held) = self.counts();
        let unexplained =
            self.rows().filter(|row| !row.holds && !row.skipped && row.why.is_none()).count();
        let percent = held * 100 / all.max(1);
        let _ = write!(text, "{held} of {all} relations hold ({percent} %)");
        text += &match (all - held, unexplained) {
            (0, _) => "\n".into(),
            (_, 0) => ", and for each of the others its file says why not\n".into(),
            (_, count) => format!("; for {count} of the others no file says why not\n"),
        };
        let skipped = self.rows().filter(|row| row.skipped).count();
        if skipped > 0 {
            let _ = writeln!(text, "{skipped} more were skipped, and count neither way");
        }
        self.ours_among_others(&mut text);
        text
    }

    fn ours_among_others(&self, text: &mut String) {
        let cases = || self.experiments.iter().flat_map(|told| &told.cases);
        let with_ours = cases().filter(|case| case.dominated_in_mean_by.is_some()).count();
        if with_ours == 0 {
            return;
        }
        let free = |by: fn(&CaseTold) -> &Option<Vec<String>>| {
            cases().filter(|case| by(case).as_ref().is_some_and(Vec::is_empty)).count()
        };
        let mean = free(|case| &case.dominated_in_mean_by);
        let tail = free(|case| &case.dominated_in_p999_by);
        let _ = writeln!(
            text,
            "{OURS}: of {with_ours} cases, no other policy is better in mean latency and SSD bytes in {mean}, in p99.9 and SSD bytes in {tail}"
        );
    }
}

impl Told {
    fn text(&self, text: &mut String) {
        let _ = writeln!(text, "{}: {} ({})\n", self.name, self.title, self.source);
        let mut table = Table::new(&["<id", "<what", "paper", "ours", "<verdict"]);
        for row in &self.relations {
            let mut cells = row.cells();
            cells.truncate(5); // the reasons stand below
            table.row(cells);
        }
        text.push_str(&table.render());
        for row in self.relations.iter().filter(|row| !row.holds && !row.skipped) {
            if let Some(why) = &row.why {
                let _ = writeln!(text, "  {}", wrap(&format!("{}: {why}", row.id), COLUMNS, 4));
            }
        }
        text.push('\n');
        self.policies(text);
        let judged = || self.relations.iter().filter(|row| !row.skipped);
        let held = judged().filter(|row| row.holds).count();
        let _ = writeln!(text, "  {held} of {} hold\n", judged().count());
    }

    fn policies(&self, text: &mut String) {
        if self.cases.is_empty() {
            return;
        }
        let headings =
            ["<case", "<policy", "<latency of", "mean", "p99.9", "SSD written", "<worse than"];
        let mut table = Table::new(&headings);
        for case in &self.cases {
            for policy in &case.policies {
                let worse = match (&case.dominated_in_mean_by, &case.dominated_in_p999_by) {
                    (Some(mean), Some(tail)) if policy.label == OURS => {
                        let list = |by: &[String]| match by {
                            [] => "none".to_owned(),
                            some => some.join(", "),
                        };
                        format!("mean: {}; p99.9: {}", list(mean), list(tail))
                    }
                    _ => String::new(),
                };
                table.row(vec![
                    case.name.clone(),
                    policy.label.clone(),
                    case.measure.to_owned(),
                    Duration::from_ns(policy.mean_ns).to_string(),
                    Duration::from_ns(policy.p999_ns).to_string(),
                    bytes(policy.ssd_written_bytes),
                    worse,
                ]);
            }
        }
        text.push_str(&table.render());
        text.push('\n');
    }
}
