//! Does a snapshot show the volume as it was, for as long as it is there, and does it go without a trace?
//!
//! Random files are made and changed; in between snapshots are taken and deleted, and after each of their steps the
//! power is cut in all ways that batches can be lost. What is mounted then must be sound, each snapshot as the
//! volume was when it was taken, and one that was not finished gone.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::collections::BTreeMap;
use support::{Below, TIER, TIERS, assert_sound, look_below};
use tandem_block::{ObjectId, Rng};
use tandem_names::memory::{Memory, Mounted};
use tandem_names::{
    Caller, Change, FIRST_COOKIE, NameError, New, Objects as _, SNAPSHOTS_NAME, SetAttributes,
    SetMode, Shared, Strip,
};

const ROOT: ObjectId = ObjectId(1);
const BY: Caller = Caller { uid: 5, gid: 6, now_ns: 7 };

fn mounted() -> Mounted {
    let mut store = Memory::new(10_000);
    store.format(ROOT, 0o755, &Caller { uid: 0, gid: 0, now_ns: 0 }).unwrap();
    store.flush();
    Mounted::mount(store, ROOT, TIERS).unwrap()
}

fn look(on: &Mounted, top: ObjectId) -> Below {
    let (mut below, files) = look_below(&on.tree, &on.store, top);
    for (path, file) in files {
        below.get_mut(&path).unwrap().bytes = on.read(file, 0, u64::MAX / 2).unwrap();
    }
    below
}

/// Something happens to the files of the volume; it may be refused.
fn change(on: &mut Mounted, rng: &mut Rng, step: i64) {
    let tree = look_objects(on);
    let any = |rng: &mut Rng| tree[rng.below(tree.len() as u64) as usize];
    let name = |rng: &mut Rng| vec![b"abcdef"[rng.below(6) as usize]; 1 + rng.below(3) as usize];
    let (object, other, named) = (any(rng), any(rng), name(rng));
    let by = Caller { now_ns: step << 22, ..BY };
    let changes = match rng.below(13) {
        roll @ 0..=4 => {
            let what = match roll {
                0..=2 => New::Node { mode: 0o640, device: 0 },
                3 => New::Directory { mode: 0o750 },
                _ => New::Symlink { target: b"../x" },
            };
            on.tree.make(&on.store, object, &named, what, &by).map(|made| made.changes)
        }
        5 => on.tree.unlink(&on.store, object, &named, by.now_ns),
        6 => {
            let to = (other, &name(rng)[..]);
            on.tree.rename(&on.store, (object, &named), to, 0, by.now_ns)
        }
        7 => on.tree.link(&on.store, object, (other, &named), by.now_ns).map(|made| made.changes),
        8 => {
            let (name, value) = (&[TIER, b"user.a"][rng.below(2) as usize], &b"hot-dst"[..]);
            on.tree.set_xattr(&on.store, object, (name, value), SetMode::Any, by.now_ns)
        }
        9 => {
            let set = SetAttributes { size_bytes: Some(rng.below(30_000)), ..Default::default() };
            let _ = on.set_attributes(object, &set, by.now_ns);
            return;
        }
        _ => {
            let bytes = vec![rng.between(1, 255) as u8; rng.between(1, 9000) as usize];
            let _ = on.write(object, rng.below(20_000), &bytes, by.now_ns);
            return;
        }
    };
    if let Ok(changes) = changes {
        on.commit(&changes).unwrap();
    }
}

fn look_objects(on: &Mounted) -> Vec<ObjectId> {
    let mut found = vec![ROOT];
    let mut at = 0;
    while let Some(&object) = found.get(at) {
        at += 1;
        let Ok(lines) = on.tree.list(&on.store, object, FIRST_COOKIE) else { continue };
        let below = lines.flatten().filter(|line| !matches!(line.name, b"." | b".."));
        found.extend(below.map(|line| line.object));
    }
    found
}

struct Run {
    on: Mounted,
    rng: Rng,
    /// What each snapshot has to show.
    taken: BTreeMap<Vec<u8>, Below>,
    cuts: u64,
    unfinished: u64,
}

