//! How do names stand on the engine in virtual time, and what is mounted after a power cut?

use super::plain::{self, Below, View, look_at_names, look_below};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use tandem_block::{Batch, IoError, ObjectId, Op, Request, RequestId, Rng, SECTOR_BYTES};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;
use tandem_names::{
    Caller, Change, NameError, Objects, SetAttributes, Space, Strip, Tree, check, cover, mode,
};
use tandem_sim::Simulation;
use tandem_sim::swarm::{SwarmConfig, VOLUME};

pub const ROOT: ObjectId = VOLUME;
pub const ROOT_MODE: u32 = mode::DIRECTORY | 0o755;
const SECTOR: usize = SECTOR_BYTES as usize;

/// The engine's objects as names see them.
pub struct On<'a> {
    pub engine: &'a Engine,
    pub next_id: &'a Cell<u64>,
}

impl Objects for On<'_> {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.engine.object(object).map(|known| known.size_bytes)
    }
    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.engine.attribute(object, key)
    }
    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        self.engine.attribute_after(object, after)
    }
    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        self.engine.object_after(after)
    }
    fn fresh_ids(&self, count: u64) -> ObjectId {
        ObjectId(self.next_id.replace(self.next_id.get() + count))
    }
    fn space(&self) -> Space {
        let (total_bytes, free_bytes) = self.engine.space_bytes();
        Space { total_bytes, free_bytes, objects: 0, free_objects: 1000 }
    }
}

/// Sectors of bytes as tokens of the virtual simulation, and back.
#[derive(Default)]
pub struct Sectors {
    tokens: HashMap<Vec<u8>, u64>,
    bytes: Vec<Vec<u8>>,
}

impl Sectors {
    fn token(&mut self, bytes: &[u8]) -> u64 {
        if bytes.iter().all(|byte| *byte == 0) {
            return 0;
        }
        if let Some(token) = self.tokens.get(bytes) {
            return *token;
        }
        self.bytes.push(bytes.to_vec());
        let token = self.bytes.len() as u64;
        self.tokens.insert(bytes.to_vec(), token);
        token
    }

    fn bytes(&self, token: u64) -> Vec<u8> {
        match token {
            0 => vec![0; SECTOR],
            token => self.bytes[token as usize - 1].clone(),
        }
    }
}

/// Called after every event while something is waited for.
pub type Hook<'a> = &'a mut dyn FnMut(&Fs);

/// A mounted volume over an engine. A clone is a fork.
#[derive(Clone)]
pub struct Fs {
    pub config: SwarmConfig,
    pub sim: Simulation,
    pub tree: Tree,
    pub next_id: Cell<u64>,
    pub requests: u64,
    pub sectors: Rc<RefCell<Sectors>>,
}

impl Fs {
    /// A fresh pool, its volume formatted and mounted.
    pub fn new(config: &SwarmConfig) -> Fs {
        let engine = Engine::new(config.engine(true)).expect("valid");
        let mut sim = Simulation::new(engine, config.drives(), true);
        sim.start().expect("a pool");
        let owner = Caller { uid: 0, gid: 0, now_ns: 0 };
        let format = Tree::format(ROOT, ROOT_MODE, &owner);
        let batch = batch_of(format, RequestId(1), true);
        sim.batch(&batch);
        wait(&mut sim, batch.id).expect("it fits");
        Fs::mount(config, sim, Rc::default(), 1)
    }

    fn mount(
        config: &SwarmConfig,
        sim: Simulation,
        sectors: Rc<RefCell<Sectors>>,
        requests: u64,
    ) -> Fs {
        let ids = sim.engine.objects().iter().map(|(id, _)| id.0 + 1).max();
        let next_id = Cell::new(ids.unwrap_or(1).max(100));
        let on = On { engine: &sim.engine, next_id: &next_id };
        let (tree, changes) = Tree::mount(&on, ROOT, plain::TIERS).expect("it can be mounted");
        let mut fs = Fs { config: config.clone(), sim, tree, next_id, requests, sectors };
        fs.commit(changes, true, &mut |_| {}).expect("nothing is made");
        loop {
            let changes = fs.tree.reap(&fs.on(), 3).expect("orphans are sound");
            if changes.is_empty() {
                break;
            }
            fs.commit(changes, false, &mut |_| {}).expect("nothing is made");
        }
        fs.clear_deleted(&mut |_| {});
        fs
    }

