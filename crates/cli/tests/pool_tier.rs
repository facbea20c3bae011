//! What does a person see of a tier, from the configuration to a change while it is served?
//!
//! Source: acceptance of tiers and caches, "Build" 3 and "Bad input". The real program over files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::time::Instant;
use support::program::{formatted, printed, start, status, tandem, told};
use support::sigkill::over_nbd;
use support::{PATIENCE, Pool};

const TIERED: &str = r#"[pool]
name = "tiers"
[[device]]
role = "ssd"
path = "ssd.img"
size = "64MiB"
[[device]]
role = "hdd"
path = "hdd.img"
size = "256MiB"
profile = "wd100efax"
[[volume]]
name = "vol0"
size = "64MiB"
tier = { policy = "cold-dst", extent = "16KiB", size = "4MiB" }
[serve]
nbd = ["unix:tandem.sock"]
"#;

const PIECE: usize = 64 << 10;
/// More than the tier has room for.
const PIECES: u64 = 160;

fn bytes_of(piece: u64, round: u8) -> Vec<u8> {
    vec![piece as u8 ^ round.wrapping_mul(37); PIECE]
}

/// Waits until what the status says of tiers is so.
fn until(pool: &Pool, what: &str, so: impl Fn(&serde_json::Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tiers = status(pool)["tiers"].clone();
        if so(&tiers) {
            return;
        }
        assert!(Instant::now() < deadline, "never {what}: {tiers}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn cold_data_leaves_and_a_tier_changes_while_it_is_served() {
    let pool = formatted(TIERED);
    let server = start(&pool);
    let mut target = over_nbd(pool.folder.path()).unwrap();
    for piece in 0..PIECES {
        target.write(piece * PIECE as u64, &bytes_of(piece, 0), false).unwrap();
    }
    target.flush().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    until(&pool, "data has left", |tiers| number(&tiers["demoted_bytes"]) > 2 << 20);
    let held = status(&pool)["tiers"].clone();
    assert!(number(&held["held_bytes"]) <= number(&held["room_bytes"]), "{held}");
    let text = printed(&tandem(&["status", pool.config()]));
    assert!(text.contains("Tiers hold"), "{text}");

    for (round, tier) in ["cache-write-back", "none", "hot-dst:extent=64KiB"].iter().enumerate() {
        let round = round as u8 + 1;
        let changed = tandem(&["tier", pool.config(), "vol0", tier]);
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

    let server = start(&pool);
    let mut target = over_nbd(pool.folder.path()).unwrap();
    for piece in 0..PIECES {
        let found = target.read(piece * PIECE as u64, PIECE).unwrap();
        assert!(found == bytes_of(piece, 3), "{piece} after a kill");
    }
    assert!(server.stop().0.success());
    let checked = tandem(&["check", pool.config()]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let pool = formatted(TIERED);
    let server = start(&pool);
    for (volume, tier, code, want) in [
        ("vol0", "cold-dts", 2, "did you mean \"cold-dst\""),
        ("vol0", "cold-dst:extent=0B", 2, "a size from 4KiB"),
        ("vol0", "hot-dst:extent=12KiB", 1, "no power of two"),
        ("vol0", "hot-dst:collector=lru,interval=1s", 1, "take inverse-bitmap"),
        ("vol1", "hot-dst", 1, "there is no volume called \"vol1\""),
    ] {
        let refused = tandem(&["tier", pool.config(), volume, tier]);
        assert_eq!(refused.status.code(), Some(code), "{tier}: {}", told(&refused));
        assert!(told(&refused).contains(want), "{tier}: {}", told(&refused));
    }
    assert!(server.stop().0.success());
    let nobody = tandem(&["tier", pool.config(), "vol0", "hot-dst"]);
    assert!(told(&nobody).contains("not being served"), "{}", told(&nobody));

    for (from, to, want) in [
        ("role = \"hdd\"", "role = \"ssd\"", "a hard drive"),
        ("extent = \"16KiB\"", "extent = \"24KiB\"", "no power of two"),
    ] {
        let pool = Pool::new(&TIERED.replace(from, to).replace("profile = \"wd100efax\"\n", ""));
        let output = tandem(&["format", pool.config()]);
        assert!(!output.status.success() && told(&output).contains(want), "{}", told(&output));
    }
}
