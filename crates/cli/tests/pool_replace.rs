//! Can a drive be replaced while its pool is served, killed half way and served again?
//!
//! Requirement L4. The real program over emulated drives, which lose what was not flushed when it dies.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::fs::File;
use std::time::{Duration, Instant};
use support::program::{TWO, formatted, json, printed, start, status, tandem, told};
use support::sigkill::{Target, over_nbd};
use support::{Pool, Server};

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
const PIECES: u64 = 64;
/// Longest wait for a copy of emulated drives on a machine that has other things to do.
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

    fn finds_all(&mut self) {
        for piece in 0..PIECES {
            let found = self.target.read(piece * PIECE as u64, PIECE).unwrap();
            assert!(found == bytes_of(piece, self.round), "piece {piece} of round {}", self.round);
        }
    }

    fn works(&mut self) {
        self.finds_all();
        self.round = self.round.wrapping_add(1);
        for piece in 0..PIECES {
            let bytes = bytes_of(piece, self.round);
            self.target.write(piece * PIECE as u64, &bytes, false).unwrap();
        }
        self.target.flush().unwrap();
    }

    /// Works until the replacement is so far.
    fn works_until(&mut self, pool: &Pool, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
        let deadline = Instant::now() + LONG;
        loop {
            self.works();
            let replacing = status(pool)["replacing"].clone();
            if so(&replacing) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {replacing}");
        }
    }
}

fn number(of: &serde_json::Value, name: &str) -> u64 {
    of[name].as_u64().unwrap()
}

fn file(pool: &Pool, name: &str, mib: u64) -> String {
    let path = pool.at(name);
    File::create(&path).unwrap().set_len(mib << 20).unwrap();
    path.to_str().unwrap().to_owned()
}

fn stops(server: Server) {
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
}

/// Replaces a drive; the server is killed when a good part of the copy is durable.
fn replaced(old: &str, new: &str) {
    let pool = formatted(EMULATED);
    let path = file(&pool, new, 700);
    let server = start(&pool);
    let mut user = User::of(&pool, 0);
    for piece in 0..PIECES {
        user.target.write(piece * PIECE as u64, &bytes_of(piece, 0), false).unwrap();
    }
    user.works();
    let asked = pool.at(old);
    let begun = tandem(&["replace", pool.config(), asked.to_str().unwrap(), &path, "--detach"]);
    assert!(begun.status.success(), "{}", told(&begun));
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let noted = format!("successor = \"{new}\"");
    assert!(text.contains(&noted) && text.contains(&format!("path = \"{old}\"")), "{text}");
    user.works_until(&pool, "half way", |how| number(how, "marked_bytes") > 0);
    assert!(printed(&tandem(&["status", pool.config()])).contains("Replacing "));
    server.kill();

    let server = start(&pool);
    let mut user = User::of(&pool, user.round);
    user.works_until(&pool, "at its end", |how| how["finished"].as_bool() == Some(true));
    let how = status(&pool)["replacing"].clone();
    assert!(number(&how, "resumed_bytes") > 0, "{how}");
    // what users write goes to the SSD; a hard drive may have nothing to take meanwhile
    assert!(number(&how, "doubled_bytes") > 0 || old == "hdd.img", "{how}");
    user.works();
    let text = std::fs::read_to_string(&pool.config).unwrap();
    let expected = EMULATED.replace(&format!("\"{old}\""), &format!("\"{new}\""));
    assert_eq!(text, expected, "the configuration names the new drive, and is else as it was");
    server.kill();

    let server = start(&pool);
    User::of(&pool, user.round).finds_all();
    stops(server);
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
    // the old drive is told from the member that it was
    std::fs::write(&pool.config, EMULATED).unwrap();
    let refused = tandem(&["serve", pool.config()]);
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
    let pool = formatted(TWO);
    let path = file(&pool, "new.img", 128);
    let old = pool.at("hdd.img");
    let old = old.to_str().unwrap();
    let told_before = tandem(&["replace", pool.config(), old, &path, "--dry-run"]);
    assert!(
        printed(&told_before).contains("At risk: what the new drive holds"),
        "{}",
        told(&told_before)
    );
    let server = start(&pool);
    let nothing = tandem(&["replace", pool.config(), "--cancel"]);
    assert!(told(&nothing).contains("no drive is being replaced"), "{}", told(&nothing));
    let done = tandem(&["replace", pool.config(), old, &path, "--json"]);
    assert!(done.status.success(), "{}", told(&done));
    let how = json(&done);
    assert_eq!(how["finished"], true, "{how}");
    assert_eq!(number(&how, "copied_bytes"), number(&how, "total_bytes"));
    stops(server);
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let pool = formatted(TWO);
    let small = file(&pool, "small.img", 127);
    let server = start(&pool);
    let at = |name: &str| pool.at(name).to_str().unwrap().to_owned();
    let (ssd, hdd, none) = (at("ssd.img"), at("hdd.img"), at("none.img"));
    for (old, new, code, want) in [
        (&none, &small, 2, "the pool has no drive"),
        (&hdd, &none, 1, "it is missing"),
        (&hdd, &small, 1, "bytes, and 134217728 are needed"),
        (&hdd, &hdd, 1, "the same drive under two names"),
        (&hdd, &ssd, 1, "the same drive under two names"),
    ] {
        let refused = tandem(&["replace", pool.config(), old, new]);
        assert_eq!(refused.status.code(), Some(code), "{old} {new}: {}", told(&refused));
        assert!(told(&refused).contains(want), "{old} {new}: {}", told(&refused));
    }
    let text = std::fs::read_to_string(&pool.config).unwrap();
    assert_eq!(text, TWO, "nothing was noted");
    stops(server);
    let nobody = tandem(&["replace", pool.config(), &hdd, &small]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));
}
