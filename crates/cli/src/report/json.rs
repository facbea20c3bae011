//! What does `replay --json` say? Names and their order are a contract (design, "The command line").

use crate::input::Loaded;
use crate::report::workload::{self, Workload};
use serde::Serialize;
use std::collections::BTreeMap;
use tandem_engine::bcw::controller::ControllerStats;
use tandem_engine::bcw::unreliability::Unreliability;
use tandem_engine::stats::queue_found::QueueFound;
use tandem_engine::stats::recorder::{Latencies, Recorder, SIZE_GROUPS};
use tandem_engine::{Role, bcw::predictor::WriteState};
use tandem_live::status::{Latency, ReadBackReads, ReadFrom, StagedLatency, Stream, WriteTo};
use tandem_sim::replay::{DeviceResult, GaugeSummary, Plan, ReplayConfig, RunResult};

/// Drive writes that an SSD without a rating is taken to stand: those of the 960 EVO, 100 TB over
/// 250 GB.
const DRIVE_WRITES_ASSUMED: u64 = 400;
const YEAR_NS: f64 = 365.25 * 86_400e9;

/// One trace under all policies.
#[derive(Debug, Serialize)]
pub struct Document {
    /// What was replayed.
    pub trace: Trace,
    /// Of drives and synthetic workloads.
    pub seed: u64,
    /// Where it began.
    pub initial: Initial,
    /// `mapped` or `fixed`.
    pub placement: &'static str,
    /// The drives by role.
    pub drives: Drives,
    /// By policy.
    pub runs: Vec<Run>,
}

/// What was replayed.
#[derive(Debug, Serialize)]
pub struct Trace {
    name: String,
    formats: Vec<String>,
    requests: u64,
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    read_bytes: u64,
    write_bytes: u64,
    duration_ns: u64,
    bad_lines: u64,
    clamped: u64,
    rounded: u64,
    footprint_bytes: u64,
    warm_up_requests: u64,
}

/// Where the replay began, and how it was driven.
#[derive(Debug, Serialize)]
pub struct Initial {
    ssd_state: String,
    resident: &'static str,
    durability: &'static str,
    speedup: String,
    closed_loop: Option<u32>,
}

/// The drives.
#[derive(Debug, Serialize)]
pub struct Drives {
    ssd: Vec<String>,
    hdd: Vec<String>,
    sizes: Vec<Size>,
}

/// How large a drive was, and how much of it was used.
#[derive(Debug, Serialize)]
pub struct Size {
    id: usize,
    capacity_bytes: u64,
    visible_bytes: u64,
    scaled: bool,
    profile: bool,
}

