//! Is a pool ever slower than its hard drive alone?
//!
//! Source: acceptance of destaging, line 2.

use super::Options;
use super::measured::{Job, program, replay, seconds};
use crate::cargo;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// More than the SSD holds of each.
const WORKLOADS: [(&str, &str); 4] = [
    ("4 KiB random", "synth:uniform:size=4KiB,read_share=0%,footprint=6GiB,requests=500000"),
    ("64 KiB random", "synth:uniform:size=64KiB,read_share=0%,footprint=6GiB,requests=40000"),
    ("1 MiB in sequence", "synth:interval:size=1MiB,total=6GiB,footprint=6GiB"),
    ("Zipf, 64 KiB", "synth:zipf:size=64KiB,read_share=0%,footprint=6GiB,requests=40000"),
];
/// Costs of a flush, as they stand in the file of a drive.
const FLUSHES: [&str; 4] = ["20ms", "50ms", "200ms", "400ms"];
const SPEC: &str = "crates/drives/specs/wd100efax.toml";
const SHIPPED: &str = "200ms";

/// Writes of 64 KiB all over 6 GiB, a FLUSH after each hundred.
const FLUSHED_WRITES: u64 = 20_000;
const WRITES_A_FLUSH: u64 = 100;
const WRITE_BYTES: u64 = 64 << 10;
const FOOTPRINT_BYTES: u64 = 6 << 30;

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    let program = program()?;
    let folder = tempfile::tempdir()?;
    let flushed = flushed(folder.path())?;
    let flushed = flushed.to_str().context("a path in UTF-8")?;
    let workloads = WORKLOADS.iter().copied().chain([("64 KiB random, a FLUSH each 100", flushed)]);
    let mut rows = Vec::new();
    for flush in FLUSHES {
        let hdd = drive(folder.path(), flush)?;
        for (name, workload) in workloads.clone() {
            let result = beside_bare(&program, workload, &hdd);
            let wanted = format!("{name}, a flush of {flush}: never slower than the drive alone");
            let row = match result {
                Ok((measured, holds)) => Row::new(wanted, measured, holds),
                Err(error) => Row::broken(wanted, &error),
            };
            rows.push(row.shown());
        }
    }
    Ok(rows)
}

/// Random writes with a FLUSH after each hundred, as fio would note them.
fn flushed(folder: &Path) -> Result<PathBuf> {
    let mut text = String::from("fio version 2 iolog\nvol add\nvol open\n");
    let mut random = 1u64;
    for write in 1..=FLUSHED_WRITES {
        // Knuth's multiplier: the upper bits are random enough for places
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (random >> 33) % (FOOTPRINT_BYTES / WRITE_BYTES) * WRITE_BYTES;
        writeln!(text, "vol write {offset} {WRITE_BYTES}")?;
        if write.is_multiple_of(WRITES_A_FLUSH) {
            writeln!(text, "vol sync 0 0")?;
        }
    }
    text.push_str("vol close\n");
    let path = folder.join("flushed.iolog");
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The shipped drive with another cost of a flush.
fn drive(folder: &Path, flush: &str) -> Result<PathBuf> {
    let spec = std::fs::read_to_string(cargo::root().join(SPEC)).context(SPEC)?;
    let shipped = format!("flush_base     = {{ value = \"{SHIPPED}\"");
    anyhow::ensure!(spec.contains(&shipped), "{SPEC} says what a flush costs in another way");
    let path = folder.join(format!("flush-{flush}.toml"));
    let changed = spec.replace(&shipped, &shipped.replace(SHIPPED, flush));
    std::fs::write(&path, changed).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn beside_bare(program: &Path, workload: &str, hdd: &Path) -> Result<(String, bool)> {
    let hdd = hdd.to_str().context("a path in UTF-8")?;
    let runs = replay(program, Job { workload, hdd, ..Job::default() })?;
    let [bare, ours] = runs.as_slice() else { anyhow::bail!("two runs are wanted") };
    let percent = ours.percent_of(bare);
    let figures = format!(
        "{} of {}: {percent} %, {} flushes",
        seconds(ours.took_ms),
        seconds(bare.took_ms),
        ours.flushes
    );
    Ok((figures, percent <= 100))
}
