//! How does the mount come and go, and what is in its way?
//!
//! `fuser` mounts, negotiates and unmounts; requests are then read from its descriptor by the
//! event loop's own thread (see [`super::FuseServer`]), so its loop is never run.

use super::tree::Agreed;
use fuser::{Config, Filesystem, InitFlags, KernelConfig, MountOption, Session, SessionACL};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Largest read or write that the kernel sends, in bytes; larger ones it splits.
pub const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Asynchronous requests of the kernel under way at once. Its own default, 12, starves a queue of
/// 32 (two jobs at depth 32 need 64).
const BACKGROUND_MAX: u16 = 256;
const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// What the helper asks before it lets others in.
const HELPER_CONFIG: &str = "/etc/fuse.conf";
/// What our mounts are called.
pub(super) const NAME: &str = "tandem";
/// Dead mounts on top of each other that are taken away.
const STALE_MOUNTS_MAX: usize = 8;

/// Why a volume cannot be shown as a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuseError {
    /// A server was killed here, and its mount cannot be taken over.
    #[error(
        "{} is a dead mount, of another program or not ours to clear away; run `fusermount3 -u {}` (with -z if \
         it is busy) and start again", .0.display(), .0.display()
    )]
    Stale(PathBuf),
    /// Nothing there.
    #[error("the mount point {} does not exist; make it with `mkdir -p {}`", .0.display(), .0.display())]
    Missing(PathBuf),
    /// Something else there.
    #[error("the mount point {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Something is mounted there.
    #[error(
        "something is mounted on {} already; unmount it (`fusermount3 -u {}`) or choose another \
         directory", .0.display(), .0.display()
    )]
    Occupied(PathBuf),
    /// Files would be hidden.
    #[error("the mount point {} is not empty; its files would be hidden: choose an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// It cannot be looked at.
    #[error("the mount point {} cannot be used: {source}", .point.display())]
    Point {
        /// Which.
        point: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel has no FUSE.
    #[error(
        "{DEVICE} does not exist: load the kernel module (`modprobe fuse`), or start the container \
         with `--device /dev/fuse`"
    )]
    NoDevice,
    /// No right to FUSE.
    #[error("{DEVICE} cannot be opened: {0}")]
    Device(io::Error),
    /// Not root, and no help.
    #[error("{HELPER} is not in PATH; without being root it is needed: install the package fuse3")]
    NoHelper,
    /// Not root, and others shall come in.
    #[error(
        "{HELPER_CONFIG} does not let users open their mounts to others (allow_other): add a line \
         user_allow_other to it, start as root, or leave it to yourself"
    )]
    OthersForbidden,
    /// A volume that cannot be a file.
    #[error("the volume's name {0:?} cannot be the name of a file")]
    Name(String),
    /// The kernel said no.
    #[error("{} could not be mounted: {source}", .point.display())]
    Mount {
        /// Where.
        point: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whom does the kernel let in? What they may do there their permissions say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The user who mounted it, and nobody else.
    #[default]
    Owner,
    /// All users of this machine.
    Everybody,
}

impl Reach {
    /// May this process open a mount so far?
    fn check(self) -> Result<(), FuseError> {
        if self == Reach::Owner || rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let config = std::fs::read_to_string(HELPER_CONFIG).unwrap_or_default();
        if lets_others_in(&config) { Ok(()) } else { Err(FuseError::OthersForbidden) }
    }
}

/// Does the helper's configuration have the line?
fn lets_others_in(config: &str) -> bool {
    config.lines().any(|line| line.trim() == "user_allow_other")
}

/// Is `point` fit to be mounted on?
///
/// # Errors
/// What is in the way, and what to do about it.
pub fn check_point(point: &Path) -> Result<(), FuseError> {
    let owned = || point.to_path_buf();
    let failed = |source: io::Error| match Errno::from_io_error(&source) {
        // the second is what a request hears that was asked before the server was quite dead
        Some(Errno::NOTCONN | Errno::CONNABORTED) => FuseError::Stale(owned()),
        Some(Errno::NOENT) => FuseError::Missing(owned()),
        _ => FuseError::Point { point: owned(), source },
    };
    let found = std::fs::metadata(point).map_err(failed)?;
    if !found.is_dir() {
        return Err(FuseError::NotADirectory(owned()));
    }
    // attributes may come from the kernel's memory; a list needs a server that lives
    let is_empty = std::fs::read_dir(point).map_err(failed)?.next().is_none();
    let parent = std::fs::metadata(point.join("..")).map_err(failed)?;
    if parent.dev() != found.dev() || parent.ino() == found.ino() {
        return Err(FuseError::Occupied(owned()));
    }
    if !is_empty {
        return Err(FuseError::NotEmpty(owned()));
    }
    Ok(())
}

