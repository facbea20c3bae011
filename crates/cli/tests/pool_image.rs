//! Does a pool that an earlier commit has written still open, with all that it held?
//!
//! Version 3 of the format is frozen. The images beside this file were written once, and every later commit opens them.
//! If a test here fails, the bytes on the drives have changed: a change needs a feature of the superblock
//! (docs/FORMAT.md), and new images beside these, never in their place.
//! With `UPDATE_GOLDEN=1` a test makes the images of its kind if there are none. It never makes one anew.

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::program::tandem;
use std::path::{Path, PathBuf};

/// Both drives of the pool.
const DRIVES: [&str; 2] = ["ssd.img", "hdd.img"];
const VOLUME_MIB: u64 = 32;

/// Offset, length, and the byte that stands there.
type Range = (u64, usize, u8);

/// What was written before the pool was stopped cleanly for the first time.
const FIRST: [Range; 5] = [
    (0, 4096, 1),
    (65_536, 262_144, 2),
    (4 << 20, 8192, 3),
    (9 << 20, 1 << 20, 4),
    ((VOLUME_MIB << 20) - 4096, 4096, 5),
];
/// … and later: over some of it, and in parts of blocks.
const LATER: [Range; 5] = [
    (4096, 4096, 6),
    (69_632, 8192, 7),
    ((4 << 20) + 512, 1024, 8),
    (12 << 20, 131_072, 9),
    ((9 << 20) + 8192, 512, 10),
];
/// What was zeroed then.
const ZEROED: (u64, usize) = ((9 << 20) + 65_536, 131_072);

fn text() -> PoolText {
    PoolText::named("image").ssd("64MiB").hdd("128MiB").volume("vol0", "32MiB").nbd()
}

fn image(kind: &str, drive: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/images/version3-{kind}-{drive}.zst"))
}

/// The volume as it was when FIRST was written, or also LATER.
fn contents(later: bool) -> Vec<u8> {
    let mut volume = vec![0; (VOLUME_MIB << 20) as usize];
    let ranges = FIRST.iter().chain(LATER.iter().filter(|_| later));
    for &(offset, length, byte) in ranges {
        volume[offset as usize..offset as usize + length].fill(byte);
    }
    if later {
        volume[ZEROED.0 as usize..ZEROED.0 as usize + ZEROED.1].fill(0);
    }
    volume
}

fn holds(pool: &PoolFixture, export: &str, want: &[u8]) {
    let mut client = pool.client(export);
    for (index, want) in want.chunks(1 << 20).enumerate() {
        let at = (index as u64) << 20;
        let found = client.read(at, want.len() as u32).expect("it can be read");
        assert!(found == want, "the MiB at {at} of {export} holds something else");
    }
}

fn opens(kind: &str) {
    let are_missing = DRIVES.iter().all(|drive| !image(kind, drive).exists());
    if are_missing && std::env::var_os("UPDATE_GOLDEN").is_some() {
        make(kind);
    }
    let pool = text().made();
    for drive in DRIVES {
        let packed = std::fs::read(image(kind, drive)).expect("the image is there");
        let bytes = zstd::decode_all(&packed[..]).expect("it is whole");
        std::fs::write(pool.at(drive), bytes).unwrap();
    }
    let check = pool.run("check", &[]);
    assert!(check.status.success(), "{kind}: {}", String::from_utf8_lossy(&check.stderr));
    let server = pool.start();
    holds(&pool, "vol0", &contents(true));
    holds(&pool, "vol0@one", &contents(false));
    // it goes on as a pool of this commit
    let mut target = pool.nbd();
    target.write(5 << 20, &[11; 4096], true).unwrap();
    server.stops();
    let server = pool.start();
    assert_eq!(pool.nbd().read(5 << 20, 4096).unwrap(), [11; 4096]);
    server.stops();
}

#[test]
fn a_pool_of_version_3_that_was_stopped_opens() {
    opens("stopped");
}

/// Its journal says what the pages do not.
#[test]
fn a_pool_of_version_3_that_was_killed_opens() {
    opens("killed");
}

/// Makes a pool, and keeps its drives as images.
fn make(kind: &str) {
    let pool = text().formatted();
    let server = pool.start();
    let mut target = pool.nbd();
    for (offset, length, byte) in FIRST {
        target.write(offset, &vec![byte; length], false).unwrap();
    }
    target.flush().unwrap();
    server.stops();
    let server = pool.start();
    let taken = tandem(&["snapshot", pool.config(), "vol0", "one"]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let mut target = pool.nbd();
    for (offset, length, byte) in LATER {
        target.write(offset, &vec![byte; length], false).unwrap();
    }
    target.zeroes(ZEROED.0, ZEROED.1).unwrap();
    target.flush().unwrap();
    if kind == "killed" {
        server.kill();
    } else {
        server.stops();
    }
    for drive in DRIVES {
        let bytes = std::fs::read(pool.at(drive)).unwrap();
        std::fs::write(image(kind, drive), zstd::encode_all(&bytes[..], 19).unwrap()).unwrap();
    }
}
