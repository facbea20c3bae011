//! How do several programs use a mounted volume of files at once? Each in a directory of its own: random
//! operations from a seed, and all that is read is compared with what the directory must hold.

use super::pattern::SECTOR;
use super::tree::{Content, SECTORS_MAX, Tree};
use super::volume::Pulse;
use rustix::fs::{FallocateFlags, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_block::Rng;

/// Programs that use a volume.
const USERS: u64 = 3;
/// Names that files have.
const NAMES: u64 = 8;
/// Snapshots of the volume that a user keeps.
const SNAPSHOTS_MAX: usize = 2;
/// Sectors that a copy must have to share its blocks: 64 KiB.
const SHARED: u64 = 128;
/// An error is believed to come from the end of the server, if that comes so soon.
const BELIEVED: Duration = Duration::from_secs(20);
/// "No space" is believed where `df -i` calls so few files free, before or behind it: the table of objects is full of
/// pieces. Others may remove something just behind a refusal, such as a snapshot. So one refusal alone is no lie. A
/// second one with nothing between is, if more were free before it and behind it.
const FREE_FILES_MAX: u64 = 64;

/// How often each operation was carried out.
pub type Counts = BTreeMap<&'static str, u64>;

/// What is done, in one call.
#[derive(Clone, Debug)]
enum Op {
    Create { name: String },
    Rename { from: String, to: String },
    Unlink { name: String },
    Write { file: u64, first: u64, count: u64, version: u64, is_direct: bool },
    Truncate { file: u64, size: u64 },
    Punch { file: u64, first: u64, count: u64 },
    Copy { from: (u64, u64), to: (u64, u64), count: u64 },
}

/// A program with a directory of its own, which survives the server.
pub struct User {
    number: u64,
    rng: Rng,
    tree: Tree,
    /// What was called when the server went.
    in_flight: Option<Op>,
    /// The last operation was refused for want of space, and then many files were called free.
    had_room: bool,
    /// What its directory is in each snapshot that it has made.
    snapshots: BTreeMap<String, BTreeMap<String, Content>>,
    /// One whose making or deletion was not answered.
    doubtful: Option<String>,
    made: u64,
    pub counts: Counts,
    told: Vec<String>,
    /// Where the volume is mounted.
    mount: PathBuf,
    /// There was no space for its last operation.
    is_full: bool,
}

/// Why a user stops.
enum Stop {
    /// The server is gone.
    Gone,
    /// There is no space, and that is so.
    Full,
    /// Something is wrong.
    Wrong(String),
}

/// All users of a mounted volume.
pub struct Files {
    pub mount: PathBuf,
    pub users: Vec<User>,
    has_begun: bool,
}

impl Files {
    /// They will use what is mounted on `mnt` in this folder.
    pub fn new(folder: &Path, run: u64, rng: &mut Rng) -> Files {
        let users = (0..USERS).map(|number| User::new(run, number, rng.split(100 + number)));
        Files { mount: folder.join("mnt"), users: users.collect(), has_begun: false }
    }

    /// Compares everything after a start; at the first one, makes what they need.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&mut self) -> Result<(), String> {
        if self.has_begun {
            return self.users.iter_mut().try_for_each(|user| user.verify(&self.mount));
        }
        let snapshots = self.mount.join(".snapshots");
        fs::create_dir(&snapshots).map_err(|error| format!("{}: {error}", snapshots.display()))?;
        self.users.iter().try_for_each(|user| user.begin(&self.mount))?;
        self.has_begun = true;
        Ok(())
    }

    /// Takes what is mounted out of the tree.
    pub fn clear(&self) {
        // fails where nothing is mounted
        let _ = rustix::mount::unmount(&self.mount, rustix::mount::UnmountFlags::DETACH);
    }
}

impl User {
    pub fn new(run: u64, number: u64, rng: Rng) -> User {
        User {
            number,
            rng,
            tree: Tree::new(run, number),
            in_flight: None,
            had_room: false,
            snapshots: BTreeMap::new(),
            doubtful: None,
            made: 0,
            counts: Counts::new(),
            told: Vec::new(),
            mount: PathBuf::new(),
            is_full: false,
        }
    }

    fn name(&self) -> String {
        format!("user-{}", self.number)
    }

