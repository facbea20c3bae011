//! Unix sockets that listen. Whom does the socket's file let in, and is it left over from a killed server?

use super::ListenError;
use rustix::fs::{AtFlags, Gid, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Connections that wait in a socket's queue at most, if the system's own bound is no lower.
const BACKLOG: i32 = 4096;

/// Permissions of a Unix socket's file: who may write to it may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode {
    /// Its mode. Default 0600.
    pub mode: u32,
    /// Its group by number; `None`: that of who runs this process.
    pub group: Option<u32>,
}

impl Default for SocketMode {
    fn default() -> Self {
        SocketMode { mode: 0o600, group: None }
    }
}

/// Listens at `path`, where nothing may be. Mode and group are set before the socket listens, so nobody
/// gets in before: until then a connection is refused.
pub(super) fn bind(path: &Path, mode: SocketMode) -> Result<UnixListener, ListenError> {
    let address = || format!("unix:{}", path.display());
    let system = |errno: Errno| match errno {
        Errno::ADDRINUSE => ListenError::InUse(address()),
        errno => ListenError::System { address: address(), source: errno.into() },
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(system)?;
    let name = SocketAddrUnix::new(path).map_err(system)?;
    rustix::net::bind(&socket, &name).map_err(system)?;
    let permit = || {
        let here = rustix::fs::CWD;
        if let Some(group) = mode.group {
            let to = Some(Gid::from_raw(group));
            let given = rustix::fs::chownat(here, path, None, to, AtFlags::SYMLINK_NOFOLLOW);
            given.map_err(|errno| ListenError::Group {
                address: address(),
                group,
                source: errno.into(),
            })?;
        }
        let bits = Mode::from_raw_mode(mode.mode);
        rustix::fs::chmodat(here, path, bits, AtFlags::empty()).map_err(system)?;
        rustix::net::listen(&socket, BACKLOG).map_err(system)
    };
    if let Err(why) = permit() {
        // what was just made; if it cannot be removed it is stale, and is taken over by the next server
        let _ = std::fs::remove_file(path);
        return Err(why);
    }
    Ok(UnixListener::from(socket))
}

/// Does the process live that listens at the other end? If the system does not tell: yes.
fn answers(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return true };
    u32::try_from(peer.pid.as_raw_nonzero().get()).map_or(true, crate::device::is_alive)
}

/// Removes a socket to which nobody answers, or only a server that has been killed.
pub(super) fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.into()));
    }
    let address = format!("unix:{}", path.display());
    match UnixStream::connect(path) {
        Ok(stream) if answers(&stream) => return Err(ListenError::InUse(address)),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(source) => return Err(ListenError::System { address, source }),
    }
    tracing::info!("{address} is stale and is taken over");
    std::fs::remove_file(path).map_err(|source| ListenError::System { address, source })
}

#[cfg(test)]
mod tests {
    use super::super::{Address, Listener};
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    #[test]
    fn a_socket_has_the_mode_and_the_group_that_were_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("socket"));
        let group = rustix::process::getegid().as_raw();
        let asked = [
            (SocketMode::default(), 0o600),
            (SocketMode { mode: 0o660, group: Some(group) }, 0o660),
            (SocketMode { mode: 0o666, group: None }, 0o666),
        ];
        for (mode, want) in asked {
            let listener = Listener::bind_as(&address, false, mode).unwrap();
            let meta = std::fs::metadata(folder.path().join("socket")).unwrap();
            println!("measured: a socket asked to be {want:04o} is {:o}", meta.mode());
            assert_eq!((meta.permissions().mode() & 0o7777, meta.gid()), (want, group));
            UnixStream::connect(folder.path().join("socket")).unwrap();
            drop(listener);
        }
    }

    #[test]
    fn a_group_that_cannot_be_given_leaves_nothing_behind() {
        if rustix::process::geteuid().is_root() {
            println!("skipped: root may give files to any group");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mode = SocketMode { mode: 0o660, group: Some(0) };
        let error = bind(&path, mode).unwrap_err();
        assert!(error.to_string().contains("group 0"), "{error}");
        assert!(!path.exists());
    }
}
