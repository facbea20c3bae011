//! Is `fsync` of a file true? Write files, fsync, SIGKILL, mount again, compare.
//!
//! Source: acceptance of tiers and caches, line 3. The drives are emulated and volatile, so that a kill is
//! a power cut. Each writer has a directory of its own and does what programs do that mean to lose
//! nothing: it replaces a file through a new one and a rename, appends to a log, makes a new file, and
//! writes blocks of a file in place, past the kernel's memory, as databases do.
//! What it was told is durable must be there, whole; what it was not told may be there or not.

use super::{PATIENCE, PoolFixture, Server};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tandem_block::Rng;

/// Drives whose buffers die with the process.
pub const EMULATED: &str = r#"[pool]
name = "synced"

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
name = "files"
files = true
mount = "mnt"
steer = { policy = "mios-d", queue_length = 1 }
"#;

/// Writers beside each other.
const WRITERS: u64 = 6;
/// Files that each replaces in turn.
const REPLACED: u64 = 4;
/// Blocks that each writes in place.
const BLOCKS: u64 = 12;
/// Bytes of one.
const BLOCK: usize = 4096;
/// New files that each keeps.
const MADE: u64 = 20;
/// Longest a mount is used before its server is killed: nothing here may wait for ever.
const USED_MAX: Duration = Duration::from_secs(120);

