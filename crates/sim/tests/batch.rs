//! Do changes of objects happen together or not at all, whenever the power fails?
//!
//! Source: design, "A request": `Batch[object ops]` commits in one record. Random batches make, rename,
//! resize and remove objects that share few blocks, while others write to them; after a cut at any
//! event the objects are as some whole prefix of the batches left them, no older than the last one
//! acknowledged, and no object shows what another one held before it.

use std::collections::BTreeMap;
use tandem_block::{
    BLOCK_BYTES, Batch, IoError, ObjectId, ObjectOp, Op, Request, RequestId, Rng, SECTOR_BYTES,
};
use tandem_drives::media::CutMode;
use tandem_sim::Simulation;
use tandem_sim::campaign::MODES;
use tandem_sim::swarm::{SwarmConfig, VOLUME};

/// Objects by id: name and blocks.
type Objects = BTreeMap<u64, (String, u64)>;

/// What must be, in the plainest way.
fn apply(objects: &mut Objects, ops: &[ObjectOp]) -> bool {
    let mut trial = objects.clone();
    for op in ops {
        let named = |objects: &Objects, name: &str| objects.values().any(|o| o.0 == name);
        match op {
            ObjectOp::Create { object, name, size_bytes } => {
                if trial.contains_key(&object.0) || named(&trial, name) {
                    return false;
                }
                trial.insert(object.0, (name.clone(), size_bytes / BLOCK_BYTES));
            }
            ObjectOp::Remove { object } => {
                if trial.remove(&object.0).is_none() {
                    return false;
                }
            }
            ObjectOp::Rename { object, name } => {
                let own = trial.get(&object.0).is_some_and(|o| o.0 == *name);
                if !trial.contains_key(&object.0) || (named(&trial, name) && !own) {
                    return false;
                }
                trial.get_mut(&object.0).expect("asked above").0.clone_from(name);
            }
            ObjectOp::Resize { object, size_bytes } => {
                let Some(known) = trial.get_mut(&object.0) else { return false };
                known.1 = size_bytes / BLOCK_BYTES;
            }
            ObjectOp::CreateThin { .. }
            | ObjectOp::Share { .. }
            | ObjectOp::Snapshot { .. }
            | ObjectOp::SetAttribute { .. }
            | ObjectOp::RemoveAttribute { .. } => unreachable!("volumes alone are drawn here"),
        }
    }
    *objects = trial;
    true
}

struct Play {
    rng: Rng,
    numbers: u64,
    ids: u64,
}

impl Play {
    fn draw(&mut self, objects: &Objects) -> Vec<ObjectOp> {
        let mut trial = objects.clone();
        let mut ops = Vec::new();
        for _ in 0..self.rng.between(1, 4) {
            let ids: Vec<u64> = trial.keys().copied().filter(|&id| id != VOLUME.0).collect();
            let pick = |rng: &mut Rng| ObjectId(ids[rng.below(ids.len() as u64) as usize]);
            let name = format!("n{}", self.rng.below(6));
            let size_bytes = self.rng.between(1, 40) * BLOCK_BYTES;
            let op = match self.rng.below(if ids.is_empty() { 1 } else { 5 }) {
                0 | 1 => {
                    self.ids += 1;
                    ObjectOp::Create { object: ObjectId(self.ids), name, size_bytes }
                }
                2 => ObjectOp::Remove { object: pick(&mut self.rng) },
                3 => ObjectOp::Rename { object: pick(&mut self.rng), name },
                _ => ObjectOp::Resize { object: pick(&mut self.rng), size_bytes },
            };
            apply(&mut trial, std::slice::from_ref(&op));
            ops.push(op);
        }
        ops
    }

    fn number(&mut self) -> RequestId {
        self.numbers += 1;
        RequestId(self.numbers)
    }
}

/// Runs the simulation until this request is answered.
fn wait(
    sim: &mut Simulation,
    id: RequestId,
    mut at_each: impl FnMut(&Simulation),
) -> Result<Vec<u64>, IoError> {
    loop {
        for (done, tokens) in sim.take_said().done {
            if done.request == id {
                return done.status.map(|()| tokens);
            }
        }
        at_each(sim);
        assert!(sim.step(), "a request never hangs");
    }
}

fn state_of(sim: &Simulation) -> Objects {
    let objects = sim.engine.objects().iter();
    objects.map(|(id, o)| (id.0, (o.name.clone(), o.blocks))).collect()
}

/// A token that tells whose it is.
fn token(object: u64, number: u64) -> u64 {
    object << 32 | number
}

