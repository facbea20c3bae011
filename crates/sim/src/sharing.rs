//! What does each of several clients get of one SSD?
//!
//! Source: [IANUS §3, §4]. Every client keeps so many requests outstanding, all of one kind and size;
//! under `fixed` placement, since out-of-place writing would take away the garbage collection that
//! the paper measured (design decision 12). Requests are counted by bins of 100 ms.

use crate::World;
use crate::bare_ssd::{VOLUME, bare_ssd};
use crate::measure::ModelProbe;
use std::sync::Arc;
use tandem_block::{
    DeviceId, Drive, DriveEventKind, DriveOp, DriveOpKind, Duration, Instant, KIB, MIB, Op,
    PayloadId, Request, RequestId, Rng, StreamId,
};
use tandem_drives::spec::{DriveSpec, SpecError};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::profile::throughput::{CostPlan, Throughput, measure};
use tandem_engine::profile::{MeasureError, Probe as _, Session};
use tandem_engine::qos::admit;
use tandem_engine::qos::cost::{CostTable, Kind};
use tandem_engine::qos::reserve::{Does, Promise, QosConfig, Rate, Selector, StreamConfig};
use tandem_engine::stats::recorder::Latencies;
use tandem_engine::{ConfigError, Engine};

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
    /// Garbage collections that began while it counted: from and to, in ns from then on.
    pub collections: Vec<(u64, u64)>,
    /// Windows in which the drive was seen, and those in which it did less than its profile's worst.
    pub envelope: (u64, u64),
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

/// A drive with its past, and the time when that was over.
pub struct Prepared {
    drive: Box<dyn Drive>,
    now_ns: u64,
}

impl Prepared {
    /// Another one like it.
    #[must_use]
    pub fn fork(&self) -> Prepared {
        Prepared { drive: self.drive.fork(), now_ns: self.now_ns }
    }
}

/// Builds the drive and lets it go through what a run says was before.
///
/// # Errors
/// If it cannot be built.
pub fn prepare(config: &SharingConfig) -> Result<Prepared, SharingError> {
    let options = BuildOptions {
        seed: config.seed,
        ssd_state: config.state,
        capacity_bytes: None,
        keep_events: true,
    };
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
    let mut rng = Rng::new(config.seed ^ 0xA6E);
    ops.extend((0..bytes / AGE_BYTES).map(|_| write(rng.below(slots) * AGE_BYTES, AGE_BYTES)));
    probe.keep(FILL_DEPTH, &ops).map_err(MeasureError::from)?;
    if !ops.is_empty() {
        probe.rest(FILL_REST.ns);
    }
    probe.take_events();
    let now_ns = probe.now_ns();
    Ok(Prepared { drive: probe.into_drive(), now_ns })
}

