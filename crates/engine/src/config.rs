//! Which knobs does an engine have? Each with its unit, bounds, default and source.

use crate::profile::{HddProfile, SsdProfile};
use crate::qos::reserve::QosConfig;
pub use crate::settings::SteerConfig;
pub use crate::tier::TierConfig;
use std::num::NonZeroU64;
use tandem_block::{BLOCK_BYTES, DeviceId, DurabilityClass, Duration, MIB, ObjectId};

/// A drive that shall take the place of a member: listed by the event loop behind all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuccessorConfig {
    /// Whose place.
    pub device: DeviceId,
    /// Usable bytes of the successor.
    pub capacity_bytes: u64,
}

/// What a drive is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Fast tier.
    Ssd,
    /// Capacity tier and log.
    Hdd,
}

/// What becomes of a drive's buffer in a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteCache {
    /// It is lost; only a flush settles it.
    #[default]
    Volatile,
    /// It survives: the administrator's word.
    Protected,
}

/// Where blocks are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Out of place, through the map, with the promise of durability.
    #[default]
    Mapped,
    /// Identity on the SSD, no map and no promise: for simulation alone (design decision 12).
    Fixed,
}

/// A command without an answer for so long is abandoned, if the configuration says nothing else. Longer than
/// the error recovery of drives that are made for servers (7 s by their makers' word).
pub const DEADLINE: Duration = Duration::from_s(30);

/// One drive of the set.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// What it is for.
    pub role: Role,
    /// Usable bytes.
    pub capacity_bytes: u64,
    /// Is its buffer lost in a power cut?
    pub write_cache: WriteCache,
    /// Commands in flight at most; 1 for a hard drive unless profiled deeper (design decision 4).
    pub depth: u32,
    /// Its own id, written at format and compared at start.
    pub uuid: u128,
    /// What is believed of a hard drive; without it there is no steering to it.
    pub hdd_profile: Option<HddProfile>,
    /// What is believed of an SSD.
    pub ssd_profile: SsdProfile,
}

/// One volume: an object of fixed size.
#[derive(Clone, Debug)]
pub struct VolumeConfig {
    /// Its id.
    pub object: ObjectId,
    /// Its name, unique in the pool.
    pub name: String,
    /// Its size, a multiple of 4096.
    pub size_bytes: u64,
    /// Where its writes go.
    pub steer: SteerConfig,
    /// Where its data belongs. Default `none`.
    pub tier: TierConfig,
    /// Tiers that its files may have instead, each by its name ([`tandem_block::TIER_KEY`]). Of what all
    /// volumes of a pool have alike they have what these have. Default none.
    pub file_tiers: Vec<TierConfig>,
    /// What an acknowledgement means.
    pub durability: DurabilityClass,
}

/// What a drive may take in a day, in bytes; days are counted from the engine's start (B4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveBudget {
    /// What its vendor rates it for: of a hard drive reads and writes, of an SSD writes. A hard drive
    /// that has done so much is not padded for the rest of the day. `None`: not known.
    pub rated_bytes: Option<u64>,
    /// Of a hard drive: padding. 0: none, it drains by itself or is flushed. `None`: the pool's
    /// `padding_bytes_per_day`.
    pub padding_bytes: Option<u64>,
    /// Of a hard drive: redirected writes, above 0. When they are spent nothing is redirected to it.
    /// `None`: no bound.
    pub log_bytes: Option<u64>,
    /// Of an SSD: all writes, above 0. When they are spent on every SSD, policies that redirect send
    /// hard drives all that these take without a slow write. `None`: no bound.
    pub ssd_write_bytes: Option<u64>,
}

/// Leaves of one checkpoint (guess): up to 512 MiB. One that takes a part costs a root and a flush more.
const PART_LEAVES: NonZeroU64 = NonZeroU64::new(1 << 17).expect("it is not zero");

/// Blocks that no commit names yet at most (guess).
const UNCOMMITTED_BLOCKS: NonZeroU64 = NonZeroU64::new(1 << 20).expect("it is not zero");

