//! May this file or block device be used, how large is it, and can it bypass the page cache?
//!
//! Source: design decision 6: the lock is taken on the very descriptor used for I/O.

use super::holder;
use crate::buffer::Memory;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tandem_block::{BLOCK_BYTES, SECTOR_BYTES};

/// Sectors that a drive may have: those of requests, and of blocks.
const SECTORS_BYTES: [u64; 2] = [SECTOR_BYTES, BLOCK_BYTES];
/// A killed server's lock is awaited this long (measured: some ten milliseconds, more while it had
/// much to write).
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// A holder that is seen alive for this long is no dying one: it is refused at once. A signal that
/// was sent before we came has arrived by then.
const ALIVE_WAIT: Duration = Duration::from_millis(200);
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refuses.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Which device.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else holds the lock.
    #[error(
        "{} is in use {}; stop that one first", path.display(), by(*.holder)
    )]
    InUse {
        /// Which device.
        path: PathBuf,
        /// The process that holds it, where the system tells.
        holder: Option<u32>,
    },
    /// Something else than a server has claimed the block device.
    #[error("{} is {by}", path.display())]
    Claimed {
        /// Which device.
        path: PathBuf,
        /// By whom, and what to do.
        by: String,
    },
    /// Neither a file nor a block device.
    #[error("{} is neither a file nor a block device", path.display())]
    WrongKind {
        /// Which device.
        path: PathBuf,
    },
    /// Its sectors are none that a pool can use.
    #[error(
        "{} has sectors of {sector_bytes} bytes; Tandem takes drives with sectors of 512 or 4096 bytes: \
         format the drive with one of these, as `nvme format --lbaf` and `sg_format` do, or use a file",
        path.display()
    )]
    SectorSize {
        /// Which device.
        path: PathBuf,
        /// Its logical sector.
        sector_bytes: u32,
    },
    /// The model is larger than what holds its bytes.
    #[error(
        "the emulated drive has {model_bytes} bytes, but what holds its data only {backing_bytes}; \
         make the file larger or the drive smaller"
    )]
    TooSmall {
        /// Capacity of the model.
        model_bytes: u64,
        /// Size of the file or memory.
        backing_bytes: u64,
    },
}

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write { direct: bool },
}

/// Who has the device that we want?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// A process that is gone or going, or one that the system does not tell.
    Dying,
    /// A process that has been seen alive for so long.
    Alive(Duration),
    /// Claimed, and nobody is seen: the lock of a dying server goes a moment before its claim.
    Unseen,
}

impl Taken {
    /// Is it worth another look after we have `waited`?
    fn is_awaited(self, waited: Duration) -> bool {
        match self {
            Taken::Dying => waited < LOCK_WAIT,
            Taken::Alive(since) => waited < LOCK_WAIT && since < ALIVE_WAIT,
            Taken::Unseen => waited < ALIVE_WAIT,
        }
    }
}

/// A locked file or block device.
#[derive(Debug)]
pub struct OpenedFile {
    fd: OwnedFd,
    path: PathBuf,
    /// Usable bytes, a multiple of 4096.
    pub size_bytes: u64,
    /// A block device, not a file.
    pub is_block_device: bool,
    /// Does I/O bypass the page cache?
    pub direct: bool,
    /// What I/O begins and ends at, in bytes: 512 or 4096, and 512 through the page cache.
    pub sector_bytes: u64,
}

impl OpenedFile {
    /// As [`OpenedFile::open_once`], but gives a killed server time to let go: the kernel ends the
    /// commands of its ring after the process is gone, and keeps the lock until then. That is what
    /// the lock is for: no late write of the dead can meet a write of the living. A server that
    /// lives is not waited for.
    ///
    /// # Errors
    /// If it does not exist, is in use, is no file or block device, or has sectors of another size than 512 or 4096 bytes.
    pub fn open(path: &Path, direct: bool) -> Result<OpenedFile, OpenError> {
        Self::open_patiently(path, Access::Write { direct })
    }

    /// Opens `path` for reading alone, through the page cache. Others may read it meanwhile, and
    /// nobody may write it.
    ///
    /// # Errors
    /// As [`OpenedFile::open`].
    pub fn open_to_read(path: &Path) -> Result<OpenedFile, OpenError> {
        Self::open_patiently(path, Access::Read)
    }