impl Run {
    /// Cuts the power in a copy, after each number of batches that may be left. `may` is what has not been
    /// promised yet: there or not.
    fn cut(&mut self, may: Option<(&[u8], &Below)>) {
        for batches in 0..=self.on.store.unflushed_batches() {
            let rng = &mut self.rng;
            let left = self.on.store.after_crash(batches, || rng.chance_ppm(500_000));
            let fork = Mounted::mount(left, ROOT, TIERS).unwrap();
            assert_sound(&fork);
            let mut expected = self.taken.clone();
            let found = fork.tree.snapshot_list(&fork.store).unwrap();
            if let Some((name, tree)) = may {
                match found.iter().any(|(found, _)| found == name) {
                    true => expected.insert(name.to_vec(), tree.clone()),
                    false => expected.remove(name),
                };
                self.unfinished += u64::from(!expected.contains_key(name));
            }
            let found: BTreeMap<_, _> =
                found.into_iter().map(|(name, top)| (name, look(&fork, top))).collect();
            assert_eq!(found, expected);
            assert_nothing_hidden(&fork);
            self.cuts += 1;
        }
    }

    fn take(&mut self, name: &[u8], now_ns: i64) {
        let should = look(&self.on, ROOT);
        let mut it = self.on.tree.begin_snapshot(&self.on.store, name, now_ns).unwrap();
        // small steps, as if batches had hardly any room
        let room = self.rng.between(8, 40) as usize;
        let blocks_max = self.rng.between(1, 6);
        while !it.is_done() {
            let changes = it.plan(&self.on.tree, &self.on.store).unwrap();
            let is_large =
                |it: &Change| matches!(it, Change::Share { blocks, .. } if *blocks > blocks_max);
            if changes.len() > room || changes.iter().any(is_large) {
                assert!(it.was_too_large(), "one file, and one block of it, fit");
                continue;
            }
            self.on.commit(&changes).unwrap();
            it.applied();
            assert_sound(&self.on);
            self.cut(Some((name, &should)));
        }
        self.on.store.flush();
        self.taken.insert(name.to_vec(), should);
        self.cut(None);
    }

    fn delete(&mut self, name: &[u8], now_ns: i64) {
        let should = self.taken.remove(name).unwrap();
        let changes = self.on.tree.delete_snapshot(&self.on.store, name, now_ns).unwrap();
        self.on.commit(&changes).unwrap();
        assert_sound(&self.on);
        self.cut(Some((name, &should)));
        loop {
            let limit = 1 + self.rng.below(5) as usize;
            let changes = self.on.tree.clear_deleted(&self.on.store, limit, None).unwrap();
            if changes.is_empty() {
                break;
            }
            self.on.commit(&changes).unwrap();
            assert_sound(&self.on);
            self.cut(Some((name, &should)));
        }
        self.on.store.flush();
        self.cut(None);
    }
}

/// As many objects as names lead to, and no more.
fn assert_nothing_hidden(on: &Mounted) {
    let mut objects = look_objects(on);
    objects.sort_unstable();
    objects.dedup();
    let mut count = objects.len();
    for (_, top) in on.tree.snapshot_list(&on.store).unwrap() {
        let seen = look(on, top);
        count += seen.iter().filter(|(path, seen)| **path == seen.same_as).count();
    }
    count += usize::from(on.tree.snapshots(&on.store).unwrap().is_some());
    assert_eq!(on.store.space().objects, count as u64);
}

#[test]
fn snapshots_show_what_was_and_power_cuts_leave_all_or_nothing() {
    let (mut cuts, mut unfinished) = (0, 0);
    for seed in 0..5 {
        let mut run = Run {
            on: mounted(),
            rng: Rng::new(seed),
            taken: BTreeMap::new(),
            cuts: 0,
            unfinished: 0,
        };
        mkdir(&mut run.on, ROOT, SNAPSHOTS_NAME).unwrap();
        for step in 1..200 {
            change(&mut run.on, &mut run.rng, step);
            match run.rng.below(30) {
                0 | 1 => {
                    let name = format!("s{step}").into_bytes();
                    run.take(&name, step);
                }
                2 if !run.taken.is_empty() => {
                    let at = run.rng.below(run.taken.len() as u64) as usize;
                    let name = run.taken.keys().nth(at).unwrap().clone();
                    run.delete(&name, step);
                }
                3 => run.on.store.flush(),
                4 => {
                    let store = run.on.clone().unmount();
                    run.on = Mounted::mount(store, ROOT, TIERS).unwrap();
                }
                _ => {}
            }
            assert_sound(&run.on);
        }
        for (name, top) in run.on.tree.snapshot_list(&run.on.store).unwrap() {
            assert_eq!(look(&run.on, top), run.taken[&name]);
        }
        assert_nothing_hidden(&run.on);
        (cuts, unfinished) = (cuts + run.cuts, unfinished + run.unfinished);
    }
    println!("{cuts} cuts, after {unfinished} of which a snapshot was not there");
    assert!(cuts > 1000 && unfinished > 300, "{cuts} {unfinished}");
}

