//! Does `tandem serve` show volumes as files, and leave nothing behind?

use crate::support::fixture::PoolText;
use crate::support::program::{TWO, flip, told};
use crate::support::{PATIENCE, PoolFixture};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn shown() -> String {
    PoolText::named("p")
        .ssd("64MiB")
        .volume("vol0", "16MiB")
        .with("[serve]")
        .with("fuse = \"mnt\"")
        .text()
}

fn write_pool(folder: &Path, point: &str) {
    let text = format!(
        "[pool]\nname = \"p\"\n\n[[device]]\nrole = \"ssd\"\npath = \"ram:1GiB\"\n\n\
         [[volume]]\nname = \"vol0\"\nsize = \"256MiB\"\n\n[serve]\nfuse = \"{point}\"\n"
    );
    std::fs::write(folder.join("pool.toml"), text).unwrap();
}

fn serve(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tandem"))
        .arg("serve")
        .arg(folder.join("pool.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until requests are welcome; what was announced.
fn announced(server: &mut Child) -> String {
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let pool = lines.next().unwrap().unwrap();
    format!("{pool}\n{}", lines.next().unwrap().unwrap())
}

#[test]
fn a_served_volume_is_a_file_until_the_server_is_told_to_stop() {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse here, so serving files is NOT tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("mnt");
    std::fs::create_dir(&point).unwrap();
    write_pool(folder.path(), "mnt");
    let mut server = serve(folder.path());
    let said = announced(&mut server);
    let path = point.join("vol0");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 256 << 20);
    file.write_all_at(b"tandem", 4095).unwrap();
    file.sync_all().unwrap();
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, 4095).unwrap();
    assert_eq!(&bytes, b"tandem");
    drop(file);

    let second = serve(folder.path()).wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && error.contains("mounted on"), "{error}");

    rustix::process::kill_process(pid(&server), rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(&point).unwrap().count(), 0, "it is unmounted");
}

/// SIGKILL leaves a dead mount behind: the next server takes it over, as it does a stale socket, also
/// while somebody still has a file of it open.
#[test]
fn a_dead_mount_is_taken_over_and_a_living_one_is_not() {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse here, so dead mounts are NOT tested");
        return;
    }
    let pool = PoolFixture::new(&shown());
    let point = pool.at("mnt");
    std::fs::create_dir(&point).unwrap();
    pool.done("format", &[]);
    let open = || File::options().read(true).write(true).open(point.join("vol0")).unwrap();
    let mut left_open = Vec::new();
    for round in 0..4u8 {
        let server = pool.start();
        let file = open();
        if round > 0 {
            let mut found = [0; 4096];
            file.read_exact_at(&mut found, 4096 * u64::from(round)).unwrap();
            assert_eq!(found, [round; 4096], "what was synced before the kill");
        }
        file.write_all_at(&[round + 1; 4096], 4096 * u64::from(round + 1)).unwrap();
        file.sync_all().unwrap();
        left_open.push(file);
        server.kill();
    }
    let alive = pool.start();
    // another pool is not served over the one that lives
    let other = shown().replace("\"mnt\"", &format!("{point:?}"));
    let other = PoolFixture::new(&other);
    assert!(other.run("format", &[]).status.success());
    let Err(refused) = other.serve(&[]) else { panic!("it serves") };
    let said = told(&refused);
    assert!(refused.status.code() == Some(1) && said.contains("mounted on"), "{said}");
    let mut found = [0; 4096];
    open().read_exact_at(&mut found, 4 * 4096).unwrap();
    assert_eq!(found, [4; 4096], "the first one goes on");
    for file in &left_open {
        assert!(file.read_exact_at(&mut found, 0).is_err(), "its server is dead");
    }
    let (status, said) = alive.stop();
    assert!(status.success() && said.contains("taken over"), "{said}");
    assert_eq!(std::fs::read_dir(&point).unwrap().count(), 0, "it is unmounted");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(point.to_str().unwrap()), "nothing is left");
}

#[test]
fn a_mount_point_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_pool(folder.path(), "nowhere");
    let server = serve(folder.path()).wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&server.stderr).into_owned();
    assert!(!server.status.success() && error.contains("mkdir -p"), "{error}");
}

fn pid(child: &Child) -> rustix::process::Pid {
    rustix::process::Pid::from_child(child)
}

/// Rot is EIO at its block and nowhere else; what is left without the SSD is read-only, EROFS, and EIO
/// where only the SSD had it.
#[test]
fn damage_and_loss_have_their_errno() {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse here, so errors of files are NOT tested");
        return;
    }
    let pool = PoolFixture::new(&format!("{TWO}fuse = \"mnt\"\n"));
    std::fs::create_dir(pool.at("mnt")).unwrap();
    pool.done("format", &[]);
    let open = || File::options().read(true).write(true).open(pool.at("mnt/vol0")).unwrap();
    let server = pool.start();
    let file = open();
    for block in 0..16u8 {
        file.write_all_at(&[block + 1; 4096], u64::from(block) * 4096).unwrap();
    }
    file.sync_all().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while pool.status()["metadata_replica"]["journal_units_behind"] != 0 {
        assert!(Instant::now() < deadline, "{}", pool.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(file);
    server.stops();
    let ssd = pool.at("ssd.img");
    let image = std::fs::read(&ssd).unwrap();
    let at = image.chunks_exact(4096).position(|block| *block == [7; 4096]).unwrap();
    flip(&ssd, at as u64 * 4096 + 99);
    let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    let mut bytes = [0; 4096];
    let server = pool.start();
    let file = open();
    assert_eq!(errno(file.read_exact_at(&mut bytes, 6 * 4096)), Some(5), "EIO");
    file.read_exact_at(&mut bytes, 7 * 4096).unwrap();
    assert_eq!(bytes, [8; 4096]);
    drop(file);
    server.stops();
    std::fs::remove_file(&ssd).unwrap();
    let server = pool.start_with(&["--accept-loss"]);
    let file = open();
    assert_eq!(errno(file.read_exact_at(&mut bytes, 0)), Some(5), "only the SSD had it");
    file.read_exact_at(&mut bytes, 1 << 20).unwrap();
    assert_eq!(bytes, [0; 4096], "nothing was ever written there");
    assert_eq!(errno(file.write_all_at(&[1; 4096], 0)), Some(30), "EROFS");
    assert_eq!(errno(file.write_all_at(&[1; 7], 1 << 20)), Some(30), "EROFS");
    file.sync_all().unwrap();
    drop(file);
    server.stops();
}
