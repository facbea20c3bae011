//! How are time and size written down? Nanoseconds and bytes, always integers.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// 1024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1024 KiB.
pub const MIB: u64 = 1 << 20;
/// 1024 MiB.
pub const GIB: u64 = 1 << 30;
/// 1024 GiB.
pub const TIB: u64 = 1 << 40;

/// A point on the time line of one event loop, in nanoseconds since that event loop began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since the event loop began.
    pub ns: u64,
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    /// Length in nanoseconds.
    pub ns: u64,
}

impl Instant {
    /// The beginning of the event loop.
    pub const ZERO: Instant = Instant { ns: 0 };
    /// Later than everything; used for "never".
    pub const NEVER: Instant = Instant { ns: u64::MAX };

    /// The instant `ns` nanoseconds after the event loop began.
    pub const fn from_ns(ns: u64) -> Self {
        Instant { ns }
    }

    /// Time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration { ns: self.ns.saturating_sub(earlier.ns) }
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration { ns: 0 };

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration { ns }
    }
    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Duration { ns: us * 1_000 }
    }
    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Duration { ns: ms * 1_000_000 }
    }
    /// `s` seconds.
    pub const fn from_s(s: u64) -> Self {
        Duration { ns: s * 1_000_000_000 }
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant { ns: self.ns.saturating_add(span.ns) }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant { ns: self.ns.saturating_sub(span.ns) }
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration { ns: self.ns.saturating_add(other.ns) }
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl fmt::Display for Duration {
    /// Four significant digits at most, in the largest unit that keeps one digit before the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_ns, unit) = match self.ns {
            0..1_000 => return write!(f, "{} ns", self.ns),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let whole = self.ns / unit_ns;
        let tenths = (self.ns % unit_ns) * 10 / unit_ns;
        if whole >= 100 {
            write!(f, "{whole} {unit}")
        } else {
            write!(f, "{whole}.{tenths} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_wraps() {
        assert_eq!(Instant::NEVER + Duration::from_s(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Duration::from_s(1), Instant::ZERO);
        assert_eq!(Instant::from_ns(5).since(Instant::from_ns(9)), Duration::ZERO);
    }

    #[test]
    fn durations_print_for_people() {
        for (ns, want) in [
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (180_000, "180 us"),
            (12_000_000, "12.0 ms"),
            (5_200_000_000, "5.2 s"),
        ] {
            assert_eq!(Duration::from_ns(ns).to_string(), want);
        }
    }
}
