//! What does each of several clients get of one SSD, or of two as a pair?
//!
//! Source: [IANUS §3, §4, §5]. Every client keeps so many requests outstanding, all of one kind and size,
//! or asks at a rate; under `fixed` placement, since out-of-place writing would take away the garbage
//! collection that the paper measured (design decision 12). Requests are counted by bins of 100 ms.
//! The SSD may have hard drives behind it to which a policy redirects writes.

mod asking;
mod paired;

pub use paired::{CACHE_PERIODS, PairOf, PairResult};

use crate::Simulation;
use crate::bare_ssd::bare_ssd;
use crate::measure::ModelProbe;
use crate::profiles::ProfileKind;
use crate::replay::DriveChoice;
use asking::Running;
use std::sync::Arc;
use tandem_block::{
    DeviceId, Drive, DriveOp, DriveOpKind, Duration, GIB, Instant, KIB, MIB, Rng, StreamId,
};
use tandem_drives::spec::{DriveSpec, SpecError};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::mirror::Pair;
use tandem_engine::profile::throughput::{CostPlan, Throughput, measure};
use tandem_engine::profile::{MeasureError, Probe as _, Session};
use tandem_engine::qos::admit::{self, Side};
use tandem_engine::qos::cost::{CostTable, Kind};
use tandem_engine::qos::reserve::{Does, Promise, QosConfig, Rate, Selector, StreamConfig};
use tandem_engine::stats::recorder::Latencies;
use tandem_engine::{
    ConfigError, DeviceConfig, Engine, EngineConfig, Role, SteerConfig, WriteCache,
};

/// Writes of a fill.
const FILL_BYTES: u64 = MIB;
const FILL_DEPTH: usize = 31;
/// … and of what ages the drive after it.
const AGE_BYTES: u64 = 256 * KIB;
/// The drive rests after both.
const FILL_REST: Duration = Duration::from_s(10);

/// What a client is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// So much.
    Rate(Rate),
    /// Whatever so many millionths of the drive's time come to by its profile.
    SharePpm(u64),
}

/// What a client asks for one after the other, again and again: those of a trace.
#[derive(Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Whose they are.
    pub name: String,
    /// First byte, which is taken modulo the client's range, and bytes.
    pub list: Arc<[(u64, u64)]>,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests of {}", self.list.len(), self.name)
    }
}

/// Requests that arrive by the clock, whether or not those before are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrives {
    /// Between two groups.
    pub every: Duration,
    /// Requests at once.
    pub burst: u32,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Bytes of each request.
    pub size_bytes: u64,
    /// The first byte of the drive that it uses.
    pub from_bytes: u64,
    /// Bytes of the drive that it uses, from there on; 0 for all.
    pub range_bytes: u64,
    /// Requests that it keeps outstanding.
    pub outstanding: u32,
    /// … unless they arrive by the clock.
    pub arrives: Option<Arrives>,
    /// The next one follows so long after an answer: the way to the client and back.
    pub think: Duration,
    /// … and are those of a trace: `size_bytes` is their mean.
    pub recorded: Option<Recorded>,
    /// Its writes are durable before they are acknowledged.
    pub fua: bool,
    /// What it is promised.
    pub target: Option<Target>,
    /// Its part of the slack.
    pub weight: Option<u32>,
    /// No more than this.
    pub limit: Option<Rate>,
}

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct SharingConfig {
    /// The drive, at the capacity that is meant.
    pub spec: DriveSpec,
    /// Two of them as one, or one.
    pub pair: Option<PairOf>,
    /// Hard drives behind it.
    pub hdds: Vec<DriveChoice>,
    /// … to which writes are redirected so.
    pub steer: SteerConfig,
    /// What it holds.
    pub state: SsdState,
    /// Written in sequence before, from the first byte on.
    pub fill_bytes: u64,
    /// … and then at random: so many bytes, over so many from the first byte on.
    pub age_bytes: (u64, u64),
    /// Runs so long before anything counts.
    pub warm_up: Duration,
    /// … and so long while it does.
    pub duration: Duration,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// The order of service.
    pub order: String,
    /// Promises hold over windows of this length.
    pub window: Duration,
    /// … in so many millionths of the profiled ones.
    pub confidence_ppm: u32,
    /// Seeds drive and clients.
    pub seed: u64,
}

