//! `tandem check`: is a pool whole?
//!
//! Nothing is written to the drives: the recovery that a start would do runs over them with its
//! writes kept in memory, and then every place of every block that holds data is read and compared
//! with its checksum, and every copy of the metadata too.

mod copies;
mod metadata;
mod names;
mod verify;

use crate::config::PoolConfig;
use crate::failure::Failure;
use crate::pool::devices::{self, Manner, Opened};
use crate::pool::{self, explain};
use crate::report::table::{self, Table};
use crate::report::{print_json, print_text};
use anyhow::{Context as _, anyhow};
use serde::Serialize;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use tandem_block::{BLOCK_BYTES, DeviceId, Duration};
use tandem_engine::Engine;
use tandem_live::EventLoop;
use tandem_live::uring::Signals;
use verify::{Findings, Verify};

/// Verify a pool that is not being served, without changing it
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's configuration
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    pool: String,
    /// Nothing is wrong.
    ok: bool,
    /// It was stopped cleanly; otherwise the next start recovers it.
    clean: bool,
    /// Why it cannot be served at all.
    error: Option<String>,
    /// Things that a start would mend.
    notes: Vec<String>,
    volumes: Vec<Volume>,
    /// Reads that met a wrong checksum, and those of them that another copy answered.
    checksum_errors: u64,
    repaired_reads: u64,
    /// Places that cannot be read, the first hundred.
    bad: Vec<verify::Bad>,
    /// Copies that are bad, also where another one is sound.
    bad_copies: Vec<copies::BadCopy>,
    /// Parts of the metadata that cannot be used on one drive.
    bad_metadata: Vec<metadata::BadMetadata>,
    map: Option<MapCounts>,
    /// What each drive alone holds.
    drives: Vec<DriveAlone>,
    /// Places for drives that have not come yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    empty_places: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DriveAlone {
    path: String,
    /// The other drive that holds all of it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    leg: Option<String>,
    /// Bytes that nobody could read if this drive died now.
    only_here_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Volume {
    name: String,
    /// A volume of files has no size of its own.
    bytes: Option<u64>,
    /// What its names say, if it holds files.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<names::Names>,
    /// Bytes that hold data; the others read as zeroes.
    data_bytes: u64,
    bad_bytes: u64,
}

#[derive(Debug, Serialize)]
struct MapCounts {
    ssd_bytes: u64,
    ssd_free_bytes: u64,
    ssd_only_bytes: u64,
    ssd_copy_bytes: u64,
    hdd_log_bytes: u64,
}

/// Does it.
///
/// # Errors
/// If the pool cannot be opened, or is not whole.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    pool::log_to_stderr();
    let signals = Signals::listen().context("catching SIGTERM and SIGINT")?;
    let pool = pool::read(&arguments.config)?;
    let report = check(&pool, signals)?;
    if arguments.json {
        print_json(&report)?;
    } else {
        print_text(&describe(&pool, &report))?;
    }
    match (&report.error, report.ok) {
        (_, true) => Ok(()),
        (Some(error), _) => Err(Failure::Failed(anyhow!("{error}"))),
        (None, _) => Err(Failure::Failed(anyhow!("pool {} is not whole", report.pool))),
    }
}

fn check(pool: &PoolConfig, signals: Signals) -> Result<Report, Failure> {
    let mut report = Report { pool: pool.name.clone(), ..Report::default() };
    let opened = devices::open(pool, Manner::Untouched)?;
    let mut config = pool.engine_config(&opened.capacities);
    opened.tell(&mut config);
    let Opened { devices, capacities, .. } = opened;
    let metadata = metadata::check(pool, &capacities)?;
    (report.clean, report.notes, report.bad_metadata) =
        (metadata.clean, metadata.notes, metadata.bad);
    // nothing is moved while we look
    (config.writeback_high_percent, config.log_gc_percent) = (100, 100);
    config.writeback_idle = Duration::from_s(1 << 30);
    config.drains = false;
    config.verify_copies = true;
    let mut event_loop = devices::event_loop(pool, devices, config, pool.event_loop_config())?;
    event_loop.stop_on(signals);
    let findings = Rc::new(RefCell::new(Findings::default()));
    let volumes: Vec<_> = pool.volumes.iter().map(|v| (v.object(), v.size_bytes)).collect();
    event_loop.add_front(Box::new(Verify::new(volumes, Rc::clone(&findings))));
    match event_loop.run() {
        Ok(()) if !findings.borrow().finished => Err(anyhow!("stopped before the end"))?,
        Ok(()) => fill(&mut report, pool, &event_loop, &findings.borrow()),
        Err(tandem_live::EventLoopError::Start(error)) => {
            report.error = Some(format!("{:#}", explain::start(pool, &error)));
        }
        Err(error) => Err(explain::ended(pool, error))?,
    }
    Ok(report)
}