/// Makes `point` fit to be mounted on: the dead mount of a server like this one is taken over, as a
/// stale socket is. One that lives is in the way, and so is the dead mount of another program.
fn clear_point(point: &Path) -> Result<(), FuseError> {
    for _ in 0..STALE_MOUNTS_MAX {
        match check_point(point) {
            Err(FuseError::Stale(_)) if is_ours(point) && detach(point) => {
                tracing::warn!(
                    "{}: the mount of a server that was killed is taken over; who still has its \
                     files open gets errors",
                    point.display()
                );
            }
            answer => return answer,
        }
    }
    check_point(point)
}

/// Did a server like this one mount what is mounted on `point`?
fn is_ours(point: &Path) -> bool {
    // the point itself cannot be asked: nobody answers there
    let (Some(parent), Some(name)) = (point.parent(), point.file_name()) else { return false };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(parent) = parent.canonicalize() else { return false };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // the system's helper tells the subtype, the system call alone does not
    matches!(mounted_on(&mounts, &parent.join(name)), Some(("fuse.tandem", _) | ("fuse", NAME)))
}

/// Kind and source of the mount on top of a point: `36 35 98:0 / /point rw,noatime - KIND source options`,
/// with blanks and the like in octal.
fn mounted_on<'a>(mountinfo: &'a str, point: &Path) -> Option<(&'a str, &'a str)> {
    let escaped: String = point
        .to_str()?
        .chars()
        .map(|c| match c {
            ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    let found = mountinfo.lines().rev().find_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let mut what = what.split(' ');
        (place.split(' ').nth(4)? == escaped).then(|| Some((what.next()?, what.next()?)))
    });
    found.flatten()
}

/// Takes the mount out of the tree, whoever uses it.
fn detach(point: &Path) -> bool {
    if rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH).is_ok() {
        return true;
    }
    let mut helper = std::process::Command::new(HELPER);
    helper.args(["-u", "-z", "--"]).arg(point).status().is_ok_and(|status| status.success())
}

/// Is there a FUSE to use?
fn check_kernel() -> Result<(), FuseError> {
    match std::fs::File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(FuseError::NoDevice),
        Err(error) => return Err(FuseError::Device(error)),
    }
    let in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(HELPER).is_file())
    };
    let named = std::env::var_os("FUSERMOUNT_PATH").is_some();
    if rustix::process::geteuid().is_root() || named || in_path() {
        return Ok(());
    }
    Err(FuseError::NoHelper)
}

/// What is asked of the kernel.
struct Negotiation {
    /// For files of all kinds.
    of_tree: bool,
    /// What it has agreed to, once it was asked.
    agreed: Arc<OnceLock<Agreed>>,
}

impl Filesystem for Negotiation {
    fn init(&mut self, _request: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        let size = u32::try_from(TRANSFER_BYTES_MAX).expect("1 MiB");
        // both are within the library's limits
        let _ = config.set_max_write(size);
        let _ = config.set_max_background(BACKGROUND_MAX);
        // without it, asynchronous requests of one caller run one after the other
        if config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).is_err() {
            tracing::warn!(
                "this kernel's FUSE has no asynchronous direct I/O; depth will not help"
            );
        }
        if self.of_tree {
            let mut agrees = |flag| config.add_capabilities(flag).is_ok();
            let agreed = Agreed {
                direct: agrees(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP),
                strips: agrees(InitFlags::FUSE_HANDLE_KILLPRIV_V2),
            };
            self.agreed.set(agreed).expect("a mount is negotiated once");
        }
        Ok(())
    }
}

/// A mounted directory; dropping it unmounts.
pub struct Mount {
    point: PathBuf,
    session: Option<Session<Negotiation>>,
    agreed: Agreed,
}

