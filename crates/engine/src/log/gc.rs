//! Which segment of an HDD log is cleaned next, and when?
//!
//! Source: [BCW §4.3.1]: GC when the drive is idle or the log passes a threshold (M32); B4: bounded,
//! preemptible, only what lives, sorted by home. The moves themselves are those of write-back.

use super::Log;

/// How urgently a log wants to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Not at all.
    None,
    /// When the drive is idle.
    Idle,
    /// Now: redirection is about to stop.
    Urgent,
}

/// Whether the log wants cleaning. `gc_percent` and `stop_percent` are settings (70 and 90).
pub fn need(log: &Log, gc_percent: u64, stop_percent: u64) -> Need {
    let used = log.used_percent();
    if used >= stop_percent {
        Need::Urgent
    } else if used >= gc_percent {
        Need::Idle
    } else {
        Need::None
    }
}
