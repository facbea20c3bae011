//! Where do users knock? Unix sockets, TCP on loopback, or sockets that systemd has opened.

mod unix;

use crate::uring::adopt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};
pub use unix::SocketMode;

/// How long a TCP port that is taken is tried again.
const PORT_WAIT: Duration = Duration::from_secs(1);
const PORT_RETRY: Duration = Duration::from_millis(10);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system: `unix:PATH`.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(SocketAddr),
}

/// Why nobody can knock there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Not an address.
    #[error("'{0}' is no address; write unix:PATH, or HOST:PORT like 127.0.0.1:10809")]
    Syntax(String),
    /// A server answers there.
    #[error("{0} is in use: a server answers there; stop it or choose another address")]
    InUse(String),
    /// Something that is not a socket lies there.
    #[error("{} exists and is not a socket; remove it or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// Anyone in the network could write to the volumes.
    #[error(
        "{0} can be reached from other machines, and NBD knows no passwords; use 127.0.0.1, or \
         allow remote clients explicitly"
    )]
    Remote(SocketAddr),
    /// The socket's file cannot be given to this group.
    #[error(
        "cannot give {address} to group {group}: {source}; a user other than root may name groups that he \
         belongs to"
    )]
    Group {
        /// Where.
        address: String,
        /// Its number.
        group: u32,
        /// Why.
        source: io::Error,
    },
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl FromStr for Address {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Address, ListenError> {
        let wrong = || ListenError::Syntax(text.into());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Address::Unix(path.into())) };
        }
        let mut found = text.to_socket_addrs().map_err(|_| wrong())?;
        found.next().map(Address::Tcp).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
    Inherited(std::os::fd::OwnedFd),
}

/// A socket that listens. Dropping it removes its file, if it is still the same file.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// Path, device and inode of the socket's file.
    file: Option<(PathBuf, u64, u64)>,
}

impl Listener {
    /// As [`Listener::bind_as`]; who runs this process may open a Unix socket, and nobody else.
    ///
    /// # Errors
    /// If a server answers there, or the system refuses.
    pub fn bind(address: &Address, allow_remote: bool) -> Result<Listener, ListenError> {
        Self::bind_as(address, allow_remote, SocketMode::default())
    }

    /// Listens on `address`. A stale Unix socket, to which nobody answers, is replaced; `mode` is whom its
    /// file lets in. TCP addresses other than loopback need `allow_remote`.
    ///
    /// # Errors
    /// If a server answers there, or the system refuses.
    pub fn bind_as(
        address: &Address,
        allow_remote: bool,
        mode: SocketMode,
    ) -> Result<Listener, ListenError> {
        let system = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse(address.to_string()),
            _ => ListenError::System { address: address.to_string(), source },
        };
        match address {
            Address::Tcp(tcp) => {
                if !tcp.ip().is_loopback() && !allow_remote {
                    return Err(ListenError::Remote(*tcp));
                }
                let socket = bind_tcp(tcp).map_err(system)?;
                Ok(Listener { socket: Socket::Tcp(socket), file: None })
            }
            Address::Unix(path) => {
                unix::remove_stale(path)?;
                let socket = unix::bind(path, mode)?;
                let meta = std::fs::symlink_metadata(path).map_err(system)?;
                let file = Some((path.clone(), meta.dev(), meta.ino()));
                Ok(Listener { socket: Socket::Unix(socket), file })
            }
        }
    }

    /// What to accept from.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Inherited(socket) => socket.as_fd(),
        }
    }

    /// Where it listens, if that can be named.
    pub fn address(&self) -> Option<Address> {
        let unix = |socket: &UnixListener| {
            socket.local_addr().ok()?.as_pathname().map(|path| Address::Unix(path.into()))
        };
        let tcp = |socket: &TcpListener| socket.local_addr().ok().map(Address::Tcp);
        match &self.socket {
            Socket::Unix(socket) => unix(socket),
            Socket::Tcp(socket) => tcp(socket),
            Socket::Inherited(socket) => {
                let copy = || socket.try_clone().ok();
                unix(&copy()?.into()).or_else(|| tcp(&copy()?.into()))
            }
        }
    }

    /// The TCP address it got, for port 0.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            _ => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, device, inode)) = &self.file else { return };
        let same = std::fs::symlink_metadata(path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == (*device, *inode));
        if same {
            // losing this race leaves a stale socket, which the next server takes over
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The ring of a killed server lets go of its sockets only some time after the process is gone, so a
/// port that is taken is tried again for a while.
fn bind_tcp(address: &SocketAddr) -> io::Result<TcpListener> {
    let begin = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse && begin.elapsed() < PORT_WAIT => {
                std::thread::sleep(PORT_RETRY);
            }
            answer => return answer,
        }
    }
}

/// Sockets that systemd passed to this process (`LISTEN_FDS`), in its order. Call once.
///
/// # Errors
/// If the environment says something that is no number.
pub fn inherited() -> io::Result<Vec<Listener>> {
    let sockets = sd_notify::listen_fds()?;
    Ok(sockets.map(|fd| Listener { socket: Socket::Inherited(adopt(fd)), file: None }).collect())
}

/// Tells systemd that requests are welcome. Without systemd nothing happens.
pub fn notify_ready() {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Tells systemd that the pool is being closed.
pub fn notify_stopping() {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["unix:/run/tandem.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "10809", "127.0.0.1", "127.0.0.1:port"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("is no address"), "{text}: {error}");
        }
    }

    #[test]
    fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap()); // leaves its file behind, as a crash does
        let first = Listener::bind(&address, false).unwrap();
        let second = Listener::bind(&address, false).unwrap_err();
        assert!(matches!(second, ListenError::InUse(_)), "{second}");
        drop(first);
        assert!(!path.exists(), "a clean end removes the socket");
        std::fs::write(&path, "text").unwrap();
        assert!(matches!(Listener::bind(&address, false), Err(ListenError::NotASocket(_))));
    }

    #[test]
    fn only_loopback_unless_asked_for_by_name() {
        let open = "0.0.0.0:0".parse().unwrap();
        assert!(matches!(Listener::bind(&open, false), Err(ListenError::Remote(_))));
        assert!(Listener::bind(&open, true).is_ok());
        let local = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).unwrap();
        assert_ne!(local.tcp_address().unwrap().port(), 0);
    }
}
