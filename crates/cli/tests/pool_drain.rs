//! Can a drive leave a pool while it is served, killed half way and served again?
//!
//! Requirement of pool life. The real program over emulated drives, which lose what was not flushed when it
//! dies.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::time::{Duration, Instant};
use support::program::{formatted, json, printed, start, status, tandem, told};
use support::sigkill::{Target, over_nbd};
use support::{Pool, Server};

const EMULATED: &str = r#"# a pool of mine
[pool]
name = "shrinking"
[[device]]
role = "ssd"
path = "one.img"
size = "640MiB"
emulate = "960evo"
[[device]]
role = "ssd"
path = "two.img" # the one from the attic
size = "640MiB"
emulate = "960evo"
[[device]]
role = "hdd"
path = "hdd.img"
size = "640MiB"
emulate = "wd100efax"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "256MiB"
steer = "mios-d"
[serve]
nbd = ["unix:tandem.sock"]
"#;

const PIECE: usize = 64 << 10;
const PIECES: u64 = 64;
/// What lies still while the user works behind it.
const STILL: u64 = 2_048;
/// Longest wait for a drain of emulated drives on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(300);

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

    fn writes(&mut self, pieces: std::ops::Range<u64>) {
        for piece in pieces {
            let bytes = bytes_of(piece, self.round);
            self.target.write(piece * PIECE as u64, &bytes, false).unwrap();
        }
        self.target.flush().unwrap();
    }

    fn finds(&mut self, pieces: std::ops::Range<u64>, round: u8) {
        for piece in pieces {
            let found = self.target.read(piece * PIECE as u64, PIECE).unwrap();
            assert!(found == bytes_of(piece, round), "piece {piece} of round {round}");
        }
    }

    fn works(&mut self) {
        self.finds(0..PIECES, self.round);
        self.round = self.round.wrapping_add(1);
        self.writes(0..PIECES);
    }

    fn finds_all(&mut self) {
        self.finds(0..PIECES, self.round);
        self.finds(PIECES..STILL, 0);
    }

    /// Works until the drain is so far.
    fn works_until(&mut self, pool: &Pool, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + LONG;
        loop {
            let draining = status(pool)["draining"].clone();
            if so(&draining) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {draining}");
            self.works();
        }
    }
}

fn number(of: &serde_json::Value, name: &str) -> u64 {
    of[name].as_u64().unwrap()
}

fn stops(server: Server) {
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
}

fn at(pool: &Pool, name: &str) -> String {
    pool.at(name).to_str().unwrap().to_owned()
}

/// A second hard drive, and a volume whose data goes to hard drives.
fn with_two_hard_drives() -> String {
    let hdd = &EMULATED[EMULATED.find("[[device]]\nrole = \"hdd\"").unwrap()..];
    let hdd = &hdd[..hdd.find("[[volume]]").unwrap()];
    let other = hdd.replace("hdd.img", "hdd2.img");
    let config = EMULATED.replace("[[volume]]", &format!("{other}[[volume]]"));
    config.replace("steer = \"mios-d\"", "steer = \"ssd-first\"\ntier = \"hot-dst\"")
}

fn drained(config: &str, leaves: &str) {
    let pool = formatted(config);
    let drive = at(&pool, leaves);
    let server = start(&pool);
    let mut user = User::of(&pool, 0);
    user.writes(0..STILL);
    user.works();
    if leaves == "two.img" {
        // who comes alone writes to the first: what lies there goes to the second
        let filled = tandem(&["drain", pool.config(), &at(&pool, "one.img")]);
        assert!(filled.status.success(), "{}", told(&filled));
        assert!(tandem(&["drain", pool.config(), "--cancel"]).status.success());
    }
    let early = tandem(&["remove", pool.config(), &drive]);
    assert_eq!(early.status.code(), Some(1));
    assert!(told(&early).contains("bytes: drain it first"), "{}", told(&early));
    let dry = || tandem(&["drain", pool.config(), &drive, "--dry-run", "--json"]);
    let (deadline, mut asked) = (Instant::now() + LONG, dry());
    while leaves == "hdd.img" && number(&json(&asked), "bytes") <= 32 << 20 {
        assert!(Instant::now() < deadline, "it does not go home: {}", printed(&asked));
        // in the quiet
        std::thread::sleep(Duration::from_millis(500));
        asked = dry();
    }
    assert!(number(&json(&asked), "bytes") > 32 << 20, "{}", printed(&asked));
    let draining = status(&pool)["draining"].clone();
    assert!(draining.is_null() || draining["ended"] == "cancelled", "it only said so: {draining}");

    let begun = tandem(&["drain", pool.config(), &drive, "--detach"]);
    assert!(begun.status.success(), "{}", told(&begun));
    user.works_until(&pool, "half way", |how| number(how, "moved_bytes") > 4 << 20);
    let shown = printed(&tandem(&["status", pool.config()]));
    assert!(shown.contains("Draining ") || shown.contains("is drained"), "{shown}");
    server.kill();

    // what was begun goes on
    let server = start(&pool);
    let mut user = User::of(&pool, user.round);
    user.works_until(&pool, "at its end", |how| how["drained"] == true);
    let waited = tandem(&["drain", pool.config(), &drive]);
    assert!(told(&waited).contains("is being drained"), "{}", told(&waited));
    user.works();
    assert_eq!(number(&status(&pool)["draining"], "left_bytes"), 0);
    let told_before = tandem(&["remove", pool.config(), &drive, "--dry-run"]);
    assert!(printed(&told_before).contains("At risk: nothing"), "{}", printed(&told_before));
    let removed = tandem(&["remove", pool.config(), &drive]);
    assert!(removed.status.success(), "{}", told(&removed));
    user.finds_all();
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let line = text.lines().position(|line| line.contains(leaves)).unwrap();
    assert!(text.lines().nth(line + 1).unwrap().starts_with("gone = true"), "{text}");
    let (other, role) = match leaves {
        "one.img" => ("two.img", "SSD"),
        "two.img" => ("one.img", "SSD"),
        _ => ("hdd2.img", "hard drive"),
    };
    let last = tandem(&["drain", pool.config(), &at(&pool, other)]);
    assert!(told(&last).contains(&format!("last {role} in service")), "{}", told(&last));
    server.kill();

    // nobody asks for it any more
    std::fs::remove_file(&drive).unwrap();
    let server = start(&pool);
    let mut user = User::of(&pool, user.round);
    user.finds_all();
    user.works();
    stops(server);
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
}

