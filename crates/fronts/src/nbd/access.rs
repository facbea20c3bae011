//! Access to volumes over NBD. Which addresses may connect through a listener, must they use TLS, and which
//! exports may a client that named itself use?

use super::export::Export;
use super::tls::TlsServer;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::str::FromStr;
use tandem_block::{Duration, Instant};

/// Clients that were turned away are told of in the log this often: a stranger decides how many there are.
const TELL_EVERY: Duration = Duration::from_s(10);

/// Who may come in through one listener.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Addresses that may connect over TCP; none: all of them. Without a meaning for Unix sockets.
    pub addresses: Vec<IpNet>,
    /// May, or must, a client use TLS?
    pub tls: TlsMode,
}

/// TLS on one listener.
#[derive(Clone, Debug, Default)]
pub enum TlsMode {
    /// There is none.
    #[default]
    Off,
    /// Who asks for it gets it.
    Allow(TlsServer),
    /// Nothing is served without it.
    Require(TlsServer),
}

impl TlsMode {
    /// The certificates, where there is TLS.
    pub fn server(&self) -> Option<&TlsServer> {
        match self {
            TlsMode::Off => None,
            TlsMode::Allow(server) | TlsMode::Require(server) => Some(server),
        }
    }

    /// Must everybody use it?
    pub fn is_required(&self) -> bool {
        matches!(self, TlsMode::Require(_))
    }
}

impl Access {
    /// May a client connect from there? Unix sockets have their file's permissions instead.
    pub fn admits(&self, peer: Option<SocketAddr>) -> bool {
        let Some(peer) = peer else { return true };
        // a socket that takes both kinds shows IPv4 as ::ffff:a.b.c.d
        let address: IpAddr = peer.ip().to_canonical();
        self.addresses.is_empty() || self.addresses.iter().any(|net| net.contains(&address))
    }
}

/// The other end of a TCP connection.
pub(super) fn peer(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getpeername(socket).ok()??).ok()
}

/// What is no address and no range of addresses, with what would be one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address or range of addresses: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

/// Reads `"10.0.0.7"`, `"10.0.0.0/24"`, `"fd00::/8"`.
///
/// # Errors
/// If it is none, with what was meant where that can be seen.
pub fn parse_addresses(text: &str) -> Result<IpNet, AddressError> {
    let wrong = |why: String| AddressError { text: text.into(), why };
    if let Ok(address) = IpAddr::from_str(text) {
        return Ok(IpNet::from(address));
    }
    let usual = || "write it as \"10.0.0.7\", \"10.0.0.0/24\" or \"fd00::/8\"".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(|| wrong(usual()))?;
    let Ok(address) = IpAddr::from_str(address) else { return Err(wrong(usual())) };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let net = bits.parse::<u8>().ok().and_then(|bits| IpNet::new(address, bits).ok());
    let net = net.ok_or_else(|| wrong(format!("behind '/' stand 0 to {most} bits")))?;
    if net.trunc() != net {
        let why = format!(
            "it names bits behind the range: did you mean \"{}\" or \"{address}\"?",
            net.trunc()
        );
        return Err(wrong(why));
    }
    Ok(net)
}

/// Which exports may be used by whom: by names in certificates. Empty: everybody uses everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients(Vec<Client>);

/// What one client may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its certificate's common name, or a DNS name in it.
    pub name: String,
    /// Names of exports.
    pub exports: Vec<String>,
}

impl Clients {
    /// These.
    pub fn new(clients: Vec<Client>) -> Clients {
        Clients(clients)
    }

    /// Is nobody told from others?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// May a client with these names use an export? Who may use a volume may read its snapshots, too.
    pub fn may_use(&self, names: &[String], export: &Export) -> bool {
        let volume = export.name.split_once('@').map_or(&export.name[..], |(volume, _)| volume);
        let is_theirs =
            |client: &&Client| names.iter().any(|name| name.eq_ignore_ascii_case(&client.name));
        let mut theirs = self.0.iter().filter(is_theirs).flat_map(|client| &client.exports);
        self.0.is_empty() || theirs.any(|known| known == volume)
    }

