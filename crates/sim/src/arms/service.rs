//! Which pools are watched in service? Several volumes at once, and drives that fail in every way.
//!
//! Drives answer late now and then, so that a command is overtaken by commits, by checkpoints and by the
//! reuse of its slot. Most requests go to a few blocks. SSDs are small, so that slots are soon used again.

use super::{Arm, Case};
use crate::campaign::MODES;
use crate::coverage::{Coverage, Met};
use crate::erratic::Tails;
use crate::failure::Failure;
use crate::pool::{SwarmConfig, VOLUME};
use crate::service::{Area, End, FaultPlan, Plan, Service};
use crate::volumes::VolumePlan;
use tandem_block::{DeviceId, DurabilityClass, Duration, KIB, MIB, ObjectId, Rng};
use tandem_drives::faulty::{Fault, OpFilter};
use tandem_engine::steer::POLICIES;

const ALL: &[&str] = &["ssd-first", "mios-d", "mios-e"];
const IN_TURN: &[&str] = &[
    "ect",
    "serw",
    "swr",
    "hdd-only",
    "mios-f",
    "even-split",
    "ssd-only",
    "ziggurat",
    "nhc",
    "most",
];
/// Policies of the volumes beside the first one, drawn by the seed. One more would give seeds that tests name other
/// pools, so new ones come as the policy of the first volume alone.
const BESIDE: &[&str] = &[
    "ssd-first",
    "mios-d",
    "mios-e",
    "mios-f",
    "swr",
    "serw",
    "ect",
    "even-split",
    "ssd-only",
    "hdd-only",
];
/// A pool without hard drives, or without SSDs, has no choice.
const PLAIN: &[&str] = &["ssd-first"];

/// Tiers that a volume may have beside others.
const TIERS: &[&str] = &["none", "hot-dst", "cold-dst", "cache-read-only", "cache-write-back"];

pub(super) const CLASSES: [DurabilityClass; 4] = [
    DurabilityClass::VolatileOk,
    DurabilityClass::Journaled,
    DurabilityClass::Strict,
    DurabilityClass::Protected,
];

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

/// A number below one of these, so that small ones are drawn often.
fn below_one_of(rng: &mut Rng, all: &[u64]) -> u64 {
    let most = one_of(rng, all);
    rng.below(most)
}

/// A small pool that is always busy: SSDs of 8 MiB, and most requests in a sixteenth of what is used.
fn busy(case: &Case, requests: u64) -> (SwarmConfig, Rng) {
    busy_of(case.seed, case.policy, requests)
}

pub(super) fn busy_of(seed: u64, policy: &str, requests: u64) -> (SwarmConfig, Rng) {
    let mut rng = Rng::new(seed ^ 0xB0_5E);
    let mut config = SwarmConfig::tiny(seed, policy, requests);
    config.drives = one_of(&mut rng, &[(1, 1), (2, 1), (1, 2), (1, 1)]);
    let shape = &mut config.shape;
    shape.depth = rng.between(4, 24) as usize;
    shape.footprint_bytes = one_of(&mut rng, &[MIB, 3 * MIB, 6 * MIB][..3]);
    shape.length_bytes_max = one_of(&mut rng, &[16 * KIB, 64 * KIB, 256 * KIB][..3]);
    shape.unaligned_ppm = one_of(&mut rng, &[0, 0, 300_000, 700_000]);
    shape.pause = Duration::from_us(one_of(&mut rng, &[0, 50, 300]));
    shape.hot_ppm = rng.between(600_000, 900_000);
    shape.mix.flush = one_of(&mut rng, &[10_000, 40_000]);
    shape.mix.fua = one_of(&mut rng, &[0, 20_000]);
    shape.mix.read = one_of(&mut rng, &[150_000, 350_000]);
    shape.volume_bytes = 6 * MIB;
    config.tuning.object_table_bytes = 256 * KIB;
    config.tuning.writeback_percent = one_of(&mut rng, &[(60, 40), (20, 5), (3, 1)]);
    config.tuning.commit_interval = Duration::from_ms(one_of(&mut rng, &[1, 5, 50]));
    if rng.chance_ppm(500_000) {
        config.tuning.log_percent = 5;
        config.tuning.log_segment_bytes = 128 * KIB;
    }
    (config, rng)
}

/// A few commands take up to seconds.
fn late(config: &mut SwarmConfig, rng: &mut Rng) {
    let tails = |rng: &mut Rng| Tails {
        chance_ppm: one_of(rng, &[0, 2_000, 20_000]),
        latency_ns_max: one_of(rng, &[20_000_000, 300_000_000, 3_000_000_000]),
    };
    config.tails = (tails(rng), tails(rng));
}