fn mkdir(on: &mut Mounted, directory: ObjectId, name: &[u8]) -> Result<ObjectId, NameError> {
    let made = on.tree.make(&on.store, directory, name, New::Directory { mode: 0o700 }, &BY)?;
    on.commit(&made.changes)?;
    Ok(made.stat.object)
}

fn file(on: &mut Mounted, directory: ObjectId, name: &[u8], bytes: &[u8]) -> ObjectId {
    let what = New::Node { mode: 0o6755, device: 0 };
    let made = on.tree.make(&on.store, directory, name, what, &BY).unwrap();
    on.commit(&made.changes).unwrap();
    on.write(made.stat.object, 0, bytes, 2).unwrap();
    made.stat.object
}

/// Whatever is asked of a snapshot, it stays as it is.
#[test]
fn nothing_in_a_snapshot_changes() {
    let mut on = mounted();
    let home = mkdir(&mut on, ROOT, b"home").unwrap();
    let kept = file(&mut on, home, b"a", &[1; 100_000]);
    let all = mkdir(&mut on, ROOT, SNAPSHOTS_NAME).unwrap();
    let top = on.snapshot(b"monday", 9).unwrap();
    let lookup =
        |on: &Mounted, at, name: &[u8]| on.tree.lookup(&on.store, at, name).unwrap().object;
    let inner = lookup(&on, top, b"home");
    let copy = lookup(&on, inner, b"a");
    assert!(copy != kept && lookup(&on, all, b"monday") == top);
    let before = look(&on, top);

    let read_only = Err(NameError::ReadOnly);
    let (tree, store) = (&on.tree, &on.store);
    for directory in [all, top, inner] {
        let what = New::Node { mode: 0o600, device: 0 };
        assert_eq!(tree.make(store, directory, b"b", what, &BY).map(|_| ()), read_only);
        let what = New::Directory { mode: 0o600 };
        assert_eq!(tree.make(store, directory, b"b", what, &BY).map(|_| ()), read_only);
        assert_eq!(tree.link(store, kept, (directory, b"b"), 1).map(|_| ()), read_only);
        assert_eq!(
            tree.rename(store, (home, b"a"), (directory, b"b"), 0, 1).map(|_| ()),
            read_only
        );
        assert_eq!(tree.unlink(store, directory, b"a", 1).map(|_| ()), read_only);
        assert_eq!(tree.rmdir(store, directory, b"home", 1).map(|_| ()), read_only);
    }
    assert_eq!(tree.rename(store, (inner, b"a"), (home, b"b"), 0, 1).map(|_| ()), read_only);
    assert_eq!(tree.rename(store, (all, b"monday"), (home, b"b"), 0, 1).map(|_| ()), read_only);
    assert_eq!(tree.link(store, copy, (home, b"b"), 1).map(|_| ()), read_only);
    for object in [all, top, inner, copy] {
        let set = SetAttributes { mode: Some(0), ..Default::default() };
        assert_eq!(tree.set_attributes(store, object, &set, 1).map(|_| ()), read_only);
        let (name, value) = (&b"user.a"[..], &b"b"[..]);
        let set = tree.set_xattr(store, object, (name, value), SetMode::Any, 1);
        assert_eq!(set.map(|_| ()), read_only);
        assert!(tree.is_read_only(store, object));
    }
    let set = SetAttributes { size_bytes: Some(5), ..Default::default() };
    assert_eq!(tree.set_attributes(store, copy, &set, 1).map(|_| ()), read_only);
    assert_eq!(tree.make_room(store, copy, 5).map(|_| ()), read_only);
    assert_eq!(tree.written(store, copy, 5, Strip::All, 1).map(|_| ()), read_only);
    assert_eq!(tree.tail_is_unknown(store, copy).map(|_| ()), read_only);
    let share = |from, to| Shared { from, from_bytes: 0, to, to_bytes: 0, length_bytes: 1 << 40 };
    assert_eq!(tree.shareable(store, &share(kept, copy)).map(|_| ()), read_only);

    // what has changed since comes back from there, at once
    on.write(kept, 0, &[2; 100_000], 10).unwrap();
    let (changes, count) =
        on.tree.share(&on.store, &share(copy, kept), Strip::Nothing, 11).unwrap();
    on.commit(&changes).unwrap();
    assert_eq!((count, on.read(kept, 0, 200_000).unwrap()), (100_000, vec![1; 100_000]));
    on.write(kept, 0, &[3; 5000], 12).unwrap();
    assert_eq!(look(&on, top), before);
    assert_sound(&on);
}