fn fill(
    report: &mut Report,
    pool: &PoolConfig,
    event_loop: &EventLoop<Engine>,
    findings: &Findings,
) {
    let (stats, map) = (event_loop.engine().stats(), event_loop.engine().map());
    report.checksum_errors = stats.checksum_errors;
    report.repaired_reads = stats.repaired_reads;
    for (index, volume) in pool.volumes.iter().enumerate() {
        let (data_bytes, bad_bytes) = findings.bytes[index];
        let (name, bytes) = (volume.name.clone(), volume.told_bytes());
        let bad_files = findings.bad.iter().filter(|bad| bad.volume == index);
        let bad_files = bad_files.filter_map(|bad| bad.object).collect();
        let files =
            volume.is_files.then(|| names::check(event_loop.engine(), volume.object(), &bad_files));
        report.volumes.push(Volume { name, bytes, files, data_bytes, bad_bytes });
    }
    report.bad.clone_from(&findings.bad);
    report.bad_copies = copies::of(pool, event_loop.engine());
    for device in event_loop.engine().devices().iter().filter(|device| !device.is_gone()) {
        let losses = event_loop.engine().loss_without(device.id);
        let blocks: u64 = losses.iter().map(|loss| loss.blocks).sum();
        let only_here_bytes = blocks * BLOCK_BYTES;
        let (path, leg) = holders(pool, event_loop.engine(), device.id);
        report.drives.push(DriveAlone { path, leg, only_here_bytes });
    }
    let empty = pool.devices.iter().filter(|device| device.bay_bytes.is_some());
    report.empty_places =
        empty.map(|d| format!("{} ({})", d.label(), crate::format::role(d.role))).collect();
    let population = map.population();
    report.map = Some(MapCounts {
        ssd_bytes: map.ssd_slots() * BLOCK_BYTES,
        ssd_free_bytes: map.ssd_free() * BLOCK_BYTES,
        ssd_only_bytes: population.dirty_ssd * BLOCK_BYTES,
        ssd_copy_bytes: population.clean_ssd * BLOCK_BYTES,
        hdd_log_bytes: population.in_log * BLOCK_BYTES,
    });
    let bad = findings.bytes.iter().any(|(_, bad)| *bad > 0);
    let copies = report.checksum_errors == 0 && report.bad_copies.is_empty();
    let names =
        report.volumes.iter().flat_map(|volume| &volume.files).all(|names| names.is_sound());
    report.ok =
        !bad && names && copies && report.bad_metadata.is_empty() && stats.faulted_drives == 0;
}

/// The drive that is this device, and its other leg, if it has one; of a pair that is not whole the drive
/// that has everything.
fn holders(pool: &PoolConfig, engine: &Engine, id: DeviceId) -> (String, Option<String>) {
    let first = || pool.devices[usize::from(id.0)].label();
    let Some(pair) = engine.pairs().into_iter().find(|pair| pair.legs[0] == id) else {
        return (first(), None);
    };
    let leg = pool.legs.iter().find(|leg| leg.device == usize::from(id.0));
    let second = leg.expect("the engine was told of this pair").drive.label();
    let whole = [0, 1].map(|half| pair.alive[half] && pair.stale_bytes[half] == 0);
    match whole {
        [false, true] => (second, None),
        [true, false] => (first(), None),
        _ => (first(), Some(second)),
    }
}

fn describe(pool: &PoolConfig, report: &Report) -> String {
    let mut out = format!("pool {}\n", report.pool);
    let state = match (report.error.is_some(), report.clean) {
        (true, _) => "it cannot be served",
        (_, true) => "it was stopped cleanly",
        (_, false) => "it was not stopped cleanly: the next start recovers it, and was tried here",
    };
    out.push_str(&format!("  {state}\n"));
    for note in &report.notes {
        out.push_str(&format!("  {note}\n"));
    }
    if let Some(map) = &report.map {
        out.push_str(&format!(
            "  SSD: {} free of {}, {} only there, {} also on a hard drive; HDD log: {}\n\n",
            table::bytes(map.ssd_free_bytes),
            table::bytes(map.ssd_bytes),
            table::bytes(map.ssd_only_bytes),
            table::bytes(map.ssd_copy_bytes),
            table::bytes(map.hdd_log_bytes),
        ));
        let mut volumes = Table::new(&["<volume", "size", "data", "unreadable"]);
        for volume in &report.volumes {
            let size = volume.bytes.map_or_else(|| "files".to_owned(), table::bytes);
            let cells = [volume.data_bytes, volume.bad_bytes].map(table::bytes);
            volumes.row([volume.name.clone(), size].into_iter().chain(cells).collect());
        }
        out.push_str(&volumes.render());
        let mut drives = Table::new(&["<device", "nowhere else"]);
        for drive in &report.drives {
            let name = match &drive.leg {
                Some(leg) => format!("{} and {leg}", drive.path),
                None => drive.path.clone(),
            };
            drives.row(vec![name, table::bytes(drive.only_here_bytes)]);
        }
        out.push_str(&format!("\n{}", drives.render()));
        for place in &report.empty_places {
            out.push_str(&format!("  {place} is empty: `tandem add` puts a drive there\n"));
        }
        out.push_str(&format!(
            "\n  {} wrong checksums, {} of them answered by another copy\n",
            report.checksum_errors, report.repaired_reads
        ));
    }
    for volume in &report.volumes {
        if let Some(names) = &volume.files {
            names.describe(&volume.name, &mut out);
        }
    }
    for bad in &report.bad {
        let volume = &report.volumes[bad.volume];
        let of_file = bad.object.and_then(|object| volume.files.as_ref()?.name_of(object));
        let place = match of_file {
            Some(path) => format!("{}: {path}", volume.name),
            None => volume.name.clone(),
        };
        out.push_str(&format!(
            "  {place}: {} bytes at {}: {}\n",
            bad.length_bytes, bad.offset_bytes, bad.error
        ));
    }
    copies::describe(pool, &report.bad_copies, &mut out);
    metadata::describe(&report.bad_metadata, &mut out);
    if report.ok {
        out.push_str("  everything that was written can be read\n");
    }
    out
}
