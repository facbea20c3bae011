//! Does a pool as large as a server's work, in how much memory, and how soon is it back?
//!
//! Source: acceptance of capacity, line 1. Sparse files stand for the drives. They lie in a file system in
//! memory, since those on disks have no files of 20 TiB. Each pool is formatted and served. 10,000 random blocks
//! and both ends of the volume are written and flushed, and the server is killed. What was written is read back
//! from the next one. To the largest one a drive comes then, and one leaves.

use super::Options;
use crate::accept::paired::{self, Before};
use crate::fio::Fio;
use crate::packages;
use crate::row::Row;
use crate::served::{Pool, Server};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

const TIB: u64 = 1 << 40;
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Random blocks that are written.
const WRITES: u64 = 10_000;
/// Of the hard drives, in percent: logs take a tenth, and metadata some more.
const VOLUME_PERCENT: u64 = 80;
/// Resident memory at most, for each TiB.
const SSD_MIB_MAX: u64 = 2048;
const HDD_MIB_MAX: u64 = 32;
/// A start after a crash at most: wanted of 1 TiB of SSD and 8 TiB of hard drive.
const START_S_MAX: f64 = 10.0;

/// Drives of a pool: how many, and TiB of each.
#[derive(Clone, Copy)]
struct Size {
    ssds: (u64, u64),
    hdds: (u64, u64),
    /// One more hard drive comes, and one leaves.
    changes: bool,
}

const SIZES: [Size; 3] = [
    Size { ssds: (1, 1), hdds: (1, 8), changes: false },
    Size { ssds: (4, 1), hdds: (4, 16), changes: false },
    Size { ssds: (4, 4), hdds: (36, 20), changes: true },
];

impl Size {
    fn name(&self) -> String {
        let of = |(count, tib): (u64, u64)| format!("{count} x {tib} TiB");
        format!("{} of SSD, {} of hard drive", of(self.ssds), of(self.hdds))
    }

    fn volume_bytes(&self) -> u64 {
        let (count, tib) = self.hdds;
        count * tib * TIB / 100 * VOLUME_PERCENT / BLOCK * BLOCK
    }

    /// Resident memory at most.
    fn mib_max(&self) -> u64 {
        self.ssds.0 * self.ssds.1 * SSD_MIB_MAX + self.hdds.0 * self.hdds.1 * HDD_MIB_MAX
    }

    fn config(&self) -> String {
        let mut text = String::from("[pool]\nname = \"large\"\n");
        for (role, (count, tib)) in [("ssd", self.ssds), ("hdd", self.hdds)] {
            for index in 0..count {
                text += &format!(
                    "[[device]]\nrole = \"{role}\"\npath = \"{role}{index}.img\"\nsize = \"{tib}TiB\"\n"
                );
            }
        }
        let bytes = self.volume_bytes();
        text += &format!("[[volume]]\nname = \"vol0\"\nsize = \"{bytes}B\"\n");
        text + "[serve]\nnbd = [\"unix:tandem.sock\"]\n"
    }
}

pub(super) fn measure(_: &Options) -> Result<Vec<Row>> {
    packages::install();
    let [before, now] = paired::tandems(Before::House)?;
    let mut rows = Vec::new();
    for size in SIZES {
        rows.extend(all_of(size, &now));
        if !size.changes {
            let measured = measure_one(size, &before).map_or_else(
                |error| brief(&error),
                |told| format!("{}; check {:.1} s", told.starts(), told.check_s),
            );
            rows.push(Row::info(format!("{}, before", size.name()), measured));
        }
    }
    Ok(rows)
}

/// What one pool took.
struct Told {
    format_s: f64,
    empty_s: f64,
    crash_s: f64,
    check_s: f64,
    /// Resident, in MiB: empty, with what was written, after the crash.
    resident_mib: [u64; 3],
    /// Of a pool of which that was wanted.
    changes: Option<Changes>,
}

/// What it took to change the drives of a pool.
#[derive(Clone, Copy)]
struct Changes {
    add_s: f64,
    drain_s: f64,
    start_s: f64,
    resident_mib: u64,
}

impl Changes {
    fn describe(&self) -> String {
        format!(
            "added in {:.1} s, drained in {:.1} s, start {:.1} s after a crash, all read back; {} MiB",
            self.add_s, self.drain_s, self.start_s, self.resident_mib
        )
    }
}

impl Told {
    fn starts(&self) -> String {
        let [empty, written, crashed] = self.resident_mib;
        format!(
            "format {:.1} s, start {:.1} s empty and {:.1} s after the crash; {empty}, {written} and {crashed} MiB",
            self.format_s, self.empty_s, self.crash_s
        )
    }
}

