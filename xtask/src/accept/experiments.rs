//! What did `tandem run` say of these experiments?

use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The verdicts, and everything that the runs gave.
pub(super) struct Told {
    relations: Vec<Value>,
    details: Value,
}

/// Every experiment of a paper: `experiments/PAPER-*.toml`.
pub(super) fn files(paper: &str) -> Result<Vec<PathBuf>> {
    let prefix = format!("{paper}-");
    let folder = cargo::root().join("experiments");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&prefix) && name.ends_with(".toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Relations of commit 7e05906, as experiments/relations.txt lists them: none may go.
pub(super) fn ids_of_before(paper: &str) -> Result<Vec<String>> {
    let path = cargo::root().join("experiments/relations.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let of_paper = text.lines().filter(|line| line.starts_with(&format!("{paper}-")));
    Ok(of_paper.filter_map(|line| line.split('\t').nth(1)).map(str::to_owned).collect())
}

/// Runs them.
pub(super) fn run(files: &[PathBuf]) -> Result<Told> {
    let tandem = cargo::build_tandem(true)?;
    let folder = tempfile::tempdir()?;
    let details = folder.path().join("details.json");
    let output = Command::new(&tandem)
        .arg("run")
        .args(files)
        .arg("--json")
        .arg("--details")
        .arg(&details)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting tandem run")?;
    let told: Value = serde_json::from_slice(&output.stdout).context("what tandem run printed")?;
    let experiments = told["experiments"].as_array().context("no experiments in it")?;
    let relations = experiments.iter().filter_map(|one| one["relations"].as_array()).flatten();
    Ok(Told {
        relations: relations.cloned().collect(),
        details: serde_json::from_slice(&std::fs::read(&details)?)?,
    })
}

fn text<'a>(relation: &'a Value, name: &str) -> &'a str {
    relation[name].as_str().unwrap_or_default()
}

impl Told {
    /// Is there a relation of this id?
    pub fn has(&self, id: &str) -> bool {
        self.relations.iter().any(|relation| text(relation, "id") == id)
    }

    /// So many percent hold, for the others their files say why not; each of these is named.
    pub fn relations(&self, percent: usize) -> Vec<Row> {
        let judged: Vec<&Value> = self.relations.iter().filter(|r| r["skipped"] != true).collect();
        let failed: Vec<&&Value> = judged.iter().filter(|r| r["holds"] != true).collect();
        let held = judged.len() - failed.len();
        let explained = failed.iter().filter(|r| r["why"].is_string()).count();
        let mut rows = vec![
            Row::new(
                format!("{percent} % of the relations hold"),
                format!("{held} of {} ({} %)", judged.len(), held * 100 / judged.len().max(1)),
                !judged.is_empty() && held * 100 >= judged.len() * percent,
            ),
            Row::new(
                "for each of the others its file says why not",
                format!("{explained} of {}", failed.len()),
                explained == failed.len(),
            ),
        ];
        let skipped: Vec<&Value> = self.relations.iter().filter(|r| r["skipped"] == true).collect();
        rows.push(Row::new(
            format!("no relation is skipped ({} are)", skipped.len()),
            skipped.first().map_or("every one was judged", |first| text(first, "ours")),
            skipped.is_empty(),
        ));
        let named = |r: &&Value| {
            Row::info(
                format!("{}: {}: {}", text(r, "id"), text(r, "what"), text(r, "paper")),
                text(r, "ours"),
            )
        };
        rows.extend(failed.iter().map(|r| named(r)));
        rows
    }

    /// A number of one run: `experiment/case/order` and the field's name, with dots.
    pub fn number(&self, run: &str, field: &str) -> Result<f64> {
        let found = run.split('/').chain(field.split('.'));
        let found = found.fold(&self.details, |at, name| match name.parse::<usize>() {
            Ok(index) if at.is_array() => &at[index],
            _ => &at[name],
        });
        found.as_f64().with_context(|| format!("{run} has no {field}: {found}"))
    }
}
