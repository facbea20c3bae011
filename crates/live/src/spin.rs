//! Does it pay to spin until the next event, or is sleeping at once the better wait?
//!
//! Source: measured. A wake-up costs 20 to 30 us (deps 3), so a client that comes back at once is worth
//! spinning for. A wait that ends just after the spinning is the worst of both: over a disk that
//! makes a record durable in 100 us, spinning for the first 50 cost a third of the commits, since the
//! kernel's own workers want the CPU that we spin on. So each kind of wait is predicted from the
//! ones before it, as in adaptive mutexes and the halt polling of hypervisors.

use tandem_block::{Duration, Instant};

/// What a sleeper hears late (deps 3), which is not the wait's own length.
const WAKE_UP: Duration = Duration::from_us(25);
/// A wait counts as this many times the limit at most, so that a pause is soon forgotten (guess).
const WAIT_FACTOR_MAX: u64 = 4;
/// One wait in so many moves the average wholly (guess).
const SMOOTHING: i64 = 8;

/// Who has the next word?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Clients: nothing is with the drives.
    Client = 0,
    /// A drive.
    Drive = 1,
}

/// Waits so far, and the one under way.
#[derive(Debug)]
pub(crate) struct Spin {
    limit: Duration,
    /// What a wait for each lasts, in nanoseconds: a moving average.
    expected_ns: [i64; 2],
    since: Instant,
    awaited: Awaited,
}

impl Spin {
    /// Spins `limit` at most; zero never spins.
    pub fn new(limit: Duration, now: Instant) -> Spin {
        Spin { limit, expected_ns: [0; 2], since: now, awaited: Awaited::Client }
    }

    /// Everything known is done; from now on `awaited` is waited for.
    pub fn begins(&mut self, now: Instant, awaited: Awaited) {
        (self.since, self.awaited) = (now, awaited);
    }

    /// Until when to spin.
    pub fn until(&self) -> Instant {
        let pays = self.expected_ns[self.awaited as usize] <= signed(self.limit.ns);
        if pays { self.since + self.limit } else { self.since }
    }

    /// Something happened, after a sleep or while spinning.
    pub fn ends(&mut self, now: Instant, has_slept: bool) {
        let mut wait_ns = now.since(self.since).ns.min(self.limit.ns * WAIT_FACTOR_MAX);
        if has_slept {
            wait_ns = wait_ns.saturating_sub(WAKE_UP.ns);
        }
        let expected_ns = &mut self.expected_ns[self.awaited as usize];
        *expected_ns += (signed(wait_ns) - *expected_ns) / SMOOTHING;
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).expect("a wait is shorter than 292 years")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_us(50);

    /// Waits of these lengths, one after another; which of them were spun for.
    fn spun(spin: &mut Spin, awaited: Awaited, waits_us: &[u64]) -> Vec<bool> {
        let mut now = Instant::from_ns(1_000);
        let mut spun = Vec::new();
        for &wait_us in waits_us {
            spin.begins(now, awaited);
            let end = now + Duration::from_us(wait_us);
            spun.push(spin.until() > now);
            let has_slept = end > spin.until();
            now = if has_slept { end + WAKE_UP } else { end };
            spin.ends(now, has_slept);
        }
        spun
    }

    #[test]
    fn a_drive_slower_than_the_limit_is_slept_for_and_a_quick_client_spun_for() {
        let mut spin = Spin::new(LIMIT, Instant::from_ns(0));
        let drive = spun(&mut spin, Awaited::Drive, &[100; 20]);
        assert!(drive[0], "nothing is known at first");
        assert!(drive[8..].iter().all(|&spun| !spun), "{drive:?}");
        let client = spun(&mut spin, Awaited::Client, &[15; 20]);
        assert!(client.iter().all(|&spun| spun), "the drive's waits say nothing of clients");
        let quicker = spun(&mut spin, Awaited::Drive, &[20; 30]);
        assert!(quicker[20..].iter().all(|&spun| spun), "a drive that got quicker: {quicker:?}");
    }

    #[test]
    fn a_pause_is_forgotten_at_once_and_idleness_is_slept_through() {
        let mut spin = Spin::new(LIMIT, Instant::from_ns(0));
        let waits = [[15; 10].as_slice(), &[1_000_000], &[15; 10]].concat();
        assert!(spun(&mut spin, Awaited::Client, &waits).iter().all(|&spun| spun));
        let idle = spun(&mut spin, Awaited::Client, &[1_000_000; 10]);
        assert!(idle[4..].iter().all(|&spun| !spun), "{idle:?}");
    }

    #[test]
    fn a_limit_of_zero_never_spins() {
        let mut spin = Spin::new(Duration::from_ns(0), Instant::from_ns(0));
        assert!(spun(&mut spin, Awaited::Client, &[0, 1, 2, 50]).iter().all(|&spun| !spun));
    }
}
