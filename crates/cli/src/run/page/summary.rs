//! What are the results worth, by paper and by experiment? Two tables at the top of the page.

use crate::report::html::{escape, note};
use crate::run::experiment::Experiment;
use crate::run::report::{Document, Told};
use crate::run::row::Row;
use crate::run::score::{Score, Share};
use std::fmt::Write as _;

/// What belongs to no paper.
const OTHERS: &str = "no paper's";
/// Where there is nothing to tell.
const NOTHING: &str = "-";

/// The paper of an experiment: the first word of its source, where the name begins with it too.
fn paper(experiment: &Experiment) -> String {
    let source = experiment.source.split_whitespace().next().unwrap_or_default();
    let name = experiment.name.split('-').next().unwrap_or_default();
    if source.eq_ignore_ascii_case(name) { source.to_owned() } else { OTHERS.to_owned() }
}

/// Both tables. `with_nulls`: nulls were run.
pub fn render(
    document: &Document,
    experiments: &[Experiment],
    with_nulls: bool,
    html: &mut String,
) {
    let mut papers: Vec<(String, Vec<&Told>)> = Vec::new();
    for (told, experiment) in document.experiments.iter().zip(experiments) {
        let paper = paper(experiment);
        match papers.iter_mut().find(|(known, _)| *known == paper) {
            Some((_, list)) => list.push(told),
            None => papers.push((paper, vec![told])),
        }
    }
    papers.sort_by_key(|(paper, _)| paper == OTHERS);
    if papers.len() > 1 {
        papers.push(("all".to_owned(), document.experiments.iter().collect()));
    }
    html.push_str("<h2>Score</h2>\n");
    let rows = papers.iter().map(|(paper, told)| {
        let rows: Vec<&Row> = told.iter().flat_map(|told| &told.relations).collect();
        (escape(paper), rows)
    });
    table("paper", rows, with_nulls, html);
    html.push_str(&note(
        "\"14 of 17\": of 17 relations, 14 hold. Only those that no null passes tell a policy from none. What \
         calibrates says how far the inputs are from the paper's. What was skipped counts nowhere.",
    ));
    html.push_str("<h2>Experiments</h2>\n");
    let rows = document.experiments.iter().map(|told| {
        let name = escape(&told.name);
        (format!("<a href=\"#{name}\">{name}</a>"), told.relations.iter().collect())
    });
    table("experiment", rows, with_nulls, html);
}

fn table<'a>(
    first: &str,
    rows: impl Iterator<Item = (String, Vec<&'a Row>)>,
    with_nulls: bool,
    html: &mut String,
) {
    const HEADINGS: [&str; 7] = [
        "all that score",
        "no null passes",
        "shared with a null",
        "no null has a number",
        "calibrate",
        "off by, median",
        "built in",
    ];
    let _ = write!(html, "<table class=\"score\"><thead><tr><th>{first}</th>");
    HEADINGS.iter().for_each(|heading| {
        let _ = write!(html, "<th>{heading}</th>");
    });
    html.push_str("</tr></thead><tbody>\n");
    for (name, rows) in rows {
        let cells = cells(&rows, with_nulls);
        let _ = write!(html, "<tr><th>{name}</th>");
        for (heading, cell) in HEADINGS.iter().zip(cells) {
            let class = if cell == NOTHING { " class=\"none\"" } else { "" };
            let _ = write!(html, "<td{class} data-name=\"{heading}\">{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>\n");
}

fn cells(rows: &[&Row], with_nulls: bool) -> [String; 7] {
    let score = Score::of(rows.iter().copied(), with_nulls);
    let told = |share: Share| match share.all {
        0 => NOTHING.to_owned(),
        all => format!("{} of {all} ({} %)", share.hold, share.percent()),
    };
    let if_run = |told: Option<String>| match (score.scored.all, told) {
        (0, _) => NOTHING.to_owned(),
        (_, told) => told.unwrap_or("not run".to_owned()),
    };
    let shared = rows
        .iter()
        .filter(|row| row.kind == "scores" && !row.skipped && !row.holds_under.is_empty());
    let error = match score.error_median {
        Some(error) if error.is_finite() => format!("{error:.2}x"),
        Some(_) => "no factor".to_owned(),
        None => NOTHING.to_owned(),
    };
    [
        told(score.scored),
        if_run(score.discriminating.map(told)),
        if_run(with_nulls.then(|| shared.count().to_string())),
        if_run(score.without_null.map(told)),
        told(score.calibrates),
        error,
        told(score.built_in),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_papers_counts_for_none() {
        let mut experiment = Experiment {
            name: "bcw-fig7".into(),
            title: String::new(),
            source: "BCW section 5.2".into(),
            about: String::new(),
            items: Vec::new(),
            nulls: Vec::new(),
            cases: Vec::new(),
            relations: Vec::new(),
        };
        assert_eq!(paper(&experiment), "BCW");
        experiment.name = "tiers-beyond".into();
        assert_eq!(paper(&experiment), OTHERS);
    }

    #[test]
    fn an_infinite_error_is_told_in_words() {
        let row = |error| Row { kind: "calibrates", error: Some(error), ..Row::default() };
        assert_eq!(cells(&[&row(f64::INFINITY)], false)[5], "no factor");
        assert_eq!(cells(&[&row(1.5), &row(2.5)], false)[5], "2.00x");
        assert_eq!(cells(&[], true), [NOTHING; 7]);
        let scores = Row { kind: "scores", ..Row::default() };
        let wanted = ["0 of 1 (0 %)", "not run", "not run", "not run", NOTHING, NOTHING, NOTHING];
        assert_eq!(cells(&[&scores], false), wanted, "nothing is claimed that was not run");
    }
}
