//! What do flushes of a hard drive cost, and when is one worth it for which nobody waits?
//!
//! A flush settles whatever was written before it. So one that costs long waits until more has gathered.

use crate::owner::MoveKind;
use tandem_block::{Duration, Instant};

/// Homes that somebody waits for are flushed when their writes took so many times as long as a flush (guess).
const WAITING_TIMES: u64 = 4;

/// What flushes of one hard drive take, as measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlushCosts {
    /// What one takes, smoothed over a few; 0: none was seen yet.
    cost_ns: u64,
    /// What commands took since what was written was durable.
    busy_ns: u64,
    /// … those that wrote homes …
    homes_ns: u64,
    /// … and those that wrote homes of what lies on SSDs.
    ssd_homes_ns: u64,
    /// When the one under way was sent.
    since: Instant,
}

impl FlushCosts {
    /// A command of the drive that is no flush has ended; one that wrote homes has a kind.
    pub(crate) fn worked(&mut self, took: Duration, homes: Option<MoveKind>) {
        let add = |sum: &mut u64, is_meant: bool| {
            *sum = sum.saturating_add(if is_meant { took.ns } else { 0 });
        };
        add(&mut self.busy_ns, true);
        add(&mut self.homes_ns, homes.is_some());
        add(&mut self.ssd_homes_ns, homes == Some(MoveKind::WriteBack));
    }

    /// A flush is sent.
    pub(crate) fn flushes(&mut self, now: Instant) {
        self.since = now;
    }

    /// It has ended.
    pub(crate) fn flushed(&mut self, now: Instant) {
        let took = now.since(self.since);
        let is_first = self.cost_ns == 0;
        self.cost_ns = if is_first { took.ns } else { self.cost_ns / 4 * 3 + took.ns / 4 };
        // it was needed for all that was written
        let share = u128::from(took.ns) * u128::from(self.ssd_homes_ns);
        let share = share / u128::from(self.busy_ns.max(1));
        self.ssd_homes_ns = self.ssd_homes_ns.saturating_add(share as u64);
    }

    /// What was written is durable. Returns what homes of what lies on SSDs took, with their share of the flush, in ns.
    pub(crate) fn settled(&mut self) -> u64 {
        (self.busy_ns, self.homes_ns) = (0, 0);
        std::mem::take(&mut self.ssd_homes_ns)
    }

    /// Has the drive worked so long since its last flush that another one is within its budget, in percent of its time?
    pub(crate) fn is_paid(&self, budget_percent: u64) -> bool {
        assert!((1..=100).contains(&budget_percent), "checked with the configuration");
        self.busy_ns >= (self.cost_ns / budget_percent).saturating_mul(100 - budget_percent)
    }

    /// Were homes written for so long that somebody who waits for them has more of a flush than of a next home?
    pub(crate) fn is_awaited(&self) -> bool {
        self.homes_ns >= self.cost_ns.saturating_mul(WAITING_TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOMES: Option<MoveKind> = Some(MoveKind::WriteBack);

    #[test]
    fn a_flush_waits_until_the_drive_has_worked_long_enough_for_what_the_last_ones_took() {
        let mut costs = FlushCosts::default();
        assert!(costs.is_paid(2), "what one costs is not known before the first");
        let ms = Duration::from_ms;
        // (worked, of it homes from SSDs, is a flush paid then, and awaited, what it takes)
        let steps = [
            (500, 100, true, true, 20),
            (979, 79, false, false, 20),
            (980, 80, true, true, 20),
            (1_000, 0, true, false, 180),
            // three quarters of 20 ms and a quarter of 180 ms are 60 ms
            (2_939, 239, false, false, 60),
            (2_940, 240, true, true, 60),
        ];
        for (worked, homes, is_paid, is_awaited, took) in steps {
            costs.worked(ms(worked - homes), None);
            costs.worked(ms(homes), HOMES);
            assert_eq!(
                (costs.is_paid(2), costs.is_awaited()),
                (is_paid, is_awaited),
                "{worked} ms"
            );
            costs.flushes(Instant::ZERO + ms(7));
            costs.flushed(Instant::ZERO + ms(7 + took));
            let share_ns = took * 1_000_000 * homes / worked;
            assert_eq!(costs.settled(), homes * 1_000_000 + share_ns, "homes and their share");
        }
    }

    #[test]
    fn a_larger_budget_pays_sooner_and_one_of_all_time_at_once() {
        // (percent, ms of work that pay for a flush of 20 ms)
        for (percent, work_ms) in [(1, 1_980), (2, 980), (10, 180), (50, 20), (100, 0)] {
            let mut costs = FlushCosts::default();
            costs.flushed(Instant::ZERO + Duration::from_ms(20));
            costs.worked(Duration::from_ms(work_ms), None);
            assert!(costs.is_paid(percent), "{percent}");
            let mut costs = FlushCosts::default();
            costs.flushed(Instant::ZERO + Duration::from_ms(20));
            costs.worked(Duration::from_ns((work_ms * 1_000_000).saturating_sub(1)), None);
            assert_eq!(costs.is_paid(percent), work_ms == 0, "{percent}");
        }
    }

    #[test]
    fn homes_of_a_log_are_flushed_for_who_waits_and_make_no_room_on_ssds() {
        let mut costs = FlushCosts::default();
        costs.flushed(Instant::ZERO + Duration::from_ms(10));
        costs.worked(Duration::from_ms(40), Some(MoveKind::LogGc));
        assert!(costs.is_awaited());
        assert_eq!(costs.settled(), 0);
    }

    #[test]
    fn a_flush_that_takes_for_ever_does_not_overflow() {
        let mut costs = FlushCosts::default();
        costs.worked(Duration::from_ns(u64::MAX), HOMES);
        costs.worked(Duration::from_ns(u64::MAX), HOMES);
        costs.flushed(Instant::NEVER);
        costs.settled();
        costs.worked(Duration::from_ns(u64::MAX / 4), HOMES);
        assert!(!costs.is_paid(2) && !costs.is_awaited());
    }
}
