//! Can a drive come to a pool while it is served, killed half way and served again?
//!
//! Requirement of pool life. The real program over emulated drives, which lose what was not flushed when it
//! dies.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use support::program::{TWO, formatted, json, printed, start, status, tandem, told};
use support::sigkill::{Target, over_nbd};
use support::{Pool, Server};
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
const PIECES: u64 = 128;
/// Longest wait for anything of emulated drives on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(120);

/// A user who writes in rounds and reads what the round before wrote.
struct User {
    target: Box<dyn Target>,
    round: u8,
}

fn bytes_of(piece: u64, round: u8) -> Vec<u8> {
    vec![piece as u8 ^ round.wrapping_mul(37); PIECE]
}

impl User {
    fn of(pool: &Pool, round: u8) -> User {
        User { target: over_nbd(pool.folder.path()).unwrap(), round }
    }

    fn writes(&mut self) {
        self.round = self.round.wrapping_add(1);
        for piece in 0..PIECES {
            let bytes = bytes_of(piece, self.round);
            self.target.write(piece * PIECE as u64, &bytes, false).unwrap();
        }
        self.target.flush().unwrap();
    }

    fn finds_all(&mut self) {
        for piece in 0..PIECES {
            let found = self.target.read(piece * PIECE as u64, PIECE).unwrap();
            assert!(found == bytes_of(piece, self.round), "piece {piece} of round {}", self.round);
        }
    }

    fn works_until(&mut self, pool: &Pool, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + LONG;
        loop {
            self.finds_all();
            self.writes();
            let told = status(pool);
            if so(&told) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {told}");
        }
    }
}

fn file(pool: &Pool, name: &str, mib: u64) -> String {
    let path = pool.at(name);
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    at(pool, name)
}

fn at(pool: &Pool, name: &str) -> String {
    pool.at(name).to_str().unwrap().to_owned()
}

/// Whom the second superblock of a drive names.
fn successor_in(path: &str) -> Option<Successor> {
    let file = File::open(path).unwrap();
    let mut block = vec![0; 4096];
    file.read_exact_at(&mut block, file.metadata().unwrap().len() - 4096).unwrap();
    Superblock::decode(&block).ok()?.successor
}

fn done(arguments: &[&str]) -> String {
    let output = tandem(arguments);
    assert!(output.status.success(), "{arguments:?}: {}{}", printed(&output), told(&output));
    printed(&output)
}

fn leaves(pool: &Pool, drive: &str) {
    done(&["drain", pool.config(), &at(pool, drive)]);
    done(&["remove", pool.config(), &at(pool, drive)]);
}

fn stops(server: Server) {
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
}

