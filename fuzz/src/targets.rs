//! Which decoders are there, what do sound inputs look like, and what counts as an answer?
//!
//! Everything that reads bytes which somebody else wrote has a target here: traces, what lies on
//! drives, what comes over sockets, and files that people write.

use crate::seeds;
use anyhow::{Context as _, Result};
use std::path::Path;
use tandem_block::Quantity;
use tandem_cli::config::PoolConfig;
use tandem_drives::spec::{DriveSpec, SPECS};
use tandem_engine::format::{FormatError, fuzz};
use tandem_fronts::{fuse, nbd};
use tandem_live::control::Asked;
use tandem_live::listen::Address;
use tandem_names::fuzz as names;
use tandem_sim::profiles;
use tandem_traces::transform::Speedup;
use tandem_traces::{FORMATS, synth};

type Decoder = dyn Fn(&[u8]) -> Result<u64, String> + Sync;

/// One decoder.
pub struct Target {
    /// Its name on the command line.
    pub name: String,
    /// Sound inputs: each must be accepted.
    pub seeds: Box<dyn Fn() -> Result<Vec<Vec<u8>>> + Sync>,
    /// Decodes: how much was understood, or what is wrong with the bytes.
    pub run: Box<Decoder>,
}

impl Target {
    fn new(
        name: impl Into<String>,
        seeds: impl Fn() -> Result<Vec<Vec<u8>>> + Sync + 'static,
        run: impl Fn(&[u8]) -> Result<u64, String> + Sync + 'static,
    ) -> Target {
        Target { name: name.into(), seeds: Box::new(seeds), run: Box::new(run) }
    }

    fn on_disk(
        name: &str,
        seeds: fn() -> Vec<Vec<u8>>,
        decode: fn(&[u8]) -> Result<(), FormatError>,
    ) -> Target {
        Target::new(
            name,
            move || Ok(seeds()),
            move |bytes| match decode(bytes) {
                Ok(()) => Ok(1),
                Err(error) => Err(error.to_string()),
            },
        )
    }
}