    /// Those of `exports` that it may use.
    pub fn offered(&self, names: &[String], exports: &Rc<[Export]>) -> Rc<[Export]> {
        if self.0.is_empty() {
            return Rc::clone(exports);
        }
        exports.iter().filter(|export| self.may_use(names, export)).cloned().collect()
    }
}

/// Lines of the log of which strangers decide how many there could be: one now and then.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    untold: u64,
    tell_at: Option<Instant>,
}

impl Seldom {
    /// Warns of `what`, unless something was told a moment ago; then it is counted.
    pub fn warn(&mut self, now: Instant, what: impl std::fmt::Display) {
        if self.tell_at.is_some_and(|at| now < at) {
            self.untold += 1;
            return;
        }
        self.tell_at = Some(now + TELL_EVERY);
        match std::mem::take(&mut self.untold) {
            0 => tracing::warn!("{what}"),
            more => tracing::warn!("{what} (and {more} like it since the last line)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::ObjectId;

    fn from(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn only_listed_addresses_are_admitted() {
        let listed = |list: &[&str]| Access {
            addresses: list.iter().map(|text| parse_addresses(text).unwrap()).collect(),
            tls: TlsMode::Off,
        };
        let access = listed(&["10.1.0.0/16", "192.168.7.9", "fd00::/8"]);
        for (peer, want) in [
            ("10.1.255.3:40000", true),
            ("10.2.0.1:40000", false),
            ("192.168.7.9:1", true),
            ("192.168.7.10:1", false),
            ("[fd12::1]:5", true),
            ("[fe80::1]:5", false),
            // IPv4 on a socket of both kinds
            ("[::ffff:10.1.0.1]:5", true),
            ("[::ffff:10.2.0.1]:5", false),
        ] {
            assert_eq!(access.admits(from(peer)), want, "{peer}");
        }
        assert!(access.admits(None), "a Unix socket has a mode");
        assert!(listed(&[]).admits(from("8.8.8.8:1")));
        assert!(!listed(&["0.0.0.0/0"]).admits(from("[fd00::1]:1")));
    }

    #[test]
    fn an_address_list_with_a_typo_says_what_was_meant() {
        for (text, words) in [
            ("10.0.0.256", "10.0.0.0/24"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("10.0.0.7/24", "did you mean \"10.0.0.0/24\" or \"10.0.0.7\""),
            ("fd00::/129", "0 to 128 bits"),
            ("10.0.0.0/", "0 to 32 bits"),
            ("10.0.0", "10.0.0.0/24"),
            ("example.com", "10.0.0.0/24"),
            ("", "10.0.0.0/24"),
        ] {
            let error = parse_addresses(text).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains(&format!("{text:?}")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn clients_see_what_they_may_use() {
        let export = |name: &str| Export {
            name: name.into(),
            object: ObjectId(1),
            size_bytes: 4096,
            read_only: false,
            stream: None,
        };
        let all: Rc<[Export]> =
            ["vol0", "vol1", "database", "vol0@monday"].map(export).into_iter().collect();
        let client = |name: &str, exports: &[&str]| Client {
            name: name.into(),
            exports: exports.iter().map(|&name| name.into()).collect(),
        };
        let clients = Clients::new(vec![
            client("db1.example", &["database"]),
            client("backup", &["vol0"]),
            client("backup", &["vol1"]),
        ]);
        for (names, want) in [
            (&["DB1.example"][..], &["database"][..]),
            (&["x", "backup"], &["vol0", "vol1", "vol0@monday"]),
            (&["db1.example.com"], &[]),
            (&[], &[]),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
            let offered = clients.offered(&names, &all);
            let offered: Vec<&str> = offered.iter().map(|export| &export.name[..]).collect();
            assert_eq!(offered, want, "{names:?}");
        }
        assert_eq!(Clients::default().offered(&[], &all).len(), 4);
    }
}
