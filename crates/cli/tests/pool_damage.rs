//! What does a pool say whose drives are missing, exchanged or damaged?
//!
//! Source: acceptance of the spine, bad input. Whatever is wrong is an error that names the drive and says
//! what to do, and nothing is written.

use crate::support::PoolFixture;
use crate::support::fixture::{PoolText, is_refusal};
use crate::support::program::{TWO, filled, flip, images, layout, told, works};
use std::fs::File;
use std::path::PathBuf;

const SSD: u64 = 64 << 20;

/// An SSD alone: what is damaged there has no metadata replica.
fn one() -> String {
    PoolText::named("one").ssd("64MiB").volume("vol0", "16MiB").nbd().text()
}

/// Neither served nor found whole, for this reason, and nothing is written.
fn refused(pool: &PoolFixture, words: &[&str]) {
    let before = images(pool);
    let Err(served) = pool.serve(&[]) else { panic!("it serves") };
    let checked = pool.run("check", &[]);
    for output in [served, checked] {
        is_refusal(&output, 1, words);
    }
    assert!(images(pool) == before, "something was written");
}

#[test]
fn missing_unformatted_and_strange_drives() {
    let pool = filled(TWO, true);
    let (ssd, hdd) = (pool.at("ssd.img"), pool.at("hdd.img"));
    let aside = pool.at("aside.img");
    std::fs::rename(&hdd, &aside).unwrap();
    refused(&pool, &["hdd.img", "missing", "connect the drive"]);
    File::create(&hdd).unwrap().set_len(128 << 20).unwrap();
    refused(&pool, &["hdd.img", "line 9", "not part of a pool", "tandem format"]);
    let stranger = filled(TWO, true);
    std::fs::copy(stranger.at("hdd.img"), &hdd).unwrap();
    refused(&pool, &["hdd.img", "belongs to pool", "list the drives that belong together"]);
    std::fs::rename(&aside, &hdd).unwrap();
    works(&pool);
    // an older copy of one drive
    std::fs::copy(&hdd, &aside).unwrap();
    works(&pool);
    works(&pool);
    std::fs::copy(&aside, &hdd).unwrap();
    refused(&pool, &["hdd.img", "missed a life of the pool"]);
    assert!(ssd.exists());
}

#[test]
fn another_list_of_drives() {
    let pool = filled(TWO, true);
    let first = "role = \"ssd\"\npath = \"ssd.img\"\nsize = \"64MiB\"";
    let second = "role = \"hdd\"\npath = \"hdd.img\"\nsize = \"128MiB\"";
    let write = |text: String| std::fs::write(&pool.config, text).unwrap();
    write(TWO.replace(first, "FIRST").replace(second, first).replace("FIRST", second));
    refused(&pool, &["device 1", "list the devices in that order"]);
    write(TWO.replace("role = \"hdd\"", "role = \"ssd\""));
    refused(&pool, &["hdd.img", "correct its role"]);
    write(TWO.replace(&format!("[[device]]\n{second}\n"), ""));
    refused(&pool, &["2 devices", "lists 1"]);
    write(TWO.replace("size = \"32MiB\"", "size = \"16MiB\""));
    refused(&pool, &["vol0", "change the configuration"]);
    write(TWO.into());
    works(&pool);
}

#[test]
fn a_drive_that_was_cut() {
    let pool = filled(TWO, true);
    let hdd = File::options().write(true).open(pool.at("hdd.img")).unwrap();
    hdd.set_len(100 << 20).unwrap();
    refused(&pool, &["hdd.img", "bytes when it was formatted", "may have been cut"]);
    hdd.set_len(4096).unwrap();
    refused(&pool, &["hdd.img", "too small"]);
    hdd.set_len(0).unwrap();
    refused(&pool, &["hdd.img", "too small"]);
}

#[test]
fn superblocks_have_a_second_copy() {
    for (first, last) in [(true, false), (false, true), (true, true)] {
        let pool = filled(TWO, true);
        let ssd = pool.at("ssd.img");
        if first {
            flip(&ssd, 100);
        }
        if last {
            flip(&ssd, SSD - 4096 + 70);
        }
        if first && last {
            refused(&pool, &["ssd.img", "both copies of its superblock are damaged"]);
        } else {
            let check = pool.run("check", &[]);
            let text = String::from_utf8_lossy(&check.stdout).into_owned();
            assert!(
                check.status.success() && text.contains("one of its two superblocks"),
                "{text}"
            );
            works(&pool);
            let check = pool.run("check", &[]);
            let text = String::from_utf8_lossy(&check.stdout).into_owned();
            assert!(!text.contains("one of its two superblocks"), "mended: {text}");
        }
    }
}

