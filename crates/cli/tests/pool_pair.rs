//! What does a person see of a pair of SSDs, from format to a drive that dies and a new one in its place?
//!
//! Source: requirements I13, I14. The real program over files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use serde_json::Value;
use std::time::{Duration, Instant};
use support::program::{
    ROUND_BYTES, filled, formatted, json, printed, round_byte, start, status, tandem, told, works,
};
use support::sigkill::over_nbd;
use support::{PATIENCE, Pool};

const PAIR: &str = r#"[pool]
name = "legs"
[[device]]
role = "ssd"
path = "a.img"
size = "96MiB"
pair = { leg = "b.img", period = "200ms", cache = "64MiB" }
[[volume]]
name = "vol0"
size = "32MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

fn shown(pool: &Pool) -> String {
    let output = tandem(&["status", pool.config()]);
    assert!(output.status.success(), "{}", told(&output));
    printed(&output)
}

fn checked(pool: &Pool) -> Value {
    let output = tandem(&["check", pool.config(), "--json"]);
    assert!(output.status.success(), "{}{}", printed(&output), told(&output));
    json(&output)
}

/// Waits until the pair's status is so.
fn until(pool: &Pool, what: &str, so: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pair = status(pool)["pairs"][0].clone();
        if so(&pair) {
            return;
        }
        assert!(Instant::now() < deadline, "never {what}: {pair}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn both_drives_are_named_wherever_the_pool_is_told() {
    let pool = Pool::new(PAIR);
    let made = tandem(&["format", pool.config()]);
    let text = printed(&made);
    assert!(text.contains("a.img") && text.contains("b.img"), "{text}{}", told(&made));

    let pool = filled(PAIR, true);
    let drives = checked(&pool)["drives"].clone();
    assert_eq!(drives.as_array().unwrap().len(), 1, "{drives}");
    assert!(drives[0]["path"].as_str().unwrap().ends_with("a.img"), "{drives}");
    assert!(drives[0]["leg"].as_str().unwrap().ends_with("b.img"), "held by both: {drives}");
    assert!(drives[0]["only_here_bytes"].as_u64().unwrap() > 0);

    let server = start(&pool);
    // a pair that nobody writes to keeps its roles
    let mut target = over_nbd(pool.folder.path()).unwrap();
    for _ in 0..2 {
        let turns = || status(&pool)["pairs"][0]["turns"].as_u64().unwrap();
        let before = turns();
        target.write(0, &[round_byte(0); ROUND_BYTES], false).unwrap();
        until(&pool, "changes places", |pair| pair["turns"].as_u64().unwrap() > before);
    }
    let text = shown(&pool);
    assert_eq!(text.matches("whole").count(), 2, "a row for each leg:\n{text}");
    assert!(!text.contains("out of service"), "{text}");
    let (ended, said) = server.stop();
    assert!(ended.success() && !said.contains("warning"), "{said}");
    works(&pool);
}

#[test]
fn a_drive_that_is_gone_is_told_until_a_new_one_has_everything() {
    let pool = filled(PAIR, true);
    std::fs::remove_file(pool.at("b.img")).unwrap();

    let server = start(&pool);
    let text = shown(&pool);
    for want in ["DEAD", "b.img is out of service", "a.img serves alone", "--new-leg"] {
        assert!(text.contains(want), "{want}:\n{text}");
    }
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
    assert!(said.contains("warning") && said.contains("b.img is out of service"), "{said}");
    let drives = checked(&pool)["drives"].clone();
    assert!(drives[0]["leg"].is_null(), "one drive holds it: {drives}");

    let path = pool.at("b.img");
    let arguments = [pool.config(), "--new-leg", path.to_str().unwrap()];
    let server = support::Server::start(support::program::program(), &arguments)
        .unwrap_or_else(|output| panic!("{}", told(&output)));
    until(&pool, "whole", |pair| {
        pair["behind_bytes"] == serde_json::json!([0, 0]) && pair["alive"][1] == true
    });
    let (ended, said) = server.stop();
    assert!(ended.success() && !said.contains("warning"), "{said}");

    // the other one goes: the new one alone has it all
    std::fs::remove_file(pool.at("a.img")).unwrap();
    works(&pool);
}

#[test]
fn a_pair_asked_of_something_else_says_so() {
    let pool = formatted(PAIR);
    let stranger = tandem(&["serve", pool.config(), "--new-leg", "c.img"]);
    assert_eq!(stranger.status.code(), Some(2), "{}", told(&stranger));
    assert!(told(&stranger).contains("no pair has a drive c.img"), "{}", told(&stranger));
    let used = pool.at("b.img");
    let holds = tandem(&["serve", pool.config(), "--new-leg", used.to_str().unwrap()]);
    assert!(!holds.status.success(), "a drive of the pool is no new one: {}", told(&holds));
}

const JOURNALED: &str = r#"[pool]
name = "legs"
[[device]]
role = "ssd"
path = "a.img"
size = "96MiB"
emulate = "960evo"
pair = { leg = "b.img", cache = "64MiB", journal = { path = "j.img", size = "128MiB", emulate = "960evo" } }
[[volume]]
name = "vol0"
size = "32MiB"
[serve]
nbd = ["unix:tandem.sock"]
"#;

/// The server is killed, which is a power cut for emulated drives, and a leg is gone with it: before
/// roles have changed once the other one has nothing but what the journal brings it.
#[test]
fn what_was_flushed_survives_a_power_cut_and_the_loss_of_either_leg() {
    for gone in ["a.img", "b.img"] {
        let pool = filled(JOURNALED, false);
        std::fs::remove_file(pool.at(gone)).unwrap();
        works(&pool);
    }
}

/// The same with a journal on a hard drive, which takes what nobody waits for when its buffer is fast.
#[test]
fn a_hard_drive_may_keep_the_journal() {
    let ssd = "path = \"j.img\", size = \"128MiB\", emulate = \"960evo\"";
    let hdd = "path = \"j.img\", size = \"1GiB\", role = \"hdd\", emulate = \"wd100efax\", \
               profile = \"wd100efax\"";
    assert!(JOURNALED.contains(ssd));
    let pool = filled(&JOURNALED.replace(ssd, hdd), false);
    std::fs::remove_file(pool.at("a.img")).unwrap();
    let server = start(&pool);
    let journal = status(&pool)["pairs"][0]["journal"].clone();
    assert!(journal["alive"] == true && journal["window"].is_string(), "{journal}");
    assert!(journal["replayed_bytes"].as_u64().unwrap() > 0, "{journal}");
    assert!(server.stop().0.success());
    works(&pool);
}

#[test]
fn a_journal_is_told_of_and_done_without_and_replaced() {
    let pool = filled(JOURNALED, true);
    let server = start(&pool);
    let text = shown(&pool);
    assert!(text.contains("The journal") && text.contains("j.img holds"), "{text}");
    assert_eq!(status(&pool)["pairs"][0]["journal"]["alive"], true);
    assert!(server.stop().0.success());

    let used = pool.at("j.img");
    let holds = tandem(&["serve", pool.config(), "--new-leg", used.to_str().unwrap()]);
    assert!(told(&holds).contains("the journal of a Tandem pair"), "{}", told(&holds));
    std::fs::remove_file(&used).unwrap();
    let server = start(&pool);
    let text = shown(&pool);
    assert!(text.contains("DEAD") && text.contains("--new-leg"), "{text}");
    assert!(server.stop().0.success());

    let arguments = [pool.config(), "--new-leg", used.to_str().unwrap()];
    let server = support::Server::start(support::program::program(), &arguments)
        .unwrap_or_else(|output| panic!("{}", told(&output)));
    assert_eq!(status(&pool)["pairs"][0]["journal"]["alive"], true);
    assert!(server.stop().0.success());
    assert!(checked(&pool)["ok"].as_bool().unwrap());
    works(&pool);
}

#[test]
fn a_journal_that_is_none_or_another_pairs_is_refused() {
    let pool = filled(JOURNALED, true);
    std::fs::write(pool.at("j.img"), vec![0; 128 << 20]).unwrap();
    let none = tandem(&["serve", pool.config()]);
    assert!(told(&none).contains("not the journal of a pair"), "{}", told(&none));
    let other = filled(JOURNALED, true);
    std::fs::copy(other.at("j.img"), pool.at("j.img")).unwrap();
    let stranger = tandem(&["serve", pool.config()]);
    assert!(told(&stranger).contains("journal of another pair"), "{}", told(&stranger));
    std::fs::File::options().write(true).open(pool.at("j.img")).unwrap().set_len(64 << 20).unwrap();
    let small = tandem(&["serve", pool.config()]);
    assert!(told(&small).contains("too small"), "{}", told(&small));
}
