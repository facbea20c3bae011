//! On which sockets is NBD spoken, and with whom? Those of the configuration, and those that systemd has
//! opened.

use crate::config::PoolConfig;
use crate::config::access::{TlsUse, Way};
use crate::failure::{ConfigFault, Failure};
use anyhow::Result;
use std::path::Path;
use tandem_fronts::nbd::{Access, TlsMode, TlsServer};
use tandem_live::listen::{Address, Listener};

/// A socket that listens, and who may come in there.
pub struct Entrance {
    /// The socket.
    pub listener: Listener,
    /// Who.
    pub access: Access,
}

/// Reads and checks the certificates, if the configuration names some. Asked before anything else is
/// touched.
///
/// # Errors
/// What is wrong with which of them.
pub fn certificates(path: &Path, pool: &PoolConfig) -> Result<Option<TlsServer>, ConfigFault> {
    let Some((folder, line)) = &pool.serve.certificates else { return Ok(None) };
    let loaded = TlsServer::load(folder, pool.serve.verify_clients);
    loaded.map(Some).map_err(|why| ConfigFault {
        file: path.display().to_string(),
        line: Some(*line),
        text: why.to_string(),
    })
}

/// All listening sockets. One that systemd has opened already is not opened again; what the configuration
/// says of it holds.
///
/// # Errors
/// If one is in use, the system refuses, or systemd has opened one that anybody could reach.
pub fn nbd(
    pool: &PoolConfig,
    inherited: Vec<Listener>,
    certificates: Option<&TlsServer>,
) -> Result<Vec<Entrance>, Failure> {
    let mut entrances: Vec<Entrance> = Vec::new();
    for listener in inherited {
        let found = listener.address().and_then(|address| {
            let same = |way: &&Way| way.address == address || absolute(&way.address) == address;
            pool.serve.nbd.iter().find(same).cloned().or(Some(Way::plain(address)))
        });
        let way = found.unwrap_or_else(|| Way::plain(Address::Unix("?".into())));
        if let Some(text) = way.lacks(&pool.serve) {
            return Err(Failure::Usage(format!("the socket of systemd: {text}")));
        }
        entrances.push(Entrance { listener, access: access(&way, certificates) });
    }
    let theirs: Vec<Address> =
        entrances.iter().filter_map(|entrance| entrance.listener.address()).collect();
    for way in &pool.serve.nbd {
        if !theirs.contains(&absolute(&way.address)) && !theirs.contains(&way.address) {
            let listener = Listener::bind_as(&way.address, pool.serve.allow_remote, way.mode);
            let listener = listener.map_err(anyhow::Error::from)?;
            entrances.push(Entrance { listener, access: access(way, certificates) });
        }
    }
    entrances.iter().filter_map(told).for_each(|line| tracing::warn!("{line}"));
    Ok(entrances)
}

fn access(way: &Way, certificates: Option<&TlsServer>) -> Access {
    let tls = match (way.tls, certificates) {
        (TlsUse::Allow, Some(server)) => TlsMode::Allow(server.clone()),
        (TlsUse::Require, Some(server)) => TlsMode::Require(server.clone()),
        (TlsUse::Off, _) => TlsMode::Off,
        (_, None) => unreachable!("the configuration is refused without certificates"),
    };
    Access { addresses: way.allow.clone(), tls }
}

/// Who can write through a TCP socket, where that is not who shows a certificate.
fn told(entrance: &Entrance) -> Option<String> {
    let Some(Address::Tcp(address)) = entrance.listener.address() else { return None };
    let knows = entrance.access.tls.is_required()
        && entrance.access.tls.server().is_some_and(TlsServer::verifies_clients);
    if knows {
        return None;
    }
    let plainly =
        if entrance.access.tls.is_required() { "" } else { ", and what they say is not encrypted" };
    Some(if address.ip().is_loopback() {
        format!(
            "NBD at {address}: every local user can read and write the volumes through it; a Unix socket \
             has a mode and a group, and tls = \"require\" asks for certificates"
        )
    } else {
        format!(
            "NBD at {address}: everybody at an address of its `allow` can read and write{plainly}"
        )
    })
}

fn absolute(address: &Address) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(std::path::absolute(path).unwrap_or(path.clone())),
        tcp => tcp.clone(),
    }
}

/// What NBD's own tools call this way to a volume, where a name can be given.
pub fn uri(entrance: &Entrance, volume: &str) -> Option<String> {
    let s = if entrance.access.tls.is_required() { "s" } else { "" };
    Some(match absolute(&entrance.listener.address()?) {
        Address::Unix(path) => format!("nbd{s}+unix:///{volume}?socket={}", escaped(&path)),
        Address::Tcp(address) => format!("nbd{s}://{address}/{volume}"),
    })
}

/// A path within a URI: what has a meaning there is written as `%XX`.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(address: &Address) -> Entrance {
        let listener = Listener::bind(address, false).expect("bound");
        Entrance { listener, access: Access::default() }
    }

    #[test]
    fn uris_are_those_of_the_nbd_tools() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a b+c.sock");
        let unix = open(&Address::Unix(path));
        let base = folder.path().display();
        let want = format!("nbd+unix:///vol0?socket={base}/a%20b%2Bc.sock");
        assert_eq!(uri(&unix, "vol0"), Some(want));
        let tcp = open(&"127.0.0.1:0".parse().expect("good"));
        let port = tcp.listener.tcp_address().expect("bound").port();
        assert_eq!(uri(&tcp, "vol0"), Some(format!("nbd://127.0.0.1:{port}/vol0")));
        assert!(told(&unix).is_none());
        assert!(told(&tcp).is_some_and(|line| line.contains("every local user")), "it is told");
    }
}
