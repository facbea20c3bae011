//! How often have checkpoints failed in a row, and when is the next one tried?

use tandem_block::{Duration, Instant};

/// Attempts in a row that may fail: some four minutes (guess).
const ATTEMPTS_MAX: u32 = 8;
/// Half of the pause before the second attempt; each further one is twice as long, up to 64 times this.
const RETRY_AFTER: Duration = Duration::from_ms(500);

/// Attempts that failed in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    failed: u32,
    retry_at: Instant,
}

impl Default for Attempts {
    /// None has failed.
    fn default() -> Self {
        Attempts { failed: 0, retry_at: Instant::ZERO }
    }
}

impl Attempts {
    /// Have so many failed that no more are tried, and the journal is never cut again?
    pub(super) fn are_over(self) -> bool {
        self.failed >= ATTEMPTS_MAX
    }

    /// Has the last one failed, and will there be another?
    pub(super) fn goes_on(self) -> bool {
        self.failed > 0 && !self.are_over()
    }

    /// An attempt, or the write of a root, has failed.
    pub(super) fn note_failed(&mut self, now: Instant) {
        assert!(!self.are_over(), "no more are tried");
        self.failed += 1;
        self.retry_at = now + Duration::from_ns(RETRY_AFTER.ns << self.failed.min(6));
    }

    /// One is durable. Behind a part the count stays: a round whose last part fails each time has failed, too.
    pub(super) fn note_durable(&mut self, is_part: bool) {
        if !is_part {
            *self = Attempts::default();
        }
    }

    /// When the next one may begin.
    pub(super) fn retry_at(self) -> Instant {
        self.retry_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_whose_last_part_fails_each_time_has_failed() {
        for (is_part, are_over) in [(true, true), (false, false)] {
            let mut attempts = Attempts::default();
            for second in 0..u64::from(ATTEMPTS_MAX) {
                attempts.note_durable(is_part);
                attempts.note_failed(Instant::ZERO + Duration::from_ms(1_000 * second));
            }
            assert_eq!(attempts.are_over(), are_over, "a part: {is_part}");
        }
    }

    #[test]
    fn pauses_become_longer_and_end() {
        let mut attempts = Attempts::default();
        let mut pauses = Vec::new();
        while !attempts.are_over() {
            attempts.note_failed(Instant::ZERO);
            pauses.push(attempts.retry_at().since(Instant::ZERO).ns / 1_000_000_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert!(!attempts.goes_on());
    }
}
