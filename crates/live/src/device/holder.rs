//! Who holds a device: which process has the lock, and does it live? Is it mounted, or swap, or part of
//! something larger?
//!
//! Source: proc(5): `/proc/locks`, `/proc/PID/stat`, `/proc/self/mountinfo`, `/proc/swaps`; sysfs:
//! `/sys/dev/block/MAJOR:MINOR/holders`. Only for better messages and less waiting: where
//! the system does not tell (another name space, no `/proc`), nobody is known.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A process is leaving (`PF_EXITING`).
const EXITING: u64 = 0x4;

/// The process that holds a `flock` on this file or block device.
pub(super) fn of(path: &Path) -> Option<u32> {
    let inode = rustix::fs::stat(path).ok()?.st_ino;
    parse_locks(&std::fs::read_to_string("/proc/locks").ok()?, inode)
}

/// Does anybody hold a `flock` on it, also a process of another name space?
pub(super) fn is_locked(path: &Path) -> bool {
    let Ok(inode) = rustix::fs::stat(path).map(|meta| meta.st_ino) else { return false };
    let text = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    flocks(&text, inode).next().is_some()
}

/// What else than a server has claimed this block device, and what to do about it, if the system tells.
pub(super) fn claim(path: &Path) -> Option<String> {
    let number = std::fs::metadata(path).ok()?.rdev();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let stands_on = |source: &str| {
        let found = std::fs::metadata(source).ok()?.rdev();
        Some(found == number || disk_of(found) == Some(number))
    };
    if let Some(point) = mounted_on(&read("/proc/self/mountinfo"), |device, source| {
        device == number || disk_of(device) == Some(number) || stands_on(source) == Some(true)
    }) {
        return Some(format!("mounted on {point}: unmount it, or correct the path"));
    }
    let swap = read("/proc/swaps");
    let mut swaps = swap.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    if swaps.any(|source| stands_on(source) == Some(true)) {
        return Some("used as swap space: `swapoff` it first".into());
    }
    let holders = std::fs::read_dir(format!("/sys/dev/block/{}/holders", name(number))).ok()?;
    let holder = holders.flatten().next()?.file_name();
    Some(format!(
        "part of {}, a volume, an array or an encrypted drive: use that one, or take it apart first",
        holder.display()
    ))
}

fn name(number: u64) -> String {
    format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))
}

/// The disk that a partition is on.
fn disk_of(partition: u64) -> Option<u64> {
    let folder = format!("/sys/dev/block/{}", name(partition));
    std::fs::metadata(format!("{folder}/partition")).ok()?;
    parse_number(std::fs::read_to_string(format!("{folder}/../dev")).ok()?.trim())
}

/// `8:1`.
fn parse_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// `36 35 8:1 / /point rw,noatime - KIND SOURCE options`: the first mount of which the device or the
/// source is wanted.
fn mounted_on(text: &str, is_wanted: impl Fn(u64, &str) -> bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let device = parse_number(fields.nth(2)?)?;
        let point = fields.nth(1)?;
        let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
        is_wanted(device, source).then_some(point)
    })
}

/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. File systems show other device numbers here
/// than in `stat`, so the inode alone decides: at worst a message names the wrong process.
fn parse_locks(text: &str, inode: u64) -> Option<u32> {
    flocks(text, inode).find(|&process| process > 0)
}

/// The processes that hold one; 0 for those of another name space.
fn flocks(text: &str, inode: u64) -> impl Iterator<Item = u32> + '_ {
    text.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, process, place, ..] = fields[..] else { return None };
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        (found == inode).then_some(process.parse().ok()?)
    })
}

/// Is it running, and not on its way out?
pub(crate) fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|text| parse_stat(&text))
}

/// Its state as one letter of proc(5), where the system tells.
pub(crate) fn state(process: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS …`; the name may hold anything.
fn parse_stat(text: &str) -> bool {
    let Some((_, rest)) = text.rsplit_once(')') else { return false };
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [state, _, _, _, _, _, flags, ..] = fields[..] else { return false };
    let exiting = flags.parse::<u64>().is_ok_and(|flags| flags & EXITING != 0);
    !exiting && !matches!(state, "Z" | "X" | "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_found_by_inode() {
        let text = "1: POSIX  ADVISORY  WRITE 700 08:01:42 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 701 08:01:42 0 EOF\n\
                    3: -> FLOCK  ADVISORY  WRITE 702 08:01:43 0 EOF\n\
                    4: FLOCK  ADVISORY  READ 0 08:01:44 0 EOF\n";
        assert_eq!(parse_locks(text, 42), Some(701));
        assert_eq!(parse_locks(text, 43), None, "who waits holds nothing");
        assert_eq!(parse_locks(text, 44), None, "a process of another name space");
        assert_eq!(parse_locks("nonsense", 42), None);
    }

    #[test]
    fn mounts_are_found_by_device_and_by_source() {
        let text = "36 35 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                    40 36 0:50 / /data rw,noatime shared:3 master:1 - btrfs /dev/sdb rw\n";
        let ext4 = rustix::fs::makedev(8, 1);
        assert_eq!(mounted_on(text, |device, _| device == ext4), Some("/"));
        assert_eq!(mounted_on(text, |_, source| source == "/dev/sdb"), Some("/data"));
        assert_eq!(mounted_on(text, |_, source| source == "/dev/sdc"), None);
    }

    #[test]
    fn the_living_are_told_from_the_dying() {
        assert!(parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 0"));
        assert!(!parse_stat("7 (server) Z 1 7 7 0 -1 4194560 0"));
        assert!(!parse_stat("7 (server) R 1 7 7 0 -1 4194564 0"));
        assert!(!parse_stat("7 (server"));
        assert!(is_alive(std::process::id()));
        assert!(state(std::process::id()).is_some_and(|letter| "RSD".contains(letter)));
    }
}