#[test]
fn the_directory_of_snapshots_is_there_when_one_asks_for_it() {
    let mut on = mounted();
    let find = |on: &Mounted| on.tree.lookup(&on.store, ROOT, SNAPSHOTS_NAME).map(|it| it.object);
    assert_eq!(find(&on), Err(NameError::NotFound));
    assert_eq!(on.snapshot(b"x", 1), Err(NameError::NotFound));
    let what = New::Node { mode: 0o600, device: 0 };
    let made = on.tree.make(&on.store, ROOT, SNAPSHOTS_NAME, what, &BY);
    assert_eq!(made.map(|_| ()), Err(NameError::NotPermitted));
    let other = file(&mut on, ROOT, b"a", b"1");
    let to = (ROOT, SNAPSHOTS_NAME);
    let renamed = on.tree.rename(&on.store, (ROOT, b"a"), to, 0, 1);
    assert_eq!(renamed, Err(NameError::NotPermitted), "it would be hidden");
    let linked = on.tree.link(&on.store, other, to, 1).map(|_| ());
    assert_eq!(linked, Err(NameError::NotPermitted));

    let all = mkdir(&mut on, ROOT, SNAPSHOTS_NAME).unwrap();
    assert_eq!(find(&on), Ok(all));
    assert_eq!(mkdir(&mut on, ROOT, SNAPSHOTS_NAME), Err(NameError::Exists));
    assert_eq!(look_objects(&on).len(), 2, "it is not listed");
    let away = on.tree.rename(&on.store, to, (ROOT, b"b"), 0, 1);
    assert_eq!(away, Err(NameError::NotPermitted));
    let elsewhere = mkdir(&mut on, ROOT, b"d").unwrap();
    mkdir(&mut on, elsewhere, SNAPSHOTS_NAME).unwrap();

    let top = on.snapshot(b"x", 1).unwrap();
    assert_eq!(on.snapshot(b"x", 1), Err(NameError::Exists));
    assert_eq!(on.snapshot(b"a/b", 1), Err(NameError::Invalid));
    let inner = on.tree.lookup(&on.store, top, SNAPSHOTS_NAME).map(|_| ());
    assert_eq!(inner, Err(NameError::NotFound), "no snapshots within snapshots");
    let remove = |on: &Mounted| on.tree.rmdir(&on.store, ROOT, SNAPSHOTS_NAME, 1);
    assert_eq!(remove(&on), Err(NameError::NotEmpty));
    // nor while it is in use
    let opened = on.tree.lookup(&on.store, top, b"a").unwrap().object;
    on.tree.open(&on.store, opened).unwrap();
    assert_eq!(on.tree.delete_snapshot(&on.store, b"x", 2), Err(NameError::Busy));
    assert_eq!(on.tree.release(&on.store, opened), Ok(Vec::new()));
    let changes = on.tree.delete_snapshot(&on.store, b"x", 2).unwrap();
    on.commit(&changes).unwrap();
    let gone = on.tree.inode(&on.store, opened).map(|_| ());
    assert_eq!(gone, Err(NameError::OtherVolume), "nobody sees it any more");
    on.clear_deleted(1).unwrap();
    let changes = remove(&on).unwrap();
    on.commit(&changes).unwrap();
    assert_eq!((find(&on), on.tree.snapshots(&on.store)), (Err(NameError::NotFound), Ok(None)));
    assert_sound(&on);
    assert_nothing_hidden(&on);
}