/// What one client got.
#[derive(Clone, Debug)]
pub struct ClientResult {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// What it was promised.
    pub target: Option<Rate>,
    /// … as a share of the drive by its profile, in billionths; `None` if no share would do.
    pub asked_ppb: Option<u64>,
    /// What it got.
    pub throughput: Throughput,
    /// How long its requests took.
    pub latencies: Latencies,
    /// Windows in which it asked, and those in which the promise was kept, as the engine counts.
    pub windows: (u64, u64),
}

/// What came out.
#[derive(Clone, Debug)]
pub struct SharingResult {
    /// The engine's digest.
    pub digest: u64,
    /// By client.
    pub clients: Vec<ClientResult>,
    /// How long all reads took, and all writes.
    pub latencies: [Latencies; 2],
    /// The pair, if it is one.
    pub pair: Option<PairResult>,
    /// What was written where.
    pub written: Written,
    /// Garbage collections that began while it counted: from and to, in ns from then on.
    pub collections: Vec<(u64, u64)>,
    /// Windows in which the drive was seen, and those in which it did less than its profile's worst.
    pub envelope: (u64, u64),
}

/// Bytes written while it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// To the SSD; of a pair to both legs.
    pub ssd_bytes: u64,
    /// To hard drives, with padding.
    pub hdd_bytes: u64,
    /// … redirected writes of users alone.
    pub redirected_bytes: u64,
    /// … padding alone.
    pub padding_bytes: u64,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// The drive cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The engine refuses the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The costs cannot be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// Drives with their past, and the time when that was over.
pub struct Prepared {
    /// The SSD, or both legs.
    drives: Vec<Box<dyn Drive>>,
    now_ns: u64,
    /// What one of them writes in a second, by the clients' mix. Paper: `k`; 0 where nobody asked.
    write_bytes_per_s: u64,
}

impl Prepared {
    /// Others like them.
    #[must_use]
    pub fn fork(&self) -> Prepared {
        let drives = self.drives.iter().map(|drive| drive.fork()).collect();
        Prepared { drives, ..*self }
    }

    fn probe(&self) -> ModelProbe {
        ModelProbe::at(self.drives[0].fork(), self.now_ns)
    }
}

/// Builds the drives and lets them go through what a run says was before.
///
/// # Errors
/// If they cannot be built.
pub fn prepare(config: &SharingConfig) -> Result<Prepared, SharingError> {
    let (first, now_ns) = aged(config, config.seed)?;
    let mut prepared = Prepared { drives: vec![first], now_ns, write_bytes_per_s: 0 };
    if config.pair.is_some() {
        let (second, other_ns) = aged(config, Rng::new(config.seed).split(1).bits())?;
        prepared.drives.push(second);
        prepared.now_ns = now_ns.max(other_ns);
        prepared.write_bytes_per_s = paired::write_bytes_per_s(config, &prepared)?;
    }
    Ok(prepared)
}

fn aged(config: &SharingConfig, seed: u64) -> Result<(Box<dyn Drive>, u64), SharingError> {
    let options =
        BuildOptions { seed, ssd_state: config.state, capacity_bytes: None, keep_events: true };
    let mut probe = ModelProbe::new(build(&config.spec, options)?);
    let capacity = probe.capacity_bytes();
    let write = |offset_bytes, length_bytes| DriveOp {
        kind: DriveOpKind::Write { fua: false },
        offset_bytes,
        length_bytes,
    };
    let fills = config.fill_bytes.min(capacity) / FILL_BYTES;
    let mut ops: Vec<DriveOp> = (0..fills).map(|n| write(n * FILL_BYTES, FILL_BYTES)).collect();
    let (bytes, range) = config.age_bytes;
    let slots = (range.min(capacity) / AGE_BYTES).max(1);
    let mut rng = Rng::new(seed ^ 0xA6E);
    ops.extend((0..bytes / AGE_BYTES).map(|_| write(rng.below(slots) * AGE_BYTES, AGE_BYTES)));
    probe.keep(FILL_DEPTH, &ops).map_err(MeasureError::from)?;
    if !ops.is_empty() {
        probe.rest(FILL_REST.ns);
    }
    probe.take_events();
    let now_ns = probe.now_ns();
    Ok((probe.into_drive(), now_ns))
}

