//! When does what was written to a hard drive's log come to the SSD?
//!
//! Source: Griffin (FAST 2010), P17 of the requirements. It comes when the oldest of it was written long enough
//! ago, or when too large a share of the reads needs the log. Until then it may be overwritten, which costs the
//! SSD nothing. Nothing here reads or writes: the tiers ask which extent comes next.

use super::collect::Extent;
use super::settings::NEVER;
use std::collections::BTreeSet;
use tandem_block::{Duration, Instant};

/// Extents that are remembered as written; when there are so many they come at once (guess). 2 MiB of RAM.
const WRITTEN_MAX: usize = 1 << 16;
/// So many reads must have been seen before their share means anything (guess).
const READS_MIN: u64 = 128;
/// Millionths of a whole.
const WHOLE_PPM: u64 = 1_000_000;

/// What was logged, and when it comes.
#[derive(Clone, Debug)]
pub(crate) struct LogAge {
    age: Option<Duration>,
    reads_ppm: u64,
    written: BTreeSet<Extent>,
    /// When the first of them was written.
    since: Instant,
    /// What comes now, in the order of their numbers.
    coming: BTreeSet<Extent>,
    /// Reads since anything came last, and those that needed a log.
    reads: u64,
    from_log: u64,
}

impl LogAge {
    /// It comes at this age, in ns, or when more than this share of the reads needs the log, in millionths.
    pub(crate) fn new(age_ns: u64, reads_ppm: u64) -> LogAge {
        assert!(reads_ppm <= WHOLE_PPM, "a share is a part of the whole");
        LogAge {
            age: (age_ns != NEVER).then(|| Duration::from_ns(age_ns)),
            reads_ppm,
            written: BTreeSet::new(),
            since: Instant::NEVER,
            coming: BTreeSet::new(),
            reads: 0,
            from_log: 0,
        }
    }

    /// A block of this extent is written to a log.
    pub(crate) fn wrote(&mut self, now: Instant, extent: Extent) {
        if self.written.is_empty() {
            self.since = now;
        }
        // more than that goes home when its log is cleaned
        if self.written.len() < WRITTEN_MAX {
            self.written.insert(extent);
        }
    }

    /// A user reads, perhaps from a log.
    pub(crate) fn read(&mut self, from_log: bool) {
        self.reads += 1;
        self.from_log += u64::from(from_log);
    }

    /// When the log has aged, if nobody reads.
    pub(crate) fn due(&self) -> Instant {
        match self.age {
            Some(age) if !self.written.is_empty() && self.coming.is_empty() => self.since + age,
            _ => Instant::NEVER,
        }
    }

    /// Time passes: is it time for what was written?
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.written.is_empty() || !self.coming.is_empty() {
            return;
        }
        let is_read = self.reads >= READS_MIN
            && self.from_log > 0
            && self.from_log.saturating_mul(WHOLE_PPM) > self.reads.saturating_mul(self.reads_ppm);
        if now >= self.due() || is_read || self.written.len() == WRITTEN_MAX {
            self.coming = std::mem::take(&mut self.written);
            (self.reads, self.from_log) = (0, 0);
        }
    }

    /// Is anything on its way?
    pub(crate) fn has_to_come(&self) -> bool {
        !self.coming.is_empty()
    }

    /// The next extent that comes.
    pub(crate) fn next(&mut self) -> Option<Extent> {
        self.coming.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE_S: u64 = 900;

    fn at(s: u64) -> Instant {
        Instant::from_ns(s * 1_000_000_000)
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// At this second, to this extent.
        Write(u64, u64),
        /// So many reads, and from the log.
        Reads(u64, u64),
    }
    use Event::{Reads, Write};

    fn after(events: &[Event]) -> LogAge {
        let mut log = LogAge::new(AGE_S * 1_000_000_000, 50_000);
        for event in events {
            match *event {
                Write(s, extent) => log.wrote(at(s), Extent(extent)),
                Reads(reads, from_log) => (0..reads).for_each(|n| log.read(n < from_log)),
            }
        }
        log
    }

    /// At 15 minutes, or beyond 5 % of the reads.
    #[test]
    fn p17_what_was_logged_comes_by_its_age_or_by_reads() {
        for (events, s, want) in [
            (&[][..], 10_000, &[][..]),
            (&[Write(0, 7)], 899, &[]),
            (&[Write(0, 7)], 900, &[7]),
            // once, however often it was overwritten, and its age is that of the oldest
            (&[Write(0, 7), Write(10, 3), Write(600, 7)], 900, &[3, 7]),
            (&[Write(100, 7)], 900, &[]),
            (&[Write(0, 7), Reads(127, 127)], 1, &[]),
            (&[Write(0, 7), Reads(128, 7)], 1, &[7]),
            (&[Write(0, 7), Reads(128, 6)], 1, &[]),
            (&[Write(0, 7), Reads(10_000, 500)], 1, &[]),
            (&[Write(0, 7), Reads(10_000, 501)], 1, &[7]),
            (&[Reads(10_000, 10_000)], 900, &[]),
        ] {
            let mut log = after(events);
            log.advance(at(s));
            assert_eq!(log.has_to_come(), !want.is_empty(), "{events:?} {s}");
            let came: Vec<u64> = std::iter::from_fn(|| log.next()).map(|e| e.0).collect();
            assert_eq!(came, want, "{events:?} {s}");
        }
    }

    #[test]
    fn p17_what_is_written_while_some_comes_waits_for_the_next_time() {
        let mut log = after(&[Write(0, 7), Write(0, 8), Reads(128, 128)]);
        assert_eq!(log.due(), at(AGE_S));
        log.advance(at(1));
        log.wrote(at(2), Extent(7));
        assert_eq!(log.due(), Instant::NEVER, "it is looked at when what comes has come");
        log.advance(at(2 + AGE_S));
        assert_eq!((log.next(), log.next(), log.next()), (Some(Extent(7)), Some(Extent(8)), None));
        log.advance(at(1 + AGE_S));
        assert_eq!((log.next(), log.due()), (None, at(2 + AGE_S)), "the reads were counted before");
        log.advance(at(2 + AGE_S));
        assert_eq!(log.next(), Some(Extent(7)));
    }

    #[test]
    fn p17_what_is_remembered_is_bounded_and_comes_when_it_is_full() {
        let mut log = LogAge::new(NEVER, 1_000_000);
        (0..WRITTEN_MAX as u64 - 1).for_each(|n| log.wrote(at(0), Extent(n)));
        log.advance(at(1_000_000));
        assert!(!log.has_to_come(), "no age, and nobody reads");
        (0..WRITTEN_MAX as u64 + 9).for_each(|n| log.wrote(at(0), Extent(n)));
        assert_eq!(log.written.len(), WRITTEN_MAX);
        log.advance(at(1_000_000));
        assert_eq!(std::iter::from_fn(|| log.next()).count(), WRITTEN_MAX);
    }
}
