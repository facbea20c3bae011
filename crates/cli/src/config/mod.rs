//! What is in a pool, and where is it served? A pool's configuration, read and checked.
//!
//! Source: design, "The command line". Everything that can be said without touching a device is
//! said here, with the line it is about; what only the devices know (their size, whose they are) is
//! asked when they are opened.

pub mod access;
pub mod bay;
pub mod budget;
mod check;
mod deadline;
mod destage;
mod edit;
mod file;
pub mod limits;
pub mod pair;
pub mod promise;
#[cfg(test)]
mod tests;

pub use self::check::same_place;
pub use self::edit::{Edit, edited};

use self::access::Way;
use self::budget::DeviceBudget;
use self::destage::Destage;
use self::limits::Limits;
use self::pair::PoolLeg;
use self::promise::Promises;
use crate::failure::ConfigFault;
use crate::toml_fault::{self, line_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tandem_block::{DeviceId, DurabilityClass, Duration, ObjectId};
use tandem_drives::spec::DriveSpec;
use tandem_engine::mirror::{Pair, pair_bytes};
use tandem_engine::qos::admit::{self, AdmitError, Side};
use tandem_engine::qos::cost::CostTable;
use tandem_engine::replacement::SuccessorConfig;
use tandem_engine::{
    DeviceConfig, EngineConfig, Placement, Role, SteerConfig, TierConfig, VolumeConfig, WriteCache,
};
use tandem_fronts::fuse::Reach;
use tandem_fronts::nbd::Clients;
use tandem_live::listen::SocketMode;
use tandem_live::uring::Submission;
use tandem_live::{Backing, EventLoopConfig};
use tandem_sim::profiles::{DriveProfile, ProfileKind};

/// Commands in flight on a real SSD at most. Guess: NVMe drives gain little beyond it.
const SSD_DEPTH: u32 = 128;

/// One pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its name.
    pub name: String,
    /// So far may the metadata's metadata replica fall behind, if the engine's default will not do.
    pub metadata_replica_lag: Option<Duration>,
    /// RAM for reads of redirected data, if the engine's default will not do.
    pub read_back_bytes: Option<u64>,
    /// RAM for where blocks lie and for their checksums, if the engine's default will not do.
    pub metadata_memory_bytes: Option<u64>,
    /// When what lies on SSDs is written home, and how.
    pub destage: Destage,
    /// How many reads bring a redirected block to an SSD, if the engine's default will not do.
    pub promote_after_reads: Option<u32>,
    /// Its drives, in the order of their ids.
    pub devices: Vec<PoolDevice>,
    /// Second drives of those devices that are pairs.
    pub legs: Vec<PoolLeg>,
    /// A drive that is about to take the place of a device: which, and it.
    pub successor: Option<(usize, PoolDevice)>,
    /// Its volumes.
    pub volumes: Vec<PoolVolume>,
    /// What is promised to whom.
    pub promises: Promises,
    /// Where it is served.
    pub serve: Serve,
    /// Who may use what, by certificates.
    pub clients: Clients,
}

