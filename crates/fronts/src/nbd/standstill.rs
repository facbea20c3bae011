//! Does a client stand still? It does if too few bytes of what is waited for move in a given time.
//!
//! What an operation of the ring has moved is known when it reports. One that is under way is cut short now
//! and then to learn it, so what is counted here is behind by a quarter of that time at most.

use tandem_block::{Duration, Instant};

/// So many bytes within the time are progress: a byte now and then is none.
const PROGRESS_BYTES: u64 = 64 << 10;
/// Operations under way are asked so many times while a client may stand still.
const ASKED_TIMES: u64 = 4;

/// Since when is something waited for?
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: Instant,
    /// Bytes that had been moved then.
    bytes: u64,
    asked: Instant,
}

/// One direction of one connection.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    wait: Option<Wait>,
}

impl Standstill {
    /// Whether something is waited for, and how many bytes have been moved in all.
    pub fn note(&mut self, is_waiting: bool, bytes: u64, now: Instant) {
        let moves = |wait: Wait| bytes - wait.bytes >= PROGRESS_BYTES;
        if !is_waiting {
            self.wait = None;
        } else if self.wait.is_none_or(moves) {
            self.wait = Some(Wait { since: now, bytes, asked: now });
        }
    }

    /// Is it time to ask how much an operation under way has moved?
    pub fn asks(&mut self, now: Instant, most: Duration) -> bool {
        let every = Duration::from_ns(most.ns / ASKED_TIMES);
        let is_due = |wait: &&mut Wait| now.since(wait.asked) >= every;
        let due = self.wait.as_mut().filter(is_due);
        due.map(|wait| wait.asked = now).is_some()
    }

    /// Has it stood still for so long, whatever an operation under way may have moved?
    pub fn is_over(&self, now: Instant, most: Duration) -> bool {
        let unknown = Duration::from_ns(most.ns / ASKED_TIMES);
        self.wait.is_some_and(|wait| now.since(wait.since) >= most + unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_s(8);

    fn at(s: u64) -> Instant {
        Instant::from_ns(s * 1_000_000_000)
    }

    /// Bytes that moved by each second; the second in which it was over, if it was.
    fn over(moved: &[u64]) -> Option<usize> {
        let mut it = Standstill::default();
        let mut total = 0;
        moved.iter().enumerate().position(|(second, bytes)| {
            total += bytes;
            it.note(true, total, at(second as u64));
            it.is_over(at(second as u64), MOST)
        })
    }

    #[test]
    fn few_bytes_are_no_progress_and_enough_of_them_are() {
        assert_eq!(over(&[0; 20]), Some(10));
        assert_eq!(over(&[1; 20]), Some(10));
        assert_eq!(over(&[9 << 10; 60]), None, "64 KiB in eight seconds");
        assert_eq!(over(&[&[1 << 20; 5][..], &[0; 20]].concat()), Some(14));
    }

    #[test]
    fn who_is_waited_for_no_more_does_not_stand_still() {
        let mut it = Standstill::default();
        it.note(true, 0, at(0));
        it.note(false, 0, at(9));
        it.note(true, 0, at(9));
        assert!(!it.is_over(at(18), MOST) && it.is_over(at(19), MOST));
    }

    #[test]
    fn it_is_asked_for_four_times_and_only_while_it_is_waited_for() {
        let mut it = Standstill::default();
        assert!(!it.asks(at(5), MOST));
        it.note(true, 0, at(0));
        let asked: Vec<u64> = (0..9).filter(|&second| it.asks(at(second), MOST)).collect();
        assert_eq!(asked, [2, 4, 6, 8]);
    }
}
