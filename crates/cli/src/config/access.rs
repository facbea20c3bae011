//! Who may come in? The sockets of a pool with their modes, addresses and TLS, and what clients may use.
//!
//! What anybody in a network could reach needs more than a listening socket: `allow_remote`, and a way to
//! tell who comes.

use super::file::{self, Client, Listen};
use super::{PoolVolume, Serve, check};
use crate::toml_fault::Fault;
use ipnet::IpNet;
use std::path::Path;
use tandem_fronts::nbd::{AllowedClient, Clients, parse_addresses};
use tandem_live::listen::{Address, SocketMode};
use tandem_traces::spell;
use toml::Spanned;

/// Ranges of addresses of one socket at most.
const ALLOW_MAX: usize = 256;
/// Clients at most.
const CLIENTS_MAX: usize = 1024;

/// TLS of one socket, before certificates are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsUse {
    /// There is none.
    #[default]
    Off,
    /// Who asks for it gets it.
    Allow,
    /// Nothing is served without it.
    Require,
}

/// One socket of NBD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Where.
    pub address: Address,
    /// Whom the file of a Unix socket lets in.
    pub mode: SocketMode,
    /// TLS.
    pub tls: TlsUse,
    /// Addresses that may connect over TCP; none: all.
    pub allow: Vec<IpNet>,
}

impl Way {
    /// Without anything said of it.
    pub fn plain(address: Address) -> Way {
        Way { address, mode: SocketMode::default(), tls: TlsUse::Off, allow: Vec::new() }
    }

    /// Does every client show a certificate?
    pub fn knows_clients(&self, verify_clients: bool) -> bool {
        self.tls == TlsUse::Require && verify_clients
    }

    /// What is missing for a socket that other machines reach, if anything.
    pub fn lacks(&self, serve: &Serve) -> Option<String> {
        let Address::Tcp(tcp) = &self.address else { return None };
        if tcp.ip().is_loopback() {
            return None;
        }
        let knows = self.knows_clients(serve.verify_clients);
        if !serve.allow_remote {
            return Some(format!(
                "{tcp} can be reached by other machines: add allow_remote = true to [serve] if that is \
                 meant, and a way to tell who comes: {WAYS}"
            ));
        }
        (!knows && self.allow.is_empty()).then(|| {
            format!(
                "{tcp} can be reached by other machines, and everybody there could write: {WAYS}"
            )
        })
    }
}

/// How clients of other machines are told apart.
const WAYS: &str = "{ listen = \"…\", tls = \"require\" } with certificates = \"DIR\" in [serve], or \
                    { listen = \"…\", allow = [\"10.0.0.0/24\"] } with the addresses that may connect";

/// All sockets of NBD.
pub(super) fn ways(
    parsed: &file::Serve,
    serve: &mut Serve,
    folder: &Path,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<(), Fault> {
    serve.verify_clients = parsed.certificates.is_some() && parsed.verify_clients.unwrap_or(true);
    if let Some(value) = &parsed.certificates {
        let line = line_of(value.span().start);
        serve.certificates = Some((folder.join(value.get_ref()), line));
    }
    for value in &parsed.nbd {
        let way = way(value, folder)?;
        if serve.nbd.iter().any(|known| known.address == way.address) {
            let text = format!("{:?} is listed twice", value.get_ref().0.listen);
            return Err(Fault::at(value, text));
        }
        if way.tls != TlsUse::Off && serve.certificates.is_none() {
            let text = "TLS needs the server's certificates: add certificates = \"DIR\" to [serve], the \
                        folder of server-cert.pem, server-key.pem and ca-cert.pem";
            return Err(Fault::at(value, text));
        }
        if let Some(text) = way.lacks(serve) {
            return Err(Fault::at(value, text));
        }
        serve.nbd.push(way);
    }
    let has_tls = serve.nbd.iter().any(|way| way.tls != TlsUse::Off);
    if let (Some(value), false) = (&parsed.certificates, has_tls) {
        let text = "no socket uses TLS: write { listen = \"…\", tls = \"require\" } in nbd, or drop this key";
        return Err(Fault::at(value, text));
    }
    if parsed.verify_clients.is_some() && serve.certificates.is_none() {
        return Err(Fault::whole(
            "verify_clients says nothing without certificates = \"DIR\" in [serve]",
        ));
    }
    if let Some(value) = &parsed.control {
        let table = &value.get_ref().0;
        serve.control = Some(check::control(value, &table.path, folder)?);
        serve.control_mode = socket_mode(value, table.mode.as_deref(), table.group.as_deref())?;
    }
    Ok(())
}

fn way(value: &Spanned<Listen>, folder: &Path) -> Result<Way, Fault> {
    let Listen(table) = value.get_ref();
    let address = match table.listen.parse::<Address>() {
        Ok(Address::Unix(path)) => Address::Unix(folder.join(path)),
        Ok(tcp) => tcp,
        Err(why) => return Err(Fault::at(value, why.to_string())),
    };
    let known = [("off", TlsUse::Off), ("allow", TlsUse::Allow), ("require", TlsUse::Require)];
    let tls = match &table.tls {
        Some(word) => word_of(value, word, "tls", &known)?,
        None => TlsUse::Off,
    };
    let is_unix = matches!(address, Address::Unix(_));
    if !is_unix && (table.mode.is_some() || table.group.is_some()) {
        let text = "mode and group are of a Unix socket's file: drop them, or listen at unix:PATH";
        return Err(Fault::at(value, text));
    }
    let mode = socket_mode(value, table.mode.as_deref(), table.group.as_deref())?;
    let allow = match &table.allow {
        None => Vec::new(),
        Some(_) if is_unix => {
            let text = "a Unix socket has no addresses: say who may open it with mode and group";
            return Err(Fault::at(value, text));
        }
        Some(list) => addresses(value, list)?,
    };
    Ok(Way { address, mode, tls, allow })
}

fn addresses(value: &Spanned<Listen>, list: &[String]) -> Result<Vec<IpNet>, Fault> {
    if list.is_empty() {
        return Err(Fault::at(value, "allow is empty, so nobody could connect: name addresses"));
    }
    if list.len() > ALLOW_MAX {
        let text = format!("allow has at most {ALLOW_MAX} entries: name ranges of addresses");
        return Err(Fault::at(value, text));
    }
    let parsed = list.iter().map(|text| parse_addresses(text));
    parsed.collect::<Result<_, _>>().map_err(|why| Fault::at(value, format!("allow: {why}")))
}

fn word_of<T: Copy>(
    value: &Spanned<Listen>,
    word: &str,
    key: &str,
    known: &[(&str, T)],
) -> Result<T, Fault> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let nearest = spell::nearest(word, known.iter().map(|(name, _)| *name));
        Fault::at(value, format!("{key} cannot be {word:?}; did you mean {nearest:?}?"))
    })
}