/// Two volumes more, of other policies, tiers and classes, one of which may have a limit.
fn volumes(config: &mut SwarmConfig, rng: &mut Rng) {
    let has_both = config.drives.0 > 0 && config.drives.1 > 0;
    if has_both && rng.chance_ppm(600_000) {
        let extent = one_of(rng, &[4 * KIB, 16 * KIB, 64 * KIB][..3]);
        config.tier = tandem_engine::TierConfig::named(one_of(rng, &TIERS[1..]))
            .with("extent", extent)
            .with("size", one_of(rng, &[256 * KIB, 2 * MIB][..2]))
            .with("collector", rng.below(9))
            .with("exclusive", rng.below(2))
            .with("cleaner", rng.below(3));
    }
    let fits = |policy: &&&str| {
        let entry = POLICIES.iter().find(|entry| entry.name == **policy).expect("registered");
        entry.needs.0 <= config.drives.0 && entry.needs.1 <= config.drives.1
    };
    let policies: Vec<&str> = BESIDE.iter().filter(fits).copied().collect();
    let size_bytes = config.shape.volume_bytes;
    for number in 1..=2 {
        let policy = one_of(rng, &policies);
        let tier = if has_both { one_of(rng, &TIERS[..5]) } else { "none" };
        let limited = number == 1 && rng.chance_ppm(300_000);
        let limit = limited.then(|| one_of(rng, &[200, 1_000, 5_000]));
        config.others.push(VolumePlan {
            object: ObjectId(VOLUME.0 + number),
            size_bytes,
            policy: policy.into(),
            tier: config.tier_beside(tier),
            durability: one_of(rng, &CLASSES[..3]),
            limit,
        });
    }
}

/// Snapshots are made and removed, and tiers change.
fn administer(plan: &mut Plan, rng: &mut Rng) {
    plan.pause = Some(Duration::from_ms(one_of(rng, &[2, 20, 100])));
    plan.snapshots_max = one_of(rng, &[0, 2, 3]);
    plan.files = one_of(rng, &[0, 0, 2]);
    plan.file_bytes = one_of(rng, &[256 * KIB, MIB][..2]);
    if plan.pool.drives.0 > 0 && plan.pool.drives.1 > 0 && rng.chance_ppm(500_000) {
        plan.tiers = TIERS.to_vec();
    }
}

/// Lives of so many events end in any way.
fn lives(plan: &mut Plan, rng: &mut Rng, count: u64, events: u64) {
    let mut at = 0;
    for _ in 0..count {
        at += rng.between(events / 4, events);
        let end = match rng.below(4) {
            0 => End::Stop,
            1 => End::Kill,
            _ => End::Cut(one_of(rng, &MODES[..3])),
        };
        plan.ends.push((at, end));
    }
}

/// Runs a plan under what the case leaves out.
fn serve(case: &Case, mut plan: Plan) -> Result<Coverage, Failure> {
    plan.pool = case.reduced(plan.pool);
    let mut service = Service::new(plan)?;
    service.break_rule(case.mutant);
    service.run()
}

fn in_service(case: &Case) -> Result<Coverage, Failure> {
    let (mut config, mut rng) = busy(case, 1_500);
    late(&mut config, &mut rng);
    volumes(&mut config, &mut rng);
    let mut plan = Plan::of(config);
    administer(&mut plan, &mut rng);
    lives(&mut plan, &mut rng, 2, 6_000);
    plan.stride = 97;
    serve(case, plan)
}

/// A volume with a limit, whose requests wait in the engine while others make the SSD's slots go round.
fn limited(case: &Case) -> Result<Coverage, Failure> {
    let (mut config, mut rng) = busy(case, 1_200);
    config.shape.unaligned_ppm = 500_000;
    config.shape.depth = 24;
    config.tuning.writeback_percent = (3, 1);
    late(&mut config, &mut rng);
    volumes(&mut config, &mut rng);
    config.others[0].limit = Some(one_of(&mut rng, &[100, 200, 500]));
    let mut plan = Plan::of(config);
    administer(&mut plan, &mut rng);
    plan.stride = 211;
    serve(case, plan)
}

/// Which drives a pool with faults has.
fn pools(config: &mut SwarmConfig, case: &Case, rng: &mut Rng) {
    let kinds = if case.policy == "ssd-first" { 7 } else { 4 };
    match rng.below(kinds) {
        0 => config.drives = (1, 1),
        1 => config.drives = (2, 1),
        2 => config.drives = (1, 2),
        // more than the SSDs hold
        3 => config.shape.footprint_bytes = config.shape.volume_bytes,
        4 => config.drives = (2, 0),
        5 => config.drives = (0, 1),
        _ => config.drives = (0, 2),
    }
    if config.drives.1 == 0 || config.drives.0 == 0 {
        config.shape.volume_bytes = 2 * MIB;
        config.shape.footprint_bytes = config.shape.footprint_bytes.min(MIB);
        config.shape.length_bytes_max = config.shape.length_bytes_max.min(64 * KIB);
        config.tuning.log_percent = 40;
    }
    config.durability = one_of(rng, &CLASSES[..4]);
}

