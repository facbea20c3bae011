//! How fast does the journal commit, and how much does one commit carry?
//!
//! Source: acceptance of the spine, "Speed and memory". The null front asks a pool in a file for map
//! changes without data (zeroes, durable before they are answered): one at a time each is a commit,
//! which is compared with `dd oflag=direct,dsync` of as many bytes a record on the same file, before
//! and after: drives and other programs change their pace within seconds, so the ratio is that of
//! neighbours, and the median of ratios counts. 64 at a time requests share commits, as do durable
//! 4 KiB writes. The journal goes round several times, so checkpoints are in all of it; a record's
//! bytes are a unit of 4 KiB and its share of them, in whole blocks.

use super::{RUNS, example, median, output, ratio, value};
use crate::row::Row;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The journal of a drive of this size holds 2048 units of 4 KiB.
const FILE_BYTES: u64 = 1 << 30;
const SPAN_BYTES: u64 = 256 << 20;
const PERCENT: u64 = 90;
const UPDATES: u64 = 20;
/// Records that dd writes, before and again after each measurement of ours.
const RECORDS: u64 = 2500;

/// Records per second that dd makes durable one by one.
fn dd(file: &Path, record_bytes: u64) -> Result<u64> {
    let began = Instant::now();
    let output = Command::new("dd")
        .args(["if=/dev/zero", "conv=notrunc", "oflag=direct,dsync"])
        .arg(format!("of={}", file.display()))
        .arg(format!("bs={record_bytes}"))
        .arg(format!("count={RECORDS}"))
        .output()
        .context("starting dd")?;
    if !output.status.success() {
        bail!("dd gave {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(RECORDS * 1_000_000_000 / took_ns.max(1))
}

/// Measures all of it.
///
/// # Errors
/// If the example or dd cannot run.
pub fn rows() -> Result<Vec<Row>> {
    let null_front = example("tandem-fronts", "null_front")?;
    std::fs::create_dir_all(super::folder())?;
    let folder = tempfile::Builder::new().prefix("journal-").tempdir_in(super::folder())?;
    let path = folder.path().join("journal.img");
    std::fs::File::create(&path)?.set_len(FILE_BYTES)?;
    let file = path.to_str().context("a path in UTF-8")?;
    let span = SPAN_BYTES.to_string();
    // the first lap allocates the file's blocks, for us and for dd
    let text = output(&null_front, &["journal", file, &span, "zeroes", "1", "5000"])?;
    let record = value(&text, "commit-bytes")?.next_multiple_of(4096);
    let (mut alone, mut rival, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut batched = [const { [const { Vec::new() }; 4] }; 2];
    for _ in 0..RUNS {
        let before = dd(&path, record)?;
        let text = output(&null_front, &["journal", file, &span, "zeroes", "1", "5000"])?;
        let (ours, theirs) = (value(&text, "commits")?, before.midpoint(dd(&path, record)?));
        ratios.push(ours * 100 / theirs.max(1));
        alone.push(ours);
        rival.push(theirs);
        for (op, found) in ["zeroes", "write"].iter().zip(&mut batched) {
            let text = output(&null_front, &["journal", file, &span, op, "64", "100000"])?;
            let names = ["requests", "commits", "updates-a-hundred-commits", "checkpoints"];
            for (name, found) in names.iter().zip(found.iter_mut()) {
                found.push(value(&text, name)?);
            }
        }
    }
    let (alone, rival, found) = (median(alone), median(rival), median(ratios));
    let mut rows = vec![Row::new(
        format!("journal: commits at least 0.9x dd oflag=direct,dsync, {record} bytes a record"),
        format!("{alone} commits/s; dd {rival}; side by side {}x", ratio(found, 100)),
        found >= PERCENT,
    )];
    for (op, found) in ["map changes", "4 KiB writes"].iter().zip(batched) {
        let [requests, commits, updates, checkpoints] = found.map(median);
        rows.push(Row::new(
            format!("journal: {op}, 64 at a time, at least {UPDATES} durable updates a commit"),
            format!(
                "{} a commit, {commits} commits/s, {requests} requests/s, {checkpoints} checkpoints",
                ratio(updates, 100)
            ),
            updates >= UPDATES * 100 && checkpoints > 0,
        ));
    }
    Ok(rows)
}
