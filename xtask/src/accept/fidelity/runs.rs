//! What did `tandem run --null` say of every experiment? Run once for all lines.

use crate::accept::experiments;
use crate::cargo;
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// An experiment of no paper's, whose relations are our own expectations.
const OURS: &str = "ianus-together";
/// Papers, as the files of their experiments begin.
pub(super) const PAPERS: [&str; 4] = ["bcw", "serw", "ianus", "loris"];
/// Experiments that compare the drives with data sheets and with other simulators' drives.
pub(super) const OUTSIDE: &str = "drives";

/// All of them.
pub(super) struct Runs {
    experiments: Vec<Value>,
    /// How long all took.
    pub(super) took: Duration,
}

/// One relation.
pub(super) struct Relation<'a>(&'a Value);

/// Runs what the relations of every paper, and of the drives outside them, name, with the nulls, once in this process.
pub(super) fn all() -> Result<&'static Runs> {
    static RUNS: OnceLock<Result<Runs, String>> = OnceLock::new();
    RUNS.get_or_init(|| run().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|e| anyhow!("{e}"))
}

fn run() -> Result<Runs> {
    let tandem = cargo::build_tandem(true)?;
    let mut files = Vec::new();
    for paper in PAPERS.into_iter().chain([OUTSIDE]) {
        files.extend(experiments::files(paper)?);
    }
    let began = Instant::now();
    let output = Command::new(&tandem)
        .args(["run", "--null", "--named", "--json"])
        .args(files)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("starting tandem run")?;
    let took = began.elapsed();
    let mut told: Value =
        serde_json::from_slice(&output.stdout).context("what tandem run printed")?;
    let Some(experiments) = told["experiments"].as_array_mut() else {
        bail!("no experiments in it")
    };
    Ok(Runs { experiments: std::mem::take(experiments), took })
}

impl Runs {
    /// Relations that could not be judged, and those whose files say why they do not hold where they do.
    pub(super) fn unsound(&self) -> [Vec<&str>; 2] {
        let rows =
            || self.experiments.iter().filter_map(|one| one["relations"].as_array()).flatten();
        ["skipped", "is_stale"].map(|name| {
            let like_this = rows().filter(|row| row[name] == true);
            like_this.filter_map(|row| row["id"].as_str()).collect()
        })
    }

    /// Every relation of these papers that was judged.
    pub(super) fn relations<'a>(
        &'a self,
        papers: &'a [&'a str],
    ) -> impl Iterator<Item = Relation<'a>> + 'a {
        let is_asked_for = |experiment: &&Value| {
            let name = experiment["name"].as_str().unwrap_or_default();
            name != OURS && papers.iter().any(|paper| name.starts_with(&format!("{paper}-")))
        };
        let of_papers = self.experiments.iter().filter(is_asked_for);
        let rows = of_papers.filter_map(|experiment| experiment["relations"].as_array()).flatten();
        rows.map(Relation).filter(|relation| relation.0["skipped"] != true)
    }
}

impl<'a> Relation<'a> {
    /// A text of it, or nothing.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.0[name].as_str().unwrap_or_default()
    }

    pub(super) fn holds(&self) -> bool {
        self.0["holds"] == true
    }

    pub(super) fn scores(&self) -> bool {
        self.text("kind") == "scores"
    }

    /// A null fails it, and none passes it.
    pub(super) fn tells_apart(&self) -> bool {
        self.0["tells_apart"] == true
    }

    /// How far the input is from the paper's number. A number that did not come out is infinitely far.
    pub(super) fn error(&self) -> Option<f64> {
        let compares = self.text("kind") == "calibrates" && self.0["published"].is_number();
        compares.then(|| self.0["error"].as_f64().unwrap_or(f64::INFINITY))
    }

    /// The paper's statement that it is one size of: its id without a last part in digits.
    pub(super) fn claim(&self) -> &'a str {
        let id = self.text("id");
        match id.rsplit_once('.') {
            Some((claim, size)) if size.bytes().all(|byte| byte.is_ascii_digit()) => claim,
            _ => id,
        }
    }
}
