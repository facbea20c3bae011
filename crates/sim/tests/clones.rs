//! What becomes of clones where writes fail, where there is no room, and when the last one goes?

use std::collections::BTreeMap;
use tandem_block::{
    BLOCK_BYTES, Batch, DeviceId, Duration, Instant, IoError, ObjectId, ObjectKind, ObjectOp, Op,
    Request, RequestId, SECTORS_PER_BLOCK,
};
use tandem_drives::faulty::{Fault, FaultRule, FaultScript, Faulty, OpFilter};
use tandem_engine::format::layout;
use tandem_engine::qos::reserve::Selector;
use tandem_engine::{Engine, EngineConfig};
use tandem_sim::Simulation;
use tandem_sim::pool::{SwarmConfig, VOLUME};

const FILE: ObjectId = ObjectId(100);
const CLONE: ObjectId = ObjectId(101);
const SNAPSHOT: ObjectId = ObjectId(102);
/// When faults begin: long after the files were made.
const FROM: Instant = Instant::from_ns(10_000_000_000);

/// A pool whose SSD fails one write of data after `FROM`, if it shall.
fn pool(config: &SwarmConfig, fails: bool) -> Simulation {
    pool_with(config, config.engine(true), fails)
}

/// The same, with another configuration of the engine.
fn pool_with(config: &SwarmConfig, engine: EngineConfig, fails: bool) -> Simulation {
    let layouts = layout::plan(&engine).expect("it can be laid out");
    let end = layouts[0].slot_offset + layouts[0].slot_count * BLOCK_BYTES;
    let rule = FaultRule {
        ops: OpFilter::Writes,
        range: Some((layouts[0].slot_offset, end)),
        from: FROM,
        count: u64::from(fails),
        ..FaultRule::once(Fault::Error)
    };
    let drives = config.drives().into_iter().zip(0..).map(|(drive, index)| {
        let script = if index == 0 { FaultScript::of([rule]) } else { FaultScript::default() };
        let faulty = Faulty::new(drive, DeviceId(index), script, 1);
        Box::new(faulty) as Box<dyn tandem_block::Drive>
    });
    let mut sim = Simulation::new(Engine::new(engine).expect("valid"), drives.collect(), true);
    sim.start().expect("a pool");
    sim
}

fn ask(sim: &mut Simulation, object: ObjectId, id: u64, op: Op, (first, blocks): (u64, u64)) {
    let range = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
    let mut request = Request::new(RequestId(id), object, op, range, sim.now);
    if op == Op::Write {
        request.payload = sim.payload((0..blocks * SECTORS_PER_BLOCK).map(|_| id));
    }
    sim.request(&request);
}

type Answers = BTreeMap<u64, (Result<(), IoError>, Vec<u64>)>;

fn wait(sim: &mut Simulation, open: &[u64]) -> Answers {
    let mut answers = Answers::new();
    loop {
        for (done, tokens) in sim.take_said().done {
            answers.insert(done.request.0, (done.status, tokens));
        }
        if open.iter().all(|id| answers.contains_key(id)) {
            return answers;
        }
        assert!(sim.step(), "a request never hangs");
    }
}

fn done(sim: &mut Simulation, object: ObjectId, id: u64, op: Op, range: (u64, u64)) -> Vec<u64> {
    ask(sim, object, id, op, range);
    let (status, tokens) = wait(sim, &[id]).remove(&id).expect("answered");
    assert_eq!(status, Ok(()), "request {id}");
    tokens
}

fn batch(sim: &mut Simulation, id: u64, ops: Vec<ObjectOp>) {
    sim.batch(&Batch { id: RequestId(id), ops, durable: true });
    assert_eq!(wait(sim, &[id])[&id].0, Ok(()), "batch {id}");
}

/// One token for each block.
fn blocks(tokens: &[u64]) -> Vec<u64> {
    let whole = tokens.chunks_exact(SECTORS_PER_BLOCK as usize);
    whole.map(|block| block.iter().copied().reduce(u64::max).expect("sectors")).collect()
}

fn thin(object: ObjectId) -> [ObjectOp; 2] {
    let size_bytes = 8 * BLOCK_BYTES;
    let make = ObjectOp::CreateThin { object, kind: ObjectKind::Data, volume: VOLUME, owner: 0 };
    [make, ObjectOp::Resize { object, size_bytes }]
}

