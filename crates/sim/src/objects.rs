//! Are objects, their attributes and their contents what the promise allows?
//!
//! Source: requirements L3; design, "A request". Random batches make, resize and remove files of a small
//! pool and set attributes, while others read and write them, into holes and behind their ends. Every
//! batch also sets a number on the volume, so that after a crash it is known which batches are there: a
//! prefix of those that were handed in, with all that was promised. Objects and attributes must then be
//! what that prefix made of them, and each block of each file one of the versions that it had, none older
//! than what was flushed, none from before a truncation that is there or from behind one that is not.
//! Batches may clone files, or parts of them, and take snapshots of the volume, while others write to what
//! is cloned: the clone shows what had been answered, and keeps it.

use crate::check::{BlockState, Oracle, Violation, token};
use crate::pool::{SwarmConfig, VOLUME};
use crate::simulation::Simulation;
use std::collections::{BTreeMap, BTreeSet};
use tandem_block::{
    BLOCK_BYTES, Batch, IoError, MIB, ObjectId, ObjectKind, ObjectOp, Op, Request, RequestId, Rng,
    SECTOR_BYTES, SECTORS_PER_BLOCK, TIER_KEY,
};
use tandem_engine::Engine;

/// Files at once at most.
const FILES_MAX: usize = 8;
/// Blocks of a file at most.
const BLOCKS_MAX: u64 = 400;
/// Batches of four attributes of 900 bytes: some three pages of the table of objects.
const PRELOAD: u64 = 20;
/// Key of the number of the newest batch.
const NUMBER: &[u8] = b"number";

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct File {
    size_bytes: u64,
    owner: u64,
    is_snapshot: bool,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All objects by id.
type State = BTreeMap<u64, File>;

/// What is to be asked of a simulation.
pub(crate) enum Ask {
    /// A batch.
    Batch(Batch),
    /// A request; a write's payload is still missing.
    Request(Request),
}

/// Objects as they are, were, and may be.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// After each batch that was applied, from the first that a crash may leave on.
    states: Vec<State>,
    /// Number of the first of these.
    first: u64,
    /// The batch that is not answered yet, and what it makes of the objects.
    pending: Option<(Batch, State)>,
    /// Batches that a FLUSH has to make durable, by its id.
    flushes: BTreeMap<RequestId, u64>,
    contents: BTreeMap<u64, Oracle>,
    open: BTreeMap<RequestId, ObjectId>,
    next_id: u64,
    /// Batches still to come that make the table of objects several pages long.
    preload: u64,
    /// Files are cloned, and snapshots taken of the volume.
    clones: bool,
    /// Tiers that files may name.
    tiers: Vec<&'static str>,
    /// What was answered of the objects that the pending batch clones, when it was handed in.
    before: BTreeMap<u64, BTreeMap<u64, usize>>,
}

fn objects(text: String) -> Violation {
    Violation::Objects(text)
}

impl Files {
    /// None but the volume, with a table that may become longer than a page.
    pub fn of(engine: &Engine, config: &SwarmConfig) -> Option<Box<Files>> {
        let files = || Files::new(engine, config.seed, config.clones);
        config.objects.then(|| Box::new(files()))
    }

    fn new(engine: &Engine, seed: u64, clones: bool) -> Files {
        Files {
            states: vec![state_of(engine)],
            first: 0,
            pending: None,
            flushes: BTreeMap::new(),
            contents: BTreeMap::new(),
            open: BTreeMap::new(),
            next_id: 100,
            preload: [0, PRELOAD][(seed % 2) as usize],
            clones,
            tiers: engine.file_tiers(VOLUME),
            before: BTreeMap::new(),
        }
    }

    fn now(&self) -> &State {
        self.states.last().expect("there is always one")
    }

    fn newest(&self) -> u64 {
        self.first + self.states.len() as u64 - 1
    }

