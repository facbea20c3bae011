//! Do two directories behave alike? Random operations on both, compared one by one, and at the end
//! everything below them: a mount beside a file system that is known to be right.
//!
//! `beside DIR KNOWN COUNT SEED`: exit 0 if nothing differs. Both directories must be empty.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tandem_block::Rng;

/// Names at each of two levels: few, so that operations meet.
const NAMES: u64 = 12;
/// Files held open at once.
const OPEN_MAX: usize = 6;
/// Longest file in bytes.
const FILE_BYTES_MAX: u64 = 300_000;
/// The whole tree is compared after so many operations.
const COMPARED_EVERY: u64 = 1000;

/// One operation; the same on both sides.
#[derive(Clone, Debug)]
enum Do {
    Create(PathBuf),
    CreateNew(PathBuf),
    MakeDir(PathBuf),
    RemoveFile(PathBuf),
    RemoveDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    ReadLink(PathBuf),
    Write(PathBuf, u64, u64, usize),
    Append(PathBuf, u64, usize),
    Read(PathBuf, u64, usize),
    Truncate(PathBuf, u64),
    Mode(PathBuf, u32),
    Times(PathBuf, u64),
    Stat(PathBuf),
    List(PathBuf),
    Open(PathBuf),
    Close(usize),
    WriteOpen(usize, u64, u64, usize),
    ReadOpen(usize),
    Sync(PathBuf),
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

fn draw(rng: &mut Rng, open: usize) -> Do {
    let path = |rng: &mut Rng| {
        let first = PathBuf::from(format!("n{}", rng.below(NAMES)));
        let second = format!("m{}", rng.below(NAMES));
        if rng.below(3) == 0 { first } else { first.join(second) }
    };
    let at = path(rng);
    let offset = rng.below(FILE_BYTES_MAX / 2);
    let length = [1, 100, 4096, 10_000, 100_000][rng.below(5) as usize];
    let seed = rng.bits();
    match rng.below(30) {
        0 | 1 => Do::Create(at),
        2 => Do::CreateNew(at),
        3..=5 => Do::MakeDir(at),
        6 => Do::RemoveFile(at),
        7 => Do::RemoveDir(at),
        8..=10 => Do::Rename(at, path(rng)),
        11 => Do::Link(at, path(rng)),
        12 => Do::Symlink(path(rng), at),
        13 => Do::ReadLink(at),
        14..=17 => Do::Write(at, offset, seed, length),
        18 => Do::Append(at, seed, length.min(4096)),
        19 | 20 => Do::Read(at, offset, length),
        21 => Do::Truncate(at, rng.below(FILE_BYTES_MAX)),
        22 => Do::Mode(at, 0o700 | rng.below(0o100) as u32),
        23 => Do::Times(at, rng.below(1 << 31)),
        24 => Do::Stat(at),
        25 => Do::List(at),
        26 if open < OPEN_MAX => Do::Open(at),
        27 if open > 0 => Do::WriteOpen(rng.below(open as u64) as usize, offset, seed, length),
        28 if open > 0 => Do::ReadOpen(rng.below(open as u64) as usize),
        26 if open > 0 => Do::Close(rng.below(open as u64) as usize),
        _ => Do::Sync(at),
    }
}

/// One of the two.
struct Side {
    root: PathBuf,
    open: Vec<File>,
}

/// What an operation told.
type Told = Result<Vec<u8>, Option<i32>>;

impl Side {
    fn perform(&mut self, what: &Do) -> Told {
        self.tried(what).map_err(|error| error.raw_os_error())
    }

