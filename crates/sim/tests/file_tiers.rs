//! Has each file the tier that it names, and its volume's if it names none?
//!
//! Source: requirements L1 to L3; issue of tiers and caches ("policies as extended attributes on
//! directories").

use tandem_block::{
    BLOCK_BYTES, Batch, Duration, IoError, ObjectId, ObjectKind, ObjectOp, Op, Request, RequestId,
    SECTORS_PER_BLOCK, TIER_KEY,
};
use tandem_drives::media::CutMode;
use tandem_engine::map::{Entry, NONE};
use tandem_engine::{Engine, TierConfig};
use tandem_sim::Simulation;
use tandem_sim::pool::{SwarmConfig, VOLUME};

/// Blocks of a file: two extents.
const BLOCKS: u64 = 32;
const EXTENT_BLOCKS: u64 = 16;

struct Pool {
    config: SwarmConfig,
    sim: Simulation,
    sent: u64,
}

impl Pool {
    fn new(volumes: &str, files: &[&str]) -> Pool {
        let mut config = SwarmConfig::filed(0, "ssd-first", 0);
        let named = |name: &str| TierConfig::named(name);
        config.tier = match volumes {
            "none" => TierConfig::default(),
            name => named(name).with("size", 512 << 10),
        };
        config.file_tiers = files.iter().map(|name| named(name)).collect();
        config.shape.volume_bytes = 1 << 20;
        // a file that is dirty is more than that
        config.tuning.writeback_percent = (1, 0);
        let engine = Engine::new(config.engine(true)).expect("valid");
        let mut sim = Simulation::new(engine, config.drives(), true);
        sim.start().expect("a pool");
        Pool { config, sim, sent: 0 }
    }

    fn wait(&mut self, id: RequestId) {
        loop {
            if let Some((done, _)) = self.sim.take_said().done.pop() {
                assert_eq!((done.request, done.status), (id, Ok::<(), IoError>(())));
                return;
            }
            assert!(self.sim.step(), "a request never hangs");
        }
    }

    fn batch(&mut self, ops: Vec<ObjectOp>) {
        self.sent += 1;
        let id = RequestId(self.sent);
        self.sim.batch(&Batch { id, ops, durable: true });
        self.wait(id);
    }

    fn ask(&mut self, file: ObjectId, op: Op, first: u64, blocks: u64) {
        self.sent += 1;
        let id = RequestId(self.sent);
        let range = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
        let mut request = Request::new(id, file, op, range, self.sim.now);
        if op == Op::Write {
            request.payload = self.sim.payload((0..blocks * SECTORS_PER_BLOCK).map(|_| id.0));
        }
        self.sim.request(&request);
        self.wait(id);
    }

    /// Nobody asks for anything for so long.
    fn rest(&mut self, seconds: u64) {
        let until = self.sim.now + Duration::from_s(seconds);
        self.sim.run_until(until);
    }

    fn name_tier(&mut self, object: ObjectId, tier: &str) {
        let value = tier.as_bytes().into();
        self.batch(vec![ObjectOp::SetAttribute { object, key: TIER_KEY.into(), value }]);
    }

    /// A file, written to.
    fn make(&mut self, id: u64, tier: Option<&str>) -> ObjectId {
        let (object, kind) = (ObjectId(id), ObjectKind::Data);
        let create = ObjectOp::CreateThin { object, kind, volume: VOLUME, owner: 0 };
        let resize = ObjectOp::Resize { object, size_bytes: BLOCKS * BLOCK_BYTES };
        self.batch(vec![create, resize]);
        if let Some(tier) = tier {
            self.name_tier(object, tier);
        }
        self.ask(object, Op::Write, 0, BLOCKS);
        object
    }

    fn entries(&self, file: ObjectId) -> Vec<Entry> {
        let engine = &self.sim.engine;
        let pieces = engine.objects().pieces(file, 0, BLOCKS);
        let blocks = pieces.iter().flat_map(|piece| {
            let first = piece.logical.expect("all of it was written");
            first..first + piece.count
        });
        blocks.map(|block| engine.map().entry(block)).collect()
    }

    /// Blocks on an SSD, and of these such as lie there alone.
    fn on_ssd(&self, file: ObjectId) -> (usize, usize) {
        let entries = self.entries(file);
        let on_ssd = |entry: &&Entry| entry.ssd != NONE;
        let alone = entries.iter().filter(on_ssd).filter(|entry| !entry.home);
        (entries.iter().filter(on_ssd).count(), alone.count())
    }

