//! Does every real trace replay with the counts that others have counted, and always the same?
//!
//! Source: acceptance of the spine, line 2. The traces are not part of the project: `TANDEM_TRACES`
//! names their folder, and without it the line fails.

use super::Options;
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// File, reads, writes, bad lines.
const TRACES: &[(&str, u64, u64, u64)] = &[
    ("cloudphysics.vscsi.zst", 46_974, 66_898, 0),
    ("msr-web0.csv.gz", 61_553, 38_447, 0),
    ("hadoop.blkparse.zst", 135_402, 1_907, 0),
    ("hdd-sequential.blkparse.gz", 80, 15_444, 0),
    ("pcmark.disksim.gz", 41_848, 14_240, 0),
    ("ms-dtrs.ssdsim.zst", 113_123, 13_920, 0),
    ("msr-20-80.linnos", 2_020, 7_980, 0),
    ("msr-storm.linnos", 8_316, 1_684, 0),
    ("websearch.mqsim.gz", 24_779, 4, 0),
    ("tpcc.mqsim", 4_381, 2_618, 0),
    ("cheetah.fiu.gz", 8_896, 1_101, 4),
];

const POLICIES: &str = "ssd-first,mios-d,mios-e";

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let Some(folder) = std::env::var_os("TANDEM_TRACES") else {
        bail!("TANDEM_TRACES names no folder with the traces");
    };
    let release = cargo::build_tandem(true)?;
    let debug = cargo::build_tandem(false)?;
    let mut rows = Vec::new();
    for (file, reads, writes, bad_lines) in TRACES {
        let trace = Path::new(&folder).join(file);
        let mut digests = Vec::new();
        let mut counts = Vec::new();
        for binary in [&release, &release, &release, &debug] {
            let json = replay(binary, &trace)?;
            digests.push(of_runs(&json, |run| run["digest"].as_str().map(str::to_owned)));
            counts.push(
                ["requests", "reads", "writes", "bad_lines"]
                    .map(|name| json["trace"][name].as_u64()),
            );
        }
        let wanted = [reads + writes, *reads, *writes, *bad_lines].map(Some);
        let first = &digests[0];
        let whole = first.len() == 3 && first.iter().all(Option::is_some);
        let same = whole && digests.iter().all(|digest| digest == first);
        let right = counts.iter().all(|found| *found == wanted);
        rows.push(Row::new(
            format!("{file}: {} requests, {reads} R, {writes} W, {bad_lines} bad", reads + writes),
            format!(
                "{}; digests of 3 release runs and 1 debug run {}",
                counts[0].map(|n| n.map_or("none".to_owned(), |n| n.to_string())).join(", "),
                if same { "equal" } else { "differ" }
            ),
            right && same,
        ));
    }
    Ok(rows)
}

fn of_runs<T>(json: &Value, take: impl Fn(&Value) -> T) -> Vec<T> {
    json["runs"].as_array().map(|runs| runs.iter().map(take).collect()).unwrap_or_default()
}

fn replay(binary: &Path, trace: &Path) -> Result<Value> {
    let output = Command::new(binary)
        .arg("replay")
        .arg(trace)
        .args(["--policy", POLICIES, "--skip-bad", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {}", binary.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("replay of {} gave {}: {}", trace.display(), output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).context("the replay's JSON")
}
