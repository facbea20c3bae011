//! Do snapshots of a volume of files show one moment, stay, and go?
//!
//! Requirement L4. The real program over emulated drives, which lose what was not flushed when it dies.

use crate::support::mounting::{end, errno, has_fuse, mount, with_point};
use crate::support::program::{printed, tandem, told};
use crate::support::synced::{Cleared, EMULATED};
use crate::support::{PATIENCE, PoolFixture};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

const EROFS: i32 = 30;
const EBUSY: i32 = 16;
const ENOSPC: i32 = 28;

fn prepared() -> Option<(PoolFixture, PathBuf, Cleared)> {
    has_fuse("snapshots of files").then(|| with_point(EMULATED))
}

/// What a user sees below a directory: kind and mode, and the bytes or the target.
fn look(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|line| line.unwrap().path()));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        found.insert(path.strip_prefix(top).unwrap().to_owned(), (meta.mode(), bytes));
    }
    found
}

fn snapshot(pool: &PoolFixture, more: &[&str]) -> Output {
    tandem(&[&["snapshot", pool.config()], more].concat())
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    printed(output)
}

fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", told(output));
    assert!(told(output).contains(why), "{}", told(output));
}

fn fill(point: &Path) {
    fs::create_dir_all(point.join("d/e")).unwrap();
    for number in 0..300 {
        let bytes = vec![number as u8; 100 * number];
        fs::write(point.join(format!("d/{number}")), bytes).unwrap();
    }
    fs::write(point.join("d/e/large"), vec![7; 3 << 20]).unwrap();
    fs::hard_link(point.join("d/e/large"), point.join("same")).unwrap();
    symlink("d/5", point.join("link")).unwrap();
}

fn change(point: &Path) {
    for number in 0..100 {
        fs::remove_file(point.join(format!("d/{number}"))).unwrap();
    }
    let file = File::options().write(true).open(point.join("same")).unwrap();
    file.write_all_at(&[8; 70_000], 500_000).unwrap();
    file.set_len(1 << 20).unwrap();
    fs::rename(point.join("d/e"), point.join("f")).unwrap();
    fs::write(point.join("new"), b"new").unwrap();
}

#[test]
fn a_snapshot_keeps_all_files_and_outlives_a_crash() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount(&pool, &point);
    fill(&point);
    let before = look(&point);
    assert_eq!(done(&snapshot(&pool, &[])), "no snapshots\n");
    // nothing was flushed, and what the snapshot shows is there all the same
    let said = done(&snapshot(&pool, &["files", "one"]));
    let one = point.join(".snapshots/one");
    assert!(said.contains(&format!("files@one is taken, in {}", one.display())), "{said}");
    assert_eq!(look(&one), before);
    assert_eq!(look(&point), before, "it is not listed in the volume");
    change(&point);
    let after = look(&point);
    assert_eq!(look(&one), before);
    fs::create_dir(point.join(".snapshots/two")).unwrap();
    mounted.kill();

    let mounted = mount(&pool, &point);
    let two = point.join(".snapshots/two");
    assert!(look(&one) == before && look(&two) == after && look(&point) == after);
    let listed = done(&snapshot(&pool, &[]));
    assert!(listed.contains("files@one: taken") && listed.contains("files@two: taken"), "{listed}");
    // what was lost is copied back, without its bytes
    let words =
        [PathBuf::from("-a"), "--reflink=auto".into(), one.join("d/e/large"), point.join("again")];
    let output = Command::new("cp").args(words).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(fs::read(point.join("again")).unwrap(), vec![7; 3 << 20]);
    done(&snapshot(&pool, &["files", "one", "--delete"]));
    assert_eq!(errno(fs::metadata(&one)), Some(2));
    assert_eq!(look(&two), after);
    // in the middle of what goes on behind its deletion
    mounted.kill();
    let mounted = mount(&pool, &point);
    assert_eq!(look(&two), after);
    fs::remove_dir(&two).unwrap();
    fs::remove_dir(point.join(".snapshots")).unwrap();
    assert_eq!(errno(fs::metadata(point.join(".snapshots"))), Some(2));
    end(mounted, &pool);
    let checked = printed(&pool.run("check", &[]));
    assert!(checked.contains("files: ") && !checked.contains("snapshots"), "{checked}");
}

