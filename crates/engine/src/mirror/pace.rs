//! How fast may writes be accepted?
//!
//! Source: [IANUS §5.2], requirements I15, I17: each write is made twice, so in the long run a pair
//! accepts half of what a leg writes (`k/2`). Slower from the start is steadier than fast and then
//! blocked. `k` is measured over each period, while the writer has all the commands that it takes: one
//! that writes as things come would seem slow, and the first moments of its turn alone, after a period
//! of rest, faster than it is. In a period with little to do it has them only while it stands still, so
//! that such a period may show that it is faster than it seemed, and never that it is slower.

use super::config::{Answer, PairConfig};
use tandem_block::{Duration, Instant, MIB};

/// Accepted at once beyond the rate: requests are not smooth (guess).
const BURST: Duration = Duration::from_ms(50);
/// Where writes wait for the leg anyway, what could not be accepted because it stood still is accepted
/// later: up to this part of a period (guess: a second of ten, as long as collections come together).
const CREDIT_PART: u64 = 10;
/// What was configured counts like so much of a leg's time (guess).
const CONFIGURED: Duration = Duration::from_ms(500);
/// Of what was seen before, this part counts after one more period: three of four (guess).
const KEPT: (u64, u64) = (3, 4);
/// A leg that was busy for less than this part of its period had little to do: one half, what it needs
/// to make up for the period before, since half of what it writes is accepted ([IANUS §5.2]).
const BUSY_PART: u64 = 2;
/// Never slower than this, whatever was measured (guess).
const BYTES_PER_S_MIN: u64 = MIB;

/// Share of a period in which a leg may write, in millionths.
pub(super) fn share_ppm(period: Duration, idle: Duration) -> u64 {
    let writing_ns = u128::from(period.ns.saturating_sub(idle.ns).max(1));
    let share = writing_ns * 1_000_000 / u128::from(period.ns.max(1));
    u64::try_from(share).expect("a part of a million").clamp(1, 1_000_000)
}

/// Bytes in a second, where so many took this time.
fn rate(bytes: u64, time: Duration) -> u64 {
    assert!(time > Duration::ZERO, "a rate was measured for some time");
    let bytes_per_s = u128::from(bytes) * 1_000_000_000 / u128::from(time.ns);
    u64::try_from(bytes_per_s).unwrap_or(u64::MAX).max(BYTES_PER_S_MIN)
}

fn bytes_in(bytes_per_s: u64, time: Duration) -> u64 {
    let bytes = u128::from(bytes_per_s) * u128::from(time.ns) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX / 8)
}

#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Paper: `k`.
    write_bytes_per_s: u64,
    /// Share of its time that a leg may write, in millionths: the rest it idles ([IANUS §5.3]).
    share_ppm: u64,
    /// What was accepted is worked off by then, at half the rate.
    worked_off_at: Instant,
    /// … which is never longer ago than this.
    credit: Duration,
    /// Bytes written, and the time that took: of this period, and of those before, the older the less.
    written_bytes: u64,
    busy: Duration,
    busy_since: Option<Instant>,
    seen: (u64, Duration),
}

impl Pace {
    pub(crate) fn new(write_bytes_per_s: u64, share_ppm: u64) -> Pace {
        assert!((1..=1_000_000).contains(&share_ppm), "a share of its time");
        let write_bytes_per_s = write_bytes_per_s.max(BYTES_PER_S_MIN);
        Pace {
            write_bytes_per_s,
            share_ppm,
            worked_off_at: Instant::ZERO,
            written_bytes: 0,
            busy: Duration::from_ns(0),
            busy_since: None,
            seen: (bytes_in(write_bytes_per_s, CONFIGURED), CONFIGURED),
            credit: Duration::from_ns(0),
        }
    }