    fn open_patiently(path: &Path, access: Access) -> Result<OpenedFile, OpenError> {
        let begin = Instant::now();
        let mut alive_since = None;
        loop {
            let answer = Self::open_as(path, access);
            let taken = match &answer {
                Err(OpenError::InUse { holder, .. }) if holder.is_some_and(holder::is_alive) => {
                    Taken::Alive(alive_since.get_or_insert_with(Instant::now).elapsed())
                }
                Err(OpenError::InUse { .. }) => {
                    alive_since = None;
                    Taken::Dying
                }
                Err(OpenError::Claimed { .. }) if holder::claim(path).is_none() => Taken::Unseen,
                _ => return answer,
            };
            if !taken.is_awaited(begin.elapsed()) {
                return answer;
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }

    /// Opens and locks `path` for reading and writing. With `direct`, tries to bypass the page
    /// cache; where a file system refuses that, a warning is logged and the page cache is used
    /// (flushes stay true, latencies do not).
    ///
    /// # Errors
    /// If it does not exist, is in use, is no file or block device, or has sectors of another size than 512 or 4096 bytes.
    pub fn open_once(path: &Path, direct: bool) -> Result<OpenedFile, OpenError> {
        Self::open_as(path, Access::Write { direct })
    }

    fn open_as(path: &Path, access: Access) -> Result<OpenedFile, OpenError> {
        let failed = |errno: Errno| match errno {
            Errno::BUSY if holder::is_locked(path) => in_use(path),
            Errno::BUSY => {
                let by = holder::claim(path).unwrap_or_else(|| {
                    "claimed by the kernel or another program: see `lsblk` and `fuser -v`".into()
                });
                OpenError::Claimed { path: path.into(), by }
            }
            errno => OpenError::Open { path: path.into(), source: errno.into() },
        };
        let meta = rustix::fs::stat(path).map_err(failed)?;
        let kind = FileType::from_raw_mode(meta.st_mode);
        let is_block_device = kind == FileType::BlockDevice;
        if !is_block_device && kind != FileType::RegularFile {
            return Err(OpenError::WrongKind { path: path.into() });
        }
        let (mut flags, lock, direct) = match access {
            Access::Read => (OFlags::RDONLY, FlockOperation::NonBlockingLockShared, false),
            Access::Write { direct } => {
                (OFlags::RDWR, FlockOperation::NonBlockingLockExclusive, direct)
            }
        };
        flags |= OFlags::CLOEXEC;
        if is_block_device {
            flags |= OFlags::EXCL; // refused while mounted or claimed
        }
        let (fd, is_direct) = open_maybe_direct(path, flags, direct).map_err(failed)?;
        match rustix::fs::flock(&fd, lock) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use(path)),
            Err(errno) => return Err(failed(errno)),
        }
        let size = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0)).map_err(failed)?;
        let mut opened = OpenedFile {
            fd,
            path: path.into(),
            size_bytes: size / BLOCK_BYTES * BLOCK_BYTES,
            is_block_device,
            direct: is_direct,
            sector_bytes: SECTOR_BYTES,
        };
        if is_block_device {
            let found = rustix::fs::ioctl_blksszget(&opened.fd).map_err(failed)?;
            let Some(known) = SECTORS_BYTES.into_iter().find(|&known| known == u64::from(found))
            else {
                return Err(OpenError::SectorSize { path: path.into(), sector_bytes: found });
            };
            if is_direct {
                opened.sector_bytes = known;
            }
        } else if is_direct {
            match SECTORS_BYTES.into_iter().find(|&known| opened.takes_sectors(known)) {
                Some(known) => opened.sector_bytes = known,
                None => {
                    warn_buffered(path, "its file system wants larger blocks than 4096 bytes");
                    rustix::fs::fcntl_setfl(&opened.fd, OFlags::empty()).map_err(failed)?;
                    opened.direct = false;
                }
            }
        }
        Ok(opened)
    }

    /// Is a direct read of one sector at an odd sector possible, into a buffer at an odd sector?
    fn takes_sectors(&self, sector_bytes: u64) -> bool {
        let one = sector_bytes as usize;
        let mut memory = Memory::zeroed(2 * one);
        let answer = rustix::io::pread(&self.fd, memory.bytes_mut(one..2 * one), sector_bytes);
        answer != Err(Errno::INVAL)
    }

    /// Its path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of a file that is shorter than when it was opened: what to say of it. Somebody cut it, and what was
    /// behind its end is lost, though reads of what is written there later would succeed.
    pub fn is_cut(&self) -> Option<String> {
        if self.is_block_device {
            return None;
        }
        let bytes = u64::try_from(rustix::fs::fstat(&self.fd).ok()?.st_size).ok()?;
        (bytes < self.size_bytes).then(|| {
            format!(
                "the file was cut: it has {bytes} bytes and had {} when it was opened",
                self.size_bytes
            )
        })
    }

    /// The descriptor, locked.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn in_use(path: &Path) -> OpenError {
    OpenError::InUse { path: path.into(), holder: holder::of(path) }
}

