//! Which pool does a swarm run over?
//!
//! A few MiB of every kind of drive, sized so that within some hundred requests everything happens
//! that takes days on a real pool: checkpoints, journal wraps, write-back, log GC, a full SSD.

use crate::erratic::Erratic;
use crate::workload::{Mix, Shape};
use tandem_block::{Drive, DurabilityClass, Duration, KIB, MIB, ObjectId, Rng};
use tandem_engine::profile::{HddProfile, SsdProfile};
use tandem_engine::{DeviceConfig, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache};

/// The volume of every swarm.
pub const VOLUME: ObjectId = ObjectId(1);

/// How to run a swarm.
#[derive(Clone, Debug)]
pub struct SwarmConfig {
    /// Seeds everything.
    pub seed: u64,
    /// Steering policy.
    pub policy: String,
    /// SSDs and hard drives.
    pub drives: (usize, usize),
    /// The workload.
    pub shape: Shape,
    /// SSD and HDD bytes.
    pub sizes: (u64, u64),
    /// Times and thresholds.
    pub tuning: Tuning,
}

/// Times and thresholds of a pool: what is likely within few requests hangs on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Longest latency of an SSD's command, and of its flush.
    pub ssd_latency_ns: (u64, u64),
    /// Longest latency of a hard drive's command, and of its flush.
    pub hdd_latency_ns: (u64, u64),
    /// Bytes of the journal ring.
    pub journal_bytes: u64,
    /// Share of a hard drive given to its log, in percent.
    pub log_percent: u64,
    /// Bytes of a log segment.
    pub log_segment_bytes: u64,
    /// Changes of the map wait for a commit at most this long.
    pub commit_interval: Duration,
    /// Dirty SSD space, in percent, at which write-back begins and ends.
    pub writeback_percent: (u64, u64),
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            ssd_latency_ns: (200_000, 200_000),
            hdd_latency_ns: (90_000, 90_000),
            journal_bytes: 64 * KIB,
            log_percent: 20,
            log_segment_bytes: 256 * KIB,
            commit_interval: Duration::from_ms(5),
            writeback_percent: (60, 40),
        }
    }
}

/// A hard drive's belief for tiny pools: small stages, so that every state is met.
fn tiny_profile() -> HddProfile {
    HddProfile {
        fast_latency: vec![(4 * KIB, 20_000)],
        mid_latency: vec![(4 * KIB, 60_000)],
        slow_latency_ns: 200_000,
        fast_stage_bytes: MIB,
        mid_stage_bytes: 512 * KIB,
        drain_idle_ns: 2_000_000,
        drain_bytes_per_s: 200_000_000,
        flush_base_ns: 100_000,
        position_ns: 1_000_000,
    }
}

impl SwarmConfig {
    /// A tiny pool in which everything happens: checkpoints, journal wraps, write-back, log GC.
    pub fn tiny(seed: u64, policy: &str, requests: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let shape = Shape {
            requests,
            depth: rng.between(1, 8) as usize,
            volume_bytes: 12 * MIB,
            footprint_bytes: [512 * KIB, 2 * MIB, 12 * MIB][rng.below(3) as usize],
            length_bytes_max: [8 * KIB, 64 * KIB, 256 * KIB][rng.below(3) as usize],
            unaligned_ppm: [0, 200_000, 700_000][rng.below(3) as usize],
            pause: Duration::from_us([0, 50, 3_000][rng.below(3) as usize]),
            mix: Mix { read: 150_000, flush: 80_000, zero: 50_000, fua: 50_000 },
        };
        let drives = [(1, 1), (1, 2), (2, 1), (1, 1), (2, 3)][rng.below(5) as usize];
        let (sizes, tuning) = ((8 * MIB, 24 * MIB), Tuning::default());
        SwarmConfig { seed, policy: policy.into(), drives, shape, sizes, tuning }
    }

    /// The engine's configuration.
    pub fn engine(&self, format: bool) -> EngineConfig {
        let device = |role, index: usize| DeviceConfig {
            role,
            capacity_bytes: if role == Role::Ssd { self.sizes.0 } else { self.sizes.1 },
            write_cache: WriteCache::Volatile,
            depth: if role == Role::Ssd { 16 } else { 1 },
            uuid: 100 + index as u128,
            hdd_profile: (role == Role::Hdd).then(tiny_profile),
            ssd_profile: SsdProfile::default(),
        };
        let (ssds, hdds) = self.drives;
        let devices = (0..ssds)
            .map(|i| device(Role::Ssd, i))
            .chain((0..hdds).map(|i| device(Role::Hdd, ssds + i)))
            .collect();
        let volume = VolumeConfig {
            object: VOLUME,
            name: "vol0".into(),
            size_bytes: self.shape.volume_bytes,
            steer: SteerConfig { policy: self.policy.clone(), queue_length: 1 },
            tier: "none".into(),
            durability: DurabilityClass::VolatileOk,
        };
        let tuning = self.tuning;
        EngineConfig {
            format,
            journal_bytes: Some(tuning.journal_bytes),
            log_segment_bytes: tuning.log_segment_bytes,
            log_percent: tuning.log_percent,
            tail_bytes_max: MIB,
            commit_interval: tuning.commit_interval,
            writeback_high_percent: tuning.writeback_percent.0,
            writeback_low_percent: tuning.writeback_percent.1,
            writeback_idle: Duration::from_ms(4),
            writeback_run_bytes: 256 * KIB,
            checksum_pages_max: 3,
            ..EngineConfig::with_drives(devices, vec![volume])
        }
    }

    /// Erratic drives of the sizes that the configuration names.
    pub fn drives(&self) -> Vec<Box<dyn Drive>> {
        let (ssds, hdds) = self.drives;
        (0..ssds + hdds)
            .map(|i| {
                let is_ssd = i < ssds;
                let bytes = if is_ssd { self.sizes.0 } else { self.sizes.1 };
                let tuning = self.tuning;
                let latency_ns = if is_ssd { tuning.ssd_latency_ns } else { tuning.hdd_latency_ns };
                let seed = self.seed.wrapping_mul(31).wrapping_add(i as u64);
                Box::new(Erratic::new(bytes, seed, latency_ns, !is_ssd)) as Box<dyn Drive>
            })
            .collect()
    }
}