    /// The pace of a pair: where writes are answered when a leg has them, what it stood still for is
    /// made up for.
    pub(crate) fn of(config: &PairConfig, idle: Duration) -> Pace {
        let credit = match config.answer {
            Answer::Cached | Answer::Journaled => Duration::from_ns(0),
            Answer::Written => Duration::from_ns(config.period.ns / CREDIT_PART),
        };
        Pace { credit, ..Pace::new(config.write_bytes_per_s, share_ppm(config.period, idle)) }
    }

    /// The time without writes has another length now.
    pub(crate) fn writes_for(&mut self, share_ppm: u64) {
        assert!((1..=1_000_000).contains(&share_ppm), "a share of its time");
        self.share_ppm = share_ppm;
    }

    /// What a leg writes in a second, as far as known.
    pub(crate) fn write_bytes_per_s(&self) -> u64 {
        self.write_bytes_per_s
    }

    /// When the next write may be accepted; not later than now: at once.
    pub(crate) fn next_at(&self) -> Instant {
        if self.worked_off_at.ns <= BURST.ns { Instant::ZERO } else { self.worked_off_at - BURST }
    }

    pub(crate) fn accept(&mut self, now: Instant, bytes: u64) {
        let rate = u128::from(self.write_bytes_per_s) * u128::from(self.share_ppm);
        let takes_ns = u128::from(bytes) * 2_000_000_000_000_000 / rate;
        let takes = Duration::from_ns(u64::try_from(takes_ns).expect("a write is bounded"));
        let earliest = Instant::from_ns(now.ns.saturating_sub(self.credit.ns));
        self.worked_off_at = self.worked_off_at.max(earliest) + takes;
    }

    /// The writing leg has all the commands that it takes, from now on.
    pub(crate) fn begins(&mut self, now: Instant) {
        self.busy_since.get_or_insert(now);
    }

    /// … has not any more.
    pub(crate) fn ends(&mut self, now: Instant) {
        if let Some(since) = self.busy_since.take() {
            assert!(now >= since, "a leg is not busy before it begins");
            self.busy += now.since(since);
        }
    }

    /// The writing leg's period, of this length, is over: what was seen of it counts.
    pub(crate) fn turns(&mut self, now: Instant, period: Duration) {
        self.ends(now);
        let written = std::mem::take(&mut self.written_bytes);
        let busy = std::mem::take(&mut self.busy);
        if busy.ns == 0 {
            return;
        }
        let kept = |value: u64| value / KEPT.1 * KEPT.0;
        let (bytes, time) = self.seen;
        // a short period says less than a long one: bytes and time add up apart
        let bytes = kept(bytes) + written;
        let time = Duration::from_ns(kept(time.ns)) + busy;
        let measured = rate(bytes, time);
        let had_little_to_do = busy.ns < period.ns / BUSY_PART;
        if had_little_to_do && measured < self.write_bytes_per_s {
            return;
        }
        self.seen = (bytes, time);
        self.write_bytes_per_s = measured;
    }

