//! Does a file system over the engine survive a power cut at any event?
//!
//! Source: issue of tiers and caches ("its names and directories a pure crate over the object interface and
//! `Batch`, so that the simulator cuts power under it too"). Random operations of names run over the real
//! engine in virtual time, as the server does them, beside the plain file system of the names' own tests.
//! At many events the power is cut in a fork: what is mounted then must be sound and a state that the file
//! system was in, not older than the last fsync; bytes must be such as were there since; and files that grow
//! must grow over zeroes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails, also the oracle's part of it")]

#[path = "../../names/tests/support/mod.rs"]
mod plain;

use plain::{Plain, View, look_at_names, may_be};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use tandem_block::{
    Batch, Duration, IoError, KIB, MIB, ObjectId, Op, Request, RequestId, Rng, SECTOR_BYTES,
};
use tandem_drives::media::CutMode;
use tandem_engine::Engine;
use tandem_names::{
    Caller, Change, NameError, New, Objects, SetAttributes, SetMode, Space, Strip, Tree, check,
    cover, mode,
};
use tandem_sim::World;
use tandem_sim::campaign::MODES;
use tandem_sim::swarm::{SwarmConfig, VOLUME};

const ROOT: ObjectId = VOLUME;
const ROOT_MODE: u32 = mode::DIRECTORY | 0o755;
const OBJECTS_MAX: usize = 14;
const TICK_NS: i64 = 4_000_000;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Steps of a run, and runs of each kind of pool.
const STEPS: u64 = 80;
const SEEDS: u64 = 20;

/// The engine's objects as names see them.
struct On<'a> {
    engine: &'a Engine,
    next_id: &'a Cell<u64>,
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
    fn fresh_id(&self) -> ObjectId {
        ObjectId(self.next_id.replace(self.next_id.get() + 1))
    }
    fn space(&self) -> Space {
        let (total_bytes, free_bytes) = self.engine.space_bytes();
        Space { total_bytes, free_bytes, objects: 0, free_objects: 1000 }
    }
}

/// Sectors of bytes as tokens of the virtual world, and back.
#[derive(Default)]
struct Sectors {
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
type Hook<'a> = &'a mut dyn FnMut(&Fs);

/// A mounted volume over an engine. A clone is a fork.
#[derive(Clone)]
struct Fs {
    config: SwarmConfig,
    world: World,
    tree: Tree,
    next_id: Cell<u64>,
    requests: u64,
    sectors: Rc<RefCell<Sectors>>,
}

impl Fs {
    /// A fresh pool, its volume formatted and mounted.
    fn new(config: &SwarmConfig) -> Fs {
        let engine = Engine::new(config.engine(true)).expect("valid");
        let mut world = World::new(engine, config.drives(), true);
        world.start().expect("a pool");
        let owner = Caller { uid: 0, gid: 0, now_ns: 0 };
        let format = Tree::format(ROOT, ROOT_MODE, &owner);
        let batch = batch_of(format, RequestId(1), true);
        world.batch(&batch);
        wait(&mut world, batch.id).expect("it fits");
        Fs::mount(config, world, Rc::default(), 1)
    }

    fn mount(
        config: &SwarmConfig,
        world: World,
        sectors: Rc<RefCell<Sectors>>,
        requests: u64,
    ) -> Fs {
        let ids = world.engine.objects().iter().map(|(id, _)| id.0 + 1).max();
        let next_id = Cell::new(ids.unwrap_or(1).max(100));
        let on = On { engine: &world.engine, next_id: &next_id };
        let (tree, changes) = Tree::mount(&on, ROOT, plain::TIERS).expect("it can be mounted");
        let mut fs = Fs { config: config.clone(), world, tree, next_id, requests, sectors };
        fs.commit(changes, true, &mut |_| {}).expect("nothing is made");
        loop {
            let changes = fs.tree.reap(&fs.on(), 3).expect("orphans are sound");
            if changes.is_empty() {
                return fs;
            }
            fs.commit(changes, false, &mut |_| {}).expect("nothing is made");
        }
    }

