//! What do ring and engine cost over a real drive, with no front end?
//!
//! Source: acceptance of the spine, "Speed and memory": the null front over a pool in a file on the disk
//! under the repository, beside fio's io_uring on the same file, rounds in turn.

use super::{RUNS, example, median, ratio, value};
use crate::fio::Fio;
use crate::packages;
use crate::row::Row;
use anyhow::{Context as _, Result};
use std::path::Path;

const FILE_BYTES: u64 = 4 << 30;
/// What is read and written; less than the file, as the pool keeps a tenth and its own structures.
const SPAN_BYTES: u64 = 2 << 30;
const PERCENT: u64 = 90;

/// Operation, depth, requests: enough for about two seconds.
const LOADS: [(&str, u32, u32); 4] =
    [("write", 32, 150_000), ("read", 32, 150_000), ("write", 1, 25_000), ("read", 1, 25_000)];

/// A file whose every block was written once, so that the file system has nothing left to allocate.
fn whole_file(path: &Path) -> Result<()> {
    let fill = Fio::default().job("fill").set("filename", path.display()).set("rw", "write");
    let fill = fill.set("bs", "1m").set("iodepth", 8).set("ioengine", "io_uring");
    fill.set("direct", 1).set("size", FILE_BYTES).set("end_fsync", 1).run().map(drop)
}

/// Measures all loads.
///
/// # Errors
/// If the example or fio cannot run.
pub fn rows() -> Result<Vec<Row>> {
    packages::install();
    let null_front = example("tandem-fronts", "null_front")?;
    std::fs::create_dir_all(super::folder())?;
    let folder = tempfile::Builder::new().prefix("device-").tempdir_in(super::folder())?;
    let path = folder.path().join("device.img");
    whole_file(&path)?;
    let file = path.to_str().context("a path in UTF-8")?;
    let mut rates = vec![[const { Vec::new() }; 2]; LOADS.len()];
    for _ in 0..RUNS {
        for ((op, depth, count), rates) in LOADS.iter().zip(&mut rates) {
            let words = [
                "device",
                file,
                &SPAN_BYTES.to_string(),
                op,
                &depth.to_string(),
                &count.to_string(),
            ];
            rates[0].push(value(&super::output(&null_front, &words)?, "rate")?);
            let job = Fio::default()
                .job("load")
                .set("ioengine", "io_uring")
                .set("filename", file)
                .set("direct", 1)
                .set("rw", format!("rand{op}"))
                .set("bs", "4k")
                .set("iodepth", depth)
                .set("size", SPAN_BYTES)
                .set("norandommap", 1)
                .set("time_based", 1)
                .set("runtime", "2s");
            rates[1].push(job.run()?.iops);
        }
    }
    let row = |((op, depth, _), rates): (&(&str, u32, u32), [Vec<u64>; 2])| {
        let [ours, fio] = rates.map(median);
        Row::new(
            format!("ring and engine over a file, 4 KiB {op} depth {depth}: at least 0.9x fio"),
            format!("{ours} requests/s; fio io_uring {fio}: {}x", ratio(ours, fio)),
            ours * 100 >= fio * PERCENT,
        )
    };
    Ok(LOADS.iter().zip(rates).map(row).collect())
}
