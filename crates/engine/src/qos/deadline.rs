//! Who goes next? Whoever's time is up first, and reads have a tenth of the time of writes.
//!
//! Source:  the deadline scheduler of Linux with its default times, P18 of the requirements. Ianus names it beside others.
//!          Nothing is promised, and streams are not told apart.
//! Differs: Linux sends batches in the order of the disk, and lets writes pass after two batches of reads. An SSD has no
//!          head, so here the times alone decide. A write passes reads that came more than 4.5 s after it.

use super::fifo::users_first;
use super::{Qos, QosEntry, QueueView};
use crate::device::Class;
use tandem_block::Duration;

/// Registry line.
pub(crate) const ENTRY: QosEntry = QosEntry {
    name: "deadline",
    summary: "reads within half a second, writes within five, the earliest deadline first (like Linux)",
    source: "Linux, a baseline (P18)",
    build: || Box::new(Deadline),
};

/// A read is to go within this time: `read_expire` of Linux.
const READ: Duration = Duration::from_ms(500);
/// A write: `write_expire` of Linux.
const WRITE: Duration = Duration::from_ms(5_000);

#[derive(Clone, Copy, Debug)]
struct Deadline;

impl Qos for Deadline {
    fn next(&self, view: &QueueView) -> Option<Class> {
        if view.read.is_none() || view.write.is_none() {
            return users_first(view);
        }
        let is_write = view.write_came + WRITE < view.read_came + READ;
        Some(if is_write { Class::Write } else { Class::Read })
    }

    fn keeps_promises(&self) -> bool {
        false
    }

    fn boxed_clone(&self) -> Box<dyn Qos> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Instant;

    #[test]
    fn p18_reads_go_first_until_a_write_has_waited_for_long() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        for (read_ms, write_ms, want) in [
            (Some(9), Some(3), Class::Read),
            (Some(4_503), Some(3), Class::Read),
            (Some(4_504), Some(3), Class::Write),
            (Some(3), Some(9), Class::Read),
            (None, Some(9), Class::Write),
            (Some(9), None, Class::Read),
            (None, None, Class::Background),
        ] {
            let view = QueueView {
                // in the order of arrival the write would go
                read: read_ms.map(|_| 2),
                write: write_ms.map(|_| 1),
                read_came: at(read_ms.unwrap_or(0)),
                write_came: at(write_ms.unwrap_or(0)),
                background: Some(0),
                background_in_flight: 0,
            };
            assert_eq!(Deadline.next(&view), Some(want), "{read_ms:?} {write_ms:?}");
        }
        assert_eq!(Deadline.next(&QueueView::default()), None);
        assert!(!Deadline.tells_streams() && !Deadline.keeps_promises());
    }
}
