//! Are volumes good files, and good block devices through a loop, over the real engine?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use tandem_block::{DurabilityClass, Duration, MIB, ObjectId, Op, Rng, StreamId};
use tandem_engine::{
    DeviceConfig, Engine, EngineConfig, Role, SteerConfig, VolumeConfig, WriteCache,
};
use tandem_fronts::fuse::{FuseError, FuseServer, VolumeFile, check_point};
use tandem_live::remote_queue::Stopper;
use tandem_live::{Backing, Devices, EventLoop, EventLoopConfig, device};

/// What the engine was asked, and whether it had to be durable.
type Seen = Arc<Mutex<Vec<(Op, bool)>>>;

/// A fresh pool in RAM with two volumes, mounted, on a thread of its own.
struct Server {
    folder: tempfile::TempDir,
    stopper: Stopper,
    seen: Seen,
    thread: Option<JoinHandle<()>>,
}

fn event_loop(volume_bytes: u64, config: EventLoopConfig) -> EventLoop<Engine> {
    let backing = Backing::Ram { bytes: 4 * volume_bytes + 256 * MIB };
    let devices = Devices::open(vec![device::DeviceConfig { backing, emulate: None }]).unwrap();
    let drive = DeviceConfig {
        role: Role::Ssd,
        capacity_bytes: devices.capacities()[0],
        write_cache: WriteCache::Volatile,
        depth: 64,
        uuid: 1,
        hdd_profile: None,
        ssd_profile: Default::default(),
    };
    let volume = |object| VolumeConfig {
        object: ObjectId(object),
        name: format!("vol{object}"),
        size_bytes: volume_bytes,
        steer: SteerConfig::default(),
        tier: "none".into(),
        file_tiers: Vec::new(),
        durability: DurabilityClass::VolatileOk,
    };
    let engine = EngineConfig::with_drives(vec![drive], vec![volume(0), volume(1)]);
    EventLoop::new(config, devices, Engine::new(engine).unwrap()).unwrap()
}

fn files(size_bytes: u64) -> Vec<VolumeFile> {
    let file =
        |object| VolumeFile { name: format!("vol{object}"), object: ObjectId(object), size_bytes };
    vec![file(0), file(1)]
}

impl Server {
    fn start(volume_bytes: u64) -> Server {
        Self::with(volume_bytes, EventLoopConfig::default())
    }

    fn with(volume_bytes: u64, config: EventLoopConfig) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("mnt");
        std::fs::create_dir(&point).unwrap();
        let seen = Seen::default();
        let (sender, receiver) = mpsc::channel();
        let told = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let mut event_loop = event_loop(volume_bytes, config);
            event_loop.observe(Box::new(move |request, _, _| {
                told.lock().unwrap().push((request.op, request.fua));
            }));
            let server = FuseServer::mount(&point, files(volume_bytes), StreamId(0)).unwrap();
            event_loop.add_front(Box::new(server));
            sender.send(event_loop.stopper()).unwrap();
            event_loop.run().unwrap();
        });
        let stopper = receiver.recv().unwrap();
        Server { folder, stopper, seen, thread: Some(thread) }
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.point().join(name)
    }

    fn open(&self, name: &str, flags: OFlags) -> File {
        let flags = flags.bits().cast_signed();
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(self.file(name)).unwrap()
    }

    fn stop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
        assert!(!is_mounted(&self.point()) || std::thread::panicking(), "it stayed mounted");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_mounted(point: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == point.to_str())
}

/// Says loudly what is missing.
fn has_fuse() -> bool {
    let found = Path::new("/dev/fuse").exists();
    if !found {
        println!("skipped: there is no /dev/fuse here, so the FUSE front end is NOT tested");
    }
    found
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.bits() as u8).collect()
}

fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn files_are_the_volumes_and_nothing_else() {
    if !has_fuse() {
        return;
    }
    let size = 16 * MIB;
    let server = Server::start(size);
    let mut names: Vec<_> = std::fs::read_dir(server.point())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["vol0", "vol1"]);
    let found = std::fs::metadata(server.file("vol0")).unwrap();
    assert!(found.is_file() && found.len() == size && found.mode() & 0o777 == 0o600);
    let space = rustix::fs::statvfs(server.point()).unwrap();
    assert_eq!((space.f_blocks * space.f_frsize, space.f_bavail, space.f_files), (2 * size, 0, 2));

    let missing = File::open(server.file("vol2")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    for refused in [
        errno(File::create(server.file("new"))),
        errno(std::fs::create_dir(server.file("new"))),
        errno(std::fs::remove_file(server.file("vol0"))),
        errno(std::fs::rename(server.file("vol0"), server.file("vol2"))),
        errno(File::create(server.file("vol0"))), // it would truncate
        errno(server.open("vol0", OFlags::empty()).set_len(size + 4096)),
        errno(std::fs::set_permissions(
            server.file("vol0"),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )),
    ] {
        assert_eq!(refused, Some(Errno::PERM.raw_os_error()));
    }
    let file = server.open("vol0", OFlags::empty());
    file.set_len(size).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100)); // attributes are believed for 1 s
    assert_eq!(file.write_at(&[1; 100], size - 10).unwrap(), 10, "the end cuts a write");
    assert_eq!(errno(file.write_at(&[1; 100], size)), Some(Errno::NOSPC.raw_os_error()));
    assert_eq!(file.read_at(&mut [0; 100], size - 10).unwrap(), 10, "the end cuts a read");
    assert_eq!(file.read_at(&mut [0; 100], size).unwrap(), 0);
    assert!(file.metadata().unwrap().modified().unwrap() > before, "a write is seen in its time");
    assert!(server.open("vol1", OFlags::empty()).read_at(&mut [0; 4096], 0).unwrap() == 4096);
}

/// Every range of bytes, against a copy in memory; with `O_DIRECT` whole sectors only.
#[test]
fn any_bytes_can_be_written_and_read() {
    if !has_fuse() {
        return;
    }
    let server = Server::start(16 * MIB);
    let file = server.open("vol0", OFlags::empty());
    let mut copy = vec![0u8; 4 << 20];
    let mut rng = Rng::new(7);
    for round in 0..400 {
        let length = 1 + rng.below(if round % 20 == 0 { 1_500_000 } else { 9000 }) as usize;
        let at = rng.below((copy.len() - length) as u64) as usize;
        if rng.below(3) > 0 {
            let bytes = noise(round, length);
            file.write_all_at(&bytes, at as u64).unwrap();
            copy[at..at + length].copy_from_slice(&bytes);
        } else {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at as u64).unwrap();
            assert!(bytes == copy[at..at + length], "round {round}: {length} bytes at {at}");
        }
    }
    let direct = server.open("vol0", OFlags::DIRECT);
    for (at, length) in [(1, 512), (512, 100), (0, 513)] {
        assert_eq!(errno(direct.write_at(&vec![1; length], at)), Some(Errno::INVAL.raw_os_error()));
        assert_eq!(
            errno(direct.read_at(&mut vec![1; length], at)),
            Some(Errno::INVAL.raw_os_error())
        );
    }
    direct.write_all_at(&noise(9, 2560), 1536).unwrap();
    copy[1536..4096].copy_from_slice(&noise(9, 2560));
    // with O_DIRECT and memory that is not aligned, the kernel cuts large reads within sectors
    let mut bytes = vec![0; 512 << 10];
    for (index, part) in copy.chunks(bytes.len()).enumerate() {
        direct.read_exact_at(&mut bytes, (index * part.len()) as u64).unwrap();
        assert!(bytes == part, "part {index}");
    }
}

/// Writers of small records side by side in the same sectors do not undo one another.
#[test]
fn neighbours_in_a_sector_do_not_harm_each_other() {
    if !has_fuse() {
        return;
    }
    const WRITERS: usize = 8;
    const RECORD: usize = 100;
    const ROUNDS: usize = 60;
    let server = Server::start(16 * MIB);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let server = &server;
            scope.spawn(move || {
                let file = server.open("vol0", OFlags::empty());
                for round in 0..ROUNDS {
                    let at = (round * WRITERS + writer) * RECORD;
                    file.write_all_at(&[writer as u8 + 1; RECORD], at as u64).unwrap();
                }
            });
        }
        let server = &server;
        scope.spawn(move || {
            let file = server.open("vol0", OFlags::empty());
            for round in 0..ROUNDS as u64 {
                file.write_all_at(&[0xEE; 512], (1 << 20) + round * 512).unwrap();
                file.write_all_at(&[0xDD; 9], (1 << 20) + round * 512 + 250).unwrap();
            }
        });
    });
    let file = server.open("vol0", OFlags::empty());
    let mut bytes = vec![0; WRITERS * RECORD * ROUNDS];
    file.read_exact_at(&mut bytes, 0).unwrap();
    for (index, record) in bytes.chunks(RECORD).enumerate() {
        let writer = (index % WRITERS) as u8 + 1;
        assert!(record.iter().all(|byte| *byte == writer), "record {index} was harmed");
    }
}