    /// Draws what comes next.
    pub fn draw(&mut self, id: RequestId, sim: &Simulation, rng: &mut Rng) -> Ask {
        if self.preload > 0 && self.pending.is_none() {
            self.preload -= 1;
            return Ask::Batch(self.draw_preload(id));
        }
        let busy = self.pending.as_ref().map(|(batch, _)| touched(batch));
        let files = self.now().keys().filter(|&&id| id != VOLUME.0).copied();
        let files: Vec<u64> =
            files.filter(|file| busy.as_ref().is_none_or(|busy| !busy.contains(file))).collect();
        let wants_batch = rng.chance_ppm(350_000) || files.is_empty();
        if wants_batch && self.pending.is_none() {
            return Ask::Batch(self.draw_batch(id, rng));
        }
        if files.is_empty() || rng.chance_ppm(100_000) {
            return Ask::Request(Request::new(id, VOLUME, Op::Flush, (0, 0), sim.now));
        }
        let file = files[rng.below(files.len() as u64) as usize];
        let mut end = self.now()[&file].size_bytes.next_multiple_of(BLOCK_BYTES);
        if self.now()[&file].is_snapshot {
            // of a volume, of which little was ever written to
            end = end.min(MIB);
        }
        if end == 0 {
            return Ask::Request(Request::new(id, VOLUME, Op::Flush, (0, 0), sim.now));
        }
        let grain = if rng.chance_ppm(250_000) { SECTOR_BYTES } else { BLOCK_BYTES };
        let longest = (end / grain).min([4, 32][rng.below(2) as usize] * BLOCK_BYTES / grain);
        let length = rng.between(1, longest) * grain;
        // appends too: the end of what there may be
        let places = (end - length) / grain;
        let place = if rng.chance_ppm(300_000) { places } else { rng.below(places + 1) };
        let op = match rng.below(10) {
            _ if self.now()[&file].is_snapshot => Op::Read,
            0 | 1 => Op::Read,
            4..=6 if !self.tiers.is_empty() => Op::Read, // what is read comes to its tier
            2 => Op::Discard,
            3 => Op::WriteZeroes,
            _ => Op::Write,
        };
        let range = (place * grain, length);
        let mut request = Request::new(id, ObjectId(file), op, range, sim.now);
        request.fua = op == Op::Write && rng.chance_ppm(80_000);
        Ask::Request(request)
    }

    fn draw_preload(&self, id: RequestId) -> Batch {
        let long = |key: u64| ObjectOp::SetAttribute {
            object: VOLUME,
            key: (self.preload * 4 + key).to_le_bytes().into(),
            value: vec![key as u8; 900].into(),
        };
        let ops = (0..4).map(long).chain([self.number()]).collect();
        Batch { id, ops, durable: false }
    }

    /// Gives the batch that comes next its number.
    fn number(&self) -> ObjectOp {
        let (object, value) = (VOLUME, (self.newest() + 1).to_le_bytes().into());
        ObjectOp::SetAttribute { object, key: NUMBER.into(), value }
    }

    /// A clone of a file under a new id, of a part of one over a part of another one, or a snapshot.
    fn draw_clone(&mut self, rng: &mut Rng) -> Vec<ObjectOp> {
        let state = self.now();
        let blocks = |id: u64| state[&id].size_bytes.div_ceil(BLOCK_BYTES);
        let files: Vec<u64> = state.keys().copied().filter(|&id| id != VOLUME.0).collect();
        let snapshots: Vec<u64> =
            files.iter().copied().filter(|id| state[id].is_snapshot).collect();
        let thin = files.iter().copied().filter(|&id| !state[&id].is_snapshot && blocks(id) > 0);
        let thin: Vec<u64> = thin.collect();
        let has_room = files.len() < FILES_MAX;
        let pick = |rng: &mut Rng, of: &[u64]| of[rng.below(of.len() as u64) as usize];
        if has_room && snapshots.len() < 3 && (thin.is_empty() || rng.chance_ppm(300_000)) {
            self.next_id += 1;
            let to = ObjectId(self.next_id);
            let of_snapshot = !snapshots.is_empty() && rng.chance_ppm(250_000);
            let from = ObjectId(if of_snapshot { pick(rng, &snapshots) } else { VOLUME.0 });
            return vec![ObjectOp::Snapshot { from, to, name: format!("snapshot {}", to.0) }];
        }
        if thin.is_empty() {
            return Vec::new();
        }
        let from = pick(rng, &thin);
        let (size_bytes, all) = (state[&from].size_bytes, blocks(from));
        if has_room && rng.chance_ppm(600_000) {
            let made = self.create(rng);
            let (from, to) = (ObjectId(from), made.object());
            let size = ObjectOp::Resize { object: to, size_bytes };
            let share = ObjectOp::Share { from, from_block: 0, to, to_block: 0, blocks: all };
            return vec![made, size, share];
        }
        let to = pick(rng, &thin);
        let count = rng.between(1, all.min(blocks(to)).min(20));
        let from_block = rng.below(all - count + 1);
        let to_block = rng.below(blocks(to) - count + 1);
        if from == to && from_block.abs_diff(to_block) < count {
            return Vec::new();
        }
        let (from, to) = (ObjectId(from), ObjectId(to));
        vec![ObjectOp::Share { from, from_block, to, to_block, blocks: count }]
    }

