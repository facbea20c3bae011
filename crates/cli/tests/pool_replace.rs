//! Can a drive be replaced while its pool is served, killed half way and served again?
//!
//! Requirement L4. The real program over emulated drives, which lose what was not flushed when it dies.

use crate::support::PoolFixture;
use crate::support::program::{TWO, json, printed, told};
use crate::support::user::User;

const EMULATED: &str = r#"# a pool of mine
[pool]
name = "lasting"
[[device]]
role = "ssd"
path = "ssd.img" # the one from the attic
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

fn number(of: &serde_json::Value, name: &str) -> u64 {
    of[name].as_u64().unwrap()
}

/// Replaces a drive; the server is killed when a good part of the copy is durable.
fn replaced(old: &str, new: &str) {
    let pool = PoolFixture::formatted(EMULATED);
    let path = pool.file(new, 700);
    let server = pool.start();
    let mut user = User::new(&pool, "vol0", (PIECE, PIECES));
    user.writes_all();
    user.works();
    let asked = pool.at(old);
    let begun = pool.run("replace", &[asked.to_str().unwrap(), &path, "--detach"]);
    assert!(begun.status.success(), "{}", told(&begun));
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let noted = format!("successor = \"{new}\"");
    assert!(text.contains(&noted) && text.contains(&format!("path = \"{old}\"")), "{text}");
    user.works_until(&pool, "half way", |told| number(&told["replacing"], "marked_bytes") > 0);
    assert!(printed(&pool.run("status", &[])).contains("Replacing "));
    server.kill();

    let server = pool.start();
    let mut user = user.back(&pool, "vol0");
    user.works_until(&pool, "at its end", |told| told["replacing"]["finished"] == true);
    let how = pool.status()["replacing"].clone();
    assert!(number(&how, "resumed_bytes") > 0, "{how}");
    // what users write goes to the SSD; a hard drive may have nothing to take meanwhile
    assert!(number(&how, "doubled_bytes") > 0 || old == "hdd.img", "{how}");
    user.works();
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let expected = EMULATED.replace(&format!("\"{old}\""), &format!("\"{new}\""));
    assert_eq!(text, expected, "the configuration names the new drive, and is else as it was");
    server.kill();

    let server = pool.start();
    user.back(&pool, "vol0").finds_all();
    server.stops();
    pool.done("check", &[]);
    // the old drive is told from the member that it was
    std::fs::write(&pool.config, EMULATED).unwrap();
    let refused = pool.run("serve", &[]);
    assert!(told(&refused).contains("another drive has taken its place"), "{}", told(&refused));
}

#[test]
fn an_ssd_is_replaced_under_load_and_killed_half_way() {
    replaced("ssd.img", "new-ssd.img");
}

#[test]
fn a_hard_drive_is_replaced_under_load_and_killed_half_way() {
    replaced("hdd.img", "new-hdd.img");
}

#[test]
fn one_waits_for_the_end_or_cancels() {
    let pool = PoolFixture::formatted(TWO);
    let path = pool.file("new.img", 128);
    let old = pool.at("hdd.img");
    let old = old.to_str().unwrap();
    let told_before = pool.run("replace", &[old, &path, "--dry-run"]);
    assert!(
        printed(&told_before).contains("At risk: what the new drive holds"),
        "{}",
        told(&told_before)
    );
    let server = pool.start();
    let nothing = pool.run("replace", &["--cancel"]);
    assert!(told(&nothing).contains("no drive is being replaced"), "{}", told(&nothing));
    let done = pool.run("replace", &[old, &path, "--json"]);
    assert!(done.status.success(), "{}", told(&done));
    let how = json(&done);
    assert_eq!(how["finished"], true, "{how}");
    assert_eq!(number(&how, "copied_bytes"), number(&how, "total_bytes"));
    server.stops();
    pool.done("check", &[]);
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let pool = PoolFixture::formatted(TWO);
    let small = pool.file("small.img", 127);
    let server = pool.start();
    let (ssd, hdd, none) = (pool.path("ssd.img"), pool.path("hdd.img"), pool.path("none.img"));
    for (old, new, code, want) in [
        (&none, &small, 2, "the pool has no drive"),
        (&hdd, &none, 1, "it is missing"),
        (&hdd, &small, 1, "bytes, and 134217728 are needed"),
        (&hdd, &hdd, 1, "the same drive under two names"),
        (&hdd, &ssd, 1, "the same drive under two names"),
    ] {
        let refused = pool.run("replace", &[old, new]);
        assert_eq!(refused.status.code(), Some(code), "{old} {new}: {}", told(&refused));
        assert!(told(&refused).contains(want), "{old} {new}: {}", told(&refused));
    }
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert_eq!(text, TWO, "nothing was noted");
    server.stops();
    let nobody = pool.run("replace", &[&hdd, &small]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
}