    fn folder(&self, mount: &Path) -> PathBuf {
        mount.join(self.name())
    }

    /// Makes its directory, durably, before anything is promised.
    ///
    /// # Errors
    /// If that fails.
    pub fn begin(&self, mount: &Path) -> Result<(), String> {
        let folder = self.folder(mount);
        let made = fs::create_dir(&folder).and_then(|()| File::open(&folder)?.sync_all());
        made.map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Works until it shall stop or the server is gone. `ending` is set before the server is ended.
    ///
    /// # Errors
    /// What is wrong.
    pub fn work(
        &mut self,
        mount: &Path,
        stop: &AtomicBool,
        ending: &AtomicBool,
        pulse: &Pulse,
    ) -> Result<(), String> {
        mount.clone_into(&mut self.mount);
        while !stop.load(Ordering::Relaxed) {
            pulse.asked();
            let went = self.one(mount);
            pulse.answered();
            match went {
                Ok(()) => {}
                Err(Stop::Full) => self.is_full = true,
                Err(Stop::Wrong(what)) => return Err(what),
                Err(Stop::Gone) => {
                    let began = Instant::now();
                    while !ending.load(Ordering::Relaxed) {
                        if began.elapsed() > BELIEVED {
                            let last = self.told.last().cloned().unwrap_or_default();
                            return Err(format!("a call failed and the server lives: {last}"));
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, mount: &Path) -> Result<(), Stop> {
        if std::mem::take(&mut self.is_full) {
            return self.delete_snapshot(mount);
        }
        let Some((name, file)) = self.any_file() else { return self.create(mount) };
        let path = self.folder(mount).join(&name);
        match self.rng.below(100) {
            0..=7 => self.create(mount),
            8..=11 => self.rename(mount, &name),
            12..=14 => self.unlink(mount, &name),
            15..=44 => self.write(&path, file),
            45..=49 => self.truncate(&path, file),
            50..=54 => self.punch(&path, file),
            55..=59 => self.copy(mount, &path, file),
            60..=66 => self.sync(&path, file),
            67..=69 => self.sync_names(mount),
            70..=72 => self.snapshot(mount),
            73..=76 => self.look_at_snapshot(mount),
            _ => self.read(&path, file),
        }
    }

    fn any_file(&mut self) -> Option<(String, u64)> {
        let names = self.tree.names();
        let index = self.rng.below(names.len().max(1) as u64) as usize;
        names.iter().nth(index).map(|(name, file)| (name.clone(), *file))
    }

    fn any_name(&mut self) -> String {
        format!("file-{}", self.rng.below(NAMES))
    }

    /// Notes what was called and how it went. An operation that is cut off may have been carried out.
    fn went<T>(&mut self, op: Option<Op>, what: &str, result: io::Result<T>) -> Result<T, Stop> {
        let kind = what.split(' ').next().unwrap_or_default();
        match result {
            Ok(value) => {
                self.told.push(what.to_owned());
                self.had_room = false;
                if let Some(op) = op {
                    self.apply(&op);
                }
                let kinds = [
                    "create", "rename", "unlink", "write", "truncate", "punch", "copy", "sync",
                    "read", "snapshot", "look",
                ];
                if let Some(kind) = kinds.into_iter().find(|known| *known == kind) {
                    *self.counts.entry(kind).or_default() += 1;
                }
                Ok(value)
            }
            Err(error) => {
                self.told.push(format!("{what}: {error}"));
                if error.kind() == io::ErrorKind::StorageFull
                    && let Some(op) = &op
                {
                    return self.refused(op).and(Err(Stop::Full));
                }
                self.in_flight = op;
                Err(Stop::Gone)
            }
        }
    }

    /// There was no space for an operation. A change of names is absent then; others may have been carried
    /// out in part, since the kernel sends them in several requests.
    fn refused(&mut self, op: &Op) -> Result<(), Stop> {
        let Ok(room) = rustix::fs::statvfs(&self.mount) else { return Err(Stop::Gone) };
        let has_room = room.f_ffree > FREE_FILES_MAX;
        if std::mem::replace(&mut self.had_room, has_room) && has_room {
            let free = room.f_ffree;
            return Err(self.wrong(&format!("no space, though {free} files are called free")));
        }
        *self.counts.entry("no space").or_default() += 1;
        let file = match op {
            Op::Create { .. } | Op::Rename { .. } | Op::Unlink { .. } => return Ok(()),
            Op::Write { file, .. } | Op::Truncate { file, .. } | Op::Punch { file, .. } => *file,
            Op::Copy { to, .. } => to.0,
        };
        let names = self.tree.names().iter();
        let name = names.clone().find(|(_, known)| **known == file).map(|(name, _)| name);
        let path = self.folder(&self.mount).join(name.expect("it was used by its name"));
        let Ok(is) = fs::metadata(&path) else { return Err(Stop::Gone) };
        self.tree.begin_doubt();
        self.apply(op);
        let ended = self.tree.end_doubt(file, is.len());
        ended.map_err(|what| self.wrong(&what))
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Create { name } => {
                self.tree.create(name);
            }
            Op::Rename { from, to } => self.tree.rename(from, to),
            Op::Unlink { name } => self.tree.unlink(name),
            Op::Write { file, first, count, version, is_direct } => {
                if !is_direct {
                    self.tree.may_be_split(*file, *first, *count);
                }
                self.tree.write(*file, *first, *count, *version);
            }
            Op::Truncate { file, size } => self.tree.truncate(*file, *size),
            Op::Punch { file, first, count } => self.tree.punch(*file, *first, *count),
            Op::Copy { from, to, count } => {
                // where the two cannot share, the kernel copies
                self.tree.may_be_split(to.0, to.1, *count);
                self.tree.copy(*from, *to, *count);
            }
        }
    }

    fn create(&mut self, mount: &Path) -> Result<(), Stop> {
        let name = self.any_name();
        if self.tree.names().contains_key(&name) {
            return Ok(());
        }
        let path = self.folder(mount).join(&name);
        let made = File::create_new(&path).and_then(|file| Ok(file.metadata()?.ino()));
        let op = Op::Create { name: name.clone() };
        let inode = self.went(Some(op), &format!("create {name}"), made)?;
        let file = self.tree.names()[&name];
        self.tree.made(file, inode);
        Ok(())
    }

    fn rename(&mut self, mount: &Path, name: &str) -> Result<(), Stop> {
        let (from, to) = (name.to_owned(), self.any_name());
        let folder = self.folder(mount);
        let renamed = fs::rename(folder.join(&from), folder.join(&to));
        let what = format!("rename {from} {to}");
        self.went(Some(Op::Rename { from, to }), &what, renamed)
    }

    fn unlink(&mut self, mount: &Path, name: &str) -> Result<(), Stop> {
        let unlinked = fs::remove_file(self.folder(mount).join(name));
        let op = Op::Unlink { name: name.to_owned() };
        self.went(Some(op), &format!("unlink {name}"), unlinked)
    }

    /// A range of sectors, short ones as often as long ones, of the first so many.
    fn range(&mut self, sectors: u64) -> (u64, u64) {
        let grain = [1, 8, 8][self.rng.below(3) as usize];
        let longest = (512.min(sectors) / grain).max(1);
        let longest = longest >> self.rng.below(u64::from(longest.ilog2()) + 1);
        let count = (self.rng.between(1, longest) * grain).min(sectors);
        let first = self.rng.below((sectors - count) / grain + 1) * grain;
        (first, count)
    }

    /// Opens a file, every other time past the kernel's memory.
    fn open(&mut self, path: &Path, extra: OFlags) -> io::Result<File> {
        let is_direct = self.draws_direct();
        User::open_as(path, is_direct, extra)
    }

    fn draws_direct(&mut self) -> bool {
        self.rng.below(2) == 0
    }

    fn open_as(path: &Path, is_direct: bool, extra: OFlags) -> io::Result<File> {
        let direct = if is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = (direct | extra).bits().cast_signed();
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
    }

    fn write(&mut self, path: &Path, file: u64) -> Result<(), Stop> {
        let (first, count) = self.range(SECTORS_MAX);
        let (version, bytes) = self.tree.fill(file, first, count);
        let is_synced = self.rng.below(20) == 0;
        let extra = if is_synced { OFlags::DSYNC } else { OFlags::empty() };
        let is_direct = self.draws_direct();
        let written = User::open_as(path, is_direct, extra);
        let written = written.and_then(|it| it.write_all_at(&bytes, first * SECTOR as u64));
        let op = Op::Write { file, first, count, version, is_direct };
        self.went(Some(op), &format!("write {} {first}+{count}", path.display()), written)
    }

    fn truncate(&mut self, path: &Path, file: u64) -> Result<(), Stop> {
        let size = self.rng.below(SECTORS_MAX + 1) * SECTOR as u64;
        let cut = self.open(path, OFlags::empty()).and_then(|it| it.set_len(size));
        let op = Op::Truncate { file, size };
        self.went(Some(op), &format!("truncate {} {size}", path.display()), cut)
    }

    fn punch(&mut self, path: &Path, file: u64) -> Result<(), Stop> {
        let (first, count) = self.range(SECTORS_MAX);
        let mode = FallocateFlags::KEEP_SIZE
            | [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE][self.rng.below(2) as usize];
        let (offset, length) = (first * SECTOR as u64, count * SECTOR as u64);
        let opened = self.open(path, OFlags::empty());
        let punched = opened.and_then(|it| Ok(rustix::fs::fallocate(&it, mode, offset, length)?));
        let op = Op::Punch { file, first, count };
        self.went(Some(op), &format!("punch {} {first}+{count}", path.display()), punched)
    }

    /// Copies whole blocks from one file to another one, or within one; they share them then.
    fn copy(&mut self, mount: &Path, path: &Path, to: u64) -> Result<(), Stop> {
        let Some((name, from)) = self.any_file() else { return Ok(()) };
        let sectors = self.tree.file(from).size() / SECTOR as u64;
        if sectors < SHARED {
            return Ok(());
        }
        let block = |rng: &mut Rng, most: u64| rng.below(most / 8 + 1) * 8;
        let count = (SHARED + block(&mut self.rng, sectors - SHARED)) / 8 * 8;
        let first = block(&mut self.rng, sectors - count);
        let over = block(&mut self.rng, SECTORS_MAX - count);
        if from == to && first.abs_diff(over) < count {
            return Ok(());
        }
        let source = self.open(&self.folder(mount).join(&name), OFlags::empty());
        let target = self.open(path, OFlags::empty());
        let what = format!("copy {name} {first}+{count} over {} {over}", path.display());
        let copied = source.and_then(|source| copy_range(&source, &target?, first, over, count));
        let op = Op::Copy { from: (from, first), to: (to, over), count };
        self.went(Some(op), &what, copied)
    }

    fn sync(&mut self, path: &Path, file: u64) -> Result<(), Stop> {
        let is_all = self.rng.below(2) == 0;
        let opened = self.open(path, OFlags::empty());
        let synced = opened.and_then(|it| if is_all { it.sync_all() } else { it.sync_data() });
        self.went(None, &format!("sync {}", path.display()), synced)?;
        self.tree.synced(file);
        Ok(())
    }

    fn sync_names(&mut self, mount: &Path) -> Result<(), Stop> {
        let synced = File::open(self.folder(mount)).and_then(|folder| folder.sync_all());
        self.went(None, "sync names", synced)?;
        self.tree.names_synced();
        Ok(())
    }

    fn read(&mut self, path: &Path, file: u64) -> Result<(), Stop> {
        let sectors = self.tree.file(file).size() / SECTOR as u64;
        if sectors == 0 {
            return Ok(());
        }
        let (first, count) = self.range(sectors);
        let mut bytes = vec![0; count as usize * SECTOR];
        let opened = self.open(path, OFlags::empty());
        let read = opened.and_then(|it| it.read_exact_at(&mut bytes, first * SECTOR as u64));
        self.went(None, &format!("read {} {first}+{count}", path.display()), read)?;
        self.tree.compare(file, first, &bytes).map_err(|what| self.wrong(&what))
    }

    fn wrong(&self, what: &str) -> Stop {
        let last = self.told[self.told.len().saturating_sub(30)..].join("\n      ");
        Stop::Wrong(format!("{what}\n    what user {} did last:\n      {last}", self.number))
    }

    /// Makes a snapshot of the volume, or deletes one that it has made. Nobody else changes its
    /// directory, so it knows what is in there.
    fn snapshot(&mut self, mount: &Path) -> Result<(), Stop> {
        let at = mount.join(".snapshots");
        if self.snapshots.len() >= SNAPSHOTS_MAX || self.doubtful.is_some() {
            return self.delete_snapshot(mount);
        }
        let mut content = BTreeMap::new();
        for (name, file) in self.tree.names().clone() {
            let Some(is) = self.tree.content(file) else { return Ok(()) };
            content.insert(name, is);
        }
        self.made += 1;
        let name = format!("{}-{}", self.name(), self.made);
        self.snapshots.insert(name.clone(), content);
        self.doubtful = Some(name.clone());
        let made = fs::create_dir(at.join(&name));
        if let Err(error) = &made
            && [io::ErrorKind::StorageFull, io::ErrorKind::ResourceBusy].contains(&error.kind())
        {
            self.doubtful = None;
            self.snapshots.remove(&name);
            return Ok(());
        }
        self.went(None, &format!("snapshot {name}"), made)?;
        self.doubtful = None;
        Ok(())
    }

    fn delete_snapshot(&mut self, mount: &Path) -> Result<(), Stop> {
        let Some(name) = self.snapshots.keys().next().cloned() else { return Ok(()) };
        self.doubtful = Some(name.clone());
        let deleted = fs::remove_dir(mount.join(".snapshots").join(&name));
        self.went(None, &format!("snapshot {name} deleted"), deleted)?;
        self.doubtful = None;
        self.snapshots.remove(&name);
        Ok(())
    }

    fn look_at_snapshot(&mut self, mount: &Path) -> Result<(), Stop> {
        let index = self.rng.below(self.snapshots.len().max(1) as u64) as usize;
        let Some(name) = self.snapshots.keys().nth(index).cloned() else { return Ok(()) };
        let content = self.snapshots[&name].clone();
        let folder = mount.join(".snapshots").join(&name).join(self.name());
        for (file, content) in &content {
            let bytes =
                self.went(None, &format!("look {name} {file}"), fs::read(folder.join(file)))?;
            let compared = self.tree.is_as(content, &bytes);
            compared.map_err(|what| self.wrong(&format!("snapshot {name}, {file}: {what}")))?;
        }
        Ok(())
    }

    /// The server is gone; with `cleanly` all that it had answered is durable.
    pub fn end_of_server(&mut self, cleanly: bool) {
        if cleanly {
            self.tree.stopped();
        }
        if let Some(op) = self.in_flight.take() {
            self.apply(&op);
        }
    }

    /// Reads all of its directory after a start, and compares it with what the end of the server may have
    /// left; its snapshots, too.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&mut self, mount: &Path) -> Result<(), String> {
        let folder = self.folder(mount);
        let found = read_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let wrong = |stop| match stop {
            Stop::Wrong(what) => what,
            Stop::Gone | Stop::Full => format!("a call failed: {:?}", self.told.last()),
        };
        if let Err(what) = self.tree.found(&found) {
            return Err(wrong(self.wrong(&what)));
        }
        if let Some(name) = self.doubtful.take()
            && !mount.join(".snapshots").join(&name).exists()
        {
            self.snapshots.remove(&name);
        }
        for (name, content) in self.snapshots.clone() {
            let at = mount.join(".snapshots").join(&name).join(self.name());
            for (file, content) in &content {
                let bytes = fs::read(at.join(file));
                let bytes = bytes.map_err(|error| format!("snapshot {name}, {file}: {error}"))?;
                let compared = self.tree.is_as(content, &bytes);
                compared.map_err(|what| format!("snapshot {name}, {file}: {what}"))?;
            }
        }
        Ok(())
    }
}

/// Every file of a directory: its inode and bytes.
fn read_all(folder: &Path) -> io::Result<BTreeMap<String, (u64, Vec<u8>)>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        all.insert(name, (entry.metadata()?.ino(), fs::read(entry.path())?));
    }
    Ok(all)
}

/// The kernel may copy less than it was asked for.
fn copy_range(from: &File, to: &File, first: u64, over: u64, count: u64) -> io::Result<()> {
    let (mut at, mut to_at) = (first * SECTOR as u64, over * SECTOR as u64);
    let end = (first + count) * SECTOR as u64;
    while at < end {
        let left = (end - at) as usize;
        let copied = rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), left)?;
        if copied == 0 {
            return Err(io::Error::other("nothing is copied"));
        }
    }
    Ok(())
}
