//! What is asked of the file system and of the plain one beside it?

use super::past::{Counts, Past};
use super::plain::{self, Plain, View};
use super::pool::{Fs, Hook, On, ROOT, ROOT_MODE};
use std::collections::BTreeMap;
use tandem_block::{ObjectId, Rng};
use tandem_names::{Caller, NameError, New, SNAPSHOTS_NAME, SetAttributes, SetMode, mode};
use tandem_sim::swarm::SwarmConfig;

const OBJECTS_MAX: usize = 14;
const TICK_NS: i64 = 4_000_000;
/// Steps of a run.
const STEPS: u64 = 80;

struct Run {
    fs: Fs,
    plain: Plain,
    past: Past,
    /// There is a directory for snapshots.
    has_snapshots: bool,
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
        let (kept, may) = (BTreeMap::new(), BTreeMap::new());
        let past = Past { views, kept, may, stride, events: 0, rng, counts: Counts::default() };
        Run { fs, plain, past, has_snapshots: false, rng: Rng::new(config.seed), before: (0, 0, 0) }
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
        let stats = self.fs.sim.engine.stats();
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
                (self.past.kept, self.past.may) = (self.fs.snapshots(), BTreeMap::new());
                self.has_snapshots = self.fs.tree.snapshots(&self.fs.on()) != Ok(None);
            }
            4 | 5 => {
                let object = self.pick(|node| !node.is_directory());
                let on = On { engine: &self.fs.sim.engine, next_id: &self.fs.next_id };
                if self.fs.tree.open(&on, object).is_ok() {
                    self.plain.held.push(object);
                }
            }
            6 | 7 => {
                let which = self.rng.below(8) as usize;
                self.release(which);
            }
            8 | 9 if self.past.kept.len() < 2 => self.take_snapshot(),
            10 if !self.past.kept.is_empty() => self.delete_snapshot(),
            _ => self.change(),
        }
        assert_eq!(self.fs.snapshots(), self.past.kept, "nothing changes them");
        assert_eq!(self.fs.look(), self.plain.view());
        self.fs.assert_sound();
    }

    fn take_snapshot(&mut self) {
        if !self.has_snapshots {
            self.has_snapshots = true;
            let new = New::Directory { mode: 0o700 };
            let by = Caller { uid: 0, gid: 0, now_ns: 0 };
            let made = self.fs.tree.make(&self.fs.on(), ROOT, SNAPSHOTS_NAME, new, &by);
            let changes = made.expect("there is none").changes;
            let past = &mut self.past;
            self.fs.commit(changes, false, &mut |fs| past.event(fs)).expect("there is room");
        }
        let name = format!("s{}", self.past.counts.steps).into_bytes();
        let below = self.fs.below(ROOT);
        self.past.may.insert(name.clone(), below.clone());
        let past = &mut self.past;
        let batches = self.fs.snapshot(&name, &mut |fs| past.event(fs)).expect("there is room");
        self.past.counts.snapshots += 1;
        self.past.counts.snapshot_batches += batches;
        self.past.kept.insert(name, below);
        self.only_now();
    }

    fn delete_snapshot(&mut self) {
        let (name, below) = self.past.kept.pop_first().expect("asked before");
        let changes = self.fs.tree.delete_snapshot(&self.fs.on(), &name, 1).expect("it is there");
        self.past.may.insert(name, below);
        let past = &mut self.past;
        self.fs.commit(changes, false, &mut |fs| past.event(fs)).expect("nothing is made");
        self.fs.clear_deleted(&mut |fs| past.event(fs));
    }

    /// Everything is durable.
    fn only_now(&mut self) {
        self.past.may.clear();
        self.past.views = vec![remembered(&self.plain)];
    }

    fn release(&mut self, which: usize) {
        if self.plain.held.is_empty() {
            return;
        }
        let object = self.plain.held.swap_remove(which % self.plain.held.len());
        self.plain.sweep();
        self.past.views.push(remembered(&self.plain));
        let on = On { engine: &self.fs.sim.engine, next_id: &self.fs.next_id };
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

pub fn run(config: &SwarmConfig, stride: u64) -> Counts {
    let mut run = Run::new(config, stride);
    for _ in 0..STEPS {
        run.step();
    }
    run.sum_up();
    let (checkpoints, commits, redirected) = run.before;
    Counts { checkpoints, commits, redirected, ..run.past.counts }
}
