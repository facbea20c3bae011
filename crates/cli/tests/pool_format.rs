//! Does `tandem format` make pools, and never at the price of data that somebody may want?
//!
//! Source: acceptance of the spine, bad input; design, "The command line".

use crate::support::PoolFixture;
use crate::support::fixture::is_refusal;
use crate::support::program::{TWO, program, tandem, told};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Command;

/// Fails with this code and says these words.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = tandem(arguments);
    is_refusal(&output, code, words);
    assert!(output.stdout.is_empty());
}

fn changed(from: &str, to: &str) -> PoolFixture {
    assert!(TWO.contains(from));
    PoolFixture::new(&TWO.replacen(from, to, 1))
}

#[test]
fn a_new_pool_is_made_and_said() {
    let pool = PoolFixture::new(TWO);
    let text = pool.done("format", &[]);
    for want in ["pool two", "ssd.img", "hdd.img", "64.0 MiB", "vol0", "tandem serve"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    let again = pool.done("format", &["--force", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(made["devices"][1]["bytes"], 128 << 20);
    let uuid = made["uuid"].as_str().unwrap();
    assert!(!text.contains(uuid), "every format draws new ids");
    assert_ne!(made["devices"][0]["uuid"], made["devices"][1]["uuid"]);
}

#[test]
fn a_configuration_that_makes_no_sense_is_a_usage_error_of_every_verb() {
    for (from, to, words) in [
        ("name = \"two\"", "nmae = \"two\"", &["line 2", "did you mean \"name\""][..]),
        ("role = \"ssd\"", "role = \"sdd\"", &["line 4", "did you mean \"ssd\""]),
        ("path = \"hdd.img\"", "path = \"./ssd.img\"", &["line 9", "listed twice"]),
        ("size = \"64MiB\"", "size = \"4MiB\"", &["line 6", "at least 8MiB"]),
        ("nbd = [", "nbd = [\"0.0.0.0:1\", ", &["line 15", "allow_remote"]),
    ] {
        let pool = changed(from, to);
        for verb in ["format", "serve", "check", "status"] {
            refused(&[verb, pool.config()], 2, words);
        }
        assert!(!pool.at("ssd.img").exists(), "nothing is made");
    }
    let missing = tempfile::tempdir().unwrap();
    let missing = missing.path().join("no.toml");
    for verb in ["format", "serve", "check", "status"] {
        refused(&[verb, missing.to_str().unwrap()], 1, &["no.toml", "No such file"]);
        refused(&[verb, "/tmp"], 2, &["is a folder"]);
        refused(&[verb], 2, &["CONFIG"]);
    }
}

#[test]
fn what_cannot_work_is_refused_and_leaves_nothing() {
    for (from, to, words) in [
        (
            "64MiB\"\n[[device]]\nrole = \"hdd\"\npath = \"hdd.img\"\nsize = \"128MiB",
            "8MiB\"\n[[device]]\nrole = \"hdd\"\npath = \"hdd.img\"\nsize = \"64GiB",
            &["ssd.img", "too small", "at least"][..],
        ),
        ("128MiB", "16MiB", &["hdd.img", "too small"]),
        ("32MiB", "1GiB", &["vol0", "does not fit"]),
        ("size = \"64MiB\"\n", "", &["line 5", "missing", "give its size"]),
        ("\"ssd.img\"", "\"no/where/ssd.img\"", &["making", "no/where/ssd.img"]),
        ("\"ssd.img\"", "\".\"", &["folder, not a drive"]),
        ("path = \"ssd.img\"\nsize = \"64MiB\"", "path = \"/dev/null\"", &["/dev/null"]),
    ] {
        let pool = changed(from, to);
        refused(&["format", pool.config()], 1, words);
        assert!(!pool.at("ssd.img").exists() && !pool.at("hdd.img").exists(), "{to}");
    }
    let pool = changed("path = \"ssd.img\"\nsize = \"64MiB\"", "path = \"ram:64MiB\"");
    refused(&["format", pool.config()], 2, &["nothing to format"]);
}

#[test]
fn one_drive_under_two_names() {
    let pool = PoolFixture::new(TWO);
    let file = std::fs::File::create(pool.at("ssd.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    std::fs::hard_link(pool.at("ssd.img"), pool.at("hdd.img")).unwrap();
    for verb in ["format", "serve", "check"] {
        refused(&[verb, pool.config()], 1, &["same drive under two names", "hdd.img"]);
    }
    std::fs::remove_file(pool.at("hdd.img")).unwrap();
    std::os::unix::fs::symlink("ssd.img", pool.at("hdd.img")).unwrap();
    refused(&["format", pool.config()], 2, &["listed twice"]);
}

/// A loop device over a file of the same pool.
#[test]
fn needs_loop_a_loop_device_over_the_same_file() {
    let pool = PoolFixture::new(TWO);
    let file = std::fs::File::create(pool.at("ssd.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(pool.at("ssd.img")).output();
    let Some(made) = made.ok().filter(|output| output.status.success()) else {
        println!("skipped: no loop devices here");
        return;
    };
    let device = String::from_utf8(made.stdout).unwrap();
    let device = device.trim();
    let config = TWO.replace("\"hdd.img\"\nsize = \"128MiB\"", &format!("{device:?}"));
    std::fs::write(&pool.config, config).unwrap();
    let output = pool.run("format", &[]);
    let detached = Command::new("losetup").args(["--detach", device]).status().unwrap();
    assert!(detached.success());
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("same drive under two names"), "{}", told(&output));
}

#[test]
fn what_holds_something_known_is_not_formatted() {
    let pool = PoolFixture::new(TWO);
    let ssd = pool.at("ssd.img");
    let file = std::fs::File::create(&ssd).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"XFSB", 0).unwrap();
    file.write_all_at(b"precious", 40 << 20).unwrap();
    let before = std::fs::read(&ssd).unwrap();
    refused(&["format", pool.config()], 1, &["ssd.img holds XFS", "--force"]);
    refused(&["format", pool.config(), "--yes"], 1, &["ssd.img holds XFS", "--force"]);
    let risk = pool.done("format", &["--dry-run"]);
    assert!(risk.contains("XFS") && risk.contains("the file will be made"), "{risk}");
    let risk = pool.done("format", &["--dry-run", "--json"]);
    let risk: serde_json::Value = serde_json::from_str(&risk).unwrap();
    assert_eq!((&risk[0]["holds"][0], &risk[1]["new"]), (&"XFS".into(), &true.into()));
    assert_eq!(std::fs::read(&ssd).unwrap(), before, "nothing was touched");
    assert!(!pool.at("hdd.img").exists());
    pool.done("format", &["--force"]);
    // a pool of ours is something known too
    refused(&["format", pool.config()], 1, &["ssd.img holds a Tandem pool", "hdd.img holds"]);
}

#[test]
fn what_holds_something_unknown_is_asked_for() {
    let pool = PoolFixture::new(TWO);
    let file = std::fs::File::create(pool.at("ssd.img")).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"a letter to somebody", 1000).unwrap();
    refused(&["format", pool.config()], 2, &["ssd.img is not empty", "--yes"]);
    assert!(pool.done("format", &["--dry-run"]).contains("unknown kind"));
    pool.done("format", &["--yes"]);
}

#[test]
fn a_file_of_another_size_is_not_cut() {
    let pool = PoolFixture::new(TWO);
    std::fs::write(pool.at("ssd.img"), vec![0; 65 << 20]).unwrap();
    refused(&["format", pool.config()], 1, &["ssd.img", "line 5", "cut it to size with --force"]);
    pool.done("format", &["--force"]);
    assert_eq!(std::fs::metadata(pool.at("ssd.img")).unwrap().len(), 64 << 20);
    // an empty one is as good as none
    let pool = PoolFixture::new(TWO);
    std::fs::write(pool.at("ssd.img"), b"").unwrap();
    pool.done("format", &[]);
}

#[test]
fn a_pool_in_use_is_not_formatted() {
    let pool = PoolFixture::new(TWO);
    pool.done("format", &[]);
    let server = pool.serve(&[]).unwrap();
    let process = server.id().to_string();
    refused(&["format", pool.config(), "--force"], 1, &["in use", &process]);
    refused(&["check", pool.config()], 1, &["in use", &process]);
    let grown = TWO.replace("64MiB", "80MiB");
    std::fs::write(&pool.config, grown).unwrap();
    refused(&["format", pool.config(), "--force"], 1, &["in use"]);
    assert_eq!(std::fs::metadata(pool.at("ssd.img")).unwrap().len(), 64 << 20);
    server.stops();
}

/// What an older pool left on the same drives is no part of the new one, whatever of it is found.
#[test]
fn nothing_of_an_older_pool_survives() {
    let pool = PoolFixture::new(TWO);
    pool.done("format", &[]);
    let server = pool.serve(&[]).unwrap();
    let mut target = pool.nbd();
    for round in 0..20u64 {
        target.write(round << 20, &[7; 4096], false).unwrap();
        target.flush().unwrap();
    }
    server.kill(); // its journal is full of units that no checkpoint covers
    pool.done("format", &["--force"]);
    let server = pool.serve(&[]).unwrap();
    let mut target = pool.nbd();
    for round in 0..20u64 {
        assert!(target.read(round << 20, 4096).unwrap().iter().all(|byte| *byte == 0));
    }
    target.write(0, &[8; 512], true).unwrap();
    server.kill();
    let server = pool.serve(&[]).unwrap();
    let mut target = pool.nbd();
    let bytes = target.read(0, 4096).unwrap();
    assert!(bytes[..512] == [8; 512] && bytes[512..].iter().all(|byte| *byte == 0));
    server.stops();
}

/// The terminal is asked where there is one; here the answer comes from a pipe, which is none.
#[test]
fn an_answer_from_a_pipe_does_not_count() {
    let pool = PoolFixture::new(TWO);
    let mut file = std::fs::File::create(pool.at("ssd.img")).unwrap();
    file.write_all(b"something").unwrap();
    file.set_len(64 << 20).unwrap();
    let mut child = Command::new(program())
        .args(["format", pool.config()])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // it may be gone before it reads
    let _ = child.stdin.take().unwrap().write_all(b"y\n");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(2));
}