    fn tried(&mut self, what: &Do) -> io::Result<Vec<u8>> {
        let at = |path: &Path| self.root.join(path);
        let nothing = |()| Vec::new();
        let write = || File::options().write(true).clone();
        match what {
            Do::Create(path) => File::create(at(path)).map(|_| Vec::new()),
            Do::CreateNew(path) => File::create_new(at(path)).map(|_| Vec::new()),
            Do::MakeDir(path) => fs::create_dir(at(path)).map(nothing),
            Do::RemoveFile(path) => fs::remove_file(at(path)).map(nothing),
            Do::RemoveDir(path) => fs::remove_dir(at(path)).map(nothing),
            Do::Rename(from, to) => fs::rename(at(from), at(to)).map(nothing),
            Do::Link(from, to) => fs::hard_link(at(from), at(to)).map(nothing),
            Do::Symlink(target, path) => std::os::unix::fs::symlink(target, at(path)).map(nothing),
            Do::ReadLink(path) => {
                Ok(fs::read_link(at(path))?.to_string_lossy().into_owned().into_bytes())
            }
            Do::Write(path, offset, seed, length) => {
                let file = write().open(at(path))?;
                file.write_all_at(&noise(*seed, *length), *offset).map(nothing)
            }
            Do::Append(path, seed, length) => {
                let mut file = File::options().append(true).open(at(path))?;
                file.write_all(&noise(*seed, *length)).map(nothing)
            }
            Do::Read(path, offset, length) => {
                let mut file = File::open(at(path))?;
                file.seek(SeekFrom::Start(*offset))?;
                let mut bytes = Vec::new();
                file.take(*length as u64).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Do::Truncate(path, size) => write().open(at(path))?.set_len(*size).map(nothing),
            Do::Mode(path, mode) => {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)).map(nothing)
            }
            Do::Times(path, seconds) => {
                let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(*seconds);
                let times = fs::FileTimes::new().set_modified(time);
                File::open(at(path))?.set_times(times)?;
                Ok(fs::metadata(at(path))?.mtime().to_le_bytes().to_vec())
            }
            Do::Stat(path) => Ok(told(&fs::symlink_metadata(at(path))?).into_bytes()),
            Do::List(path) => {
                let mut names = Vec::new();
                for entry in fs::read_dir(at(path))? {
                    names.push(entry?.file_name().to_string_lossy().into_owned());
                }
                names.sort();
                Ok(names.join("/").into_bytes())
            }
            Do::Open(path) => {
                self.open.push(File::options().read(true).write(true).open(at(path))?);
                Ok(Vec::new())
            }
            Do::Close(which) => {
                self.open.swap_remove(*which);
                Ok(Vec::new())
            }
            Do::WriteOpen(which, offset, seed, length) => {
                self.open[*which].write_all_at(&noise(*seed, *length), *offset).map(nothing)
            }
            Do::ReadOpen(which) => {
                let file = &mut self.open[*which];
                file.rewind()?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                bytes.extend_from_slice(told(&file.metadata()?).as_bytes());
                Ok(bytes)
            }
            Do::Sync(path) => File::open(at(path))?.sync_all().map(nothing),
        }
    }

    /// Everything below it.
    fn tree(&self) -> io::Result<BTreeMap<PathBuf, (String, Vec<u8>)>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.root.clone()];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let meta = fs::symlink_metadata(&path)?;
                let bytes = match meta.file_type() {
                    kind if kind.is_symlink() => {
                        fs::read_link(&path)?.to_string_lossy().into_owned().into_bytes()
                    }
                    kind if kind.is_dir() => {
                        waiting.push(path.clone());
                        Vec::new()
                    }
                    _ => fs::read(&path)?,
                };
                let relative = path.strip_prefix(&self.root).map_err(io::Error::other)?;
                found.insert(relative.to_owned(), (told(&meta), bytes));
            }
        }
        Ok(found)
    }
}

/// What must be alike; the sizes of directories and links of directories need not be.
fn told(meta: &fs::Metadata) -> String {
    match meta.is_dir() {
        true => format!("{:o} {} {}", meta.mode(), meta.uid(), meta.gid()),
        false => {
            format!(
                "{:o} {} {} {} {}",
                meta.mode(),
                meta.nlink(),
                meta.size(),
                meta.uid(),
                meta.gid()
            )
        }
    }
}

fn run() -> Result<String, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [one, known, count, seed] = &words[..] else {
        return Err("usage: beside DIR KNOWN COUNT SEED".into());
    };
    let number = |word: &String| word.parse::<u64>().map_err(|error| format!("{word}: {error}"));
    let (count, mut rng) = (number(count)?, Rng::new(number(seed)?));
    let side = |root: &String| Side { root: root.into(), open: Vec::new() };
    let (mut one, mut known) = (side(one), side(known));
    let (mut done, mut refused) = (0, 0);
    for step in 0..count {
        let what = draw(&mut rng, known.open.len());
        let (did, should) = (one.perform(&what), known.perform(&what));
        if did != should {
            let brief = |told: Told| told.map(|bytes| format!("{} bytes", bytes.len()));
            return Err(format!(
                "step {step}, {what:?}: {:?}, not {:?}",
                brief(did),
                brief(should)
            ));
        }
        *(if should.is_ok() { &mut done } else { &mut refused }) += 1;
        if (step + 1) % COMPARED_EVERY == 0 || step + 1 == count {
            let trees = (one.tree(), known.tree());
            let (Ok(did), Ok(should)) = trees else { return Err(format!("{trees:?}")) };
            let differs = |(path, it): (&PathBuf, &(String, Vec<u8>))| did.get(path) != Some(it);
            if let Some((path, it)) = should.iter().find(|&(path, it)| differs((path, it))) {
                let found = did.get(path).map(|it| &it.0);
                return Err(format!("step {step}: {path:?} is {found:?}, not {:?}", it.0));
            }
            if did.len() != should.len() {
                return Err(format!("step {step}: {} entries, not {}", did.len(), should.len()));
            }
        }
    }
    Ok(format!("done: {done}\nrefused: {refused}\n"))
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("beside: {error}");
            ExitCode::FAILURE
        }
    }
}