    fn draw_batch(&mut self, id: RequestId, rng: &mut Rng) -> Batch {
        if self.clones && rng.chance_ppm(400_000) {
            let mut ops = self.draw_clone(rng);
            if !ops.is_empty() {
                ops.push(self.number());
                return Batch { id, ops, durable: rng.chance_ppm(300_000) };
            }
        }
        let mut state = self.now().clone();
        let mut ops = Vec::new();
        for _ in 0..rng.between(1, 4) {
            let files: Vec<u64> = state.keys().copied().filter(|&id| id != VOLUME.0).collect();
            let pick = |rng: &mut Rng| ObjectId(files[rng.below(files.len() as u64) as usize]);
            let roll = rng.below(if files.is_empty() { 2 } else { 10 });
            let op = match roll {
                0 | 1 if files.len() < FILES_MAX => self.create(rng),
                0..=2 if !files.is_empty() => ObjectOp::Remove { object: pick(rng) },
                3..=6 => {
                    let object = pick(rng);
                    if state[&object.0].is_snapshot {
                        continue;
                    }
                    ObjectOp::Resize {
                        object,
                        size_bytes: resized(state[&object.0].size_bytes, rng),
                    }
                }
                7 => {
                    let object = pick(rng);
                    let mut keys = state[&object.0].attributes.keys();
                    let Some(key) = keys.next() else { continue };
                    ObjectOp::RemoveAttribute { object, key: key[..].into() }
                }
                _ if files.is_empty() => self.create(rng),
                _ => match self.draw_tier(rng) {
                    Some(value) => {
                        ObjectOp::SetAttribute { object: pick(rng), key: TIER_KEY.into(), value }
                    }
                    None => set(pick(rng), rng),
                },
            };
            assert!(apply(&mut state, &op), "{op:?} can be done");
            ops.push(op);
        }
        ops.push(self.number());
        Batch { id, ops, durable: rng.chance_ppm(300_000) }
    }

    /// The tier that a file gets; at times one that there is not.
    fn draw_tier(&self, rng: &mut Rng) -> Option<Box<[u8]>> {
        if self.tiers.is_empty() || rng.chance_ppm(200_000) {
            return None;
        }
        let name = self.tiers.get(rng.below(self.tiers.len() as u64 + 1) as usize);
        Some(name.unwrap_or(&"lukewarm").as_bytes().into())
    }

    fn create(&mut self, rng: &mut Rng) -> ObjectOp {
        self.next_id += 1;
        let kind = [ObjectKind::Data, ObjectKind::Directory][rng.below(2) as usize];
        let object = ObjectId(self.next_id);
        ObjectOp::CreateThin { object, kind, volume: VOLUME, owner: rng.below(5) }
    }

    /// Is this the batch that is not answered yet?
    pub fn is_batch(&self, id: RequestId) -> bool {
        self.pending.as_ref().is_some_and(|(batch, _)| batch.id == id)
    }

    /// A batch is handed in.
    pub fn batch_issued(&mut self, batch: &Batch, volume: &Oracle) {
        for from in batch.ops.iter().filter_map(ObjectOp::shared_from) {
            let contents = if from == VOLUME { Some(volume) } else { self.contents.get(&from.0) };
            let answered = contents.map(Oracle::answered).unwrap_or_default();
            self.before.insert(from.0, answered.into_iter().collect());
        }
        let mut after = self.now().clone();
        for op in &batch.ops {
            assert!(apply(&mut after, op), "only possible batches are drawn");
        }
        self.pending = Some((batch.clone(), after));
    }

