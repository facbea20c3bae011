//! Is a file on a mounted volume nearly as fast as one of a bare file system in memory?
//!
//! Source: acceptance of tiers and caches, "Speed and memory": FUSE over a null device at least 0.8x a bare
//! file system in memory, written with the same library, at 4 KiB, depth 1 and 32. Ours is a file on a
//! volume of files that `tandem serve` mounts, with names, journal and checksums, over a drive in RAM;
//! the bare one is memory and nothing else (the example `fuse_bare`), served by one thread like ours.
//! Loads and rounds are those of the bench `fuse`.

use super::fuse::{LOADS, PERCENT, fill, fio, mount};
use super::{RUNS, example, folder, median, ratio};
use crate::row::Row;
use crate::served::{Pool, Undo};
use crate::{cargo, packages};
use anyhow::{Context as _, Result};

const POOL: &str = r#"
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

/// Measures all loads.
///
/// # Errors
/// If one of the two cannot be mounted or fio cannot run.
pub fn rows() -> Result<Vec<Row>> {
    packages::install();
    let pool = Pool::new(&cargo::build_tandem(true)?, &folder(), POOL)?;
    let point = pool.folder().join("mnt");
    std::fs::create_dir_all(&point)?;
    let _server = pool.serve()?;
    // after the server if that does not end: dropped before it
    let _mount = Undo::new(&["umount", "--lazy", point.to_str().context("a path in UTF-8")?]);
    let bare = mount(
        &example("tandem-fronts", "fuse_bare")?,
        &pool.folder().join("bare"),
        ("bare", &["1"]),
    )?;
    let files = [point.join("load"), bare.file.clone()];
    for file in &files {
        fill(file)?;
    }
    let mut rates = vec![[const { Vec::new() }; 2]; LOADS.len()];
    for _ in 0..RUNS {
        for ((rw, depth), rates) in LOADS.iter().zip(&mut rates) {
            for (file, rates) in files.iter().zip(rates.iter_mut()) {
                rates.push(fio(file, rw, *depth)?);
            }
        }
    }
    let row = |((rw, depth), rates): (&(&str, u32), [Vec<u64>; 2])| {
        let [ours, bare] = rates.map(median);
        Row::new(
            format!("a file on a mount, {rw} 4k depth {depth}: at least 0.8x a bare one in memory"),
            format!("{ours} requests/s; bare {bare}: {}x", ratio(ours, bare)),
            ours * 100 >= bare * PERCENT,
        )
    };
    Ok(LOADS.iter().zip(rates).map(row).collect())
}