/// Measures what requests of these kinds and sizes cost on this drive in this state, each alone; a
/// pair is measured as a whole.
///
/// # Errors
/// The drive's.
pub fn costs(
    config: &SharingConfig,
    prepared: &Prepared,
    plan: &CostPlan,
) -> Result<CostTable, SharingError> {
    if config.pair.is_some() {
        return paired::costs(config, prepared, plan);
    }
    let mut table = CostTable::default();
    for kind in &plan.kinds {
        // each on a drive of its own: what one row leaves behind would be the next one's state
        let mut probe = prepared.probe();
        let mut quiet = |_: &'static str| {};
        let mut session = Session::new(&mut probe, u64::MAX, &mut quiet);
        let one = measure(&mut session, &CostPlan { kinds: vec![*kind], ..plan.clone() })?;
        let rows = std::mem::take(&mut table.rows);
        table = CostTable { rows: rows.into_iter().chain(one.rows.clone()).collect(), ..one };
    }
    Ok(table)
}

/// The plan of costs that the clients of a run need.
pub fn plan(config: &SharingConfig, row: Duration) -> CostPlan {
    let mut kinds: Vec<Kind> = config.clients.iter().map(|client| client.kind).collect();
    let mut sizes_bytes: Vec<u64> = config.clients.iter().map(|c| c.size_bytes).collect();
    kinds.sort_unstable();
    kinds.dedup();
    sizes_bytes.sort_unstable();
    sizes_bytes.dedup();
    // the widest that anybody writes
    let writers = config.clients.iter().filter(|client| !client.kind.read);
    let ranges: Vec<u64> = writers.map(|client| client.range_bytes).collect();
    let all = ranges.is_empty() || ranges.contains(&0);
    let range_bytes = if all { 0 } else { ranges.into_iter().max().unwrap_or(0) };
    CostPlan { kinds, sizes_bytes, range_bytes, row_ns: row.ns, ..CostPlan::usual() }
}

/// Runs the clients.
///
/// # Errors
/// If the drive or the engine cannot be built.
pub fn run(
    config: &SharingConfig,
    prepared: &Prepared,
    costs: &Arc<CostTable>,
) -> Result<SharingResult, SharingError> {
    let promises = promises(config, costs);
    let mut sim = sim(config, prepared, costs, &promises)?;
    sim.now = Instant::from_ns(prepared.now_ns);
    sim.start().map_err(|why| ConfigError::Volume {
        volume: why.to_string(),
        error: tandem_block::IoError::Stopping,
    })?;
    let mut run = Running::new(config, sim);
    run.measure();
    Ok(run.result(&promises, costs, prepared.write_bytes_per_s))
}

/// What each client is promised, as the engine is told.
fn promises(config: &SharingConfig, costs: &CostTable) -> Vec<Option<Promise>> {
    let promise = |client: &ClientSpec| {
        let blank = Promise {
            rate: Rate::Requests(1),
            does: if client.kind.read { Does::Read } else { Does::Write },
            sequential: client.kind.sequential,
            size_bytes: client.size_bytes,
            window: config.window,
            confidence_ppm: config.confidence_ppm,
        };
        let rate = match client.target? {
            Target::Rate(rate) => rate,
            Target::SharePpm(ppm) => {
                let curve = costs.curve(config.window, config.confidence_ppm, DEPTH).ok()?;
                Rate::Requests((ppm * 1_000 / blank.cost_ns(&curve)).max(1))
            }
        };
        Some(Promise { rate, ..blank })
    };
    config.clients.iter().map(promise).collect()
}

const DEPTH: u32 = tandem_engine::qos::reserve::DEPTH;

