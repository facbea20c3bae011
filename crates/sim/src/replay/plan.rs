//! How large is each drive, and how much of it does the engine see?
//!
//! Source: design, "Where a replay starts": drives keep their spec's capacity unless the user says
//! otherwise or the footprint needs more. A hard drive's *visible* part is smaller than the drive:
//! the map keeps bits for every block it may be asked for, and ten terabytes of them (over a GiB of
//! RAM and seconds per run) would say nothing about a trace that touches fifty gigabytes. The model
//! keeps its own geometry, so what is visible lies in its outer zone, as on a fresh drive.

use super::config::{DriveChoice, ReplayConfig, ReplayError};
use super::survey::Survey;
use crate::profiles::{DriveProfile, ProfileKind, Rating};
use tandem_block::{BLOCK_BYTES, DurabilityClass, GIB, Instant, MIB};
use tandem_drives::spec::HddSpec;
use tandem_engine::format::layout;
use tandem_engine::{
    DeviceConfig, DriveBudget, EngineConfig, Placement, Role, VolumeConfig, WriteCache,
};

/// One set has 2^32 logical blocks.
const FOOTPRINT_BYTES_MAX: u64 = 16 << 40;
/// Largest share of the visible part that the log takes, in percent.
const LOG_PERCENT_MAX: u64 = 80;

/// One drive as it will be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedDrive {
    /// Which drive of the pool it is, from 0: seeds its model.
    pub number: usize,
    /// The spec's name.
    pub name: String,
    /// SSD or hard drive.
    pub role: Role,
    /// Capacity of the model.
    pub model_bytes: u64,
    /// Bytes of it that the engine sees.
    pub visible_bytes: u64,
    /// The footprint needed more than the spec or the user gave it.
    pub is_scaled: bool,
    /// Has it a profile?
    pub has_profile: bool,
    /// Bytes that may be written in its life, if its vendor says so.
    pub endurance_bytes: Option<u64>,
    /// What its vendor rates it for in a day.
    pub rating: Option<Rating>,
    /// Of a hard drive: what it becomes at which virtual time, oldest first. Empty unless an experiment
    /// says otherwise.
    pub drift: Vec<(Instant, HddSpec)>,
}

/// All drives, and the engine's configuration without a policy.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In the order of their ids: SSDs first.
    pub drives: Vec<PlannedDrive>,
    /// Statistics begin behind so many arrivals.
    pub(super) warm_up_requests: u64,
    pub(super) engine: EngineConfig,
}

impl Plan {
    /// The engine's settings.
    pub fn engine(&self) -> &EngineConfig {
        &self.engine
    }

    /// The engine's settings, for experiments that need others than the default.
    pub fn engine_mut(&mut self) -> &mut EngineConfig {
        &mut self.engine
    }
}

/// Sizes everything for a trace.
///
/// # Errors
/// If there is nothing to replay or nothing to replay it on, or if it reaches too far.
pub fn plan(config: &ReplayConfig, survey: &Survey) -> Result<Plan, ReplayError> {
    if config.ssds.is_empty() && config.hdds.is_empty() {
        return Err(ReplayError::NoDrives);
    }
    if config.placement == Placement::Fixed && config.ssds.is_empty() {
        return Err(ReplayError::FixedWithoutSsd);
    }
    let footprint_bytes = survey.footprint_bytes();
    if footprint_bytes == 0 {
        return Err(ReplayError::Empty);
    }
    if footprint_bytes > FOOTPRINT_BYTES_MAX {
        return Err(ReplayError::TooWide { footprint_bytes });
    }
    let mut drives = Vec::new();
    for (number, (choice, role)) in choices(config).enumerate() {
        drives.push(planned(number, choice, role)?);
    }
    let mut engine = engine_config(config, survey);
    size_ssds(config, footprint_bytes, &mut drives);
    size_hdds(config, footprint_bytes, &mut drives, &mut engine);
    // small drives spend a larger share on the pool's own structures: grow until all of it fits
    for _ in 0..64 {
        for (device, drive) in engine.devices.iter_mut().zip(&drives) {
            device.capacity_bytes = drive.visible_bytes;
        }
        if fits(&engine, footprint_bytes) {
            return Ok(Plan { drives, warm_up_requests: survey.warm_up_requests, engine });
        }
        for drive in &mut drives {
            let hdd_only_grows = config.hdds.is_empty() || drive.role == Role::Hdd;
            if hdd_only_grows || drive.visible_bytes < layout::DEVICE_BYTES_MIN * 8 {
                grow(drive, drive.visible_bytes + drive.visible_bytes / 4);
            }
        }
    }
    Err(ReplayError::TooWide { footprint_bytes })
}