/// What was written before it is in it, for each file that changes all the time; and nothing that came later.
#[test]
fn a_snapshot_under_writers_shows_one_moment() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let mounted = mount(&pool, &point);
    fs::create_dir(point.join(".snapshots")).unwrap();
    // each round writes its number to one file after the other: at no moment they differ by more than one, and
    // none behind is ahead
    const FILES: usize = 8;
    let path = |at: usize| point.join(format!("f{at}"));
    let files: Vec<File> = (0..FILES).map(|at| File::create(path(at)).unwrap()).collect();
    files.iter().for_each(|file| file.write_all_at(&0u64.to_le_bytes(), 5000).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1u64.. {
                for file in &files {
                    file.write_all_at(&round.to_le_bytes(), 5000).unwrap();
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let mut last = 0;
        for which in 0..10 {
            let top = point.join(format!(".snapshots/{which}"));
            fs::create_dir(&top).unwrap();
            let seen: Vec<u64> = (0..FILES)
                .map(|at| {
                    let bytes = fs::read(top.join(format!("f{at}"))).unwrap();
                    u64::from_le_bytes(bytes[5000..].try_into().unwrap())
                })
                .collect();
            let is_falling = seen.is_sorted_by(|a, b| a >= b) && seen[0] - seen[FILES - 1] <= 1;
            assert!(is_falling && seen[0] >= last, "{seen:?}");
            last = seen[0];
        }
        stop.store(true, Ordering::Relaxed);
        assert!(last > 0, "the writer went on between the snapshots");
    });
    end(mounted, &pool);
}

#[test]
fn what_cannot_be_is_refused() {
    let Some((pool, point, _cleared)) = prepared() else { return };
    let silent = snapshot(&pool, &["files", "one"]);
    assert!(told(&silent).contains("no server answers"), "{}", told(&silent));
    let mounted = mount(&pool, &point);
    fs::write(point.join("a"), b"1").unwrap();
    refused(&snapshot(&pool, &["files", "one", "--delete"]), "there is no snapshot files@one");
    refused(&snapshot(&pool, &["files", "a/b"]), "cannot be the name of a snapshot");
    refused(&snapshot(&pool, &["other", "one"]), "there is no volume \"other\"");
    done(&snapshot(&pool, &["files", "one"]));
    refused(&snapshot(&pool, &["files", "one"]), "there is a snapshot files@one already");
    let one = point.join(".snapshots/one");
    for path in [one.join("b"), point.join(".snapshots/b"), one.join("a")] {
        assert_eq!(errno(fs::write(path, b"2")), Some(EROFS));
    }
    assert_eq!(errno(fs::create_dir(one.join("b"))), Some(EROFS));
    assert_eq!(errno(fs::create_dir(one.join(".snapshots"))), Some(EROFS), "of a snapshot");
    assert_eq!(errno(fs::remove_file(one.join("a"))), Some(EROFS));
    assert_eq!(errno(fs::rename(one.join("a"), point.join("b"))), Some(EROFS));
    assert_eq!(errno(fs::rename(&one, point.join("b"))), Some(EROFS));
    assert_eq!(errno(fs::hard_link(one.join("a"), point.join("b"))), Some(EROFS));
    assert_eq!(errno(File::options().append(true).open(one.join("a"))), Some(EROFS));
    let open = File::open(one.join("a")).unwrap();
    assert_eq!(errno(open.set_modified(std::time::SystemTime::UNIX_EPOCH)), Some(EROFS));
    assert_eq!(errno(fs::remove_dir(&one)), Some(EBUSY));
    refused(&snapshot(&pool, &["files", "one", "--delete"]), "files@one is in use");
    let full = fs::remove_dir(point.join(".snapshots")).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    let mut read = [0];
    open.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, *b"1");
    drop(open);
    fs::remove_dir(&one).unwrap();
    end(mounted, &pool);
}

/// A volume that has no room for what is written after a snapshot says so, and loses nothing.
#[test]
fn a_full_pool_keeps_the_volume_and_its_snapshot() {
    if !has_fuse("snapshots of files") {
        return;
    }
    let small = EMULATED.replace("1GiB", "128MiB").replace("2GiB", "256MiB");
    let (pool, point, _cleared) = with_point(&small);
    let mounted = mount(&pool, &point);
    let found = rustix::fs::statvfs(&point).unwrap();
    let free = found.f_bavail * found.f_frsize;
    // more than half of the room, so that it does not fit twice
    let (path, bytes) = (point.join("large"), vec![1; (free / 5 * 3) as usize]);
    fs::write(&path, &bytes).unwrap();
    done(&snapshot(&pool, &["files", "one"]));
    let file = File::options().write(true).open(&path).unwrap();
    let (mut at, new) = (0, vec![2; 1 << 20]);
    let error = loop {
        assert!(at < bytes.len() as u64, "it does not fit twice");
        match file.write_all_at(&new, at) {
            Ok(()) => at += new.len() as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(ENOSPC));
    let part = |path: &Path, at: u64| {
        let mut part = [0; 4096];
        File::open(path).unwrap().read_exact_at(&mut part, at).unwrap();
        part[0]
    };
    let kept = point.join(".snapshots/one/large");
    assert_eq!((part(&path, 0), part(&path, at + (1 << 20)), part(&kept, 0)), (2, 1, 1));
    // its room is free when it is gone, sooner or later
    fs::remove_dir(point.join(".snapshots/one")).unwrap();
    let since = std::time::Instant::now();
    while file.write_all_at(&new, at).is_err() {
        assert!(since.elapsed() < PATIENCE, "what a deleted snapshot held is free again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(part(&path, at), 2);
    end(mounted, &pool);
}