/// Sizes of areas of the metadata, on each drive that keeps them, and of what waits to be written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSizes {
    /// Bytes of one checkpoint root: bounds the number of objects.
    pub root_bytes: u64,
    /// Pages for the map. `None`: twice as many as the map may take, so that a checkpoint always takes all that has
    /// changed. 0: a 16th more than it may take, which is enough.
    pub map_pages: Option<u64>,
    /// Leaves of the map that one checkpoint takes, or a few more. What it has left, the next one takes at once.
    /// What pointed where before stays in memory until it is durable: 24 bytes for each of them.
    pub part_leaves: NonZeroU64,
    /// Blocks that were written to SSDs, and ranges that were discarded, that no commit names yet. While there are so
    /// many, writes wait. Default 2^20 (guess): in the worst order they take 30 MiB of memory.
    pub uncommitted_blocks_max: NonZeroU64,
}

/// Everything an engine is told at birth.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The pool's id.
    pub pool: u128,
    /// The pool's name.
    pub name: String,
    /// The drives, in the order of their ids.
    pub devices: Vec<DeviceConfig>,
    /// The volumes; those that the pool does not have yet are made at start.
    pub volumes: Vec<VolumeConfig>,
    /// Mapped or fixed.
    pub placement: Placement,
    /// Drives that are gone, and whose loss was accepted: the pool is served read-only from the
    /// others. Default none.
    pub absent: Vec<DeviceId>,
    /// Drives that were removed: they keep their numbers, and the event loop has nothing in their places. With
    /// `format`: places that are empty from birth, of the size and for the role that the device says. Default
    /// none.
    pub gone: Vec<DeviceId>,
    /// The first hard drive has room for a metadata replica, although there are places for
    /// several SSDs: all but one were empty at birth. The engine finds that out. Default no.
    pub has_metadata_replica: bool,
    /// Does a start go on with a drain that it finds? Default yes; no for who only looks.
    pub drains: bool,
    /// Write a fresh pool instead of recovering the one on the drives.
    pub format: bool,
    /// Do payloads have contents? Without, checksums are not verified.
    pub contents: bool,
    /// Does a read look at every place that its blocks have, and note those that are bad? Default no.
    pub verify_copies: bool,
    /// Bytes of a journal ring, a multiple of 4096, at least 32 KiB; `None`: capacity / 128 within 512 KiB
    /// and 256 MiB (guess).
    pub journal_bytes: Option<u64>,
    /// Areas of the metadata that have the usual size, but in tests and replays.
    pub areas: AreaSizes,
    /// Bytes of each of the two areas for the table of objects, on each drive with metadata; bounds how
    /// many objects and attributes there are. `None`: a 256th of the smallest drive, within 256 KiB and
    /// 256 MiB (guess). 0: there are volumes alone, and they stand in the checkpoint's root.
    pub object_table_bytes: Option<u64>,
    /// Share of a hard drive given to its log, in percent. Default 10. A log takes no more than 64 GiB, or a hundredth
    /// of its drive where that is more: each of its slots takes 11 bytes of RAM.
    pub log_percent: u64,
    /// Bytes of one log segment. Default 16 MiB, one F stage of the WD100EFAX.
    pub log_segment_bytes: u64,
    /// Write the changes of the map at the latest after this long. Default 1 s.
    pub commit_interval: Duration,
    /// The metadata replica may lack what has been durable for this long before users wait
    /// for the write that brings it there. Default 30 s: what Linux lets wait in its page cache (guess).
    pub metadata_replica_lag: Duration,
    /// Dirty SSD space, in percent, at which write-back begins. Default 60 (design decision 10).
    pub writeback_high_percent: u64,
    /// Share of a hard drive's time that flushes may take for which nobody waits, in percent, 1 to 100. Default 2
    /// (guess).
    pub flush_budget_percent: u64,
    /// … and at which it ends. Default 40.
    pub writeback_low_percent: u64,
    /// Write back also after this long without requests. Default 1 s.
    pub writeback_idle: Duration,
    /// Write-back gathers at least this much in LBA order. Default 1 MiB.
    pub writeback_run_bytes: u64,
    /// Log use, in percent, at which GC begins. Default 70 ([BCW §4.3.1]).
    pub log_gc_percent: u64,
    /// Log use, in percent, at which redirection stops. Default 90.
    pub log_stop_percent: u64,
    /// The tail of one hard drive that is kept in RAM at most. Default 64 MiB (design decision 8).
    pub tail_bytes_max: u64,
    /// Redirected writes that are kept in RAM for reads at most, in bytes, beside what tails hold; 0:
    /// only those. Default 64 MiB, as much as the tail of a hard drive (guess). Under fixed placement
    /// nothing is kept: the papers read what they redirected from the drive.
    pub read_back_bytes: u64,
    /// A block in a log that its hard drive has read so often for users is promoted, brought to an SSD.
    /// Default 0, never: promotions write to the SSDs, and what those are written to is what policies
    /// are compared by. 2 is a good choice where data is read again (frontier D9).
    pub promote_after_reads: u32,
    /// Promotions write so much to the SSDs in a second at most. Default 8 MiB, what ZFS's L2ARC was
    /// given for long.
    pub promote_bytes_per_s: u64,
    /// Requests accepted and not completed at most; the event loop waits beyond. Default 65,536.
    pub requests_max: u32,
    /// Bytes of memory for where blocks lie and for their checksums. Default: 2 GiB for each TiB of SSD and 32 MiB for
    /// each TiB of hard drive.
    pub metadata_memory_bytes: Option<u64>,
    /// Pages of checksums in RAM at most, beside that bound. Default: any number.
    pub checksum_pages_max: usize,
    /// Padding a hard drive may write in a day of pool time. Default 2 % of 550 TB a year:
    /// 30 GiB a day (B4).
    pub padding_bytes_per_day: u64,
    /// What each drive may take in a day, by id; those that are missing have no bounds of their own.
    pub budgets: Vec<DriveBudget>,
    /// How long each drive may leave a command without an answer, by id; those that are missing have the
    /// default, 30 s. A pair's second drive has what its first one has.
    pub deadlines: Vec<Duration>,
    /// Does the model of a hard drive follow what is seen of it, or stay its profile's? Default yes.
    pub recalibrate: bool,
    /// A drive that is about to take another one's place, behind all others in the event loop. Default none.
    pub successor: Option<SuccessorConfig>,
    /// The copy to a successor is made durable, and marked, every so many bytes. Default 256 MiB: a crash
    /// costs seconds (guess).
    pub replacement_mark_bytes: u64,
    /// … which copies so many bytes at a time. Default 1 MiB: few enough that nobody waits long for them
    /// (guess).
    pub replacement_region_bytes: u64,
    /// SSDs that are two drives each. Default none.
    pub pairs: Vec<crate::mirror::Pair>,
    /// Stage pairs in one buffered-write sequence (`Loop_max`, [BCW Alg. 2]). Default 10.
    pub bcw_loops_max: u32,
    /// Who is served when, and what is promised to whom. Default: first come, first served.
    pub qos: QosConfig,
}

