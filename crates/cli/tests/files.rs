//! Is a mounted volume of files a file system, does it keep what it promised, and does it say what is
//! wrong?

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::mounting::{errno, has_fuse, mount, with_point};
use crate::support::program::{flip, json, printed, program, tandem, told};
use crate::support::synced::{self, Cleared, EMULATED, Mounted, Outcome, Plan};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tandem_block::Rng;

fn files() -> String {
    PoolText::named("p").ssd("256MiB").hdd("512MiB").files("files").mounted().text()
}

fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == point.to_str())
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

/// Everything below a directory: names, kinds, sizes, links and contents.
fn tree(folder: &Path) -> Vec<(PathBuf, String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let said =
                format!("{:o} {} {} {}", meta.mode(), meta.nlink(), meta.size(), meta.mtime());
            let bytes = match meta.file_type() {
                kind if kind.is_symlink() => {
                    fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
                }
                kind if kind.is_dir() => {
                    waiting.push(path.clone());
                    Vec::new()
                }
                // what is sparse is compared where it has something
                _ if meta.size() > 64 << 20 => Vec::new(),
                _ => fs::read(&path).unwrap(),
            };
            found.push((path, said, bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn files_and_directories_are_what_posix_says() {
    if !has_fuse("volumes of files") {
        return;
    }
    let (pool, point, _cleared) = with_point(&files());
    let mounted = mount(&pool, &point);
    names_and_links(&point);
    bytes_and_sizes(&point);
    attributes(&point);
    names_of_any_bytes(&point);
    let before = tree(&point);
    assert!(before.len() > 300);
    let (ended, said) = mounted.stop();
    assert!(ended.success() && said.contains("closed cleanly"), "{said}");
    assert!(!is_mounted(&point));
    let checked = pool.run("check", &[]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
    assert!(printed(&checked).contains("unmounted cleanly"), "{}", printed(&checked));
    let mounted = mount(&pool, &point);
    assert!(tree(&point) == before, "everything is there again");
    assert!(mounted.stop().0.success());
}

fn names_and_links(point: &Path) {
    let at = |name: &str| point.join(name);
    fs::write(at("a"), "first").unwrap();
    fs::create_dir(at("d")).unwrap();
    fs::rename(at("a"), at("d/b")).unwrap();
    assert_eq!(errno(fs::metadata(at("a"))), Some(2));
    fs::hard_link(at("d/b"), at("c")).unwrap();
    assert_eq!(fs::metadata(at("c")).unwrap().nlink(), 2);
    fs::write(at("c"), "second").unwrap();
    assert_eq!(fs::read_to_string(at("d/b")).unwrap(), "second", "one file, two names");
    std::os::unix::fs::symlink("d/b", at("s")).unwrap();
    assert_eq!(fs::read_to_string(at("s")).unwrap(), "second");
    assert_eq!(errno(fs::remove_dir(at("d"))), Some(39), "not empty");
    assert_eq!(errno(File::create_new(at("c"))), Some(17));
    assert_eq!(errno(fs::rename(at("d"), at("d/e"))), Some(22), "into itself");
    fs::create_dir(at("e")).unwrap();
    let root = File::open(point).unwrap();
    let swap = |flags| rustix::fs::renameat_with(&root, "e", &root, "c", flags);
    assert_eq!(swap(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    swap(RenameFlags::EXCHANGE).unwrap();
    assert!(fs::metadata(at("c")).unwrap().is_dir() && fs::metadata(at("e")).unwrap().is_file());
    // what is open outlives its name
    let mut open = File::open(at("e")).unwrap();
    fs::remove_file(at("e")).unwrap();
    fs::remove_file(at("d/b")).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!((&text[..], open.metadata().unwrap().nlink()), ("second", 0));
    let listed = fs::read_dir(point).unwrap().map(|entry| entry.unwrap().file_name());
    let mut listed: Vec<_> = listed.map(|name| name.into_string().unwrap()).collect();
    listed.sort();
    assert_eq!(listed, ["c", "d", "s"]);
}

fn bytes_and_sizes(point: &Path) {
    let path = point.join("bytes");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let mut expected = vec![0; 300_000];
    for (seed, (at, length)) in
        [(0, 5000), (100_000, 1), (99_999, 8193), (4095, 2), (299_000, 1000)]
            .into_iter()
            .enumerate()
    {
        let bytes = noise(seed as u64, length);
        file.write_all_at(&bytes, at as u64).unwrap();
        expected[at..at + length].copy_from_slice(&bytes);
    }
    assert!(fs::read(&path).unwrap() == expected);
    file.set_len(4100).unwrap();
    file.set_len(9000).unwrap();
    expected.truncate(4100);
    expected.resize(9000, 0);
    assert!(fs::read(&path).unwrap() == expected, "what was cut off is gone");
    // a hole, and a file that is one
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 100, 4500).unwrap();
    expected[100..4600].fill(0);
    assert!(fs::read(&path).unwrap() == expected);
    let reserve = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20);
    assert_eq!(reserve, Err(Errno::OPNOTSUPP), "space is not reserved");
    let sparse =
        File::options().read(true).write(true).create_new(true).open(point.join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    sparse.write_all_at(b"far away", (1 << 40) - 8).unwrap();
    let mut end = [1; 16];
    sparse.read_exact_at(&mut end, (1 << 40) - 16).unwrap();
    assert_eq!(&end, b"\0\0\0\0\0\0\0\0far away");
    // direct I/O beside the kernel's memory
    let flags = OFlags::DIRECT.bits().cast_signed();
    let direct = File::options().read(true).write(true).custom_flags(flags).open(&path).unwrap();
    direct.write_all_at(&[9; 4096], 4096).unwrap();
    expected[4096..8192].fill(9);
    assert!(fs::read(&path).unwrap() == expected, "both ways show the same");
    assert!(synced::read_direct(&path, 8192).unwrap() == expected[..8192]);
    file.seek(SeekFrom::End(0)).unwrap();
    let mut appended = File::options().append(true).open(&path).unwrap();
    appended.write_all(b"more").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9004);
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    let stat = rustix::fs::statvfs(point).unwrap();
    assert!(stat.f_namemax == 255 && stat.f_bfree < stat.f_blocks && stat.f_ffree > 1000);
}

fn attributes(point: &Path) {
    let path = point.join("attributes");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2751)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(
        (meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()),
        (0o2751, 1_000_000_000, 123_456_789)
    );
    let set =
        |name: &str, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
    set("user.color", b"green").unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&path, "user.color", &mut value[..]), Ok(5));
    assert_eq!(&value[..5], b"green");
    assert_eq!(set("user.tandem.tier", b"hot"), Err(Errno::OPNOTSUPP), "its volume has none");
    rustix::fs::removexattr(&path, "user.color").unwrap();
    let gone = rustix::fs::getxattr(&path, "user.color", &mut value[..]);
    assert_eq!(gone, Err(Errno::NODATA));
    let pipe = point.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(fs::symlink_metadata(&pipe).unwrap().mode() & 0o170_000, 0o010_000);
    fs::remove_file(&pipe).unwrap();
}

/// Every byte but NUL and '/' alone, and names of every length.
fn names_of_any_bytes(point: &Path) {
    let folder = point.join("names");
    fs::create_dir(&folder).unwrap();
    let bytes = (1..=255u8).filter(|byte| !b"/.".contains(byte)).map(|byte| vec![byte]);
    let long = (2..=255usize).map(|length| vec![0xfe; length]);
    let mut names: Vec<Vec<u8>> = bytes.chain(long).collect();
    for name in &names {
        fs::write(folder.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let too_long = folder.join(OsStr::from_bytes(&[b'x'; 256]));
    assert_eq!(errno(fs::write(too_long, "")), Some(36));
    let listed = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut listed: Vec<Vec<u8>> = listed.map(|name| name.as_bytes().to_vec()).collect();
    listed.sort();
    names.sort();
    assert!(listed == names);
    for name in &names {
        assert_eq!(fs::read(folder.join(OsStr::from_bytes(name))).unwrap(), *name);
    }
}

/// What is written through memory is there for who reads, and after the mount is gone.
#[test]
fn memory_maps_are_written_back() {
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    if !has_fuse("volumes of files") || !has_fio {
        println!("skipped: this needs FUSE and fio, so memory maps are NOT tested");
        return;
    }
    let (pool, point, _cleared) = with_point(&files());
    let mounted = mount(&pool, &point);
    let file = point.join("mapped");
    let fio = |verify_only: bool| {
        let mut fio = Command::new("timeout");
        fio.args(["60", "fio", "--name=map", "--ioengine=mmap", "--rw=randwrite", "--bs=4k"])
            .args(["--size=16m", "--verify=crc32c", "--end_fsync=1", "--randseed=7"])
            .arg(format!("--filename={}", file.display()))
            .args(verify_only.then_some("--verify_only"))
            .current_dir(pool.folder.path())
            .stdin(std::process::Stdio::null());
        let output = fio.output().unwrap();
        assert!(output.status.success(), "{}{}", printed(&output), told(&output));
    };
    fio(false);
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    assert!(mounted.end().0.success());
    let mounted = mount(&pool, &point);
    fio(true);
    assert!(mounted.stop().0.success());
}

/// Who unmounts it ends `tandem mount`; what is in the way of one is said.
#[test]
fn a_mount_comes_and_goes_and_says_what_is_in_its_way() {
    if !has_fuse("volumes of files") {
        return;
    }
    let (pool, point, _cleared) = with_point(&files());
    let refused = |words: &[&str]| {
        let started =
            Mounted::start(program(), &[&["mount", pool.config()], words].concat(), &point);
        match started {
            Ok(_) => panic!("{words:?}: it is mounted"),
            Err(output) => (output.status.code(), told(&output)),
        }
    };
    let says = |words: &[&str], code: i32, text: &str| {
        let (found, said) = refused(words);
        assert!(found == Some(code) && said.contains(text), "{words:?}: {found:?} {said}");
    };
    let missing = pool.at("missing");
    says(&[missing.to_str().unwrap()], 1, "mkdir -p");
    says(&[pool.config()], 1, "not a directory");
    says(&[pool.folder.path().to_str().unwrap()], 1, "not empty");
    says(&["/proc"], 1, "mounted on");
    says(&["--volume", "flies"], 2, "there is files");

    let mounted = mount(&pool, &point);
    fs::write(point.join("kept"), "kept").unwrap();
    let about = pool.status();
    assert_eq!(about["pool"]["volumes"][0]["files"], true, "{about}");
    // one that lives is in the way of others, and so is its pool
    let other = PoolFixture::new(&files().replace("\"mnt\"", &format!("{point:?}")));
    assert!(other.run("format", &[]).status.success());
    let second = Mounted::start(program(), &["mount", other.config()], &other.at("mnt"));
    let Err(output) = second else { panic!("it is mounted twice") };
    assert!(told(&output).contains("mounted on"), "{}", told(&output));
    let elsewhere = pool.at("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    says(&[elsewhere.to_str().unwrap()], 1, "in use");
    assert_eq!(fs::read_to_string(point.join("kept")).unwrap(), "kept", "the first one goes on");

    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    let (ended, said) = mounted.end();
    assert!(ended.success() && said.contains("was unmounted"), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    // the directory of the command line goes before that of the configuration
    let words = ["mount", pool.config(), elsewhere.to_str().unwrap()];
    let mounted = Mounted::start(program(), &words, &elsewhere).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("kept")).unwrap(), "kept");
    assert!(mounted.stop().0.success() && !is_mounted(&elsewhere));
}

/// A pool with volumes of blocks and two of files, served as a whole.
#[test]
fn volumes_of_files_live_beside_each_other_and_beside_blocks() {
    if !has_fuse("volumes of files") {
        return;
    }
    let text = format!(
        "{}[[volume]]\nname = \"more\"\nfiles = true\nmount = \"mnt2\"\n\
         [[volume]]\nname = \"vol0\"\nsize = \"64MiB\"\n[serve]\nnbd = [\"unix:tandem.sock\"]\n",
        files()
    );
    let (pool, point, _cleared) = with_point(&text);
    let second = pool.at("mnt2");
    fs::create_dir(&second).unwrap();
    let _cleared_too = Cleared(second.clone());
    let config = pool.config().to_owned();
    let ambiguous = tandem(&["mount", &config]);
    assert!(ambiguous.status.code() == Some(2) && told(&ambiguous).contains("files, more"));
    let serve = || Mounted::start(program(), &["serve", &config], &point).unwrap();
    let served = serve();
    let mut rng = Rng::new(3);
    std::thread::scope(|scope| {
        for (number, folder) in [&point, &second, &point, &second].into_iter().enumerate() {
            let seed = rng.bits();
            scope.spawn(move || {
                for file in 0..60 {
                    let path = folder.join(format!("{number}-{file}"));
                    fs::write(path, noise(seed + file, 5000)).unwrap();
                }
            });
        }
    });
    let before = [tree(&point), tree(&second)];
    assert!(before.iter().all(|tree| tree.len() == 120));
    // one of the two can go; the other is served on
    assert!(Command::new("umount").arg(&second).status().unwrap().success());
    assert!(tree(&point) == before[0]);
    let mut client = pool.nbd();
    client.write(0, &[7; 4096], true).unwrap();
    drop(client);
    let (ended, said) = served.stop();
    assert!(ended.success() && said.contains("served no more"), "{said}");
    let served = serve();
    assert!([tree(&point), tree(&second)] == before);
    assert!(served.stop().0.success());
    let checked = tandem(&["check", &config, "--json"]);
    let report = json(&checked);
    assert!(report["ok"] == true && report["volumes"][1]["files"]["files"] == 120, "{report}");
}

/// A full volume says so, loses nothing that it took, and has room again when something is removed.
#[test]
fn a_full_volume_keeps_what_it_has() {
    if !has_fuse("volumes of files") {
        return;
    }
    let text = files().replace("256MiB", "64MiB").replace("512MiB", "128MiB");
    let (pool, point, _cleared) = with_point(&text);
    let mounted = mount(&pool, &point);
    let bytes = |number: u64| noise(number, 1 << 20);
    let mut kept = 0;
    let full = loop {
        let written = fs::write(point.join(format!("{kept}")), bytes(kept));
        match written {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1000, "it is never full");
    };
    assert_eq!(full.raw_os_error(), Some(28), "{full}");
    assert!(kept > 50, "{kept} MiB fit");
    let all = |kept: u64| {
        for number in 0..kept {
            assert!(
                fs::read(point.join(format!("{number}"))).unwrap() == bytes(number),
                "{number}"
            );
        }
    };
    all(kept);
    File::open(&point).unwrap().sync_all().unwrap();
    for gone in [kept, 0, 1, 2] {
        fs::remove_file(point.join(format!("{gone}"))).unwrap();
    }
    File::open(&point).unwrap().sync_all().unwrap();
    for number in 0..2 {
        fs::write(point.join(format!("{number}")), bytes(number)).unwrap();
    }
    fs::write(point.join("2"), bytes(2)).unwrap();
    all(kept);
    // names are bounded, too: many small files
    fs::create_dir(point.join("many")).unwrap();
    let mut made = 0;
    let full = loop {
        match File::create(point.join(format!("many/{made}"))) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 1_000_000, "it is never full");
    };
    assert_eq!(full.raw_os_error(), Some(28), "{full}");
    assert!(made > 500, "{made} files");
    fs::remove_file(point.join("many/0")).unwrap();
    fs::remove_file(point.join("many/1")).unwrap();
    fs::remove_dir_all(point.join("many")).unwrap();
    all(kept);
    assert!(mounted.stop().0.success());
    let checked = pool.run("check", &[]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
}

/// Rot in a file is told with the file's name, and is an error where it lies and nowhere else.
#[test]
fn check_names_the_file_that_is_damaged() {
    if !has_fuse("volumes of files") {
        return;
    }
    let (pool, point, _cleared) = with_point(&files());
    let mounted = mount(&pool, &point);
    fs::create_dir(point.join("folder")).unwrap();
    fs::write(point.join("folder/hurt"), [0xA7; 8192]).unwrap();
    fs::write(point.join("sound"), [0xA8; 8192]).unwrap();
    assert!(mounted.stop().0.success());
    let mut hurt = 0;
    for name in ["ssd.img", "hdd.img"] {
        let image = fs::read(pool.at(name)).unwrap();
        for (block, _) in image.chunks_exact(4096).enumerate().filter(|(_, b)| **b == [0xA7; 4096])
        {
            flip(&pool.at(name), block as u64 * 4096 + 99);
            hurt += 1;
        }
    }
    assert!(hurt >= 2, "the file lies somewhere");
    let checked = pool.run("check", &[]);
    let said = printed(&checked);
    assert!(
        !checked.status.success() && said.contains("files: /folder/hurt: 8192 bytes at 0"),
        "{said}"
    );
    assert!(!said.contains("/sound"), "{said}");
    let mounted = mount(&pool, &point);
    assert_eq!(errno(fs::read(point.join("folder/hurt"))), Some(5));
    assert_eq!(fs::read(point.join("sound")).unwrap(), [0xA8; 8192]);
    assert!(mounted.stop().0.success());
}

fn killed(rounds: u64, seed: u64, ignore_flushes: bool) -> Outcome {
    let plan = Plan { tandem: program().to_owned(), rounds, seed, ignore_flushes };
    let outcome = synced::run(&plan).unwrap();
    println!("{}", synced::describe(&outcome));
    outcome
}

/// A few of the rounds that `examples/synced.rs` runs fifty of.
#[test]
fn what_was_fsynced_survives_sigkill_and_lying_drives_are_found_out() {
    if !has_fuse("volumes of files") {
        return;
    }
    let outcome = killed(6, 1, false);
    assert!(outcome.lost.is_empty(), "{:?}", outcome.lost);
    assert!(outcome.rounds == 6 && outcome.synced > 100 && outcome.looked_at > 200, "{outcome:?}");
    assert!(outcome.newer > 0, "something was under way: {outcome:?}");
    let outcome = killed(8, 2, true);
    assert!(!outcome.lost.is_empty(), "{outcome:?}");
}

/// What was removed while open is freed by the next mount, after a kill too.
#[test]
fn what_has_no_name_goes_with_the_next_mount() {
    if !has_fuse("volumes of files") {
        return;
    }
    let (pool, point, _cleared) = with_point(EMULATED);
    let mounted = mount(&pool, &point);
    let mut open = File::create(point.join("gone")).unwrap();
    open.write_all(&noise(1, 1 << 20)).unwrap();
    fs::remove_file(point.join("gone")).unwrap();
    open.sync_all().unwrap();
    mounted.kill();
    drop(open);
    Mounted::clear(&point);
    let report = json(&pool.run("check", &["--json"]));
    assert_eq!(report["volumes"][0]["files"]["orphans"], 1, "{report}");
    let mounted = mount(&pool, &point);
    assert_eq!(fs::read_dir(&point).unwrap().count(), 0);
    assert!(mounted.stop().0.success());
    let report = json(&pool.run("check", &["--json"]));
    assert_eq!(report["volumes"][0]["files"]["orphans"], 0, "{report}");
    assert_eq!(report["volumes"][0]["data_bytes"], 0, "{report}");
}
