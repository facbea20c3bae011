//! Where does a write lie that is answered by both places?
//!
//! Source: [LORIS §II], "forwards writes to both the cached SSD copy and the primary disk copy". The log of a hard
//! drive takes the primary copy, and nobody waits for a flush of it. The SSD's copy is clean from the first.

use tandem_block::{
    BLOCK_BYTES, DeviceId, Drive, Duration, Instant, IoError, KIB, Op, Request, RequestId,
    SECTORS_PER_BLOCK,
};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_drives::media::CutMode;
use tandem_engine::map::entry::HOME;
use tandem_engine::map::{Entry, NONE};
use tandem_engine::{Engine, EngineConfig, TierConfig, WriteCache};
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
        Pool::with(extents, log_percent, WriteCache::Volatile, &FaultScript::default())
    }

    /// The same over a hard drive with such a buffer, and with these faults.
    fn with(extents: u64, log_percent: u64, buffer: WriteCache, faults: &FaultScript) -> Pool {
        let mut config = SwarmConfig::tiny(0, "ssd-first", 0);
        config.drives = (1, 1);
        config.tuning.log_segment_bytes = 64 * KIB;
        config.tuning.log_percent = log_percent;
        config.tier = TierConfig::named("cache-write-through-all")
            .with("extent", EXTENT_BLOCKS * BLOCK_BYTES)
            .with("size", extents * EXTENT_BLOCKS * BLOCK_BYTES)
            .with("detours", 1)
            .with("acknowledge", 1);
        let mut of_engine = config.engine(true);
        of_engine.devices[usize::from(HDD.0)].write_cache = buffer;
        let engine = Engine::new(of_engine).expect("valid");
        let drives = config.drives().into_iter().enumerate().map(|(at, drive)| {
            let id = DeviceId(at as u8);
            let script = if id == HDD { faults.clone() } else { FaultScript::default() };
            Box::new(Faulty::new(drive, id, script, config.seed)) as Box<dyn Drive>
        });
        let mut sim = Simulation::new(engine, drives.collect(), true);
        sim.start().expect("a pool");
        Pool { config, sim, sent: 0 }
    }

    /// Asks, and waits for the answer: the tokens of a read.
    fn ask(&mut self, op: Op, (first, blocks): (u64, u64)) -> Vec<u64> {
        self.sent += 1;
        let id = RequestId(self.sent);
        let range = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
        let mut request = Request::new(id, VOLUME, op, range, self.sim.now);
        if op == Op::Write {
            request.payload = self.sim.payload((0..blocks * SECTORS_PER_BLOCK).map(|_| id.0));
        }
        self.sim.request(&request);
        loop {
            if let Some((done, tokens)) = self.sim.take_said().done.pop() {
                assert_eq!((done.request, done.status), (id, Ok::<(), IoError>(())));
                return tokens;
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

/// The log is the place that a lost SSD cannot take. So it stays one when a read brings a copy.
#[test]
fn what_a_read_brings_is_a_copy_of_the_log() {
    let mut pool = Pool::new(4, 20);
    for extent in 0..6 {
        pool.write(extent);
        pool.rest(5);
    }
    let in_log = |pool: &Pool, extent| pool.places(extent) == (false, true, false);
    let left = (0..6).find(|&extent| in_log(&pool, extent)).expect("two had to leave");
    let log = pool.entry(left * EXTENT_BLOCKS).log;
    pool.ask(Op::Read, (left * EXTENT_BLOCKS, EXTENT_BLOCKS));
    pool.rest(5);
    assert_eq!(pool.places(left), IN_BOTH);
    assert_eq!(pool.entry(left * EXTENT_BLOCKS).log, log, "it was written nowhere else");
    let moved = pool.sim.engine.stats().moves;
    // others make it leave again, which costs no write
    for extent in 6..12 {
        pool.write(extent);
        pool.rest(5);
    }
    assert!(in_log(&pool, left), "{:?}", pool.places(left));
    assert_eq!(pool.sim.engine.stats().moves, moved);
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

/// The first flush of the hard drive fails: the SSD's copy stays, and is the only one.
#[test]
fn a_flush_of_the_hard_drive_that_fails_takes_nothing() {
    let error = FaultRule {
        ops: OpFilter::Flushes,
        from: Instant::ZERO + Duration::from_ms(1),
        ..FaultRule::once(Fault::Error)
    };
    let mut pool = Pool::with(8, 20, WriteCache::Volatile, &FaultScript::of([error]));
    pool.write(0);
    pool.ask(Op::Flush, (0, 0));
    pool.rest(20);
    let on_the_ssd = (true, false, false);
    assert_eq!(
        pool.places(0),
        on_the_ssd,
        "what the failed flush should have kept is not believed"
    );
    let stats = pool.sim.engine.stats();
    assert_eq!((stats.copies_beside_logs, stats.faulted_drives), (0, 1));
    let mut rng = tandem_block::Rng::new(7);
    pool.sim.power_cut(pool.config.engine(false), CutMode::DropAll, &mut rng);
    pool.sim.start().expect("it recovers");
    assert_eq!(pool.places(0), on_the_ssd);
    let tokens = pool.ask(Op::Read, (0, EXTENT_BLOCKS));
    assert_eq!(tokens, vec![1; (EXTENT_BLOCKS * SECTORS_PER_BLOCK) as usize]);
}

/// The hard drive dies, and then the machine starts without it: what the cache has of its log is all there is.
#[test]
fn a_copy_stands_alone_when_the_drive_of_the_log_has_died() {
    // the copies come with the writes, or with reads; what names them is in the journal, or in a checkpoint
    for (is_read, writes) in [(false, 1), (true, 1), (false, 400)] {
        let dies_at = Instant::ZERO + Duration::from_s(100);
        let dies = FaultRule { from: dies_at, ..FaultRule::by_chance(Fault::Never, 1_000_000) };
        let mut pool = Pool::with(4, 20, WriteCache::Volatile, &FaultScript::of([dies]));
        for extent in 0..6 {
            pool.write(extent);
            pool.rest(5);
        }
        for extent in 0..if is_read { 6 } else { 0 } {
            pool.ask(Op::Read, (extent * EXTENT_BLOCKS, EXTENT_BLOCKS));
            pool.rest(2);
        }
        let mut cached = (0..6).filter(|&extent| pool.places(extent) == IN_BOTH);
        let (written, kept) = (cached.next().expect("some are cached"), cached.collect::<Vec<_>>());
        assert!(kept.len() >= 2, "{kept:?}");
        pool.sim.run_until(dies_at);
        let checkpoints = pool.sim.engine.stats().checkpoints;
        (0..writes).for_each(|_| pool.write(written));
        pool.rest(60);
        let checkpoints = pool.sim.engine.stats().checkpoints - checkpoints;
        assert!(checkpoints > 0 || writes == 1, "they are more than the journal takes");
        let without = EngineConfig { absent: vec![HDD], ..pool.config.engine(false) };
        let mut rng = tandem_block::Rng::new(7);
        pool.sim.power_cut(without, CutMode::DropAll, &mut rng);
        pool.sim.start().expect("it is served from the SSD");
        for extent in kept {
            let tokens = pool.ask(Op::Read, (extent * EXTENT_BLOCKS, EXTENT_BLOCKS));
            assert_eq!(tokens, vec![extent + 1; (EXTENT_BLOCKS * SECTORS_PER_BLOCK) as usize]);
        }
    }
}

/// What such a hard drive acknowledged is durable: nothing waits for a flush of it.
#[test]
fn a_hard_drive_without_a_volatile_buffer_is_not_flushed() {
    let mut pool = Pool::with(8, 20, WriteCache::Protected, &FaultScript::default());
    let flushes = pool.hdd_flushes();
    pool.write(0);
    pool.ask(Op::Flush, (0, 0));
    pool.write(0);
    pool.rest(5);
    assert_eq!(pool.hdd_flushes(), flushes);
    assert_eq!(pool.places(0), IN_BOTH);
    assert_eq!(pool.sim.engine.stats().copies_made, 0);
}
