//! How much memory does a pool take while all of its SSD is written to at random, and what do reads of metadata cost?
//!
//! `paging memory [SHARE]`: writes of 4 KiB all over 8 TiB of hard drive, until 1 TiB of SSD was written over once, and
//! a quarter more. Resident memory is printed once in a while, and the bound. SHARE: of a pool that is so much smaller.
//! The drives answer at once and keep nothing, so what is measured is the engine alone. Writes that waited for a
//! checkpoint are counted, and commits that found the journal full.
//!
//! `paging latencies`: reads and writes at random in virtual time, with a cache of 10, 50 and 100 % of the pages of
//! checksums, beside one that has no bound.
//!
//! Source: acceptance of capacity, line 2.

use std::collections::VecDeque;
use tandem_block::{
    Arrival, BLOCK_BYTES, DurabilityClass, GIB, Instant, MIB, ObjectId, Op, PayloadId, Request,
    RequestId, RequestType, Rng, StreamId, TIB,
};
use tandem_drives::SsdState;
use tandem_engine::profile::SsdProfile;
use tandem_engine::{
    Command, DeviceConfig, Engine, EngineConfig, Event, Io, IoOp, Role, SteerConfig, VolumeConfig,
    WriteCache,
};
use tandem_sim::replay::{DriveChoice, ReplayConfig, Resident, Survey, plan, replay};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["memory"] => memory(1),
        ["memory", share] => memory(share.parse().expect("a number")),
        ["latencies"] => latencies(),
        _ => eprintln!("paging memory [SHARE], or paging latencies"),
    }
}

/// Requests under way at once.
const DEPTH: u64 = 64;
/// The engine keeps no bytes of pages of checksums here, where nobody looks at contents. So this program keeps as many
/// blocks as the cache has pages, and asks how many after so many writes.
const STAND_INS_EVERY: u64 = 1000;
/// Lines that are printed.
const LINES: u64 = 40;

fn memory(share: u64) {
    let device = |role, capacity_bytes, uuid| DeviceConfig {
        role,
        capacity_bytes,
        write_cache: WriteCache::Volatile,
        depth: 32,
        uuid,
        hdd_profile: None,
        ssd_profile: SsdProfile::default(),
    };
    let volume_bytes = 8 * TIB / share / 100 * 88 / BLOCK_BYTES * BLOCK_BYTES;
    let volume = VolumeConfig {
        object: ObjectId(1),
        name: "vol".into(),
        size_bytes: volume_bytes,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let drives = vec![device(Role::Ssd, TIB / share, 1), device(Role::Hdd, 8 * TIB / share, 2)];
    let config = EngineConfig {
        format: true,
        contents: false,
        ..EngineConfig::with_drives(drives, vec![volume])
    };
    let mut sim = Instantly::new(config);
    sim.until_answered(Event::Start);
    let empty_mib = resident_mib();
    let slots = sim.engine.map().ssd_slots();
    let writes = slots + slots / 4;
    let (blocks, mut rng) = (volume_bytes / BLOCK_BYTES, Rng::new(1));
    println!("{slots} slots of SSD, {blocks} blocks of the volume, {writes} writes");
    println!(
        "{:>12} {:>10} {:>10} {:>10} {:>10} {:>12} {:>8}",
        "writes", "MiB", "map MiB", "cache MiB", "bound MiB", "page reads", "SSD %"
    );
    let (mut most, mut stand_ins) = (0, Vec::new());
    for written in 1..=writes {
        sim.write(rng.below(blocks) * BLOCK_BYTES);
        if written % STAND_INS_EVERY == 0 {
            let cached = sim.engine.metadata_memory().cached_bytes / BLOCK_BYTES;
            stand_ins.resize_with(cached as usize, || Box::new([1u8; BLOCK_BYTES as usize]));
        }
        if written % (writes / LINES) == 0 {
            let memory = sim.engine.metadata_memory();
            let resident = resident_mib();
            most = most.max(resident);
            println!(
                "{written:>12} {resident:>10} {:>10} {:>10} {:>10} {:>12} {:>8}",
                memory.map_bytes / MIB,
                memory.cached_bytes / MIB,
                memory.bound_bytes / MIB,
                sim.engine.stats().page_reads,
                100 - sim.engine.map().ssd_free() * 100 / slots,
            );
        }
    }
    let bound = sim.engine.metadata_memory().bound_bytes / MIB;
    println!(
        "most {most} MiB resident, {empty_mib} of it before the first write, bound {bound} MiB"
    );
    let stats = sim.engine.stats();
    println!(
        "{} checkpoints in {} parts, {} writes waited for them, {} commits found the journal full",
        stats.checkpoints, stats.checkpoint_parts, stats.writes_paced, stats.commits_without_room
    );
}

fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib / 1024)
}

/// Drives that answer at once, in order, and keep nothing.
struct Instantly {
    engine: Engine,
    now_ns: u64,
    wake_at: Instant,
    flights: VecDeque<Io>,
    commands: Vec<Command>,
    asked: u64,
    done: u64,
    answered: bool,
}