    /// A request is handed in, for a file or a FLUSH.
    pub fn issued(&mut self, request: &Request) {
        if request.op == Op::Flush {
            self.flushes.insert(request.id, self.newest());
            self.contents.values_mut().for_each(|oracle| oracle.issued(request));
        } else {
            self.open.insert(request.id, request.object);
            self.contents.entry(request.object.0).or_default().issued(request);
        }
    }

    /// A batch is answered.
    pub fn batch_done(
        &mut self,
        status: Result<(), IoError>,
        engine: &Engine,
        volume: &mut Oracle,
    ) -> Result<(), Violation> {
        let (batch, after) = self.pending.take().expect("it was handed in");
        let before = std::mem::take(&mut self.before);
        let in_use = |object: &u64| self.open.values().any(|open| open.0 == *object);
        match status {
            Ok(()) => {}
            Err(IoError::Busy) if touched(&batch).iter().any(in_use) => {
                return Ok(());
            }
            // what was cloned lies in too many pieces for one unit of this small journal
            Err(IoError::TooLarge) if batch.ops.iter().any(|op| op.shared_from().is_some()) => {
                return Ok(());
            }
            Err(error) => return Err(Violation::Failed { request: batch.id, error }),
        }
        self.states.push(after);
        let number = self.newest();
        if state_of(engine) != *self.now() {
            return Err(objects(format!("after batch {number}: {:?}", state_of(engine))));
        }
        self.cut_contents(&batch, number);
        // others may have written since, where the batch is answered later than it is carried out
        let before = if batch.durable { Some(&before) } else { None };
        self.clone_contents(&batch, number, before, volume);
        if batch.durable {
            self.durable(number);
        }
        Ok(())
    }

    /// Notes what a batch of this number gives to objects. `before`: what had been answered before it,
    /// unless nothing else can have been written since it was carried out.
    fn clone_contents(
        &mut self,
        batch: &Batch,
        number: u64,
        before: Option<&BTreeMap<u64, BTreeMap<u64, usize>>>,
        volume: &mut Oracle,
    ) {
        for op in &batch.ops {
            let Some(from) = op.shared_from() else { continue };
            let source = match from == VOLUME {
                true => volume.clone(),
                false => self.contents.entry(from.0).or_default().clone(),
            };
            let (first, at, blocks) = match op {
                ObjectOp::Share { from_block, to_block, blocks, .. } => {
                    (*from_block, *to_block, *blocks)
                }
                _ => (0, 0, source.touched().last().map_or(0, |last| last + 1)),
            };
            let known = before.map(|before| &before[&from.0]);
            let low = |block| known.map(|known| known.get(&block).copied().unwrap_or_default());
            let shown = (first..first + blocks).map(|at| source.shown_by_clone(at, low(at)));
            let shown: Vec<Vec<BlockState>> = shown.collect();
            let target = self.contents.entry(op.object().0).or_default();
            for (block, states) in (at..).zip(shown) {
                target.became(block, states, number);
            }
            // it was all made durable first, so that the clone shows one moment after a crash, too
            let Some(known) = known else { continue };
            let answered: Vec<(u64, usize)> = known.iter().map(|(&b, &v)| (b, v)).collect();
            match from == VOLUME {
                true => volume.expect_durable(&answered),
                false => self.contents.entry(from.0).or_default().expect_durable(&answered),
            }
        }
    }

    /// Notes what a batch of this number cuts off of files, in its order: one may be cut and grow again.
    fn cut_contents(&mut self, batch: &Batch, number: u64) {
        for op in &batch.ops {
            let blocks = match op {
                ObjectOp::Resize { size_bytes, .. } => size_bytes.div_ceil(BLOCK_BYTES),
                // a crash may bring it back as it was before
                ObjectOp::Remove { .. } => 0,
                _ => continue,
            };
            self.contents.entry(op.object().0).or_default().truncated(blocks, number);
        }
    }

