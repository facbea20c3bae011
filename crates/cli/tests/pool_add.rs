//! Can a drive come to a pool while it is served, killed half way and served again?
//!
//! Requirement of pool life. The real program over emulated drives, which lose what was not flushed when it
//! dies.

use crate::support::PoolFixture;
use crate::support::program::{TWO, json, tandem, told};
use crate::support::user::User;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use tandem_engine::format::superblock::{Successor, Superblock};

const EMULATED: &str = r#"# a pool of mine
[pool]
name = "growing"
[[device]]
role = "ssd"
path = "one.img" # the one from the attic
size = "2GiB"
emulate = "vertex3"
[[device]]
role = "ssd"
path = "two.img"
size = "2GiB"
emulate = "vertex3"
[[device]]
role = "hdd"
path = "hdd.img"
size = "640MiB"
emulate = "wd100efax"
profile = "wd100efax"
[[device]]
role = "hdd"
path = "hdd2.img"
size = "640MiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "256MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

const PIECE: usize = 64 << 10;
const PIECES: usize = 128;
/// Longest wait for anything of emulated drives on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(120);

/// Whom the second superblock of a drive names.
fn successor_in(path: &str) -> Option<Successor> {
    let file = File::open(path).unwrap();
    let mut block = vec![0; 4096];
    file.read_exact_at(&mut block, file.metadata().unwrap().len() - 4096).unwrap();
    Superblock::decode(&block).ok()?.successor
}

fn leaves(pool: &PoolFixture, drive: &str) {
    pool.done("drain", &[&pool.path(drive)]);
    pool.done("remove", &[&pool.path(drive)]);
}

/// A drive leaves, another one comes, killed on the way; then all others of its kind leave. False: the drive had
/// come before anybody was killed, and nothing is shown.
fn added(left: &str, other: &str, mib: u64) -> bool {
    let pool = PoolFixture::formatted(EMULATED);
    let new = pool.file("new.img", mib + 64);
    let server = pool.start();
    let mut user = User::new(&pool, "vol0", (PIECE, PIECES));
    user.writes_all();
    let room = |pool: &PoolFixture| pool.status()["ssd_bytes"].as_u64().unwrap();
    let all = room(&pool);
    leaves(&pool, left);

    let dry = pool.done("add", &[&new, "--dry-run"]);
    assert!(dry.contains("would take the bay that") && dry.contains(left), "{dry}");
    assert!(dry.contains("At risk: what the drive holds, which is nothing known"), "{dry}");
    assert!(pool.status()["replacing"].is_null(), "it only said so");
    let begun = pool.done("add", &[&new, "--detach"]);
    assert!(begun.contains("is being added"), "{begun}");
    // what names it last
    let last = pool.path(if other == "hdd2.img" { "hdd2.img" } else { "hdd.img" });
    let deadline = Instant::now() + LONG;
    let mut asks_at = Instant::now() + Duration::from_secs(2);
    while successor_in(&last).is_none() {
        // a program that asks takes longer than the copying, where the machine is busy
        if Instant::now() >= asks_at {
            let replacing = &pool.status()["replacing"];
            if !replacing["finished"].is_null() {
                break;
            }
            assert!(Instant::now() < deadline, "it never begins: {replacing}");
            asks_at = Instant::now() + Duration::from_secs(2);
        }
    }
    server.kill();
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let was_half_way = text.contains("successor = \"new.img\"") && text.contains("gone = true");
    // to a hard drive nothing is copied
    if !was_half_way && left != "hdd.img" {
        return false;
    }

    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    let is_over = |told: &serde_json::Value| {
        let how = &told["replacing"];
        how["finished"] == true || (how.is_null() && !was_half_way)
    };
    user.works_until(&pool, "added", is_over);
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let expected = EMULATED.replace(&format!("\"{left}\""), "\"new.img\"");
    assert_eq!(text, expected, "the configuration names the new drive, and is else as it was");
    assert_eq!(room(&pool), all, "what the pool has is as much as before");
    assert_eq!(pool.status()["gone"], serde_json::json!([]));
    user.works_until(&pool, "written to", |told| {
        let index = if left == "one.img" { 0 } else { 2 };
        left == "hdd.img" || told["devices"][index]["written_bytes"].as_u64().unwrap() > 0
    });
    // what only it has now
    leaves(&pool, other);
    user.finds_all();
    user.writes_all();
    server.kill();
    std::fs::remove_file(pool.at(other)).unwrap();

    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.finds_all();
    user.writes_all();
    server.stops();
    pool.done("check", &[]);
    // the drive that left is told from the one that has its place
    let text = std::fs::read_to_string(&pool.config).unwrap();
    std::fs::write(&pool.config, text.replace("\"new.img\"", &format!("\"{left}\""))).unwrap();
    let refused = pool.run("serve", &[]);
    assert!(told(&refused).contains("another drive has taken its place"), "{}", told(&refused));
    true
}

