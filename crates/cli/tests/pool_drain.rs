//! Can a drive leave a pool while it is served, killed half way and served again?
//!
//! Requirement of pool life. The real program over emulated drives, which lose what was not flushed when it
//! dies.

use crate::support::PoolFixture;
use crate::support::program::{json, printed, tandem, told};
use crate::support::user::User;
use std::time::{Duration, Instant};

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
const PIECES: usize = 64;
/// What lies still while the user works behind it.
const STILL: usize = 2_048;
/// Longest wait for a drain of emulated drives on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(300);

fn number(of: &serde_json::Value, name: &str) -> u64 {
    of[name].as_u64().unwrap()
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
    let pool = PoolFixture::formatted(config);
    let drive = pool.path(leaves);
    let server = pool.start();
    let user = User::new(&pool, "vol0", (PIECE, STILL));
    let mut user = user.busy(0..PIECES, PIECES);
    user.writes_all();
    user.works();
    if leaves == "two.img" {
        // who comes alone writes to the first: what lies there goes to the second
        let filled = pool.run("drain", &[&pool.path("one.img")]);
        assert!(filled.status.success(), "{}", told(&filled));
        assert!(pool.run("drain", &["--cancel"]).status.success());
    }
    let early = pool.run("remove", &[&drive]);
    assert_eq!(early.status.code(), Some(1));
    assert!(told(&early).contains("bytes: drain it first"), "{}", told(&early));
    let dry = || pool.run("drain", &[&drive, "--dry-run", "--json"]);
    let (deadline, mut asked) = (Instant::now() + LONG, dry());
    while leaves == "hdd.img" && number(&json(&asked), "bytes") <= 32 << 20 {
        assert!(Instant::now() < deadline, "it does not go home: {}", printed(&asked));
        // in the quiet
        std::thread::sleep(Duration::from_millis(500));
        asked = dry();
    }
    assert!(number(&json(&asked), "bytes") > 32 << 20, "{}", printed(&asked));
    let draining = pool.status()["draining"].clone();
    assert!(draining.is_null() || draining["ended"] == "cancelled", "it only said so: {draining}");

    let begun = pool.run("drain", &[&drive, "--detach"]);
    assert!(begun.status.success(), "{}", told(&begun));
    user.works_until(&pool, "half way", |told| number(&told["draining"], "moved_bytes") > 4 << 20);
    let shown = printed(&pool.run("status", &[]));
    assert!(shown.contains("Draining ") || shown.contains("is drained"), "{shown}");
    server.kill();

    // what was begun goes on
    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.works_until(&pool, "at its end", |told| told["draining"]["drained"] == true);
    let waited = pool.run("drain", &[&drive]);
    assert!(told(&waited).contains("is being drained"), "{}", told(&waited));
    user.works();
    assert_eq!(number(&pool.status()["draining"], "left_bytes"), 0);
    let told_before = pool.run("remove", &[&drive, "--dry-run"]);
    assert!(printed(&told_before).contains("At risk: nothing"), "{}", printed(&told_before));
    let removed = pool.run("remove", &[&drive]);
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
    let last = pool.run("drain", &[&pool.path(other)]);
    assert!(told(&last).contains(&format!("last {role} in service")), "{}", told(&last));
    server.kill();

    // nobody asks for it any more
    std::fs::remove_file(&drive).unwrap();
    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.finds_all();
    user.works();
    server.stops();
    pool.done("check", &[]);
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
    let pool = PoolFixture::formatted(&EMULATED.replace("emulate = \"960evo\"\n", ""));
    let drive = pool.path("one.img");
    let server = pool.start();
    let user = User::new(&pool, "vol0", (PIECE, STILL));
    let mut user = user.busy(0..PIECES, PIECES);
    user.writes_all();
    let nothing = pool.run("drain", &["--cancel"]);
    assert!(told(&nothing).contains("no drive is being drained"), "{}", told(&nothing));
    let done = pool.run("drain", &[&drive, "--json"]);
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(json(&done)["drained"], true);
    let kept = pool.run("drain", &["--cancel"]);
    assert!(kept.status.success(), "{}", told(&kept));
    user.works();
    let not = pool.run("remove", &[&drive]);
    assert!(told(&not).contains("drain it first"), "{}", told(&not));
    assert!(pool.run("drain", &[&drive]).status.success());
    let before = std::fs::read_to_string(&pool.config).unwrap();
    assert!(pool.run("remove", &[&drive]).status.success());
    server.stops();

    // a crash between the superblocks and the configuration
    std::fs::write(&pool.config, &before).unwrap();
    let server = pool.start();
    user.back(&pool, "vol0").finds_all();
    server.stops();
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert!(text.contains("gone = true"), "it was noted: {text}");
    // a drive that the pool has is not gone because somebody says so
    let wrong = text.replace("path = \"two.img\"", "gone = true\npath = \"two.img\"");
    std::fs::write(&pool.config, wrong).unwrap();
    let refused = pool.run("serve", &[]);
    assert!(!refused.status.success(), "{}", told(&refused));
    let wrong = before.replace("path = \"two.img\"", "gone = true\npath = \"two.img\"");
    std::fs::write(&pool.config, wrong).unwrap();
    let refused = pool.run("serve", &[]);
    assert!(!refused.status.success(), "{}", told(&refused));
}

#[test]
fn what_cannot_leave_is_refused_and_named() {
    let pool = PoolFixture::formatted(EMULATED);
    let server = pool.start();
    let (none, hdd) = (pool.path("none.img"), pool.path("hdd.img"));
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
    server.stops();
    let nobody = pool.run("drain", &[&hdd]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
}