    /// Gives back what deleted snapshots hold.
    pub fn clear_deleted(&mut self, hook: Hook<'_>) {
        loop {
            let changes = self.tree.clear_deleted(&self.on(), 3, None).expect("they are sound");
            if changes.is_empty() {
                return;
            }
            self.commit(changes, false, hook).expect("nothing is made");
        }
    }

    /// Takes a snapshot, durably. How many batches that took.
    pub fn snapshot(&mut self, name: &[u8], hook: Hook<'_>) -> Result<u64, NameError> {
        let mut it = self.tree.begin_snapshot(&self.on(), name, 1)?;
        let mut batches = 0;
        while !it.is_done() {
            let changes = it.plan(&self.tree, &self.on())?;
            match self.try_commit(changes, false, hook) {
                Ok(()) => it.applied(),
                Err(IoError::TooLarge) => assert!(it.was_too_large(), "one block fits"),
                Err(error) => panic!("a step of a snapshot is refused: {error}"),
            }
            batches += 1;
        }
        self.flush(hook);
        Ok(batches)
    }

    /// What each snapshot shows.
    pub fn snapshots(&mut self) -> BTreeMap<Vec<u8>, Below> {
        let list = self.tree.snapshot_list(&self.on()).expect("they are sound");
        list.into_iter().map(|(name, top)| (name, self.below(top))).collect()
    }

    /// All below a directory.
    pub fn below(&mut self, top: ObjectId) -> Below {
        let (mut below, files) = look_below(&self.tree, &self.on(), top);
        for (path, file) in files {
            below.get_mut(&path).expect("just found").bytes = self.read(file);
        }
        below
    }

