//! How much of the writer's own work is left when it begins to be read?
//!
//! Source: [IANUS §5.3] "background work right after the drives switch modes"; B9: an idle second is a
//! guess, so what is left is measured. Reads soon after a change of roles are compared with later ones
//! of the same period; where they are slower, the next time without writes is longer.

use super::config::Idle;
use tandem_block::{Duration, Instant};

/// Reads count as early for this part of a period (guess).
const EARLY_PART: u64 = 8;
/// Fewer reads than this on either side say nothing (guess).
const READS_MIN: u64 = 16;
/// Early reads that are slower than this, in percent of later ones, were in somebody's way (guess).
const SLOWER_PERCENT: u64 = 110;
/// The time without writes grows by this part of its limit, and shrinks by half as much (guess).
const STEP_PART: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    count: u64,
    sum_ns: u64,
}

impl Side {
    fn mean_ns(self) -> Option<u64> {
        (self.count >= READS_MIN).then(|| self.sum_ns / self.count)
    }
}

/// Reads of the period under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Residue {
    early: Side,
    late: Side,
}

impl Residue {
    /// A read ended now; it was sent at `issued`, and roles are as they are since `since`.
    pub(crate) fn read(&mut self, issued: Instant, now: Instant, since: Instant, period: Duration) {
        assert!(issued <= now, "a read ends after it was sent");
        if issued < since {
            return; // of the period before
        }
        let is_early = issued.since(since).ns < period.ns / EARLY_PART;
        let side = if is_early { &mut self.early } else { &mut self.late };
        side.count += 1;
        side.sum_ns = side.sum_ns.saturating_add(now.since(issued).ns);
    }

    /// The period is over: how long to idle before the next change.
    pub(crate) fn next_idle(&mut self, idle: Duration, setting: Idle) -> Duration {
        let Residue { early, late } = std::mem::take(self);
        let Idle::Adaptive(limit) = setting else { return idle };
        let (Some(early), Some(late)) = (early.mean_ns(), late.mean_ns()) else { return idle };
        let step = limit.ns / STEP_PART;
        let slower = early.saturating_mul(100) > late.saturating_mul(SLOWER_PERCENT);
        let next = if slower { idle.ns + step } else { idle.ns.saturating_sub(step / 2) };
        Duration::from_ns(next.min(limit.ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_s(8);
    const LIMIT: Idle = Idle::Adaptive(Duration::from_s(2));

    /// A period in which early reads take so long and later ones 100 us.
    fn period(early_us: u64, reads: u64) -> Residue {
        let mut residue = Residue::default();
        for read in 0..reads {
            for (at, latency_us) in
                [(Duration::from_ms(read), early_us), (Duration::from_s(4), 100)]
            {
                let issued = Instant::ZERO + at;
                let end = issued + Duration::from_us(latency_us);
                residue.read(issued, end, Instant::ZERO, PERIOD);
            }
        }
        residue
    }

    #[test]
    fn slow_reads_after_a_change_lengthen_the_idle_time_up_to_its_limit() {
        let mut idle = Duration::from_ns(0);
        for want_ms in [500, 1_000, 1_500, 2_000, 2_000] {
            idle = period(300, 20).next_idle(idle, LIMIT);
            assert_eq!(idle, Duration::from_ms(want_ms));
        }
        for want_ms in [1_750, 1_500] {
            idle = period(100, 20).next_idle(idle, LIMIT);
            assert_eq!(idle, Duration::from_ms(want_ms));
        }
    }

    #[test]
    fn few_reads_say_nothing_and_a_fixed_time_is_fixed() {
        let idle = Duration::from_ms(700);
        assert_eq!(period(300, 3).next_idle(idle, LIMIT), idle);
        assert_eq!(period(300, 20).next_idle(idle, Idle::Fixed(idle)), idle);
    }

    #[test]
    fn reads_of_the_period_before_do_not_count() {
        let mut residue = Residue::default();
        let since = Instant::ZERO + Duration::from_s(5);
        residue.read(Instant::ZERO, since, since, PERIOD);
        assert_eq!((residue.early.count, residue.late.count), (0, 0));
    }
}
