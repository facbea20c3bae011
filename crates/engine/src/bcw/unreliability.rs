//! When is a drive not what it is believed to be, and for how long is it left alone then?
//!
//! Source:  requirements B6: no staircase, a write cache that is off, cleaning, error recovery.
//! Differs: the papers suppose a drive that behaves; here steering to one that does not stops, for a
//!          growing and bounded time, and begins again with a measurement.

use tandem_block::{Duration, Instant};

/// Why steering to a drive has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unreliability {
    /// Slow writes came where none were expected, again and again.
    Surprises,
    /// Latencies fall into no class, or no slow write ever comes.
    NoStaircase,
    /// Every write is mechanical: the write cache is off.
    WriteCacheOff,
    /// Many writes take far longer than a slow one: the drive cleans its media cache, or is failing.
    Cleaning,
    /// One write took a second or more: error recovery.
    Stalled,
}

impl Unreliability {
    /// All of them.
    pub const ALL: [Unreliability; 5] = [
        Unreliability::Surprises,
        Unreliability::NoStaircase,
        Unreliability::WriteCacheOff,
        Unreliability::Cleaning,
        Unreliability::Stalled,
    ];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Unreliability::Surprises => "surprises",
            Unreliability::NoStaircase => "no_staircase",
            Unreliability::WriteCacheOff => "write_cache_off",
            Unreliability::Cleaning => "cleaning",
            Unreliability::Stalled => "stalled",
        }
    }
}

/// The first time away; each further one is twice as long.
const AWAY: Duration = Duration::from_s(1);
/// Doublings at most: two minutes.
const DOUBLINGS_MAX: u32 = 7;
/// Trusted for so long beyond the last time away, a drive begins with the first again.
const FORGIVEN: Duration = Duration::from_s(60);
/// Slow writes in a row that no staircase has.
const SLOW_RUN_MAX: u32 = 3;
/// Surprises, each less two expected slow writes, that are too many.
const SURPRISES_MAX: u32 = 8;
/// Writes among which those of no class are counted, and how many are too many.
const WINDOW: (u32, u32) = (64, 32);
/// A write of this length is error recovery.
const STALL: Duration = Duration::from_s(1);
/// A write of at least this length, and four times a slow one, is no slow write.
const LONG: Duration = Duration::from_ms(40);
/// Long writes within a while that are cleaning.
const LONG_WRITES: (u32, Duration) = (3, Duration::from_s(10));
/// Times that padding reached its limit, without a slow write between, that are too many.
const LIMITS_MAX: u32 = 3;

/// The signs, and the time away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    slow_run: u32,
    surprises: u32,
    limits: u32,
    /// Writes in the window, and those of no class among them.
    window: (u32, u32),
    /// Long writes, and when the first of them was.
    long: (u32, Instant),
    failures: u32,
    away: Duration,
    trusted_since: Instant,
}

/// How a write compares with the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// It met the slow state.
    pub(crate) slow: bool,
    /// It was predicted not to.
    pub(crate) surprising: bool,
    /// It fits no class.
    pub(crate) odd: bool,
    /// What a slow write is believed to add, in ns.
    pub(crate) slow_ns: u64,
    /// What it took.
    pub(crate) latency: Duration,
}

