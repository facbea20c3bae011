//! Does a server care whether its log can be written? It must not.
//!
//! Stderr is a full disk (`/dev/full`), or a pipe that nobody reads; stdout too.

use crate::support::program::{TWO, program};
use crate::support::sigkill::over_nbd;
use crate::support::{PATIENCE, PoolFixture};
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader is gone.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Serves until a client was served, stops it as asked, and says how it ended.
fn served(pool: &PoolFixture, out: Stdio, err: Stdio) -> ExitStatus {
    let mut serve = Command::new(program());
    let serve = serve.args(["serve", pool.config()]).env("TANDEM_LOG", "debug");
    let mut child = serve.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let wait = |child: &mut std::process::Child| {
        assert!(Instant::now() < deadline, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
        child.try_wait().unwrap()
    };
    let mut client = loop {
        match over_nbd(pool.folder.path()) {
            Ok(client) => break client,
            Err(_) => assert_eq!(wait(&mut child), None, "it ended before it served"),
        }
    };
    client.write(0, &[7; 4096], true).unwrap();
    drop(client);
    rustix::process::kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    loop {
        if let Some(status) = wait(&mut child) {
            return status;
        }
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let pool = PoolFixture::formatted(TWO);
    let mut ends = Vec::new();
    for (out, err) in [(Stdio::null(), full()), (full(), full()), (broken(), broken())] {
        ends.push(served(&pool, out, err));
    }
    println!("measured: clean stops with stderr full, both full, both broken: {ends:?}");
    assert!(ends.iter().all(ExitStatus::success), "{ends:?}");
    assert!(pool.run("check", &[]).status.success());
}

/// An error that cannot be told is still an error, and no panic.
#[test]
fn other_verbs_end_with_their_own_exit_code() {
    let pool = PoolFixture::formatted(TWO);
    for (arguments, err, code) in [
        (&["status", pool.config()][..], full(), 1),
        (&["status", pool.config()], broken(), 1),
        (&["serve", pool.config(), "--accept-older"], full(), 2),
        (&["synth", "pangu-a", "--requests", "1", "-o", "/dev/null"], broken(), 2),
    ] {
        let ended = Command::new(program()).args(arguments).stderr(err).status().unwrap();
        assert_eq!(ended.code(), Some(code), "{arguments:?}: {ended}");
    }
}