fn by(holder: Option<u32>) -> String {
    match holder {
        Some(process) => format!("by process {process}"),
        None => "by another server".into(),
    }
}

fn open_maybe_direct(
    path: &Path,
    flags: OFlags,
    direct: bool,
) -> rustix::io::Result<(OwnedFd, bool)> {
    if direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) => return Ok((fd, true)),
            Err(Errno::INVAL) => warn_buffered(path, "its file system has no direct I/O"),
            Err(errno) => return Err(errno),
        }
    }
    Ok((rustix::fs::open(path, flags, Mode::empty())?, false))
}

fn warn_buffered(path: &Path, why: &str) {
    tracing::warn!(
        "{}: {why}; data goes through the page cache, which costs RAM and CPU and makes latencies \
         those of memory, not of the drive",
        path.display()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_on_the_descriptor_in_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len((1 << 20) + 512).unwrap();
        let first = OpenedFile::open(file.path(), true).unwrap();
        assert_eq!((first.size_bytes, first.is_block_device), (1 << 20, false));
        let second = OpenedFile::open_once(file.path(), true).unwrap_err();
        assert!(matches!(second, OpenError::InUse { .. }), "{second}");
        assert!(second.to_string().contains(&std::process::id().to_string()), "{second}");
        // who is alive is not waited for; here it is this very process
        assert!(OpenedFile::open(file.path(), false).is_err());
        assert!(OpenedFile::open_to_read(file.path()).is_err());
        // who lets go late, as the kernel does for a killed server, is awaited
        let late = std::thread::spawn(move || {
            std::thread::sleep(LOCK_RETRY * 5);
            drop(first);
        });
        OpenedFile::open(file.path(), false).unwrap();
        late.join().unwrap();
        let reader = OpenedFile::open_to_read(file.path()).unwrap();
        assert!(OpenedFile::open_to_read(file.path()).is_ok(), "readers may be many");
        assert!(OpenedFile::open_once(file.path(), false).is_err());
        drop(reader);
    }

    #[test]
    fn only_a_dying_holder_is_given_long() {
        let ms = Duration::from_millis;
        assert!(Taken::Dying.is_awaited(ms(4990)) && !Taken::Dying.is_awaited(ms(5000)));
        assert!(Taken::Alive(ms(190)).is_awaited(ms(190)));
        assert!(!Taken::Alive(ms(200)).is_awaited(ms(200)), "who lives is no dying one");
        assert!(Taken::Alive(ms(0)).is_awaited(ms(4990)), "a new one, seen late");
        assert!(!Taken::Alive(ms(0)).is_awaited(ms(5000)), "and no wait is longer");
        assert!(Taken::Unseen.is_awaited(ms(190)) && !Taken::Unseen.is_awaited(ms(200)));
    }

    #[test]
    fn what_is_no_drive_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = OpenedFile::open(folder.path(), true).unwrap_err();
        assert!(error.to_string().contains("neither a file nor a block device"), "{error}");
        let missing = OpenedFile::open(&folder.path().join("gone"), true).unwrap_err();
        assert!(missing.to_string().contains("gone"), "{missing}");
    }
}
