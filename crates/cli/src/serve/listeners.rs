//! On which sockets is NBD spoken? Those of the configuration, and those that systemd has opened.

use crate::config::PoolConfig;
use anyhow::Result;
use std::path::Path;
use tandem_live::listen::{Address, Listener};

/// All listening sockets. One that systemd has opened already is not opened again.
///
/// # Errors
/// If one is in use or the system refuses.
pub fn nbd(pool: &PoolConfig, inherited: Vec<Listener>) -> Result<Vec<Listener>> {
    let mut all = inherited;
    let theirs: Vec<Address> = all.iter().filter_map(Listener::address).collect();
    for address in &pool.serve.nbd {
        if !theirs.contains(&absolute(address)) && !theirs.contains(address) {
            all.push(Listener::bind(address, pool.serve.allow_remote)?);
        }
    }
    Ok(all)
}

fn absolute(address: &Address) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(std::path::absolute(path).unwrap_or(path.clone())),
        tcp => tcp.clone(),
    }
}

/// What NBD's own tools call this way to a volume, where a name can be given.
pub fn uri(listener: &Listener, volume: &str) -> Option<String> {
    Some(match absolute(&listener.address()?) {
        Address::Unix(path) => format!("nbd+unix:///{volume}?socket={}", escaped(&path)),
        Address::Tcp(address) => format!("nbd://{address}/{volume}"),
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

    #[test]
    fn uris_are_those_of_the_nbd_tools() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a b+c.sock");
        let unix = Listener::bind(&Address::Unix(path), false).expect("bound");
        let base = folder.path().display();
        let want = format!("nbd+unix:///vol0?socket={base}/a%20b%2Bc.sock");
        assert_eq!(uri(&unix, "vol0"), Some(want));
        let tcp = Listener::bind(&"127.0.0.1:0".parse().expect("good"), false).expect("bound");
        let port = tcp.tcp_address().expect("bound").port();
        assert_eq!(uri(&tcp, "vol0"), Some(format!("nbd://127.0.0.1:{port}/vol0")));
    }
}
