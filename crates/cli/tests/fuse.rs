//! Does `tandem serve` show volumes as files, and leave nothing behind?

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

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
        println!("SKIPPED: there is no /dev/fuse here, so serving files is NOT tested");
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

    let mut server = serve(folder.path());
    announced(&mut server);
    server.kill().unwrap();
    server.wait().unwrap();
    let after = serve(folder.path()).wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&after.stderr).into_owned();
    let advice = format!("fusermount3 -u {}", point.display());
    assert!(!after.status.success() && error.contains(&advice), "{error}");
    assert!(Command::new("fusermount3").arg("-u").arg(&point).status().unwrap().success());
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
