//! What would every tier and cache do with real traces?
//!
//! Source: acceptance of tiers and caches, line 2: one table of all architectures for each of three
//! traces: mean, p99, hit ratio, SSD bytes, bytes moved. The traces are not part of the project:
//! `TANDEM_TRACES` names their folder, and without it the line fails.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// File, its pace, and a size for the SSD that does not hold all of what is touched.
const TRACES: &[(&str, &str, &str)] = &[
    ("cloudphysics.vscsi.zst", "1", "2GiB"),
    ("msr-web0.csv.gz", "1/4", "4GiB"),
    ("ms-dtrs.ssdsim.zst", "1", "2GiB"),
];
/// The architectures of the paper, its null answer among them.
const TIERS_MIN: usize = 15;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let Some(folder) = std::env::var_os("TANDEM_TRACES") else {
        bail!("TANDEM_TRACES names no folder with the traces");
    };
    let binary = cargo::build_tandem(true)?;
    let mut rows = Vec::new();
    for (file, speedup, ssd_bytes) in TRACES {
        let trace = Path::new(&folder).join(file);
        let output = Command::new(&binary)
            .arg("replay")
            .arg(&trace)
            .args(["--tier", "all", "--speedup", speedup, "--ssd-size", ssd_bytes, "--json"])
            .output()
            .with_context(|| format!("starting {}", binary.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("replay of {} gave {}: {}", trace.display(), output.status, said.trim());
        }
        let json: Value = serde_json::from_slice(&output.stdout).context("the replay's JSON")?;
        let runs = json["runs"].as_array().context("the replay has runs")?;
        let whole = runs.len() >= TIERS_MIN
            && runs.iter().all(|run| run["errors"] == 0 && run["read"]["count"].as_u64() > Some(0));
        rows.push(Row::new(
            format!(
                "{file} at {speedup} over an SSD of {ssd_bytes}: one table of all architectures"
            ),
            format!("{} of them, no errors: {whole}", runs.len()),
            whole,
        ));
        rows.extend(
            runs.iter().map(|run| Row::info(format!("{file}: {}", name(run)), figures(run))),
        );
    }
    Ok(rows)
}

fn name(run: &Value) -> &str {
    run["policy"].as_str().unwrap_or("?")
}

fn figures(run: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let us = |value: &Value| number(value) / 1000;
    let mib = |value: &Value| number(value) >> 20;
    let from = |place: &str| number(&run["read_from"][place]["count"]);
    let ssd = from("ram") + from("ssd") + from("ssd_copy");
    let all = ssd + from("hdd_log") + from("hdd_home");
    format!(
        "reads {} us mean, {} us p99, {} % without a hard drive; writes {} us mean, {} us p99; SSD {} MiB \
         written; moved {} MiB to it, {} MiB home",
        us(&run["read"]["mean_ns"]),
        us(&run["read"]["p99_ns"]),
        (ssd * 100).checked_div(all).unwrap_or(0),
        us(&run["write"]["mean_ns"]),
        us(&run["write"]["p99_ns"]),
        mib(&run["ssd"]["written_bytes"]),
        mib(&run["tier"]["came_bytes"]),
        mib(&run["tier"]["demoted_bytes"]),
    )
}
