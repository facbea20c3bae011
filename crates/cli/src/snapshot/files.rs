//! How is a snapshot of a volume of files taken, deleted and listed? By its directory in the mount, as every
//! program can: the server takes it while it makes the directory.

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tandem_live::control::Snapshot;
use tandem_live::status::Status;
use tandem_names::SNAPSHOTS_NAME;

/// `FUSE_SUPER_MAGIC` of `statfs`.
const FUSE: i64 = 0x6573_5546;

/// What a server says of the volumes of files that it has mounted.
pub struct Mounted {
    name: String,
    /// Where its snapshots are.
    directory: PathBuf,
}

/// A snapshot of a volume of files.
#[derive(Debug, Serialize)]
pub struct OfFiles {
    volume: String,
    name: String,
    path: PathBuf,
    age_s: u64,
}

impl Mounted {
    /// All of them.
    pub fn all(status: &Status) -> Vec<Mounted> {
        let of_files = status.pool.volumes.iter().filter(|volume| volume.files);
        of_files
            .filter_map(|volume| {
                let directory = volume.mount.as_ref()?.join(OsStr::from_bytes(SNAPSHOTS_NAME));
                Some(Mounted { name: volume.name.clone(), directory })
            })
            .collect()
    }

    /// The one that a snapshot is asked of; `None` if that is no volume of files.
    ///
    /// # Errors
    /// If it is one, and is not mounted.
    pub fn find(status: &Status, name: &str) -> anyhow::Result<Option<Mounted>> {
        let mut volumes = status.pool.volumes.iter();
        if !volumes.any(|volume| volume.name == name && volume.files) {
            return Ok(None);
        }
        let found = Mounted::all(status).into_iter().find(|mounted| mounted.name == name);
        let Some(mounted) = found else {
            bail!(
                "{name} is a volume of files and is not mounted; its snapshots are directories of its mount: \
                 add mount = \"DIR\" to it"
            );
        };
        Ok(Some(mounted))
    }

    /// Takes a snapshot, or deletes one; its path.
    ///
    /// # Errors
    /// What is in the way.
    pub fn carry_out(&self, it: &Snapshot) -> anyhow::Result<PathBuf> {
        self.check_mounted()?;
        if it.name.is_empty() || it.name.contains('/') {
            bail!("{:?} cannot be the name of a snapshot: it is that of a directory", it.name);
        }
        let path = self.directory.join(&it.name);
        let full = it.full_name();
        if it.delete {
            return match fs::remove_dir(&path) {
                Ok(()) => {
                    // what is said to be deleted does not come back with a power cut
                    let synced = fs::File::open(&self.directory).and_then(|it| it.sync_all());
                    synced.map(|()| path).context(full)
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Err(anyhow!("there is no snapshot {full}"))
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    Err(anyhow!("{full} is in use: files in {} are open", path.display()))
                }
                Err(error) => Err(error).context(full),
            };
        }
        let made = fs::create_dir(&self.directory);
        if let Err(error) = made.or_else(unless(ErrorKind::AlreadyExists)) {
            return Err(error).context(format!("making {}", self.directory.display()));
        }
        match fs::create_dir(&path) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(anyhow!("there is a snapshot {full} already"))
            }
            Err(error) if error.kind() == ErrorKind::StorageFull => Err(anyhow!(
                "the table of objects has no room for the files of {full}: delete older snapshots, or files"
            )),
            Err(error) => Err(error).context(full),
        }
    }

    /// What is mounted there may have been unmounted since: nothing is made in a directory that is none of ours.
    fn check_mounted(&self) -> anyhow::Result<()> {
        let point = self.directory.parent().expect("a directory within the mount");
        let found = rustix::fs::statfs(point).with_context(|| point.display().to_string())?;
        if found.f_type != FUSE {
            bail!("{} is not mounted on {} any more", self.name, point.display());
        }
        Ok(())
    }

    /// Its snapshots, by name.
    ///
    /// # Errors
    /// If they cannot be listed: who asks may not be let in.
    pub fn list(&self, now: SystemTime) -> anyhow::Result<Vec<OfFiles>> {
        let told = || self.directory.display().to_string();
        let lines = match fs::read_dir(&self.directory) {
            Ok(lines) => lines,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(told),
        };
        let mut found = Vec::new();
        for line in lines {
            let line = line.with_context(told)?;
            let taken_s = line.metadata().with_context(told)?.ctime();
            let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let age =
                since.saturating_sub(Duration::from_secs(u64::try_from(taken_s).unwrap_or(0)));
            found.push(OfFiles {
                volume: self.name.clone(),
                name: line.file_name().to_string_lossy().into_owned(),
                path: line.path(),
                age_s: age.as_secs(),
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

/// An error of this kind is none.
fn unless(kind: ErrorKind) -> impl FnOnce(io::Error) -> io::Result<()> {
    move |error| if error.kind() == kind { Ok(()) } else { Err(error) }
}

/// In words.
pub fn describe(it: &OfFiles) -> String {
    let (age, path) = (told(it.age_s), it.path.display());
    format!("  {}@{}: taken {age} ago, in {path}\n", it.volume, it.name)
}

/// A time as people say it, two units below which nobody cares.
fn told(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tandem_live::status::{ServedPool, Volume};

    #[test]
    fn snapshots_are_told_with_their_age_and_path() {
        let (volume, name) = ("home".to_owned(), "a".to_owned());
        let one = OfFiles { volume, name, path: "/m/.snapshots/a".into(), age_s: 7300 };
        assert_eq!(describe(&one), "  home@a: taken 2 h ago, in /m/.snapshots/a\n");
        let ages = [(5, "5 s"), (130, "2 min"), (200_000, "2 days")];
        ages.iter().for_each(|(seconds, text)| assert_eq!(told(*seconds), *text));
    }

    #[test]
    fn volumes_of_blocks_are_not_for_this_and_those_without_mount_say_what_to_do() {
        let volume = |name: &str, files, mount: Option<&str>| Volume {
            name: name.to_owned(),
            files,
            mount: mount.map(PathBuf::from),
            ..Volume::default()
        };
        let volumes = vec![
            volume("disk", false, None),
            volume("home", true, Some("/m")),
            volume("away", true, None),
        ];
        let status =
            Status { pool: ServedPool { volumes, ..ServedPool::default() }, ..Status::default() };
        assert!(Mounted::find(&status, "disk").unwrap().is_none());
        assert!(Mounted::find(&status, "none").unwrap().is_none());
        let home = Mounted::find(&status, "home").unwrap().unwrap();
        assert_eq!(home.directory, Path::new("/m/.snapshots"));
        let why = Mounted::find(&status, "away").err().unwrap().to_string();
        assert!(why.contains("is not mounted"), "{why}");
        assert_eq!(Mounted::all(&status).len(), 1);
    }
}