    /// Batches up to this one can no longer be lost.
    fn durable(&mut self, number: u64) {
        if number > self.first {
            self.states.drain(..(number - self.first) as usize);
            self.first = number;
        }
    }

    /// A request is answered.
    pub fn done(
        &mut self,
        request: &Request,
        status: Result<(), IoError>,
        tokens: &[u64],
        engine: &Engine,
    ) -> Result<(), Violation> {
        if request.op == Op::Flush {
            if let Some(number) = self.flushes.remove(&request.id)
                && status.is_ok()
            {
                self.durable(number);
            }
            let mut oracles = self.contents.values_mut();
            return oracles.try_for_each(|oracle| oracle.done(request, status, &[], true));
        }
        self.open.remove(&request.id);
        // the pool is over-committed: that is refused, and nothing else
        let fails = is_full(request, status, engine) && (self.clones || request.op == Op::Write);
        let oracle = self.contents.entry(request.object.0).or_default();
        oracle.done(request, status, tokens, fails)
    }

    /// The power failed, or the process died.
    pub fn crashed(&mut self) {
        self.open.clear();
        self.flushes.clear();
        self.contents.values_mut().for_each(Oracle::crashed);
    }

    /// The engine serves again: are the objects those of one moment, and not too old?
    pub fn found(&mut self, engine: &Engine, volume: &mut Oracle) -> Result<u64, Violation> {
        if let Some((batch, after)) = self.pending.take() {
            // it may be there although it was not answered
            self.states.push(after);
            self.cut_contents(&batch, self.newest());
            let before = std::mem::take(&mut self.before);
            if number_of(&state_of(engine)) == self.newest() {
                self.clone_contents(&batch, self.newest(), Some(&before), volume);
            }
        }
        let found = state_of(engine);
        let number = number_of(&found);
        let expected = number.checked_sub(self.first).and_then(|at| self.states.get(at as usize));
        if expected != Some(&found) {
            let (first, last) = (self.first, self.newest());
            return Err(objects(format!(
                "objects after a crash are not those of batch {number}, of {first} to {last} possible: \
                 found {found:?}, expected {expected:?}"
            )));
        }
        let (all, free, others) = engine.space_blocks();
        if all != free + others {
            return Err(objects(format!("of {all} blocks {free} are free and {others} in use")));
        }
        self.states = vec![found];
        self.first = number;
        self.contents.retain(|id, _| self.states[0].contains_key(id));
        Ok(number)
    }

    /// Every block of every file, as it is read after a crash that left batches up to this number.
    pub fn check_contents(&mut self, sim: &mut Simulation, batches: u64) -> Result<(), Violation> {
        let files: Vec<(u64, u64)> =
            self.now().iter().map(|(&id, file)| (id, file.size_bytes)).collect();
        for (file, size_bytes) in files {
            if file == VOLUME.0 {
                continue;
            }
            let mut blocks = size_bytes.div_ceil(BLOCK_BYTES);
            let is_snapshot = self.now()[&file].is_snapshot;
            let oracle = self.contents.entry(file).or_default();
            oracle.ends_at(blocks);
            if is_snapshot {
                // of the volume: what was read of it, or written
                blocks = oracle.touched().last().map_or(1, |last| last + 1);
            }
            if blocks == 0 {
                continue;
            }
            let id = RequestId(1 << 44 | file);
            let range = (0, blocks * BLOCK_BYTES);
            sim.request(&Request::new(id, ObjectId(file), Op::Read, range, sim.now));
            let tokens = wait(sim, id)?;
            for (block, found) in (0..blocks).zip(in_blocks(&tokens, blocks)) {
                let found: BlockState = found.try_into().expect("a block has eight sectors");
                oracle.found_with_batches(block, found, batches).map_err(|violation| {
                    objects(format!("file {file}, with {batches} batches: {violation}"))
                })?;
            }
        }
        Ok(())
    }
}

fn wait(sim: &mut Simulation, id: RequestId) -> Result<Vec<u64>, Violation> {
    loop {
        for (done, tokens) in sim.take_said().done {
            if done.request == id {
                let failed = |error| Violation::Failed { request: id, error };
                return done.status.map(|()| tokens).map_err(failed);
            }
        }
        assert!(sim.step(), "a read never hangs");
    }
}

