//! Where does a write lie that is answered by both places?
//!
//! Source: [LORIS §II], "forwards writes to both the cached SSD copy and the primary disk copy". The log of a hard
//! drive takes the primary copy, and nobody waits for a flush of it. The SSD's copy is clean from the first.

use tandem_block::{
    BLOCK_BYTES, DeviceId, Duration, IoError, KIB, Op, Request, RequestId, SECTORS_PER_BLOCK,
};
use tandem_drives::media::CutMode;
use tandem_engine::map::entry::HOME;
use tandem_engine::map::{Entry, NONE};
use tandem_engine::{Engine, TierConfig};
use tandem_sim::Simulation;
use tandem_sim::pool::{SwarmConfig, VOLUME};

/// Blocks of an extent.
const EXTENT_BLOCKS: u64 = 16;
const HDD: DeviceId = DeviceId(1);

struct Pool {
    config: SwarmConfig,
    sim: Simulation,
    sent: u64,
}

/// On an SSD, in a log, at home.
type Places = (bool, bool, bool);
const IN_BOTH: Places = (true, true, false);

impl Pool {
    /// A share of so many extents, beside a log of this share of the hard drive.
    fn new(extents: u64, log_percent: u64) -> Pool {
        let mut config = SwarmConfig::tiny(0, "ssd-first", 0);
        config.drives = (1, 1);
        config.tuning.log_segment_bytes = 64 * KIB;
        config.tuning.log_percent = log_percent;
        config.tier = TierConfig::named("cache-write-through-all")
            .with("extent", EXTENT_BLOCKS * BLOCK_BYTES)
            .with("size", extents * EXTENT_BLOCKS * BLOCK_BYTES)
            .with("detours", 1)
            .with("acknowledge", 1);
        let engine = Engine::new(config.engine(true)).expect("valid");
        let mut sim = Simulation::new(engine, config.drives(), true);
        sim.start().expect("a pool");
        Pool { config, sim, sent: 0 }
    }

    fn ask(&mut self, op: Op, (first, blocks): (u64, u64)) {
        self.sent += 1;
        let id = RequestId(self.sent);
        let range = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
        let mut request = Request::new(id, VOLUME, op, range, self.sim.now);
        if op == Op::Write {
            request.payload = self.sim.payload((0..blocks * SECTORS_PER_BLOCK).map(|_| id.0));
        }
        self.sim.request(&request);
        loop {
            if let Some((done, _)) = self.sim.take_said().done.pop() {
                assert_eq!((done.request, done.status), (id, Ok::<(), IoError>(())));
                return;
            }
            assert!(self.sim.step(), "a request never hangs");
        }
    }

    fn write(&mut self, extent: u64) {
        self.ask(Op::Write, (extent * EXTENT_BLOCKS, EXTENT_BLOCKS));
    }

    /// Nobody asks for anything for so long.
    fn rest(&mut self, seconds: u64) {
        let until = self.sim.now + Duration::from_s(seconds);
        self.sim.run_until(until);
    }

    fn entry(&self, block: u64) -> Entry {
        let first = self.sim.engine.objects().get(VOLUME).expect("the volume").first;
        self.sim.engine.map().entry(first + block)
    }

    /// Of all blocks of an extent, which lie alike.
    fn places(&self, extent: u64) -> Places {
        let of = |block| {
            let entry = self.entry(block);
            (entry.ssd != NONE, entry.log != NONE, entry.home)
        };
        let mut all = (extent * EXTENT_BLOCKS..(extent + 1) * EXTENT_BLOCKS).map(of);
        let first = all.next().expect("an extent has blocks");
        assert!(all.all(|other| other == first), "the blocks of an extent lie alike");
        first
    }

    fn hdd_flushes(&self) -> u64 {
        self.sim.engine.stats().devices[usize::from(HDD.0)].flushes
    }
}

#[test]
fn both_places_have_it_and_no_flush_of_the_hard_drive_was_waited_for() {
    let mut pool = Pool::new(8, 20);
    let flushes = pool.hdd_flushes();
    pool.write(0);
    assert_eq!(pool.places(0), IN_BOTH);
    let before = pool.entry(0);
    pool.write(0);
    let after = pool.entry(0);
    assert_eq!(pool.places(0), IN_BOTH);
    assert!(before.ssd != after.ssd && before.log != after.log, "both are new: {after:?}");
    pool.ask(Op::Flush, (0, 0));
    assert_eq!(pool.hdd_flushes(), flushes, "a copy that is durable is enough");
    assert_eq!(pool.places(0), IN_BOTH);
    pool.rest(5);
    assert!(pool.hdd_flushes() > flushes, "the tail is flushed when it is quiet");
    assert_eq!(pool.places(0), IN_BOTH, "the copy is the cache's, and stays");
    let stats = pool.sim.engine.stats();
    assert_eq!((stats.copies_beside_logs, stats.moves, stats.copies_made), (16, 0, 0));
}

/// What leaves the cache is in the log already.
#[test]
fn what_leaves_the_cache_is_written_nowhere() {
    let mut pool = Pool::new(4, 20);
    (0..4).for_each(|extent| pool.write(extent));
    pool.rest(5);
    (4..6).for_each(|extent| pool.write(extent));
    pool.rest(5);
    let left = (0..6).filter(|&extent| pool.places(extent) == (false, true, false)).count();
    let there = (0..6).filter(|&extent| pool.places(extent) == IN_BOTH).count();
    assert!(left >= 2 && there <= 4 && left + there == 6, "{left} left, {there} are there");
    let stats = pool.sim.engine.stats();
    assert!(stats.tiers.dropped_blocks >= 2 * EXTENT_BLOCKS, "{:?}", stats.tiers);
    assert_eq!((stats.tiers.demoted_blocks, stats.moves), (0, 0));
}

/// 16 segments of distinct blocks go through a log of fewer.
#[test]
fn a_copy_is_one_of_the_home_when_the_log_was_cleaned() {
    let mut pool = Pool::new(48, 2);
    for extent in 0..16 {
        pool.write(extent);
        pool.rest(2);
    }
    let home = (0..16).filter(|&extent| pool.places(extent) == (true, false, true)).count();
    let logged = (0..16).filter(|&extent| pool.places(extent) == IN_BOTH).count();
    assert!(home > 0 && home + logged == 16, "{home} are home, {logged} in the log");
    let stats = pool.sim.engine.stats();
    assert_eq!(stats.moves, home as u64 * EXTENT_BLOCKS, "each went once, from the log");
}

/// The log is believed after a crash: it is the primary place.
#[test]
fn after_a_crash_the_log_has_it() {
    for rests in [false, true] {
        let mut pool = Pool::new(8, 20);
        pool.write(0);
        pool.ask(Op::Flush, (0, 0));
        if rests {
            pool.rest(20);
            assert_eq!(pool.sim.engine.stats().copies_beside_logs, EXTENT_BLOCKS, "it was flushed");
        }
        let mut rng = tandem_block::Rng::new(7);
        pool.sim.power_cut(pool.config.engine(false), CutMode::RandomSubset, &mut rng);
        pool.sim.start().expect("it recovers");
        let wanted = if rests { (false, true, false) } else { (true, false, false) };
        assert_eq!(pool.places(0), wanted, "rested: {rests}");
        assert_eq!(pool.sim.engine.map().state(0) & HOME, 0);
        pool.ask(Op::Read, (0, EXTENT_BLOCKS));
    }
}
