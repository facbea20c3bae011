//! Does the profiler give back what every modelled drive is?
//!
//! Source: acceptance of write steering, line 2.

use super::Options;
use crate::accept::call;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::Path;

/// 5 %, in millionths.
const OFF_PPM_MAX: u64 = 50_000;
/// The drives of the papers.
const DRIVES: usize = 12;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let tandem = cargo::build_tandem(true)?;
    let tandem = tandem.to_str().context("the program's path")?;
    let drives: Value = serde_json::from_str(&call(tandem, &["drives", "--json"])?)?;
    let drives = drives.as_array().context("no drives")?;
    let plots = cargo::root().join("target/accept");
    std::fs::create_dir_all(&plots).with_context(|| plots.display().to_string())?;
    let mut rows = Vec::new();
    for drive in drives.iter().filter(|drive| drive["kind"] != "null") {
        let name = drive["name"].as_str().context("a drive without a name")?;
        rows.push(compare(tandem, name)?);
        if drive["kind"] == "hdd" {
            rows.push(plot(tandem, name, &plots)?);
        }
    }
    let measured = rows.iter().filter(|row| row.wanted.contains("within")).count();
    rows.push(Row::new(format!("{DRIVES} drives"), measured.to_string(), measured == DRIVES));
    Ok(rows)
}

/// The full table goes to stderr, the worst figure into the row.
fn compare(tandem: &str, name: &str) -> Result<Row> {
    let told = call(tandem, &["profile", "--spec", name, "--compare", "--json"])?;
    let told: Value = serde_json::from_str(&told)?;
    let figures = told["figures"].as_array().context("no figures")?;
    let off = |figure: &Value| figure["off_ppm"].as_u64().unwrap_or(u64::MAX);
    for figure in figures {
        let (what, unit) = (&figure["figure"], &figure["unit"]);
        let (spec, measured) = (&figure["spec"], &figure["measured"]);
        let hundredths = off(figure) / 100;
        eprintln!(
            "   {name}: {what} {spec} {unit}, measured {measured}, off by {}.{:02} %",
            hundredths / 100,
            hundredths % 100
        );
    }
    let worst = figures.iter().max_by_key(|figure| off(figure)).context("no figures")?;
    let text = format!(
        "{} figures, the worst is {} by {}.{:02} %",
        figures.len(),
        worst["figure"].as_str().unwrap_or_default(),
        off(worst) / 10_000,
        off(worst) / 100 % 100
    );
    Ok(Row::new(format!("{name}: within 5 % of its spec"), text, off(worst) <= OFF_PPM_MAX))
}

fn plot(tandem: &str, name: &str, folder: &Path) -> Result<Row> {
    let path = folder.join(format!("{name}.svg"));
    let file = path.to_str().context("the plot's path")?;
    let profile = folder.join(format!("{name}.toml"));
    let profile = profile.to_str().context("the profile's path")?;
    call(tandem, &["profile", "--spec", name, "--plot", file, "--out", profile])?;
    let text = std::fs::read_to_string(&path).with_context(|| file.to_owned())?;
    Ok(Row::new(format!("{name}: its staircase is drawn"), file, text.contains("<polyline")))
}