/// A pool of some kind and class with something that goes wrong, and restarts behind it.
fn with_faults(
    case: &Case,
    requests: u64,
    faults: impl Fn(&SwarmConfig, &mut Rng) -> Vec<FaultPlan>,
) -> Plan {
    let (mut config, mut rng) = busy(case, requests);
    pools(&mut config, case, &mut rng);
    if rng.chance_ppm(300_000) {
        late(&mut config, &mut rng);
    }
    volumes(&mut config, &mut rng);
    let faults = faults(&config, &mut rng);
    let mut plan = Plan::of(config);
    administer(&mut plan, &mut rng);
    lives(&mut plan, &mut rng, 2, 4_000);
    plan.faults = faults;
    plan
}

fn any_drive(config: &SwarmConfig, rng: &mut Rng) -> DeviceId {
    DeviceId(rng.below((config.drives.0 + config.drives.1) as u64) as u8)
}

/// An error that a command ends with, once, a few times, or for a while.
fn error(config: &SwarmConfig, rng: &mut Rng) -> FaultPlan {
    let device = any_drive(config, rng);
    let ops = one_of(rng, &[OpFilter::Reads, OpFilter::Writes, OpFilter::Flushes]);
    let areas = [Area::Any, Area::Journal, Area::Checkpoint, Area::Pages, Area::Data];
    let area = if ops == OpFilter::Flushes { Area::Any } else { one_of(rng, &areas) };
    let mut plan = FaultPlan::once(device, Fault::Error, ops, area);
    plan.skip = below_one_of(rng, &[5, 50, 500]);
    if rng.chance_ppm(300_000) {
        (plan.count, plan.chance_ppm) = (rng.between(2, 20), 20_000);
        plan.upto = plan.from + Duration::from_ms(rng.between(10, 2_000));
    }
    plan
}

/// Contents that are wrong, of blocks alone: what lies about its metadata is for pools with two SSDs.
fn lie(config: &SwarmConfig, rng: &mut Rng) -> FaultPlan {
    let device = any_drive(config, rng);
    let (fault, ops) = match rng.below(6) {
        0 => (Fault::Lost, OpFilter::Writes),
        1 => (Fault::Misdirect(4 * KIB * rng.between(1, 600)), OpFilter::Writes),
        2 => (Fault::Misdirect(4 * KIB * rng.between(1, 600)), OpFilter::Reads),
        3 => (Fault::Stale, OpFilter::Reads),
        4 => (Fault::Torn, OpFilter::Writes),
        _ => (Fault::BitFlip, OpFilter::Any),
    };
    let mut plan = FaultPlan::once(device, fault, ops, Area::Data);
    plan.skip = below_one_of(rng, &[20, 200, 800]);
    plan.count = one_of(rng, &[1, 1, 5]);
    plan
}

fn faulted(case: &Case) -> Result<Coverage, Failure> {
    serve(case, with_faults(case, 700, |config, rng| vec![error(config, rng)]))
}

fn lying(case: &Case) -> Result<Coverage, Failure> {
    serve(case, with_faults(case, 700, |config, rng| vec![lie(config, rng)]))
}

fn twice(case: &Case) -> Result<Coverage, Failure> {
    let both = |config: &SwarmConfig, rng: &mut Rng| {
        let second = if rng.chance_ppm(500_000) { lie(config, rng) } else { error(config, rng) };
        vec![error(config, rng), second]
    };
    serve(case, with_faults(case, 700, both))
}

/// What one of two SSDs cannot write, read or flush of its metadata; there is more data than both hold.
fn metadata(case: &Case) -> Result<Coverage, Failure> {
    let mut plan = with_faults(case, 900, |_, _| Vec::new());
    let mut rng = Rng::new(case.seed ^ 0x0E7A);
    let pool = &mut plan.pool;
    pool.drives = [(2, 1), (2, 2)][rng.below(2) as usize];
    pool.tuning.log_percent = 5;
    pool.tuning.log_segment_bytes = 128 * KIB;
    pool.shape.volume_bytes = 6 * MIB;
    pool.shape.footprint_bytes = 6 * MIB;
    pool.shape.length_bytes_max = 256 * KIB;
    pool.others.iter_mut().for_each(|other| other.size_bytes = 6 * MIB);
    let device = DeviceId(rng.below(2) as u8);
    let ops = one_of(&mut rng, &[OpFilter::Reads, OpFilter::Writes, OpFilter::Writes]);
    let area = one_of(&mut rng, &[Area::Journal, Area::Checkpoint, Area::Pages]);
    let mut fault = FaultPlan::once(device, Fault::Error, ops, area);
    fault.skip = below_one_of(&mut rng, &[5, 50]);
    plan.faults = vec![fault];
    serve(case, plan)
}