impl EngineConfig {
    /// Share of a log in use up to which it takes writes for which no SSD has room, in percent: midway between the
    /// mark at which it is cleaned in the quiet and the one at which users' writes stop.
    pub(crate) fn log_spill_percent(&self) -> u64 {
        let stop = self.log_stop_percent;
        u64::midpoint(self.log_gc_percent.min(stop), stop)
    }

    /// Blocks of a move that takes what lies on a drive to another one, at most: a user waits for one command of it, of
    /// 1 MiB (guess).
    pub(crate) fn drain_run_blocks(&self) -> u64 {
        self.writeback_run_bytes.min(MIB) / BLOCK_BYTES
    }

    /// Defaults for a set of drives and volumes.
    pub fn with_drives(devices: Vec<DeviceConfig>, volumes: Vec<VolumeConfig>) -> Self {
        EngineConfig {
            pool: 1,
            name: "pool".into(),
            devices,
            volumes,
            placement: Placement::Mapped,
            absent: Vec::new(),
            gone: Vec::new(),
            has_metadata_replica: false,
            drains: true,
            format: true,
            contents: true,
            verify_copies: false,
            journal_bytes: None,
            areas: AreaSizes {
                root_bytes: 64 * 1024,
                map_pages: None,
                part_leaves: PART_LEAVES,
                uncommitted_blocks_max: UNCOMMITTED_BLOCKS,
            },
            object_table_bytes: None,
            log_percent: 10,
            log_segment_bytes: 16 * MIB,
            commit_interval: Duration::from_s(1),
            metadata_replica_lag: Duration::from_s(30),
            writeback_high_percent: 60,
            flush_budget_percent: 2,
            writeback_low_percent: 40,
            writeback_idle: Duration::from_s(1),
            writeback_run_bytes: 8 * MIB,
            log_gc_percent: 70,
            log_stop_percent: 90,
            tail_bytes_max: 64 * MIB,
            read_back_bytes: 64 * MIB,
            promote_after_reads: 0,
            promote_bytes_per_s: 8 * MIB,
            requests_max: 65_536,
            metadata_memory_bytes: None,
            checksum_pages_max: usize::MAX,
            padding_bytes_per_day: 30 << 30,
            budgets: Vec::new(),
            deadlines: Vec::new(),
            recalibrate: true,
            successor: None,
            replacement_mark_bytes: 256 * MIB,
            replacement_region_bytes: MIB,
            pairs: Vec::new(),
            bcw_loops_max: 10,
            qos: QosConfig::default(),
        }
    }