/// One drive.
#[derive(Clone, Debug)]
pub struct PoolDevice {
    /// What it is for.
    pub role: Role,
    /// Where its bytes are.
    pub backing: Backing,
    /// It was removed: its entry stays, since drives are numbered, and is not opened any more. Or the place
    /// is empty from the beginning.
    pub gone: bool,
    /// Of a place that is empty from the beginning: bytes of the drive that it is for.
    pub bay_bytes: Option<u64>,
    /// How large to make a file that does not exist yet.
    pub size_bytes: Option<u64>,
    /// Timed, and volatile, like this modelled drive.
    pub emulate: Option<DriveSpec>,
    /// What is believed of it.
    pub profile: Option<DriveProfile>,
    /// How old a measured profile may be.
    pub profile_age_days: u64,
    /// Is its buffer lost in a power cut?
    pub write_cache: WriteCache,
    /// What it may take in a day.
    pub budget: DeviceBudget,
    /// How long it may leave a command without an answer.
    pub deadline: Duration,
    /// Line of the file that names it.
    pub line: usize,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolVolume {
    /// Its name: that of the export.
    pub name: String,
    /// Its size, a multiple of 4096; of a volume of files what its own object reserves.
    pub size_bytes: u64,
    /// It holds files, which take room as they are written, in place of blocks.
    pub is_files: bool,
    /// Where its files are mounted.
    pub mount: Option<PathBuf>,
    /// Whom the kernel lets in there.
    pub reach: Reach,
    /// Where its writes go.
    pub steer: SteerConfig,
    /// Where its data belongs.
    pub tier: TierConfig,
    /// Tiers that its files may have instead.
    pub file_tiers: Vec<TierConfig>,
    /// What an acknowledgement means.
    pub durability: DurabilityClass,
}

/// Where a pool is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serve {
    /// NBD sockets.
    pub nbd: Vec<Way>,
    /// May NBD listen on other addresses than the loopback?
    pub allow_remote: bool,
    /// Folder of the certificates, and the line that names it.
    pub certificates: Option<(PathBuf, usize)>,
    /// Must clients that use TLS show a certificate?
    pub verify_clients: bool,
    /// Socket on which `tandem status` asks; by default beside the configuration.
    pub control: Option<PathBuf>,
    /// Whom the file of that socket lets in.
    pub control_mode: SocketMode,
    /// Mount point where each volume is a file.
    pub fuse: Option<PathBuf>,
    /// When drive commands are handed to the kernel.
    pub submission: Submission,
    /// How long to spin for the next event at most, if the event loop's default will not do.
    pub spin: Option<Duration>,
    /// How much its clients may have of it.
    pub limits: Limits,
}

impl PoolConfig {
    /// Reads a file. Relative paths in it are relative to it.
    ///
    /// # Errors
    /// If it cannot be read or used; the message names file and line.
    pub fn read(path: &Path) -> Result<PoolConfig, ConfigFault> {
        PoolConfig::parse(&toml_fault::read_file(path, "configuration")?, path)
    }

    /// Reads a text; `path` names it in errors and is what its paths are relative to.
    ///
    /// # Errors
    /// If it cannot be used; the message names the line.
    pub fn parse(text: &str, path: &Path) -> Result<PoolConfig, ConfigFault> {
        let folder = path.parent().unwrap_or(Path::new(""));
        toml_fault::parse(text)
            .and_then(|parsed| check::check(parsed, folder, &|at| line_of(text, at)))
            .map_err(|fault| fault.in_file(path, text))
    }

    /// Would every promise be made? Asked before a server starts.
    ///
    /// # Errors
    /// The first that would not, with what would fit.
    pub fn check_promises(&self) -> Result<(), AdmitError> {
        let mut qos = self.promises.config();
        qos.costs = self.costs();
        for (id, device) in self.devices.iter().enumerate() {
            if device.role == Role::Ssd && !device.gone && qos.promises() {
                for &side in Side::of(self.leg_of(id).is_some()) {
                    admit::asked(&qos, DeviceId(id as u8), side)?;
                }
            }
        }
        Ok(())
    }

    fn leg_of(&self, device: usize) -> Option<&PoolLeg> {
        self.legs.iter().find(|leg| leg.device == device)
    }

    /// What requests cost, by device. Profiles are of single drives: a pair writes everything twice.
    fn costs(&self) -> Vec<Option<Arc<CostTable>>> {
        let of_device = |(id, device): (usize, &PoolDevice)| {
            let table = device.profile.as_ref()?.request_costs.clone()?;
            Some(match self.leg_of(id) {
                None => table,
                Some(leg) => Arc::new(table.of_pair(leg.config.writing_ppm())),
            })
        };
        self.devices.iter().enumerate().map(of_device).collect()
    }