fn all_of(size: Size, tandem: &Path) -> Vec<Row> {
    let name = size.name();
    eprintln!("   {name}");
    let wanted = format!("{name}: all that was flushed is read back after a crash");
    let told = match measure_one(size, tandem) {
        Ok(told) => told,
        Err(error) => return vec![Row::new(wanted, brief(&error), false)],
    };
    let most = told.resident_mib.into_iter().max().unwrap_or(0);
    let mut rows = vec![
        Row::new(wanted, told.starts(), true),
        Row::new(
            format!("{name}: at most {} MiB resident", size.mib_max()),
            format!("{most} MiB"),
            most <= size.mib_max(),
        ),
        Row::new(
            format!("{name}: a start after a crash in at most {START_S_MAX} s"),
            format!("{:.1} s", told.crash_s),
            told.crash_s <= START_S_MAX,
        ),
        Row::info(format!("{name}: check"), format!("{:.1} s", told.check_s)),
    ];
    if size.changes {
        let wanted = format!("{name}: a drive comes in a bay that no format knew, one is drained");
        let measured = told.changes.map_or("not tried".to_owned(), |changes| changes.describe());
        rows.push(Row::new(wanted, measured, told.changes.is_some()));
    }
    rows
}

/// The first lines of an error, as a cell of the table.
fn brief(error: &anyhow::Error) -> String {
    format!("{error:#}").chars().take(240).collect()
}

fn measure_one(size: Size, tandem: &Path) -> Result<Told> {
    let pool = Pool::new(tandem, &place(), &size.config())?;
    // below /dev no files are made by `format`: what is missing there is a drive
    for (role, (count, tib)) in [("ssd", size.ssds), ("hdd", size.hdds)] {
        for index in 0..count {
            let path = pool.folder().join(format!("{role}{index}.img"));
            File::create(path)?.set_len(tib * TIB).context("making a sparse file")?;
        }
    }
    let (format_s, _) = timed(|| pool.call(&["format", "--yes"]))?;
    let (empty_s, server) = timed(|| pool.serve())?;
    let empty_mib = resident_mib(&server)?;
    for job in jobs(size, &pool.uri("vol0")) {
        job.set("do_verify", 0).set("end_fsync", 1).run()?;
    }
    let written_mib = resident_mib(&server)?;
    server.kill()?;
    let (crash_s, server) = timed(|| pool.serve())?;
    for job in jobs(size, &pool.uri("vol0")) {
        job.set("verify_only", 1).run()?;
    }
    let resident_mib = [empty_mib, written_mib, resident_mib(&server)?];
    server.stop()?;
    let (check_s, _) = timed(|| pool.call(&["check"]))?;
    let changes = size.changes.then(|| change_drives(size, &pool)).transpose()?;
    Ok(Told { format_s, empty_s, crash_s, check_s, resident_mib, changes })
}

/// One hard drive more comes, in a bay that the pool was not formatted for, and another one leaves.
fn change_drives(size: Size, pool: &Pool) -> Result<Changes> {
    let tib = size.hdds.1;
    let bay = format!("[[device]]\nrole = \"hdd\"\npath = \"bay:{tib}TiB\"\n");
    pool.configure(&(size.config() + &bay))?;
    let server = pool.serve()?;
    File::create(pool.folder().join("more.img"))?.set_len(tib * TIB)?;
    let (add_s, _) = timed(|| pool.run(&["add", "pool.toml", "more.img"]))?;
    let (drain_s, _) = timed(|| {
        pool.run(&["drain", "pool.toml", "hdd1.img"])?;
        pool.run(&["remove", "pool.toml", "hdd1.img"])
    })?;
    server.kill()?;
    let (start_s, server) = timed(|| pool.serve())?;
    for job in jobs(size, &pool.uri("vol0")) {
        job.set("verify_only", 1).run()?;
    }
    let resident_mib = resident_mib(&server)?;
    server.stop()?;
    pool.call(&["check"])?;
    Ok(Changes { add_s, drain_s, start_s, resident_mib })
}

/// Both ends, and random blocks: the same at each call.
fn jobs(size: Size, uri: &str) -> [Fio; 3] {
    let bytes = size.volume_bytes();
    let job = |name: &str| {
        let job = Fio::default().job(name).set("ioengine", "nbd").set("uri", uri);
        job.set("bs", BLOCK).set("verify", "crc32c")
    };
    let end =
        |name: &str, at: u64| job(name).set("rw", "write").set("offset", at).set("size", BLOCK);
    let random = job("random").set("rw", "randwrite").set("size", bytes).set("iodepth", 32);
    [
        end("begin", 0),
        end("end", bytes - BLOCK),
        random
            .set("io_size", WRITES * BLOCK)
            .set("norandommap", 1)
            .set("random_generator", "tausworthe64"),
    ]
}

/// Where sparse files of any size can lie.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let began = Instant::now();
    let done = act()?;
    Ok((began.elapsed().as_secs_f64(), done))
}

fn resident_mib(server: &Server) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.id()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("the system does not say what is resident")? * 1024 / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_go_with_the_drives() {
        let [small, _, large] = SIZES;
        assert_eq!(small.mib_max(), 2048 + 8 * 32);
        assert_eq!(large.mib_max(), 16 * 2048 + 720 * 32);
        assert!(small.volume_bytes().is_multiple_of(BLOCK) && small.volume_bytes() < 8 * TIB);
        let config = large.config();
        assert_eq!(config.matches("[[device]]").count(), 40);
        assert!(config.contains("path = \"hdd35.img\"\nsize = \"20TiB\""), "{config}");
    }
}
