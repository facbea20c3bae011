//! How much may be padded, and in what sizes?
//!
//! Source: [BCW §4.2]: P_F and P_S; B4: padding wears the drive and fills the log, so it has a
//! daily budget, and when that is spent the controller lets the drive rest instead.

use tandem_block::{Duration, Instant, KIB};

/// Keeps the stream continuous in the mid state. Paper: `P_F`.
pub const FAST_PADDING_BYTES: u64 = 4 * KIB;
/// Brings on the slow write. Paper: `P_S`.
pub const SLOW_PADDING_BYTES: u64 = 64 * KIB;

const DAY: Duration = Duration::from_s(86_400);

/// A daily budget of padding.
#[derive(Clone, Copy, Debug)]
pub struct PaddingBudget {
    bytes_per_day: u64,
    day_began: Instant,
    spent_bytes: u64,
}

impl PaddingBudget {
    /// A fresh budget.
    pub fn new(bytes_per_day: u64) -> Self {
        PaddingBudget { bytes_per_day, day_began: Instant::ZERO, spent_bytes: 0 }
    }

    /// Takes `bytes` if today's budget has them.
    pub fn take(&mut self, now: Instant, bytes: u64) -> bool {
        if now.since(self.day_began) >= DAY {
            self.day_began = now;
            self.spent_bytes = 0;
        }
        let fits = self.spent_bytes + bytes <= self.bytes_per_day;
        if fits {
            self.spent_bytes += bytes;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_comes_back_the_next_day() {
        let mut budget = PaddingBudget::new(100);
        assert!(budget.take(Instant::ZERO, 60));
        assert!(!budget.take(Instant::ZERO, 60));
        assert!(budget.take(Instant::ZERO, 40));
        assert!(!budget.take(Instant::ZERO + Duration::from_s(86_399), 1));
        assert!(budget.take(Instant::ZERO + DAY, 100));
    }
}