/// A store that is full leaves what there was.
#[test]
fn a_snapshot_without_room_leaves_nothing() {
    let mut on = mounted();
    for name in [b"a", b"b", b"c", b"d"] {
        file(&mut on, ROOT, name, &[name[0]; 5000]);
    }
    mkdir(&mut on, ROOT, SNAPSHOTS_NAME).unwrap();
    on.store.flush();
    let before = look(&on, ROOT);
    on.store.let_objects(9);
    assert_eq!(on.snapshot(b"x", 1), Err(NameError::NoSpace));
    assert_sound(&on);
    on.clear_deleted(2).unwrap();
    assert_eq!(look(&on, ROOT), before);
    assert_sound(&on);
    assert_nothing_hidden(&on);
}

/// Whatever stands on the drives: errors, and neither a panic nor a walk without end.
#[test]
fn damage_is_an_error() {
    let mut on = mounted();
    let d = mkdir(&mut on, ROOT, b"d").unwrap();
    let e = mkdir(&mut on, d, b"e").unwrap();
    let kept = file(&mut on, e, b"a", &[1; 5000]);
    let all = mkdir(&mut on, ROOT, SNAPSHOTS_NAME).unwrap();
    let top = on.snapshot(b"x", 1).unwrap();
    let naming = |object: ObjectId| [&[1][..], &object.0.to_le_bytes()].concat();
    let inode = |on: &Mounted, object| on.store.attribute(object, b"I").unwrap().to_vec();
    let with_volume = |mut bytes: Vec<u8>, volume: ObjectId| {
        bytes[57..65].copy_from_slice(&volume.0.to_le_bytes());
        bytes
    };
    let (shelf, of_kept) = (inode(&on, all), inode(&on, kept));
    let mut large = of_kept.clone();
    large[25..33].fill(0xff);
    let damages: Vec<(ObjectId, &[u8], Vec<u8>)> = vec![
        (ROOT, b"S", b"?".to_vec()),
        (ROOT, b"S", naming(ObjectId(9999))),
        (ROOT, b"S", naming(kept)),
        (ROOT, b"S", naming(ROOT)),
        (ROOT, b"S", naming(top)),
        (all, b"I", b"?".to_vec()),
        (all, b"I", with_volume(shelf, ROOT)),
        (all, b"K", naming(top)),
        (top, b"K", b"".to_vec()),
        (top, b"I", b"?".to_vec()),
        (top, b"I", with_volume(inode(&on, top), ROOT)),
        (kept, b"I", large),
        (kept, b"I", with_volume(of_kept, top)),
        (e, b"I", b"?".to_vec()),
        // a directory in itself
        (e, &on.store.next_attribute(d, b"E").unwrap().0.to_vec().leak()[..], entry_of(&on, d)),
        (d, b"I", with_volume(inode(&on, d), top)),
    ];
    for (object, key, value) in damages {
        let mut on = on.clone();
        let change = Change::Set { object, key: key.to_vec(), value: value.clone() };
        on.store.commit(&[change]).unwrap();
        let mut faults = 0;
        tandem_names::check::check(&on.store, ROOT, &mut |_| faults += 1);
        assert!(faults > 0, "{object:?} {key:?} {value:?}");
        let _ = on.tree.snapshot_list(&on.store).map(|list| list.len());
        let _ = on.snapshot(b"y", 2);
        for name in [b"x", b"y"] {
            if let Ok(changes) = on.tree.delete_snapshot(&on.store, name, 3) {
                let _ = on.commit(&changes);
            }
        }
        let _ = on.clear_deleted(3);
        let _ = Mounted::mount(on.unmount(), ROOT, TIERS).map(|_| ());
    }
}

/// The value of the first entry of a directory.
fn entry_of(on: &Mounted, directory: ObjectId) -> Vec<u8> {
    on.store.next_attribute(directory, b"E").unwrap().1.to_vec()
}