impl Mount {
    /// Mounts; gives the descriptor on which the kernel's requests arrive, which never blocks.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn new(point: &Path, source: &str) -> Result<(Mount, OwnedFd), FuseError> {
        Mount::with(point, source, false, Reach::Owner)
    }

    /// As [`Mount::new`], for files of all kinds, programs among them.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn of_tree(
        point: &Path,
        source: &str,
        reach: Reach,
    ) -> Result<(Mount, OwnedFd), FuseError> {
        Mount::with(point, source, true, reach)
    }

    fn with(
        point: &Path,
        source: &str,
        of_tree: bool,
        reach: Reach,
    ) -> Result<(Mount, OwnedFd), FuseError> {
        clear_point(point)?;
        reach.check()?;
        check_kernel()?;
        let failed = |source| FuseError::Mount { point: point.to_path_buf(), source };
        let point = point.canonicalize().map_err(failed)?;
        let mut config = Config::default();
        config.acl = match reach {
            Reach::Owner => SessionACL::Owner,
            Reach::Everybody => SessionACL::All,
        };
        config.mount_options = vec![
            MountOption::FSName(source.to_owned()),
            MountOption::Subtype(NAME.into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            if of_tree { MountOption::Exec } else { MountOption::NoExec },
        ];
        let agreed = Arc::default();
        let negotiation = Negotiation { of_tree, agreed: Arc::clone(&agreed) };
        let session = Session::new(negotiation, &point, &config)
            .map_err(|source| FuseError::Mount { point: point.clone(), source })?;
        let agreed = agreed.get().copied().unwrap_or_default();
        let mount = |session| Mount { point: point.clone(), session: Some(session), agreed };
        let fd = match nonblocking(&session) {
            Ok(fd) => fd,
            Err(source) => {
                drop(mount(session));
                return Err(FuseError::Mount { point, source });
            }
        };
        Ok((mount(session), fd))
    }

    /// Somebody else has unmounted it: whatever is mounted there from now on is not ours to unmount.
    pub fn was_unmounted(&mut self) {
        // its end would unmount the point; what is leaked is a descriptor of a mount that is gone
        if let Some(session) = self.session.take() {
            std::mem::forget(session);
        }
    }

    /// What the kernel has agreed to.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

fn nonblocking(session: &Session<Negotiation>) -> io::Result<OwnedFd> {
    let fd = session.as_fd().try_clone_to_owned()?;
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

impl Drop for Mount {
    /// Unmounts; if somebody still has a file open, the name goes at once and the rest with the
    /// last user, whose requests fail from now on.
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else { return };
        let Err(error) = session.unmount() else { return };
        tracing::warn!(
            "{} is in use ({error}); it is detached, and who still uses its files gets errors",
            self.point.display()
        );
        if !detach(&self.point) {
            let point = self.point.display();
            tracing::error!("{point} stays mounted; run `fusermount3 -u -z {point}`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_point(folder.path()).is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(check_point(&file), Err(FuseError::NotADirectory(_))));
        assert!(matches!(check_point(folder.path()), Err(FuseError::NotEmpty(_))));
        assert!(matches!(check_point(Path::new("/proc")), Err(FuseError::Occupied(_))));
        // what lives is never taken away
        assert!(matches!(clear_point(Path::new("/proc")), Err(FuseError::Occupied(_))));
        let missing = check_point(&folder.path().join("nothing")).unwrap_err();
        assert!(missing.to_string().contains("mkdir -p"), "{missing}");
    }
    #[test]
    fn the_helper_lets_others_in_by_a_line_of_its_own() {
        assert!(lets_others_in("# x\n\nuser_allow_other\nmount_max = 5\n"));
        assert!(lets_others_in(" user_allow_other \n"));
        assert!(!lets_others_in("# user_allow_other\nuser_allow_others\n"));
    }

    #[test]
    fn the_newest_mount_on_a_point_is_found() {
        let text = "36 35 0:31 / / rw - ext4 /dev/x rw\n\
                    40 36 0:50 / /a\\040b rw,noatime shared:3 - fuse.tandem tandem rw\n\
                    41 36 0:51 / /c rw - fuse.tandem tandem rw\n\
                    42 41 0:52 / /c rw - fuse.sshfs host: rw\n";
        let kind = |point| mounted_on(text, Path::new(point));
        assert_eq!(kind("/a b"), Some(("fuse.tandem", "tandem")));
        assert_eq!(kind("/c"), Some(("fuse.sshfs", "host:")), "not ours to take away");
        assert_eq!(kind("/"), Some(("ext4", "/dev/x")));
        assert_eq!(kind("/d"), None);
    }
}
