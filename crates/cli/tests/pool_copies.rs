//! Does `tandem check` see a bad copy while another one still answers, and say which and where?
//!
//! Source: design decision 7. A byte is flipped in each copy in turn, of data and of metadata.

use crate::support::fixture::PoolText;
use crate::support::program::{TWO, filled, flip, json, layout, printed, told, works};
use crate::support::{PATIENCE, PoolFixture};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tandem_engine::format::page::PAGE_BYTES;

/// Two SSDs: each holds all of the metadata.
fn mirrored() -> String {
    PoolText::named("mirrored").ssd("64MiB").ssd("64MiB").volume("vol0", "32MiB").nbd().text()
}

const BLOCKS: u64 = 31 * 256;

/// No two blocks are alike.
fn content(block: u64) -> Vec<u8> {
    (block + 1).to_le_bytes().repeat(512)
}

/// What `check` says: fails, and its document.
fn found(pool: &PoolFixture) -> Value {
    let check = pool.run("check", &["--json"]);
    assert_eq!(check.status.code(), Some(1), "{}", told(&check));
    let report = json(&check);
    assert_eq!(report["ok"], false);
    report
}

fn is_whole(pool: &PoolFixture) {
    let check = pool.run("check", &["--json"]);
    assert!(check.status.success(), "{}", printed(&check));
}

/// Where each block lies on a drive.
fn places(pool: &PoolFixture, name: &str) -> BTreeMap<u64, u64> {
    let image = std::fs::read(pool.at(name)).unwrap();
    let found = image.chunks_exact(4096).enumerate().filter_map(|(at, bytes)| {
        let block = u64::from_le_bytes(bytes[..8].try_into().unwrap()).checked_sub(1)?;
        (block < BLOCKS && content(block) == bytes).then_some((block, at as u64 * 4096))
    });
    found.collect()
}

