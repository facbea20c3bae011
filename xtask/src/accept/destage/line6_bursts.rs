//! Do bursts that an SSD takes stay as good as before destaging was rebuilt?
//!
//! Source: acceptance of destaging, line 6.

use super::Options;
use super::measured::runs;
use crate::accept::paired::{self, Before};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;

/// Bursts of a cloud's storage, their name, how many requests, and how much faster.
const WORKLOADS: [(&str, &str, &str); 2] = [("pangu", "10000", "1"), ("pangu-x5", "20000", "5")];
const TRACE: &str = "synth:pangu-b";
const POLICIES: &str = "ssd-first,ect";
/// What counts as no worse.
const MOST_PERCENT: u64 = 101;
const RATE_PERCENT: u32 = 100;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let [then, now] = paired::tandems(Before::Destage)?;
    let mut rows = Vec::new();
    for (name, limit, speedup) in WORKLOADS {
        let words = ["--limit", limit, "--speedup", speedup];
        let (then, now) = (replay(&then, &words)?, replay(&now, &words)?);
        if then.len() != now.len() {
            bail!("both versions know the policies {POLICIES}");
        }
        for (then, now) in then.iter().zip(&now) {
            rows.push(compare(name, then, now)?);
        }
    }
    rows.extend(paired::replays(Before::Destage, RATE_PERCENT)?);
    Ok(rows)
}

/// Figures that a user sees, in us.
fn figures(run: &Value) -> Result<[(&'static str, u64); 5]> {
    let of = |value: &Value| value.as_u64().map(|ns| ns / 1000).context("a run has a figure");
    let (read, write) = (&run["read"], &run["write"]);
    Ok([
        ("all", of(&run["elapsed_ns"])?),
        ("writes", of(&write["mean_ns"])?),
        ("p99.9", of(&write["p999_ns"])?),
        ("reads", of(&read["mean_ns"])?),
        ("p99.9", of(&read["p999_ns"])?),
    ])
}

fn compare(name: &str, then: &Value, now: &Value) -> Result<Row> {
    let policy = now["policy"].as_str().context("a run has a policy")?;
    let pairs: Vec<_> = figures(then)?.into_iter().zip(figures(now)?).collect();
    let told: Vec<String> = pairs
        .iter()
        .map(|((what, then), (_, now))| format!("{what} {now} us (before {then})"))
        .collect();
    let holds = pairs.iter().all(|((_, then), (_, now))| now * 100 <= then * MOST_PERCENT);
    Ok(Row::new(format!("{name}, {policy}: no figure worse than before"), told.join(", "), holds))
}

fn replay(tandem: &Path, words: &[&str]) -> Result<Vec<Value>> {
    let all = [TRACE, "--ssd-size", "1GiB", "--policy", POLICIES];
    runs(tandem, &[&all, words].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_figure_that_is_worse_is_enough() {
        let run = |p999_us: u64| {
            serde_json::json!({
                "policy": "ect",
                "elapsed_ns": 5_000_000_u64,
                "write": { "mean_ns": 100_000, "p999_ns": p999_us * 1000 },
                "read": { "mean_ns": 200_000, "p999_ns": 900_000 },
            })
        };
        for (now, holds) in [(300, true), (400, true), (404, true), (405, false)] {
            let row = compare("bursts", &run(400), &run(now)).expect("all figures are there");
            assert_eq!(row.holds, Some(holds), "{}", row.measured);
        }
        assert!(compare("bursts", &run(1), &serde_json::json!({ "policy": "ect" })).is_err());
    }
}
