//! How fast may writes take the room that is left on SSDs?
//!
//! What is written home makes room in batches, one for each flush of a hard drive. Without a pace all writers would use
//! up a batch at once, and then wait for the next one together. So the less room is left, the slower they take it:
//! as fast as room is made where what is left is `ROOM_SHARE` of all, and slower below that.

use crate::map::Map;
use tandem_block::{Duration, Instant};

/// Share of the SSDs' slots below twice of which writes are paced.
const ROOM_SHARE: u64 = 8;
/// Share of the SSDs' slots below which a write goes to a log that has room.
const LOW_SHARE: u64 = 32;
/// No write waits longer than this for its pace: room may be made faster than is known.
const WAIT_MAX: Duration = Duration::from_ms(500);
/// Fewer blocks say nothing of what one takes (guess).
const BLOCKS_MIN: u64 = 64;
/// Writes go at this part of the pace at least, however little room is left: a half.
const SHARE_MIN: u64 = 2;

/// The room on SSDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Slots that are free, or hold copies that may be given up.
    left: u64,
    /// Slots that writes may ever have.
    slots: u64,
}

impl Room {
    /// What the map says. Tiers keep so many blocks, which make no room.
    pub(crate) fn of(map: &Map, kept_blocks: u64) -> Room {
        let left = map.ssd_free() + map.spare_copies();
        Room { left, slots: map.ssd_slots().saturating_sub(kept_blocks) }
    }

    /// Slots that are free, or hold copies that may be given up.
    pub(crate) fn left(self) -> u64 {
        self.left
    }

    /// Is so little left that writes are paced?
    pub(crate) fn is_scarce(self) -> bool {
        self.left < self.slots / ROOM_SHARE * 2
    }

    /// Is so little left that a write goes to a log that has room? What is left then lasts until room is made, once no
    /// log has any.
    pub(crate) fn is_low(self) -> bool {
        self.left < self.slots / LOW_SHARE
    }
}

/// The pace of writes, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoomPace {
    /// By hard drive: what making room for a block takes, in ns, smoothed; 0: not known.
    block_ns: Vec<u64>,
    /// When the next write may take room.
    next: Instant,
}

impl RoomPace {
    /// This hard drive has written so many blocks of SSDs home, which took so long. A few say nothing.
    pub(crate) fn made(&mut self, hdd: usize, blocks: u64, took_ns: u64) {
        if blocks < BLOCKS_MIN {
            return;
        }
        if self.block_ns.len() <= hdd {
            self.block_ns.resize(hdd + 1, 0);
        }
        let known = &mut self.block_ns[hdd];
        let block_ns = (took_ns / blocks).max(1);
        *known = if *known == 0 { block_ns } else { *known / 4 * 3 + block_ns / 4 };
    }

    /// What a block takes while these hard drives make room, in ns. `None`: that is not known.
    fn made_block_ns(&self, makes: impl Fn(usize) -> bool) -> Option<u64> {
        // a thousandth of a block, so that many fast drives do not add up to 0
        let per_s = |ns: &u64| Some(1_000_000_000_000u64.checked_div(*ns)?.max(1));
        let known = self.block_ns.iter().enumerate().filter(|(hdd, _)| makes(*hdd));
        let all: u64 = known.filter_map(|(_, ns)| per_s(ns)).sum();
        1_000_000_000_000u64.checked_div(all)
    }

    /// Must a write wait until `next` for its room?
    pub(crate) fn holds(&self, now: Instant) -> bool {
        now < self.next
    }

    /// When the next write may take room.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// A write takes so many blocks of what is left. `makes`: does this drive make room?
    pub(crate) fn take(
        &mut self,
        now: Instant,
        blocks: u64,
        room: Room,
        makes: impl Fn(usize) -> bool,
    ) {
        if blocks == 0 {
            return;
        }
        let wanted = (room.slots / ROOM_SHARE).max(1);
        let Some(block_ns) = self.made_block_ns(makes).filter(|_| room.is_scarce()) else {
            self.next = now;
            return;
        };
        let share = room.left.max(wanted / SHARE_MIN).max(1);
        let ns = u128::from(blocks) * u128::from(block_ns) * u128::from(wanted) / u128::from(share);
        let wait = Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX)).min(WAIT_MAX);
        self.next = (self.next.max(now) + wait).min(now + WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u64 = 8_000;
    const MS: u64 = 1_000_000;

    fn pace() -> RoomPace {
        let mut pace = RoomPace::default();
        pace.made(1, 100, 100 * MS);
        pace
    }

    fn room(left: u64) -> Room {
        Room { left, slots: SLOTS }
    }

    fn all(_: usize) -> bool {
        true
    }

    #[test]
    fn the_less_room_is_left_the_longer_is_the_wait_for_the_next_write() {
        let now = Instant::ZERO + Duration::from_s(9);
        // (free, how long the next write waits after one of 10 blocks, in µs)
        for (left, wait_us) in [
            (SLOTS, 0),
            (2_000, 0),
            (1_999, 5_002),
            (1_000, 10_000),
            (500, 20_000),
            (250, 20_000),
            (10, 20_000),
            (0, 20_000),
        ] {
            let (mut pace, room) = (pace(), room(left));
            pace.take(now, 10, room, all);
            assert_eq!(pace.next().since(now).ns / 1_000, wait_us, "{left}");
            assert_eq!(pace.holds(now), wait_us > 0);
            assert!(!pace.holds(pace.next()));
            assert_eq!(room.is_scarce(), wait_us > 0);
            assert_eq!(room.is_low(), left < 250, "{left}");
        }
    }

    #[test]
    fn a_write_that_takes_no_room_makes_nobody_wait() {
        let mut pace = pace();
        pace.take(Instant::ZERO, 0, room(0), all);
        assert!(!pace.holds(Instant::ZERO));
    }

    #[test]
    fn nobody_waits_for_a_pace_that_is_not_known_and_never_for_long() {
        let mut unknown = RoomPace::default();
        unknown.made(0, BLOCKS_MIN - 1, u64::MAX);
        unknown.take(Instant::ZERO, 10, room(1), all);
        assert!(!unknown.holds(Instant::ZERO));
        let mut slow = RoomPace::default();
        slow.made(0, BLOCKS_MIN, u64::MAX);
        (0..3).for_each(|_| slow.take(Instant::ZERO, u64::MAX, room(1), all));
        assert_eq!(slow.next(), Instant::ZERO + WAIT_MAX);
    }

    #[test]
    fn drives_make_room_together_and_one_that_is_out_makes_none() {
        let mut pace = pace();
        pace.made(3, 100, 100 * MS);
        assert_eq!(pace.made_block_ns(all), Some(MS / 2));
        assert_eq!(pace.made_block_ns(|hdd| hdd != 1), Some(MS));
        assert_eq!(pace.made_block_ns(|_| false), None);
        pace.made(3, 100, 500 * MS);
        assert_eq!(pace.block_ns, [0, MS, 0, 2 * MS], "what they take is smoothed");
    }
}