    /// Why a volume that asks for redirection does not get it, if so.
    pub fn why_not_steered(&self, volume: &PoolVolume) -> Option<String> {
        let redirects = volume.steer.entry().is_some_and(|entry| entry.redirects());
        let known = |device: &PoolDevice| {
            matches!(
                device.profile.as_ref().map(|profile| &profile.kind),
                Some(ProfileKind::Hdd(_))
            )
        };
        if !redirects || self.devices.iter().any(known) {
            return None;
        }
        let none = self.devices.iter().find_map(|device| match &device.profile.as_ref()?.kind {
            ProfileKind::NoStaircase(why) => Some((device.label(), why)),
            _ => None,
        });
        Some(match none {
            Some((drive, why)) => format!(
                "{drive} has no exploitable staircase: {why}; writes go to the SSD, as under \
                 ssd-first"
            ),
            None => "no hard drive has a profile, so nothing is known of its buffer: writes go to \
                     the SSD"
                .to_owned(),
        })
    }

    /// Volumes of blocks, which can be exported.
    pub fn block_volumes(&self) -> impl Iterator<Item = &PoolVolume> {
        self.volumes.iter().filter(|volume| !volume.is_files)
    }

    /// The socket on which a server of this pool answers `tandem status`; `path` is that of the
    /// configuration.
    pub fn control_socket(&self, path: &Path) -> PathBuf {
        self.serve.control.clone().unwrap_or_else(|| path.with_extension("control"))
    }

    /// What the real event loop is told.
    pub fn event_loop_config(&self) -> EventLoopConfig {
        let usual = EventLoopConfig::default();
        let spin = self.serve.spin.unwrap_or(usual.spin);
        let mounted = self.volumes.iter().filter(|volume| volume.mount.is_some()).count();
        let mounts = mounted + usize::from(self.serve.fuse.is_some());
        let hdds = self.devices.iter().filter(|device| device.role == Role::Hdd).count();
        let fronts = (self.serve.nbd.len(), mounts as u64, hdds as u64);
        let usual = self.serve.limits.event_loop(usual, fronts);
        EventLoopConfig { submission: self.serve.submission, spin, ..usual }
    }

    /// All drives: the devices, then the second drives of pairs, then the journals of pairs, as the event loop
    /// numbers them.
    pub fn drives(&self) -> impl Iterator<Item = &PoolDevice> {
        let seconds = self.legs.iter().map(|leg| &leg.drive);
        let journals = self.legs.iter().filter_map(|leg| leg.journal.as_ref());
        let successor = self.successor.iter().map(|(_, drive)| drive);
        self.devices.iter().chain(seconds).chain(journals).chain(successor)
    }

    /// Position among all drives of a pair's journal, if it has one.
    pub fn journal_of(&self, pair: usize) -> Option<usize> {
        self.legs[pair].journal.as_ref()?;
        let before = self.legs[..pair].iter().filter(|leg| leg.journal.is_some()).count();
        Some(self.devices.len() + self.legs.len() + before)
    }

    /// What a person calls a device: its path, or both where it is a pair.
    pub fn label(&self, device: usize) -> String {
        let first = self.devices[device].label();
        match self.legs.iter().find(|leg| leg.device == device) {
            Some(leg) => format!("{first} + {}", leg.drive.label()),
            None => first,
        }
    }

