//! Is FLUSH true? Write, flush, SIGKILL, start again, compare.
//!
//! Source: design, "Tests". The drives are emulated and volatile: what was not flushed dies with
//! the process, as in a power cut. Writers number what they write, sector by sector, and know which
//! versions a crash may leave: the last one that was flushed, or any later one. Blocks that were
//! only ever written whole must be whole.

use super::{PoolFixture, Server};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::ReadWriteFlags;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_block::Rng;
use tandem_fronts::nbd::Client;
use tandem_live::listen::Address;

const SECTOR: usize = 512;
const BLOCK: usize = 4096;
/// Blocks that each writer owns; the first half is only ever written whole.
const BLOCKS: u64 = 96;
const WRITERS: u64 = 12;
/// Longest write, in blocks.
const RUN_BLOCKS: u64 = 12;

/// A small pool over emulated drives. Steering with a short queue, so that both drives hold data
/// that only they have.
pub const POOL: &str = r#"[pool]
name = "sigkill"

[[device]]
role = "ssd"
path = "ssd.img"
size = "1GiB"
emulate = "960evo"
profile = "960evo"

[[device]]
role = "hdd"
path = "hdd.img"
size = "2GiB"
emulate = "wd100efax"
profile = "wd100efax"

[[volume]]
name = "vol0"
size = "1GiB"
steer = { policy = "mios-d", queue_length = 1 }

[serve]
nbd = ["unix:tandem.sock"]
"#;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub tandem: PathBuf,
    /// Crashes.
    pub rounds: u64,
    /// Seeds what is written, and when the server is killed.
    pub seed: u64,
    /// The drives acknowledge flushes and do not do them.
    pub ignore_flushes: bool,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Crashes survived.
    pub rounds: u64,
    /// Kills during recovery.
    pub in_recovery: u64,
    /// Writes and flushes that were acknowledged.
    pub writes: u64,
    pub flushes: u64,
    /// Writes that went to the hard drive's log.
    pub redirected: u64,
    /// Sectors that a crash found flushed, unflushed and kept, unflushed and gone.
    pub flushed: u64,
    pub kept: u64,
    pub gone: u64,
    /// What was lost or damaged; empty if the promise holds.
    pub lost: Vec<String>,
}

/// How a writer reaches its volume.
pub trait Target: Send {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, String>;
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), String>;
    fn zeroes(&mut self, offset: u64, length: usize) -> Result<(), String>;
    fn flush(&mut self) -> Result<(), String>;
}

impl Target for Client {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, String> {
        Client::read(self, offset, length as u32).map_err(|error| error.to_string())
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), String> {
        Client::write(self, offset, data, fua).map_err(|error| error.to_string())
    }

    fn zeroes(&mut self, offset: u64, length: usize) -> Result<(), String> {
        Client::zeroes(self, offset, length as u32, false).map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        Client::flush(self).map_err(|error| error.to_string())
    }
}

/// Opens one more way to the volume of the pool in this folder.
pub type Open = fn(&Path) -> Result<Box<dyn Target>, String>;

/// A front end, as the rounds need it.
pub struct Way {
    pub open: Open,
    /// What `[serve]` says of it, beside NBD.
    serve: &'static str,
    /// What makes the SSD a mirrored pair, if it is one.
    pair: Option<&'static str>,
    /// Clears away what a killed server leaves in the pool's folder.
    clear: fn(&Path),
}

/// Over NBD, whose stale socket is taken over.
pub const NBD: Way = Way { open: over_nbd, serve: "", pair: None, clear: |_| {} };

/// Over NBD, the SSD a pair whose legs change places all the time.
pub const PAIR: Way = Way {
    pair: Some("pair = { leg = 'leg.img', period = '150ms', idle = '10ms', cache = '64MiB' }\n"),
    ..NBD
};

