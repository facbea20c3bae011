//! Which process holds the lock of a device, and does it live?
//!
//! Source: proc(5): `/proc/locks`, `/proc/PID/stat`. Only for better messages and less waiting: where
//! the system does not tell (another name space, no `/proc`), nobody is known.

use std::path::Path;

/// A process is leaving (`PF_EXITING`).
const EXITING: u64 = 0x4;

/// The process that holds a `flock` on this file or block device.
pub(super) fn of(path: &Path) -> Option<u32> {
    let inode = rustix::fs::stat(path).ok()?.st_ino;
    parse_locks(&std::fs::read_to_string("/proc/locks").ok()?, inode)
}

/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. File systems show other device numbers here
/// than in `stat`, so the inode alone decides: at worst a message names the wrong process.
fn parse_locks(text: &str, inode: u64) -> Option<u32> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, process, place, ..] = fields[..] else { return None };
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        let process: u32 = process.parse().ok()?;
        (found == inode && process > 0).then_some(process)
    })
}

/// Is it running, and not on its way out?
pub(crate) fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|text| parse_stat(&text))
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
    fn the_living_are_told_from_the_dying() {
        assert!(parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 0"));
        assert!(!parse_stat("7 (server) Z 1 7 7 0 -1 4194560 0"));
        assert!(!parse_stat("7 (server) R 1 7 7 0 -1 4194564 0"));
        assert!(!parse_stat("7 (server"));
        assert!(is_alive(std::process::id()));
    }
}
