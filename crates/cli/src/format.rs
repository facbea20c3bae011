//! `tandem format`: how does a set of drives become a pool?
//!
//! Source: design, "The command line". Nothing is written before everything is known to fit and the
//! user has agreed to lose what is there. Every format draws fresh ids, so that nothing of an older
//! pool on the same drives can be taken for a part of this one.

mod bays;
mod files;

use crate::config::{PoolConfig, PoolDevice};
use crate::failure::Failure;
use crate::pool::devices::{self, Manner, Opened};
use crate::pool::{self, explain, place, signature};
use crate::report::table::{self, Table};
use crate::report::{print_json, print_text};
use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead as _, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tandem_engine::{Engine, EngineConfig, Role};
use tandem_live::Backing;
use uuid::Uuid;

/// Make a pool of the drives in a configuration: what they hold is lost
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's configuration
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Format drives that hold something known (a file system, a partition table, a pool) too
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Say what would be lost, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is known of a drive before it is formatted.
#[derive(Debug, Serialize)]
struct Before {
    path: String,
    role: &'static str,
    bytes: u64,
    /// It will be made.
    new: bool,
    /// Names of known contents.
    holds: Vec<&'static str>,
    /// Nothing but zeroes at both ends.
    blank: bool,
    /// It is no drive yet, but a place for one.
    empty: bool,
}

#[derive(Serialize)]
struct Made {
    pool: String,
    uuid: String,
    devices: Vec<MadeDevice>,
    /// What the empty bays cost, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    empty_bays: Option<bays::Cost>,
    volumes: Vec<MadeVolume>,
}

#[derive(Serialize)]
struct MadeDevice {
    path: String,
    role: &'static str,
    uuid: String,
    bytes: u64,
    /// It is a bay for a drive that will come.
    empty: bool,
}

#[derive(Serialize)]
struct MadeVolume {
    name: String,
    /// A volume of files has no size of its own.
    bytes: Option<u64>,
}

/// Does it.
///
/// # Errors
/// A drive that cannot be used, holds something, or does not fit; no agreement.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    pool::log_to_stderr();
    let pool = pool::read(&arguments.config)?;
    if pool.devices.iter().any(|device| matches!(device.backing, Backing::Ram { .. })) {
        let text = "there is nothing to format: a pool in memory is new at every `tandem serve`, \
                    and memory cannot be mixed with drives";
        return Err(Failure::Usage(text.into()));
    }
    if pool.devices.iter().any(|device| device.gone && device.bay_bytes.is_none()) {
        let text = "a drive of this configuration is gone: take its entry away to make a new pool";
        return Err(Failure::Usage(text.into()));
    }
    if pool.successor.is_some() {
        let text = "a drive of this pool is being replaced: end that first, or remove its \
                    `successor` from the configuration";
        return Err(Failure::Usage(text.into()));
    }
    place::check(&pool)?;
    let before = pool.drives().map(|device| inspect(device, arguments.force));
    let before = before.collect::<anyhow::Result<Vec<Before>>>()?;
    fits(&pool, &before)?;
    if arguments.dry_run {
        return tell_risk(&before, arguments);
    }
    agree(&before, arguments)?;
    let files = files::make(&pool)?;
    let made = format(&pool)?;
    files.keep();
    if arguments.json {
        return print_json(&made);
    }
    print_text(&describe(&made, &arguments.config))
}

/// Looks at a drive, or at the place where its file will be.
fn inspect(device: &PoolDevice, force: bool) -> anyhow::Result<Before> {
    let Backing::Path(path) = &device.backing else { unreachable!("memory was refused before") };
    let role = role(device.role);
    let told = device.label();
    if let Some(bytes) = device.bay_bytes {
        let (new, blank, empty) = (false, true, true);
        return Ok(Before { path: told, role, bytes, new, holds: vec![], blank, empty });
    }
    let empty = false;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            let Some(bytes) = device.size_bytes.filter(|_| !path.starts_with("/dev")) else {
                let error = explain::not_opened(path, &why);
                bail!("line {}: {error}; to make a file there, give its size", device.line)
            };
            let (new, blank) = (true, true);
            return Ok(Before { path: told, role, bytes, new, holds: vec![], blank, empty });
        }
        Err(why) => return Err(explain::not_opened(path, &why)),
    };
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        bail!("{told} is a folder, not a drive");
    }
    let found = file.seek(SeekFrom::End(0)).with_context(|| format!("{told} has no size"))?;
    let new = found == 0 && device.size_bytes.is_some();
    let bytes = device.size_bytes.unwrap_or(found);
    if !new && bytes != found && !force {
        bail!(
            "{told} has {found} bytes and the configuration (line {}) says {bytes}: correct the \
             size, remove the file, or cut it to size with --force",
            device.line
        );
    }
    let read = || anyhow::Ok((signature::find(&file, found)?, signature::is_blank(&file, found)?));
    let (holds, blank) = read().with_context(|| format!("reading {told}"))?;
    Ok(Before { path: told, role, bytes, new, holds, blank, empty })
}

/// As the configuration spells it.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Ssd => "ssd",
        Role::Hdd => "hdd",
    }
}

/// Refuses what can never work, before anything is touched.
fn fits(pool: &PoolConfig, before: &[Before]) -> anyhow::Result<()> {
    let capacities: Vec<u64> = before.iter().map(|device| device.bytes).collect();
    let config = EngineConfig { format: true, ..pool.engine_config(&capacities) };
    match Engine::new(config) {
        Ok(_) => Ok(()),
        Err(error) => Err(explain::configuration(pool, error)),
    }
}

