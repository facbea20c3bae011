//! What has a drive failed, and when was that told? One line in the log at once, by the drive's name, and
//! few more however many commands fail.

use tandem_block::{Duration, Instant};
use tandem_engine::IoOp;

/// A drive that goes on failing is told of this often.
const TELL_EVERY: Duration = Duration::from_s(10);

/// What one drive has failed since the event loop began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveFailures {
    /// Its path.
    pub drive: String,
    /// Commands that failed.
    pub count: u64,
    /// The first of them: what, where and why.
    pub first: String,
}

/// The failures of one drive.
#[derive(Debug)]
pub(super) struct Failures {
    drive: String,
    count: u64,
    first: Option<String>,
    /// Since the last line.
    untold: u64,
    tell_at: Instant,
}

impl Failures {
    /// Of the drive at this path.
    pub fn of(drive: String) -> Failures {
        Failures { drive, count: 0, first: None, untold: 0, tell_at: Instant::ZERO }
    }

    /// A command failed: `op` with its range in bytes, and why. Returns the line that is due, which is in
    /// the log then.
    pub fn note(&mut self, now: Instant, op: &str, range: (u64, u64), why: &str) -> Option<String> {
        let what = match range {
            (_, 0) => format!("{op} failed: {why}"),
            (offset, length) => format!("{op} of {length} bytes at {offset} failed: {why}"),
        };
        self.count += 1;
        self.first.get_or_insert_with(|| what.clone());
        if now < self.tell_at {
            self.untold += 1;
            return None;
        }
        self.tell_at = now + TELL_EVERY;
        let line = match std::mem::take(&mut self.untold) {
            0 => format!("{}: {what}", self.drive),
            more => format!("{}: {what}; and {more} more since the last line", self.drive),
        };
        tracing::error!("{line}");
        Some(line)
    }

    /// All of them, if there was any.
    pub fn told(&self) -> Option<DriveFailures> {
        let first = self.first.clone()?;
        Some(DriveFailures { drive: self.drive.clone(), count: self.count, first })
    }
}

/// What a person calls a command.
pub(super) fn name(op: &IoOp) -> &'static str {
    match op {
        IoOp::Read { .. } => "read",
        IoOp::Write { .. } => "write",
        IoOp::ReadMeta { .. } => "read of metadata,",
        IoOp::WriteMeta { .. } => "write of metadata,",
        IoOp::Flush => "flush",
        IoOp::Trim { .. } => "trim",
    }
}

/// What the system said, from a negative result of the ring.
pub(super) fn errno(result: i32) -> String {
    std::io::Error::from_raw_os_error(-result).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_drive_is_told_of_at_once_and_then_seldom() {
        let mut failures = Failures::of("a.img".into());
        assert_eq!(failures.told(), None);
        let mut lines = Vec::new();
        for number in 0..250u64 {
            let now = Instant::from_ns(number * 100_000_000);
            lines.extend(failures.note(now, "read", (4096 * number, 512), "no"));
        }
        let want = [
            "a.img: read of 512 bytes at 0 failed: no",
            "a.img: read of 512 bytes at 409600 failed: no; and 99 more since the last line",
            "a.img: read of 512 bytes at 819200 failed: no; and 99 more since the last line",
        ];
        println!("measured: 250 failures in 25 s are {} lines", lines.len());
        assert_eq!(lines, want);
        let told = failures.told().expect("it failed");
        assert_eq!((told.count, &told.first[..]), (250, "read of 512 bytes at 0 failed: no"));
        let flush = failures.note(Instant::from_ns(1 << 40), "flush", (0, 0), "no");
        assert!(flush.is_some_and(|line| line.starts_with("a.img: flush failed: no; and")));
    }
}
