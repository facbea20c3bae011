//! What does a person see of a pair of SSDs, from format to a drive that dies and a new one in its place?
//!
//! Source: requirements I13, I14. The real program over files.

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::program::{ROUND_BYTES, filled, printed, round_byte, told, works};

fn pair() -> String {
    PoolText::named("legs")
        .drive("ssd", "a.img")
        .with("size = \"96MiB\"")
        .with("pair = { leg = \"b.img\", period = \"200ms\", cache = \"64MiB\" }")
        .volume("vol0", "32MiB")
        .nbd()
        .text()
}

#[test]
fn both_drives_are_named_wherever_the_pool_is_told() {
    let pool = PoolFixture::new(&pair());
    let made = pool.run("format", &[]);
    let text = printed(&made);
    assert!(text.contains("a.img") && text.contains("b.img"), "{text}{}", told(&made));

    let pool = filled(&pair(), true);
    let drives = pool.asked("check", &[])["drives"].clone();
    assert_eq!(drives.as_array().unwrap().len(), 1, "{drives}");
    assert!(drives[0]["path"].as_str().unwrap().ends_with("a.img"), "{drives}");
    assert!(drives[0]["leg"].as_str().unwrap().ends_with("b.img"), "held by both: {drives}");
    assert!(drives[0]["only_here_bytes"].as_u64().unwrap() > 0);

    let server = pool.start();
    // a pair that nobody writes to keeps its roles
    let mut target = pool.nbd();
    for _ in 0..2 {
        let turns = || pool.status()["pairs"][0]["turns"].as_u64().unwrap();
        let before = turns();
        target.write(0, &[round_byte(0); ROUND_BYTES], false).unwrap();
        pool.until("/pairs/0", "changes places", |pair| pair["turns"].as_u64().unwrap() > before);
    }
    let text = pool.done("status", &[]);
    assert_eq!(text.matches("whole").count(), 2, "a row for each leg:\n{text}");
    assert!(!text.contains("out of service"), "{text}");
    let (ended, said) = server.stop();
    assert!(ended.success() && !said.contains("warning"), "{said}");
    works(&pool);
}

#[test]
fn a_drive_that_is_gone_is_told_until_a_new_one_has_everything() {
    let pool = filled(&pair(), true);
    std::fs::remove_file(pool.at("b.img")).unwrap();

    let server = pool.start();
    let text = pool.done("status", &[]);
    for want in ["DEAD", "b.img is out of service", "a.img serves alone", "--new-leg"] {
        assert!(text.contains(want), "{want}:\n{text}");
    }
    let (ended, said) = server.stop();
    assert!(ended.success(), "{said}");
    assert!(said.contains("warning") && said.contains("b.img is out of service"), "{said}");
    let drives = pool.asked("check", &[])["drives"].clone();
    assert!(drives[0]["leg"].is_null(), "one drive holds it: {drives}");

    let path = pool.at("b.img");
    let server = pool.start_with(&["--new-leg", path.to_str().unwrap()]);
    pool.until("/pairs/0", "whole", |pair| {
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
    let pool = PoolFixture::formatted(&pair());
    let stranger = pool.run("serve", &["--new-leg", "c.img"]);
    assert_eq!(stranger.status.code(), Some(2), "{}", told(&stranger));
    assert!(told(&stranger).contains("no pair has a drive c.img"), "{}", told(&stranger));
    let used = pool.at("b.img");
    let holds = pool.run("serve", &["--new-leg", used.to_str().unwrap()]);
    assert!(!holds.status.success(), "a drive of the pool is no new one: {}", told(&holds));
}

fn journaled() -> String {
    PoolText::named("legs").drive("ssd", "a.img").with("size = \"96MiB\"").emulated("960evo").with("pair = { leg = \"b.img\", cache = \"64MiB\", journal = { path = \"j.img\", size = \"128MiB\", emulate = \"960evo\" } }").volume("vol0", "32MiB").nbd().text()
}

/// The server is killed, which is a power cut for emulated drives, and a leg is gone with it: before
/// roles have changed once the other one has nothing but what the journal brings it.
#[test]
fn what_was_flushed_survives_a_power_cut_and_the_loss_of_either_leg() {
    for gone in ["a.img", "b.img"] {
        let pool = filled(&journaled(), false);
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
    assert!(journaled().contains(ssd));
    let pool = filled(&journaled().replace(ssd, hdd), false);
    std::fs::remove_file(pool.at("a.img")).unwrap();
    let server = pool.start();
    let journal = pool.status()["pairs"][0]["journal"].clone();
    assert!(journal["alive"] == true && journal["window"].is_string(), "{journal}");
    assert!(journal["replayed_bytes"].as_u64().unwrap() > 0, "{journal}");
    server.stops();
    works(&pool);
}

#[test]
fn a_journal_is_told_of_and_done_without_and_replaced() {
    let pool = filled(&journaled(), true);
    let server = pool.start();
    let text = pool.done("status", &[]);
    assert!(text.contains("The journal") && text.contains("j.img holds"), "{text}");
    assert_eq!(pool.status()["pairs"][0]["journal"]["alive"], true);
    server.stops();

    let used = pool.at("j.img");
    let holds = pool.run("serve", &["--new-leg", used.to_str().unwrap()]);
    assert!(told(&holds).contains("the journal of a Tandem pair"), "{}", told(&holds));
    std::fs::remove_file(&used).unwrap();
    let server = pool.start();
    let text = pool.done("status", &[]);
    assert!(text.contains("DEAD") && text.contains("--new-leg"), "{text}");
    server.stops();

    let arguments = [pool.config(), "--new-leg", used.to_str().unwrap()];
    let server = crate::support::Server::start(crate::support::program::program(), &arguments)
        .unwrap_or_else(|output| panic!("{}", told(&output)));
    assert_eq!(pool.status()["pairs"][0]["journal"]["alive"], true);
    server.stops();
    assert!(pool.asked("check", &[])["ok"].as_bool().unwrap());
    works(&pool);
}

#[test]
fn a_journal_that_is_none_or_another_pairs_is_refused() {
    let pool = filled(&journaled(), true);
    std::fs::write(pool.at("j.img"), vec![0; 128 << 20]).unwrap();
    let none = pool.run("serve", &[]);
    assert!(told(&none).contains("not the journal of a pair"), "{}", told(&none));
    let other = filled(&journaled(), true);
    std::fs::copy(other.at("j.img"), pool.at("j.img")).unwrap();
    let stranger = pool.run("serve", &[]);
    assert!(told(&stranger).contains("journal of another pair"), "{}", told(&stranger));
    std::fs::File::options().write(true).open(pool.at("j.img")).unwrap().set_len(64 << 20).unwrap();
    let small = pool.run("serve", &[]);
    assert!(told(&small).contains("too small"), "{}", told(&small));
}
