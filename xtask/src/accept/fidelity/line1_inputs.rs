//! How far are the inputs from the papers' numbers that no policy touches?
//!
//! Source: acceptance of fidelity, line 1.

use super::runs::{self, Runs};
use crate::accept::Options;
use crate::row::Row;
use anyhow::Result;

/// Papers, and how far their inputs may be off in the median. Numbers from outside the papers have no bound.
const BOUNDS: [(&[&str], Option<f64>); 3] =
    [(&["bcw", "serw"], Some(2.0)), (&["ianus", "loris"], Some(1.3)), (&[runs::OUTSIDE], None)];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let runs = runs::all()?;
    Ok(BOUNDS.iter().flat_map(|(papers, most)| rows(runs, papers, *most)).collect())
}

fn rows(runs: &Runs, papers: &[&str], most: Option<f64>) -> Vec<Row> {
    let mut errors = Vec::new();
    let mut each = Vec::new();
    for relation in runs.relations(papers) {
        let Some(error) = relation.error() else { continue };
        // a drive that is reported beside the one that is used
        if !relation.text("id").ends_with(".85us") {
            errors.push(error);
        }
        let what = format!(
            "{}: {}: {}",
            relation.text("id"),
            relation.text("what"),
            relation.text("paper")
        );
        each.push(Row::info(what, format!("{} ({error:.2}x)", relation.text("ours"))));
    }
    errors.sort_by(f64::total_cmp);
    // of an even count the larger one of the two in the middle
    let median = errors.get(errors.len() / 2).copied().unwrap_or(f64::INFINITY);
    let (papers, told) =
        (papers.join(" and "), format!("{median:.2}x of {} numbers", errors.len()));
    let mut rows = vec![match most {
        Some(most) => Row::new(
            format!("{papers}: the median error of the inputs is at most {most}x"),
            told,
            median <= most,
        ),
        None => Row::info(format!("{papers}, from outside the papers: the median error"), told),
    }];
    rows.extend(each);
    rows
}
