//! Fill, discard, go on: what if every tier is full?
//!
//! Source: acceptance of the spine, "both tiers full"; design decision 10: space for a volume is reserved when
//! it is made, so its writes are delayed and never dropped, and what would be too much is refused with
//! ENOSPC. Nothing hangs, nothing is lost.

use tandem_block::{
    BLOCK_BYTES, Batch, Duration, IoError, KIB, MIB, ObjectId, ObjectOp, Op, Request, RequestId,
    Rng, SECTOR_BYTES,
};
use tandem_drives::media::CutMode;
use tandem_engine::format::layout;
use tandem_engine::qos::ORDERS;
use tandem_engine::qos::reserve::QosConfig;
use tandem_engine::{ConfigError, Engine, EngineConfig, VolumeConfig};
use tandem_sim::Simulation;
use tandem_sim::swarm::{Run, SwarmConfig, VOLUME};

/// Bytes of one request.
const PIECE: u64 = 64 * KIB;
/// Requests under way.
const DEPTH: usize = 8;
/// One request under way: the SSD with the shortest queue is always the first.
const ALONE: usize = 1;

/// A pool with a volume as large as it can be, and what that must hold.
struct Full {
    sim: Simulation,
    config: EngineConfig,
    size: u64,
    /// By sector.
    expected: Vec<u64>,
    requests: u64,
    depth: usize,
    /// Requests begin so many bytes behind a block.
    shift: u64,
    rng: Rng,
}

impl Full {
    fn new(policy: &str, drives: (usize, usize), depth: usize) -> Full {
        Full::with(policy, drives, depth, |_| {})
    }

    /// A pool whose configuration is changed like this.
    fn with(
        policy: &str,
        drives: (usize, usize),
        depth: usize,
        change: impl FnOnce(&mut EngineConfig),
    ) -> Full {
        let mut swarm = SwarmConfig::tiny(7, policy, 0);
        swarm.drives = drives;
        swarm.sizes = (8 * MIB, 16 * MIB);
        swarm.tuning.log_percent = 10;
        let mut config = swarm.engine(true);
        change(&mut config);
        let layouts = layout::plan(&config).expect("a valid configuration");
        let homes: u64 = layouts.iter().map(|layout| layout.home_blocks).sum();
        let slots: u64 = layouts.iter().map(|layout| layout.slot_count).sum();
        let blocks = if drives.1 == 0 { slots * 85 / 100 } else { homes };
        let size = blocks * BLOCK_BYTES / PIECE * PIECE;
        config.volumes[0].size_bytes = size;
        let engine = Engine::new(config.clone()).expect("the largest volume fits");
        let mut sim = Simulation::new(engine, swarm.drives(), true);
        sim.start().expect("nothing is wrong");
        config.format = false;
        let expected = vec![0; (size / SECTOR_BYTES) as usize];
        Full { sim, config, size, expected, requests: 0, depth, shift: 0, rng: Rng::new(11) }
    }

    /// Asks for every piece from a list, some at a time, in random order; all must succeed.
    fn all(&mut self, op: Op, range: std::ops::Range<u64>) {
        let mut pieces: Vec<u64> = (range.start..range.end).step_by(PIECE as usize).collect();
        let mut open = std::collections::BTreeMap::new();
        while !pieces.is_empty() || !open.is_empty() {
            if !pieces.is_empty() && open.len() < self.depth {
                let at = pieces.swap_remove(self.rng.below(pieces.len() as u64) as usize);
                let at = at + self.shift;
                let id = self.send(op, at);
                open.insert(id, at);
            } else if !self.sim.step() {
                panic!("{} hang: {}", open.len(), self.sim.engine.debug_state());
            }
            for (done, tokens) in self.sim.take_said().done {
                let at = open.remove(&done.request).expect("answers are to requests");
                assert_eq!(done.status, Ok(()), "{op:?} at {at}");
                if op == Op::Read {
                    let first = (at / SECTOR_BYTES) as usize;
                    let wanted = &self.expected[first..first + (PIECE / SECTOR_BYTES) as usize];
                    assert!(tokens[..wanted.len()] == *wanted, "at {at}");
                }
            }
        }
    }

