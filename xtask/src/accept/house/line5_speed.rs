//! Is it as fast as before, and are replays of hot spots much faster?
//!
//! Source: acceptance of the house, speed. Both versions side by side in one run.

use super::Options;
use crate::accept::paired::{self, Before, both, row};
use crate::bench::fuse::{LOADS, fill, fio};
use crate::packages;
use crate::row::Row;
use crate::served::{Pool, Undo};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const WANTED_PERCENT: u32 = 100;
const HOT_WANTED_PERCENT: u32 = 170;
const HOT: &str = "synth:zipf:requests=3000000";
const HOT_POLICIES: [&str; 2] = ["ssd-first", "mios-d"];
const ROUNDS: usize = 5;

const FILES: &str = r#"
[pool]
name = "files"
[[device]]
role = "ssd"
path = "ram:3GiB"
[[volume]]
name = "files"
files = true
mount = "mnt"
"#;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let mut rows = hot()?;
    rows.extend(paired::replays(Before::House, WANTED_PERCENT)?);
    rows.extend(paired::nbd(Before::House, WANTED_PERCENT)?);
    rows.extend(files()?);
    Ok(rows)
}

/// Replays of hot spots that keep the SSD's garbage collection busy, in time of the clock.
fn hot() -> Result<Vec<Row>> {
    let tandems = paired::tandems(Before::House)?;
    let mut rows = Vec::new();
    for policy in HOT_POLICIES {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let [before, now] = both(round, |it| replay(&tandems[it], policy))?;
            ratios.push(before / now);
        }
        rows.push(row(
            &format!("replay {HOT}, {policy}"),
            ratios,
            (Before::House, HOT_WANTED_PERCENT),
        ));
    }
    Ok(rows)
}

/// Seconds of one replay.
fn replay(tandem: &Path, policy: &str) -> Result<f64> {
    let began = Instant::now();
    let status = Command::new(tandem)
        .args(["replay", HOT, "--policy", policy])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", tandem.display()))?;
    if !status.success() {
        bail!("{} replay {HOT} --policy {policy} ended with {status}", tandem.display());
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Requests a second of a file on a mounted volume in memory.
fn files() -> Result<Vec<Row>> {
    let mut mounted = Vec::new();
    for tandem in paired::tandems(Before::House)? {
        let pool = Pool::new(&tandem, &std::env::temp_dir(), FILES)?;
        let point = pool.folder().join("mnt");
        std::fs::create_dir_all(&point)?;
        let server = pool.serve()?;
        let undo = Undo::new(&["umount", "--lazy", point.to_str().context("a path in UTF-8")?]);
        let file: PathBuf = point.join("load");
        fill(&file)?;
        // in the order in which they are dropped: the server ends before the mount is forced away
        mounted.push((file, server, undo, pool));
    }
    let mut rows = Vec::new();
    for (rw, depth) in LOADS {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let rate = |it: usize| Ok(fio(&mounted[it].0, rw, depth)? as f64);
            let [before, now] = both(round, rate)?;
            ratios.push(now / before);
        }
        rows.push(row(
            &format!("a file on a mount, {rw} 4k depth {depth}"),
            ratios,
            (Before::House, WANTED_PERCENT),
        ));
    }
    Ok(rows)
}