#[test]
fn an_ssd_is_added_and_killed_half_way() {
    let half_way = (0..5).any(|_| added("one.img", "two.img", 2048));
    assert!(half_way, "in five tries the drive had come before the server was killed");
}

#[test]
fn a_hard_drive_is_added_and_killed() {
    assert!(added("hdd.img", "hdd2.img", 640));
}

#[test]
fn one_waits_for_the_end_and_the_same_drive_may_come_back() {
    let config = EMULATED.replace("emulate = \"vertex3\"\n", "");
    let pool = PoolFixture::formatted(&config);
    let server = pool.start();
    let mut user = User::new(&pool, "vol0", (PIECE, PIECES));
    user.writes_all();
    leaves(&pool, "two.img");
    let two = pool.path("two.img");
    let refused = pool.run("add", &[&two]);
    assert!(told(&refused).contains("holds a Tandem pool; use --force"), "{}", told(&refused));
    let came = pool.run("add", &[&two, "--force", "--json"]);
    assert!(came.status.success(), "{}", told(&came));
    let how = json(&came);
    assert!(how["finished"] == true && how["joins"] == true, "{how}");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), config);
    let shown = pool.done("status", &[]);
    assert!(shown.contains("Adding a drive as device 1") && shown.contains("finished"), "{shown}");
    assert!(!shown.contains("Draining"), "it is over: {shown}");
    user.finds_all();
    server.stops();
    let server = pool.start();
    user.back(&pool, "vol0").finds_all();
    server.stops();
    pool.done("check", &[]);
}

#[test]
fn what_cannot_come_is_refused_and_named() {
    let pool = PoolFixture::formatted(EMULATED);
    let new = pool.file("new.img", 2048);
    let small = pool.file("small.img", 64);
    let server = pool.start();
    let config = pool.config();
    let refuses = |arguments: &[&str], want: &str| {
        let refused = tandem(arguments);
        let said = told(&refused);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(want), "{arguments:?}: {said}");
    };
    refuses(&["add", config, &new], "has no empty bay");
    refuses(&["add", config, "--cancel"], "no drive is being replaced");
    pool.done("drain", &[&pool.path("one.img")]);
    refuses(&["add", config, &new], "has no empty bay");
    pool.done("remove", &[&pool.path("one.img")]);
    pool.done("drain", &[&pool.path("hdd.img")]);
    refuses(&["add", config, &new], "has a drive that is being drained");
    pool.done("remove", &[&pool.path("hdd.img")]);
    refuses(&["add", config, &new], "say --role");
    refuses(&["add", config, &small, "--role", "ssd"], "bytes, and 2147");
    refuses(&["add", config, &small, "--role", "hdd"], "bytes, and 671088640 are needed");
    let (two, none) = (pool.path("two.img"), pool.path("none.img"));
    refuses(&["add", config, &none, "--role", "ssd"], "it is missing");
    refuses(&["add", config, &two, "--role", "ssd", "--force"], "the same drive under two names");
    let bay = pool.path("two.img");
    refuses(&["add", config, &new, "--bay", &bay], "no such empty bay");
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert!(!text.contains("successor"), "nothing was noted: {text}");
    let bay = pool.path("hdd.img");
    pool.done("add", &[&new, "--bay", &bay]);
    refuses(&["add", config, &new], "the same drive under two names");
    server.stops();
    let nobody = tandem(&["add", config, &new]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
    let without = PoolFixture::formatted(TWO);
    let server = without.start();
    refuses(&["add", without.config(), &new], "has no empty bay");
    server.stops();
}