/// The n-th command of a drive fails, for every n: seeds count drives and commands.
fn nth(case: &Case) -> Result<Coverage, Failure> {
    let plan = with_faults(case, 400, |config, _| {
        let drives = (config.drives.0 + config.drives.1) as u64;
        let device = DeviceId((case.seed % drives) as u8);
        let mut plan = FaultPlan::once(device, Fault::Error, OpFilter::Any, Area::Any);
        plan.skip = case.seed / drives % 2_000;
        vec![plan]
    });
    serve(case, plan)
}

/// A command that never ends.
fn stuck(case: &Case) -> Result<Coverage, Failure> {
    let plan = with_faults(case, 500, |config, rng| {
        let device = any_drive(config, rng);
        let mut plan = FaultPlan::once(device, Fault::Never, OpFilter::Any, Area::Any);
        plan.skip = below_one_of(rng, &[20, 200, 1_000]);
        vec![plan]
    });
    serve(case, plan)
}

/// Sectors that stay bad, and a file that gets no more room.
fn worn(case: &Case) -> Result<Coverage, Failure> {
    let mut plan = with_faults(case, 700, |config, rng| {
        let device = any_drive(config, rng);
        let mut plan = FaultPlan::once(device, Fault::Error, OpFilter::Reads, Area::Data);
        (plan.count, plan.chance_ppm) = (u64::MAX, 30_000);
        if rng.chance_ppm(500_000) { vec![plan] } else { Vec::new() }
    });
    if plan.faults.is_empty() {
        let mut rng = Rng::new(case.seed ^ 0xF011);
        let device = any_drive(&plan.pool, &mut rng);
        let from = crate::service::plan::FORMATTED + Duration::from_ms(rng.between(1, 100));
        plan.full = Some((device, from, from + Duration::from_ms(rng.between(10, 3_000))));
    }
    serve(case, plan)
}

/// A drive holds again what it held before, while others know better.
fn rolled(case: &Case) -> Result<Coverage, Failure> {
    let mut plan = with_faults(case, 600, |_, _| Vec::new());
    let mut rng = Rng::new(case.seed ^ 0x2011);
    let device = any_drive(&plan.pool, &mut rng);
    let image_at = rng.between(50, 1_500);
    let at = image_at + rng.between(50, 2_500);
    let killed = rng.chance_ppm(500_000);
    plan.ends = vec![(at, End::RolledBack { device, image_at, killed })];
    serve(case, plan)
}

/// Every arm of pools in service.
pub(super) const ARMS: &[Arm] = &[
    Arm {
        name: "service",
        what: "three volumes, hot spots, late commands, snapshots, tiers that change, three lives",
        policies: ALL,
        in_turn: IN_TURN,
        run: in_service,
        least: &[(Met::Restarts, 3), (Met::Crashes, 20)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "limited",
        what: "the same with a volume whose requests wait for their turn",
        policies: ALL,
        in_turn: IN_TURN,
        run: limited,
        least: &[(Met::Restarts, 3), (Met::Crashes, 20)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "faulted",
        what: "a command of a drive fails, or several do, in pools of every kind",
        policies: ALL,
        in_turn: IN_TURN,
        run: faulted,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "metadata",
        what: "metadata of one of two SSDs, and more data than the SSDs hold",
        policies: ALL,
        in_turn: IN_TURN,
        run: metadata,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "nth",
        what: "the n-th command of a drive fails, for every n",
        policies: ALL,
        in_turn: IN_TURN,
        run: nth,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "lying",
        what: "writes that are lost, go elsewhere or are torn, reads that are stale or from elsewhere",
        policies: ALL,
        in_turn: IN_TURN,
        run: lying,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "twice",
        what: "two faults together",
        policies: ALL,
        in_turn: IN_TURN,
        run: twice,
        least: &[(Met::Restarts, 3), (Met::Faults, 2)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "stuck",
        what: "a command that never ends",
        policies: ALL,
        in_turn: IN_TURN,
        run: stuck,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "worn",
        what: "sectors that stay bad, and a file behind a drive that gets no more room",
        policies: ALL,
        in_turn: IN_TURN,
        run: worn,
        least: &[(Met::Restarts, 3), (Met::Faults, 1)],
        least_in_turn: &[(Met::Restarts, 1)],
    },
    Arm {
        name: "rolled",
        what: "a drive is rolled back at a restart, and another one knows better",
        policies: PLAIN,
        in_turn: &[],
        run: rolled,
        least: &[(Met::Restarts, 1)],
        least_in_turn: &[],
    },
];
