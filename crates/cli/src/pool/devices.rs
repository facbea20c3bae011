//! How are the drives of a pool opened?

use super::lying::Lying;
use super::{explain, modes, place};
use crate::config::pair::{JOURNAL_BYTES_MIN, PoolLeg};
use crate::config::{PoolConfig, PoolDevice};
use anyhow::{Context as _, Result, bail};
use std::os::unix::fs::FileExt as _;
use tandem_block::{BLOCK_BYTES, DeviceId, Drive};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::format::layout::DEVICE_BYTES_MIN;
use tandem_engine::format::superblock::{Member, Superblock};
use tandem_engine::{Engine, EngineConfig};
use tandem_live::device::OpenError;
use tandem_live::{Backing, DeviceConfig, Devices, EventLoop, EventLoopConfig};
use tandem_sim::profiles::ProfileKind;

/// How the drives are meant to behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As configured: emulated ones with their timing and their losses.
    Configured,
    /// As configured, but emulated ones ignore flushes: to show that the loss is seen.
    Lying,
    /// At their own speed, without models: for formatting.
    Plain,
    /// Read at their own speed, and never written.
    Untouched,
}

/// The drives of a pool, opened and locked, with the sizes that the engine is told.
pub struct Opened {
    /// The drives.
    pub devices: Devices,
    /// Usable bytes of each.
    pub capacities: Vec<u64>,
    /// Legs of pairs that are not there: which pair, and which of the two.
    pub absent_legs: Vec<(usize, u8)>,
    /// Pairs whose journals are not there.
    pub absent_journals: Vec<usize>,
}

impl Opened {
    /// Tells the engine which legs and journals are not there.
    pub fn tell(&self, config: &mut EngineConfig) {
        for &(pair, leg) in &self.absent_legs {
            config.pairs[pair].config.absent = Some(leg);
        }
        for &pair in &self.absent_journals {
            if let Some(journal) = &mut config.pairs[pair].config.journal {
                journal.absent = true;
            }
        }
    }
}

impl PoolDevice {
    /// Its path as the configuration has it, or `ram:BYTES`.
    pub fn label(&self) -> String {
        match &self.backing {
            Backing::Path(path) | Backing::Snapshot(path) => path.display().to_string(),
            Backing::Ram { bytes } => format!("ram:{bytes}B"),
        }
    }
}

/// Opens and locks every drive.
///
/// # Errors
/// If one is missing, in use, too small, or listed under two names.
pub fn open(pool: &PoolConfig, manner: Manner) -> Result<Opened> {
    place::check(pool)?;
    let absent_legs = absent_legs(pool);
    let drives: Vec<&PoolDevice> = pool.drives().collect();
    let absent_journals = absent_journals(pool);
    let absent: Vec<usize> =
        absent_journals.iter().filter_map(|&pair| pool.journal_of(pair)).collect();
    let others: Vec<Option<usize>> =
        (0..drives.len()).map(|drive| other_of_absent(pool, &absent_legs, drive)).collect();
    let mut configs = Vec::new();
    for (index, device) in drives.iter().enumerate() {
        let mut config = match others[index] {
            _ if device.gone => {
                let backing = Backing::Ram { bytes: DEVICE_BYTES_MIN };
                Ok(DeviceConfig { backing, emulate: None })
            }
            None if !absent.contains(&index) => configure(device, index, manner),
            other => {
                let without = match other {
                    Some(_) => "its other leg serves alone",
                    None => "the pair does without its journal",
                };
                tracing::warn!("{} is gone: {without}", device.label());
                let backing = Backing::Ram { bytes: DEVICE_BYTES_MIN };
                Ok(DeviceConfig { backing, emulate: None })
            }
        }
        .with_context(|| format!("device {} ({})", index, device.label()))?;
        if manner == Manner::Plain {
            config.emulate = None;
        }
        configs.push(config);
    }
    let devices = Devices::open(configs).map_err(|error| explain_open(pool, error))?;
    let mut capacities = devices.capacities();
    for (index, (device, capacity)) in drives.iter().zip(&mut capacities).enumerate() {
        if let Some(bytes) = device.bay_bytes {
            *capacity = bytes; // the pool may not have the bay yet
        }
        if others[index].is_some() || absent.contains(&index) || device.gone {
            continue;
        }
        *capacity = model_bytes(device, *capacity)?;
        if manner != Manner::Untouched {
            fits_profile(device, *capacity)?;
        }
    }
    for (index, other) in others.iter().enumerate() {
        if let Some(other) = *other {
            capacities[index] = capacities[other];
        }
    }
    large_enough(pool, &capacities, &absent_journals)?;
    if manner != Manner::Untouched {
        modes::warn_of_open(pool);
    }
    warn_of_unequal(pool, &capacities);
    Ok(Opened { devices, capacities, absent_legs, absent_journals })
}

