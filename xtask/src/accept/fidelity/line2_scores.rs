//! How many of the relations that tell a policy from none hold, and why do the others not?
//!
//! Source: acceptance of fidelity, line 2.

use super::runs::{self, Relation, Runs};
use crate::accept::Options;
use crate::row::Row;
use anyhow::Result;
use std::collections::BTreeMap;

/// Papers, and the share of their relations that must hold, in percent.
const BOUNDS: [(&[&str], usize); 3] = [(&["bcw", "serw"], 70), (&["ianus"], 90), (&["loris"], 80)];
/// Loris's claims that must hold at every size, in percent.
const CLAIMS_PERCENT: usize = 75;
const CAUSES: [&str; 3] = ["contradiction", "unknown-input", "ours"];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let runs = runs::all()?;
    let mut rows = Vec::new();
    for (papers, percent) in BOUNDS {
        rows.extend(scores(runs, papers, percent));
    }
    rows.push(claims(runs));
    let wanted = ["no relation is skipped", "no file says why a relation does not hold that holds"];
    for (wanted, ids) in wanted.into_iter().zip(runs.unsound()) {
        let told = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        rows.push(Row::new(wanted, told, ids.is_empty()));
    }
    rows.extend(reasons(runs));
    Ok(rows)
}

fn told(relations: &[Relation<'_>]) -> (usize, String) {
    let hold = relations.iter().filter(|relation| relation.holds()).count();
    let percent = hold * 100 / relations.len().max(1);
    (percent, format!("{hold} of {} ({percent} %)", relations.len()))
}

fn scores(runs: &Runs, papers: &[&str], percent: usize) -> [Row; 2] {
    let name = papers.join(" and ");
    let scored: Vec<_> = runs.relations(papers).filter(Relation::scores).collect();
    let apart: Vec<_> = runs.relations(papers).filter(Relation::tells_apart).collect();
    let (share, measured) = told(&apart);
    [
        Row::info(format!("{name}: all relations that score hold"), told(&scored).1),
        Row::new(
            format!("{name}: {percent} % of those that no null passes hold"),
            measured,
            !apart.is_empty() && share >= percent,
        ),
    ]
}

fn claims(runs: &Runs) -> Row {
    let mut claims: BTreeMap<&str, bool> = BTreeMap::new();
    for relation in runs.relations(&["loris"]).filter(Relation::tells_apart) {
        let holds = claims.entry(relation.claim()).or_insert(true);
        *holds &= relation.holds();
    }
    let hold = claims.values().filter(|holds| **holds).count();
    let percent = hold * 100 / claims.len().max(1);
    Row::new(
        format!("loris: {CLAIMS_PERCENT} % of the claims hold at every size that tells them apart"),
        format!("{hold} of {} ({percent} %)", claims.len()),
        !claims.is_empty() && percent >= CLAIMS_PERCENT,
    )
}

fn reasons(runs: &Runs) -> Vec<Row> {
    let failed: Vec<_> = runs.relations(&runs::PAPERS).filter(|r| !r.holds()).collect();
    let count = |cause: &str| failed.iter().filter(|r| r.text("cause") == cause).count();
    let counted: Vec<String> =
        CAUSES.iter().map(|cause| format!("{cause} {}", count(cause))).collect();
    let explained = failed.iter().filter(|r| CAUSES.contains(&r.text("cause"))).count();
    let mut rows = vec![Row::new(
        "each that does not hold has one of three causes",
        format!("{explained} of {}: {}", failed.len(), counted.join(", ")),
        explained == failed.len(),
    )];
    rows.extend(failed.iter().filter(|r| r.tells_apart()).map(|relation| {
        let [id, what, paper, ours, cause, why] =
            ["id", "what", "paper", "ours", "cause", "why"].map(|name| relation.text(name));
        Row::info(format!("{id}: {what}: {paper}"), format!("{ours} ({cause}: {why})"))
    }));
    rows
}