/// The same with a journal on a third drive, whose buffer is lost too.
pub const JOURNALED: Way = Way {
    pair: Some(
        "pair = { leg = 'leg.img', period = '300ms', cache = '64MiB', answer = 'journaled', \
         journal = { path = 'journal.img', size = '128MiB', emulate = '960evo' } }\n",
    ),
    ..NBD
};

/// Over the FUSE file, whose dead mount is taken over.
pub const FUSE: Way = Way {
    open: over_fuse,
    serve: "fuse = \"mnt\"\n",
    pair: None,
    clear: |folder| {
        let point = folder.join("mnt");
        // fails where nothing is mounted, as after a server that was killed early
        let _ = Command::new("fusermount3").args(["-u", "-q", "-z"]).arg(&point).status();
        std::fs::create_dir_all(&point).unwrap();
    },
};

/// Over a file of a mounted volume of files, whose writers go side by side.
pub const MOUNT: Way = Way {
    open: over_mount,
    serve: "[[volume]]\nname = \"files\"\nfiles = true\nmount = \"mnt\"\n\
            steer = { policy = \"mios-d\", queue_length = 1 }\n",
    ..FUSE
};

/// The volume as a file, with direct I/O.
struct DirectFile(File);

impl Target for DirectFile {
    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, offset).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), String> {
        let flags = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let pieces = [std::io::IoSlice::new(data)];
        match rustix::io::pwritev2(&self.0, &pieces, offset, flags) {
            Ok(written) if written == data.len() => Ok(()),
            Ok(written) => Err(format!("{written} of {} bytes written", data.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn zeroes(&mut self, offset: u64, length: usize) -> Result<(), String> {
        let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        let done = rustix::fs::fallocate(&self.0, mode, offset, length as u64);
        done.map_err(|error| error.to_string())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.0.sync_data().map_err(|error| error.to_string())
    }
}

/// Over FUSE.
pub fn over_fuse(folder: &Path) -> Result<Box<dyn Target>, String> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let mut options = File::options();
    let opened = options.read(true).write(true).custom_flags(flags).open(folder.join("mnt/vol0"));
    Ok(Box::new(DirectFile(opened.map_err(|error| format!("mnt/vol0: {error}"))?)))
}

/// Over a file in the mounted volume, which is made before anything is promised.
fn over_mount(folder: &Path) -> Result<Box<dyn Target>, String> {
    let path = folder.join("mnt/file");
    let failed = |error: std::io::Error| format!("mnt/file: {error}");
    let flags = OFlags::DIRECT.bits().cast_signed();
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
    let file = options.open(path).map_err(failed)?;
    let size = WRITERS * BLOCKS * BLOCK as u64;
    if file.metadata().map_err(failed)?.len() < size {
        file.set_len(size).and_then(|()| file.sync_all()).map_err(failed)?;
    }
    Ok(Box::new(DirectFile(file)))
}

/// Over NBD.
pub fn over_nbd(folder: &Path) -> Result<Box<dyn Target>, String> {
    let address = Address::Unix(folder.join("tandem.sock"));
    let client = Client::connect(&address, "vol0").map_err(|error| error.to_string())?;
    Ok(Box::new(client))
}

/// One version of a sector: its number; 0 is what was there before anything, zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    number: u64,
    is_zero: bool,
}

const NOTHING: Version = Version { number: 0, is_zero: true };

/// What a writer knows of one sector: versions that a crash may leave, oldest first. The first was
/// flushed; those from `acked` on are not acknowledged.
#[derive(Clone, Debug)]
struct Sector {
    versions: Vec<Version>,
    acked: usize,
}

/// One writer and its memory, which survives the server.
struct Writer {
    id: u64,
    rng: Rng,
    next: u64,
    sectors: Vec<Sector>,
    writes: u64,
    flushes: u64,
}

impl Writer {
    fn new(id: u64, seed: u64) -> Writer {
        let sector = Sector { versions: vec![NOTHING], acked: 1 };
        Writer {
            id,
            rng: Rng::new(seed ^ id << 32),
            next: 1,
            sectors: vec![sector; BLOCKS as usize * BLOCK / SECTOR],
            writes: 0,
            flushes: 0,
        }
    }

    /// Writers' regions alternate, so that neighbours on the volume belong to different writers.
    fn offset(&self, sector: usize) -> u64 {
        let per_block = BLOCK / SECTOR;
        let stripe = RUN_BLOCKS as usize * per_block;
        let (row, column) = (sector / stripe, sector % stripe);
        let stripes = row as u64 * WRITERS + self.id;
        (stripes * stripe as u64 + column as u64) * SECTOR as u64
    }

    fn content(&self, sector: usize, version: Version) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        if !version.is_zero {
            let mut rng = Rng::new(self.id << 48 ^ (sector as u64) << 32 ^ version.number);
            let words = [self.id, sector as u64, version.number];
            for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
                let value = words.get(index).copied().unwrap_or_else(|| rng.bits());
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    /// First sector and count of the next write: whole blocks in the first half, any sectors in
    /// the second; never beyond its stripe.
    fn range(&mut self) -> (usize, usize) {
        let per_block = BLOCK / SECTOR;
        let stripe = RUN_BLOCKS as usize * per_block;
        let half = self.sectors.len() / 2;
        let mut below = |limit: usize| self.rng.below(limit as u64) as usize;
        let whole = below(3) > 0;
        let unit = if whole { per_block } else { 1 };
        let first = below(half / unit) * unit + if whole { 0 } else { half };
        let room = (stripe - first % stripe) / unit;
        let most = if below(4) == 0 { room } else { room.min(4) };
        (first, (1 + below(most)) * unit)
    }

    /// Writes until the server is gone.
    fn work(&mut self, target: &mut dyn Target, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let answer = match self.rng.below(10) {
                0 => self.flush(target),
                _ => self.write(target),
            };
            if answer.is_err() {
                return;
            }
        }
    }

    fn write(&mut self, target: &mut dyn Target) -> Result<(), String> {
        let (first, count) = self.range();
        let (zero, fua) = (self.rng.below(12) == 0, self.rng.below(8) == 0);
        let version = Version { number: self.next, is_zero: zero };
        self.next += 1;
        let mut data = Vec::with_capacity(count * SECTOR);
        for index in first..first + count {
            data.extend_from_slice(&self.content(index, version));
            self.sectors[index].versions.push(version);
        }
        let offset = self.offset(first);
        if zero {
            target.zeroes(offset, data.len())?;
        } else {
            target.write(offset, &data, fua)?;
        }
        self.writes += 1;
        for sector in &mut self.sectors[first..first + count] {
            sector.acked = sector.versions.len();
            if fua && !zero {
                sector.settle();
            }
        }
        Ok(())
    }

    fn flush(&mut self, target: &mut dyn Target) -> Result<(), String> {
        target.flush()?;
        self.flushes += 1;
        // this writer waits for every answer, so whatever it wrote was acknowledged before
        self.sectors.iter_mut().for_each(Sector::settle);
        Ok(())
    }

    /// Compares every sector with what may be there. What is found was flushed by the recovery, so
    /// it is what must be there from now on.
    fn verify(&mut self, target: &mut dyn Target, outcome: &mut Outcome) -> Result<(), String> {
        let stripe = RUN_BLOCKS as usize * BLOCK / SECTOR;
        for first in (0..self.sectors.len()).step_by(stripe) {
            let bytes = match target.read(self.offset(first), stripe * SECTOR) {
                Ok(bytes) => bytes,
                Err(error) => {
                    outcome.lost.push(format!("writer {} sector {first}: {error}", self.id));
                    continue;
                }
            };
            for (index, found) in bytes.chunks_exact(SECTOR).enumerate() {
                self.compare(first + index, found, outcome);
            }
        }
        self.whole_blocks(outcome);
        Ok(())
    }

    fn compare(&mut self, index: usize, found: &[u8], outcome: &mut Outcome) {
        let sector = &self.sectors[index];
        // the newest that fits: zeroes may have been written several times
        let fits = |version: &&Version| self.content(index, **version) == *found;
        let Some(&version) = sector.versions.iter().rev().find(fits) else {
            let word = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
            let mut text = format!("writer {} sector {index}: found ", self.id);
            if found.iter().all(|byte| *byte == 0) {
                text.push_str("zeroes");
            } else {
                let _ = write!(text, "writer {} sector {} version {}", word(0), word(8), word(16));
            }
            let allowed: Vec<u64> = sector.versions.iter().map(|v| v.number).collect();
            let _ = write!(text, ", and may be {allowed:?}");
            outcome.lost.push(text);
            self.sectors[index] = Sector { versions: vec![NOTHING], acked: 1 };
            return;
        };
        if sector.versions.len() == 1 {
            outcome.flushed += 1;
        } else if sector.versions.last() == Some(&version) {
            outcome.kept += 1;
        } else {
            outcome.gone += 1;
        }
        self.sectors[index] = Sector { versions: vec![version], acked: 1 };
    }

    /// A block that is only written whole has one version. Zeroes have no number: they may be
    /// taken for older ones, so only numbered versions are compared.
    fn whole_blocks(&self, outcome: &mut Outcome) {
        let half = self.sectors.len() / 2;
        for (block, sectors) in self.sectors[..half].chunks_exact(BLOCK / SECTOR).enumerate() {
            let of = |sector: &Sector| {
                let version = sector.versions[0];
                if version.is_zero { 0 } else { version.number }
            };
            let first = of(&sectors[0]);
            if sectors.iter().any(|sector| of(sector) != first) {
                let versions: Vec<u64> = sectors.iter().map(of).collect();
                outcome
                    .lost
                    .push(format!("writer {} block {block} is torn: {versions:?}", self.id));
            }
        }
    }
}

impl Sector {
    fn settle(&mut self) {
        self.versions.drain(..self.acked - 1);
        self.acked = 1;
    }
}

/// Calls its function when it is dropped.
struct AtTheEnd<'a>(&'a dyn Fn());

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs the plan. `Err` if something else than data went wrong.
pub fn run(plan: &Plan, way: &Way) -> Result<Outcome, String> {
    let ssd = "profile = \"960evo\"\n";
    let leg = format!("{ssd}{}", way.pair.unwrap_or_default());
    let pool = PoolFixture::new(&format!("{}{}", POOL.replacen(ssd, &leg, 1), way.serve));
    let clear = || (way.clear)(pool.folder.path());
    clear();
    let _at_the_end = AtTheEnd(&clear);
    let formatted = Command::new(&plan.tandem).args(["format", pool.config()]).output();
    let formatted = formatted.map_err(|error| error.to_string())?;
    if !formatted.status.success() {
        return Err(String::from_utf8_lossy(&formatted.stderr).into_owned());
    }
    let mut outcome = Outcome::default();
    let mut rng = Rng::new(plan.seed);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|id| Writer::new(id, plan.seed)).collect();
    for _ in 0..plan.rounds {
        if rng.below(4) == 0 {
            let server = Server::launch(command(plan, &pool));
            std::thread::sleep(Duration::from_micros(rng.below(150_000)));
            server.kill();
            outcome.in_recovery += 1;
        }
        let Some(server) = start(plan, &pool, &mut outcome)? else { return Ok(outcome) };
        verify(&pool, way.open, &mut writers, &mut outcome)?;
        if !outcome.lost.is_empty() {
            return Ok(outcome);
        }
        crash(server, &pool, way.open, &mut writers, &mut rng, &mut outcome)?;
        outcome.rounds += 1;
        outcome.writes = writers.iter().map(|writer| writer.writes).sum();
        outcome.flushes = writers.iter().map(|writer| writer.flushes).sum();
    }
    let Some(server) = start(plan, &pool, &mut outcome)? else { return Ok(outcome) };
    verify(&pool, way.open, &mut writers, &mut outcome)?;
    let (status, said) = server.stop();
    if !status.success() {
        return Err(format!("the server did not stop cleanly: {said}"));
    }
    check(plan, &pool, &mut outcome)?;
    Ok(outcome)
}

