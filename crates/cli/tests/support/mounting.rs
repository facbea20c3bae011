//! How does a test mount a volume of files with the real program?

use super::PoolFixture;
use super::program::{printed, program, told};
use super::synced::{Cleared, Mounted};
use std::fs;
use std::path::{Path, PathBuf};

/// Says loudly what is missing, and what is therefore not tested.
pub fn has_fuse(what: &str) -> bool {
    let found = Path::new("/dev/fuse").exists();
    if !found {
        println!("skipped: there is no /dev/fuse here, so {what} are NOT tested");
    }
    found
}

/// A formatted pool whose volume of files has the empty mount point `mnt`; what is mounted there at the
/// end is unmounted.
pub fn with_point(text: &str) -> (PoolFixture, PathBuf, Cleared) {
    let pool = PoolFixture::formatted(text);
    let point = pool.at("mnt");
    fs::create_dir(&point).unwrap();
    let cleared = Cleared(point.clone());
    (pool, point, cleared)
}

/// Mounts it, with more words for `tandem mount`.
pub fn mount_as(pool: &PoolFixture, point: &Path, words: &[&str]) -> Mounted {
    let started = Mounted::start(program(), &[&["mount", pool.config()], words].concat(), point);
    started.unwrap_or_else(|output| panic!("{}", told(&output)))
}

/// Mounts it.
pub fn mount(pool: &PoolFixture, point: &Path) -> Mounted {
    mount_as(pool, point, &[])
}

/// Ends with a file system that is sound. Returns what the mount said.
pub fn end(mounted: Mounted, pool: &PoolFixture) -> String {
    let (ended, said) = mounted.stop();
    assert!(ended.success(), "{said}");
    let checked = pool.run("check", &[]);
    assert!(checked.status.success(), "{}{}", printed(&checked), told(&checked));
    said
}

/// The number of an error, if it is one.
pub fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