/// The object has again what it had. A write that waited for the one that failed fails as well, a read finds what
/// was there, and a later write does not fail.
#[test]
fn a_write_to_shared_blocks_that_fails_leaves_what_was_there() {
    for at in [2, 6] {
        let config = SwarmConfig::filed(6, "ssd-first", 0);
        let mut sim = pool(&config, true);
        batch(&mut sim, 1, thin(FILE).to_vec());
        done(&mut sim, FILE, 2, Op::Write, (0, 8));
        let share =
            ObjectOp::Share { from: FILE, from_block: 0, to: CLONE, to_block: 0, blocks: 8 };
        batch(&mut sim, 3, thin(CLONE).into_iter().chain([share]).collect());
        sim.run_until(FROM);
        ask(&mut sim, FILE, 10, Op::Write, (at, 2));
        ask(&mut sim, FILE, 11, Op::Write, (at + 1, 1));
        ask(&mut sim, FILE, 12, Op::Read, (at, 1));
        ask(&mut sim, FILE, 13, Op::Write, (0, 1));
        let answers = wait(&mut sim, &[10, 11, 12, 13]);
        let failed = Err(IoError::Device(DeviceId(0)));
        for id in [10, 11] {
            assert_eq!(answers[&id].0, failed, "request {id}");
        }
        let (read, tokens) = &answers[&12];
        assert_eq!(*read, Ok(()), "the read does not wait for the write");
        assert_eq!(blocks(tokens), [2], "the read finds what was there");
        assert_eq!(answers[&13].0, Ok(()), "elsewhere");
        let mut expected = vec![2; 8];
        expected[0] = 13;
        assert_eq!(blocks(&done(&mut sim, FILE, 14, Op::Read, (0, 8))), expected);
        done(&mut sim, FILE, 15, Op::Write, (at, 1));
        done(&mut sim, VOLUME, 16, Op::Flush, (0, 0));
        expected[at as usize] = 15;
        assert_eq!(blocks(&done(&mut sim, FILE, 17, Op::Read, (0, 8))), expected);
        assert_eq!(blocks(&done(&mut sim, CLONE, 18, Op::Read, (0, 8))), [2; 8]);
        let (all, free, others) = sim.engine.space_blocks();
        assert_eq!(all, free + others, "no block is lost");
    }
}

/// Writes beyond what is left are refused; all that was there stays, and the room of a snapshot that goes
/// is room again.
#[test]
fn no_room_behind_a_snapshot() {
    // 256 KiB are left beside the volume
    let config = SwarmConfig::filed(0, "ssd-first", 0);
    let mut sim = pool(&config, false);
    done(&mut sim, VOLUME, 1, Op::Write, (0, 200));
    let name = "volume@one".to_owned();
    batch(&mut sim, 2, vec![ObjectOp::Snapshot { from: VOLUME, to: SNAPSHOT, name }]);
    let (_, free, _) = sim.engine.space_blocks();
    assert!((20..150).contains(&free), "{free} blocks are left");
    done(&mut sim, VOLUME, 10, Op::Write, (0, free));
    ask(&mut sim, VOLUME, 11, Op::Write, (free, 1));
    // a part of a block, too, and zeroes need none
    let half = (free * BLOCK_BYTES + 512, 512);
    let mut request = Request::new(RequestId(12), VOLUME, Op::Write, half, sim.now);
    request.payload = sim.payload([12].into_iter());
    sim.request(&request);
    ask(&mut sim, VOLUME, 13, Op::Discard, (free + 1, 1));
    let answers = wait(&mut sim, &[11, 12, 13]);
    assert_eq!(answers[&11].0, Err(IoError::NoSpace));
    assert_eq!(answers[&12].0, Err(IoError::NoSpace));
    assert_eq!(answers[&13].0, Ok(()));
    done(&mut sim, VOLUME, 14, Op::Write, (0, free));
    let mut expected = vec![1; 200];
    expected[..free as usize].fill(14);
    expected[free as usize + 1] = 0;
    assert_eq!(blocks(&done(&mut sim, VOLUME, 15, Op::Read, (0, 200))), expected);
    assert_eq!(blocks(&done(&mut sim, SNAPSHOT, 16, Op::Read, (0, 200))), [1; 200]);
    ask(&mut sim, SNAPSHOT, 17, Op::Write, (0, 1));
    assert_eq!(wait(&mut sim, &[17])[&17].0, Err(IoError::Snapshot));
    batch(&mut sim, 20, vec![ObjectOp::Remove { object: SNAPSHOT }]);
    done(&mut sim, VOLUME, 21, Op::Flush, (0, 0));
    let (all, free, others) = sim.engine.space_blocks();
    assert_eq!(all, free + others);
    assert!(free > 0, "what the snapshot held alone is free");
    done(&mut sim, VOLUME, 22, Op::Write, (0, 200));
    assert_eq!(blocks(&done(&mut sim, VOLUME, 23, Op::Read, (0, 200))), [22; 200]);
}