    fn send(&mut self, op: Op, at: u64) -> RequestId {
        self.requests += 1;
        let id = RequestId(self.requests);
        let mut request = Request::new(id, VOLUME, op, (at, PIECE), self.sim.now);
        let sectors = PIECE / SECTOR_BYTES;
        let first = at / SECTOR_BYTES;
        if op.is_write() {
            for i in 0..sectors {
                let token = if op == Op::Write { self.requests << 20 | (i + 1) } else { 0 };
                self.expected[(first + i) as usize] = token;
            }
        }
        if op == Op::Write {
            let tokens = self.expected[first as usize..(first + sectors) as usize].to_vec();
            request.payload = self.sim.payload(tokens.into_iter());
        }
        self.sim.request(&request);
        id
    }

    fn wait(&mut self, id: RequestId) -> Result<(), IoError> {
        loop {
            let ended = self.sim.take_said().done.into_iter().find(|(done, _)| done.request == id);
            if let Some((done, _)) = ended {
                return done.status;
            }
            assert!(self.sim.step(), "it hangs: {}", self.sim.engine.debug_state());
        }
    }

    fn flush(&mut self) {
        self.requests += 1;
        let id = RequestId(self.requests);
        self.sim.request(&Request::new(id, VOLUME, Op::Flush, (0, 0), self.sim.now));
        assert_eq!(self.wait(id), Ok(()));
    }

    /// Tries to reserve room for another object.
    fn another(&mut self, size_bytes: u64) -> Result<(), IoError> {
        self.requests += 1;
        let id = RequestId(self.requests);
        let (object, name) = (ObjectId(77), "another".into());
        let ops = vec![ObjectOp::Create { object, name, size_bytes }];
        self.sim.batch(&Batch { id, ops, durable: true });
        self.wait(id)
    }

    fn crash(&mut self) {
        self.sim.power_cut(self.config.clone(), CutMode::DropAll, &mut self.rng);
        self.sim.start().expect("nothing is damaged");
    }
}

fn fill_discard_go_on(policy: &str, drives: (usize, usize)) {
    fill_discard_go_on_at(DEPTH, policy, drives);
}

fn fill_discard_go_on_at(depth: usize, policy: &str, drives: (usize, usize)) {
    let mut full = Full::new(policy, drives, depth);
    let size = full.size;
    full.all(Op::Write, 0..size);
    full.all(Op::Read, 0..size);
    // there is no room for more, and that is said at once
    let refused = full.another(4 * MIB);
    assert_eq!(refused, Err(IoError::NoSpace));
    assert_eq!(refused.map_err(|error| error.errno()), Err(28), "ENOSPC");
    // what was promised is kept: every block can be written anew, twice
    for _ in 0..2 {
        full.all(Op::Write, 0..size);
    }
    full.flush();
    full.all(Op::Read, 0..size);
    full.crash();
    full.all(Op::Read, 0..size);
    // a part is given up, and stays so
    let half = size / 2 / PIECE * PIECE;
    full.all(Op::Discard, 0..half);
    full.all(Op::Read, 0..size);
    full.flush();
    full.crash();
    full.all(Op::Read, 0..size);
    // writes go on where nothing is, and where something is
    full.all(Op::Write, 0..half);
    full.all(Op::Write, half / 2 / PIECE * PIECE..size);
    full.all(Op::Read, 0..size);
    full.flush();
    full.crash();
    full.all(Op::Read, 0..size);
    assert_eq!(full.sim.engine.stats().faulted_drives, 0);
    assert_eq!(full.sim.engine.stats().checksum_errors, 0);
    // parts of blocks, anywhere
    full.shift = SECTOR_BYTES;
    for _ in 0..2 {
        full.all(Op::Write, 0..size - PIECE);
    }
    full.all(Op::Read, 0..size - PIECE);
    full.flush();
    full.crash();
    full.all(Op::Read, 0..size - PIECE);
    assert_eq!(full.sim.engine.stats().faulted_drives, 0);
    assert_eq!(full.sim.engine.stats().checksum_errors, 0);
}

#[test]
fn fill_discard_go_on_with_an_ssd_and_a_hard_drive() {
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        fill_discard_go_on(policy, (1, 1));
    }
}

#[test]
fn fill_discard_go_on_with_a_hard_drive_alone() {
    for policy in ["ssd-first", "mios-d", "mios-e"] {
        fill_discard_go_on(policy, (0, 1));
    }
}