    /// What an engine is told, once the devices are open and their sizes known. Ids of volumes
    /// follow from their names, so that their order in the file means nothing.
    ///
    /// # Panics
    /// If there is not one capacity per drive.
    pub fn engine_config(&self, capacities_bytes: &[u64]) -> EngineConfig {
        let drives = self.drives().count();
        assert_eq!(capacities_bytes.len(), drives, "a capacity for every drive");
        let all_bytes = capacities_bytes;
        let (first, second) = capacities_bytes.split_at(self.devices.len());
        let mut capacities_bytes = first.to_vec();
        for (leg, &bytes) in self.legs.iter().zip(second) {
            let smaller = bytes.min(capacities_bytes[leg.device]);
            capacities_bytes[leg.device] = pair_bytes(smaller, Placement::Mapped);
        }
        let devices = self
            .devices
            .iter()
            .zip(&capacities_bytes)
            .map(|(device, &bytes)| device.engine_config(device.bay_bytes.unwrap_or(bytes)))
            .collect();
        let volumes = self
            .volumes
            .iter()
            .map(|volume| VolumeConfig {
                object: volume.object(),
                name: volume.name.clone(),
                size_bytes: volume.size_bytes,
                steer: volume.steer.clone(),
                tier: volume.tier.clone(),
                file_tiers: volume.file_tiers.clone(),
                durability: volume.durability,
            })
            .collect();
        let mut config = EngineConfig::with_drives(devices, volumes);
        config.name.clone_from(&self.name);
        config.metadata_replica_lag =
            self.metadata_replica_lag.unwrap_or(config.metadata_replica_lag);
        config.read_back_bytes = self.read_back_bytes.unwrap_or(config.read_back_bytes);
        config.metadata_memory_bytes = self.metadata_memory_bytes;
        self.destage.apply(&mut config);
        config.promote_after_reads = self.promote_after_reads.unwrap_or(config.promote_after_reads);
        config.format = false;
        config.qos = self.promises.config();
        config.qos.costs = self.costs();
        let pair =
            |leg: &PoolLeg| Pair { device: DeviceId(leg.device as u8), config: leg.config.clone() };
        config.pairs = self.legs.iter().map(pair).collect();
        for (index, pair) in config.pairs.iter_mut().enumerate() {
            if let (Some(journal), Some(drive)) = (&mut pair.config.journal, self.journal_of(index))
            {
                journal.capacity_bytes = all_bytes[drive];
                let profile = self.legs[index].journal.as_ref().and_then(|j| j.profile.as_ref());
                if let Some(ProfileKind::Hdd(profile)) = profile.map(|profile| &profile.kind) {
                    journal.profile = Some(profile.clone());
                }
            }
        }
        config.successor = self.successor.as_ref().map(|(device, _)| SuccessorConfig {
            device: DeviceId(*device as u8),
            capacity_bytes: *all_bytes.last().expect("it is the last drive"),
        });
        let gone = (0..self.devices.len()).filter(|&index| self.devices[index].gone);
        config.gone = gone.map(|index| DeviceId(index as u8)).collect();
        config.budgets = self
            .devices
            .iter()
            .zip(&capacities_bytes)
            .map(|(device, &bytes)| device.budget.of_drive(device.profile.as_ref(), bytes))
            .collect();
        config.deadlines = self.devices.iter().map(|device| device.deadline).collect();
        config
    }
}

impl PoolDevice {
    /// Commands in flight at most: one on a hard drive (design decision 4), what an emulated SSD's link
    /// takes, or what any does.
    fn depth(&self) -> u32 {
        match (self.role, &self.emulate) {
            (Role::Hdd, _) => 1,
            (Role::Ssd, Some(spec)) => spec.queue_depth().min(SSD_DEPTH),
            (Role::Ssd, None) => SSD_DEPTH,
        }
    }

    fn engine_config(&self, capacity_bytes: u64) -> DeviceConfig {
        let (mut hdd_profile, mut ssd_profile) = (None, Default::default());
        match self.profile.as_ref().map(|profile| &profile.kind) {
            Some(ProfileKind::Hdd(profile)) => hdd_profile = Some(profile.clone()),
            Some(ProfileKind::Ssd { profile, .. }) => ssd_profile = *profile,
            Some(ProfileKind::NoStaircase(_)) | None => {}
        }
        DeviceConfig {
            role: self.role,
            capacity_bytes,
            write_cache: self.write_cache,
            depth: self.depth(),
            uuid: 0,
            hdd_profile,
            ssd_profile,
        }
    }
}

impl PoolVolume {
    /// What a person is told of its size: a volume of files has none of its own.
    pub fn told_bytes(&self) -> Option<u64> {
        (!self.is_files).then_some(self.size_bytes)
    }

    /// Its id in the pool: FNV-1a of its name.
    pub fn object(&self) -> ObjectId {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        ObjectId(self.name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }
}