/// One policy.
#[derive(Debug, Serialize)]
pub struct Run {
    policy: String,
    wall_ns: u64,
    digest: String,
    elapsed_ns: u64,
    errors: u64,
    read: StagedLatency,
    write: StagedLatency,
    flush: StagedLatency,
    write_by_size: Vec<SizeGroup>,
    write_to: WriteTo,
    read_from: ReadFrom,
    read_back: ReadBackReads,
    ssd: Ssd,
    hdd: Hdd,
    devices: Vec<Device>,
    redirected: Redirected,
    kept: BTreeMap<&'static str, Amount>,
    /// What tiers did with their share of the SSDs, if any has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<TierFigures>,
    /// What each stream was promised and given, if any is told apart; the last is everything else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<Stream>,
    fragments: u64,
    merge_reads: u64,
    backpressure_ns: u64,
    held_ns: u64,
    bytes_at_risk_max: u64,
    predictor: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Why to mistrust it.
    pub doubts: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TierFigures {
    hit_ppm: Option<u64>,
    room_bytes: u64,
    held_bytes: u64,
    came_bytes: u64,
    demoted_bytes: u64,
    dropped_bytes: u64,
    bypassed: u64,
    sieved: u64,
    strays: u64,
}

#[derive(Debug, Serialize)]
struct SizeGroup {
    upto_bytes: Option<u64>,
    #[serde(flatten)]
    latency: Latency,
}

#[derive(Debug, Serialize)]
struct Ssd {
    written_bytes: u64,
    user_bytes: u64,
    writeback_bytes: u64,
    promotion_bytes: u64,
    tail_bytes: u64,
    map_bytes: u64,
    write_requests: u64,
    utilization: f64,
    queue_depth_p50: u32,
    queue_depth_p99: u32,
    queue_depth_max: u32,
    queue_found_p50: u32,
    queue_found_p99: u32,
    queue_found_max: u32,
    write_amplification: Option<f64>,
    life_years: Option<f64>,
    life_basis: Option<String>,
    workload: Workload,
}

#[derive(Debug, Serialize)]
struct Hdd {
    written_bytes: u64,
    user_bytes: u64,
    padding_bytes: u64,
    gc_bytes: u64,
    home_bytes: u64,
    read_bytes: u64,
    flushes: u64,
    utilization_net: f64,
    utilization_gross: f64,
    user_slow_writes: u64,
    user_slow_writes_per_million: f64,
    surprises: u64,
    unreliable: Unreliable,
    measurements: u64,
    explorations: u64,
    suspensions: u64,
    padding_limits: u64,
    budget_stops: u64,
    workload: Workload,
}

/// Why, how often and for how long steering to hard drives stopped.
#[derive(Debug, Serialize)]
struct Unreliable {
    ns: u64,
    by_reason: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Device {
    id: usize,
    role: &'static str,
    name: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Figures {
    Ssd(Box<Ssd>),
    Hdd(Box<HddDevice>),
}

#[derive(Debug, Serialize)]
struct HddDevice {
    #[serde(flatten)]
    figures: Hdd,
    queue_depth_p50: u32,
    queue_depth_p99: u32,
    queue_depth_max: u32,
}

#[derive(Debug, Default, Serialize)]
struct Amount {
    requests: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Redirected {
    requests: u64,
    bytes: u64,
    by_reason: BTreeMap<&'static str, Amount>,
}

/// The document without its runs.
pub fn document(loaded: &Loaded, config: &ReplayConfig, plan: &Plan, speedup: &str) -> Document {
    let survey = &loaded.survey;
    let names = |role: Role| {
        let of_role = plan.drives.iter().filter(|drive| drive.role == role);
        of_role.map(|drive| drive.name.clone()).collect::<Vec<_>>()
    };
    let size = |(id, drive): (usize, &tandem_sim::replay::PlannedDrive)| Size {
        id,
        capacity_bytes: drive.model_bytes,
        visible_bytes: drive.visible_bytes,
        scaled: drive.is_scaled,
        profile: drive.has_profile,
    };
    Document {
        trace: Trace {
            name: loaded.name.clone(),
            formats: loaded.found.formats.clone(),
            requests: survey.requests,
            reads: survey.reads,
            writes: survey.writes,
            discards: survey.discards,
            flushes: survey.flushes,
            read_bytes: survey.read_bytes,
            write_bytes: survey.write_bytes,
            duration_ns: survey.duration_ns,
            bad_lines: loaded.found.bad_lines,
            clamped: loaded.found.clamped,
            rounded: loaded.found.rounded,
            footprint_bytes: survey.footprint_bytes(),
            warm_up_requests: survey.warm_up_requests,
        },
        seed: config.seed,
        initial: Initial {
            ssd_state: config.ssd_state.to_string(),
            resident: config.resident.name(),
            durability: super::names::durability_name(config.durability),
            speedup: speedup.to_owned(),
            closed_loop: config.closed_loop,
        },
        placement: super::names::placement_name(config.placement),
        drives: Drives {
            ssd: names(Role::Ssd),
            hdd: names(Role::Hdd),
            sizes: plan.drives.iter().enumerate().map(size).collect(),
        },
        runs: Vec::new(),
    }
}

/// Of users' reads those for which no hard drive was read, in millionths. `None`: there were none.
pub fn hit_share(result: &RunResult) -> Option<u64> {
    let [ram, ssd, copy, log, home] =
        [0, 1, 2, 3, 4].map(|place: usize| u128::from(result.latencies.read_from[place].count()));
    let all = ram + ssd + copy + log + home;
    let share = ((ram + ssd + copy) * 1_000_000).checked_div(all)?;
    Some(u64::try_from(share).expect("a part of a million"))
}

fn tier(result: &RunResult) -> Option<TierFigures> {
    let (held, room, extent_bytes) = result.tier_room?;
    let did = &result.stats.tiers;
    let bytes = |blocks: u64| blocks * tandem_block::BLOCK_BYTES;
    Some(TierFigures {
        hit_ppm: hit_share(result),
        room_bytes: u64::from(room) * extent_bytes,
        held_bytes: u64::from(held) * extent_bytes,
        came_bytes: bytes(did.came_blocks),
        demoted_bytes: bytes(did.demoted_blocks),
        dropped_bytes: bytes(did.dropped_blocks),
        bypassed: did.bypassed,
        sieved: did.sieved,
        strays: did.strays,
    })
}

/// One run's figures.
pub fn run(policy: String, result: &RunResult, doubts: Vec<String>) -> Run {
    let latencies = &result.latencies;
    let stats = &result.stats;
    let (redirected, kept) = by_reason(stats);
    Run {
        policy,
        wall_ns: result.wall_ns,
        digest: format!("{:016x}", result.digest),
        elapsed_ns: result.elapsed_ns,
        errors: latencies.errors,
        read: (&latencies.read).into(),
        write: (&latencies.write).into(),
        flush: (&latencies.flush).into(),
        write_by_size: SIZE_GROUPS
            .iter()
            .zip(&latencies.write_by_size)
            .map(|(upto, group)| SizeGroup { upto_bytes: *upto, latency: group.into() })
            .collect(),
        write_to: latencies.into(),
        read_from: latencies.into(),
        read_back: (&stats.read_back).into(),
        ssd: ssd(&with_role(result, Role::Ssd), result.elapsed_ns),
        hdd: hdd(&with_role(result, Role::Hdd), &result.steering, result),
        devices: result.devices.iter().enumerate().map(|(id, d)| device(id, d, result)).collect(),
        redirected: Redirected {
            requests: stats.redirected.0,
            bytes: stats.redirected.1,
            by_reason: redirected,
        },
        kept,
        tier: tier(result),
        streams: Stream::all(&result.streams),
        fragments: stats.fragments,
        merge_reads: stats.merge_reads,
        backpressure_ns: stats.backpressure_ns,
        held_ns: result.held_ns,
        bytes_at_risk_max: stats.bytes_at_risk_max,
        predictor: predictor(result),
        doubts,
    }
}

type Amounts = BTreeMap<&'static str, Amount>;

/// What was redirected and what was kept on the SSDs, by reason.
fn by_reason(stats: &tandem_engine::stats::EngineStats) -> (Amounts, Amounts) {
    let (mut redirected, mut kept) = (Amounts::new(), Amounts::new());
    for (reason, decided) in stats.steered.iter() {
        let side = if reason.redirects() { &mut redirected } else { &mut kept };
        let amount = Amount { requests: decided.requests, bytes: decided.bytes };
        side.insert(reason.name(), amount);
    }
    (redirected, kept)
}

fn predictor(result: &RunResult) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let counts = &result.steering.confusion.counts;
    let row = |actual: usize| {
        let cell = |predicted: &WriteState| (predicted.name(), counts[actual][*predicted as usize]);
        WriteState::ALL.iter().map(cell).collect()
    };
    WriteState::ALL.iter().map(|actual| (actual.name(), row(*actual as usize))).collect()
}

fn with_role(result: &RunResult, role: Role) -> Vec<&DeviceResult> {
    result.devices.iter().filter(|device| device.role == role).collect()
}

fn gauge(devices: &[&DeviceResult]) -> GaugeSummary {
    let mut sum = GaugeSummary::default();
    devices.iter().for_each(|device| sum.add(&device.gauge));
    sum
}

fn share(ppm: u64) -> f64 {
    ppm as f64 / 1e6
}

/// Sums over SSDs: bytes and commands are added, utilisation and queues (`queue_depth`) are those of a
/// drive at a random time, the life is the shortest. `queue_found` is what a random job found.
fn ssd(devices: &[&DeviceResult], elapsed_ns: u64) -> Ssd {
    let sum = |part: fn(&tandem_engine::stats::DeviceStats) -> u64| {
        devices.iter().map(|device| part(&device.stats)).sum::<u64>()
    };
    let gauge = gauge(devices);
    let mut found = QueueFound::default();
    devices.iter().for_each(|device| found.add(&device.queue_found));
    let life = devices
        .iter()
        .filter_map(|device| life_years(device, elapsed_ns))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    Ssd {
        written_bytes: sum(|s| s.written_bytes()),
        user_bytes: sum(|s| s.user_bytes),
        writeback_bytes: sum(|s| s.writeback_bytes),
        promotion_bytes: sum(|s| s.promotion_bytes),
        tail_bytes: sum(|s| s.tail_bytes),
        map_bytes: sum(|s| s.map_bytes),
        write_requests: sum(|s| s.write_requests),
        utilization: share(gauge.gross_ppm()),
        queue_depth_p50: gauge.depth_percentile(50),
        queue_depth_p99: gauge.depth_percentile(99),
        queue_depth_max: gauge.depth_max(),
        queue_found_p50: found.percentile(50),
        queue_found_p99: found.percentile(99),
        queue_found_max: found.max(),
        write_amplification: amplification(devices),
        life_years: life.as_ref().map(|(years, _)| *years),
        life_basis: life.map(|(_, basis)| basis),
        workload: workload::of(devices, elapsed_ns),
    }
}

/// Flash pages per host page, inside the drives; none if nothing was written.
pub fn amplification(devices: &[&DeviceResult]) -> Option<f64> {
    let flash: u64 = devices.iter().map(|device| device.flash_pages.0).sum();
    let host: u64 = devices.iter().map(|device| device.flash_pages.1).sum();
    (host > 0).then(|| (flash as f64 / host as f64 * 1000.0).round() / 1000.0)
}

/// How long the drive lasts if it is written at this rate for ever, and by which rating.
fn life_years(device: &DeviceResult, elapsed_ns: u64) -> Option<(f64, String)> {
    let written = device.stats.written_bytes();
    if written == 0 || elapsed_ns == 0 {
        return None;
    }
    let (endurance, basis) = match device.endurance_bytes {
        Some(bytes) => (bytes, format!("rated for {} TB", bytes / 1_000_000_000_000)),
        None => (
            device.model_bytes.saturating_mul(DRIVE_WRITES_ASSUMED),
            format!("no rating known: {DRIVE_WRITES_ASSUMED} times its capacity is assumed"),
        ),
    };
    let years = endurance as f64 / written as f64 * (elapsed_ns as f64 / YEAR_NS);
    Some(((years * 1e4).round() / 1e4, basis))
}

/// Of a million writes that users made, on whatever drive, so many met a hard drive's slow write.
pub fn slow_per_million(steering: &ControllerStats, latencies: &Recorder) -> f64 {
    let writes: u64 = latencies.write_to.iter().map(Latencies::count).sum();
    per_million(steering.user_slow_writes, writes)
}

/// … to three digits after the point.
pub fn per_million(some: u64, all: u64) -> f64 {
    (some as f64 * 1e9 / all.max(1) as f64).round() / 1e3
}

fn hdd(devices: &[&DeviceResult], steering: &ControllerStats, result: &RunResult) -> Hdd {
    let sum = |part: fn(&tandem_engine::stats::DeviceStats) -> u64| {
        devices.iter().map(|device| part(&device.stats)).sum::<u64>()
    };
    let gauge = gauge(devices);
    Hdd {
        written_bytes: sum(|s| s.written_bytes()),
        user_bytes: sum(|s| s.user_bytes),
        padding_bytes: sum(|s| s.padding_bytes),
        gc_bytes: sum(|s| s.gc_bytes),
        home_bytes: sum(|s| s.home_bytes),
        read_bytes: sum(|s| s.read_bytes),
        flushes: sum(|s| s.flushes),
        utilization_net: share(gauge.net_ppm()),
        utilization_gross: share(gauge.gross_ppm()),
        user_slow_writes: steering.user_slow_writes,
        user_slow_writes_per_million: slow_per_million(steering, &result.latencies),
        surprises: steering.surprises,
        unreliable: Unreliable {
            ns: steering.unreliable_ns,
            by_reason: Unreliability::ALL
                .iter()
                .map(|why| (why.name(), steering.unreliable_times[*why as usize]))
                .collect(),
        },
        measurements: steering.measurements,
        explorations: steering.explorations,
        suspensions: steering.suspensions,
        padding_limits: steering.padding_limits,
        budget_stops: steering.budget_stops,
        workload: workload::of(devices, result.elapsed_ns),
    }
}

fn device(id: usize, device: &DeviceResult, result: &RunResult) -> Device {
    let (role, figures) = match device.role {
        Role::Ssd => ("ssd", Figures::Ssd(Box::new(ssd(&[device], result.elapsed_ns)))),
        Role::Hdd => {
            let gauge = &device.gauge;
            let figures = HddDevice {
                figures: hdd(&[device], &device.steering, result),
                queue_depth_p50: gauge.depth_percentile(50),
                queue_depth_p99: gauge.depth_percentile(99),
                queue_depth_max: gauge.depth_max(),
            };
            ("hdd", Figures::Hdd(Box::new(figures)))
        }
    };
    Device { id, role, name: device.name.clone(), figures }
}
