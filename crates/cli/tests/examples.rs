//! Are the examples true? Each is parsed, and those that need no hardware are made and served.

use crate::support::synced::{Cleared, Mounted};
use crate::support::{PoolFixture, Server};
use std::path::{Path, PathBuf};
use std::process::Command;
use tandem_cli::config::{PoolConfig, PoolVolume};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_example_is_a_pool() {
    let all = examples();
    assert!(all.len() >= 5, "{all:?}");
    for path in all {
        let pool = PoolConfig::read(&path).unwrap_or_else(|fault| panic!("{fault}"));
        let is_mounted = |volume: &PoolVolume| volume.mount.is_some();
        let is_reached = !pool.serve.nbd.is_empty() || pool.volumes.iter().any(is_mounted);
        assert!(is_reached, "{} can be reached", path.display());
    }
}

#[test]
fn examples_without_hardware_work_as_they_say() {
    let tandem = Path::new(env!("CARGO_BIN_EXE_tandem"));
    for path in examples() {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("\"/dev/") {
            continue;
        }
        let pool = PoolFixture::new(&text);
        if !text.contains("ram:") {
            let output = Command::new(tandem).args(["format", pool.config()]).output().unwrap();
            assert!(output.status.success(), "{}: {output:?}", path.display());
        }
        if text.contains("files = true") {
            files_are_kept(tandem, &pool);
            continue;
        }
        let server = Server::start(tandem, &[pool.config()]);
        let server = server.unwrap_or_else(|output| panic!("{}: {output:?}", path.display()));
        let mut target = pool.nbd();
        target.write(4096, &[1; 4096], true).unwrap();
        assert_eq!(target.read(4096, 4096).unwrap(), [1; 4096], "{}", path.display());
        server.stops();
    }
}

/// As the example says: mounted, written to, unmounted, checked.
fn files_are_kept(tandem: &Path, pool: &PoolFixture) {
    if !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no /dev/fuse here, so the example of files is NOT mounted");
        return;
    }
    let config = PoolConfig::read(Path::new(pool.config())).unwrap();
    let point = config.volumes[0].mount.clone().unwrap();
    std::fs::create_dir(&point).unwrap();
    let _cleared = Cleared(point.clone());
    for round in 0..2 {
        let mounted = Mounted::start(tandem, &["mount", pool.config()], &point);
        let mounted = mounted.unwrap_or_else(|output| panic!("{output:?}"));
        let path = point.join("folder/file");
        if round == 0 {
            std::fs::create_dir(point.join("folder")).unwrap();
            std::fs::write(&path, "kept").unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        let unmounted = Command::new("umount").arg(&point).status().unwrap();
        assert!(unmounted.success() && mounted.end().0.success());
    }
    let checked = Command::new(tandem).args(["check", pool.config()]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
