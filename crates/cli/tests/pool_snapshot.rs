//! Do snapshots of a volume show what was there, also after a crash, and is what cannot be refused?
//!
//! Requirement L4. The real program over emulated drives, which lose what was not flushed when it dies.

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::program::{json, printed, tandem, told};
use std::process::Output;
use tandem_fronts::nbd::Client;
use tandem_fronts::nbd::wire::can;
use tandem_live::listen::Address;

fn emulated() -> String {
    PoolText::named("kept")
        .ssd("640MiB")
        .emulated("960evo")
        .hdd("640MiB")
        .emulated("wd100efax")
        .profiled("wd100efax")
        .volume("vol0", "64MiB")
        .with("steer = \"mios-d\"")
        .files("files")
        .nbd()
        .text()
}

const PIECE: usize = 64 << 10;
const PIECES: u64 = 16;

fn address(pool: &PoolFixture) -> Address {
    Address::Unix(pool.at("tandem.sock"))
}

fn client(pool: &PoolFixture, export: &str) -> Client {
    Client::connect(&address(pool), export).unwrap()
}

fn fill(client: &mut Client, round: u8) {
    for piece in 0..PIECES {
        client.write(piece * PIECE as u64, &vec![round ^ piece as u8; PIECE], false).unwrap();
    }
}

fn holds(client: &mut Client, round: u8) {
    for piece in 0..PIECES {
        let found = client.read(piece * PIECE as u64, PIECE as u32).unwrap();
        assert!(found == vec![round ^ piece as u8; PIECE], "piece {piece} of round {round}");
    }
}

fn snapshot(pool: &PoolFixture, more: &[&str]) -> Output {
    tandem(&[&["snapshot", pool.config()], more].concat())
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    printed(output)
}

/// Refused with exit 1, and a reason.
fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", printed(output));
    assert!(told(output).contains(why), "{}", told(output));
}

#[test]
fn a_snapshot_keeps_what_was_there() {
    let pool = PoolFixture::formatted(&emulated());
    let server = pool.start();
    let mut user = client(&pool, "vol0");
    fill(&mut user, 1);
    assert_eq!(done(&snapshot(&pool, &[])), "no snapshots\n");
    assert!(done(&snapshot(&pool, &["vol0", "one"])).contains("vol0@one is taken"));
    fill(&mut user, 2);
    let said = done(&snapshot(&pool, &["vol0", "two", "--json"]));
    assert!(said.contains("\"vol0@two\""), "{said}");
    // nothing of this is flushed, and what a snapshot shows is there all the same
    fill(&mut user, 3);
    user.write(512, &[9; 512], false).unwrap();
    server.kill();
    let server = pool.start();
    assert_eq!(Client::list(&address(&pool)).unwrap(), ["vol0", "vol0@one", "vol0@two"]);
    let mut one = client(&pool, "vol0@one");
    assert!(one.flags() & can::READ_ONLY != 0 && one.flags() & can::TRIM == 0);
    assert_eq!(one.size_bytes(), 64 << 20);
    holds(&mut one, 1);
    assert!(one.write(0, &[0; 4096], false).is_err());
    assert!(one.trim(0, 4096).is_err());
    holds(&mut client(&pool, "vol0@two"), 2);
    let mut user = client(&pool, "vol0");
    fill(&mut user, 4);
    user.flush().unwrap();
    holds(&mut user, 4);
    holds(&mut one, 1);
    refused(&snapshot(&pool, &["vol0", "one", "--delete"]), "vol0@one is in use by 1 NBD client");
    one.disconnect().unwrap();
    deleted_and_gone(&pool);
    server.stops();
    pool.done("check", &[]);
    let server = pool.start();
    holds(&mut client(&pool, "vol0"), 4);
    holds(&mut client(&pool, "vol0@two"), 2);
    server.stops();
}

/// The room that snapshots held alone is free again.
fn deleted_and_gone(pool: &PoolFixture) {
    let list = json(&snapshot(pool, &["--json"]));
    let own: Vec<u64> =
        list.as_array().unwrap().iter().map(|it| it["own_bytes"].as_u64().unwrap()).collect();
    let whole = PIECE as u64 * PIECES;
    assert_eq!(own, [whole, whole], "{list}");
    assert!(printed(&pool.run("status", &[])).contains("vol0@two: 64.0 MiB"));
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    loop {
        // the server may not have heard yet that the client went
        let output = snapshot(pool, &["vol0", "one", "--delete"]);
        if output.status.success() {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{}", told(&output));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(Client::list(&address(pool)).unwrap(), ["vol0", "vol0@two"]);
    assert_eq!(pool.status()["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_is_refused() {
    let pool = PoolFixture::formatted(&emulated());
    let silent = snapshot(&pool, &["vol0", "one"]);
    assert_eq!(silent.status.code(), Some(1), "nobody serves it");
    assert_eq!(snapshot(&pool, &["vol0"]).status.code(), Some(2), "no name");
    let server = pool.start();
    done(&snapshot(&pool, &["vol0", "one"]));
    for (more, why) in [
        (&["vol0", "one"][..], "there is a snapshot vol0@one already"),
        (&["vol9", "one"], "there is no volume \"vol9\" in this pool, only: files, vol0"),
        (&["vol0@one", "two"], "is a snapshot itself and never changes"),
        (&["vol0", "a@b"], "cannot be the name of a snapshot"),
        (&["vol0", ""], "cannot be the name of a snapshot"),
        (&["files", "one"], "is a volume of files"),
        (&["vol0", "two", "--delete"], "there is no snapshot vol0@two"),
    ] {
        refused(&snapshot(&pool, more), why);
    }
    assert_eq!(json(&snapshot(&pool, &["--json"])).as_array().unwrap().len(), 1);
    done(&snapshot(&pool, &["vol0", "one", "--delete"]));
    server.stops();
}
