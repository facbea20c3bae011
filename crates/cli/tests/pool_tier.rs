//! What does a person see of a tier, from the configuration to a change while it is served?
//!
//! Source: acceptance of tiers and caches, "Build" 3 and "Bad input". The real program over files.

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::program::{printed, told};

fn tiered() -> String {
    PoolText::named("tiers")
        .ssd("64MiB")
        .hdd("256MiB")
        .profiled("wd100efax")
        .volume("vol0", "64MiB")
        .with("tier = { policy = \"cold-dst\", extent = \"16KiB\", size = \"4MiB\" }")
        .nbd()
        .text()
}

const PIECE: usize = 64 << 10;
/// More than the tier has room for.
const PIECES: u64 = 160;

fn bytes_of(piece: u64, round: u8) -> Vec<u8> {
    vec![piece as u8 ^ round.wrapping_mul(37); PIECE]
}

#[test]
fn cold_data_leaves_and_a_tier_changes_while_it_is_served() {
    let pool = PoolFixture::formatted(&tiered());
    let server = pool.start();
    let mut target = pool.nbd();
    for piece in 0..PIECES {
        target.write(piece * PIECE as u64, &bytes_of(piece, 0), false).unwrap();
    }
    target.flush().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    pool.until("/tiers", "data has left", |tiers| number(&tiers["demoted_bytes"]) > 2 << 20);
    let held = pool.status()["tiers"].clone();
    assert!(number(&held["held_bytes"]) <= number(&held["room_bytes"]), "{held}");
    let text = printed(&pool.run("status", &[]));
    assert!(text.contains("Tiers hold"), "{text}");

    for (round, tier) in ["cache-write-back", "none", "hot-dst:extent=64KiB"].iter().enumerate() {
        let round = round as u8 + 1;
        let changed = pool.run("tier", &["vol0", tier]);
        assert!(changed.status.success(), "{}", told(&changed));
        for piece in 0..PIECES {
            let at = piece * PIECE as u64;
            assert!(
                target.read(at, PIECE).unwrap() == bytes_of(piece, round - 1),
                "{tier} {piece}"
            );
            target.write(at, &bytes_of(piece, round), false).unwrap();
        }
        target.flush().unwrap();
    }
    server.kill();

    let server = pool.start();
    let mut target = pool.nbd();
    for piece in 0..PIECES {
        let found = target.read(piece * PIECE as u64, PIECE).unwrap();
        assert!(found == bytes_of(piece, 3), "{piece} after a kill");
    }
    server.stops();
    pool.done("check", &[]);
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let pool = PoolFixture::formatted(&tiered());
    let server = pool.start();
    for (volume, tier, code, want) in [
        ("vol0", "cold-dts", 2, "did you mean \"cold-dst\""),
        ("vol0", "cold-dst:extent=0B", 2, "a size from 4KiB"),
        ("vol0", "hot-dst:extent=12KiB", 1, "no power of two"),
        ("vol0", "hot-dst:collector=lru,interval=1s", 1, "take inverse-bitmap"),
        ("vol1", "hot-dst", 1, "there is no volume called \"vol1\""),
    ] {
        let refused = pool.run("tier", &[volume, tier]);
        assert_eq!(refused.status.code(), Some(code), "{tier}: {}", told(&refused));
        assert!(told(&refused).contains(want), "{tier}: {}", told(&refused));
    }
    server.stops();
    let nobody = pool.run("tier", &["vol0", "hot-dst"]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));

    for (from, to, want) in [
        ("role = \"hdd\"", "role = \"ssd\"", "a hard drive"),
        ("extent = \"16KiB\"", "extent = \"24KiB\"", "no power of two"),
    ] {
        let pool =
            PoolFixture::new(&tiered().replace(from, to).replace("profile = \"wd100efax\"\n", ""));
        let output = pool.run("format", &[]);
        assert!(!output.status.success() && told(&output).contains(want), "{}", told(&output));
    }
}