/// Everything that can be read belongs to the object that it is read from.
fn check_contents(sim: &mut Simulation, play: &mut Play, what: &str) {
    for (id, (_, blocks)) in state_of(sim) {
        if id == VOLUME.0 {
            continue;
        }
        let range = (0, blocks * BLOCK_BYTES);
        let number = play.number();
        sim.request(&Request::new(number, ObjectId(id), Op::Read, range, sim.now));
        let tokens = wait(sim, number, |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
        for token in tokens {
            assert!(token == 0 || token >> 32 == id, "{what}: object {id} shows {token:x}");
        }
    }
}

fn cut(
    sim: &Simulation,
    config: &SwarmConfig,
    acked: &[Objects],
    issued: &[Objects],
    mode: CutMode,
) {
    let mut fork = sim.clone();
    fork.power_cut(config.engine(false), mode, &mut Rng::new(issued.len() as u64));
    fork.start().unwrap_or_else(|error| panic!("seed {}: {error}", config.seed));
    let found = state_of(&fork);
    let oldest = acked.len() - 1;
    assert!(
        issued[oldest..].contains(&found),
        "seed {}, {mode:?}: {found:?} is none of the {} last states",
        config.seed,
        issued.len() - oldest
    );
    let mut play = Play { rng: Rng::new(1), numbers: 1 << 30, ids: 0 };
    check_contents(&mut fork, &mut play, &format!("seed {}, {mode:?}", config.seed));
}

#[test]
fn batches_are_whole_and_nothing_shows_through() {
    let mut cuts = 0;
    for seed in 0..12 {
        let mut config = SwarmConfig::tiny(seed, "mios-e", 0);
        config.shape.volume_bytes = 8 << 20;
        let engine = tandem_engine::Engine::new(config.engine(true)).expect("valid");
        let drives = config.drives();
        let mut sim = Simulation::new(engine, drives, true);
        sim.start().expect("a pool");
        let mut play = Play { rng: Rng::new(seed), numbers: 0, ids: 100 };
        let mut acked = vec![state_of(&sim)];
        let mut refused = 0;
        for round in 0..40 {
            let now = acked.last().expect("the first state").clone();
            let ops = play.draw(&now);
            let mut after = now.clone();
            let possible = apply(&mut after, &ops);
            let mut issued = acked.clone();
            issued.push(after.clone());
            let id = play.number();
            sim.batch(&Batch { id, ops: ops.clone(), durable: true });
            let mut events = 0u64;
            let status = wait(&mut sim, id, |sim| {
                events += 1;
                if events.is_multiple_of(3) {
                    cut(sim, &config, &acked, &issued, MODES[(events / 3 % 3) as usize]);
                    cuts += 1;
                }
            });
            match status {
                Ok(_) => {
                    assert!(possible, "seed {seed}, round {round}: {ops:?} over {now:?}");
                    acked.push(after);
                }
                // an object that cannot grow where it lies is refused, whole
                Err(error) => {
                    let space = error == IoError::NoSpace;
                    assert!(!possible || space, "seed {seed}, round {round}: {error}");
                    refused += 1;
                }
            }
            assert_eq!(state_of(&sim), *acked.last().expect("the first state"));
            for mode in MODES {
                cut(&sim, &config, &acked, &acked, mode);
                cuts += 1;
            }
            for (object, (_, blocks)) in state_of(&sim) {
                if object == VOLUME.0 || play.rng.chance_ppm(400_000) {
                    continue;
                }
                let number = play.number();
                let range = (0, blocks * BLOCK_BYTES);
                let mut request = Request::new(number, ObjectId(object), Op::Write, range, sim.now);
                request.fua = play.rng.chance_ppm(300_000);
                let sectors = blocks * BLOCK_BYTES / SECTOR_BYTES;
                request.payload =
                    sim.payload((0..sectors).map(|i| token(object, number.0 << 12 | i)));
                sim.request(&request);
                wait(&mut sim, number, |_| {}).expect("no faults");
            }
        }
        assert!(refused < 40 && acked.len() > 10, "seed {seed}: {refused} refused");
        check_contents(&mut sim, &mut play, "at the end");
        sim.shut_down();
        while !sim.take_said().stopped {
            assert!(sim.step(), "a stop never hangs");
        }
    }
    assert!(cuts > 1000, "{cuts} cuts");
}

#[test]
fn what_cannot_be_is_refused_whole() {
    let config = SwarmConfig::tiny(3, "ssd-first", 0);
    let engine = tandem_engine::Engine::new(config.engine(true)).expect("valid");
    let mut sim = Simulation::new(engine, config.drives(), true);
    sim.start().expect("a pool");
    let before = state_of(&sim);
    let create = |id, name: &str, blocks| ObjectOp::Create {
        object: ObjectId(id),
        name: name.into(),
        size_bytes: blocks * BLOCK_BYTES,
    };
    let cases = [
        (vec![create(7, "a", 1), create(7, "b", 1)], IoError::Exists),
        (vec![create(7, "a", 1), create(8, "a", 1)], IoError::Exists),
        (vec![create(7, "a", 1 << 30)], IoError::NoSpace),
        (vec![create(7, "a", 0)], IoError::Misaligned),
        (vec![create(7, &"a".repeat(256), 1)], IoError::NameTooLong),
        (vec![create(7, "a", 1), ObjectOp::Remove { object: ObjectId(9) }], IoError::NoObject),
        ((0..1000).map(|i| create(i + 10, &format!("{i}"), 1)).collect(), IoError::TooLarge),
    ];
    for (number, (ops, error)) in cases.into_iter().enumerate() {
        let id = RequestId(number as u64 + 1);
        sim.batch(&Batch { id, ops, durable: true });
        assert_eq!(wait(&mut sim, id, |_| {}), Err(error));
        assert_eq!(state_of(&sim), before, "{error}");
    }
    // an object with a request under way does not go
    let write = RequestId(100);
    let mut request = Request::new(write, VOLUME, Op::Write, (0, BLOCK_BYTES), sim.now);
    request.payload = sim.payload((0..8).map(|i| i + 1));
    sim.request(&request);
    let id = RequestId(101);
    sim.batch(&Batch { id, ops: vec![ObjectOp::Remove { object: VOLUME }], durable: true });
    assert_eq!(wait(&mut sim, id, |_| {}), Err(IoError::Busy));
}