#[test]
fn a_damaged_journal_is_never_passed_over() {
    let pool = filled(&one(), false);
    let ssd = pool.at("ssd.img");
    let layout = layout(&ssd);
    // the third unit of many: later ones prove that it was durable
    flip(&ssd, layout.journal_offset + 2 * 4096 + 70);
    refused(&pool, &["journal", "Nothing was changed"]);
    flip(&ssd, layout.journal_offset + 2 * 4096 + 70);
    works(&pool);
}

#[test]
fn a_damaged_checkpoint_is_never_passed_over() {
    let pool = filled(&one(), true);
    let ssd = pool.at("ssd.img");
    let layout = layout(&ssd);
    let flip_all = |offset: u64, length: u64| {
        (0..length / 4096).for_each(|block| flip(&ssd, offset + block * 4096 + 9));
    };
    flip_all(layout.root_offset, 2 * layout.root_bytes);
    refused(&pool, &["no checkpoint root can be read"]);
    flip_all(layout.root_offset, 2 * layout.root_bytes);
    let pages_bytes = layout.area_pages * 4096;
    flip_all(layout.area_offset, pages_bytes);
    refused(&pool, &["of the map", "is lost", "Nothing was changed"]);
    flip_all(layout.area_offset, pages_bytes);
    works(&pool);
}

/// Data that rots is an error of its blocks, found by the check and told with its place; the rest is
/// served.
#[test]
fn rotten_data_is_found_and_the_rest_is_served() {
    let pool = filled(&one(), true);
    let ssd = pool.at("ssd.img");
    let image = std::fs::read(&ssd).unwrap();
    let needle = [7u8; 4096]; // what round 6 wrote
    let at = image.chunks_exact(4096).position(|block| *block == needle).unwrap() as u64 * 4096;
    flip(&ssd, at + 77);
    let check = pool.run("check", &["--json"]);
    assert_eq!(check.status.code(), Some(1), "{}", told(&check));
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["volumes"][0]["bad_bytes"], 4096);
    assert_eq!(report["volumes"][0]["data_bytes"], 40 * 16384);
    assert_eq!(report["bad"].as_array().unwrap().len(), 1);
    let bad = report["bad"][0]["offset_bytes"].as_u64().unwrap();
    assert!((6 * 65536..6 * 65536 + 16384).contains(&bad), "{report}");
    let text = pool.run("check", &[]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("4096 bytes at {bad}")), "{text}");
    let server = pool.start();
    let mut target = pool.nbd();
    assert!(target.read(bad, 4096).unwrap_err().contains('5'), "EIO");
    assert!(target.read(5 * 65536, 16384).is_ok());
    target.write(bad, &[9; 4096], true).unwrap();
    server.stops();
    assert!(pool.run("check", &[]).status.success(), "written anew");
}