    /// The writing leg has so much more. What it writes as it comes, while it is not behind, says
    /// nothing of what it could write.
    pub(crate) fn written(&mut self, bytes: u64) {
        if self.busy_since.is_some() {
            self.written_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_a_leg_writes_is_accepted() {
        let mut pace = Pace::new(200_000_000, 1_000_000);
        let (mut now, mut bytes) = (Instant::ZERO, 0u64);
        let end = Instant::ZERO + Duration::from_s(10);
        while now < end {
            now = now.max(pace.next_at());
            pace.accept(now, 4096);
            bytes += 4096;
        }
        let wanted = 1_000_000_000u64;
        assert!(bytes.abs_diff(wanted) < wanted / 100, "{bytes} of {wanted}");
    }

    #[test]
    fn the_time_without_writes_is_charged_to_writers() {
        let mut pace = Pace::new(200_000_000, 900_000);
        pace.accept(Instant::ZERO, 90_000_000);
        assert_eq!(pace.next_at() + BURST, Instant::ZERO + Duration::from_s(1));
    }

    #[test]
    fn the_rate_follows_what_was_measured() {
        let mut pace = Pace::new(200_000_000, 1_000_000);
        for second in 0..20u64 {
            let start = Instant::from_ns(second * 1_000_000_000);
            pace.begins(start);
            pace.written(50_000_000);
            pace.turns(start + Duration::from_ms(500), Duration::from_ms(500));
        }
        let rate = pace.write_bytes_per_s();
        assert!(rate.abs_diff(100_000_000) < 2_000_000, "{rate}");
    }

    /// I15: half of a period it catches up, half of it writes what comes at half the rate: only the
    /// first half tells its rate; but where more waits than it takes, all of it does.
    #[test]
    fn what_is_written_as_it_comes_is_not_measured() {
        let mut pace = Pace::new(100_000_000, 1_000_000);
        for second in 0..20u64 {
            let start = Instant::from_ns(second * 1_000_000_000);
            pace.begins(start);
            pace.written(50_000_000);
            pace.ends(start + Duration::from_ms(500));
            pace.written(25_000_000);
            pace.turns(start + Duration::from_ms(1_000), Duration::from_s(1));
        }
        let rate = pace.write_bytes_per_s();
        assert!(rate.abs_diff(100_000_000) < 100, "{rate}");
        for second in 20..60u64 {
            let start = Instant::from_ns(second * 1_000_000_000);
            pace.begins(start);
            pace.written(50_000_000);
            pace.written(25_000_000);
            pace.turns(start + Duration::from_ms(1_000), Duration::from_s(1));
        }
        let rate = pace.write_bytes_per_s();
        assert!(rate.abs_diff(75_000_000) < 100_000, "{rate}");
    }

    /// With nothing to make up for, it has all the commands that it takes only while it stands still:
    /// 59 MB in 2.6 s, as the 510 does, are not its rate. But what shows that it is faster counts.
    #[test]
    fn a_period_with_little_to_do_cannot_make_a_leg_seem_slow() {
        let period = Duration::from_s(10);
        let mut pace = Pace::new(100_000_000, 1_000_000);
        let mut now = Instant::ZERO;
        let mut turn = |pace: &mut Pace, bytes: u64, busy: Duration| {
            pace.begins(now);
            pace.written(bytes);
            pace.ends(now + busy);
            now += period;
            pace.turns(now, period);
            pace.write_bytes_per_s()
        };
        for _ in 0..10 {
            assert_eq!(turn(&mut pace, 59_000_000, Duration::from_ms(2_600)), 100_000_000);
            assert_eq!(turn(&mut pace, 0, Duration::from_ns(0)), 100_000_000);
        }
        // nothing of that was kept: one full period counts like a first one
        let slow = turn(&mut pace, 250_000_000, Duration::from_s(5));
        assert!((50_000_000..60_000_000).contains(&slow), "half of its time is enough: {slow}");
        let fast = turn(&mut pace, 260_000_000, Duration::from_ms(2_600));
        assert!(fast > slow * 11 / 10, "{slow} {fast}");
    }

    /// A leg that stands still for a second costs no rate where its writes wait for it.
    #[test]
    fn what_a_leg_stood_still_for_is_made_up_for() {
        let accepted = |answer| {
            let config = PairConfig { answer, ..PairConfig::default() };
            let mut pace = Pace::of(&config, Duration::from_ns(0));
            let (mut now, mut bytes) = (Instant::ZERO, 0u64);
            while now < Instant::ZERO + Duration::from_s(10) {
                now = now.max(pace.next_at());
                // half of each second nothing can be accepted
                if now.ns % 1_000_000_000 < 500_000_000 {
                    pace.accept(now, 65_536);
                    bytes += 65_536;
                } else {
                    now += Duration::from_ms(1);
                }
            }
            bytes
        };
        let (cached, written) = (accepted(Answer::Cached), accepted(Answer::Written));
        assert!(written.abs_diff(1_000_000_000) < 60_000_000, "{written}");
        assert!(cached < 600_000_000, "{cached}");
    }
}
