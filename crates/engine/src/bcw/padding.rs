//! How much may be padded, and in what sizes?
//!
//! Source: [BCW §4.2]: P_F and P_S; B4: padding wears the drive and fills the log, so it has a
//! daily budget, and when that is spent the controller lets the drive rest instead.

use tandem_block::{Duration, Instant, KIB};

/// Keeps the stream continuous in the mid state. Paper: `P_F`.
pub(crate) const FAST_PADDING_BYTES: u64 = 4 * KIB;
/// Brings on the slow write. Paper: `P_S`.
pub(crate) const SLOW_PADDING_BYTES: u64 = 64 * KIB;

const DAY: Duration = Duration::from_s(86_400);

/// So many bytes a day. Days are counted from the engine's start: a restart begins one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DayBudget {
    bytes_per_day: u64,
    day_began: Instant,
    spent_bytes: u64,
}

impl DayBudget {
    /// A fresh budget.
    pub(crate) fn new(bytes_per_day: u64) -> Self {
        DayBudget { bytes_per_day, day_began: Instant::ZERO, spent_bytes: 0 }
    }

    fn roll(&mut self, now: Instant) {
        assert!(now >= self.day_began, "a day does not begin later than now");
        if now.since(self.day_began) >= DAY {
            self.day_began = now;
            self.spent_bytes = 0;
        }
    }

    /// Takes `bytes` if today's budget has them.
    pub(crate) fn take(&mut self, now: Instant, bytes: u64) -> bool {
        self.roll(now);
        let fits = self.spent_bytes.saturating_add(bytes) <= self.bytes_per_day;
        if fits {
            self.spent_bytes += bytes;
        }
        fits
    }

    /// Takes `bytes` that are written in any case.
    pub(crate) fn spend(&mut self, now: Instant, bytes: u64) {
        self.roll(now);
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
    }

    /// Is nothing left of today's, with what is promised and not written yet?
    pub(crate) fn is_spent(&mut self, now: Instant, promised_bytes: u64) -> bool {
        self.roll(now);
        self.spent_bytes.saturating_add(promised_bytes) >= self.bytes_per_day
    }

    /// Bytes spent today, and the budget.
    pub(crate) fn spent(&self, now: Instant) -> (u64, u64) {
        let today = now.since(self.day_began) < DAY;
        (if today { self.spent_bytes } else { 0 }, self.bytes_per_day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_comes_back_the_next_day() {
        let mut budget = DayBudget::new(100);
        assert!(budget.take(Instant::ZERO, 60));
        assert!(!budget.take(Instant::ZERO, 60));
        assert!(budget.take(Instant::ZERO, 40));
        assert!(!budget.take(Instant::ZERO + Duration::from_s(86_399), 1));
        let next = Instant::ZERO + DAY;
        assert_eq!((budget.spent(Instant::ZERO), budget.spent(next)), ((100, 100), (0, 100)));
        assert!(budget.is_spent(Instant::ZERO, 0) && !budget.is_spent(next, 99));
        assert!(budget.is_spent(next, 100));
        assert!(budget.take(next, 100));
        budget.spend(next, 7);
        assert_eq!(budget.spent(next), (107, 100));
    }
}
