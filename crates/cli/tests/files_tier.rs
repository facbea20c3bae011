//! Do files have the tier that their directory says, and is it said what they may have?
//!
//! Source: issue of tiers and caches ("policies as extended attributes on directories"). What a tier does
//! with a file's blocks is a matter of the simulator (`sim/tests/file_tiers.rs`).

use crate::support::PoolFixture;
use crate::support::fixture::PoolText;
use crate::support::mounting::{end, has_fuse, mount, with_point};
use crate::support::program::told;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs;
use std::path::Path;

fn files() -> String {
    PoolText::named("p").ssd("64MiB").hdd("192MiB").files("files").mounted().text()
}

const TIER: &str = "user.tandem.tier";

fn set(path: &Path, tier: &str) -> Result<(), Errno> {
    rustix::fs::setxattr(path, TIER, tier.as_bytes(), XattrFlags::empty())
}

fn tier_of(path: &Path) -> Option<String> {
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(path, TIER, &mut value[..]).ok()?;
    Some(String::from_utf8_lossy(&value[..length]).into_owned())
}

#[test]
fn what_is_made_in_a_directory_has_its_tier() {
    if !has_fuse("tiers of files") {
        return;
    }
    let text = format!("{}tier = {{ policy = \"cold-dst\", size = \"8MiB\" }}\n", files());
    let (pool, point, _cleared) = with_point(&text);
    let mounted = mount(&pool, &point);
    let (hot, old) = (point.join("hot"), point.join("hot/old"));
    fs::create_dir(&hot).unwrap();
    fs::write(&old, "x").unwrap();
    set(&hot, "hot-dst").unwrap();
    assert_eq!(tier_of(&old), None, "it was there before");
    assert_eq!(set(&hot, "lukewarm"), Err(Errno::INVAL));
    assert_eq!(set(&hot, "edt"), Err(Errno::INVAL), "a tier, but none that files may have here");
    assert_eq!(set(&hot, ""), Err(Errno::INVAL));
    fs::create_dir(hot.join("sub")).unwrap();
    fs::write(hot.join("sub/file"), vec![7; 100_000]).unwrap();
    fs::hard_link(hot.join("sub/file"), point.join("other name")).unwrap();
    fs::write(point.join("plain"), "x").unwrap();
    let said = end(mounted, &pool);
    assert!(said.contains("\"lukewarm\"") && said.contains("cold-dst-plain"), "{said}");

    let mounted = mount(&pool, &point);
    for path in ["hot", "hot/sub", "hot/sub/file", "other name"] {
        assert_eq!(tier_of(&point.join(path)).as_deref(), Some("hot-dst"), "{path}");
    }
    assert_eq!(tier_of(&point.join("plain")), None);
    set(&point.join("other name"), "none").unwrap();
    assert_eq!(tier_of(&hot.join("sub/file")).as_deref(), Some("none"), "one file, two names");
    rustix::fs::removexattr(hot.join("sub/file"), TIER).unwrap();
    assert_eq!(tier_of(&point.join("other name")), None);
    assert_eq!(fs::read(point.join("other name")).unwrap(), vec![7; 100_000]);

    // the volume's tier changes while it is mounted, and with it what its files may have
    let change = |tier| {
        let changed = pool.run("tier", &["files", tier]);
        assert!(changed.status.success(), "{}", told(&changed));
    };
    change("none");
    assert_eq!(set(&old, "hot-dst"), Err(Errno::OPNOTSUPP));
    assert_eq!(tier_of(&hot).as_deref(), Some("hot-dst"), "it is still said, and does nothing");
    change("cache-write-back");
    set(&old, "hot-dst").unwrap();
    end(mounted, &pool);
}

#[test]
fn a_volume_says_which_its_files_may_have() {
    if !has_fuse("lists of files' tiers") {
        return;
    }
    let tiers =
        "file_tiers = [\"none\", { policy = \"hot-dst\", size = \"8MiB\", reads = \"2\" }]\n";
    let (pool, point, _cleared) = with_point(&format!("{}{tiers}", files()));
    let mounted = mount(&pool, &point);
    fs::write(point.join("f"), "x").unwrap();
    set(&point.join("f"), "hot-dst").unwrap();
    set(&point.join("f"), "none").unwrap();
    assert_eq!(set(&point.join("f"), "cold-dst"), Err(Errno::INVAL));
    let said = end(mounted, &pool);
    assert!(said.contains("it may be none, hot-dst"), "{said}");
}

#[test]
fn a_list_that_cannot_be_is_refused_and_said() {
    let files = |list: &str| format!("{}file_tiers = {list}\n", files());
    let blocks = files("[\"hot-dst\"]").replace("files = true\nmount = \"mnt\"", "size = \"1MiB\"");
    let differs = "[{ policy = \"hot-dst\", extent = \"16KiB\" }, { policy = \"cold-dst\", extent = \"32KiB\" }]";
    for (text, why) in [
        (blocks, "has no files"),
        (files("[\"hot-dts\"]"), "did you mean \"hot-dst\""),
        (files("[\"hot-dst\", { policy = \"hot-dst\", reads = \"2\" }]"), "listed twice"),
        (files("\"hot-dst\""), "line 15: invalid type: string \"hot-dst\", expected a sequence"),
        (files(differs), "extent is not what it is for the volume with tier hot-dst"),
    ] {
        let pool = PoolFixture::new(&text);
        let refused = pool.run("format", &[]);
        let said = told(&refused);
        assert!(!refused.status.success() && said.contains(why), "{why}: {said}");
    }
}