/// Legs that cannot be found, where the other one can.
fn absent_legs(pool: &PoolConfig) -> Vec<(usize, u8)> {
    let is_there = |device: &PoolDevice| backing_bytes(&device.backing).is_ok();
    let absent = |(index, leg): (usize, &PoolLeg)| match (
        is_there(&pool.devices[leg.device]),
        is_there(&leg.drive),
    ) {
        (true, false) => Some((index, 1)),
        (false, true) => Some((index, 0)),
        _ => None,
    };
    pool.legs.iter().enumerate().filter_map(absent).collect()
}

/// Pairs whose journals cannot be found.
fn absent_journals(pool: &PoolConfig) -> Vec<usize> {
    let is_gone = |journal: &PoolDevice| backing_bytes(&journal.backing).is_err();
    let pairs = pool.legs.iter().enumerate();
    let gone = pairs.filter(|(_, leg)| leg.journal.as_ref().is_some_and(is_gone));
    gone.map(|(pair, _)| pair).collect()
}

fn large_enough(pool: &PoolConfig, capacities: &[u64], absent: &[usize]) -> Result<()> {
    for pair in (0..pool.legs.len()).filter(|pair| !absent.contains(pair)) {
        let (Some(drive), Some(journal)) = (pool.journal_of(pair), &pool.legs[pair].journal) else {
            continue;
        };
        let found = capacities[drive];
        if found < JOURNAL_BYTES_MIN {
            bail!(
                "{}: as a journal it is too small: it has {found} bytes, and at least \
                 {JOURNAL_BYTES_MIN} are needed",
                journal.label()
            );
        }
    }
    Ok(())
}

/// If this drive is an absent leg: the other one.
fn other_of_absent(pool: &PoolConfig, absent: &[(usize, u8)], drive: usize) -> Option<usize> {
    absent.iter().find_map(|&(pair, leg)| {
        let both = [pool.legs[pair].device, pool.devices.len() + pair];
        (both[usize::from(leg)] == drive).then_some(both[usize::from(1 - leg)])
    })
}

fn warn_of_unequal(pool: &PoolConfig, capacities: &[u64]) {
    for (index, leg) in pool.legs.iter().enumerate() {
        let both = [capacities[leg.device], capacities[pool.devices.len() + index]];
        if both[0] != both[1] {
            tracing::warn!(
                "the legs {} and {} have {} and {} bytes: as much as the smaller one has is used",
                pool.devices[leg.device].label(),
                leg.drive.label(),
                both[0],
                both[1]
            );
        }
    }
}

/// Was the profile measured on this drive, and lately?
fn fits_profile(device: &PoolDevice, capacity_bytes: u64) -> Result<()> {
    let Some(profile) = &device.profile else { return Ok(()) };
    if let ProfileKind::NoStaircase(why) = &profile.kind {
        tracing::warn!(
            "{}: no exploitable staircase: {why}; policies that need one write to the SSD, as \
             under ssd-first",
            device.label()
        );
    }
    let Some(identity) = &profile.identity else { return Ok(()) };
    let (serial, size_bytes) = match (&device.emulate, &device.backing) {
        // a model has its timing at any size
        (Some(spec), _) if spec.name == identity.model => (None, identity.size.0),
        (Some(spec), _) => bail!(
            "line {}: the profile {} was measured on {}, and this device emulates {}",
            device.line,
            profile.name,
            identity.model,
            spec.name
        ),
        (None, Backing::Path(path)) => (crate::profile::serial(path), capacity_bytes),
        (None, _) => (None, capacity_bytes),
    };
    let days = (crate::profile::days_since_1970(), device.profile_age_days);
    identity.check(serial.as_deref(), size_bytes, days).map_err(|why| {
        anyhow::anyhow!(
            "line {}: the profile {} is not for {}: {why}",
            device.line,
            profile.name,
            device.label()
        )
    })
}

/// Bytes that the engine may use: where a model stands before the bytes, the model's.
fn model_bytes(device: &PoolDevice, backing_bytes: u64) -> Result<u64> {
    let Some(spec) = &device.emulate else { return Ok(backing_bytes) };
    Ok(spec.clone().with_capacity_bytes(backing_bytes)?.capacity_bytes())
}

/// How a drive is opened.
///
/// # Errors
/// If it is not there, or its model cannot be built.
pub fn configure(device: &PoolDevice, index: usize, manner: Manner) -> Result<DeviceConfig> {
    let backing = match (&device.backing, manner) {
        (Backing::Path(path), Manner::Untouched) => Backing::Snapshot(path.clone()),
        (backing, _) => backing.clone(),
    };
    let emulated = matches!(manner, Manner::Configured | Manner::Lying);
    let emulate = match &device.emulate {
        Some(spec) if emulated => {
            let options = BuildOptions {
                seed: index as u64 + 1,
                ssd_state: SsdState::Steady,
                capacity_bytes: Some(backing_bytes(&device.backing)?),
                ..BuildOptions::default()
            };
            Some(build(spec, options)?)
        }
        _ => None,
    };
    let emulate = match (emulate, manner) {
        (Some(model), Manner::Lying) => Some(Box::new(Lying::new(model)) as Box<dyn Drive>),
        (model, _) => model,
    };
    Ok(DeviceConfig { backing, emulate })
}

