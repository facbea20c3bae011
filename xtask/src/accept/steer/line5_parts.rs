//! What is each part of our own policy worth?
//!
//! Source: acceptance of our own steering, line 5. The sweep of the goals again, a smaller sample, with one part left out
//! in turn. A row says what was measured, and what it is with all parts.

use super::Options;
use super::sweep::sweep;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use serde_json::Value;
use toml::Table;

/// Cases that are drawn, and the seed of the draw.
const SAMPLE: (u64, u64) = (60, 1);
const WHOLE: &str = "whole";
/// What is left out, and how the policy is told.
const PARTS: [(&str, &str); 10] = [
    (WHOLE, "tandem"),
    ("no hedges", "tandem:hedge=0%"),
    ("no detours", "tandem:detour=off"),
    ("nothing for the SSD's sake", "tandem:slowdown=1"),
    ("no reads to come", "tandem:without=reads"),
    ("no readers that wait behind", "tandem:without=readers"),
    ("no stalls", "tandem:without=stalls"),
    ("no late requests", "tandem:without=tails"),
    ("no slow writes", "tandem:without=slow"),
    ("not what was spared", "tandem:without=spared"),
];
/// What is compared, by its name in the details of a sweep.
const MEASURES: [(&str, &str); 5] = [
    ("SSD bytes", "ssd.written_bytes"),
    ("write mean", "write.mean_ns"),
    ("p99.9", "write.p999_ns"),
    ("read mean", "read.mean_ns"),
    ("p99.9", "read.p999_ns"),
];

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let file = cargo::root().join("experiments/own-steer.toml");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let parts = cargo::root().join("target/accept/own-parts.toml");
    std::fs::create_dir_all(cargo::root().join("target/accept"))?;
    std::fs::write(&parts, with_parts(&text)?)?;
    let told = sweep(&parts, "steer-parts", SAMPLE)?;
    PARTS.iter().map(|(part, _)| row(&told, part)).collect()
}

/// The same sweep with these policies, and without bounds and goals.
fn with_parts(text: &str) -> Result<String> {
    let mut sweep: Table = text.parse().context("the sweep")?;
    let policy = |(label, steer): &(&str, &str)| {
        let pairs = [("label", *label), ("steer", *steer)];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect::<Table>()
    };
    let null = ("ssd-first", "ssd-first");
    let all: Vec<_> = std::iter::once(&null).chain(&PARTS).map(policy).collect();
    sweep.insert("policy".into(), all.into());
    ["oracle", "goal"].iter().for_each(|name| {
        sweep.remove(*name);
    });
    Ok(toml::to_string(&sweep)?)
}

fn row(told: &Value, part: &str) -> Result<Row> {
    let policies = told["policies"].as_array().context("the sweep has no policies")?;
    let named = |label: &str| {
        let found = policies.iter().find(|policy| policy["label"] == label);
        found.with_context(|| format!("the sweep has no row {label:?}"))
    };
    let (without, whole) = (named(part)?, named(WHOLE)?);
    let times = |of: &Value, name: &str| {
        of["mean"][name].as_f64().map_or_else(|| "-".into(), |times| format!("{times:.2}"))
    };
    let measured: Vec<String> = MEASURES
        .iter()
        .map(|(what, name)| format!("{what} {} ({})", times(without, name), times(whole, name)))
        .collect();
    let held = |of: &Value| of["held"].as_u64().unwrap_or(0);
    Ok(Row::info(
        format!("{part}; with all parts in brackets"),
        format!("not worse in {} ({}); {}", held(without), held(whole), measured.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_of_parts_has_the_cases_and_no_goals() {
        let file = cargo::root().join("experiments/own-steer.toml");
        let text = std::fs::read_to_string(file).expect("it is there");
        let (before, after): (Table, Table) = (
            text.parse().expect("the sweep"),
            with_parts(&text).expect("it can be changed").parse().expect("the changed one"),
        );
        assert_eq!(before.get("drives"), after.get("drives"));
        assert!(before.contains_key("goal") && !after.contains_key("goal"));
        let policies = after["policy"].as_array().expect("a list");
        assert_eq!(policies.len(), PARTS.len() + 1);
    }
}
