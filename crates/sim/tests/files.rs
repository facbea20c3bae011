//! Do files keep what was answered, and what was flushed, life after life?

use tandem_block::{
    BLOCK_BYTES, Batch, IoError, ObjectId, ObjectKind, ObjectOp, Op, Request, RequestId,
    SECTORS_PER_BLOCK,
};
use tandem_engine::Engine;
use tandem_sim::Simulation;
use tandem_sim::campaign::{ALWAYS, Campaign};
use tandem_sim::coverage::{Coverage, Met};
use tandem_sim::pool::{SwarmConfig, VOLUME};
use tandem_sim::swarm::Run;

const FILE: ObjectId = ObjectId(100);

/// Under seed 2 a write in the second life is answered while a discard over several runs is under way;
/// under seed 4 a batch that cuts a file and lets it grow again is there after a cut, but was not answered.
#[test]
fn two_lives_of_files_lose_nothing() {
    let mut met = Coverage::default();
    for (seed, policy) in [(2, "ssd-first"), (2, "mios-d"), (1, "mios-e"), (4, "ssd-first")] {
        let run = Run::new(SwarmConfig::filed(seed, policy, 250)).expect("a pool");
        let often = Campaign {
            window: ALWAYS,
            stride: 7,
            recovery_stride: 15,
            lives: 2,
            more_requests: 60,
        };
        let campaign = match seed {
            4 => Campaign { stride: 5, recovery_stride: 40, more_requests: 40, ..often },
            _ => often,
        };
        met += campaign.run(run).unwrap_or_else(|failure| panic!("{policy}: {failure}"));
    }
    assert!(met.get(Met::Crashes) > 500, "{met}");
}

/// Blocks of the file.
fn request(sim: &mut Simulation, id: u64, op: Op, (first, blocks): (u64, u64)) -> Request {
    let range = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
    let mut request = Request::new(RequestId(id), FILE, op, range, sim.now);
    if op == Op::Write {
        request.payload = sim.payload((0..blocks * SECTORS_PER_BLOCK).map(|_| id));
    }
    sim.request(&request);
    request
}

/// Runs until all these are answered. Returns their ids in the order of the answers, and what the last
/// one read.
fn wait(sim: &mut Simulation, mut open: Vec<u64>) -> (Vec<u64>, Vec<u64>) {
    let (mut order, mut read) = (Vec::new(), Vec::new());
    loop {
        for (done, tokens) in sim.take_said().done {
            assert_eq!(done.status, Ok::<(), IoError>(()), "{:?}", done.request);
            open.retain(|&id| id != done.request.0);
            order.push(done.request.0);
            read = tokens;
        }
        if open.is_empty() {
            return (order, read);
        }
        assert!(sim.step(), "a request never hangs");
    }
}

/// A discard of two runs with a hole between them waits for a write to the second one. What is written
/// meanwhile to the first one and into the hole stays there, whoever is answered first.
#[test]
fn what_is_written_during_a_discard_stays() {
    let mut overtaken = 0;
    for seed in 0..24 {
        let config = SwarmConfig { seed, ..SwarmConfig::filed(1, "ssd-first", 0) };
        let engine = Engine::new(config.engine(true)).expect("valid");
        let mut sim = Simulation::new(engine, config.drives(), true);
        sim.start().expect("a pool");
        let create =
            ObjectOp::CreateThin { object: FILE, kind: ObjectKind::Data, volume: VOLUME, owner: 0 };
        let resize = ObjectOp::Resize { object: FILE, size_bytes: 16 * BLOCK_BYTES };
        sim.batch(&Batch { id: RequestId(1), ops: vec![create, resize], durable: true });
        wait(&mut sim, vec![1]);
        request(&mut sim, 2, Op::Write, (0, 4));
        request(&mut sim, 3, Op::Write, (8, 4));
        wait(&mut sim, vec![2, 3]);
        request(&mut sim, 4, Op::Write, (10, 1));
        request(&mut sim, 5, Op::Discard, (0, 12));
        request(&mut sim, 6, Op::Write, (1, 1));
        request(&mut sim, 7, Op::Write, (5, 1));
        let (order, _) = wait(&mut sim, vec![4, 5, 6, 7]);
        let at = |id: u64| order.iter().position(|&done| done == id).expect("answered");
        overtaken += u32::from(at(6) < at(5) && at(7) < at(5));
        request(&mut sim, 8, Op::Read, (0, 16));
        let (_, read) = wait(&mut sim, vec![8]);
        for (block, sectors) in (0..).zip(read.chunks_exact(SECTORS_PER_BLOCK as usize)) {
            let expected = match block {
                1 => 6,
                5 => 7,
                _ => 0,
            };
            assert!(
                sectors.iter().all(|&token| token == expected),
                "seed {seed}, block {block}: {sectors:?} instead of {expected}; answered {order:?}"
            );
        }
    }
    assert!(overtaken > 3, "a write was answered before the discard in {overtaken} pools");
}