/// What is left of a pool, opened so that it is never written; which drives are gone.
///
/// # Errors
/// If no drive is gone, or none that is left tells what the others were.
pub fn open_rest(pool: &PoolConfig) -> Result<(Opened, Vec<DeviceId>)> {
    if pool.successor.is_some() {
        bail!("a drive is being replaced: remove its `successor` from the configuration first");
    }
    if !pool.legs.is_empty() {
        bail!(
            "a pool with a pair is not read without its other drives yet; a pair does without one of \
             its legs by itself"
        );
    }
    place::check(pool)?;
    let is_there = |device: &PoolDevice| device.gone || backing_bytes(&device.backing).is_ok();
    let Some(members) = pool.devices.iter().filter(|device| !device.gone).find_map(members) else {
        bail!("no drive that is left says what pool it belongs to: there is nothing to read by");
    };
    if members.len() != pool.devices.len() {
        bail!(
            "the pool has {} devices, and this configuration lists {}: list all of them, the lost ones \
             too, and no bay that no start has made yet",
            members.len(),
            pool.devices.len()
        );
    }
    let mut configs = Vec::new();
    let mut absent = Vec::new();
    for (index, device) in pool.devices.iter().enumerate() {
        let mut config = configure(device, index, Manner::Untouched)?;
        if device.gone {
            config.backing = Backing::Ram { bytes: DEVICE_BYTES_MIN };
        } else if !is_there(device) {
            // stands in its place and is never asked
            config.backing = Backing::Ram { bytes: DEVICE_BYTES_MIN };
            absent.push(DeviceId(u8::try_from(index).expect("a pool has few devices")));
        }
        configs.push(config);
    }
    if absent.is_empty() {
        bail!("every drive of the pool is there: serve it without --accept-loss");
    }
    let devices = Devices::open(configs).map_err(|error| explain_open(pool, error))?;
    let capacities = members.iter().map(|member| member.capacity_bytes).collect();
    let (absent_legs, absent_journals) = (Vec::new(), Vec::new());
    Ok((Opened { devices, capacities, absent_legs, absent_journals }, absent))
}

/// All drives of the pool, as this one lists them.
fn members(device: &PoolDevice) -> Option<Vec<Member>> {
    let Backing::Path(path) = &device.backing else { return None };
    let file = std::fs::File::open(path).ok()?;
    let last = model_bytes(device, backing_bytes(&device.backing).ok()?).ok()?;
    let copy = |offset| {
        let mut block = vec![0; BLOCK_BYTES as usize];
        file.read_exact_at(&mut block, offset).ok()?;
        Superblock::decode(&block).ok()
    };
    let copies = [copy(0), copy(last.checked_sub(BLOCK_BYTES)?)];
    copies.into_iter().flatten().max_by_key(|copy| copy.generation).map(|copy| copy.members)
}

/// Size of what holds the bytes, before it is opened for good.
///
/// # Errors
/// If it cannot be opened, or has none.
pub fn backing_bytes(backing: &Backing) -> Result<u64> {
    use std::io::{Seek as _, SeekFrom};
    match backing {
        Backing::Ram { bytes } => Ok(*bytes),
        Backing::Path(path) | Backing::Snapshot(path) => {
            let mut file = std::fs::File::open(path).map_err(|why| missing(path, &why))?;
            let bytes = file.seek(SeekFrom::End(0)).context("it has no size")?;
            Ok(bytes / tandem_block::BLOCK_BYTES * tandem_block::BLOCK_BYTES)
        }
    }
}

fn missing(path: &std::path::Path, why: &std::io::Error) -> anyhow::Error {
    explain::not_opened(path, why)
}

fn explain_open(pool: &PoolConfig, error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Open { path, source } => explain::not_opened(&path, &source),
        OpenError::InUse { .. } => anyhow::anyhow!(
            "{error} (if it is the server of pool {:?}, ask it with `tandem status`)",
            pool.name
        ),
        error => error.into(),
    }
}

/// The event loop of a pool, ready to run.
///
/// # Errors
/// If the drives cannot hold what is configured, or the kernel gives no ring.
pub fn event_loop(
    pool: &PoolConfig,
    devices: Devices,
    engine: EngineConfig,
    event_loop: EventLoopConfig,
) -> Result<EventLoop<Engine>> {
    let engine = Engine::new(engine).map_err(|error| explain::configuration(pool, error))?;
    Ok(EventLoop::new(event_loop, devices, engine)?)
}

/// Only file-backed emulated drives can lie.
///
/// # Errors
/// If no drive is emulated.
pub fn require_emulated(pool: &PoolConfig) -> Result<()> {
    if pool.drives().all(|device| device.emulate.is_none()) {
        bail!("no device of this pool is emulated, and a real drive cannot be told to lie");
    }
    Ok(())
}