#[test]
fn the_first_ssd_is_drained_under_load_killed_half_way_and_removed() {
    drained(EMULATED, "one.img");
}

#[test]
fn the_second_ssd_is_drained_under_load_killed_half_way_and_removed() {
    drained(EMULATED, "two.img");
}

#[test]
fn a_hard_drive_is_drained_under_load_killed_half_way_and_removed() {
    drained(&with_two_hard_drives(), "hdd.img");
}

#[test]
fn one_changes_ones_mind_and_the_configuration_may_be_behind() {
    let pool = formatted(&EMULATED.replace("emulate = \"960evo\"\n", ""));
    let drive = at(&pool, "one.img");
    let server = start(&pool);
    let mut user = User::of(&pool, 0);
    user.writes(0..STILL);
    let nothing = tandem(&["drain", pool.config(), "--cancel"]);
    assert!(told(&nothing).contains("no drive is being drained"), "{}", told(&nothing));
    let done = tandem(&["drain", pool.config(), &drive, "--json"]);
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(json(&done)["drained"], true);
    let kept = tandem(&["drain", pool.config(), "--cancel"]);
    assert!(kept.status.success(), "{}", told(&kept));
    user.works();
    let not = tandem(&["remove", pool.config(), &drive]);
    assert!(told(&not).contains("drain it first"), "{}", told(&not));
    assert!(tandem(&["drain", pool.config(), &drive]).status.success());
    let before = std::fs::read_to_string(&pool.config).unwrap();
    assert!(tandem(&["remove", pool.config(), &drive]).status.success());
    stops(server);

    // a crash between the superblocks and the configuration
    std::fs::write(&pool.config, &before).unwrap();
    let server = start(&pool);
    User::of(&pool, user.round).finds(0..PIECES, user.round);
    stops(server);
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert!(text.contains("gone = true"), "it was noted: {text}");
    // a drive that the pool has is not gone because somebody says so
    let wrong = text.replace("path = \"two.img\"", "gone = true\npath = \"two.img\"");
    std::fs::write(&pool.config, wrong).unwrap();
    let refused = tandem(&["serve", pool.config()]);
    assert!(!refused.status.success(), "{}", told(&refused));
    let wrong = before.replace("path = \"two.img\"", "gone = true\npath = \"two.img\"");
    std::fs::write(&pool.config, wrong).unwrap();
    let refused = tandem(&["serve", pool.config()]);
    assert!(!refused.status.success(), "{}", told(&refused));
}

#[test]
fn what_cannot_leave_is_refused_and_named() {
    let pool = formatted(EMULATED);
    let server = start(&pool);
    let (none, hdd) = (at(&pool, "none.img"), at(&pool, "hdd.img"));
    for (verb, drive, code, want) in [
        ("drain", &none, 2, "the pool has no drive"),
        ("remove", &none, 2, "the pool has no drive"),
        ("drain", &hdd, 1, "last hard drive in service"),
        ("remove", &hdd, 1, "last hard drive in service"),
    ] {
        let refused = tandem(&[verb, pool.config(), drive]);
        assert_eq!(refused.status.code(), Some(code), "{verb} {drive}: {}", told(&refused));
        assert!(told(&refused).contains(want), "{verb} {drive}: {}", told(&refused));
    }
    assert_eq!(std::fs::read_to_string(&pool.config).unwrap(), EMULATED, "nothing was noted");
    stops(server);
    let nobody = tandem(&["drain", pool.config(), &hdd]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
}