/// Full enough that a part of it is written home and stays on the SSD too.
fn written_home() -> PoolFixture {
    let pool = PoolFixture::formatted(TWO);
    let server = pool.start();
    let mut target = pool.nbd();
    for block in 0..BLOCKS {
        target.write(block * 4096, &content(block), false).unwrap();
    }
    target.flush().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while pool.status()["ssd_clean_bytes"].as_u64().unwrap() < 1 << 20 {
        assert!(Instant::now() < deadline, "{}", pool.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    server.stops();
    pool
}

#[test]
fn a_rotten_second_copy_is_found_on_the_ssd_and_at_home() {
    let pool = written_home();
    is_whole(&pool);
    let (ssd, hdd) = (places(&pool, "ssd.img"), places(&pool, "hdd.img"));
    let twice: Vec<u64> = ssd.keys().copied().filter(|block| hdd.contains_key(block)).collect();
    assert!(twice.len() > 200, "{} blocks are in two places", twice.len());
    for (name, places, place) in [("ssd.img", &ssd, "SSD copy"), ("hdd.img", &hdd, "home")] {
        // neighbours are told together where they are neighbours on the drive too
        for block in [twice[0], twice[twice.len() / 2]] {
            let at = places[&block];
            flip(&pool.at(name), at + 1234);
            let report = found(&pool);
            let bad = report["bad_copies"].as_array().unwrap();
            assert_eq!(bad.len(), 1, "{report}");
            assert!(bad[0]["device"].as_str().unwrap().ends_with(name), "{report}");
            assert_eq!(bad[0]["place"], place);
            assert_eq!(bad[0]["offset_bytes"], block * 4096);
            assert_eq!(bad[0]["length_bytes"], 4096);
            assert_eq!(bad[0]["device_offset_bytes"], at);
            assert_eq!(bad[0]["has_sound_copy"], true);
            assert_eq!(report["volumes"][0]["bad_bytes"], 0, "everything can be read");
            flip(&pool.at(name), at + 1234);
        }
        is_whole(&pool);
    }
    // both copies: the block is lost, and said so
    let block = twice[1];
    flip(&pool.at("ssd.img"), ssd[&block]);
    flip(&pool.at("hdd.img"), hdd[&block]);
    let report = found(&pool);
    assert_eq!(report["volumes"][0]["bad_bytes"], 4096);
    let bad = report["bad_copies"].as_array().unwrap();
    assert!(bad.len() == 2 && bad.iter().all(|bad| bad["has_sound_copy"] == false), "{report}");
    flip(&pool.at("ssd.img"), ssd[&block]);
    // what the user is told to do helps: read and write back
    let text = printed(&pool.run("check", &[]));
    assert!(text.contains("home on") && text.contains("write them back"), "{text}");
    let server = pool.start();
    let mut target = pool.nbd();
    let bytes = target.read(block * 4096, 4096).unwrap();
    assert!(bytes == content(block));
    target.write(block * 4096, &bytes, true).unwrap();
    server.stops();
    is_whole(&pool);
}

/// Each drive's own copy of the map and of the journal.
#[test]
fn rotten_metadata_is_found_on_each_of_two_ssds() {
    for cleanly in [true, false] {
        let pool = filled(&mirrored(), cleanly);
        is_whole(&pool);
        for name in ["ssd.img", "ssd2.img"] {
            let layout = layout(&pool.at(name));
            let mut parts = Vec::new();
            if cleanly {
                let pages = (0..layout.area_pages).map(|page| page * PAGE_BYTES + 99);
                parts.push(("page 0 of pointers", layout.area_offset, pages.collect()));
                let roots = (0..2).map(|n| n * layout.root_bytes + 40);
                parts.push(("checkpoint roots", layout.root_offset, roots.collect()));
            } else {
                // some units are there in either case: behind the root of a killed server
                parts.push(("journal unit", layout.journal_offset, vec![2 * 4096 + 70]));
            }
            for (part, offset, flips) in parts {
                let flips: Vec<u64> = flips;
                let flip_all = || flips.iter().for_each(|at| flip(&pool.at(name), offset + at));
                flip_all();
                let report = found(&pool);
                let bad = report["bad_metadata"].as_array().unwrap();
                assert!(!bad.is_empty(), "{part} on {name}: {report}");
                for bad in bad {
                    assert!(bad["device"].as_str().unwrap().ends_with(name), "{report}");
                    assert!(bad["part"].as_str().unwrap().starts_with(part), "{report}");
                }
                assert_eq!(report["error"], Value::Null, "the other SSD has it: {report}");
                assert_eq!(report["bad_copies"], serde_json::json!([]));
                flip_all();
                is_whole(&pool);
            }
        }
        works(&pool);
    }
}

/// The hard drive beside a single SSD keeps pages of the map too.
#[test]
fn rotten_metadata_is_found_on_the_metadata_replica() {
    let pool = written_home();
    for name in ["ssd.img", "hdd.img"] {
        let layout = layout(&pool.at(name));
        let pages = (0..layout.area_pages).map(|page| layout.area_offset + page * PAGE_BYTES);
        let image = std::fs::read(pool.at(name)).unwrap();
        let is_written =
            |at: &u64| image[*at as usize..][..PAGE_BYTES as usize].iter().any(|b| *b != 0);
        // older ones lie there, too
        let written: Vec<u64> = pages.filter(is_written).collect();
        let mut parts = BTreeSet::new();
        for at in written {
            flip(&pool.at(name), at + 200);
            let check = pool.run("check", &["--json"]);
            let report = json(&check);
            for bad in report["bad_metadata"].as_array().unwrap() {
                assert!(bad["device"].as_str().unwrap().ends_with(name), "{report}");
                assert_eq!(bad["device_offset_bytes"], at, "{report}");
                parts.insert(bad["part"].as_str().unwrap().to_owned());
            }
            flip(&pool.at(name), at + 200);
        }
        for part in ["checksum page 0", "map page 0", "page 0 of pointers to the map, level 1"] {
            assert!(parts.contains(part), "{name}: {parts:?}");
        }
    }
    is_whole(&pool);
}
