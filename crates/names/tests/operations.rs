//! Does every operation do what POSIX says, and refuse what it must with the right errno?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use tandem_block::{ObjectId, Rng};
use tandem_names::check::{self, Fault};
use tandem_names::memory::{Memory, Mounted};
use tandem_names::{
    Caller, Change, EXCHANGE, FILE_BYTES_MAX, FIRST_COOKIE, Inode, Kind, LINKS_MAX, NOREPLACE,
    NameError, New, Objects as _, SetAttributes, SetMode, Tree, mode,
};

const ROOT: ObjectId = ObjectId(1);
const BY: Caller = Caller { uid: 7, gid: 8, now_ns: 1_000_000_000 };
const FILE: New<'static> = New::Node { mode: 0o644, device: 0 };
const DIRECTORY: New<'static> = New::Directory { mode: 0o755 };

/// A volume with `objects_max` objects at most, mounted.
fn volume(objects_max: u64) -> Mounted {
    let mut store = Memory::new(objects_max);
    store.format(ROOT, 0o755, &BY).unwrap();
    Mounted::mount(store, ROOT, &["hot", "cold"]).unwrap()
}

fn make(fs: &mut Mounted, at: ObjectId, name: &[u8], what: New<'_>) -> Result<ObjectId, NameError> {
    let made = fs.tree.make(&fs.store, at, name, what, &BY)?;
    fs.commit(&made.changes)?;
    Ok(made.stat.object)
}

fn rename(
    fs: &mut Mounted,
    from: (ObjectId, &[u8]),
    to: (ObjectId, &[u8]),
    flags: u32,
) -> Result<(), NameError> {
    let changes = fs.tree.rename(&fs.store, from, to, flags, 5)?;
    fs.commit(&changes)
}

fn inode(fs: &Mounted, object: ObjectId) -> Inode {
    fs.tree.inode(&fs.store, object).unwrap()
}

fn faults(fs: &Mounted) -> Vec<Fault> {
    let mut faults = Vec::new();
    check::check(&fs.store, ROOT, &mut |fault| faults.push(fault));
    faults
}

/// `/d/` (with `/d/e/`, `/d/f`), `/empty/`, `/f`, `/link -> f`, and a second volume beside it.
struct Sample {
    fs: Mounted,
    d: ObjectId,
    e: ObjectId,
    f: ObjectId,
    symlink: ObjectId,
    foreign: ObjectId,
}

fn sample() -> Sample {
    let mut fs = volume(1000);
    let d = make(&mut fs, ROOT, b"d", DIRECTORY).unwrap();
    let e = make(&mut fs, d, b"e", DIRECTORY).unwrap();
    make(&mut fs, d, b"f", FILE).unwrap();
    make(&mut fs, ROOT, b"empty", DIRECTORY).unwrap();
    let f = make(&mut fs, ROOT, b"f", FILE).unwrap();
    let symlink = make(&mut fs, ROOT, b"link", New::Symlink { target: b"f" }).unwrap();
    let foreign = fs.store.fresh_id();
    fs.store.format(foreign, 0o755, &BY).unwrap();
    assert_eq!(faults(&fs), []);
    Sample { fs, d, e, f, symlink, foreign }
}

#[test]
fn names_that_are_none_are_refused_everywhere() {
    let Sample { fs, f, .. } = sample();
    let (tree, on) = (&fs.tree, &fs.store);
    let long = [b'x'; 256];
    for (name, errno) in
        [(&b""[..], 22), (b".", 22), (b"..", 22), (b"a/b", 22), (b"a\0", 22), (&long, 36)]
    {
        let there = (ROOT, name);
        for result in [
            tree.lookup(on, ROOT, name).map(|_| ()),
            tree.make(on, ROOT, name, FILE, &BY).map(|_| ()),
            tree.create(on, ROOT, name, (0o600, false), &BY).map(|_| ()),
            tree.unlink(on, ROOT, name, 1).map(|_| ()),
            tree.rmdir(on, ROOT, name, 1).map(|_| ()),
            tree.link(on, f, there, 1).map(|_| ()),
            tree.rename(on, there, (ROOT, b"y"), 0, 1).map(|_| ()),
            tree.rename(on, (ROOT, b"f"), there, 0, 1).map(|_| ()),
        ] {
            assert_eq!(result.map_err(NameError::errno), Err(errno), "{name:?}");
        }
    }
}

