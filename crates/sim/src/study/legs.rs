//! Do reads of a mirrored pair wait for writes?
//!
//! Source: [IANUS §5.3], requirements I13 to I18. Reads of 4 KiB arrive at fixed intervals, half as
//! many as the drive can do when it only reads; writers keep as many requests outstanding as the drive
//! takes. The same on the drive alone, on the drive without writes, and on the pair. Under `fixed`
//! placement (design decision 12).

use crate::Simulation;
use crate::bare_ssd::{VOLUME, bare_ssd};
use tandem_block::{
    BLOCK_BYTES, DeviceId, Duration, Instant, KIB, Op, PayloadId, Request, RequestId, Rng,
};
use tandem_drives::spec::{DriveSpec, SpecError};
use tandem_drives::{BuildOptions, SsdState, build};
use tandem_engine::Engine;
use tandem_engine::mirror::{Answer, Idle, Pair, PairConfig, PairView};
use tandem_engine::stats::recorder::Latencies;

/// Bytes of a read.
pub const READ_BYTES: u64 = 4 * KIB;

/// What is asked of the drives.
#[derive(Clone, Debug)]
pub struct LegsConfig {
    /// Each drive.
    pub spec: DriveSpec,
    /// Two of them, or one.
    pub pair: Option<PairConfig>,
    /// Between reads; zero: as many as the drive can do, so many outstanding.
    pub read_interval: Duration,
    /// Reads outstanding where they follow no interval.
    pub read_depth: u32,
    /// Writes outstanding; 0: none.
    pub write_depth: u32,
    /// Bytes of a write.
    pub write_bytes: u64,
    /// How long, and before that what does not count.
    pub duration: Duration,
    /// Before anything counts.
    pub warm_up: Duration,
    /// Seeds drives and offsets.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct LegsResult {
    /// Of reads that a drive answered.
    pub reads: Latencies,
    /// Reads that RAM answered, which are not among them.
    pub ram_reads: u64,
    /// Of writes.
    pub writes: Latencies,
    /// Bytes written by users in a second.
    pub write_bytes_per_s: u64,
    /// Reads in a second.
    pub reads_per_s: u64,
    /// The pair, where there is one.
    pub pair: Option<PairView>,
    /// The engine's digest.
    pub digest: u64,
}

/// A pair as it is meant for this drive: `k` is what it writes.
pub fn pair_of(write_bytes_per_s: u64, period: Duration, idle: Idle) -> PairConfig {
    let cache = u128::from(write_bytes_per_s) * 2 * u128::from(period.ns) / 1_000_000_000;
    PairConfig {
        uuids: [1, 2],
        period,
        idle,
        // paper: 2kT
        cache_bytes: u64::try_from(cache).expect("a cache fits"),
        write_bytes_per_s,
        answer: Answer::Cached,
        ..PairConfig::default()
    }
}

struct Running {
    sim: Simulation,
    config: LegsConfig,
    rng: Rng,
    in_flight: slab::Slab<(Op, Instant, bool)>,
    payloads: u64,
    blocks: u64,
    counts_from: Instant,
    result: LegsResult,
    written_bytes: u64,
    outstanding: [u32; 2],
}