/// Every drive with its role, in the order of the ids.
pub(super) fn choices(config: &ReplayConfig) -> impl Iterator<Item = (&DriveChoice, Role)> {
    let ssds = config.ssds.iter().map(|choice| (choice, Role::Ssd));
    ssds.chain(config.hdds.iter().map(|choice| (choice, Role::Hdd)))
}

fn planned(number: usize, choice: &DriveChoice, role: Role) -> Result<PlannedDrive, ReplayError> {
    let spec = match choice.size_bytes {
        Some(bytes) => choice.spec.clone().with_capacity_bytes(bytes)?,
        None => choice.spec.clone(),
    };
    Ok(PlannedDrive {
        number,
        name: spec.name.clone(),
        role,
        model_bytes: spec.capacity_bytes(),
        visible_bytes: spec.capacity_bytes(),
        is_scaled: false,
        has_profile: choice.profile.is_some(),
        endurance_bytes: choice.profile.as_ref().and_then(DriveProfile::endurance_bytes),
        rating: choice.profile.as_ref().and_then(DriveProfile::rating),
        drift: Vec::new(),
    })
}

/// Lets the engine see so much of a drive, which becomes larger if it has to.
fn grow(drive: &mut PlannedDrive, bytes: u64) {
    drive.visible_bytes = bytes.next_multiple_of(MIB);
    if drive.visible_bytes > drive.model_bytes {
        drive.model_bytes = drive.visible_bytes;
        drive.is_scaled = true;
    }
}

/// Under fixed placement the SSDs hold the whole trace; under mapped placement without hard drives
/// they do too, in out-of-place slots.
fn size_ssds(config: &ReplayConfig, footprint_bytes: u64, drives: &mut [PlannedDrive]) {
    if config.placement == Placement::Mapped {
        return;
    }
    let each = footprint_bytes.div_ceil(config.ssds.len() as u64);
    for drive in drives.iter_mut().filter(|drive| drive.role == Role::Ssd) {
        if drive.visible_bytes < each {
            grow(drive, each);
        }
    }
}

fn size_hdds(
    config: &ReplayConfig,
    footprint_bytes: u64,
    drives: &mut [PlannedDrive],
    engine: &mut EngineConfig,
) {
    if config.hdds.is_empty() {
        return;
    }
    let ssd_bytes: u64 =
        drives.iter().filter(|d| d.role == Role::Ssd).map(|drive| drive.visible_bytes).sum();
    let hdds = config.hdds.len() as u64;
    let homes = match config.placement {
        // a third more than the footprint, and room for two tables of the map: 28 bytes for each SSD block, and
        // 17 for each home
        Placement::Mapped => {
            let metadata = ssd_bytes / BLOCK_BYTES * 28 + footprint_bytes / 150;
            footprint_bytes / 10 * 13 / hdds + metadata + 2 * GIB
        }
        Placement::Fixed => ssd_bytes.div_ceil(hdds) + MIB,
    };
    let log_bytes = config.budgets.log_bytes;
    let wanted = (homes + log_bytes).next_multiple_of(MIB);
    let percent = (log_bytes * 100).div_ceil(wanted).clamp(10, LOG_PERCENT_MAX);
    let wanted = wanted.max(homes * 100 / (100 - percent)).next_multiple_of(MIB);
    let smallest =
        drives.iter().filter(|d| d.role == Role::Hdd).map(|d| d.model_bytes).min().unwrap_or(0);
    if smallest >= wanted {
        engine.log_percent = percent;
    }
    for drive in drives.iter_mut().filter(|drive| drive.role == Role::Hdd) {
        drive.visible_bytes = drive.model_bytes.min(wanted);
    }
}