/// A mounted volume, whose server is killed, and which is taken out of the tree, whatever happens; also
/// if nobody says so for too long, so that a call that hangs ends with an error.
pub struct Mounted {
    server: Option<Server>,
    point: PathBuf,
    /// Dropped when it is over.
    watch: Option<mpsc::Sender<()>>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl Mounted {
    /// Runs `tandem WORDS`, which mounts something on `point`, and waits until it is served.
    ///
    /// # Errors
    /// What it said, if it ended instead.
    pub fn start(
        tandem: &Path,
        words: &[&str],
        point: &Path,
    ) -> Result<Mounted, std::process::Output> {
        let mut command = Command::new(tandem);
        command.args(words);
        let server = Server::run(command)?;
        let id = rustix::process::Pid::from_raw(server.id().cast_signed()).unwrap();
        let (watch, over) = mpsc::channel::<()>();
        let watcher = std::thread::spawn(move || {
            if over.recv_timeout(USED_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a mount was used for too long: its server is killed");
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        });
        let (watch, watcher) = (Some(watch), Some(watcher));
        Ok(Mounted { server: Some(server), point: point.to_owned(), watch, watcher })
    }

    /// Nobody watches any more.
    fn rest(&mut self) {
        self.watch = None;
        if let Some(watcher) = self.watcher.take() {
            watcher.join().unwrap();
        }
    }

    pub fn id(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> (std::process::ExitStatus, String) {
        self.rest();
        self.server.take().unwrap().stop()
    }

    /// Waits for its end.
    pub fn end(mut self) -> (std::process::ExitStatus, String) {
        self.rest();
        self.server.take().unwrap().end()
    }

    /// SIGKILL; the dead mount stays for the next server.
    pub fn kill(mut self) {
        self.rest();
        self.server.take().unwrap().kill();
    }

    /// Takes what is dead out of the tree.
    pub fn clear(point: &Path) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let is_there = mounts.lines().any(|line| line.split(' ').nth(4) == point.to_str());
        if is_there && rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH).is_err() {
            let _ = Command::new("fusermount3").args(["-u", "-q", "-z"]).arg(point).status();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.rest();
            drop(server);
            Mounted::clear(&self.point);
        }
    }
}

/// Clears a mount point at the end, after the last server of several.
pub struct Cleared(pub PathBuf);

impl Drop for Cleared {
    fn drop(&mut self) {
        Mounted::clear(&self.0);
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub tandem: PathBuf,
    /// Kills.
    pub rounds: u64,
    /// Seeds what is written, and when the server is killed.
    pub seed: u64,
    /// The drives acknowledge flushes and do not do them.
    pub ignore_flushes: bool,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Kills survived.
    pub rounds: u64,
    /// Calls of fsync that returned.
    pub synced: u64,
    /// Files that were looked at after a kill, and of those the newer ones than were promised.
    pub looked_at: u64,
    pub newer: u64,
    /// What was lost or damaged; empty if the promise holds.
    pub lost: Vec<String>,
}

/// What one writer knows to be durable, and what it was doing.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Version of each replaced file: durable, and handed in.
    replaced: BTreeMap<u64, (u64, u64)>,
    /// Records in the log: durable, and written.
    log: (u64, u64),
    /// Newest of the files made: durable, and handed in.
    made: (u64, u64),
    /// Newest of those that were to be removed: a crash may have kept it or not, and the next life begins
    /// with that.
    removed: u64,
    /// Version of each block that is written in place: durable, and handed in.
    blocks: BTreeMap<u64, (u64, u64)>,
    synced: u64,
    next: u64,
}

const RECORD: usize = 24;

fn record(writer: u64, number: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (word, chunk) in [writer + 1, number, !number].iter().zip(bytes.chunks_exact_mut(8)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The contents of a version: of any length, and every byte tells the version.
fn contents(writer: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(writer << 32 | number);
    let length = [700, 4096, 5000, 40_000][rng.below(4) as usize] + rng.below(3);
    let mut bytes = record(writer, number).to_vec();
    bytes.resize_with(length as usize, || rng.bits() as u8);
    bytes
}

/// A block of a version, which is one as a whole or not.
fn block(writer: u64, number: u64) -> Vec<u8> {
    let mut bytes = contents(writer, number);
    bytes.resize(BLOCK, number as u8);
    bytes
}

/// The version of some contents, if they are one.
fn version(writer: u64, bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    (contents(writer, number) == bytes).then_some(number)
}

impl Known {
    fn write(&mut self, writer: u64, folder: &Path, rng: &mut Rng) -> io::Result<()> {
        let directory = File::open(folder)?;
        self.next += 1;
        let number = self.next;
        match rng.below(4) {
            3 => self.write_block(writer, folder, rng)?,
            0 => {
                let which = rng.below(REPLACED);
                let (temporary, name) =
                    (folder.join(format!("new-{which}")), folder.join(format!("file-{which}")));
                let mut file = File::create(&temporary)?;
                file.write_all(&contents(writer, number))?;
                file.sync_all()?;
                self.replaced.entry(which).or_default().1 = number;
                fs::rename(&temporary, &name)?;
                directory.sync_all()?;
                self.replaced.entry(which).or_default().0 = number;
            }
            1 => {
                let mut log = File::options().append(true).create(true).open(folder.join("log"))?;
                for _ in 0..rng.between(1, 30) {
                    self.log.1 += 1;
                    log.write_all(&record(writer, self.log.1))?;
                }
                log.sync_data()?;
                self.log.0 = self.log.1;
            }
            _ => {
                let number = self.made.1 + 1;
                self.made.1 = number;
                fs::write(folder.join(format!("made-{number}")), contents(writer, number))?;
                if number > MADE {
                    let old = number - MADE;
                    match fs::remove_file(folder.join(format!("made-{old}"))) {
                        Err(error)
                            if error.kind() == io::ErrorKind::NotFound && old <= self.removed => {}
                        result => {
                            self.removed = self.removed.max(old);
                            result?;
                        }
                    }
                }
                File::open(folder.join(format!("made-{number}")))?.sync_all()?;
                self.made.0 = number;
            }
        }
        self.synced += 1;
        Ok(())
    }

    /// A block in place, which is durable by its flag or by a call.
    fn write_block(&mut self, writer: u64, folder: &Path, rng: &mut Rng) -> io::Result<()> {
        let (which, number) = (rng.below(BLOCKS), self.next);
        let by_flag = rng.below(2) == 0;
        let flags = OFlags::DIRECT | if by_flag { OFlags::DSYNC } else { OFlags::empty() };
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        options.custom_flags(flags.bits().cast_signed());
        let file = options.open(folder.join("blocks"))?;
        self.blocks.entry(which).or_default().1 = number;
        file.write_all_at(&block(writer, number), which * BLOCK as u64)?;
        if !by_flag {
            file.sync_data()?;
        }
        self.blocks.entry(which).or_default().0 = number;
        Ok(())
    }

    /// Writes until the mount is gone.
    fn write_on(&mut self, writer: u64, folder: &Path, rng: &mut Rng, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            if self.write(writer, folder, rng).is_err() {
                return;
            }
        }
    }

    /// Compares what is there; what is there now is what is known.
    fn compare(&mut self, writer: u64, folder: &Path, outcome: &mut Outcome) {
        let mut lost = |what: String| outcome.lost.push(format!("writer {writer}: {what}"));
        for (which, known) in &mut self.replaced {
            let path = folder.join(format!("file-{which}"));
            let found = match fs::read(&path) {
                Ok(bytes) => version(writer, &bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound && known.0 == 0 => Some(0),
                Err(error) => {
                    lost(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            outcome.looked_at += 1;
            match found {
                Some(number) if (known.0..=known.1).contains(&number) => {
                    outcome.newer += u64::from(number > known.0);
                    *known = (number, number);
                }
                found => lost(format!("file {which} is {found:?} in place of {known:?}")),
            }
        }
        let blocks = fs::read(folder.join("blocks")).unwrap_or_default();
        for (&which, known) in &mut self.blocks {
            let found = blocks.get(which as usize * BLOCK..).and_then(|rest| rest.get(..BLOCK));
            let number =
                found.map_or(0, |found| u64::from_le_bytes(found[8..16].try_into().unwrap()));
            let is_whole = number == 0 || found == Some(&block(writer, number)[..]);
            outcome.looked_at += 1;
            if is_whole && (number == known.0 || number == known.1) {
                outcome.newer += u64::from(number > known.0);
                *known = (number, number);
            } else {
                lost(format!("block {which} is {number} ({is_whole}) in place of {known:?}"));
            }
        }
        let log = fs::read(folder.join("log")).unwrap_or_default();
        let whole = log.len() / RECORD;
        let mut sound = 0;
        for (number, bytes) in (1..).zip(log.chunks_exact(RECORD)) {
            if bytes != record(writer, number) {
                break;
            }
            sound = number;
        }
        outcome.looked_at += 1;
        outcome.newer += u64::from(sound > self.log.0);
        if sound < self.log.0 || whole as u64 > self.log.1 {
            lost(format!("the log has {sound} sound records of {whole}, {:?} known", self.log));
        }
        // the writer goes on behind what is whole
        if let Ok(file) = File::options().write(true).open(folder.join("log")) {
            let _ = file.set_len(sound * RECORD as u64);
        }
        self.log = (sound, sound);
        let first = (self.made.0 + 1).saturating_sub(MADE).max(1);
        for number in first..=self.made.0 {
            outcome.looked_at += 1;
            let path = folder.join(format!("made-{number}"));
            let may_be_gone = number <= self.removed;
            match fs::read(&path) {
                Ok(bytes) if version(writer, &bytes) == Some(number) => {}
                Err(error) if may_be_gone && error.kind() == io::ErrorKind::NotFound => {}
                Ok(bytes) => lost(format!("made-{number} holds {} other bytes", bytes.len())),
                Err(error) => lost(format!(
                    "made-{number}: {error}; {:?}, {} removed",
                    self.made, self.removed
                )),
            }
        }
        self.made.1 = self.made.0;
    }
}

/// Kills the server again and again while writers fsync, and compares.
///
/// # Errors
/// If it could not be tried.
pub fn run(plan: &Plan) -> Result<Outcome, String> {
    let pool = PoolFixture::new(EMULATED);
    let point = pool.at("mnt");
    fs::create_dir(&point).map_err(|error| error.to_string())?;
    let _cleared = Cleared(point.clone());
    let formatted = Command::new(&plan.tandem).args(["format", pool.config()]).output();
    let formatted = formatted.map_err(|error| error.to_string())?;
    if !formatted.status.success() {
        return Err(String::from_utf8_lossy(&formatted.stderr).into_owned());
    }
    let (mut rng, mut outcome) = (Rng::new(plan.seed), Outcome::default());
    let mut known: Vec<Known> = vec![Known::default(); WRITERS as usize];
    let folder = |writer: usize| point.join(format!("writer-{writer}"));
    for round in 0..=plan.rounds {
        let mut words = vec!["mount", pool.config()];
        words.extend(plan.ignore_flushes.then_some("--ignore-flushes"));
        let mounted = match Mounted::start(&plan.tandem, &words, &point) {
            Ok(mounted) => mounted,
            // drives that lie may leave nothing to start from
            Err(output) if plan.ignore_flushes => {
                outcome.lost.push(String::from_utf8_lossy(&output.stderr).into_owned());
                return Ok(outcome);
            }
            Err(output) => return Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        };
        for (writer, known) in known.iter_mut().enumerate() {
            if round == 0 {
                fs::create_dir(folder(writer)).map_err(|error| error.to_string())?;
            } else {
                known.compare(writer as u64, &folder(writer), &mut outcome);
            }
        }
        if round == plan.rounds || !outcome.lost.is_empty() {
            outcome.rounds = round;
            outcome.synced = known.iter().map(|known| known.synced).sum();
            if outcome.lost.is_empty() {
                end_well(mounted, plan, &pool)?;
            }
            break;
        }
        File::open(&point).and_then(|root| root.sync_all()).map_err(|error| error.to_string())?;
        let over = AtomicBool::new(false);
        let pause = Duration::from_millis(rng.between(50, 900));
        std::thread::scope(|scope| {
            for (writer, known) in known.iter_mut().enumerate() {
                let (folder, over) = (folder(writer), &over);
                let mut rng = Rng::new(plan.seed << 32 | round << 8 | writer as u64);
                scope.spawn(move || known.write_on(writer as u64, &folder, &mut rng, over));
            }
            std::thread::sleep(pause);
            mounted.kill();
            over.store(true, Ordering::Relaxed);
        });
    }
    Ok(outcome)
}

/// The last server is stopped as asked, and nothing is wrong.
fn end_well(mounted: Mounted, plan: &Plan, pool: &PoolFixture) -> Result<(), String> {
    let (status, said) = mounted.stop();
    if !status.success() {
        return Err(format!("the last server gave {status}: {said}"));
    }
    let checked = Command::new(&plan.tandem).args(["check", pool.config()]).output();
    let checked = checked.map_err(|error| error.to_string())?;
    if !checked.status.success() {
        return Err(format!("check: {}", String::from_utf8_lossy(&checked.stdout)));
    }
    Ok(())
}

/// What was counted, for a person and for whoever judges it.
pub fn describe(outcome: &Outcome) -> String {
    let Outcome { rounds, synced, looked_at, newer, lost } = outcome;
    let mut text = format!(
        "rounds: {rounds}\nsynced: {synced}\nlooked_at: {looked_at}\nnewer: {newer}\nlost: {}\n",
        lost.len()
    );
    for line in lost.iter().take(20) {
        text.push_str(&format!("LOST {line}\n"));
    }
    text
}

/// Reads a whole file at once, past what the kernel remembers.
pub fn read_direct(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The longest wait for something to come about.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
