//! Is a volume as a file nearly as fast as a bare file of the FUSE library?
//!
//! Source: acceptance of the spine, "Speed and memory". fio's io_uring with direct I/O on the file, two
//! jobs; ours is a volume of a pool of one RAM drive with journal and checksums, the bare one is memory
//! and nothing else (the examples `fuse_ram` and `fuse_bare`), served like ours by one thread, which is
//! that library's default; a bare one with two threads is printed beside it. All stay mounted; rounds in
//! turn.

use super::{RUNS, example, median, ratio};
use crate::fio::Fio;
use crate::packages;
use crate::row::Row;
use crate::served::{Server, Undo};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: &str = "1024";
pub(super) const PERCENT: u64 = 80;
const JOBS: u64 = 2;
const START_MAX: Duration = Duration::from_secs(20);
/// Pattern and depth of what fio does.
pub const LOADS: [(&str, u32); 4] =
    [("randwrite", 32), ("randread", 32), ("randwrite", 1), ("randread", 1)];

/// A mounted file. The process ends before the mount is forced away.
pub(super) struct Mounted {
    pub(super) file: PathBuf,
    _server: Server,
    _mount: Undo,
}

/// Starts one of the examples; waits until its file is there.
pub(super) fn mount(
    program: &Path,
    folder: &Path,
    (name, threads): (&str, &[&str]),
) -> Result<Mounted> {
    std::fs::create_dir_all(folder)?;
    let point = folder.to_str().context("a path in UTF-8")?;
    let child = Command::new(program)
        .args([point, MIB])
        .args(threads)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let server = Server::new(child);
    let mount = Undo::new(&["umount", "--lazy", point]);
    let file = folder.join(name);
    let began = Instant::now();
    while !file.exists() {
        if began.elapsed() > START_MAX {
            bail!("{} did not appear (FUSE needs /dev/fuse and fuse3)", file.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Mounted { file, _server: server, _mount: mount })
}

/// Writes all of a file: what was never written is answered without reading anything.
pub fn fill(file: &Path) -> Result<()> {
    let fill = Fio::default().job("fill").set("ioengine", "io_uring").set("direct", 1);
    fill.set("filename", file.display())
        .set("rw", "write")
        .set("bs", "1m")
        .set("iodepth", 4)
        .set("size", "1g")
        .run()?;
    Ok(())
}

/// Requests a second.
pub fn fio(file: &Path, rw: &str, depth: u32) -> Result<u64> {
    let job = Fio::default()
        .job("load")
        .set("ioengine", "io_uring")
        .set("filename", file.display())
        .set("direct", 1)
        .set("rw", rw)
        .set("bs", "4k")
        .set("iodepth", depth)
        .set("numjobs", JOBS)
        .set("size", "1g")
        .set("norandommap", 1)
        .set("time_based", 1)
        .set("ramp_time", "500ms")
        .set("runtime", "2s");
    Ok(job.run()?.iops)
}

/// Measures all loads.
///
/// # Errors
/// If one of the two cannot be mounted or fio cannot run.
pub fn rows() -> Result<Vec<Row>> {
    packages::install();
    let bare = example("tandem-fronts", "fuse_bare")?;
    let programs: [(PathBuf, &str, &[&str]); 3] = [
        (example("tandem-fronts", "fuse_ram")?, "vol0", &[]),
        (bare.clone(), "bare", &["1"]),
        (bare, "bare", &["2"]),
    ];
    std::fs::create_dir_all(super::folder())?;
    let folder = tempfile::Builder::new().prefix("fuse-").tempdir_in(super::folder())?;
    let mut mounted = Vec::new();
    for (index, (program, name, threads)) in programs.iter().enumerate() {
        let point = folder.path().join(format!("mnt-{index}"));
        mounted.push(mount(program, &point, (name, threads))?);
    }
    for one in &mounted {
        fill(&one.file)?;
    }
    let mut rates = vec![[const { Vec::new() }; 3]; LOADS.len()];
    for _ in 0..RUNS {
        for ((rw, depth), rates) in LOADS.iter().zip(&mut rates) {
            for (one, rates) in mounted.iter().zip(rates.iter_mut()) {
                rates.push(fio(&one.file, rw, *depth)?);
            }
        }
    }
    let row = |((rw, depth), rates): (&(&str, u32), [Vec<u64>; 3])| {
        let [ours, bare, two] = rates.map(median);
        Row::new(
            format!("FUSE file {rw} 4k depth {depth}, {JOBS} jobs: at least 0.8x a bare file"),
            format!(
                "{ours} requests/s; bare fuser file {bare}: {}x (with two threads {two}: {}x)",
                ratio(ours, bare),
                ratio(ours, two)
            ),
            ours * 100 >= bare * PERCENT,
        )
    };
    Ok(LOADS.iter().zip(rates).map(row).collect())
}
