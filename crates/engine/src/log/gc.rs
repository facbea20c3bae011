//! Which segment of an HDD log is cleaned next, and when?
//!
//! Source: [BCW §4.3.1]: GC when the drive is idle or the log passes a threshold (M32); B4: bounded,
//! preemptible, only what lives, sorted by home. The moves themselves are those of write-back.

use super::Log;
use tandem_block::DeviceId;

/// How urgently a log wants to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Not at all.
    None,
    /// When the drive is idle.
    Idle,
    /// Now: redirection is about to stop.
    Urgent,
}

/// In which order the logs of a set are cleaned: those first on which redirection is about to stop,
/// then those of drives that nobody redirects to just now (M12: GC stays off the drive that is appended
/// to). `drives`: each with its need, and whether users want it. Those that need nothing are left out.
pub(crate) fn order(drives: impl Iterator<Item = (DeviceId, Need, bool)>) -> Vec<DeviceId> {
    let mut needy: Vec<_> = drives.filter(|(_, need, _)| *need != Need::None).collect();
    needy.sort_by_key(|&(id, need, is_wanted)| (need != Need::Urgent, is_wanted, id));
    needy.into_iter().map(|(id, ..)| id).collect()
}

/// Whether the log wants cleaning. `gc_percent` and `stop_percent` are settings (70 and 90).
pub(crate) fn need(log: &Log, gc_percent: u64, stop_percent: u64) -> Need {
    let used = log.used_percent();
    if used >= stop_percent {
        Need::Urgent
    } else if used >= gc_percent {
        Need::Idle
    } else {
        Need::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::SlotRegion;

    /// M32: nothing below the first share, idle drives above it, at once above the second one.
    #[test]
    fn m32_a_log_is_cleaned_by_the_share_of_it_that_is_used() {
        let mut log = Log::new(SlotRegion::new(DeviceId(0), true, 100, 0), 10);
        for (percent, want) in [(60, Need::None), (70, Need::Idle), (90, Need::Urgent)] {
            while log.used_percent() < percent {
                log.append(1, true).expect("there is room");
            }
            assert_eq!(need(&log, 70, 90), want, "{percent} %");
        }
    }

    #[test]
    fn m12_logs_of_drives_that_are_not_appended_to_are_cleaned_first() {
        use Need::{Idle, None, Urgent};
        for (drives, want) in [
            (vec![(Idle, false)], vec![0]),
            (vec![(Idle, true), (Idle, false)], vec![1, 0]),
            (vec![(Idle, false), (Idle, false), (None, false)], vec![0, 1]),
            (vec![(Idle, false), (Urgent, true)], vec![1, 0]),
            (vec![(Urgent, true), (Urgent, false), (Idle, false)], vec![1, 0, 2]),
            (vec![(None, false), (None, true)], vec![]),
        ] {
            let of = |(at, &(need, wanted))| (DeviceId(at as u8), need, wanted);
            let found = order(drives.iter().enumerate().map(of));
            let found: Vec<u8> = found.into_iter().map(|id| id.0).collect();
            assert_eq!(found, want, "{drives:?}");
        }
    }
}