#[test]
fn any_other_byte_and_255_of_them_are_a_name() {
    let mut fs = volume(1000);
    let mut names: Vec<Vec<u8>> =
        (1..=255u8).filter(|b| !b"/.".contains(b)).map(|b| vec![b]).collect();
    names.push(vec![0xff; 255]);
    names.push(b"...".to_vec());
    for name in &names {
        make(&mut fs, ROOT, name, FILE).unwrap();
    }
    for name in &names {
        assert!(fs.tree.lookup(&fs.store, ROOT, name).is_ok());
    }
    let listed = fs.tree.list(&fs.store, ROOT, FIRST_COOKIE).unwrap();
    assert_eq!(listed.count(), names.len() + 2, "with . and ..");
    assert_eq!(faults(&fs), []);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn errnos_of_operations_that_cannot_be() {
    let Sample { fs, d, e, f, symlink, foreign } = sample();
    let (tree, on) = (&fs.tree, &fs.store);
    let gone = ObjectId(999);
    let node = |mode| New::Node { mode, device: 0 };
    let unit = |result: Result<_, NameError>| result.map(|_: Vec<Change>| ());
    let size = |size_bytes| SetAttributes { size_bytes: Some(size_bytes), ..Default::default() };
    let renamed = |from, to, flags| unit(tree.rename(on, from, to, flags, 1));
    let made = |at, name: &[u8], what| tree.make(on, at, name, what, &BY).map(|_| ());
    let long = [b'x'; 4096];
    let table: &[(&str, Result<(), NameError>, i32)] = &[
        ("look for what is not there", tree.lookup(on, ROOT, b"g").map(|_| ()), 2),
        ("look into a file", tree.lookup(on, f, b"g").map(|_| ()), 20),
        ("look into nothing", tree.lookup(on, gone, b"g").map(|_| ()), 2),
        ("look into another volume", tree.lookup(on, foreign, b"g").map(|_| ()), 18),
        ("make what is there", made(ROOT, b"d", FILE), 17),
        ("make in a file", made(f, b"g", FILE), 20),
        ("make in nothing", made(gone, b"g", FILE), 2),
        ("mknod of a directory", made(ROOT, b"g", node(mode::DIRECTORY)), 1),
        ("mknod of a symlink", made(ROOT, b"g", node(mode::SYMLINK)), 22),
        ("mknod of no kind", made(ROOT, b"g", node(0o170_000)), 22),
        ("symlink to nothing", made(ROOT, b"g", New::Symlink { target: b"" }), 2),
        ("symlink too far", made(ROOT, b"g", New::Symlink { target: &long }), 36),
        ("create with O_EXCL", tree.create(on, ROOT, b"f", (0, true), &BY).map(|_| ()), 17),
        ("create a directory", tree.create(on, ROOT, b"d", (0, false), &BY).map(|_| ()), 21),
        ("create a symlink", tree.create(on, ROOT, b"link", (0, false), &BY).map(|_| ()), 40),
        ("open a symlink", tree.clone().open(on, symlink).map(|_| ()), 40),
        ("read a link that is none", tree.read_link(on, f).map(|_| ()), 22),
        ("unlink a directory", unit(tree.unlink(on, ROOT, b"d", 1)), 21),
        ("unlink nothing", unit(tree.unlink(on, ROOT, b"g", 1)), 2),
        ("unlink in a file", unit(tree.unlink(on, f, b"g", 1)), 20),
        ("rmdir a file", unit(tree.rmdir(on, ROOT, b"f", 1)), 20),
        ("rmdir with entries", unit(tree.rmdir(on, ROOT, b"d", 1)), 39),
        ("rmdir nothing", unit(tree.rmdir(on, ROOT, b"g", 1)), 2),
        ("link a directory", tree.link(on, d, (ROOT, b"g"), 1).map(|_| ()), 1),
        ("link to a taken name", tree.link(on, f, (ROOT, b"d"), 1).map(|_| ()), 17),
        ("link from another volume", tree.link(on, foreign, (ROOT, b"g"), 1).map(|_| ()), 18),
        ("link into another volume", tree.link(on, f, (foreign, b"g"), 1).map(|_| ()), 18),
        ("rename nothing", renamed((ROOT, b"g"), (ROOT, b"h"), 0), 2),
        ("rename to another volume", renamed((ROOT, b"f"), (foreign, b"f"), 0), 18),
        ("rename into itself", renamed((ROOT, b"d"), (d, b"g"), 0), 22),
        ("rename below itself", renamed((ROOT, b"d"), (e, b"g"), 0), 22),
        ("exchange with what is in it", renamed((d, b"e"), (ROOT, b"d"), EXCHANGE), 22),
        ("exchange with nothing", renamed((ROOT, b"f"), (ROOT, b"g"), EXCHANGE), 2),
        ("rename to a taken name", renamed((ROOT, b"f"), (d, b"f"), NOREPLACE), 17),
        ("two flags", renamed((ROOT, b"f"), (d, b"f"), NOREPLACE | EXCHANGE), 22),
        ("whiteout", renamed((ROOT, b"f"), (d, b"f"), 4), 22),
        ("directory over a file", renamed((ROOT, b"d"), (ROOT, b"f"), 0), 20),
        ("file over a directory", renamed((ROOT, b"f"), (ROOT, b"empty"), 0), 21),
        ("directory over a full one", renamed((ROOT, b"empty"), (ROOT, b"d"), 0), 39),
        ("size of a directory", unit(tree.set_attributes(on, d, &size(0), 1)), 21),
        ("size of a link", unit(tree.set_attributes(on, symlink, &size(0), 1)), 22),
        ("size above all", unit(tree.set_attributes(on, f, &size(FILE_BYTES_MAX + 1), 1)), 27),
        ("write above all", unit(tree.make_room(on, f, FILE_BYTES_MAX + 1)), 27),
        ("read a directory", tree.range(on, d, 0, 1).map(|_| ()), 21),
        ("list a file", tree.list(on, f, FIRST_COOKIE).map(|_| ()), 20),
        ("mount what is no volume", Tree::mount(on, d, &[]).map(|_| ()), 2),
    ];
    for (what, result, errno) in table {
        assert_eq!(result.map_err(NameError::errno), Err(*errno), "{what}");
    }
}

#[test]
fn extended_attributes_are_checked() {
    let Sample { mut fs, d, f, symlink, .. } = sample();
    let set = |fs: &Mounted, object, name: &[u8], value: &[u8], mode| {
        fs.tree.set_xattr(&fs.store, object, (name, value), mode, 1)
    };
    let long_name = [b"user.".to_vec(), vec![b'x'; 251]].concat();
    for (object, name, value, mode, errno) in [
        (f, &b"system.posix_acl_access"[..], &b""[..], SetMode::Any, 95),
        (f, b"other", b"", SetMode::Any, 95),
        (f, b"user.", b"", SetMode::Any, 22),
        (f, &long_name, b"", SetMode::Any, 7),
        (f, b"user.a", &[0; 4097], SetMode::Any, 7),
        (f, b"user.a", b"", SetMode::Replace, 61),
        (symlink, b"user.a", b"", SetMode::Any, 1),
        (d, b"user.tandem.tier", b"lukewarm", SetMode::Any, 22),
        (d, b"user.tandem.other", b"hot", SetMode::Any, 22),
    ] {
        let result = set(&fs, object, name, value, mode).map(|_| ());
        assert_eq!(result.map_err(NameError::errno), Err(errno), "{name:?}");
    }
    let changes = set(&fs, f, b"user.a", &[9; 4096], SetMode::Create).unwrap();
    fs.commit(&changes).unwrap();
    assert_eq!(fs.tree.xattr(&fs.store, f, b"user.a").unwrap(), [9; 4096]);
    assert_eq!(inode(&fs, f).changed_ns, 1);
    assert_eq!(set(&fs, f, b"user.a", b"", SetMode::Create), Err(NameError::Exists));
    assert_eq!(fs.tree.xattr_list(&fs.store, f).unwrap(), b"user.a\0");
    let changes = fs.tree.remove_xattr(&fs.store, f, b"user.a", 2).unwrap();
    fs.commit(&changes).unwrap();
    assert_eq!(fs.tree.xattr(&fs.store, f, b"user.a"), Err(NameError::NoAttribute));
    assert_eq!(fs.tree.remove_xattr(&fs.store, f, b"user.a", 2), Err(NameError::NoAttribute));
    let mut taken = 0;
    let full = (0..).find_map(|number| {
        let name = format!("user.{number:0>240}");
        taken += name.len() + 1;
        let changes = match set(&fs, f, name.as_bytes(), b"", SetMode::Any) {
            Ok(changes) => changes,
            Err(error) => return Some(error),
        };
        fs.commit(&changes).unwrap();
        None
    });
    assert_eq!(full, Some(NameError::AttributeTooLarge));
    assert!(taken > 65_536 && taken < 65_536 + 250, "the list is as long as Linux takes");
}

#[test]
fn a_directorys_tier_is_that_of_what_is_made_in_it() {
    let mut fs = volume(100);
    let tier = b"user.tandem.tier";
    let d = make(&mut fs, ROOT, b"d", DIRECTORY).unwrap();
    let before = make(&mut fs, d, b"before", FILE).unwrap();
    let changes = fs.tree.set_xattr(&fs.store, d, (tier, b"cold"), SetMode::Any, 1).unwrap();
    fs.commit(&changes).unwrap();
    let below = make(&mut fs, d, b"below", DIRECTORY).unwrap();
    let file = make(&mut fs, below, b"file", FILE).unwrap();
    assert_eq!(fs.tree.xattr(&fs.store, file, tier).unwrap(), b"cold");
    assert_eq!(fs.tree.xattr(&fs.store, before, tier), Err(NameError::NoAttribute));
}

#[test]
fn links_are_counted_up_to_the_limit() {
    let Sample { mut fs, d, f, .. } = sample();
    let changes = fs.tree.link(&fs.store, f, (d, b"second"), 9).unwrap().changes;
    fs.commit(&changes).unwrap();
    assert_eq!((inode(&fs, f).links, inode(&fs, f).changed_ns), (2, 9));
    assert_eq!((inode(&fs, d).links, inode(&fs, d).modified_ns), (3, 9));
    assert_eq!(faults(&fs), []);
    for (object, full) in [(f, LINKS_MAX), (d, LINKS_MAX)] {
        let value = Inode { links: full, ..inode(&fs, object) }.encode();
        fs.commit(&[Change::Set { object, key: b"I".to_vec(), value }]).unwrap();
    }
    let link = fs.tree.link(&fs.store, f, (ROOT, b"third"), 1).map(|_| ());
    assert_eq!(link.map_err(NameError::errno), Err(31));
    let mkdir = fs.tree.make(&fs.store, d, b"more", DIRECTORY, &BY).map(|_| ());
    assert_eq!(mkdir.map_err(NameError::errno), Err(31));
    let rename = fs.tree.rename(&fs.store, (ROOT, b"empty"), (d, b"more"), 0, 1).map(|_| ());
    assert_eq!(rename.map_err(NameError::errno), Err(31));
}

#[test]
fn what_is_made_belongs_to_the_caller_or_to_the_directorys_group() {
    let Sample { mut fs, d, .. } = sample();
    let f = make(&mut fs, d, b"mine", New::Node { mode: 0o10_600, device: 3 }).unwrap();
    let it = inode(&fs, f);
    assert_eq!((it.uid, it.gid, it.kind(), it.device), (7, 8, Kind::Fifo, 0));
    let set = SetAttributes { mode: Some(0o2755), gid: Some(99), ..Default::default() };
    fs.set_attributes(d, &set, 6).unwrap();
    let below = make(&mut fs, d, b"below", DIRECTORY).unwrap();
    assert_eq!((inode(&fs, below).gid, inode(&fs, below).mode), (99, 0o042_755));
    let device = New::Node { mode: 0o060_600, device: 0x0801 };
    let device = make(&mut fs, below, b"sda1", device).unwrap();
    assert_eq!((inode(&fs, device).gid, inode(&fs, device).device), (99, 0x0801));
    let times = SetAttributes { accessed_ns: Some(-5), modified_ns: Some(3), ..Default::default() };
    fs.set_attributes(f, &times, 4).unwrap();
    let it = inode(&fs, f);
    assert_eq!((it.accessed_ns, it.modified_ns, it.changed_ns), (-5, 3, 4));
}

#[test]
fn renames_replace_exchange_and_keep_the_parents_right() {
    let Sample { mut fs, d, e, f, .. } = sample();
    rename(&mut fs, (d, b"e"), (ROOT, b"empty"), 0).unwrap();
    assert_eq!(fs.tree.lookup(&fs.store, ROOT, b"empty").unwrap().object, e);
    assert_eq!((inode(&fs, e).parent, inode(&fs, d).links), (ROOT, 2));
    assert_eq!(faults(&fs), []);
    // a file and a directory change places
    rename(&mut fs, (d, b"f"), (ROOT, b"empty"), EXCHANGE).unwrap();
    assert_eq!(fs.tree.lookup(&fs.store, d, b"f").unwrap().object, e);
    assert_eq!((inode(&fs, e).parent, inode(&fs, d).links, inode(&fs, ROOT).links), (d, 3, 3));
    assert_eq!(faults(&fs), []);
    // within one directory, over what is open
    fs.tree.open(&fs.store.clone(), f).unwrap();
    make(&mut fs, ROOT, b"g", FILE).unwrap();
    rename(&mut fs, (ROOT, b"g"), (ROOT, b"f"), 0).unwrap();
    assert_eq!(inode(&fs, f).links, 0);
    assert_eq!(faults(&fs), [], "an orphan is no fault");
    fs.write(f, 0, b"still here", 1).unwrap();
    assert_eq!(fs.read(f, 0, 100).unwrap(), b"still here");
    let changes = fs.tree.release(&fs.store, f).unwrap();
    fs.commit(&changes).unwrap();
    assert_eq!(fs.store.size_bytes(f), None);
    assert_eq!(faults(&fs), []);
}

#[test]
fn orphans_of_a_crash_are_reaped_at_the_next_mount() {
    let Sample { mut fs, d, e, .. } = sample();
    let mut files = Vec::new();
    for number in 0..200 {
        let name = format!("{number}");
        let file = make(&mut fs, e, name.as_bytes(), FILE).unwrap();
        fs.tree.open(&fs.store.clone(), file).unwrap();
        let changes = fs.tree.unlink(&fs.store, e, name.as_bytes(), 1).unwrap();
        fs.commit(&changes).unwrap();
        files.push(file);
    }
    fs.tree.open(&fs.store.clone(), e).unwrap();
    let changes = fs.tree.rmdir(&fs.store, d, b"e", 1).unwrap();
    fs.commit(&changes).unwrap();
    assert_eq!(fs.tree.make(&fs.store, e, b"g", FILE, &BY).map(|_| ()), Err(NameError::NotFound));
    let link = fs.tree.link(&fs.store, files[0], (ROOT, b"g"), 1).map(|_| ());
    assert_eq!(link, Err(NameError::NotFound), "it has lost its last name");
    fs.store.flush();
    let after = Mounted::mount(fs.store.after_crash(0, || true), ROOT, &[]).unwrap();
    files.push(e);
    assert!(files.iter().all(|file| after.store.size_bytes(*file).is_none()));
    assert_eq!(faults(&after), []);
}

#[test]
fn a_listing_goes_on_while_names_come_and_go() {
    let mut fs = volume(10_000);
    let mut rng = Rng::new(3);
    let stays: Vec<String> = (0..300).map(|number| format!("stays-{number}")).collect();
    for name in &stays {
        make(&mut fs, ROOT, name.as_bytes(), FILE).unwrap();
    }
    let (mut cookie, mut found, mut others) = (FIRST_COOKIE, Vec::new(), Vec::new());
    for turn in 0.. {
        let page: Vec<_> = fs.tree.list(&fs.store, ROOT, cookie).unwrap().take(7).collect();
        if page.is_empty() {
            break;
        }
        for line in page {
            let line = line.unwrap();
            assert!(line.cookie > cookie && line.cookie < 1 << 63);
            cookie = line.cookie;
            found.push(String::from_utf8(line.name.to_vec()).unwrap());
        }
        let name = format!("comes-{turn}");
        make(&mut fs, ROOT, name.as_bytes(), FILE).unwrap();
        others.push(name);
        if rng.below(2) == 0 {
            let gone = others.swap_remove(rng.below(others.len() as u64) as usize);
            let changes = fs.tree.unlink(&fs.store, ROOT, gone.as_bytes(), 1).unwrap();
            fs.commit(&changes).unwrap();
        }
    }
    let count = |name: &String| found.iter().filter(|other| *other == name).count();
    assert!(stays.iter().all(|name| count(name) == 1), "each once");
    assert!(found.iter().all(|name| count(name) == 1), "nothing twice");
}

#[test]
fn a_tree_may_be_deep() {
    let mut fs = volume(u64::MAX);
    let mut at = ROOT;
    for _ in 0..20_000 {
        at = make(&mut fs, at, b"d", DIRECTORY).unwrap();
    }
    assert_eq!(faults(&fs), []);
    assert_eq!(rename(&mut fs, (ROOT, b"d"), (at, b"x"), 0), Err(NameError::Invalid));
    let top = fs.tree.lookup(&fs.store, ROOT, b"d").unwrap().object;
    rename(&mut fs, (top, b"d"), (ROOT, b"x"), 0).unwrap();
    assert_eq!(faults(&fs), []);
}

#[test]
fn a_full_store_refuses_and_stays_readable() {
    let mut fs = volume(2);
    let f = make(&mut fs, ROOT, b"f", FILE).unwrap();
    for what in [FILE, DIRECTORY, New::Symlink { target: b"f" }] {
        assert_eq!(make(&mut fs, ROOT, b"g", what), Err(NameError::NoSpace));
    }
    assert_eq!(fs.tree.statfs(&fs.store).space.free_objects, 0);
    fs.write(f, 100, b"bytes", 1).unwrap();
    assert_eq!(fs.read(f, 99, 6).unwrap(), b"\0bytes");
    let changes = fs.tree.unlink(&fs.store, ROOT, b"f", 1).unwrap();
    fs.commit(&changes).unwrap();
    make(&mut fs, ROOT, b"g", DIRECTORY).unwrap();
    assert_eq!(faults(&fs), []);
}

/// Files of 8 EiB but one block are as cheap as small ones, while they are holes.
#[test]
fn sparse_files() {
    let Sample { mut fs, f, .. } = sample();
    let set = SetAttributes { size_bytes: Some(FILE_BYTES_MAX), ..Default::default() };
    fs.set_attributes(f, &set, 1).unwrap();
    fs.write(f, FILE_BYTES_MAX - 3, b"end", 1).unwrap();
    assert_eq!(fs.read(f, FILE_BYTES_MAX - 5, 100).unwrap(), b"\0\0end");
    assert_eq!(fs.write(f, FILE_BYTES_MAX, b"x", 1), Err(NameError::FileTooLarge));
    assert_eq!(fs.write(f, u64::MAX, b"x", 1), Err(NameError::FileTooLarge));
    let set = SetAttributes { size_bytes: Some(0), ..Default::default() };
    fs.set_attributes(f, &set, 1).unwrap();
    assert_eq!((fs.read(f, 0, 1).unwrap().len(), fs.store.size_bytes(f)), (0, Some(0)));
}

/// Appending changes the object's size now and then, and the inode once a tick.
#[test]
fn small_writes_change_little() {
    let Sample { mut fs, f, .. } = sample();
    fs.write(f, 0, &[1; 65_536], 0).unwrap();
    fs.store.flush();
    for at in 0..100 {
        fs.write(f, at * 512, &[2; 512], 3_999_999).unwrap();
    }
    assert_eq!(fs.store.unflushed_batches(), 0, "within a tick nothing but bytes changes");
    let before = fs.store.size_bytes(f).unwrap();
    fs.write(f, 65_536, &[3; 4096], 0).unwrap();
    fs.write(f, 69_632, &[3; 4096], 0).unwrap();
    assert_eq!(fs.store.unflushed_batches(), 3, "room for both, and two sizes");
    assert_eq!((before, fs.store.size_bytes(f)), (65_536, Some(73_728)));
}

#[test]
fn times_of_access_are_kept_where_they_tell_something() {
    let Sample { mut fs, f, .. } = sample();
    let mut read_at = |now_ns| {
        let changes = fs.tree.accessed(&fs.store, f, now_ns).unwrap();
        fs.commit(&changes).unwrap();
        inode(&fs, f).accessed_ns
    };
    assert_eq!(read_at(2_000_000_000), 2_000_000_000, "the first time since it was changed");
    assert_eq!(read_at(3_000_000_000), 2_000_000_000);
    let day = 86_400_000_000_000;
    assert_eq!(read_at(day + 2_000_000_000), day + 2_000_000_000);
}

/// The check sees each kind of damage, and says nothing else.
#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn the_check_finds_what_is_wrong() {
    let Sample { fs, d, e, f, symlink, .. } = sample();
    let position = fs.tree.list(&fs.store, ROOT, FIRST_COOKIE).unwrap();
    let position = position.map(Result::unwrap).find(|line| line.name == b"f").unwrap().cookie;
    let key = [&b"E"[..], &position.to_be_bytes()].concat();
    let entry = fs.store.attribute(ROOT, &key).unwrap().to_vec();
    let inode_key = b"I".to_vec();
    let set = |object, key: &[u8], value: Vec<u8>| Change::Set { object, key: key.to_vec(), value };
    let with = |object, change: fn(&mut Inode)| {
        let mut inode = inode(&fs, object);
        change(&mut inode);
        Change::Set { object, key: inode_key.clone(), value: inode.encode() }
    };
    let unset = |object, key: &[u8]| Change::Unset { object, key: key.to_vec() };
    let mut other_kind = entry.clone();
    other_kind[1] = 10;
    let elsewhere = [&b"E"[..], &(position + 16).to_be_bytes()].concat();
    let twice = [&b"E"[..], &(position + 1).to_be_bytes()].concat();
    let name = b"f".to_vec();
    let misplaced = Fault::Misplaced { directory: ROOT, name };
    let two = |counted| Fault::Links { object: f, said: 1, counted };
    let room = |said_bytes| Fault::Size { object: f, said_bytes, room_bytes: 0 };
    let attribute = |object, key: &[u8]| Fault::Attribute { object, key: key.to_vec() };
    let orphan_key = [&b"O"[..], &f.0.to_be_bytes()].concat();
    let table: Vec<(Vec<Change>, Vec<Fault>)> = vec![
        (vec![], vec![]),
        (vec![unset(ROOT, b"V")], vec![Fault::Root(ROOT)]),
        (vec![set(ROOT, b"V", vec![1])], vec![Fault::Root(ROOT)]),
        (vec![set(f, b"I", vec![1])], vec![Fault::Inode(f)]),
        (vec![unset(f, b"I")], vec![Fault::Inode(f)]),
        (vec![Change::Remove { object: f }], vec![Fault::Nothing { directory: ROOT, object: f }]),
        (vec![unset(ROOT, &key)], vec![Fault::Unreachable(f)]),
        (vec![set(ROOT, &key, other_kind)], vec![Fault::Kind { directory: ROOT, object: f }]),
        (vec![unset(ROOT, &key), set(ROOT, &elsewhere, entry.clone())], vec![misplaced.clone()]),
        (vec![set(ROOT, &twice, entry.clone())], vec![misplaced, two(2)]),
        (
            vec![with(f, |inode| inode.links = 3)],
            vec![Fault::Links { object: f, said: 3, counted: 1 }],
        ),
        (vec![with(e, |inode| inode.parent = ROOT)], vec![Fault::Parent(e)]),
        (vec![with(f, |inode| inode.size_bytes = 1)], vec![room(1)]),
        (
            vec![with(symlink, |inode| inode.size_bytes = 2)],
            vec![Fault::Size { object: symlink, said_bytes: 2, room_bytes: 0 }],
        ),
        (vec![set(d, b"Z", vec![])], vec![attribute(d, b"Z")]),
        (vec![set(f, b"L", vec![])], vec![attribute(f, b"L")]),
        (vec![set(ROOT, &orphan_key, vec![1])], vec![Fault::Orphan(f)]),
    ];
    for (changes, expected) in table {
        let mut damaged = fs.clone();
        damaged.commit(&changes).unwrap();
        assert_eq!(faults(&damaged), expected, "{changes:?}");
    }
    // a directory that is cut off takes what is in it along
    let key_of = |name: &[u8]| {
        let mut lines = fs.tree.list(&fs.store, ROOT, FIRST_COOKIE).unwrap().map(Result::unwrap);
        let cookie = lines.find(|line| line.name == name).unwrap().cookie;
        [&b"E"[..], &cookie.to_be_bytes()].concat()
    };
    let mut damaged = fs.clone();
    damaged.commit(&[unset(ROOT, &key_of(b"d"))]).unwrap();
    let found = faults(&damaged);
    assert_eq!(found.iter().filter(|f| matches!(f, Fault::Unreachable(_))).count(), 3, "{found:?}");
}