/// Runs it.
///
/// # Errors
/// If the drive cannot be built.
///
/// # Panics
/// If the engine refuses a configuration that is right.
pub fn run(config: LegsConfig) -> Result<LegsResult, SpecError> {
    let mut seeds = Rng::new(config.seed);
    let mut drives = Vec::new();
    for leg in 0..1 + u64::from(config.pair.is_some()) {
        let options = BuildOptions {
            seed: seeds.split(leg).bits(),
            ssd_state: SsdState::Steady,
            capacity_bytes: None,
            keep_events: false,
        };
        drives.push(build(&config.spec, options)?);
    }
    let mut engine = bare_ssd(&config.spec, drives[0].as_ref());
    let capacity_bytes = engine.devices[0].capacity_bytes;
    let pair = |config: &PairConfig| Pair { device: DeviceId(0), config: config.clone() };
    engine.pairs = config.pair.iter().map(pair).collect();
    let mut sim =
        Simulation::new(Engine::new(engine).expect("a right configuration"), drives, false);
    sim.start().expect("fixed placement starts at once");
    let result = LegsResult {
        reads: Latencies::default(),
        ram_reads: 0,
        writes: Latencies::default(),
        write_bytes_per_s: 0,
        reads_per_s: 0,
        pair: None,
        digest: 0,
    };
    let mut running = Running {
        rng: seeds.split(7),
        counts_from: sim.now + config.warm_up,
        sim,
        in_flight: slab::Slab::new(),
        payloads: 0,
        blocks: capacity_bytes / BLOCK_BYTES,
        result,
        written_bytes: 0,
        outstanding: [0; 2],
        config,
    };
    running.go();
    Ok(running.finish())
}

impl Running {
    fn go(&mut self) {
        let end = self.counts_from + self.config.duration;
        let interval = self.config.read_interval;
        let mut next_read = self.sim.now;
        while self.sim.now < end {
            if interval.ns > 0 {
                while next_read <= self.sim.now {
                    self.ask(Op::Read, READ_BYTES, next_read);
                    next_read += interval;
                }
            } else {
                while self.outstanding[0] < self.config.read_depth {
                    self.ask(Op::Read, READ_BYTES, self.sim.now);
                }
            }
            while self.outstanding[1] < self.config.write_depth {
                self.ask(Op::Write, self.config.write_bytes, self.sim.now);
            }
            let due = self.sim.next_at();
            if interval.ns > 0 && next_read <= due {
                self.sim.run_until(next_read);
            } else if !self.sim.step() {
                return;
            }
            self.collect();
        }
    }

    fn ask(&mut self, op: Op, bytes: u64, at: Instant) {
        let offset = self.rng.below(self.blocks * BLOCK_BYTES / bytes) * bytes;
        let before = self.cache_reads();
        let key = self.in_flight.insert((op, at, false));
        let id = RequestId(key as u64);
        let mut request = Request::new(id, VOLUME, op, (offset, bytes), at);
        if op == Op::Write {
            self.payloads += 1;
            request.payload = PayloadId(self.payloads);
        }
        self.outstanding[usize::from(op == Op::Write)] += 1;
        self.sim.request(&request);
        if op == Op::Read {
            self.in_flight[key].2 = self.cache_reads() > before;
        }
        self.collect();
    }

    fn cache_reads(&self) -> u64 {
        if self.config.pair.is_none() {
            return 0;
        }
        self.sim.engine.pairs()[0].stats.cache_reads
    }

    fn collect(&mut self) {
        let now = self.sim.now;
        let mut done_now = Vec::new();
        self.sim.drain_done(|done| done_now.push(done));
        for done in done_now {
            done.status.expect("nothing fails here");
            let (op, at, from_ram) = self.in_flight.remove(done.request.0 as usize);
            self.outstanding[usize::from(op == Op::Write)] -= 1;
            if at < self.counts_from {
                continue;
            }
            let age = now.since(at);
            match op {
                Op::Read if from_ram => self.result.ram_reads += 1,
                Op::Read => self.result.reads.record(age.ns),
                _ => {
                    self.written_bytes += self.config.write_bytes;
                    self.result.writes.record(age.ns);
                }
            }
        }
    }

    fn finish(mut self) -> LegsResult {
        let took_ns = self.sim.now.since(self.counts_from).ns.max(1);
        let per_s = |count: u64| (u128::from(count) * 1_000_000_000 / u128::from(took_ns)) as u64;
        self.result.write_bytes_per_s = per_s(self.written_bytes);
        self.result.reads_per_s = per_s(self.result.reads.count() + self.result.ram_reads);
        self.result.pair = self.sim.engine.pairs().first().copied();
        self.result.digest = self.sim.engine.digest();
        self.result
    }
}