/// The permissions of a socket's file.
fn socket_mode<T>(
    value: &Spanned<T>,
    mode: Option<&str>,
    group: Option<&str>,
) -> Result<SocketMode, Fault> {
    let mut found = SocketMode::default();
    if let Some(text) = mode {
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| bits & !0o666 == 0);
        found.mode = bits.filter(|bits| bits & 0o600 == 0o600).ok_or_else(|| {
            let text = format!(
                "mode is written as \"0600\" (this user), \"0660\" (and a group) or \"0666\" (everybody), \
                 unlike {text:?}"
            );
            Fault::at(value, text)
        })?;
    }
    if let Some(name) = group {
        found.group = Some(group_of(name).map_err(|text| Fault::at(value, text))?);
        if found.mode & 0o060 == 0 {
            let text = format!("group {name:?} may not open the socket: add mode = \"0660\"");
            return Err(Fault::at(value, text));
        }
    }
    Ok(found)
}

/// The number of a group, by its name or its number.
fn group_of(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group {name:?} on this machine: see `getent group`")),
        Err(why) => Err(format!("the system does not tell of group {name:?}: {why}")),
    }
}

/// What clients may use.
pub(super) fn clients(
    parsed: &[Spanned<Client>],
    serve: &Serve,
    (volumes, named): (&[PoolVolume], &[&str]),
) -> Result<Clients, Fault> {
    let mut clients: Vec<AllowedClient> = Vec::new();
    let blocks = volumes.iter().filter(|volume| !volume.is_files);
    let known: Vec<&str> =
        blocks.map(|volume| &volume.name[..]).chain(named.iter().copied()).collect();
    for entry in parsed {
        let Client { name, exports } = entry.get_ref();
        if name.get_ref().trim().is_empty() {
            let text = "a client's name is the common name of its certificate, or a DNS name in it";
            return Err(Fault::at(name, text));
        }
        if clients.iter().any(|other| other.name.eq_ignore_ascii_case(name.get_ref())) {
            let text = format!(
                "there are two clients called {:?}: list all exports in one",
                name.get_ref()
            );
            return Err(Fault::at(name, text));
        }
        if exports.is_empty() {
            return Err(Fault::at(name, "exports is empty: name what this client may use"));
        }
        if let Some(unknown) = exports.iter().find(|export| !known.contains(&&export.get_ref()[..]))
        {
            let nearest = spell::nearest(unknown.get_ref(), known.iter().copied());
            let text =
                format!("there is no export {:?}; did you mean {nearest:?}?", unknown.get_ref());
            return Err(Fault::at(unknown, text));
        }
        let exports = exports.iter().map(|export| export.get_ref().clone()).collect();
        clients.push(AllowedClient { name: name.get_ref().clone(), exports });
    }
    let Some(first) = parsed.first() else { return Ok(Clients::default()) };
    if parsed.len() > CLIENTS_MAX {
        return Err(Fault::whole(format!("there are at most {CLIENTS_MAX} clients")));
    }
    let tcp = |way: &&super::Way| matches!(way.address, Address::Tcp(_));
    let nameless =
        serve.nbd.iter().filter(tcp).find(|way| !way.knows_clients(serve.verify_clients));
    if let Some(way) = nameless {
        let text = format!(
            "{} lets clients in without a certificate, so [[client]] would not hold there: write \
             {{ listen = \"{0}\", tls = \"require\" }}, and no verify_clients = false",
            way.address
        );
        return Err(Fault::at(first, text));
    }
    if !serve.nbd.iter().any(|way| way.knows_clients(serve.verify_clients)) {
        let text = "clients are known by their certificates, and no socket has tls = \"require\"";
        return Err(Fault::at(first, text));
    }
    Ok(Clients::new(clients))
}
