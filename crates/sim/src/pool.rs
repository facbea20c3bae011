//! Which pool does a swarm run over?
//!
//! A few MiB of every kind of drive, sized so that within some hundred requests everything happens
//! that takes days on a real pool: checkpoints, journal wraps, write-back, log GC, a full SSD.

use crate::audit::Audits;
use crate::erratic::{Erratic, Tails};
use crate::evacuation;
use crate::gone::Gone;
use crate::succession::Plan;
use crate::volumes::{VolumePlan, tiny_costs};
use crate::workload::{Mix, Shape};
use std::num::NonZeroU64;
use std::sync::Arc;
use tandem_block::{
    BLOCK_BYTES, DeviceId, Drive, DurabilityClass, Duration, Instant, KIB, MIB, ObjectId,
    RequestId, Rng, StreamId,
};
use tandem_engine::format::layout;
use tandem_engine::format::pair::HEADER_BYTES;
use tandem_engine::mirror::{Answer, Idle, JournalConfig, Pair, PairConfig};
use tandem_engine::profile::{HddProfile, SsdProfile};
use tandem_engine::qos::ORDERS;
use tandem_engine::qos::reserve::{Promise, QosConfig, Rate, Selector, StreamConfig};
use tandem_engine::settings::Registry as _;
use tandem_engine::tier::settings::{NEVER, UNBOUNDED};
use tandem_engine::tier::{Tiers, collect::COLLECTORS};
use tandem_engine::{
    AreaSizes, DeviceConfig, DriveBudget, EngineConfig, Role, TierConfig, WriteCache,
};

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
    /// Where the volume's data belongs.
    pub tier: TierConfig,
    /// Tiers that its files may have instead.
    pub file_tiers: Vec<TierConfig>,
    /// What the volume promises.
    pub durability: DurabilityClass,
    /// The workload.
    pub shape: Shape,
    /// SSD and HDD bytes.
    pub sizes: (u64, u64),
    /// Times and thresholds.
    pub tuning: Tuning,
    /// The first SSD is two.
    pub pair: Option<PairConfig>,
    /// There are other objects beside the volume, and batches of changes.
    pub objects: bool,
    /// … and clones and snapshots of them.
    pub clones: bool,
    /// A drive is replaced.
    pub replace: Option<Plan>,
    /// A drive is drained and removed.
    pub drain: Option<evacuation::Plan>,
    /// Places that are empty from birth, of those of `drives`.
    pub spares: Vec<DeviceId>,
    /// Requests that are drawn and not sent, by number: first and last of each range.
    pub without: Vec<(u64, u64)>,
    /// What is looked at beside the answers.
    pub audits: Audits,
    /// Volumes beside the first one.
    pub others: Vec<VolumePlan>,
    /// Commands of SSDs, and of hard drives, that take far longer than all others.
    pub tails: (Tails, Tails),
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
    /// Is the area for the map as small as can be?
    pub small_area: bool,
    /// Leaves that one checkpoint takes.
    pub part_leaves: u64,
    /// Blocks that no commit names yet, at most: writes wait for those.
    pub uncommitted_blocks_max: u64,
    /// Bytes of an area for the table of objects; 0: the volume stands in the root.
    pub object_table_bytes: u64,
    /// Share of a hard drive given to its log, in percent.
    pub log_percent: u64,
    /// Bytes of a log segment.
    pub log_segment_bytes: u64,
    /// Changes of the map wait for a commit at most this long.
    pub commit_interval: Duration,
    /// The metadata replica may be this far behind.
    pub metadata_replica_lag: Duration,
    /// Dirty SSD space, in percent, at which write-back begins and ends.
    pub writeback_percent: (u64, u64),
    /// What is believed of a hard drive: bytes of its fast and of its mid stage.
    pub stage_bytes: (u64, u64),
    /// … how long it rests, in ns, before it drains, and at how many bytes per second
    pub drain: (u64, u64),
    /// … and what its flush costs, in ns: copying a tail to the SSD may be cheaper.
    pub flush_ns: u64,
    /// What each SSD may be written to in a day.
    pub ssd_write_budget_bytes: Option<u64>,
    /// Redirected writes stay in RAM for reads, so many bytes beside the tails.
    pub read_back_bytes: u64,
    /// Reads of a log's block that promote it; 0: none does.
    pub promote_after_reads: u32,
    /// Pages of checksums in RAM at most.
    pub checksum_pages_max: usize,
    /// The order of service; all but the first tell streams apart, of which there are four.
    pub order: &'static str,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            ssd_latency_ns: (200_000, 200_000),
            hdd_latency_ns: (90_000, 90_000),
            journal_bytes: 64 * KIB,
            small_area: false,
            part_leaves: 1 << 17,
            uncommitted_blocks_max: 1 << 20,
            object_table_bytes: 0,
            log_percent: 20,
            log_segment_bytes: 256 * KIB,
            commit_interval: Duration::from_ms(5),
            metadata_replica_lag: Duration::from_s(10),
            writeback_percent: (60, 40),
            stage_bytes: (MIB, 512 * KIB),
            drain: (2_000_000, 200_000_000),
            flush_ns: 100_000,
            ssd_write_budget_bytes: None,
            read_back_bytes: 256 * KIB,
            promote_after_reads: 0,
            checksum_pages_max: 3,
            order: ORDERS[0].name,
        }
    }
}