/// Measures what requests of these kinds and sizes cost on this drive in this state, each alone.
///
/// # Errors
/// The drive's.
pub fn costs(prepared: &Prepared, plan: &CostPlan) -> Result<CostTable, SharingError> {
    let mut table = CostTable::default();
    for kind in &plan.kinds {
        // each on a drive of its own: what one row leaves behind would be the next one's state
        let mut probe = ModelProbe::at(prepared.drive.fork(), prepared.now_ns);
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
    let mut world = world(config, prepared, costs, &promises)?;
    world.now = Instant::from_ns(prepared.now_ns);
    world.start().map_err(|why| ConfigError::Volume {
        volume: why.to_string(),
        error: tandem_block::IoError::Stopping,
    })?;
    let mut run = Running::new(config, world);
    run.measure();
    Ok(run.result(&promises, costs))
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

fn world(
    config: &SharingConfig,
    prepared: &Prepared,
    costs: &Arc<CostTable>,
    promises: &[Option<Promise>],
) -> Result<World, SharingError> {
    let drive = prepared.drive.fork();
    let mut engine = bare_ssd(&config.spec, drive.as_ref());
    let streams = config.clients.iter().zip(promises).enumerate();
    engine.qos = QosConfig {
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
    };
    Ok(World::new(Engine::new(engine)?, vec![drive], false))
}

struct Client {
    next: u64,
    slots: u64,
    rng: Rng,
    throughput: Throughput,
    latencies: Latencies,
}

struct Running<'a> {
    config: &'a SharingConfig,
    world: World,
    clients: Vec<Client>,
    /// Whose request it is, and when it was sent.
    in_flight: slab::Slab<(usize, Instant)>,
    payloads: u64,
    counts_from: Instant,
}

impl<'a> Running<'a> {
    fn new(config: &'a SharingConfig, world: World) -> Running<'a> {
        let capacity_bytes = world.engine.devices()[0].config.capacity_bytes;
        let mut seeds = Rng::new(config.seed);
        let client = |(index, spec): (usize, &ClientSpec)| {
            let left = capacity_bytes.saturating_sub(spec.from_bytes);
            let range = if spec.range_bytes == 0 { left } else { spec.range_bytes };
            let slots = (range.min(left) / spec.size_bytes).max(1);
            Client {
                // not where another one begins: requests to one place wait for each other
                next: slots * index as u64 / config.clients.len() as u64,
                slots,
                rng: seeds.split(index as u64),
                throughput: Throughput::default(),
                latencies: Latencies::default(),
            }
        };
        let clients = config.clients.iter().enumerate().map(client).collect();
        Running {
            config,
            world,
            clients,
            in_flight: slab::Slab::new(),
            payloads: 0,
            counts_from: Instant::NEVER,
        }
    }

    fn ask(&mut self, whose: usize, kind: Kind, range: (u64, u64), fua: bool) {
        let op = if kind.read { Op::Read } else { Op::Write };
        let key = self.in_flight.insert((whose, self.world.now));
        let id = RequestId(key as u64);
        let mut request = Request::new(id, VOLUME, op, range, self.world.now);
        request.fua = fua;
        request.stream = StreamId(u32::try_from(whose.wrapping_add(1)).unwrap_or(0));
        if op == Op::Write {
            self.payloads += 1;
            request.payload = PayloadId(self.payloads);
        }
        self.world.request(&request);
    }

    fn send(&mut self, whose: usize) {
        let spec = &self.config.clients[whose];
        let client = &mut self.clients[whose];
        let slot = if spec.kind.sequential {
            client.next += 1;
            (client.next - 1) % client.slots
        } else {
            client.rng.below(client.slots)
        };
        let first = spec.from_bytes / spec.size_bytes * spec.size_bytes;
        let range = (first + slot * spec.size_bytes, spec.size_bytes);
        let (kind, fua) = (spec.kind, spec.fua);
        self.ask(whose, kind, range, fua);
    }

    fn measure(&mut self) {
        self.counts_from = self.world.now + self.config.warm_up;
        let until = self.counts_from + self.config.duration;
        for whose in 0..self.clients.len() {
            (0..self.config.clients[whose].outstanding).for_each(|_| self.send(whose));
        }
        let mut ended = Vec::new();
        while self.world.next_at() < until && self.world.step() {
            let (now, in_flight) = (self.world.now, &mut self.in_flight);
            self.world.drain_done(|done| ended.push(in_flight.remove(done.request.0 as usize)));
            for (whose, sent) in std::mem::take(&mut ended) {
                if now >= self.counts_from {
                    let client = &mut self.clients[whose];
                    client.throughput.count(now.since(self.counts_from).ns);
                    client.latencies.record(now.since(sent).ns);
                }
                self.send(whose);
            }
        }
        self.world.now = until;
    }

    fn result(mut self, promises: &[Option<Promise>], costs: &CostTable) -> SharingResult {
        let digest = self.world.engine.digest();
        let bins = (self.config.duration.ns / tandem_engine::profile::throughput::BIN_NS) as usize;
        let from = self.counts_from;
        let events = self.world.drive_mut(DeviceId(0)).take_events();
        let collections = events
            .into_iter()
            .filter(|event| event.kind == DriveEventKind::GarbageCollection && event.start >= from)
            .map(|event| (event.start.since(from).ns, event.end.since(from).ns))
            .collect();
        let streams = self.world.engine.devices()[0].streams.as_ref();
        let envelope = streams.map_or((0, 0), |s| (s.observed.windows, s.observed.outside));
        let counted: Vec<(u64, u64)> = self
            .world
            .engine
            .clients(self.world.now)
            .into_iter()
            .flatten()
            .map(|client| (client.delivery.windows, client.delivery.met))
            .collect();
        let clients = self.clients.into_iter().enumerate().map(|(index, mut client)| {
            client.throughput.bins.resize(bins, 0);
            let spec = &self.config.clients[index];
            ClientResult {
                name: spec.name.clone(),
                kind: spec.kind,
                target: promises[index].map(|promise| promise.rate),
                asked_ppb: promises[index].and_then(|promise| {
                    let curve = costs.curve(promise.window, promise.confidence_ppm, DEPTH).ok()?;
                    promise.share_ppb(promise.cost_ns(&curve))
                }),
                throughput: client.throughput,
                latencies: client.latencies,
                windows: counted.get(index).copied().unwrap_or_default(),
            }
        });
        SharingResult { digest, clients: clients.collect(), collections, envelope }
    }
}

/// What all promises ask for, in billionths; `None` if one cannot be kept by any share.
pub fn asked_ppb(result: &SharingResult) -> Option<u64> {
    let promised = result.clients.iter().filter(|client| client.target.is_some());
    promised.map(|client| client.asked_ppb).sum()
}

/// Would these promises be made? The engine's word, if not.
pub fn refused(config: &SharingConfig, costs: &Arc<CostTable>) -> Option<String> {
    let streams = config.clients.iter().zip(promises(config, costs)).enumerate();
    let streams = streams.map(|(index, (client, promise))| StreamConfig {
        name: client.name.clone(),
        of: Selector::Stream(StreamId(index as u32 + 1)),
        promise,
        weight: client.weight,
        limit: client.limit,
    });
    let config = QosConfig {
        streams: streams.collect(),
        background_ppb: 0,
        costs: vec![Some(Arc::clone(costs))],
        ..QosConfig::default()
    };
    admit::asked(&config, DeviceId(0)).err().map(|why| why.to_string())
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