    /// How long a drive may leave a command without an answer.
    pub(crate) fn deadline(&self, device: DeviceId) -> Duration {
        self.deadlines.get(usize::from(device.0)).copied().unwrap_or(DEADLINE)
    }

    /// What a drive may take in a day.
    pub(crate) fn budget(&self, device: DeviceId) -> DriveBudget {
        self.budgets.get(usize::from(device.0)).copied().unwrap_or_default()
    }

    /// The drives that were not removed, with their positions.
    pub fn present(&self) -> impl Iterator<Item = (usize, &DeviceConfig)> {
        let all = self.devices.iter().enumerate();
        all.filter(|(index, _)| !self.gone.contains(&DeviceId(*index as u8)))
    }

    /// Position of the drive that holds the journal: the first SSD, or the first drive.
    pub(crate) fn metadata_device(&self) -> usize {
        let mut ssds = self.with_role(Role::Ssd).filter(|id| !self.gone.contains(id));
        ssds.next().map_or(0, |id| usize::from(id.0))
    }

    /// The drive that keeps the metadata replica, if it is not a second SSD: the first hard
    /// drive of a set that was formatted with one SSD.
    pub(crate) fn metadata_replica_device(&self) -> Option<DeviceId> {
        let one_ssd = self.has_metadata_replica || self.with_role(Role::Ssd).count() == 1;
        let follows = one_ssd && self.placement == Placement::Mapped;
        let first = self.with_role(Role::Hdd).next().filter(|_| follows)?;
        // no other one has room for it
        (!self.gone.contains(&first)).then_some(first)
    }

    /// Does this drive keep the table of the map?
    pub(crate) fn keeps_map(&self, device: usize) -> bool {
        device == self.metadata_device()
            || self.devices[device].role == Role::Ssd
            || self.metadata_replica_device() == Some(DeviceId(device as u8))
    }

    /// Ids of the drives with this role.
    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = DeviceId> + '_ {
        self.devices
            .iter()
            .enumerate()
            .filter(move |(_, d)| d.role == role)
            .map(|(index, _)| DeviceId(index as u8))
    }
}
