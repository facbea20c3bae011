//! When is a write answered that follows no other one?
//!
//! Source: the rated rates of a drive. The X25-E takes 4 KiB in sequence as fast as its link and its
//! flash, and 3,300 a second of them at random.
//!
//! Divergence from a real drive: why it is slower is not modelled. The data of such a write goes into the
//! buffer and to the flash as any other. Its answer alone waits, and delays nothing else.

use crate::spec::SsdSpec;

/// So many writes may lie between two of a stream: the commands that SATA can queue (guess).
const STREAMS: usize = 32;

/// What follows a stream is answered as it comes, the rest one after the other.
#[derive(Clone, Debug)]
pub(super) struct Scattered {
    /// Least time between two answers; 0: none.
    apart_ns: u64,
    /// When the next one may be answered.
    free_ns: u64,
    /// Where the last writes ended, in bytes.
    ends: [u64; STREAMS],
    /// Which of them is the oldest.
    oldest: usize,
}

impl Scattered {
    pub(super) fn new(spec: &SsdSpec) -> Self {
        Scattered {
            apart_ns: spec.scattered_write_ns(),
            free_ns: 0,
            ends: [u64::MAX; STREAMS],
            oldest: 0,
        }
    }

    /// A write of `bytes` from `offset` on has been taken at `taken_ns`: when it may be answered.
    #[inline]
    pub(super) fn answer(&mut self, offset: u64, bytes: u64, taken_ns: u64) -> u64 {
        if self.apart_ns == 0 {
            return taken_ns;
        }
        let followed = self.ends.iter().position(|&end| end == offset);
        let place = followed.unwrap_or(self.oldest);
        self.ends[place] = offset + bytes;
        if followed.is_some() {
            return taken_ns;
        }
        self.oldest = (self.oldest + 1) % STREAMS;
        let answered_ns = taken_ns.max(self.free_ns);
        self.free_ns = answered_ns + self.apart_ns;
        answered_ns
    }

    /// The power failed.
    pub(super) fn reset(&mut self, now_ns: u64) {
        self.free_ns = now_ns;
        self.ends.fill(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, Nanos, Sourced, load};

    fn apart(ns: u64) -> Scattered {
        let ModelSpec::Ssd(mut spec) = load("x25e").expect("known").model else { panic!("an SSD") };
        spec.scattered_write = Some(Sourced::of(Nanos(ns), "guess"));
        Scattered::new(&spec)
    }

    #[test]
    fn writes_that_follow_one_of_the_last_are_answered_as_they_come() {
        let mut scattered = apart(300);
        // the first of each stream waits for the one before, and none of the others does
        assert_eq!(scattered.answer(0, 4096, 10), 10);
        assert_eq!(scattered.answer(1 << 30, 4096, 10), 310);
        for index in 1..100 {
            assert_eq!(scattered.answer(index * 4096, 4096, 20), 20);
            assert_eq!(scattered.answer((1 << 30) + index * 4096, 4096, 20), 20);
        }
        assert_eq!(scattered.answer(2 << 30, 4096, 400), 610);
        // alone it waits for nothing
        assert_eq!(scattered.answer(3 << 30, 4096, 5_000), 5_000);
    }

    /// 32 others may lie between two writes of a stream, and no more.
    #[test]
    fn a_stream_is_forgotten_after_as_many_others_as_can_be_queued() {
        for (others, follows) in [(STREAMS as u64 - 1, true), (STREAMS as u64, false)] {
            let mut scattered = apart(1_000);
            scattered.answer(0, 4096, 0);
            for other in 1..=others {
                scattered.answer(other << 30, 4096, 0);
            }
            assert_eq!(scattered.answer(4096, 4096, 7) == 7, follows, "{others} others");
        }
    }

    #[test]
    fn no_time_and_a_power_cut_leave_nothing_to_wait_for() {
        let mut none = apart(0);
        assert_eq!([none.answer(0, 1, 5), none.answer(1 << 30, 1, 5)], [5, 5]);
        let mut scattered = apart(1_000_000);
        scattered.answer(0, 4096, 0);
        scattered.reset(10);
        assert_eq!(scattered.answer(4096, 4096, 20), 20);
        assert_eq!(scattered.answer(8 << 20, 4096, 20), 1_000_020);
    }
}