/// The only SSD is gone. What also lies on the hard drive is served, read-only, by the map that the
/// hard drive keeps; the rest is an error, never something else.
#[test]
fn what_is_left_without_the_ssd_is_served() {
    let pool = PoolFixture::formatted(TWO);
    let server = pool.start();
    let mut target = pool.nbd();
    let blocks = 31 * 256;
    let content = |block: u64| [block as u8 ^ (block >> 8) as u8 | 1; 4096];
    for block in 0..blocks {
        target.write(block * 4096, &content(block), false).unwrap();
    }
    target.flush().unwrap();
    // after a quiet second, what is more than the low mark is written home
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    let status = || tandem_live::control::ask(&pool.at("pool.control"), "status").unwrap();
    let is_high = |status: &serde_json::Value| {
        let of = |name: &str| status[name].as_u64().unwrap();
        of("ssd_dirty_bytes") * 10 > of("ssd_bytes") * 4 + 10 * (1 << 20)
    };
    let wait_while = |holds: &dyn Fn(&serde_json::Value) -> bool| {
        while holds(&status()) {
            assert!(std::time::Instant::now() < deadline, "{}", status());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    wait_while(&is_high);
    // these are older at home than on the SSD: to read them there would be worse than an error
    for block in 1000..1100 {
        target.write(block * 4096, &[2; 4096], false).unwrap();
    }
    target.flush().unwrap();
    wait_while(&|status| status["metadata_replica"]["journal_units_behind"] != 0);
    server.stops();
    let check = pool.run("check", &["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    let only_ssd = report["drives"][0]["only_here_bytes"].as_u64().unwrap();
    assert!(only_ssd >= 100 * 4096 && only_ssd < blocks * 4096, "{report}");
    assert_eq!(report["drives"][1]["only_here_bytes"], 0, "the SSD has a copy: {report}");
    let degraded = || pool.serve(&["--accept-loss"]);
    let Err(whole) = degraded() else { panic!("nothing is gone") };
    assert!(told(&whole).contains("without --accept-loss"), "{}", told(&whole));
    let gone = pool.at("gone.img");
    std::fs::rename(pool.at("ssd.img"), &gone).unwrap();
    refused(&pool, &["ssd.img", "missing", "--accept-loss"]);
    let before = images(&pool);
    let server = degraded().unwrap_or_else(|output| panic!("{}", told(&output)));
    let mut target = pool.nbd();
    let mut lost = 0;
    for block in 0..blocks {
        match target.read(block * 4096, 4096) {
            Ok(found) => assert!(
                found == content(block) && !(1000..1100).contains(&block),
                "block {block} is something else"
            ),
            Err(_) => lost += 4096,
        }
    }
    assert_eq!(lost, only_ssd, "as the check foretold");
    assert!(target.write(0, &[2; 4096], true).is_err(), "read-only");
    let (status, said) = server.stop();
    assert!(status.success() && said.contains("ssd.img is gone"), "{said}");
    assert!(images(&pool) == before, "something was written");
    std::fs::rename(pool.at("hdd.img"), pool.at("hdd.gone")).unwrap();
    let Err(nothing) = degraded() else { panic!("nothing is left") };
    assert!(told(&nothing).contains("nothing to read by"), "{}", told(&nothing));
}

/// A check recovers in memory: the drives stay as the crash left them.
#[test]
fn a_check_writes_nothing() {
    let pool = filled(TWO, false);
    let before = images(&pool);
    let check = pool.run("check", &["--json"]);
    assert!(check.status.success(), "{}", told(&check));
    let report: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&report["ok"], &report["clean"]), (&true.into(), &false.into()));
    assert_eq!(report["volumes"][0]["data_bytes"], 40 * 16384);
    assert!(images(&pool) == before, "the check wrote to the drives");
    works(&pool);
}

/// Nothing that lies on a drive makes the program panic: every byte of the metadata flipped, a few
/// at a time, and every length of file.
#[test]
fn no_damage_is_a_panic() {
    let pool = filled(&one(), false);
    let ssd = pool.at("ssd.img");
    let metadata = layout(&ssd).slot_offset;
    let sound = std::fs::read(&ssd).unwrap();
    let copy: PathBuf = ssd.clone();
    for step in 0..40u64 {
        std::fs::write(&copy, &sound).unwrap();
        flip(&copy, step * 104_729 % metadata);
        flip(&copy, step * 7919 % 40_000);
        flip(&copy, SSD - 1 - step * 97 % 4096);
        if step % 8 == 7 {
            File::options().write(true).open(&copy).unwrap().set_len(step * 1_234_567).unwrap();
        }
        let check = pool.run("check", &[]);
        let code = check.status.code();
        assert!(matches!(code, Some(0 | 1)), "step {step}: {check:?}");
        assert!(!told(&check).contains("panicked"), "step {step}: {}", told(&check));
    }
}

/// CRC-32C, one bit at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The superblocks of a drive say another version, and are sound.
fn set_version(image: &mut [u8], version: u8) {
    let last = image.len() - 4096;
    set_version_at(image, &[0, last], version);
}

fn set_version_at(image: &mut [u8], copies: &[usize], version: u8) {
    for &at in copies {
        let block = &mut image[at..at + 4096];
        block[12] = version;
        block[8..12].fill(0);
        let crc = crc32c(block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A copy of an earlier program beside a sound one was left behind by another pool. That of a newer one was not: it
/// may have been cut between the two.
#[test]
fn one_copy_of_another_version_counts_if_it_is_newer() {
    for (version, is_served) in [(2, true), (4, false)] {
        let pool = PoolFixture::formatted(TWO);
        let mut image = std::fs::read(pool.at("hdd.img")).unwrap();
        let last = image.len() - 4096;
        set_version_at(&mut image, &[last], version);
        std::fs::write(pool.at("hdd.img"), image).unwrap();
        if is_served {
            assert!(pool.start().stop().0.success());
        } else {
            is_refusal(&pool.run("serve", &[]), 1, &["hdd.img", "version 4", "newer program"]);
        }
    }
}

#[test]
fn a_pool_of_another_version_is_named_and_left_alone() {
    for (version, words) in [
        (1, &["ssd.img", "version 1", "earlier Tandem", "nbdcopy", "nothing was changed"][..]),
        (2, &["ssd.img", "version 2", "earlier Tandem", "nbdcopy"]),
        (4, &["ssd.img", "version 4", "knows 3", "newer program"]),
    ] {
        let pool = PoolFixture::formatted(TWO);
        for name in ["ssd.img", "hdd.img"] {
            let mut image = std::fs::read(pool.at(name)).unwrap();
            set_version(&mut image, version);
            std::fs::write(pool.at(name), image).unwrap();
        }
        let before = images(&pool);
        is_refusal(&pool.run("serve", &[]), 1, words);
        is_refusal(&pool.run("format", &[]), 1, &["--force"]);
        assert!(images(&pool) == before, "version {version}: nothing was changed");
    }
}