    fn on(&self) -> On<'_> {
        On { engine: &self.world.engine, next_id: &self.next_id }
    }

    fn number(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Runs the world until this is answered.
    fn wait(&mut self, id: RequestId, hook: Hook<'_>) -> Result<Vec<u64>, IoError> {
        loop {
            if let Some((done, tokens)) = self.world.take_said().done.pop() {
                assert_eq!(done.request, id, "one thing at a time");
                return done.status.map(|()| tokens);
            }
            hook(self);
            assert!(self.world.step(), "a request never hangs");
        }
    }

    fn commit(
        &mut self,
        changes: Vec<Change>,
        durable: bool,
        hook: Hook<'_>,
    ) -> Result<(), NameError> {
        if changes.is_empty() {
            return Ok(());
        }
        let batch = batch_of(changes, self.number(), durable);
        self.world.batch(&batch);
        self.wait(batch.id, hook).map_err(|error| match error {
            IoError::NoSpace => NameError::NoSpace,
            error => panic!("a batch of names is refused: {error}"),
        })?;
        hook(self);
        Ok(())
    }

    fn ask(&mut self, object: ObjectId, op: Op, range: (u64, u64)) -> Request {
        let id = self.number();
        Request::new(id, object, op, range, self.world.now)
    }

    fn flush(&mut self, hook: Hook<'_>) {
        let request = self.ask(ROOT, Op::Flush, (0, 0));
        self.world.request(&request);
        self.wait(request.id, hook).expect("no faults");
    }

    fn read_sectors(&mut self, object: ObjectId, offset: u64, length: u64) -> Vec<u8> {
        let request = self.ask(object, Op::Read, (offset, length));
        self.world.request(&request);
        let tokens = self.wait(request.id, &mut |_| {}).expect("no faults");
        let sectors = self.sectors.borrow();
        let count = (length / SECTOR_BYTES) as usize;
        tokens[..count].iter().flat_map(|token| sectors.bytes(*token)).collect()
    }

    fn read(&mut self, file: ObjectId) -> Vec<u8> {
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
        request.payload = self.world.payload(tokens.into_iter());
        self.world.request(&request);
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

    fn write(
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

    fn set(
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

    fn look(&mut self) -> View {
        let mut view = look_at_names(&self.tree, &self.on());
        for (file, bytes) in &mut view.contents {
            *bytes = self.read(*file);
            assert_eq!(bytes.len() as u64, view.nodes[file].size);
        }
        view
    }

    fn assert_sound(&self) {
        let mut faults = Vec::new();
        check::check(&self.on(), ROOT, &mut |fault| faults.push(fault));
        assert!(faults.is_empty(), "{faults:?}");
    }

    /// What is mounted after a power cut now.
    fn cut(&self, cut: CutMode, rng: &mut Rng) -> Fs {
        let mut world = self.world.clone();
        world.power_cut(self.config.engine(false), cut, rng);
        let seed = self.config.seed;
        world.start().unwrap_or_else(|error| panic!("seed {seed}: recovery refused: {error}"));
        let fs = Fs::mount(&self.config, world, Rc::clone(&self.sectors), self.requests);
        fs.assert_sound();
        fs
    }

    /// Unmounted, stopped and started again, all as it should be.
    fn restart(mut self) -> Fs {
        let changes = self.tree.clone().unmount();
        self.commit(changes, true, &mut |_| {}).expect("nothing is made");
        self.world.shut_down();
        while !self.world.take_said().stopped {
            assert!(self.world.step(), "a stop never hangs");
        }
        let (seed, mode) = (self.config.seed, CutMode::DropAll);
        self.world.power_cut(self.config.engine(false), mode, &mut Rng::new(seed));
        self.world.start().expect("it was stopped cleanly");
        Fs::mount(&self.config, self.world, self.sectors, self.requests)
    }
}

fn batch_of(changes: Vec<Change>, id: RequestId, durable: bool) -> Batch {
    Batch { id, ops: changes.into_iter().map(Change::into_op).collect(), durable }
}

fn wait(world: &mut World, id: RequestId) -> Result<(), IoError> {
    loop {
        if let Some((done, _)) = world.take_said().done.iter().find(|(done, _)| done.request == id)
        {
            return done.status;
        }
        assert!(world.step(), "a request never hangs");
    }
}

/// What was met.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    steps: u64,
    refused: u64,
    cuts: u64,
    /// Cuts that left something older than what was seen.
    older: u64,
    restarts: u64,
    crashes: u64,
    checkpoints: u64,
    commits: u64,
    redirected: u64,
}

/// All that a crash may bring back, and how often it is tried.
struct Past {
    /// Since the last flush, oldest first; the last one is what is seen, or will be.
    views: Vec<View>,
    stride: u64,
    events: u64,
    rng: Rng,
    counts: Counts,
}

impl Past {
    /// Cuts the power in a fork now and then; the views are those that may be found.
    fn event(&mut self, fs: &Fs) {
        self.events += 1;
        if self.events.is_multiple_of(self.stride) {
            self.cut(fs);
        }
    }

    fn cut(&mut self, fs: &Fs) -> (Fs, View) {
        self.counts.cuts += 1;
        let mode = MODES[(self.counts.cuts % 3) as usize];
        let mut fork = fs.cut(mode, &mut self.rng);
        let seen = fork.look();
        let seed = fs.config.seed;
        let state = self.views.iter().rposition(|view| view.nodes == seen.nodes);
        let Some(state) = state else {
            panic!(
                "seed {seed}, cut {}: never was so: {seen:?}\n{:?}",
                self.counts.cuts, self.views
            )
        };
        self.counts.older += u64::from(state + 1 < self.views.len());
        for (file, bytes) in &seen.contents {
            for (at, byte) in bytes.iter().enumerate() {
                let may_be = may_be(&self.views, *file, at, *byte, state);
                assert!(may_be, "seed {seed}, {file:?}: byte {at} is {byte}");
            }
        }
        if self.counts.cuts.is_multiple_of(4) {
            assert_growth_is_zeroes(fork.clone(), &seen);
        }
        (fork, seen)
    }
}

/// What a crash left behind the ends of files never shows.
fn assert_growth_is_zeroes(mut fs: Fs, seen: &View) {
    for (file, bytes) in &seen.contents {
        let grown = bytes.len() as u64 + 9000;
        let set = SetAttributes { size_bytes: Some(grown), ..SetAttributes::default() };
        fs.set(*file, &set, 1, &mut |_| {}).expect("it can grow");
        let after = fs.read(*file);
        assert_eq!(after[..bytes.len()], bytes[..], "what was there stays");
        assert!(after[bytes.len()..].iter().all(|byte| *byte == 0), "{file:?} grew over zeroes");
    }
    fs.assert_sound();
}

struct Run {
    fs: Fs,
    plain: Plain,
    past: Past,
    rng: Rng,
    /// Counters of engines that crashed or stopped.
    before: (u64, u64, u64),
}

fn name(which: u64) -> Vec<u8> {
    match which {
        0 => b"a".to_vec(),
        1 => b"b".to_vec(),
        2 => vec![0xff; 255],
        _ => b" \n*".to_vec(),
    }
}

impl Run {
    fn new(config: &SwarmConfig, stride: u64) -> Run {
        let fs = Fs::new(config);
        let plain = Plain::new(ROOT, ROOT_MODE, 0, OBJECTS_MAX);
        let (views, rng) = (vec![plain.view()], Rng::new(config.seed ^ 0xF11E));
        let past = Past { views, stride, events: 0, rng, counts: Counts::default() };
        Run { fs, plain, past, rng: Rng::new(config.seed), before: (0, 0, 0) }
    }

    fn pick(&mut self, fits: impl Fn(&plain::Node) -> bool) -> ObjectId {
        let any = self.rng.chance_ppm(60_000);
        let nodes = self.plain.nodes.iter().filter(|(_, node)| any || fits(node));
        let all: Vec<ObjectId> = nodes.map(|(id, _)| *id).collect();
        if all.is_empty() { ROOT } else { all[self.rng.below(all.len() as u64) as usize] }
    }

    fn place(&mut self) -> (ObjectId, Vec<u8>) {
        (self.pick(plain::Node::is_directory), name(self.rng.below(4)))
    }

    fn sum_up(&mut self) {
        let stats = self.fs.world.engine.stats();
        self.before.0 += stats.checkpoints;
        self.before.1 += stats.commits;
        self.before.2 += stats.redirected.0;
    }

    fn step(&mut self) {
        self.past.counts.steps += 1;
        match self.rng.below(40) {
            0 | 1 => {
                let past = &mut self.past;
                self.fs.flush(&mut |fs| past.event(fs));
                self.only_now();
            }
            2 => {
                while !self.plain.held.is_empty() {
                    self.release(0);
                }
                self.past.counts.restarts += 1;
                self.sum_up();
                self.fs = self.fs.clone().restart();
                self.only_now();
            }
            3 => {
                self.past.counts.crashes += 1;
                self.sum_up();
                let (fs, view) = self.past.cut(&self.fs);
                self.fs = fs;
                self.plain = Plain::of_view(ROOT, &view, OBJECTS_MAX);
                self.past.views = vec![view];
            }
            4 | 5 => {
                let object = self.pick(|node| !node.is_directory());
                let on = On { engine: &self.fs.world.engine, next_id: &self.fs.next_id };
                if self.fs.tree.open(&on, object).is_ok() {
                    self.plain.held.push(object);
                }
            }
            6 | 7 => {
                let which = self.rng.below(8) as usize;
                self.release(which);
            }
            _ => self.change(),
        }
        assert_eq!(self.fs.look(), self.plain.view());
        self.fs.assert_sound();
    }

    /// Everything is durable.
    fn only_now(&mut self) {
        self.past.views = vec![remembered(&self.plain)];
    }

    fn release(&mut self, which: usize) {
        if self.plain.held.is_empty() {
            return;
        }
        let object = self.plain.held.swap_remove(which % self.plain.held.len());
        self.plain.sweep();
        self.past.views.push(remembered(&self.plain));
        let on = On { engine: &self.fs.world.engine, next_id: &self.fs.next_id };
        let changes = self.fs.tree.release(&on, object).expect("it is held");
        let past = &mut self.past;
        self.fs.commit(changes, false, &mut |fs| past.event(fs)).expect("nothing is made");
    }

    /// One operation: first of the plain file system, so that it is known what a crash may leave.
    fn change(&mut self) {
        let now_ns = self.past.counts.steps as i64 * TICK_NS;
        let by = Caller { uid: 0, gid: 0, now_ns };
        let (object, should) = self.ask_plain(now_ns);
        if should.is_ok() {
            self.past.views.push(remembered(&self.plain));
        } else {
            self.past.counts.refused += 1;
        }
        let past = &mut self.past;
        let did = object(&mut self.fs, &by, &mut |fs| past.event(fs));
        assert_eq!(did.map_err(NameError::errno), should);
    }

    /// Draws an operation and asks the plain file system; how the real one is asked, and the answer.
    fn ask_plain(&mut self, now_ns: i64) -> (Doing, Result<(), i32>) {
        match self.rng.below(30) {
            roll @ 0..=14 => self.ask_of_names(roll, now_ns),
            roll => self.ask_of_files(roll, now_ns),
        }
    }

    fn ask_to_make(
        &mut self,
        at: ObjectId,
        named: Vec<u8>,
        now_ns: i64,
    ) -> (Doing, Result<(), i32>) {
        let what = self.rng.below(6);
        // names take the next id if they take one
        let id = ObjectId(self.fs.next_id.get());
        let (mode, target) = match what {
            0..=2 => (mode::FILE | 0o640, &b""[..]),
            3 | 4 => (mode::DIRECTORY | 0o750, &b""[..]),
            _ => (mode::SYMLINK | 0o777, &b"../x"[..]),
        };
        let should = self.plain.make(at, &named, (mode, target), (id, now_ns));
        // the engine could hold more than the plain one is allowed to
        let full = should == Err(plain::errno::ENOSPC);
        (
            Box::new(move |fs, by, hook| {
                let new = match what {
                    0..=2 => New::Node { mode, device: 7 },
                    3 | 4 => New::Directory { mode: 0o750 },
                    _ => New::Symlink { target: b"../x" },
                };
                if full {
                    return Err(NameError::NoSpace);
                }
                let made = fs.tree.make(&fs.on(), at, &named, new, by)?;
                fs.commit(made.changes, false, hook)
            }),
            should,
        )
    }

    fn ask_of_names(&mut self, roll: u64, now_ns: i64) -> (Doing, Result<(), i32>) {
        let (at, named) = self.place();
        match roll {
            0..=5 => self.ask_to_make(at, named, now_ns),
            6 | 7 => (
                Box::new({
                    let named = named.clone();
                    move |fs, by, hook| {
                        let changes = fs.tree.unlink(&fs.on(), at, &named, by.now_ns)?;
                        fs.commit(changes, false, hook)
                    }
                }),
                self.plain.unlink(at, &named, now_ns),
            ),
            8 => (
                Box::new({
                    let named = named.clone();
                    move |fs, by, hook| {
                        let changes = fs.tree.rmdir(&fs.on(), at, &named, by.now_ns)?;
                        fs.commit(changes, false, hook)
                    }
                }),
                self.plain.rmdir(at, &named, now_ns),
            ),
            9..=12 => {
                let (to, to_name) = self.place();
                let flags = [0, 0, 1, 2][self.rng.below(4) as usize];
                let should = self.plain.rename((at, &named), (to, &to_name), flags, now_ns);
                (
                    Box::new(move |fs, by, hook| {
                        let (from, to) = ((at, &named[..]), (to, &to_name[..]));
                        let changes = fs.tree.rename(&fs.on(), from, to, flags, by.now_ns)?;
                        fs.commit(changes, false, hook)
                    }),
                    should,
                )
            }
            _ => {
                let object = self.pick(plain::Node::is_file);
                let should = self.plain.link(object, (at, &named), now_ns);
                (
                    Box::new(move |fs, by, hook| {
                        let made = fs.tree.link(&fs.on(), object, (at, &named), by.now_ns)?;
                        fs.commit(made.changes, false, hook)
                    }),
                    should,
                )
            }
        }
    }

    fn ask_of_files(&mut self, roll: u64, now_ns: i64) -> (Doing, Result<(), i32>) {
        match roll {
            15..=22 => {
                let file = self.pick(plain::Node::is_file);
                let (offset, length) = (self.edge(), self.rng.between(1, 6000) as usize);
                let bytes = vec![self.rng.between(1, 255) as u8; length];
                let should = self.plain.write(file, offset as usize, &bytes, now_ns);
                (
                    Box::new(move |fs, by, hook| fs.write(file, (offset, &bytes), by.now_ns, hook)),
                    should,
                )
            }
            23..=26 => {
                let (file, size) = (self.pick(plain::Node::is_file), self.edge());
                let should = self.plain.truncate(file, size as usize, now_ns);
                let set = SetAttributes { size_bytes: Some(size), ..SetAttributes::default() };
                (Box::new(move |fs, by, hook| fs.set(file, &set, by.now_ns, hook)), should)
            }
            27 => {
                let (object, mode) = (self.pick(|_| true), self.rng.below(0o7777) as u32);
                let should = self.plain.chmod(object, mode);
                let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
                (Box::new(move |fs, by, hook| fs.set(object, &set, by.now_ns, hook)), should)
            }
            _ => {
                let object = self.pick(|_| true);
                let value = vec![self.rng.below(256) as u8; self.rng.below(900) as usize];
                let should = self.plain.set_xattr(object, b"user.a", &value);
                (
                    Box::new(move |fs, by, hook| {
                        let set = (&b"user.a"[..], &value[..]);
                        let tree = &fs.tree;
                        let changes =
                            tree.set_xattr(&fs.on(), object, set, SetMode::Any, by.now_ns)?;
                        fs.commit(changes, false, hook)
                    }),
                    should,
                )
            }
        }
    }

    /// Ends of blocks and sectors, and a little beside them.
    fn edge(&mut self) -> u64 {
        let rest = [0, 1, 511, 512, 700, 4095, 4096][self.rng.below(7) as usize];
        self.rng.below(4) * 4096 + rest
    }
}

/// How the real file system is asked.
type Doing = Box<dyn FnOnce(&mut Fs, &Caller, Hook<'_>) -> Result<(), NameError>>;

/// What a crash may bring back: bytes of open files without a name, too.
fn remembered(plain: &Plain) -> View {
    let mut view = plain.view();
    let files = plain.nodes.iter().filter(|(_, node)| node.is_file());
    view.contents.extend(files.map(|(object, node)| (*object, node.bytes.clone())));
    view
}

fn run(config: &SwarmConfig, stride: u64) -> Counts {
    let mut run = Run::new(config, stride);
    for _ in 0..STEPS {
        run.step();
    }
    run.sum_up();
    let (checkpoints, commits, redirected) = run.before;
    Counts { checkpoints, commits, redirected, ..run.past.counts }
}

/// Room for files, and a table for them.
fn files(mut config: SwarmConfig) -> SwarmConfig {
    config.shape.volume_bytes = MIB;
    config.tuning.object_table_bytes = 256 * KIB;
    config
}

/// A journal that wraps every few commits, and commits that do not wait: checkpoints all the time.
fn hasty(seed: u64) -> SwarmConfig {
    let mut config = files(SwarmConfig::filed(seed, "mios-e", 0));
    config.tuning.journal_bytes = 32 * KIB;
    config.tuning.commit_interval = Duration::from_us(200);
    config
}

/// What it is, and the pool of a seed.
type Arm = (&'static str, fn(u64) -> SwarmConfig);

#[test]
fn a_power_cut_under_files_leaves_a_state_that_was() {
    let arms: [Arm; 4] = [
        ("files", |seed| files(SwarmConfig::filed(seed, "ssd-first", 0))),
        ("redirected, into small logs", |seed| files(SwarmConfig::cycled(seed, "mios-e", 0))),
        ("checkpoints", hasty),
        ("a pair", |seed| files(SwarmConfig::paired(seed, "mios-d", 0))),
    ];
    let mut totals: BTreeMap<&str, Counts> = BTreeMap::new();
    for (arm, config) in arms {
        let total = totals.entry(arm).or_default();
        for seed in 0..SEEDS {
            let counts = run(&config(seed), 1 + seed % 2);
            total.steps += counts.steps;
            total.refused += counts.refused;
            total.cuts += counts.cuts;
            total.older += counts.older;
            total.restarts += counts.restarts;
            total.crashes += counts.crashes;
            total.checkpoints += counts.checkpoints;
            total.commits += counts.commits;
            total.redirected += counts.redirected;
        }
        println!("{arm}: {total:?}");
        assert!(total.cuts > 1000 && total.older > 300 && total.commits > 50, "{arm}: {total:?}");
        assert!(total.restarts > 2 && total.crashes > 2, "{arm}: {total:?}");
    }
    assert!(totals["checkpoints"].checkpoints > 30, "{totals:?}");
}