/// Can the engine lay these drives out, with homes for the whole trace?
fn fits(engine: &EngineConfig, footprint_bytes: u64) -> bool {
    let layouts = match engine.placement {
        Placement::Mapped => layout::plan(engine),
        Placement::Fixed => layout::plan_fixed(engine),
    };
    let Ok(layouts) = layouts else { return false };
    let homes: u64 = layouts.iter().map(|layout| layout.home_blocks).sum();
    let slots: u64 = layouts.iter().map(|layout| layout.slot_count).sum();
    let blocks = footprint_bytes.div_ceil(BLOCK_BYTES);
    let has_hdd = engine.devices.iter().any(|device| device.role == Role::Hdd);
    match engine.placement {
        Placement::Fixed => true,
        Placement::Mapped if has_hdd => homes >= blocks,
        Placement::Mapped => slots * 85 / 100 >= blocks,
    }
}

fn engine_config(config: &ReplayConfig, survey: &Survey) -> EngineConfig {
    let protected = config.durability == DurabilityClass::Protected;
    let devices = choices(config)
        .enumerate()
        .map(|(index, (choice, role))| {
            let (mut hdd_profile, mut ssd_profile) = (None, Default::default());
            match choice.profile.as_ref().map(|profile| &profile.kind) {
                Some(ProfileKind::Hdd(profile)) => hdd_profile = Some(profile.clone()),
                Some(ProfileKind::Ssd { profile, .. }) => ssd_profile = *profile,
                Some(ProfileKind::NoStaircase(_)) | None => {}
            }
            DeviceConfig {
                role,
                capacity_bytes: 0,
                write_cache: if protected { WriteCache::Protected } else { WriteCache::Volatile },
                depth: if role == Role::Hdd { 1 } else { choice.spec.queue_depth() },
                uuid: index as u128 + 1,
                hdd_profile,
                ssd_profile,
            }
        })
        .collect();
    let volumes: Vec<VolumeConfig> = survey
        .volumes()
        .map(|(object, size_bytes)| VolumeConfig {
            object,
            name: object.0.to_string(),
            size_bytes,
            steer: config.steer.clone(),
            tier: config.tier.clone(),
            file_tiers: Vec::new(),
            durability: config.durability,
        })
        .collect();
    let root_bytes = (volumes.len() as u64 * 96).next_multiple_of(BLOCK_BYTES);
    let mut engine = EngineConfig::with_drives(devices, volumes);
    engine.areas.root_bytes = engine.areas.root_bytes.max(root_bytes);
    // a replay knows volumes alone, so the drives are laid out as they were before there was more
    engine.object_table_bytes = Some(0);
    engine.placement = config.placement;
    engine.contents = false;
    engine.read_back_bytes = config.read_back.bytes.unwrap_or(engine.read_back_bytes);
    let promote = config.read_back.promote_after_reads;
    engine.promote_after_reads = promote.unwrap_or(engine.promote_after_reads);
    match config.budgets.padding_bytes_per_day {
        Some(bytes) => engine.padding_bytes_per_day = bytes,
        // what drives are rated for bounds padding too, unless it was said how much there may be
        None => {
            let rated =
                |choice: &DriveChoice| Some(choice.profile.as_ref()?.rating()?.bytes_per_day);
            engine.budgets = choices(config)
                .map(|(choice, _)| DriveBudget { rated_bytes: rated(choice), ..Default::default() })
                .collect();
        }
    }
    engine
}