/// Many requests under way, with little memory: everyone is served, and nobody spins for it.
#[test]
fn back_pressure_delays_but_loses_nothing() {
    if !has_fuse() {
        return;
    }
    let config = EventLoopConfig {
        front_bytes_max: 256 << 10,
        requests_max: 8,
        spin: Duration::ZERO,
        ..EventLoopConfig::default()
    };
    let server = Server::with(64 * MIB, config);
    std::thread::scope(|scope| {
        for number in 0..8u64 {
            let server = &server;
            scope.spawn(move || {
                let file = server.open("vol1", OFlags::empty());
                for round in 0..12u64 {
                    let length = [900_000, 4096, 70_001][(round % 3) as usize];
                    let (at, bytes) = (number * (8 << 20) + round * 300, noise(round, length));
                    file.write_all_at(&bytes, at).unwrap();
                    let mut read = vec![0; length];
                    file.read_exact_at(&mut read, at).unwrap();
                    assert!(read == bytes, "writer {number} round {round}");
                }
            });
        }
    });
}

#[test]
fn holes_are_punched_zeroed_and_found() {
    if !has_fuse() {
        return;
    }
    let size = 16 * MIB;
    let server = Server::start(size);
    let file = server.open("vol0", OFlags::empty());
    let mut copy = noise(3, 1 << 20);
    file.write_all_at(&copy, 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for (mode, at, length) in [
        (punch, 4096, 8192),
        (punch, 70_001, 10_000),
        (FallocateFlags::ZERO_RANGE, 200_100, 77),
        (FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 300_032, 512),
    ] {
        fallocate(&file, mode, at as u64, length as u64).unwrap();
        copy[at..at + length].fill(0);
    }
    let mut bytes = vec![1; copy.len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == copy, "zeroes are where they were asked for and nowhere else");
    fallocate(&file, FallocateFlags::empty(), 0, size).unwrap();
    fallocate(&file, punch, size - 4096, 1 << 40).unwrap();
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, size + 1), Err(Errno::NOSPC));
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
    {
        let seen = server.seen.lock().unwrap();
        assert!(seen.iter().any(|(op, _)| *op == Op::Discard), "a hole is a discard");
        assert!(seen.iter().any(|(op, _)| *op == Op::WriteZeroes), "a zeroed range is zeroed");
    }
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(4096));
    assert_eq!(seek(&file, SeekFrom::Data(4096)), Ok(12288));
    assert_eq!(seek(&file, SeekFrom::Data(2 << 20)), Err(Errno::NXIO));
    assert_eq!(seek(&file, SeekFrom::Hole(2 << 20)), Ok(2 << 20));
    assert_eq!(seek(&file, SeekFrom::Data(size)), Err(Errno::NXIO));
}

/// What the user was promised reaches the engine as FLUSH and FUA.
#[test]
fn sync_means_it() {
    if !has_fuse() {
        return;
    }
    let server = Server::start(16 * MIB);
    let flushes = |server: &Server| {
        server.seen.lock().unwrap().iter().filter(|(op, _)| *op == Op::Flush).count()
    };
    let file = server.open("vol0", OFlags::empty());
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(flushes(&server), 0);
    file.sync_all().unwrap();
    assert_eq!(flushes(&server), 1);
    file.sync_data().unwrap();
    assert_eq!(flushes(&server), 2);
    assert!(server.seen.lock().unwrap().iter().all(|(_, fua)| !fua));
    for (flags, at, length) in [
        (OFlags::DSYNC, 4096, 4096),
        (OFlags::SYNC, 8192, 512),
        (OFlags::DSYNC | OFlags::DIRECT, 0, 4096),
        (OFlags::DSYNC, 100, 17),
    ] {
        server.seen.lock().unwrap().clear();
        server.open("vol0", flags).write_all_at(&vec![2; length], at).unwrap();
        let seen = server.seen.lock().unwrap();
        let durable = seen.contains(&(Op::Write, true)) || seen.contains(&(Op::Flush, false));
        assert!(durable, "{flags:?}: {seen:?}");
    }
}

#[test]
fn stopping_unmounts_even_when_somebody_stays() {
    if !has_fuse() {
        return;
    }
    let mut server = Server::start(16 * MIB);
    let point = server.point();
    assert!(is_mounted(&point));
    let in_the_way = check_point(&point).unwrap_err();
    assert!(matches!(in_the_way, FuseError::Occupied(_)), "{in_the_way}");
    let stays = server.open("vol0", OFlags::empty());
    stays.write_all_at(&[1; 4096], 0).unwrap();
    server.stop();
    assert!(stays.read_at(&mut [0; 4096], 0).is_err(), "there is nobody to answer");
    drop(stays);
    check_point(&point).unwrap();
}