fn sim(
    config: &SharingConfig,
    prepared: &Prepared,
    costs: &Arc<CostTable>,
    promises: &[Option<Promise>],
) -> Result<Simulation, SharingError> {
    let mut ssds = prepared.fork().drives.into_iter();
    let mut drives: Vec<Box<dyn Drive>> = ssds.next().into_iter().collect();
    let mut engine = bare_ssd(&config.spec, drives[0].as_ref());
    engine.qos = qos(config, costs, promises);
    drives.extend(hard_drives(config, &mut engine)?);
    // the second leg comes after all devices
    drives.extend(ssds);
    let pair = |pair: &PairOf| {
        let config = pair.config(prepared.write_bytes_per_s);
        Pair { device: DeviceId(0), config }
    };
    engine.pairs = config.pair.iter().map(pair).collect();
    Ok(Simulation::new(Engine::new(engine)?, drives, false))
}

/// Bytes of log on each hard drive: room for minutes of what it takes (as in a replay).
const LOG_BYTES: u64 = 8 * GIB;

/// Hard drives with room for everything and a log; no more of them is seen than that.
fn hard_drives(
    config: &SharingConfig,
    engine: &mut EngineConfig,
) -> Result<Vec<Box<dyn Drive>>, SharingError> {
    let mut drives = Vec::new();
    let homes = engine.devices[0].capacity_bytes.div_ceil(config.hdds.len().max(1) as u64) + MIB;
    let visible_bytes = (homes + LOG_BYTES).next_multiple_of(MIB);
    let mut seeds = Rng::new(config.seed);
    for (index, choice) in config.hdds.iter().enumerate() {
        let options = BuildOptions {
            seed: seeds.split(2 + index as u64).bits(),
            capacity_bytes: choice.size_bytes,
            ..BuildOptions::default()
        };
        drives.push(build(&choice.spec, options)?);
        let hdd_profile = match choice.profile.as_ref().map(|profile| &profile.kind) {
            Some(ProfileKind::Hdd(profile)) => Some(profile.clone()),
            _ => None,
        };
        engine.log_percent = LOG_BYTES * 100 / visible_bytes;
        engine.devices.push(DeviceConfig {
            role: Role::Hdd,
            capacity_bytes: visible_bytes,
            write_cache: WriteCache::Volatile,
            depth: 1,
            uuid: 2 + index as u128,
            hdd_profile,
            ssd_profile: Default::default(),
        });
    }
    engine.volumes[0].steer = config.steer.clone();
    Ok(drives)
}

/// The streams as the engine is told of them.
fn qos(config: &SharingConfig, costs: &Arc<CostTable>, promises: &[Option<Promise>]) -> QosConfig {
    let streams = config.clients.iter().zip(promises).enumerate();
    QosConfig {
        order: config.order.clone(),
        streams: streams
            .map(|(index, (client, promise))| StreamConfig {
                name: client.name.clone(),
                of: Selector::Stream(StreamId(index as u32 + 1)),
                promise: *promise,
                weight: client.weight,
                limit: client.limit,
            })
            .collect(),
        // what does not fit is shared in proportion, and told
        overcommit: true,
        background_ppb: 0,
        costs: vec![Some(Arc::clone(costs))],
        ..QosConfig::default()
    }
}

/// What all promises ask for, in billionths; `None` if one cannot be kept by any share.
pub fn asked_ppb(result: &SharingResult) -> Option<u64> {
    let promised = result.clients.iter().filter(|client| client.target.is_some());
    promised.map(|client| client.asked_ppb).sum()
}

/// Would these promises be made? The engine's word, if not.
pub fn refused(config: &SharingConfig, costs: &Arc<CostTable>) -> Option<String> {
    let asked = QosConfig { overcommit: false, ..qos(config, costs, &promises(config, costs)) };
    let mut sides = Side::of(config.pair.is_some()).iter();
    sides.find_map(|&side| admit::asked(&asked, DeviceId(0), side).err().map(|why| why.to_string()))
}

#[cfg(test)]
mod tests;