/// Seen: a discard over more shared pieces than one commit has room for waited for ever.
#[test]
fn a_discard_of_many_shared_pieces_takes_several_commits() {
    const BLOCKS: u64 = 240;
    let config = SwarmConfig::filed(6, "ssd-first", 0);
    let mut sim = pool(&config, false);
    let size_bytes = BLOCKS * BLOCK_BYTES;
    let thin = |object| {
        let make =
            ObjectOp::CreateThin { object, kind: ObjectKind::Data, volume: VOLUME, owner: 0 };
        [make, ObjectOp::Resize { object, size_bytes }]
    };
    batch(&mut sim, 1, thin(FILE).to_vec());
    // every second block: so many pieces
    for at in (0..BLOCKS).step_by(2) {
        done(&mut sim, FILE, 100 + at, Op::Write, (at, 1));
    }
    batch(&mut sim, 2, thin(CLONE).to_vec());
    // one batch shares as many pieces as one commit has room for
    for first in (0..BLOCKS).step_by(60) {
        let share = ObjectOp::Share {
            from: FILE,
            from_block: first,
            to: CLONE,
            to_block: first,
            blocks: 60,
        };
        batch(&mut sim, 1000 + first, vec![share]);
    }
    // the first and the last block are left in part
    let mut request = Request::new(
        RequestId(3),
        FILE,
        Op::Discard,
        (512, (BLOCKS - 1) * BLOCK_BYTES - 1024),
        sim.now,
    );
    request.fua = true;
    sim.request(&request);
    ask(&mut sim, FILE, 4, Op::Read, (0, BLOCKS));
    ask(&mut sim, FILE, 5, Op::Write, (20, 1));
    let answers = wait(&mut sim, &[3, 4, 5]);
    assert!(answers.values().all(|(status, _)| *status == Ok(())), "{answers:?}");
    let mut expected = vec![0; BLOCKS as usize];
    (expected[0], expected[20], expected[BLOCKS as usize - 2]) = (100, 5, 100 + BLOCKS - 2);
    assert_eq!(blocks(&done(&mut sim, FILE, 6, Op::Read, (0, BLOCKS))), expected);
    let kept: Vec<u64> = (0..BLOCKS).map(|at| if at % 2 == 0 { 100 + at } else { 0 }).collect();
    assert_eq!(blocks(&done(&mut sim, CLONE, 7, Op::Read, (0, BLOCKS))), kept);
    done(&mut sim, VOLUME, 8, Op::Flush, (0, 0));
    let (all, free, others) = sim.engine.space_blocks();
    assert_eq!(all, free + others, "no block is lost");
}

/// Seen: the copy of a shared block counted as asked for by the client, and was never answered. Later windows in
/// which the client asked for nothing counted as missed.
#[test]
fn a_copied_block_is_no_request_of_the_client() {
    let mut config = SwarmConfig::filed(6, "ssd-first", 0);
    config.tuning.order = "edf";
    let mut engine = config.engine(true);
    engine.qos.streams[0].of = Selector::Volume(VOLUME);
    let mut sim = pool_with(&config, engine, false);
    batch(&mut sim, 1, thin(FILE).to_vec());
    done(&mut sim, FILE, 2, Op::Write, (0, 8));
    let share = ObjectOp::Share { from: FILE, from_block: 0, to: CLONE, to_block: 0, blocks: 8 };
    batch(&mut sim, 3, thin(CLONE).into_iter().chain([share]).collect());
    let mut request = Request::new(RequestId(10), FILE, Op::Write, (512, 512), sim.now);
    request.payload = sim.payload([10].into_iter());
    sim.request(&request);
    assert_eq!(wait(&mut sim, &[10])[&10].0, Ok(()));
    assert_eq!(sim.engine.stats().copied_up, 1);
    let quiet = sim.now + Duration::from_s(100);
    sim.run_until(quiet);
    let clients = sim.engine.clients(quiet).expect("streams are told apart");
    let delivery = &clients[0].delivery;
    assert_eq!(delivery.requests, 2, "the client has asked twice");
    assert_eq!((delivery.windows, delivery.met), (1, 1), "and in one window alone");
}
