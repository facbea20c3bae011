//! What is left of a file system after a power cut at any point?
//!
//! Random operations run against a plain oracle; after every one of them the power is cut in several
//! ways. What is mounted then must be a state that the file system was in, not older than the last
//! fsync, and sound; bytes must be such as were written there since, and what a file grows over must be
//! zeroes.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use proptest::prelude::*;
use support::{Plain, TIER, TIERS, View, assert_sound, look};
use tandem_block::{ObjectId, Rng};
use tandem_names::memory::{Memory, Mounted};
use tandem_names::{Caller, NameError, New, Objects as _, SetAttributes, SetMode, mode};

const ROOT: ObjectId = ObjectId(1);
const OBJECTS_MAX: usize = 14;
/// Times of writes are kept in ticks of 4 ms.
const TICK_NS: i64 = 4_000_000;
const ROOT_MODE: u32 = mode::DIRECTORY | 0o755;

#[derive(Clone, Debug)]
enum Step {
    Make { at: u8, name: u8, what: u8 },
    Unlink { at: u8, name: u8 },
    Rmdir { at: u8, name: u8 },
    Rename { from: (u8, u8), to: (u8, u8), flags: u32 },
    Link { object: u8, at: u8, name: u8 },
    Write { file: u8, offset: u64, length: usize, fill: u8 },
    Truncate { file: u8, size: u64 },
    Chmod { object: u8, permissions: u32 },
    SetXattr { object: u8, which: u8, value: u8 },
    RemoveXattr { object: u8, which: u8 },
    Open { object: u8 },
    Release { which: u8 },
    Sync,
    Remount,
    Crash { seed: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any8 = any::<u8>;
    let place = || (any8(), any8());
    // ends of blocks and sectors, and a little beside them
    let edge = || {
        (0u64..4, prop::sample::select(vec![0u64, 1, 511, 512, 700, 4095, 4096]))
            .prop_map(|(blocks, rest)| blocks * 4096 + rest)
    };
    let step = prop_oneof![
        6 => (any8(), any8(), 0u8..6).prop_map(|(at, name, what)| Step::Make { at, name, what }),
        2 => place().prop_map(|(at, name)| Step::Unlink { at, name }),
        1 => place().prop_map(|(at, name)| Step::Rmdir { at, name }),
        4 => (place(), place(), 0u32..4)
            .prop_map(|(from, to, flags)| Step::Rename { from, to, flags }),
        2 => (any8(), any8(), any8()).prop_map(|(object, at, name)| Step::Link { object, at, name }),
        8 => (any8(), edge(), 1usize..6000, 1u8..=255)
            .prop_map(|(file, offset, length, fill)| Step::Write { file, offset, length, fill }),
        4 => (any8(), edge()).prop_map(|(file, size)| Step::Truncate { file, size }),
        1 => (any8(), 0u32..0o7777)
            .prop_map(|(object, permissions)| Step::Chmod { object, permissions }),
        2 => (any8(), 0u8..3, 0u8..3)
            .prop_map(|(object, which, value)| Step::SetXattr { object, which, value }),
        1 => (any8(), 0u8..3).prop_map(|(object, which)| Step::RemoveXattr { object, which }),
        2 => any8().prop_map(|object| Step::Open { object }),
        2 => any8().prop_map(|which| Step::Release { which }),
        2 => Just(Step::Sync),
        1 => Just(Step::Remount),
        2 => any::<u64>().prop_map(|seed| Step::Crash { seed }),
    ];
    prop::collection::vec(step, 1..60)
}

fn name(which: u8) -> Vec<u8> {
    match which % 5 {
        0 => b"a".to_vec(),
        1 => b"b".to_vec(),
        2 => vec![0xff; 255],
        3 => b" \n*".to_vec(),
        _ => b"user".to_vec(),
    }
}

fn attribute(which: u8) -> &'static [u8] {
    [TIER, b"user.a", b"trusted.b"][usize::from(which % 3)]
}

