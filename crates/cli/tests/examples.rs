//! Are the examples true? Each is parsed, and those that need no hardware are made and served.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Pool, Server};
use tandem_cli::config::PoolConfig;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_example_is_a_pool() {
    let all = examples();
    assert!(all.len() >= 4, "{all:?}");
    for path in all {
        let pool = PoolConfig::read(&path).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(!pool.serve.nbd.is_empty(), "{} can be reached", path.display());
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
        let pool = Pool::new(&text);
        if !text.contains("ram:") {
            let output = Command::new(tandem).args(["format", pool.config()]).output().unwrap();
            assert!(output.status.success(), "{}: {output:?}", path.display());
        }
        let server = Server::start(tandem, &[pool.config()]);
        let server = server.unwrap_or_else(|output| panic!("{}: {output:?}", path.display()));
        let mut target = support::sigkill::over_nbd(pool.folder.path()).unwrap();
        target.write(4096, &[1; 4096], true).unwrap();
        assert_eq!(target.read(4096, 4096).unwrap(), [1; 4096], "{}", path.display());
        assert!(server.stop().0.success());
    }
}