/// Streams with a promise, a promise and a weight, a limit; the fourth is everything else. An SSD of
/// so little latency costs 20 us a request.
fn tiny_streams(order: &str, ssds: usize) -> QosConfig {
    let stream = |number: u32, rate: Option<u64>, weight, limit: Option<u64>| StreamConfig {
        name: number.to_string(),
        of: Selector::Stream(StreamId(number)),
        promise: rate.map(|rate| Promise::of(Rate::Requests(rate), 4 * KIB)),
        weight,
        limit: limit.map(Rate::Requests),
    };
    QosConfig {
        order: order.to_owned(),
        streams: vec![
            stream(1, Some(20_000), None, None),
            stream(2, Some(10_000), Some(30), None),
            stream(3, None, None, Some(5_000)),
        ],
        depth: 6,
        costs: vec![Some(Arc::new(tiny_costs())); ssds],
        ..QosConfig::default()
    }
}

/// A hard drive's profile for tiny pools: small stages, so that every state is met.
fn tiny_profile(tuning: &Tuning) -> HddProfile {
    HddProfile {
        fast_latency: vec![(4 * KIB, 20_000)],
        mid_latency: vec![(4 * KIB, 60_000)],
        slow_latency_ns: 200_000,
        fast_stage_bytes: tuning.stage_bytes.0,
        mid_stage_bytes: tuning.stage_bytes.1,
        drain_idle_ns: tuning.drain.0,
        drain_bytes_per_s: tuning.drain.1,
        flush_base_ns: tuning.flush_ns,
        position_ns: 1_000_000,
        detail: Box::default(),
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
            footprint_offset_bytes: 0,
            apart_bytes: 0,
            footprint_bytes: [512 * KIB, 2 * MIB, 12 * MIB][rng.below(3) as usize],
            length_bytes_max: [8 * KIB, 64 * KIB, 256 * KIB][rng.below(3) as usize],
            unaligned_ppm: [0, 200_000, 700_000][rng.below(3) as usize],
            pause: Duration::from_us([0, 50, 3_000][rng.below(3) as usize]),
            mix: Mix { read: 150_000, flush: 80_000, zero: 50_000, fua: 50_000 },
            hot_ppm: 0,
        };
        let drives = [(1, 1), (1, 2), (2, 1), (1, 1), (2, 3)][rng.below(5) as usize];
        let (sizes, mut tuning) = ((8 * MIB, 24 * MIB), Tuning::default());
        // users are never made to wait for the metadata replica, now and then, or often
        let lag_ms = [10_000, 200, 20][(seed % 3) as usize];
        tuning.metadata_replica_lag = Duration::from_ms(lag_ms);
        // little of what was redirected is in RAM, nothing but tails, or all of it
        tuning.read_back_bytes = [128 * KIB, 0, 8 * MIB][(seed / 2 % 3) as usize];
        tuning.promote_after_reads = [1, 0, 2][(seed / 3 % 3) as usize];
        tuning.part_leaves = if seed % 16 == 5 { 1 } else { 1 << 17 };
        tuning.uncommitted_blocks_max = if seed % 16 == 6 { 1 } else { 1 << 20 };
        let durability = DurabilityClass::VolatileOk;
        SwarmConfig {
            seed,
            policy: policy.into(),
            drives,
            tier: TierConfig::default(),
            file_tiers: Vec::new(),
            durability,
            shape,
            sizes,
            tuning,
            pair: None,
            objects: false,
            clones: false,
            replace: None,
            drain: None,
            spares: Vec::new(),
            without: Vec::new(),
            audits: Audits::default(),
            others: Vec::new(),
            tails: Default::default(),
        }
    }

    /// Files beside the volume: made, written into holes and behind their ends, cut short and removed,
    /// until there is no space left.
    pub fn filed(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.objects = true;
        config.shape.depth = [1, 4, 8][(seed % 3) as usize];
        config.shape.footprint_bytes = 512 * KIB;
        config.shape.length_bytes_max = 32 * KIB;
        config.shape.pause = Duration::from_us([0, 50, 1_000][(seed / 3 % 3) as usize]);
        config.drives = [(1, 1), (2, 1), (1, 2)][(seed % 3) as usize];
        if policy == "ssd-first" && seed % 4 == 3 {
            config.drives = [(2, 0), (0, 1)][(seed / 4 % 2) as usize];
        }
        config.tuning.object_table_bytes = 256 * KIB;
        // what the volume leaves is for files: little under every other seed
        let left = [256 * KIB, 6 * MIB][(seed / 2 % 2) as usize];
        config.shape.volume_bytes = config.space_bytes().saturating_sub(left);
        config
    }

    /// The same, and files and the volume are cloned while they are written to.
    pub fn cloned(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::filed(seed, policy, requests);
        config.clones = true;
        config.shape.footprint_bytes = 256 * KIB;
        config
    }

    /// More data than the SSD holds, and logs that are soon full: writes wait for space, copies are
    /// dropped as soon as they are home, and what moves must move while users write.
    pub fn crowded(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.shape.depth = 8;
        config.shape.footprint_bytes = config.shape.volume_bytes;
        config.shape.length_bytes_max = 512 * KIB;
        config.shape.unaligned_ppm = 100_000;
        config.shape.pause = Duration::from_us(100);
        config.shape.mix = Mix { read: 100_000, flush: 30_000, zero: 30_000, fua: 20_000 };
        config.drives = [(1, 1), (2, 1), (1, 2)][(seed % 3) as usize];
        config.eager_logs(seed);
        // what leaves the logs by being read again would keep them from filling
        config.tuning.promote_after_reads = 0;
        config.tuning.log_percent = 4;
        config
    }

    /// Everything redirected that can be, into logs of a few segments, so that GC runs while the
    /// pool serves.
    pub fn logged(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.shape.depth = 8;
        config.shape.footprint_bytes = 4 * MIB;
        config.shape.length_bytes_max = 128 * KIB;
        config.shape.pause = Duration::from_us(200);
        config.shape.mix = Mix { read: 50_000, flush: 60_000, zero: 20_000, fua: 10_000 };
        config.drives = [(1, 1), (1, 2)][(seed % 2) as usize];
        config.eager_logs(seed);
        config
    }

    /// A log of a few segments that is written over before its drive is flushed, by few blocks: the same
    /// place comes back to the same block while its tail is copied.
    pub fn cycled(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::logged(seed, policy, requests);
        config.shape.footprint_bytes = [32 * KIB, 16 * KIB, 64 * KIB][(seed % 3) as usize];
        config.shape.length_bytes_max = 16 * KIB;
        config.shape.mix.flush = 15_000;
        config.tuning.log_segment_bytes = [64 * KIB, 32 * KIB][(seed / 2 % 2) as usize];
        config.tuning.log_percent = 1;
        config.tuning.flush_ns = 200_000_000; // tails are copied
        config
    }

    /// A volume of 192 groups of blocks of which many are used a little, and a cache of two pages of checksums: 1 %.
    pub fn paged(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.sizes = (16 * MIB, 1152 * MIB);
        config.drives = [(1, 1), (2, 1)][(seed % 2) as usize];
        config.shape.volume_bytes = 768 * MIB;
        config.shape.footprint_bytes = 2 * MIB;
        config.shape.apart_bytes = 24 * MIB;
        config.shape.length_bytes_max = [8 * KIB, 32 * KIB][(seed / 2 % 2) as usize];
        config.shape.mix = Mix { read: 350_000, flush: 80_000, zero: 30_000, fua: 40_000 };
        config.tuning.log_percent = 1;
        config.tuning.checksum_pages_max = 2;
        config.tuning.writeback_percent = (10, 2);
        config
    }

    /// An area for the map that is as small as can be, and a journal that has more than a checkpoint finds room for:
    /// it takes what has changed in parts.
    pub fn squeezed(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::paged(seed, policy, requests);
        // a metadata replica takes no parts
        config.drives = (2, 1);
        config.shape.volume_bytes = 1088 * MIB;
        config.shape.apart_bytes = 4 * MIB;
        config.shape.footprint_bytes = 17 * MIB;
        config.shape.length_bytes_max = 8 * KIB;
        config.shape.mix = Mix { read: 50_000, flush: 20_000, zero: 10_000, fua: 10_000 };
        config.tuning.journal_bytes = 256 * KIB;
        config.tuning.small_area = seed % 3 < 2;
        config.tuning.part_leaves = [1 << 17, 24, 5][(seed % 3) as usize];
        config.tuning.uncommitted_blocks_max = [1 << 20, 8, 64][(seed / 3 % 3) as usize];
        config
    }

    /// The same, where objects are made, changed and deleted beside it: they take most of the journal.
    pub fn squeezed_with_objects(seed: u64, requests: u64) -> Self {
        let mut config = SwarmConfig::squeezed(seed, "ssd-first", requests);
        config.objects = true;
        config.tuning.object_table_bytes = 256 * KIB;
        config.tuning.journal_bytes = MIB;
        config
    }

    /// Reads of what was redirected, most of which has left RAM: they go to the hard drives, and bring to
    /// the SSD what is read again.
    pub fn reread(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::logged(seed, policy, requests);
        config.shape.footprint_bytes = 2 * MIB;
        config.shape.mix = Mix { read: 450_000, flush: 60_000, zero: 20_000, fua: 10_000 };
        config.tuning.log_percent = 8;
        config.tuning.read_back_bytes = [64 * KIB, 512 * KIB, 0][(seed % 3) as usize];
        config.tuning.promote_after_reads = 1 + (seed % 2) as u32;
        config
    }

    /// Every tier in turn, over a share of the SSDs for a few extents only, so that they come and leave all
    /// the time; every collector and cleaner, extents of one block and of several, data that comes when it
    /// is read or at intervals, writes that wait for a hard drive, and such as are answered by both.
    pub fn tiered(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::logged(seed, policy, requests);
        config.shape.footprint_bytes = [MIB, 3 * MIB][(seed / 2 % 2) as usize];
        config.shape.mix = Mix { read: 450_000, flush: 60_000, zero: 30_000, fua: 20_000 };
        config.shape.length_bytes_max = [8 * KIB, 64 * KIB][(seed % 2) as usize];
        config.tuning.read_back_bytes = 0;
        config.tuning.log_percent = [2, 8][(seed / 3 % 2) as usize];
        let names: Vec<&str> = Tiers::names().into_iter().filter(|&name| name != "none").collect();
        let turn = seed as usize + policy.len();
        let extent_bytes = [4 * KIB, 16 * KIB, 64 * KIB][(seed / 5 % 3) as usize];
        let at_intervals = (seed / 4).is_multiple_of(3);
        let collectors = if at_intervals { 3 } else { COLLECTORS.len() as u64 };
        config.tier = TierConfig::named(names[turn % names.len()])
            .with("extent", extent_bytes)
            .with("size", [256 * KIB, 1536 * KIB][(seed / 7 % 2) as usize])
            .with("sieve_bytes", [32 * KIB, MIB][(seed / 3 % 2) as usize])
            .with("cleaner", seed / 2 % 3)
            .with("exclusive", seed % 2)
            .with("detours", seed / 3 % 2)
            .with("acknowledge", u64::from(seed % 3 == 1))
            .with("reads", 1 + u64::from(seed % 5 == 4))
            .with("pays_within", if seed / 2 % 3 == 1 { 50_000_000 } else { UNBOUNDED })
            .with("collector", seed % collectors)
            .with("interval", if at_intervals { 3_000_000 } else { NEVER })
            .with("log_age", 3_000_000);
        config
    }

    /// Files that get tiers of their own, and others, while they are written to and read; under every other
    /// seed the volume itself has none.
    pub fn varied(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiered(seed, policy, requests);
        config.objects = true;
        config.clones = seed % 3 == 2;
        config.shape.footprint_bytes = 256 * KIB;
        config.tuning.object_table_bytes = 256 * KIB;
        config.shape.volume_bytes = config.space_bytes().saturating_sub(6 * MIB);
        if seed % 2 == 1 {
            let first = std::mem::take(&mut config.tier);
            let others = ["none", "hot-dst", "cold-dst", "cache-read-only", "cache-write-back"];
            let others = others.into_iter().filter(|name| *name != first.name());
            let others: Vec<TierConfig> = others.map(TierConfig::named).collect();
            config.file_tiers = [vec![first], others].concat();
        }
        config
    }

    /// The SSD is a mirrored pair whose roles change every few commands.
    pub fn paired(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::tiny(seed, policy, requests);
        config.drives = [(1, 1), (1, 2), (2, 1)][(seed % 3) as usize];
        config.shape.depth = 1 + (seed % 8) as usize;
        config.shape.pause = Duration::from_us([0, 50, 300][(seed / 2 % 3) as usize]);
        config.shape.mix.read = 250_000;
        config.pair = Some(PairConfig {
            uuids: [0xA, 0xB],
            period: Duration::from_us([1_000, 3_000, 400][(seed % 3) as usize]),
            idle: Idle::Fixed(Duration::from_us([0, 100][(seed % 2) as usize])),
            cache_bytes: [MIB, 300 * KIB, 64 * KIB][(seed / 3 % 3) as usize],
            write_bytes_per_s: 1_000_000_000,
            depth: [4, 32][(seed % 2) as usize],
            answer: [Answer::Written, Answer::Cached][(seed % 2) as usize],
            ..PairConfig::default()
        });
        config
    }

    /// As `paired`, and a third drive has a journal that is soon full.
    pub fn journaled(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::paired(seed, policy, requests);
        let pair = config.pair.as_mut().expect("it is a pair");
        pair.answer = [Answer::Written, Answer::Cached, Answer::Journaled][(seed % 3) as usize];
        pair.journal = Some(JournalConfig {
            uuid: 0xC,
            capacity_bytes: [1_200 * KIB, 2 * MIB, 4 * MIB][(seed / 2 % 3) as usize],
            ..JournalConfig::default()
        });
        config
    }

    /// The same on a hard drive, whose windows are small.
    pub fn journaled_on_hdd(seed: u64, policy: &str, requests: u64) -> Self {
        let mut config = SwarmConfig::journaled(seed, policy, requests);
        let profile = tiny_profile(&config.tuning);
        let pair = config.pair.as_mut().expect("it is a pair");
        pair.journal.as_mut().expect("it has a journal").profile = Some(profile);
        config
    }

    /// What all objects together can take.
    pub fn space_bytes(&self) -> u64 {
        let layouts = self.engine(true).lay_out_places().expect("tiny pools can be laid out");
        let is_there = |id: usize| !self.spares.contains(&DeviceId(id as u8));
        let there = || layouts.iter().enumerate().filter(|(id, _)| is_there(*id));
        let homes: u64 = there().map(|(_, layout)| layout.home_blocks).sum();
        let slots: u64 = there().map(|(_, layout)| layout.slot_count).sum();
        let blocks = if self.drives.1 > 0 { homes } else { layout::blocks_without_homes(slots) };
        blocks * BLOCK_BYTES
    }

    /// Of each hard drive: where its homes begin in the volumes' space, and how many bytes they have.
    pub(crate) fn homes_bytes(&self) -> Vec<(u64, u64)> {
        let layouts = self.engine(true).lay_out_places().expect("tiny pools can be laid out");
        let hdds = &layouts[self.drives.0..self.drives.0 + self.drives.1];
        let bytes = |layout: &layout::Layout| {
            (layout.home_first * BLOCK_BYTES, layout.home_blocks * BLOCK_BYTES)
        };
        hdds.iter().map(bytes).collect()
    }

    /// Small logs on drives that are always fast, so that they are written to and soon full.
    fn eager_logs(&mut self, seed: u64) {
        self.tuning.log_percent = 5;
        self.tuning.log_segment_bytes = 128 * KIB;
        self.tuning.hdd_latency_ns = (25_000, 300_000);
        self.tuning.stage_bytes = (4 * MIB, 2 * MIB);
        self.tuning.drain = (100_000, 10_000_000_000);
        // tails are flushed under one seed and copied under the next
        self.tuning.flush_ns = [100_000, 20_000_000][(seed / 2 % 2) as usize];
    }

    /// The engine's configuration.
    pub fn engine(&self, format: bool) -> EngineConfig {
        let device = |role, index: usize| DeviceConfig {
            role,
            capacity_bytes: if role == Role::Ssd { self.sizes.0 } else { self.sizes.1 },
            write_cache: match self.durability {
                DurabilityClass::Protected => WriteCache::Protected,
                _ => WriteCache::Volatile,
            },
            depth: if role == Role::Ssd { 16 } else { 1 },
            uuid: 100 + index as u128,
            hdd_profile: (role == Role::Hdd).then(|| tiny_profile(&self.tuning)),
            ssd_profile: SsdProfile::default(),
        };
        let (ssds, hdds) = self.drives;
        let devices = (0..ssds)
            .map(|i| device(Role::Ssd, i))
            .chain((0..hdds).map(|i| device(Role::Hdd, ssds + i)))
            .collect();
        let tuning = self.tuning;
        let map_pages = tuning.small_area.then_some(0);
        let areas = AreaSizes {
            root_bytes: 64 * KIB,
            map_pages,
            part_leaves: NonZeroU64::new(tuning.part_leaves).expect("a part takes something"),
            uncommitted_blocks_max: NonZeroU64::new(tuning.uncommitted_blocks_max)
                .expect("a write may begin"),
        };
        EngineConfig {
            format,
            gone: self.spares.clone(),
            journal_bytes: Some(tuning.journal_bytes),
            areas,
            object_table_bytes: Some(tuning.object_table_bytes),
            log_segment_bytes: tuning.log_segment_bytes,
            log_percent: tuning.log_percent,
            tail_bytes_max: MIB,
            read_back_bytes: tuning.read_back_bytes,
            promote_after_reads: tuning.promote_after_reads,
            commit_interval: tuning.commit_interval,
            metadata_replica_lag: tuning.metadata_replica_lag,
            writeback_high_percent: tuning.writeback_percent.0,
            writeback_low_percent: tuning.writeback_percent.1,
            writeback_idle: Duration::from_ms(4),
            writeback_run_bytes: 256 * KIB,
            checksum_pages_max: tuning.checksum_pages_max,
            replacement_mark_bytes: 512 * KIB,
            replacement_region_bytes: 128 * KIB,
            budgets: vec![
                DriveBudget {
                    ssd_write_bytes: tuning.ssd_write_budget_bytes,
                    ..DriveBudget::default()
                };
                ssds
            ],
            qos: match (self.limits(ssds), tuning.order) {
                (Some(limits), _) => limits,
                (None, order) if order == ORDERS[0].name => QosConfig::default(),
                (None, order) => tiny_streams(order, ssds),
            },
            // where tails shall be copied, the model must not find out what a flush really costs
            recalibrate: tuning.flush_ns == Tuning::default().flush_ns,
            pairs: self
                .pair
                .iter()
                .map(|config| Pair { device: DeviceId(0), config: config.clone() })
                .collect(),
            ..EngineConfig::with_drives(devices, self.volumes())
        }
    }

    /// Is this request drawn and not sent?
    pub(crate) fn is_without(&self, id: RequestId) -> bool {
        self.without.iter().any(|&(first, last)| (first..=last).contains(&id.0))
    }

    /// Erratic drives of the sizes that the configuration names.
    pub fn drives(&self) -> Vec<Box<dyn Drive>> {
        let (ssds, hdds) = self.drives;
        let legs = usize::from(self.pair.is_some());
        let journal = self.pair.as_ref().and_then(|pair| pair.journal.as_ref());
        (0..ssds + hdds + legs + usize::from(journal.is_some()))
            .map(|i| {
                let is_ssd = i < ssds || i >= ssds + hdds;
                let is_leg = self.pair.is_some() && (i == 0 || i == ssds + hdds);
                let header = if is_leg { HEADER_BYTES } else { 0 };
                let bytes = match journal {
                    Some(journal) if i == ssds + hdds + 1 => journal.capacity_bytes,
                    _ if is_ssd => self.sizes.0 + header,
                    _ => self.sizes.1,
                };
                let tuning = self.tuning;
                let on_hdd = i == ssds + hdds + 1 && journal.is_some_and(|j| j.profile.is_some());
                let is_ssd = is_ssd && !on_hdd;
                let latency_ns = if is_ssd { tuning.ssd_latency_ns } else { tuning.hdd_latency_ns };
                let seed = self.seed.wrapping_mul(31).wrapping_add(i as u64);
                let device = DeviceId(i as u8);
                if self.spares.contains(&device) {
                    let since = Instant::ZERO;
                    return Box::new(Gone { device, capacity_bytes: bytes, since })
                        as Box<dyn Drive>;
                }
                let tails = if is_ssd { self.tails.0 } else { self.tails.1 };
                let drive = Erratic::new(bytes, seed, latency_ns, !is_ssd).with_tails(tails);
                Box::new(drive) as Box<dyn Drive>
            })
            .collect()
    }
}