/// The file system, the oracle beside it, and all that a crash may bring back.
struct Run {
    fs: Mounted,
    plain: Plain,
    /// What could be seen since the last flush, oldest first; the last one is what is seen now.
    past: Vec<View>,
    step: i64,
    rng: Rng,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut store = Memory::new(OBJECTS_MAX as u64);
        let owner = Caller { uid: 0, gid: 0, now_ns: 0 };
        store.format(ROOT, ROOT_MODE, &owner).unwrap();
        store.flush();
        let fs = Mounted::mount(store, ROOT, TIERS).unwrap();
        let plain = Plain::new(ROOT, ROOT_MODE, 0, OBJECTS_MAX);
        let past = vec![plain.view()];
        Run { fs, plain, past, step: 0, rng: Rng::new(seed) }
    }

    /// Mostly something that is there; sometimes what has lost its name and is open.
    fn object(&self, which: u8) -> ObjectId {
        let all: Vec<ObjectId> = self.plain.nodes.keys().copied().collect();
        all[usize::from(which) % all.len()]
    }

    fn directory(&self, which: u8) -> ObjectId {
        let nodes = self.plain.nodes.iter();
        let all: Vec<ObjectId> = nodes
            .filter(|(_, node)| node.is_directory() || which.is_multiple_of(16))
            .map(|(id, _)| *id)
            .collect();
        all[usize::from(which) % all.len()]
    }

    fn file(&self, which: u8) -> ObjectId {
        let nodes = self.plain.nodes.iter();
        let all: Vec<ObjectId> = nodes
            .filter(|(_, node)| node.is_file() || which.is_multiple_of(16))
            .map(|(id, _)| *id)
            .collect();
        if all.is_empty() { ROOT } else { all[usize::from(which) % all.len()] }
    }

    fn perform(&mut self, step: &Step) {
        self.step += 1;
        let flushes_before = self.fs.store.flushes();
        match step {
            Step::Sync => self.flush(),
            Step::Remount => self.remount(),
            Step::Crash { seed } => self.crash(*seed),
            Step::Open { object } => {
                let object = self.object(*object);
                let store = self.fs.store.clone();
                if self.fs.tree.open(&store, object).is_ok() {
                    self.plain.held.push(object);
                }
            }
            Step::Release { which } => self.release(*which),
            _ => self.change(step),
        }
        if self.fs.store.flushes() > flushes_before && self.past.len() > 1 {
            // a flush within the step: everything before it is durable
            let keep = self.past.len() - 1;
            self.past.drain(..keep);
        }
        let now = self.plain.view();
        assert_eq!(look(&self.fs), now, "{step:?}");
        assert_sound(&self.fs);
        let now = self.remembered();
        self.past.push(now);
        for _ in 0..3 {
            let seed = self.rng.bits();
            let (fs, _) = self.cut_power(seed);
            assert_growth_is_zeroes(fs);
        }
    }

    /// What a crash may bring back: bytes of open files without a name, too.
    fn remembered(&self) -> View {
        let mut view = self.plain.view();
        let files = self.plain.nodes.iter().filter(|(_, node)| node.is_file());
        view.contents.extend(files.map(|(object, node)| (*object, node.bytes.clone())));
        view
    }

    fn flush(&mut self) {
        self.fs.store.flush();
        self.past = vec![self.remembered()];
    }

    fn release(&mut self, which: u8) {
        if self.plain.held.is_empty() {
            return;
        }
        let which = usize::from(which) % self.plain.held.len();
        let object = self.plain.held.swap_remove(which);
        let changes = self.fs.tree.release(&self.fs.store, object).unwrap();
        self.fs.commit(&changes).unwrap();
        self.plain.sweep();
    }

    fn remount(&mut self) {
        while !self.plain.held.is_empty() {
            self.release(0);
        }
        let store = self.fs.clone().unmount();
        self.fs = Mounted::mount(store, ROOT, TIERS).unwrap();
        self.past = vec![self.remembered()];
    }

    fn crash(&mut self, seed: u64) {
        let (fs, view) = self.cut_power(seed);
        self.fs = fs;
        self.plain = Plain::of_view(ROOT, &view, OBJECTS_MAX);
        self.past = vec![view];
    }

    /// What is mounted after a power cut, and what is seen there.
    fn cut_power(&mut self, seed: u64) -> (Mounted, View) {
        let mut rng = Rng::new(seed);
        let batches = rng.below(self.fs.store.unflushed_batches() as u64 + 1) as usize;
        let percent = [0, 50, 90, 100][rng.below(4) as usize];
        let store = self.fs.store.after_crash(batches, || rng.below(100) < percent);
        let fs = Mounted::mount(store, ROOT, TIERS).expect("it can be mounted");
        assert_sound(&fs);
        let seen = look(&fs);
        let state = self.past.iter().rposition(|view| view.nodes == seen.nodes);
        let state = state.unwrap_or_else(|| panic!("never was so: {seen:?}\n{:?}", self.past));
        for (file, bytes) in &seen.contents {
            for (at, byte) in bytes.iter().enumerate() {
                let may_be = support::may_be(&self.past, *file, at, *byte, state);
                assert!(may_be, "{file:?}: byte {at} is {byte}");
            }
        }
        (fs, seen)
    }

    fn change(&mut self, step: &Step) {
        let now_ns = self.step * TICK_NS;
        let by = Caller { uid: 0, gid: 0, now_ns };
        let before = self.fs.store.unflushed_batches();
        let (did, should) = match *step {
            Step::Make { at, name: named, what } => self.make((at, named, what), &by),
            Step::Unlink { at, name: named } => {
                let (at, named) = (self.directory(at), name(named));
                let answer = self.fs.tree.unlink(&self.fs.store, at, &named, now_ns);
                (self.commit(answer), self.plain.unlink(at, &named, now_ns))
            }
            Step::Rmdir { at, name: named } => {
                let (at, named) = (self.directory(at), name(named));
                let answer = self.fs.tree.rmdir(&self.fs.store, at, &named, now_ns);
                (self.commit(answer), self.plain.rmdir(at, &named, now_ns))
            }
            Step::Rename { from, to, flags } => {
                let (from_name, to_name) = (name(from.1), name(to.1));
                let from = (self.directory(from.0), &from_name[..]);
                let to = (self.directory(to.0), &to_name[..]);
                let flags = if flags == 3 { 0 } else { flags };
                let answer = self.fs.tree.rename(&self.fs.store, from, to, flags, now_ns);
                (self.commit(answer), self.plain.rename(from, to, flags, now_ns))
            }
            Step::Link { object, at, name: named } => {
                let (object, at, named) = (self.object(object), self.directory(at), name(named));
                let answer = self.fs.tree.link(&self.fs.store, object, (at, &named), now_ns);
                let did = self.commit(answer.map(|made| made.changes));
                (did, self.plain.link(object, (at, &named), now_ns))
            }
            Step::Write { file, offset, length, fill } => {
                let (file, bytes) = (self.file(file), vec![fill; length]);
                let did = self.fs.write(file, offset, &bytes, now_ns);
                (did, self.plain.write(file, offset as usize, &bytes, now_ns))
            }
            Step::Truncate { file, size } => {
                let file = self.file(file);
                let set = SetAttributes { size_bytes: Some(size), ..SetAttributes::default() };
                let did = self.fs.set_attributes(file, &set, now_ns);
                (did, self.plain.truncate(file, size as usize, now_ns))
            }
            Step::Chmod { object, permissions } => {
                let object = self.object(object);
                let set = SetAttributes { mode: Some(permissions), ..SetAttributes::default() };
                let did = self.fs.set_attributes(object, &set, now_ns);
                (did, self.plain.chmod(object, permissions))
            }
            Step::SetXattr { object, which, value } => {
                let (object, which) = (self.object(object), attribute(which));
                let value = [&b"hot-dst"[..], b"none", b"neither"][usize::from(value)];
                let answer = self.fs.tree.set_xattr(
                    &self.fs.store,
                    object,
                    (which, value),
                    SetMode::Any,
                    now_ns,
                );
                (self.commit(answer), self.plain.set_xattr(object, which, value))
            }
            Step::RemoveXattr { object, which } => {
                let (object, which) = (self.object(object), attribute(which));
                let answer = self.fs.tree.remove_xattr(&self.fs.store, object, which, now_ns);
                (self.commit(answer), self.plain.remove_xattr(object, which))
            }
            _ => unreachable!("not a change: {step:?}"),
        };
        assert_eq!(did.map_err(NameError::errno), should, "{step:?}");
        if should.is_err() {
            assert_eq!(self.fs.store.unflushed_batches(), before, "what fails changes nothing");
        }
    }

    fn make(
        &mut self,
        (at, named, what): (u8, u8, u8),
        by: &Caller,
    ) -> (Result<(), NameError>, Result<(), i32>) {
        let (at, named) = (self.directory(at), name(named));
        let (new, mode, target) = match what {
            0..=2 => {
                let mode = mode::FILE | 0o640;
                (New::Node { mode, device: 7 }, mode, &b""[..])
            }
            3 | 4 => (New::Directory { mode: 0o750 }, mode::DIRECTORY | 0o750, &b""[..]),
            _ => (New::Symlink { target: b"../x" }, mode::SYMLINK | 0o777, &b"../x"[..]),
        };
        let object = self.fs.store.fresh_id();
        let answer = self.fs.tree.make(&self.fs.store, at, &named, new, by);
        let did = self.commit(answer.map(|made| made.changes));
        (did, self.plain.make(at, &named, (mode, target), (object, by.now_ns)))
    }

    fn commit(
        &mut self,
        answer: Result<Vec<tandem_names::Change>, NameError>,
    ) -> Result<(), NameError> {
        self.fs.commit(&answer?)
    }
}

/// What a crash left behind the ends of files never shows.
fn assert_growth_is_zeroes(mut fs: Mounted) {
    for (file, bytes) in look(&fs).contents {
        let grown = bytes.len() as u64 + 9000;
        let set = SetAttributes { size_bytes: Some(grown), ..SetAttributes::default() };
        fs.set_attributes(file, &set, 1).unwrap();
        let after = fs.read(file, 0, grown).unwrap();
        assert_eq!(after[..bytes.len()], bytes, "what was there stays");
        assert!(after[bytes.len()..].iter().all(|byte| *byte == 0), "{file:?} grew over zeroes");
    }
    assert_sound(&fs);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_leaves_a_state_that_was(steps in steps(), seed in any::<u64>()) {
        let mut run = Run::new(seed);
        for step in &steps {
            run.perform(step);
        }
    }
}