/// All of them.
pub fn all() -> Vec<Target> {
    let mut targets = traces();
    targets.extend([
        Target::on_disk("superblock", seeds::superblocks, fuzz::superblock),
        Target::on_disk("successor-mark", seeds::successor_marks, fuzz::successor_mark),
        Target::on_disk("pair record", seeds::pair_records, fuzz::pair_record),
        Target::on_disk("pair-journal-head", seeds::pair_journal_heads, fuzz::pair_journal_head),
        Target::on_disk("pair-journal-unit", seeds::pair_journal_units, fuzz::pair_journal_unit),
        Target::on_disk("journal-unit", seeds::units, fuzz::journal_unit),
        Target::on_disk("journal-records", seeds::records, fuzz::records),
        Target::on_disk("checkpoint-root", seeds::roots, fuzz::checkpoint_root),
        Target::on_disk("object-page", seeds::object_pages, fuzz::object_page),
        Target::on_disk("checksum-page", seeds::pages, fuzz::checksum_page),
        Target::on_disk("leaf", seeds::leaves, fuzz::leaf),
        Target::on_disk("pointers", seeds::pointers, fuzz::pointers),
        Target::new(
            "nbd-server",
            || Ok(seeds::nbd_requests()),
            |bytes| some(nbd::fuzz_session(bytes)),
        ),
        Target::new(
            "nbd-client",
            || Ok(seeds::nbd_answers()),
            |bytes| nbd::fuzz_client(bytes).map_err(|error| error.to_string()),
        ),
        Target::new(
            "fuse-message",
            || Ok(fuse::sound_messages()),
            |bytes| fuse::fuzz_message(bytes).ok_or_else(|| "no message".to_owned()),
        ),
        Target::new(
            "fuse-call",
            || Ok(fuse::tree::sound_messages()),
            |bytes| fuse::tree::fuzz_message(bytes).ok_or_else(|| "no message".to_owned()),
        ),
        attribute("inode", names::sound_inodes, names::inode),
        attribute("directory-entry", names::sound_entries, names::entry),
        attribute("volume-mark", names::sound_volumes, names::volume),
        attribute("snapshots-place", names::sound_namings, names::naming),
        Target::new(
            "control",
            || Ok(texts(&[r#"{"verb":"status"}"#, r#"{"verb":"stop"}"#, r#"{"verb":"tier","volume":"vol0","tier":"hot-dst","settings":{"extent":65536}}"#, r#"{"verb":"replace","old":"/a","new":"/b","force":true}"#, r#"{"verb":"cancel-replace"}"#])),
            |b| Asked::parse(b).map(|asked| format!("{asked:?}").len() as u64),
        ),
    ]);
    targets.extend(written_by_people());
    targets
}

fn attribute(name: &str, seeds: fn() -> Vec<Vec<u8>>, decode: fn(&[u8]) -> bool) -> Target {
    Target::new(name, move || Ok(seeds()), move |bytes| some(u64::from(decode(bytes))))
}

fn traces() -> Vec<Target> {
    let decode = |bytes: &[u8], format| some(tandem_traces::fuzz::decode_as(bytes, format));
    let of_format = FORMATS.iter().map(|format| {
        let seeds = || seeds::traces(Some(format.name));
        Target::new(format!("trace-{}", format.name), seeds, move |bytes| {
            decode(bytes, Some(format.name))
        })
    });
    let any = Target::new("trace", || seeds::traces(None), move |bytes| decode(bytes, None));
    of_format.chain([any]).collect()
}

fn written_by_people() -> Vec<Target> {
    let specs = || Ok(SPECS.iter().map(|spec| spec.text().as_bytes().to_vec()).collect());
    let shipped = || {
        let of_engine = profiles::SHIPPED.iter().map(|(_, text)| text.as_bytes().to_vec());
        Ok(of_engine.collect())
    };
    vec![
        Target::new(
            "pool-config",
            || Ok(texts(&seeds::POOLS)),
            |bytes| {
                let text = text(bytes)?;
                asks_no_name_server(text)?;
                let pool = PoolConfig::parse(text, Path::new("pool.toml"));
                pool.map(|pool| pool.devices.len() as u64).map_err(|fault| fault.to_string())
            },
        ),
        Target::new("drive-spec", specs, |bytes| {
            let spec = DriveSpec::parse(text(bytes)?, "fuzz").map_err(|e| e.to_string())?;
            let _ = spec.clone().with_capacity_bytes(1 << 34);
            Ok(spec.capacity_bytes())
        }),
        Target::new("profile", shipped, |bytes| {
            profiles::parse(text(bytes)?, "fuzz").map(|_| 1).map_err(|e| e.to_string())
        }),
        Target::new(
            "synthetic",
            || Ok(texts(&seeds::SYNTHETIC)),
            |bytes| {
                let mut workload = synth::build(text(bytes)?, 1).map_err(|e| e.to_string())?;
                Ok(workload.by_ref().take(200).count() as u64)
            },
        ),
        Target::new(
            "sizes",
            || Ok(texts(&["16GiB", "4KiB", "512B"])),
            |bytes| Ok(Quantity::Bytes.parse(text(bytes)?)?),
        ),
        Target::new(
            "times",
            || Ok(texts(&["35us", "12ms", "1s", "400ns"])),
            |bytes| Ok(Quantity::Time.parse(text(bytes)?)?),
        ),
        Target::new(
            "speedup",
            || Ok(texts(&["1", "2.5", "0.125"])),
            |bytes| {
                let speedup = Speedup::parse(text(bytes)?).map_err(|e| e.to_string())?;
                let times = [0, 1, 1_000_000_007, u64::MAX / 2];
                Ok(times.map(|ns| speedup.apply(tandem_block::Instant { ns }).ns)[2])
            },
        ),
        Target::new(
            "address",
            || Ok(texts(&["unix:a.sock", "127.0.0.1:10809", "[::1]:9"])),
            |b| {
                let text = text(b)?;
                is_numeric(text)?;
                text.parse::<Address>().map(|_| 1).map_err(|e| e.to_string())
            },
        ),
    ]
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "not UTF-8".into())
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn some(count: u64) -> Result<u64, String> {
    if count > 0 { Ok(count) } else { Err("nothing was understood".into()) }
}

/// A fuzzer asks no name server: TCP addresses that are not numbers are not tried.
fn is_numeric(address: &str) -> Result<(), String> {
    let local = address.starts_with("unix:") || address.parse::<std::net::SocketAddr>().is_ok();
    if local { Ok(()) } else { Err("a host's name is not tried".into()) }
}

fn asks_no_name_server(text: &str) -> Result<(), String> {
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(()) };
    let listed = table.get("serve").and_then(|serve| serve.get("nbd")?.as_array());
    let address = |value: &toml::Value| {
        let listen = value.get("listen").unwrap_or(value);
        listen.as_str().map(str::to_owned)
    };
    listed.into_iter().flatten().filter_map(address).try_for_each(|address| is_numeric(&address))
}

/// The target of this name.
///
/// # Errors
/// If there is none; the message names all.
pub fn named(name: &str) -> Result<Target> {
    let mut targets = all();
    let at = targets.iter().position(|target| target.name == name).with_context(|| {
        let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        format!("there is no target {name}; there are {}", known.join(", "))
    })?;
    Ok(targets.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nothing behind the first check of a decoder would be tried.
    #[test]
    fn every_target_accepts_its_seeds() {
        for target in all() {
            let seeds = (target.seeds)().unwrap();
            assert!(!seeds.is_empty(), "{} has no seeds", target.name);
            for seed in seeds {
                let answer = (target.run)(&seed);
                assert!(answer.is_ok(), "{}: {answer:?}", target.name);
            }
        }
    }
}