fn command(plan: &Plan, pool: &PoolFixture) -> Command {
    let mut command = Command::new(&plan.tandem);
    command.args(["serve", pool.config()]);
    if plan.ignore_flushes {
        command.arg("--ignore-flushes");
    }
    command
}

/// `None` if the pool cannot be recovered, which is a loss.
fn start(plan: &Plan, pool: &PoolFixture, outcome: &mut Outcome) -> Result<Option<Server>, String> {
    match Server::run(command(plan, pool)) {
        Ok(server) => Ok(Some(server)),
        Err(output) if output.status.code() == Some(1) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            outcome.lost.push(format!("the pool was lost: {said}"));
            Ok(None)
        }
        Err(output) => Err(format!("the server ended with {output:?}")),
    }
}

fn verify(
    pool: &PoolFixture,
    open: Open,
    writers: &mut [Writer],
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut target = open(pool.folder.path())?;
    writers.iter_mut().try_for_each(|writer| writer.verify(&mut *target, outcome))
}

/// Lets all writers work, and kills the server in the middle of it.
fn crash(
    server: Server,
    pool: &PoolFixture,
    open: Open,
    writers: &mut [Writer],
    rng: &mut Rng,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let stop = AtomicBool::new(false);
    let folder = pool.folder.path();
    let mut targets = Vec::new();
    for _ in writers.iter() {
        targets.push(open(folder)?);
    }
    std::thread::scope(|scope| {
        let stop = &stop;
        for (writer, mut target) in writers.iter_mut().zip(targets) {
            scope.spawn(move || writer.work(&mut *target, stop));
        }
        std::thread::sleep(Duration::from_micros(20_000 + rng.below(600_000)));
        // asked while it is loaded; a server too busy to answer is killed all the same
        if let Ok(status) = tandem_live::control::ask(&pool.at("pool.control"), "status") {
            outcome.redirected += status["redirected"]["requests"].as_u64().unwrap_or(0);
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// The offline check agrees that all is well.
fn check(plan: &Plan, pool: &PoolFixture, outcome: &mut Outcome) -> Result<(), String> {
    let output = Command::new(&plan.tandem).args(["check", pool.config(), "--json"]).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.code() != Some(0) {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        outcome.lost.push(format!("check: {said}"));
    }
    Ok(())
}

/// In words.
pub fn describe(outcome: &Outcome, took: Duration) -> String {
    let mut text = format!(
        "{} crashes and {} kills during recovery in {:.1} s: {} writes ({} to the log), {} \
         flushes; sectors found flushed {}, unflushed and kept {}, unflushed and gone {}\n",
        outcome.rounds,
        outcome.in_recovery,
        took.as_secs_f64(),
        outcome.writes,
        outcome.redirected,
        outcome.flushes,
        outcome.flushed,
        outcome.kept,
        outcome.gone
    );
    for line in outcome.lost.iter().take(20) {
        let _ = writeln!(text, "LOST: {line}");
    }
    if outcome.lost.len() > 20 {
        let _ = writeln!(text, "LOST: and {} more", outcome.lost.len() - 20);
    }
    text
}

/// Runs the plan and measures.
pub fn timed(plan: &Plan, way: &Way) -> Result<(Outcome, Duration), String> {
    let began = Instant::now();
    Ok((run(plan, way)?, began.elapsed()))
}

/// The fronts there are, by name.
pub fn fronts() -> BTreeMap<&'static str, Way> {
    BTreeMap::from([("nbd", NBD), ("fuse", FUSE), ("mount", MOUNT)])
}