/// A drive leaves, another one comes, killed on the way; then all others of its kind leave. False: the drive had
/// come before anybody was killed, and nothing is shown.
fn added(left: &str, other: &str, mib: u64) -> bool {
    let pool = formatted(EMULATED);
    let new = file(&pool, "new.img", mib + 64);
    let server = start(&pool);
    let mut user = User::of(&pool, 0);
    user.writes();
    let room = |pool: &Pool| status(pool)["ssd_bytes"].as_u64().unwrap();
    let all = room(&pool);
    leaves(&pool, left);

    let dry = done(&["add", pool.config(), &new, "--dry-run"]);
    assert!(dry.contains("would take the bay that") && dry.contains(left), "{dry}");
    assert!(dry.contains("At risk: what the drive holds, which is nothing known"), "{dry}");
    assert!(status(&pool)["replacing"].is_null(), "it only said so");
    let begun = done(&["add", pool.config(), &new, "--detach"]);
    assert!(begun.contains("is being added"), "{begun}");
    // what names it last
    let last = at(&pool, if other == "hdd2.img" { "hdd2.img" } else { "hdd.img" });
    let deadline = Instant::now() + LONG;
    let mut asks_at = Instant::now() + Duration::from_secs(2);
    while successor_in(&last).is_none() {
        // a program that asks takes longer than the copying, where the machine is busy
        if Instant::now() >= asks_at {
            let replacing = &status(&pool)["replacing"];
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

    let server = start(&pool);
    let mut user = User::of(&pool, user.round);
    let is_over = |told: &serde_json::Value| {
        let how = &told["replacing"];
        how["finished"] == true || (how.is_null() && !was_half_way)
    };
    user.works_until(&pool, "added", is_over);
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let expected = EMULATED.replace(&format!("\"{left}\""), "\"new.img\"");
    assert_eq!(text, expected, "the configuration names the new drive, and is else as it was");
    assert_eq!(room(&pool), all, "what the pool has is as much as before");
    assert_eq!(status(&pool)["gone"], serde_json::json!([]));
    user.works_until(&pool, "written to", |told| {
        let index = if left == "one.img" { 0 } else { 2 };
        left == "hdd.img" || told["devices"][index]["written_bytes"].as_u64().unwrap() > 0
    });
    // what only it has now
    leaves(&pool, other);
    user.finds_all();
    user.writes();
    server.kill();
    std::fs::remove_file(pool.at(other)).unwrap();

    let server = start(&pool);
    let mut user = User::of(&pool, user.round);
    user.finds_all();
    user.writes();
    stops(server);
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
    // the drive that left is told from the one that has its place
    let text = std::fs::read_to_string(&pool.config).unwrap();
    std::fs::write(&pool.config, text.replace("\"new.img\"", &format!("\"{left}\""))).unwrap();
    let refused = tandem(&["serve", pool.config()]);
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
    let pool = formatted(&config);
    let server = start(&pool);
    let mut user = User::of(&pool, 0);
    user.writes();
    leaves(&pool, "two.img");
    let two = at(&pool, "two.img");
    let refused = tandem(&["add", pool.config(), &two]);
    assert!(told(&refused).contains("holds a Tandem pool; use --force"), "{}", told(&refused));
    let came = tandem(&["add", pool.config(), &two, "--force", "--json"]);
    assert!(came.status.success(), "{}", told(&came));
    let how = json(&came);
    assert!(how["finished"] == true && how["joins"] == true, "{how}");
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), config);
    let shown = done(&["status", pool.config()]);
    assert!(shown.contains("Adding a drive as device 1") && shown.contains("finished"), "{shown}");
    assert!(!shown.contains("Draining"), "it is over: {shown}");
    user.finds_all();
    stops(server);
    let server = start(&pool);
    User::of(&pool, user.round).finds_all();
    stops(server);
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
}

#[test]
fn what_cannot_come_is_refused_and_named() {
    let pool = formatted(EMULATED);
    let new = file(&pool, "new.img", 2048);
    let small = file(&pool, "small.img", 64);
    let server = start(&pool);
    let config = pool.config();
    let refuses = |arguments: &[&str], want: &str| {
        let refused = tandem(arguments);
        let said = told(&refused);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(want), "{arguments:?}: {said}");
    };
    refuses(&["add", config, &new], "has no empty bay");
    refuses(&["add", config, "--cancel"], "no drive is being replaced");
    done(&["drain", config, &at(&pool, "one.img")]);
    refuses(&["add", config, &new], "has no empty bay");
    done(&["remove", config, &at(&pool, "one.img")]);
    done(&["drain", config, &at(&pool, "hdd.img")]);
    refuses(&["add", config, &new], "has a drive that is being drained");
    done(&["remove", config, &at(&pool, "hdd.img")]);
    refuses(&["add", config, &new], "say --role");
    refuses(&["add", config, &small, "--role", "ssd"], "bytes, and 2147");
    refuses(&["add", config, &small, "--role", "hdd"], "bytes, and 671088640 are needed");
    let (two, none) = (at(&pool, "two.img"), at(&pool, "none.img"));
    refuses(&["add", config, &none, "--role", "ssd"], "it is missing");
    refuses(&["add", config, &two, "--role", "ssd", "--force"], "the same drive under two names");
    let bay = at(&pool, "two.img");
    refuses(&["add", config, &new, "--bay", &bay], "no such empty bay");
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert!(!text.contains("successor"), "nothing was noted: {text}");
    let bay = at(&pool, "hdd.img");
    done(&["add", config, &new, "--bay", &bay]);
    refuses(&["add", config, &new], "the same drive under two names");
    stops(server);
    let nobody = tandem(&["add", config, &new]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
    let without = formatted(TWO);
    let server = start(&without);
    refuses(&["add", without.config(), &new], "has no empty bay");
    stops(server);
}