    pub fn on(&self) -> On<'_> {
        On { engine: &self.sim.engine, next_id: &self.next_id }
    }

    fn number(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Runs the simulation until this is answered.
    fn wait(&mut self, id: RequestId, hook: Hook<'_>) -> Result<Vec<u64>, IoError> {
        loop {
            if let Some((done, tokens)) = self.sim.take_said().done.pop() {
                assert_eq!(done.request, id, "one thing at a time");
                return done.status.map(|()| tokens);
            }
            hook(self);
            assert!(self.sim.step(), "a request never hangs");
        }
    }

    pub fn commit(
        &mut self,
        changes: Vec<Change>,
        durable: bool,
        hook: Hook<'_>,
    ) -> Result<(), NameError> {
        self.try_commit(changes, durable, hook).map_err(|error| match error {
            IoError::NoSpace => NameError::NoSpace,
            error => panic!("a batch of names is refused: {error}"),
        })
    }

    fn try_commit(
        &mut self,
        changes: Vec<Change>,
        durable: bool,
        hook: Hook<'_>,
    ) -> Result<(), IoError> {
        if changes.is_empty() {
            return Ok(());
        }
        let batch = batch_of(changes, self.number(), durable);
        self.sim.batch(&batch);
        self.wait(batch.id, hook)?;
        hook(self);
        Ok(())
    }

    fn ask(&mut self, object: ObjectId, op: Op, range: (u64, u64)) -> Request {
        let id = self.number();
        Request::new(id, object, op, range, self.sim.now)
    }

    pub fn flush(&mut self, hook: Hook<'_>) {
        let request = self.ask(ROOT, Op::Flush, (0, 0));
        self.sim.request(&request);
        self.wait(request.id, hook).expect("no faults");
    }

    fn read_sectors(&mut self, object: ObjectId, offset: u64, length: u64) -> Vec<u8> {
        let request = self.ask(object, Op::Read, (offset, length));
        self.sim.request(&request);
        let tokens = self.wait(request.id, &mut |_| {}).expect("no faults");
        let sectors = self.sectors.borrow();
        let count = (length / SECTOR_BYTES) as usize;
        tokens[..count].iter().flat_map(|token| sectors.bytes(*token)).collect()
    }

    pub fn read(&mut self, file: ObjectId) -> Vec<u8> {
        let range = self.tree.range(&self.on(), file, 0, u64::MAX / 2).expect("it is a file");
        if range.length_bytes == 0 {
            return Vec::new();
        }
        let whole = cover(0, range.length_bytes);
        let mut bytes = self.read_sectors(file, 0, whole.length_bytes);
        bytes.truncate(range.length_bytes as usize);
        bytes
    }

    /// Bytes at any place, with the rest of their sectors.
    fn put(&mut self, object: ObjectId, offset: u64, bytes: &[u8], hook: Hook<'_>) {
        let whole = cover(offset, bytes.len() as u64);
        let mut sectors = vec![0; whole.length_bytes as usize];
        for part in whole.parts.into_iter().flatten() {
            let at = (part - whole.offset_bytes) as usize;
            sectors[at..at + SECTOR].copy_from_slice(&self.read_sectors(
                object,
                part,
                SECTOR_BYTES,
            ));
        }
        let skip = (offset - whole.offset_bytes) as usize;
        sectors[skip..skip + bytes.len()].copy_from_slice(bytes);
        let mut request = self.ask(object, Op::Write, (whole.offset_bytes, whole.length_bytes));
        let known = Rc::clone(&self.sectors);
        let tokens: Vec<u64> =
            sectors.chunks_exact(SECTOR).map(|sector| known.borrow_mut().token(sector)).collect();
        request.payload = self.sim.payload(tokens.into_iter());
        self.sim.request(&request);
        self.wait(request.id, hook).expect("there is space, and no faults");
        hook(self);
    }

    fn clean(&mut self, file: ObjectId, end: u64, hook: Hook<'_>) -> Result<(), NameError> {
        let Some(tail) = self.tree.stale_tail(&self.on(), file, end)? else { return Ok(()) };
        if tail.from_bytes < tail.to_bytes {
            let zeroes = vec![0; (tail.to_bytes - tail.from_bytes) as usize];
            self.put(file, tail.from_bytes, &zeroes, hook);
            self.flush(hook);
        }
        let changes = self.tree.tail_is_zero(&self.on(), file)?;
        self.commit(changes, false, hook)
    }

    pub fn write(
        &mut self,
        file: ObjectId,
        (offset, bytes): (u64, &[u8]),
        now_ns: i64,
        hook: Hook<'_>,
    ) -> Result<(), NameError> {
        let end = offset + bytes.len() as u64;
        self.clean(file, end, hook)?;
        let changes = self.tree.make_room(&self.on(), file, end)?;
        self.commit(changes, false, hook)?;
        self.put(file, offset, bytes, hook);
        let changes = self.tree.written(&self.on(), file, end, Strip::Nothing, now_ns)?;
        self.commit(changes, false, hook)
    }

    pub fn set(
        &mut self,
        object: ObjectId,
        set: &SetAttributes,
        now_ns: i64,
        hook: Hook<'_>,
    ) -> Result<(), NameError> {
        if let Some(size_bytes) = set.size_bytes {
            self.clean(object, size_bytes, hook)?;
        }
        let changes = self.tree.set_attributes(&self.on(), object, set, now_ns)?;
        self.commit(changes, false, hook)
    }

    pub fn look(&mut self) -> View {
        let mut view = look_at_names(&self.tree, &self.on());
        for (file, bytes) in &mut view.contents {
            *bytes = self.read(*file);
            assert_eq!(bytes.len() as u64, view.nodes[file].size);
        }
        view
    }

    pub fn assert_sound(&self) {
        let mut faults = Vec::new();
        check::check(&self.on(), ROOT, &mut |fault| faults.push(fault));
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// What is mounted after a power cut now.
    pub fn cut(&self, cut: CutMode, rng: &mut Rng) -> Fs {
        let mut sim = self.sim.clone();
        sim.power_cut(self.config.engine(false), cut, rng);
        let seed = self.config.seed;
        sim.start().unwrap_or_else(|error| panic!("seed {seed}: recovery refused: {error}"));
        let fs = Fs::mount(&self.config, sim, Rc::clone(&self.sectors), self.requests);
        fs.assert_sound();
        fs
    }

    /// Unmounted, stopped and started again, all as it should be.
    pub fn restart(mut self) -> Fs {
        let changes = self.tree.clone().unmount();
        self.commit(changes, true, &mut |_| {}).expect("nothing is made");
        self.sim.shut_down();
        while !self.sim.take_said().stopped {
            assert!(self.sim.step(), "a stop never hangs");
        }
        let (seed, mode) = (self.config.seed, CutMode::DropAll);
        self.sim.power_cut(self.config.engine(false), mode, &mut Rng::new(seed));
        self.sim.start().expect("it was stopped cleanly");
        Fs::mount(&self.config, self.sim, self.sectors, self.requests)
    }
}

fn batch_of(changes: Vec<Change>, id: RequestId, durable: bool) -> Batch {
    Batch { id, ops: changes.into_iter().map(Change::into_op).collect(), durable }
}

fn wait(sim: &mut Simulation, id: RequestId) -> Result<(), IoError> {
    loop {
        if let Some((done, _)) = sim.take_said().done.iter().find(|(done, _)| done.request == id) {
            return done.status;
        }
        assert!(sim.step(), "a request never hangs");
    }
}