impl Doubts {
    /// Takes one write, and says what it proves.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant, look: &Look) -> Option<Unreliability> {
        self.window.0 += 1;
        self.window.1 += u32::from(look.odd);
        if look.slow {
            self.look_at_slow(now, look)
        } else {
            self.slow_run = 0
        }
        assert!(self.window.1 <= self.window.0, "writes of no class are some of all writes");
        let odd = self.window.1 >= WINDOW.1;
        if self.window.0 >= WINDOW.0 {
            self.window = (0, 0);
        }
        if look.latency >= STALL {
            return Some(Unreliability::Stalled);
        }
        [
            (self.long.0 >= LONG_WRITES.0, Unreliability::Cleaning),
            (self.slow_run >= SLOW_RUN_MAX, Unreliability::WriteCacheOff),
            (odd || self.limits >= LIMITS_MAX, Unreliability::NoStaircase),
            (self.surprises >= SURPRISES_MAX, Unreliability::Surprises),
        ]
        .into_iter()
        .find(|sign| sign.0)
        .map(|sign| sign.1)
    }

    fn look_at_slow(&mut self, now: Instant, look: &Look) {
        self.slow_run += 1;
        self.limits = 0;
        if look.surprising {
            self.surprises += 2;
        } else {
            self.surprises = self.surprises.saturating_sub(1);
        }
        if look.latency.ns >= LONG.ns.max(4 * look.slow_ns) {
            if now.since(self.long.1) > LONG_WRITES.1 {
                self.long = (0, now);
            }
            self.long.0 += 1;
        }
    }

    /// Padding reached its limit and no slow write came.
    pub(crate) fn limit_reached(&mut self) {
        self.limits += 1;
    }

    /// Steering stops now. Returns until when.
    pub(crate) fn stop(&mut self, now: Instant) -> Instant {
        if now.since(self.trusted_since) > FORGIVEN + self.away {
            self.failures = 0;
        }
        let away = Duration::from_ns(AWAY.ns << self.failures.min(DOUBLINGS_MAX));
        let (failures, trusted_since) = (self.failures + 1, self.trusted_since);
        *self = Doubts { failures, away, trusted_since, ..Doubts::default() };
        now + away
    }

    /// The drive was measured and is trusted again.
    pub(crate) fn trusted(&mut self, now: Instant) {
        let (failures, away) = (self.failures, self.away);
        *self = Doubts { failures, away, trusted_since: now, ..Doubts::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW_NS: u64 = 12_000_000;

    fn look(ms: u64, surprising: bool, odd: bool) -> Look {
        let latency = Duration::from_ms(ms);
        Look { slow: ms >= 6, surprising, odd, slow_ns: SLOW_NS, latency }
    }

    #[test]
    fn b6_each_sign_has_its_name() {
        let (fast, slow) = (look(0, false, false), look(12, false, false));
        for (what, writes, want) in [
            ("a staircase", vec![fast, slow, fast, fast, slow, fast], None),
            ("three in a row", vec![fast, slow, slow, slow], Some(Unreliability::WriteCacheOff)),
            ("one of a second", vec![fast, look(1000, false, true)], Some(Unreliability::Stalled)),
            ("one long one", vec![fast, look(300, false, true), fast], None),
            (
                "three long ones",
                [look(300, false, true), fast].repeat(3),
                Some(Unreliability::Cleaning),
            ),
            ("half of no class", vec![look(2, false, true); 32], Some(Unreliability::NoStaircase)),
            ("a third of no class", [look(2, false, true), fast, fast].repeat(40), None),
            ("surprises", [look(12, true, false), fast].repeat(4), Some(Unreliability::Surprises)),
            (
                "surprises among expected ones",
                [look(12, true, false), fast, slow, fast, slow, fast].repeat(40),
                None,
            ),
        ] {
            let mut doubts = Doubts::default();
            let now = Instant::ZERO + Duration::from_s(100);
            let found = writes.iter().find_map(|write| doubts.look(now, write));
            assert_eq!(found, want, "{what}");
        }
    }

    #[test]
    fn b6_three_limits_without_a_slow_write_are_no_staircase() {
        let mut doubts = Doubts::default();
        for limits in 1..=3 {
            doubts.limit_reached();
            let found = doubts.look(Instant::ZERO, &look(0, false, false));
            assert_eq!(found, (limits == 3).then_some(Unreliability::NoStaircase));
        }
    }

    #[test]
    fn b6_times_away_grow_are_bounded_and_forgiven() {
        let mut doubts = Doubts::default();
        let mut now = Instant::ZERO + Duration::from_s(1000);
        let mut away = Vec::new();
        for _ in 0..10 {
            let until = doubts.stop(now);
            away.push(until.since(now).ns / 1_000_000_000);
            now = until;
            doubts.trusted(now);
        }
        assert_eq!(away, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
        now += Duration::from_s(200);
        assert_eq!(doubts.stop(now).since(now), Duration::from_s(1));
    }
}