impl Instantly {
    fn new(config: EngineConfig) -> Self {
        Instantly {
            engine: Engine::new(config).expect("the drives are large enough"),
            now_ns: 1,
            wake_at: Instant::NEVER,
            flights: VecDeque::new(),
            commands: Vec::new(),
            asked: 0,
            done: 0,
            answered: false,
        }
    }

    fn until_answered(&mut self, event: Event<'_>) {
        self.tell(event);
        while !std::mem::take(&mut self.answered) {
            self.step();
        }
    }

    fn write(&mut self, offset_bytes: u64) {
        self.asked += 1;
        let range = (offset_bytes, BLOCK_BYTES);
        let now = Instant::from_ns(self.now_ns);
        let mut request = Request::new(RequestId(self.asked), ObjectId(1), Op::Write, range, now);
        request.payload = PayloadId(self.asked);
        self.tell(Event::Request(&request));
        while self.asked - self.done >= DEPTH {
            self.step();
        }
    }

    fn step(&mut self) {
        // 64 under way, and 10 us for each: a good SSD
        self.now_ns += 10_000 / DEPTH * 4;
        if self.now_ns >= self.wake_at.ns {
            self.wake_at = Instant::NEVER;
            return self.tell(Event::Wake);
        }
        let Some(io) = self.flights.pop_front() else {
            assert_ne!(self.wake_at, Instant::NEVER, "the engine waits for nothing");
            self.now_ns = self.now_ns.max(self.wake_at.ns);
            self.wake_at = Instant::NEVER;
            return self.tell(Event::Wake);
        };
        let bytes = match io.op {
            IoOp::ReadMeta { length_bytes, .. } => vec![0; length_bytes as usize],
            _ => Vec::new(),
        };
        let (id, status) = (io.id, Ok(()));
        self.tell(Event::Completion { io: id, status, checksums: &[], bytes: &bytes, took: None });
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut commands = std::mem::take(&mut self.commands);
        self.engine.on(Instant::from_ns(self.now_ns), event, &mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Submit(io) => self.flights.push_back(io),
                Command::Complete(done) => {
                    done.status.expect("nothing fails here");
                    self.done += 1;
                }
                Command::WakeAt(at) => self.wake_at = at,
                Command::Started(answer) => {
                    answer.expect("the pool is sound");
                    self.answered = true;
                }
                _ => {}
            }
        }
        self.commands = commands;
    }
}

/// Bytes that are read and written.
const FOOTPRINT: u64 = 4 * GIB;
const REQUESTS: u64 = 1_500_000;
/// So many changes are soon too many for the journal: pages are written, and leave memory.
const JOURNAL_BYTES: u64 = 8 * MIB;

fn latencies() {
    let mut rng = Rng::new(1);
    let mut arrival = |index: u64| Arrival {
        at: Instant::from_ns(index),
        object: ObjectId(0),
        op: if rng.chance_ppm(300_000) { Op::Write } else { Op::Read },
        offset_bytes: rng.below(FOOTPRINT / BLOCK_BYTES) * BLOCK_BYTES,
        length_bytes: BLOCK_BYTES,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    };
    // all of it is written first, or its pages would not exist
    let whole = |index: u64| Arrival {
        at: Instant::from_ns(index),
        object: ObjectId(0),
        op: Op::Write,
        offset_bytes: index * MIB,
        length_bytes: MIB,
        fua: false,
        stream: StreamId(0),
        data_type: RequestType::Data,
    };
    let first = FOOTPRINT / MIB;
    let arrivals = (0..first).map(whole).chain((first..REQUESTS).map(&mut arrival));
    let arrivals: Vec<Arrival> = arrivals.collect();
    let ssds = vec![DriveChoice::shipped("960evo", Some(64_000_000_000))];
    let hdds = vec![DriveChoice::shipped("wd100efax", None)];
    let config = ReplayConfig {
        closed_loop: Some(16),
        ssd_state: SsdState::Fresh,
        resident: Resident::Ssd,
        ..ReplayConfig::of(SteerConfig::named("ssd-first"), ssds, hdds)
    };
    let mut survey = Survey::default();
    arrivals.iter().for_each(|arrival| survey.count(arrival));
    let table = FOOTPRINT / (1024 * BLOCK_BYTES);
    println!(
        "{:<18} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "cache", "pages", "reads p50 us", "p99.9 us", "writes p50", "p99.9 us", "page reads"
    );
    for percent in [0, 100, 50, 10] {
        let mut plan = plan(&config, &survey).expect("it fits");
        let pages = if percent == 0 { u64::MAX } else { table * percent / 100 };
        plan.engine_mut().checksum_pages_max = pages as usize;
        plan.engine_mut().journal_bytes = Some(JOURNAL_BYTES);
        let result = replay(&config, &plan, arrivals.iter().copied()).expect("it runs");
        let name = if percent == 0 { "without a bound".into() } else { format!("{percent} %") };
        let shown = if percent == 0 { table } else { pages };
        let us = |ns: u64| ns as f64 / 1e3;
        let (reads, writes) = (&result.latencies.read.total, &result.latencies.write.total);
        println!(
            "{name:<18} {shown:>8} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>12}",
            us(reads.percentile_ns(5000)),
            us(reads.percentile_ns(9990)),
            us(writes.percentile_ns(5000)),
            us(writes.percentile_ns(9990)),
            result.stats.page_reads,
        );
    }
}