#[test]
fn fill_discard_go_on_with_an_ssd_alone() {
    fill_discard_go_on("ssd-first", (1, 0));
}

/// Seen: a write waited for ever at a full SSD while another one had room.
#[test]
fn fill_discard_go_on_with_several_ssds() {
    for depth in [ALONE, DEPTH] {
        for (policy, drives) in [("ssd-first", (2, 0)), ("ssd-first", (3, 0)), ("mios-d", (2, 1))] {
            fill_discard_go_on_at(depth, policy, drives);
        }
    }
}

/// Writes wait for space that only write-back can make; they are delayed, and it is counted.
#[test]
fn writes_to_a_full_ssd_are_delayed_and_counted() {
    let mut full = Full::new("ssd-first", (1, 1), DEPTH);
    full.config.writeback_idle = Duration::from_s(1);
    let size = full.size;
    for _ in 0..3 {
        full.all(Op::Write, 0..size);
    }
    assert!(full.sim.engine.stats().backpressure_ns > 0, "{:?}", full.sim.engine.stats());
    full.all(Op::Read, 0..size);
}

/// Seen: the engine stopped with a panic when background work had no share and writes waited for space.
#[test]
fn work_without_a_share_makes_room_under_every_order() {
    for order in &ORDERS[1..] {
        let mut full = Full::with("ssd-first", (1, 1), DEPTH, |config| {
            config.qos = QosConfig {
                order: order.name.to_owned(),
                background_ppb: 0,
                ..QosConfig::default()
            };
        });
        let size = full.size;
        for _ in 0..3 {
            full.all(Op::Write, 0..size);
        }
        assert!(full.sim.engine.stats().backpressure_ns > 0, "{}: no write waited", order.name);
        full.all(Op::Read, 0..size);
    }
}

/// Part blocks, zeroings and crashes where a small log is all there is beside the homes.
#[test]
fn a_hard_drive_alone_outlives_a_crowd() {
    for seed in 0..24 {
        let policy = ["ssd-first", "mios-d", "mios-e"][seed as usize % 3];
        let mut config = SwarmConfig::crowded(seed, policy, 500);
        config.drives = (0, 1 + seed as usize % 2);
        config.shape.length_bytes_max = 128 * KIB;
        config.shape.unaligned_ppm = [0, 300_000, 900_000][seed as usize % 3];
        let mut run = Run::new(config).expect("a pool");
        while run.step().unwrap_or_else(|failure| panic!("seed {seed}: {failure}")) {}
        run.crash(CutMode::RandomSubset, None)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        run.extend(300, 5);
        run.finish().unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// The first root of a pool names all its volumes, also where a table of objects will have them later.
#[test]
fn a_pool_has_as_many_volumes_as_its_first_root_holds() {
    for table_bytes in [0, 256 * KIB] {
        let mut swarm = SwarmConfig::tiny(7, "ssd-first", 0);
        swarm.drives = (1, 1);
        swarm.tuning.object_table_bytes = table_bytes;
        let with = |count: u64, format| {
            let mut config = swarm.engine(format);
            let sample = config.volumes[0].clone();
            let volume = |n: u64| VolumeConfig {
                object: ObjectId(n + 1),
                name: format!("volume-{n:0>24}"),
                size_bytes: BLOCK_BYTES,
                ..sample.clone()
            };
            config.volumes = (0..count).map(volume).collect();
            config
        };
        let fit = match Engine::new(with(1_000, true)) {
            Err(ConfigError::TooManyVolumes { found: 1_000, fit }) => fit as u64,
            other => panic!("{:?}", other.err()),
        };
        assert!((100..1_000).contains(&fit), "{fit}");
        let refused = Engine::new(with(fit + 1, true)).err().map(|error| error.to_string());
        let told = format!("the first {fit} of these {} volumes", fit + 1);
        assert!(refused.as_ref().is_some_and(|text| text.contains(&told)), "{refused:?}");
        let engine = Engine::new(with(fit, true)).expect("so many fit");
        let mut sim = Simulation::new(engine, swarm.drives(), true);
        sim.start().expect("it can be formatted");
        sim.power_cut(with(fit, false), CutMode::DropAll, &mut Rng::new(1));
        sim.start().expect("its root can be read");
        assert_eq!(sim.engine.objects().iter().count() as u64, fit);
    }
}
