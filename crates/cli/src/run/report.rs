//! What does the paper say, what came out, and does it hold? As a table and as JSON.
//!
//! Names of the JSON are a contract (design, "The command line").

use super::experiment::{Case, Experiment, Kind, Replay, Which};
use super::instead::{self, in_place_of_policies};
use super::null::Null;
use super::purpose::{Cause, Purpose};
use super::relation::{Path, Relation, Verdict};
use super::row::Row;
use super::score::Score;
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
    /// Of all of them.
    pub score: Score,
}

/// One experiment.
#[derive(Debug, Serialize)]
pub struct Told {
    /// Its name.
    pub name: String,
    title: String,
    source: String,
    about: String,
    /// Every relation, and every item that has none.
    pub relations: Vec<Row>,
    /// The nulls that were run, by name.
    nulls: Vec<&'static str>,
    /// Of its relations.
    pub score: Score,
    cases: Vec<CaseTold>,
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

/// What came out of all of them. `with_nulls`: the nulls of each were run, too.
pub fn document(experiments: &[Experiment], results: &Results, with_nulls: bool) -> Document {
    let experiments: Vec<Told> =
        experiments.iter().map(|one| told(one, results, with_nulls)).collect();
    let rows = experiments.iter().flat_map(|told| &told.relations);
    let score = Score::of(rows, with_nulls);
    Document { experiments, score }
}

fn told(experiment: &Experiment, results: &Results, with_nulls: bool) -> Told {
    let nulls: Vec<(Null, Experiment)> = match with_nulls {
        true => experiment
            .nulls
            .iter()
            .map(|null| (*null, in_place_of_policies(*null, experiment)))
            .collect(),
        false => Vec::new(),
    };
    let mut relations: Vec<Row> = experiment
        .relations
        .iter()
        .map(|relation| {
            let under = |(null, instead): &(Null, Experiment)| {
                let look_up = |path: &Path| instead::look_up(instead, Some(*null), results, path);
                (null.name(), relation.verdict(&look_up))
            };
            let under: Vec<(&'static str, Verdict)> = nulls.iter().map(under).collect();
            let look_up = |path: &Path| instead::look_up(experiment, None, results, path);
            row(experiment, relation, relation.verdict(&look_up), &under)
        })
        .collect();
    relations.extend(experiment.missing().map(|item| Row {
        id: item.clone(),
        what: "an item of the paper without a relation".into(),
        kind: "scores",
        ..Row::default()
    }));
    let replays = experiment.cases.iter().filter_map(|case| match &case.kind {
        Kind::Replay(replay) => Some(case_told(case, replay, results)),
        Kind::Predictor(_) | Kind::Staircase(_) | Kind::Sharing(_) | Kind::Drive(_) => None,
    });
    Told {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        about: experiment.about.trim().to_owned(),
        score: Score::of(relations.iter(), with_nulls),
        relations,
        nulls: nulls.iter().map(|(null, _)| null.name()).collect(),
        cases: replays.collect(),
    }
}

fn row(
    experiment: &Experiment,
    relation: &Relation,
    verdict: Verdict,
    under: &[(&'static str, Verdict)],
) -> Row {
    let case = |path: &Path| experiment.cases.iter().find(|case| case.name == path.case);
    let skipped = relation.paths().find_map(|path| case(path)?.kind.skipped());
    let stands = !verdict.holds;
    let named = |is_meant: fn(&Verdict) -> bool| {
        under.iter().filter(|(_, verdict)| is_meant(verdict)).map(|(name, _)| *name).collect()
    };
    let holds_under: Vec<&'static str> = named(|verdict| verdict.holds);
    // a null that has no such number shows nothing
    let fails_under: Vec<&'static str> = named(|verdict| verdict.has_value && !verdict.holds);
    Row {
        id: relation.id.clone(),
        what: relation.what.clone(),
        paper: relation.paper.clone(),
        ours: skipped.map_or(verdict.ours, str::to_owned),
        holds: verdict.holds,
        why: relation.why.clone().filter(|_| stands),
        cause: relation.cause.filter(|_| stands),
        kind: relation.purpose.name(),
        published: relation.purpose.known().and_then(|known| known.published),
        source: relation.purpose.known().map(|known| known.source.clone()),
        error: verdict.error,
        tells_apart: relation.purpose == Purpose::Scores
            && holds_under.is_empty()
            && !fails_under.is_empty(),
        holds_under,
        fails_under,
        is_stale: relation.why.is_some() && verdict.holds,
        skipped: skipped.is_some(),
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

    /// Relations whose file says why they do not hold, and which hold.
    pub fn stale(&self) -> Vec<&str> {
        self.rows().filter(|row| row.is_stale && !row.skipped).map(|row| row.id.as_str()).collect()
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
        text += &self.score.text();
        let failed = || self.rows().filter(|row| !row.holds && !row.skipped);
        if failed().next().is_some() {
            let count = |cause: Cause| failed().filter(|row| row.cause == Some(cause)).count();
            let _ = writeln!(
                text,
                "{} do not hold: the paper contradicts itself in {}, an input is unknown in {}, {} are ours, {} have no reason",
                failed().count(),
                count(Cause::Contradiction),
                count(Cause::UnknownInput),
                count(Cause::Ours),
                failed().filter(|row| row.cause.is_none()).count(),
            );
        }
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
            table.row(row.cells()); // the reasons stand below
        }
        text.push_str(&table.render());
        for row in self.relations.iter().filter(|row| !row.holds && !row.skipped) {
            if let Some(why) = &row.why {
                let cause = row.cause.map_or("", Cause::told);
                let line = format!("{}: {cause}{why}", row.id);
                let _ = writeln!(text, "  {}", wrap(&line, COLUMNS, 4));
            }
        }
        text.push('\n');
        self.policies(text);
        for line in self.score.text().lines() {
            let _ = writeln!(text, "  {line}");
        }
        text.push('\n');
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