    fn cut_power(&mut self) {
        let config = self.config.engine(false);
        let mut rng = tandem_block::Rng::new(1);
        self.sim.power_cut(config, CutMode::DropAll, &mut rng);
        self.sim.start().expect("a pool");
    }
}

const ALL: (usize, usize) = (BLOCKS as usize, BLOCKS as usize);

/// A tier keeps what was written alone, a cache has it written home, and both without being asked for
/// anything; nothing of that changes over a power cut.
#[test]
fn what_is_written_stays_as_its_tier_says() {
    let mut pool = Pool::new("cold-dst", &[]);
    let plain = pool.make(100, None);
    let cached = pool.make(101, Some("cache-write-back"));
    let cold = pool.make(102, Some("cold-dst-plain"));
    let unknown = pool.make(103, Some("lukewarm"));
    for _ in 0..2 {
        pool.rest(10);
        assert_eq!(pool.on_ssd(plain), ALL, "as its volume's tier says");
        assert_eq!(pool.on_ssd(cold), ALL);
        assert_eq!(pool.on_ssd(unknown), ALL, "as its volume's");
        assert_eq!(pool.on_ssd(cached), (BLOCKS as usize, 0), "it has a home, too");
        pool.cut_power();
    }
    // and another one from now on
    pool.name_tier(cold, "cache-write-back");
    pool.rest(10);
    assert_eq!(pool.on_ssd(cold), (BLOCKS as usize, 0));
    let key = TIER_KEY.into();
    pool.batch(vec![ObjectOp::RemoveAttribute { object: cached, key }]);
    pool.ask(cached, Op::Write, 0, BLOCKS);
    pool.rest(10);
    assert_eq!(pool.on_ssd(cached), ALL, "its volume's again");
}

/// New data of a hot tier belongs on the hard drive, and comes when it is read; of a file without a tier
/// nothing comes, although its volume lets others have one.
#[test]
fn what_is_read_comes_as_its_tier_says() {
    let mut pool = Pool::new("none", &["hot-dst", "cold-dst"]);
    let hot = pool.make(100, Some("hot-dst"));
    let cold = pool.make(101, Some("cold-dst"));
    let plain = pool.make(102, None);
    pool.rest(10);
    assert_eq!(pool.on_ssd(hot).0, 0, "new data went to the hard drive");
    assert_eq!(pool.on_ssd(cold), ALL);
    assert_eq!(pool.on_ssd(plain).1, 0, "written home");
    let came = pool.sim.engine.stats().tiers.came_blocks;
    for _ in 0..2 {
        pool.ask(hot, Op::Read, 3, 2);
        pool.rest(2);
    }
    assert_eq!(pool.on_ssd(hot).0 as u64, EXTENT_BLOCKS, "all of the extent came");
    let after = pool.sim.engine.stats().tiers.came_blocks;
    assert_eq!(after - came, EXTENT_BLOCKS);
    pool.ask(plain, Op::Read, 3, 2);
    pool.rest(2);
    assert_eq!(pool.sim.engine.stats().tiers.came_blocks, after);
}

/// Files of a tier that was taken from their volume's list are as if they named none.
#[test]
fn a_tier_that_files_may_have_no_more_is_forgotten() {
    let mut pool = Pool::new("none", &["hot-dst"]);
    assert_eq!(pool.sim.engine.file_tiers(VOLUME), ["hot-dst"]);
    let file = pool.make(100, Some("hot-dst"));
    pool.config.file_tiers.clear();
    pool.rest(10);
    pool.cut_power();
    assert!(pool.sim.engine.file_tiers(VOLUME).is_empty());
    assert_eq!(pool.sim.engine.attribute(file, TIER_KEY), Some(&b"hot-dst"[..]));
    pool.ask(file, Op::Write, 0, BLOCKS);
    assert_eq!(pool.on_ssd(file).0, BLOCKS as usize);
    // while it is served the usual ones come with a volume's tier, and go with it
    let engine = &mut pool.sim.engine;
    engine
        .set_tier(VOLUME, TierConfig::named("cold-dst").with("size", 512 << 10))
        .expect("allowed");
    assert_eq!(engine.file_tiers(VOLUME).len(), 8);
    engine.set_tier(VOLUME, TierConfig::default()).expect("allowed");
    assert!(engine.file_tiers(VOLUME).is_empty());
}