fn tell_risk(before: &[Before], arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        return print_json(&before);
    }
    let mut table = Table::new(&["<device", "<role", "size", "<what would be lost"]);
    for device in before {
        let lost = match device {
            Before { empty: true, .. } => "nothing: no drive is there yet".to_owned(),
            Before { new: true, .. } => "nothing: the file will be made".to_owned(),
            Before { holds, .. } if !holds.is_empty() => holds.join(", "),
            Before { blank: true, .. } => "nothing known: both ends are zeroes".to_owned(),
            _ => "data of an unknown kind".to_owned(),
        };
        let size = table::bytes(device.bytes);
        table.row(vec![device.path.clone(), device.role.to_owned(), size, lost]);
    }
    print_text(&table.render())
}

/// Whose data may be lost?
fn agree(before: &[Before], arguments: &Arguments) -> Result<(), Failure> {
    if arguments.force {
        return Ok(());
    }
    let full: Vec<String> = before
        .iter()
        .filter(|device| !device.holds.is_empty())
        .map(|device| format!("{} holds {}", device.path, device.holds.join(", ")))
        .collect();
    if !full.is_empty() {
        let text = format!("{}; use --force to lose it", full.join("; "));
        return Err(Failure::Failed(anyhow!(text)));
    }
    let unknown: Vec<&str> =
        before.iter().filter(|device| !device.blank).map(|device| device.path.as_str()).collect();
    if unknown.is_empty() || arguments.yes {
        return Ok(());
    }
    let names = unknown.join(", ");
    if !std::io::stdin().is_terminal() {
        let text = format!("{names} is not empty, and what it holds would be lost: say --yes");
        return Err(Failure::Usage(text));
    }
    crate::stderr::ask(format_args!(
        "{names} is not empty, and what it holds will be lost. Format? [y/N] "
    ));
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Failed(anyhow!("not formatted"))),
    }
}

/// Writes an empty pool.
///
/// # Errors
/// If a drive is in use, too small, or fails.
pub fn fresh(pool: &PoolConfig) -> anyhow::Result<()> {
    let files = files::make(pool)?;
    format(pool)?;
    files.keep();
    Ok(())
}

fn format(pool: &PoolConfig) -> anyhow::Result<Made> {
    let Opened { devices, capacities, .. } = devices::open(pool, Manner::Plain)?;
    let config = fresh_config(pool, &capacities);
    let made = made(pool, &config);
    let mut event_loop = devices::event_loop(pool, devices, config, pool.event_loop_config())?;
    // the drives are locked, and everything fits: from here on their old contents are lost
    for device in pool.drives().filter(|device| !device.gone) {
        let Backing::Path(path) = &device.backing else { continue };
        wipe(path).with_context(|| format!("clearing {}", device.label()))?;
    }
    event_loop.stopper().stop();
    event_loop.run().map_err(|error| explain::ended(pool, error))?;
    Ok(made)
}

/// An engine that will write a new pool, under ids that no other has.
pub fn fresh_config(pool: &PoolConfig, capacities_bytes: &[u64]) -> EngineConfig {
    let mut config = pool.engine_config(capacities_bytes);
    config.format = true;
    config.pool = Uuid::new_v4().as_u128();
    for device in &mut config.devices {
        device.uuid = Uuid::new_v4().as_u128();
    }
    for pair in &mut config.pairs {
        pair.config.uuids = [Uuid::new_v4().as_u128(), Uuid::new_v4().as_u128()];
        if let Some(journal) = &mut pair.config.journal {
            journal.uuid = Uuid::new_v4().as_u128();
        }
    }
    config
}

fn wipe(path: &Path) -> anyhow::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let bytes = file.seek(SeekFrom::End(0))?;
    signature::wipe(&file, bytes)?;
    Ok(())
}

fn made(pool: &PoolConfig, config: &EngineConfig) -> Made {
    let text = |uuid| Uuid::from_u128(uuid).to_string();
    let device = |(index, config): (usize, &tandem_engine::DeviceConfig)| MadeDevice {
        path: pool.label(index),
        role: role(config.role),
        uuid: text(config.uuid),
        bytes: config.capacity_bytes,
        empty: pool.devices[index].bay_bytes.is_some(),
    };
    let volume =
        |v: &crate::config::PoolVolume| MadeVolume { name: v.name.clone(), bytes: v.told_bytes() };
    Made {
        pool: pool.name.clone(),
        uuid: text(config.pool),
        devices: config.devices.iter().enumerate().map(device).collect(),
        empty_bays: bays::cost(config),
        volumes: pool.volumes.iter().map(volume).collect(),
    }
}

fn describe(made: &Made, config: &Path) -> String {
    let mut drives = Table::new(&["<device", "<role", "size", "<uuid"]);
    for device in &made.devices {
        let size = table::bytes(device.bytes);
        let uuid = if device.empty { "- (empty)".to_owned() } else { device.uuid.clone() };
        drives.row(vec![device.path.clone(), device.role.into(), size, uuid]);
    }
    let mut volumes = Table::new(&["<volume", "size"]);
    for volume in &made.volumes {
        let size = volume.bytes.map_or_else(|| "files".to_owned(), table::bytes);
        volumes.row(vec![volume.name.clone(), size]);
    }
    format!(
        "pool {} {}\n{}{}\n{}\nServe it: tandem serve {}\n",
        made.pool,
        made.uuid,
        drives.render(),
        made.empty_bays.as_ref().map(bays::Cost::describe).unwrap_or_default(),
        volumes.render(),
        config.display()
    )
}
