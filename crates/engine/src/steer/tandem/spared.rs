//! How much longer would everybody wait if the SSD had got every write?
//!
//! Source: frontier D0. What a redirected write costs is to be compared with the SSD alone. On a busy SSD that is not the
//!         queue of now, which is short because of what was redirected.
//!
//! What was redirected would still wait there, as long as the SSD is busy. Where it is idle it would have been working
//! that off.

use tandem_block::Instant;

/// Bytes that are counted at most.
const BYTES_MAX: u64 = 4 << 30;
/// The rate is measured over so much busy time, in ns.
const WINDOW_NS: u64 = 20_000_000;
/// Least rate of a busy SSD that is believed, in bytes per ms: 1 MB/s.
const RATE_MIN: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;

/// What an SSD was spared and would still have before it.
#[derive(Clone, Debug)]
pub(super) struct Spared {
    bytes: u64,
    /// What it writes while it is busy, and at most, in bytes per ms.
    rate: u64,
    rate_max: u64,
    /// Until then it was busy, or what it had time for is counted.
    known_until: Instant,
    /// What it has written in the present window, and how long it was busy.
    window_bytes: u64,
    window_ns: u64,
}

impl Spared {
    /// Of an SSD that writes so many bytes per second at best.
    pub(super) fn new(write_bytes_per_s: u64) -> Spared {
        let rate = (write_bytes_per_s / 1_000).max(RATE_MIN);
        Spared {
            bytes: 0,
            rate,
            rate_max: rate,
            known_until: Instant::ZERO,
            window_bytes: 0,
            window_ns: 0,
        }
    }

    /// It was idle until its oldest command began, so long ago; 0: it has none.
    pub(super) fn idle_until(&mut self, now: Instant, oldest_ns: u64) {
        let began = Instant { ns: now.ns.saturating_sub(oldest_ns) };
        if began > self.known_until {
            let idle_ns = began.since(self.known_until).ns;
            let worked_off = (idle_ns / 1_000).saturating_mul(self.rate_max) / 1_000;
            self.bytes = self.bytes.saturating_sub(worked_off);
            self.known_until = began;
        }
    }

    /// A command ended that took so long; `bytes`: what it wrote.
    pub(super) fn ended(&mut self, now: Instant, took_ns: u64, bytes: u64) {
        self.idle_until(now, took_ns);
        self.window_ns += now.since(self.known_until).ns;
        self.known_until = now;
        self.window_bytes = self.window_bytes.saturating_add(bytes);
        if self.window_ns >= WINDOW_NS {
            let rate = self.window_bytes.saturating_mul(NS_PER_MS) / self.window_ns;
            let rate = rate.clamp(RATE_MIN, self.rate_max);
            self.rate = (self.rate * 3 + rate) / 4;
            (self.window_bytes, self.window_ns) = (0, 0);
        }
    }

    /// So much went elsewhere.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes).min(BYTES_MAX);
    }

    /// So much came back.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// How long it would take for that, in ns.
    pub(super) fn wait_ns(&self) -> u64 {
        self.bytes.saturating_mul(NS_PER_MS) / self.rate.max(RATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::MIB;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_ns(ms * NS_PER_MS)
    }

    /// 100 MB/s: what a busy SSD was spared waits, as long as it is busy.
    #[test]
    fn what_a_busy_ssd_was_spared_waits() {
        let mut spared = Spared::new(100_000_000);
        spared.add(50_000_000);
        assert_eq!(spared.wait_ns(), 500 * NS_PER_MS);
        // half a MB in each 10 ms
        for round in 1..=100 {
            spared.ended(at_ms(round * 10), 10 * NS_PER_MS, 500_000);
        }
        let wait_ms = spared.wait_ns() / NS_PER_MS;
        assert!((950..=1_010).contains(&wait_ms), "it writes half as fast: {wait_ms} ms");
        spared.take_back(25_000_000);
        assert!(spared.wait_ns() / NS_PER_MS <= 505);
    }

    #[test]
    fn an_idle_ssd_would_have_worked_it_off() {
        let mut spared = Spared::new(100_000_000);
        spared.add(50_000_000);
        spared.idle_until(at_ms(100), 0);
        assert_eq!(spared.wait_ns(), 400 * NS_PER_MS);
        spared.idle_until(at_ms(200), 50 * NS_PER_MS);
        assert_eq!(spared.wait_ns(), 350 * NS_PER_MS, "its oldest command began 50 ms ago");
        spared.idle_until(at_ms(200), 0);
        spared.idle_until(at_ms(9_000), 0);
        assert_eq!(spared.wait_ns(), 0);
    }

    #[test]
    fn nothing_overflows() {
        let mut spared = Spared::new(0);
        (0..10_000).for_each(|_| spared.add(64 * MIB));
        spared.ended(Instant::from_ns(u64::MAX / 2), u64::MAX, u64::MAX / 4);
        assert!(spared.wait_ns() > 0);
        spared.take_back(u64::MAX);
        assert_eq!(spared.wait_ns(), 0);
    }
}
