//! Does our own policy meet the goals of `experiments/own-steer.toml`?
//!
//! Source: acceptance of our own steering, lines 1 and 2. Both are of one sweep, a sample of its cases.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// Cases that are drawn, and the seed of the draw.
const SAMPLE: (u64, u64) = (150, 1);
/// They take no longer, on two processors.
const MINUTES_MAX: u64 = 60;
/// Goals of the second line.
const SPARED: [&str; 5] = ["bytes-2", "tail-2", "mios-d", "mios-d-bytes", "front-2"];

/// What a sweep said, and how long it took.
struct Swept {
    told: Value,
    seconds: u64,
}

pub(super) fn never_worse(_: &Options) -> Result<Vec<Row>> {
    let swept = swept()?;
    let mut rows = goals(&swept.told, |id| !SPARED.contains(&id))?;
    rows.push(Row::new(
        format!("{} cases in at most {MINUTES_MAX} minutes", SAMPLE.0),
        format!("{} s", swept.seconds),
        swept.seconds <= MINUTES_MAX * 60,
    ));
    Ok(rows)
}

pub(super) fn spared(_: &Options) -> Result<Vec<Row>> {
    goals(&swept()?.told, |id| SPARED.contains(&id))
}

/// The sweep of this run, made once.
fn swept() -> Result<&'static Swept> {
    static SWEPT: OnceLock<Swept> = OnceLock::new();
    if let Some(swept) = SWEPT.get() {
        return Ok(swept);
    }
    let began = Instant::now();
    let file = cargo::root().join("experiments/own-steer.toml");
    let told = sweep(&file, "steer", SAMPLE)?;
    Ok(SWEPT.get_or_init(|| Swept { told, seconds: began.elapsed().as_secs() }))
}

/// Runs a sweep; its details.
pub(super) fn sweep(file: &Path, name: &str, (cases, seed): (u64, u64)) -> Result<Value> {
    let folder = cargo::root().join("target/accept");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let details: PathBuf = folder.join(format!("{name}.json"));
    let (cases, seed) = (cases.to_string(), seed.to_string());
    let status = Command::new(cargo::build_tandem(true)?)
        .arg("sweep")
        .arg(file)
        .args(["--sample", &cases, "--seed", &seed, "--details"])
        .arg(&details)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("starting tandem sweep")?;
    let text = std::fs::read_to_string(&details)
        .with_context(|| format!("tandem sweep ended with {status}, and left no details"))?;
    Ok(serde_json::from_str(&text)?)
}

/// Goals as rows.
fn goals(told: &Value, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>> {
    let text = |of: &Value, name: &str| {
        let words = of[name].as_str().unwrap_or_default().split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    let goals = told["goals"].as_array().context("the sweep has no goals")?;
    let wanted = goals.iter().filter(|goal| is_wanted(&text(goal, "id")));
    let rows: Vec<Row> = wanted
        .map(|goal| {
            let what = format!("{}: {}", text(goal, "what"), text(goal, "wanted"));
            Row::new(what, text(goal, "measured"), goal["holds"] == true)
        })
        .collect();
    if rows.is_empty() {
        bail!("none of the goals is known by its name");
    }
    Ok(rows)
}