/// Was it refused because the pool is over-committed?
pub(crate) fn is_full(request: &Request, status: Result<(), IoError>, engine: &Engine) -> bool {
    let (_, free_bytes) = engine.space_bytes();
    status == Err(IoError::NoSpace)
        && free_bytes < request.length_bytes + 2 * BLOCK_BYTES
        && request.op.is_write()
}

/// Tokens of a write to a file: they tell the request.
/// What a read of so many blocks found, block by block. Behind them its buffer may have more of an extent,
/// of which others may have a part.
pub(crate) fn in_blocks(tokens: &[u64], blocks: u64) -> impl Iterator<Item = &[u64]> {
    assert!(tokens.len() as u64 >= blocks * SECTORS_PER_BLOCK, "a read finds all blocks");
    tokens.chunks_exact(SECTORS_PER_BLOCK as usize)
}

pub(crate) fn tokens(request: &Request) -> impl Iterator<Item = u64> + use<> {
    let number = request.id.0;
    (0..request.length_bytes / SECTOR_BYTES).map(move |i| token(number, i))
}

fn touched(batch: &Batch) -> BTreeSet<u64> {
    batch.ops.iter().map(|op| op.object().0).collect()
}

/// A file grows a little, shrinks, or becomes sparse.
fn resized(size_bytes: u64, rng: &mut Rng) -> u64 {
    let blocks = size_bytes.div_ceil(BLOCK_BYTES);
    match rng.below(8) {
        0 => 0,
        1 | 2 => rng.below(size_bytes + 1),
        3 => (blocks + rng.below(BLOCKS_MAX)).min(BLOCKS_MAX) * BLOCK_BYTES,
        _ => (blocks + rng.between(1, 24)).min(BLOCKS_MAX) * BLOCK_BYTES - rng.below(2) * 100,
    }
}

fn set(object: ObjectId, rng: &mut Rng) -> ObjectOp {
    let key = [b'k', rng.below(6) as u8].into();
    let length = if rng.chance_ppm(50_000) { 900 } else { rng.below(60) };
    let value = (0..length).map(|_| rng.below(256) as u8).collect();
    ObjectOp::SetAttribute { object, key, value }
}

/// What must be, in the plainest way.
fn apply(state: &mut State, op: &ObjectOp) -> bool {
    let file = state.get_mut(&op.object().0);
    match (op, file) {
        (ObjectOp::CreateThin { object, owner, .. }, None) => {
            state.insert(object.0, File { owner: *owner, ..File::default() });
            true
        }
        (ObjectOp::Snapshot { from, to, .. }, None) => {
            let Some(of) = state.get(&from.0) else { return false };
            let size_bytes = of.size_bytes;
            state.insert(to.0, File { size_bytes, is_snapshot: true, ..File::default() });
            true
        }
        (ObjectOp::Share { from, .. }, Some(_)) => state.contains_key(&from.0),
        (ObjectOp::Remove { object }, Some(_)) => state.remove(&object.0).is_some(),
        (ObjectOp::Resize { size_bytes, .. }, Some(file)) => {
            file.size_bytes = *size_bytes;
            true
        }
        (ObjectOp::SetAttribute { key, value, .. }, Some(file)) => {
            file.attributes.insert(key.to_vec(), value.to_vec());
            true
        }
        (ObjectOp::RemoveAttribute { key, .. }, Some(file)) => {
            file.attributes.remove(&**key).is_some()
        }
        _ => false,
    }
}

/// Objects as the engine shows them.
fn state_of(engine: &Engine) -> State {
    let file = |(id, object): (ObjectId, &tandem_engine::map::objects::Object)| {
        let attributes = engine.attributes_from(id, &[]);
        let attributes = attributes.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        let (size_bytes, owner) = (object.size_bytes, object.owner);
        (id.0, File { size_bytes, owner, is_snapshot: object.is_snapshot, attributes })
    };
    engine.objects().iter().map(file).collect()
}

fn number_of(state: &State) -> u64 {
    let value = state.get(&VOLUME.0).and_then(|volume| volume.attributes.get(NUMBER));
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("eight bytes")))
}
