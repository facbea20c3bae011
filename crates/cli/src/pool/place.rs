//! Do two names mean the same drive? Links, loop devices and partitions looked through, as far as
//! the system tells.
//!
//! Source: acceptance of the spine, bad input; sysfs: `/sys/dev/block/MAJOR:MINOR/{loop/backing_file,
//! partition}`.

use crate::config::PoolConfig;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use tandem_live::Backing;

/// Where bytes are in the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    /// A file: device and inode.
    File(u64, u64),
    /// A block device by number; a partition stands on its whole disk and is not equal to another
    /// partition of it.
    Block(u64),
}

/// Everything that a path stands on, and what it *is*.
#[derive(Debug)]
struct Standing {
    own: Ground,
    below: BTreeSet<Ground>,
}

/// Refuses a pool that lists one drive under two names.
///
/// # Errors
/// With both names.
pub fn check(pool: &PoolConfig) -> Result<()> {
    let mut seen: Vec<(&Path, Standing)> = Vec::new();
    for device in pool.drives().filter(|device| !device.gone) {
        let Backing::Path(path) = &device.backing else { continue };
        let Some(standing) = standing(path) else { continue };
        for (known, other) in &seen {
            if overlap(&standing, other) {
                bail!(
                    "{} and {} (line {}) are the same drive under two names, or one lies on the \
                     other: every device holds its own data",
                    known.display(),
                    path.display(),
                    device.line
                );
            }
        }
        seen.push((path, standing));
    }
    Ok(())
}

fn overlap(one: &Standing, other: &Standing) -> bool {
    one.own == other.own || one.below.contains(&other.own) || other.below.contains(&one.own)
}

/// `None` for what is not there.
fn standing(path: &Path) -> Option<Standing> {
    let meta = std::fs::metadata(path).ok()?;
    let own = ground(&meta);
    let mut below = BTreeSet::new();
    let mut next = lower(&meta);
    // a loop over a file on a loop over a file …: sixteen storeys are enough for anyone
    for _ in 0..16 {
        let Some((ground, further)) = next else { break };
        below.insert(ground);
        next = further.and_then(|path| lower(&std::fs::metadata(path).ok()?));
    }
    Some(Standing { own, below })
}

fn ground(meta: &Metadata) -> Ground {
    if meta.file_type().is_block_device() {
        Ground::Block(meta.rdev())
    } else {
        Ground::File(meta.dev(), meta.ino())
    }
}

/// What a block device stands on: the file behind a loop, the disk around a partition.
fn lower(meta: &Metadata) -> Option<(Ground, Option<PathBuf>)> {
    if !meta.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (rdev_major(meta.rdev()), rdev_minor(meta.rdev()));
    let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if let Ok(file) = std::fs::read_to_string(sys.join("loop/backing_file")) {
        let file = PathBuf::from(file.trim_end());
        let ground = ground(&std::fs::metadata(&file).ok()?);
        return Some((ground, Some(file)));
    }
    if sys.join("partition").exists() {
        // the entry of a partition lies in the folder of its disk
        let disk = std::fs::canonicalize(&sys).ok()?;
        let number = std::fs::read_to_string(disk.parent()?.join("dev")).ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        let device = make_rdev(major.parse().ok()?, minor.parse().ok()?);
        return Some((Ground::Block(device), None));
    }
    None
}

/// Linux's 64-bit device numbers, as makedev(3) lays them out.
fn rdev_major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000)
}

fn rdev_minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & 0xffff_ff00)
}

fn make_rdev(major: u64, minor: u64) -> u64 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_go_there_and_back() {
        for (major, minor) in [(7, 0), (7, 300), (259, 5), (4100, 70_000)] {
            let device = make_rdev(major, minor);
            assert_eq!((rdev_major(device), rdev_minor(device)), (major, minor));
        }
        assert_eq!(make_rdev(8, 1), 0x801);
    }

    #[test]
    fn links_are_looked_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), b"").expect("written");
        std::fs::write(at("other"), b"").expect("written");
        std::fs::hard_link(at("file"), at("hard")).expect("linked");
        std::os::unix::fs::symlink("file", at("soft")).expect("linked");
        let of = |name: &str| standing(&at(name)).expect("there");
        assert!(overlap(&of("file"), &of("hard")));
        assert!(overlap(&of("soft"), &of("hard")));
        assert!(!overlap(&of("file"), &of("other")));
        assert!(standing(&at("gone")).is_none());
    }
}