/// Serves for [`a_killed_server_is_recognised`], which starts this very program again.
#[test]
fn served_by_a_child() {
    let Some(point) = std::env::var_os("TANDEM_TEST_FUSE_POINT") else { return };
    let mut event_loop = event_loop(16 * MIB, EventLoopConfig::default());
    let server = FuseServer::mount(Path::new(&point), files(16 * MIB), StreamId(0)).unwrap();
    event_loop.add_front(Box::new(server));
    event_loop.run().unwrap();
}

#[test]
fn a_killed_server_is_recognised() {
    if !has_fuse() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "served_by_a_child"])
        .env("TANDEM_TEST_FUSE_POINT", folder.path())
        .spawn()
        .unwrap();
    for _ in 0..200 {
        if folder.path().join("vol1").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(folder.path().join("vol1").exists(), "the child did not serve");
    child.kill().unwrap();
    child.wait().unwrap();
    let stale = check_point(folder.path());
    let unmounted = Command::new("fusermount3").args(["-u", text(folder.path())]).status();
    let stale = stale.unwrap_err();
    assert!(matches!(stale, FuseError::Stale(_)), "{stale}");
    let advice = format!("fusermount3 -u {}", folder.path().display());
    assert!(stale.to_string().contains(&advice), "{stale}");
    assert!(unmounted.unwrap().success());
    check_point(folder.path()).unwrap();
}

fn installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|output| output.status.success())
    });
    if let Some(program) = missing {
        println!("skipped: {program} is not installed");
    }
    missing.is_none()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn needs_fio_it_verifies_what_it_wrote() {
    if !has_fuse() || !installed(&["fio"]) {
        return;
    }
    let server = Server::start(64 * MIB);
    let file = format!("--filename={}", text(&server.file("vol0")));
    let jobs: [&[&str]; 3] = [
        &[
            "--ioengine=libaio",
            "--iodepth=32",
            "--direct=1",
            "--bsrange=512-256k",
            "--rw=randwrite",
        ],
        &["--ioengine=io_uring", "--iodepth=8", "--direct=1", "--bs=1M", "--rw=write", "--fsync=8"],
        &["--ioengine=psync", "--direct=0", "--bsrange=512-9k", "--bs_unaligned", "--rw=randrw"],
    ];
    for job in jobs {
        let mut arguments = vec![
            "--name=verify",
            &file,
            "--size=48M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--verify_state_save=0",
            "--minimal",
        ];
        arguments.extend(job);
        run("fio", &arguments);
    }
}

/// A loop device over the file, given back when dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Loop {
        let name = run("losetup", &["--direct-io=on", "--show", "--find", text(file)]);
        Loop(name.trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// A mounted file system; unmounted when dropped, whatever happened.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A file system on a loop device on the file: made, filled, unmounted, checked, and read again.
fn carries_a_file_system(size: u64, make: &[&str], check: &[&str]) {
    let server = Server::start(size);
    let root = rustix::process::geteuid().is_root();
    if !root || !Path::new("/dev/loop-control").exists() {
        println!("skipped: loop devices need root and /dev/loop-control");
        return;
    }
    let device = Loop::over(&server.file("vol0"));
    let disk = device.0.as_str();
    run(make[0], &[&make[1..], &[disk]].concat());
    let point = server.folder.path().join("fs");
    std::fs::create_dir(&point).unwrap();
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mount = || {
        run("mount", &[disk, text(&point)]);
        Mounted(point.clone())
    };
    let mounted = mount();
    run("cp", &["-r", tree, text(&point.join("tree"))]);
    run("fstrim", &[text(&point)]);
    drop(mounted);
    run(check[0], &[&check[1..], &[disk]].concat());
    let mounted = mount();
    run("diff", &["-r", tree, text(&point.join("tree"))]);
    drop(mounted);
    assert!(!is_mounted(&point));
}

#[test]
fn needs_loop_and_ext4() {
    if has_fuse() && installed(&["losetup", "mkfs.ext4", "e2fsck", "fstrim"]) {
        carries_a_file_system(64 * MIB, &["mkfs.ext4", "-q"], &["e2fsck", "-fn"]);
    }
}

#[test]
fn needs_loop_and_xfs() {
    if has_fuse() && installed(&["losetup", "mkfs.xfs", "xfs_repair", "fstrim"]) {
        carries_a_file_system(320 * MIB, &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
    }
}
