//! How many clients may come, how long are they waited for, and how much memory may they hold?

use super::check::time;
use super::file;
use crate::toml_fault::Fault;
use tandem_block::{Duration, MIB, Quantity};
use tandem_fronts::nbd::NbdConfig;
use tandem_live::EventLoopConfig;
use toml::Spanned;

/// Bounds of `connections`: more than any machine serves well.
const CONNECTIONS_MAX: i64 = 10_000;
/// Bounds of both timeouts.
const TIMEOUT_MIN: Duration = Duration::from_s(1);
const TIMEOUT_MAX: Duration = Duration::from_s(86_400);
/// Three of the largest requests: two in hand, and room for the small ones of others.
const NBD_BYTES_MIN: u64 = 96 * MIB;
/// Eight of the largest requests of the kernel, each with the sectors around it.
const FUSE_BYTES_MIN: u64 = 16 * MIB;
/// Nobody has more than this.
const BYTES_MAX: u64 = 1 << 50;
/// What the engine keeps of a hard drive's writes beside requests under way.
const TAIL_BYTES: u64 = 64 * MIB;

/// The bounds of a server's front ends; what is not said is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    connections: Option<usize>,
    negotiation_timeout: Option<Duration>,
    stall_timeout: Option<Duration>,
    nbd_bytes: Option<u64>,
    fuse_bytes: Option<u64>,
}

/// Reads the keys of `[serve]`.
pub(super) fn check(parsed: &file::Serve, sockets: usize) -> Result<Limits, Fault> {
    let limits = Limits {
        connections: parsed.connections.as_ref().map(connections).transpose()?,
        negotiation_timeout: timeout(&parsed.negotiation_timeout, "choose an export")?,
        stall_timeout: timeout(&parsed.stall_timeout, "send a request")?,
        nbd_bytes: parsed.nbd_memory.as_ref().map(|it| memory(it, NBD_BYTES_MIN)).transpose()?,
        fuse_bytes: parsed.fuse_memory.as_ref().map(|it| memory(it, FUSE_BYTES_MIN)).transpose()?,
    };
    if let (Some(value), Some(bytes)) = (&parsed.nbd_memory, limits.nbd_bytes) {
        let least = limits.nbd(sockets).memory_least_bytes(sockets);
        if bytes < least {
            let text = format!(
                "{sockets} sockets with {} connections each need at least {}MiB: give them more, or \
                 fewer connections",
                limits.nbd(sockets).connections_max,
                least.div_ceil(MIB)
            );
            return Err(Fault::at(value, text));
        }
    }
    Ok(limits)
}

fn connections(value: &Spanned<i64>) -> Result<usize, Fault> {
    let given = *value.get_ref();
    if given == 0 {
        let text = "with no connections nobody could be served: leave the key out for 100 each, or \
                    drop the sockets";
        return Err(Fault::at(value, text));
    }
    if !(1..=CONNECTIONS_MAX).contains(&given) {
        let text =
            format!("connections of each NBD socket are from 1 to {CONNECTIONS_MAX}, not {given}");
        return Err(Fault::at(value, text));
    }
    usize::try_from(given).map_err(|_| Fault::at(value, "connections are a whole number"))
}

fn timeout(value: &Option<Spanned<String>>, what: &str) -> Result<Option<Duration>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let given = time(value)?;
    if given < TIMEOUT_MIN {
        let text = format!("no client could {what} in that time: it is 1s at least");
        return Err(Fault::at(value, text));
    }
    if given > TIMEOUT_MAX {
        let text = "a client that stands still is waited for 1day at most (86400s)";
        return Err(Fault::at(value, text));
    }
    Ok(Some(given))
}

fn memory(value: &Spanned<String>, least: u64) -> Result<u64, Fault> {
    let bytes = any_memory(value)?;
    if bytes < least {
        let text = format!(
            "that is too little for the largest requests: it is {}MiB at least",
            least / MIB
        );
        return Err(Fault::at(value, text));
    }
    Ok(bytes)
}

/// So much memory, whatever it is for. The least of what is for the metadata goes with the drives.
pub(super) fn any_memory(value: &Spanned<String>) -> Result<u64, Fault> {
    let bytes = Quantity::Bytes.parse(value.get_ref()).map_err(|why| Fault::at(value, why))?;
    if bytes > BYTES_MAX {
        return Err(Fault::at(value, "no machine has so much memory"));
    }
    Ok(bytes)
}

impl Limits {
    /// What an NBD server with so many listening sockets is told.
    pub fn nbd(&self, sockets: usize) -> NbdConfig {
        let usual = NbdConfig::default();
        let mut config = NbdConfig {
            connections_max: self.connections.unwrap_or(usual.connections_max),
            negotiation_timeout: self.negotiation_timeout.unwrap_or(usual.negotiation_timeout),
            stall_timeout: self.stall_timeout.unwrap_or(usual.stall_timeout),
            ..usual
        };
        // who wants very many connections and says nothing of memory gets what these need
        let least = usual.memory_bytes.max(config.memory_least_bytes(sockets));
        config.memory_bytes = self.nbd_bytes.unwrap_or(least);
        config
    }

    /// What the event loop is told, for so many sockets, mounts and hard drives.
    pub fn event_loop(
        &self,
        usual: EventLoopConfig,
        (sockets, mounts, hdds): (usize, u64, u64),
    ) -> EventLoopConfig {
        let front_bytes_max = self.fuse_bytes.unwrap_or(usual.front_bytes_max);
        let nbd_bytes = if sockets > 0 { self.nbd(sockets).memory_bytes } else { 0 };
        let kept_bytes_max = nbd_bytes + mounts * front_bytes_max + hdds * TAIL_BYTES;
        EventLoopConfig { front_bytes_max, kept_bytes_max, ..usual }
    }
}
