//! What is in the HDD log?
//!
//! Source: [BCW §4.3.1]. An append-only log per hard drive, in segments. Writes go to the next slot
//! of the open segment, so the drive sees one continuous stream; padding takes slots too and owns
//! nothing. A segment is recycled as a whole once nothing in it lives.

mod audit;
pub(crate) mod gc;
pub(crate) mod read_back;

use crate::map::{Run, Slot, SlotRegion};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    Free,
    Open,
    Sealed,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: SegmentState,
    /// Slots that hold, or are about to hold, a block that something names.
    live: u64,
    /// How often it was opened.
    round: u32,
}

/// The log of one hard drive.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    region: SlotRegion,
    segment_slots: u64,
    segments: Vec<Segment>,
    open: usize,
    next_in_open: u64,
    free: VecDeque<usize>,
    /// Asked for with every event, so it is kept.
    used_percent: u64,
}

impl Log {
    /// An empty log.
    pub(crate) fn new(region: SlotRegion, segment_slots: u64) -> Self {
        assert!(region.is_log && segment_slots > 0, "a log lies in slots of a log, in segments");
        let count = (region.count / segment_slots) as usize;
        assert!(count >= 2, "a log has at least two segments");
        let mut segments = vec![Segment { state: SegmentState::Free, live: 0, round: 0 }; count];
        segments[0].state = SegmentState::Open;
        let free = (1..count).collect();
        let mut log = Log {
            region,
            segment_slots,
            segments,
            open: 0,
            next_in_open: 0,
            free,
            used_percent: 0,
        };
        log.count_used();
        log
    }

    /// A log in which these slots live: everything with life is sealed, appending begins in the
    /// first free segment.
    pub(crate) fn recovered(region: SlotRegion, segment_slots: u64, live: &[Slot]) -> Self {
        let mut log = Log::new(region, segment_slots);
        log.segments[0].state = SegmentState::Free;
        for &slot in live {
            let segment = log.segment_of(slot);
            let found = &mut log.segments[segment];
            (found.live, found.state) = (found.live + 1, SegmentState::Sealed);
            assert!(found.live <= segment_slots, "no more slots live in a segment than it has");
        }
        log.free = (0..log.segments.len())
            .filter(|&s| log.segments[s].state == SegmentState::Free)
            .collect();
        match log.free.pop_front() {
            Some(first) => {
                log.open = first;
                log.segments[first].state = SegmentState::Open;
            }
            None => {
                // no free segment: the open one counts as full
                log.open = log.segments.len() - 1;
                log.next_in_open = segment_slots;
            }
        }
        log.count_used();
        log
    }

    fn segment_of(&self, slot: Slot) -> usize {
        assert!(self.region.contains(slot), "a log knows its own slots");
        ((slot - self.region.first) / self.segment_slots) as usize
    }

    /// How often the segment of this slot was opened: what is appended there again has another number.
    pub(crate) fn round(&self, slot: Slot) -> u32 {
        self.segments[self.segment_of(slot)].round
    }

    /// The log's slots.
    pub(crate) fn region(&self) -> &SlotRegion {
        &self.region
    }

    /// Slots that can be appended without GC.
    pub(crate) fn free_slots(&self) -> u64 {
        let open = &self.segments[self.open];
        let is_full = self.next_in_open == self.segment_slots;
        // it is free as soon as it is sealed
        let is_spent = is_full && open.state == SegmentState::Open && open.live == 0;
        let segments = self.free.len() as u64 + u64::from(is_spent);
        (self.segment_slots - self.next_in_open) + segments * self.segment_slots
    }

    /// Slots that users' writes may append: without an SSD, one segment is kept for merges.
    pub(crate) fn free_slots_of_users(&self, has_ssd: bool) -> u64 {
        let kept = if has_ssd { 0 } else { self.segment_slots };
        self.free_slots().saturating_sub(kept)
    }

    /// Can so many slots be appended with no more than this share of the log in use, in percent?
    pub(crate) fn takes_below(&self, percent: u64, slots: u64) -> bool {
        let all = self.segment_slots * self.segments.len() as u64;
        self.free_slots() >= slots + all * 100u64.saturating_sub(percent) / 100
    }

    /// Share of the log in use, in percent (segments that are not free).
    pub(crate) fn used_percent(&self) -> u64 {
        self.used_percent
    }

    fn count_used(&mut self) {
        assert!(self.free.len() <= self.segments.len(), "a segment is free once");
        let used = self.segments.len() - self.free.len();
        self.used_percent = (used * 100 / self.segments.len()) as u64;
    }

    /// Appends up to `count` slots, contiguous. `None` if the log is full. With `live` they count as
    /// living until they come back with `release`; padding does not.
    pub(crate) fn append(&mut self, count: u64, live: bool) -> Option<Run> {
        assert!(count > 0);
        if self.next_in_open == self.segment_slots {
            self.seal();
            let next = self.take_segment()?;
            self.open = next;
            self.next_in_open = 0;
            let opened = &mut self.segments[next];
            assert!(
                opened.state == SegmentState::Free && opened.live == 0,
                "a segment is written over when nothing in it lives"
            );
            opened.state = SegmentState::Open;
            opened.round += 1;
            self.count_used();
        }
        let count = count.min(self.segment_slots - self.next_in_open);
        let slot = self.region.first + self.open as u64 * self.segment_slots + self.next_in_open;
        self.next_in_open += count;
        assert!(self.next_in_open <= self.segment_slots, "what is appended lies in one segment");
        if live {
            let open = &mut self.segments[self.open];
            open.live += count;
            assert!(open.live <= self.next_in_open, "only slots that were appended live");
        }
        Some(Run { slot, count })
    }

    /// Would appending `count` slots leave the stream, because the segment behind the open one is not
    /// free or there is none? The first write elsewhere pays for the way there.
    pub(crate) fn breaks_within(&self, count: u64) -> bool {
        let follows =
            self.segments.get(self.open + 1).is_some_and(|s| s.state == SegmentState::Free);
        !follows && count > self.slots_before_break()
    }

    /// Slots left in the open segment.
    pub(crate) fn slots_before_break(&self) -> u64 {
        self.segment_slots - self.next_in_open
    }

    /// The next free segment, the one behind the open one if it is free: the stream stays unbroken.
    fn take_segment(&mut self) -> Option<usize> {
        let wanted = (self.open + 1) % self.segments.len();
        if let Some(position) = self.free.iter().position(|&s| s == wanted) {
            return self.free.remove(position);
        }
        self.free.pop_front()
    }

    fn seal(&mut self) {
        let open = self.open;
        if self.segments[open].state != SegmentState::Open {
            return; // recovered without a free segment
        }
        self.segments[open].state = SegmentState::Sealed;
        self.recycle(open);
    }

    fn recycle(&mut self, segment: usize) {
        let s = &mut self.segments[segment];
        if s.state == SegmentState::Sealed && s.live == 0 {
            s.state = SegmentState::Free;
            self.free.push_back(segment);
            self.count_used();
        }
    }

    /// A slot is named by nothing any more.
    pub(crate) fn release(&mut self, slot: Slot) {
        let segment = self.segment_of(slot);
        let live = &mut self.segments[segment].live;
        assert!(*live > 0, "segment {segment} has no living slot to release");
        *live -= 1;
        self.recycle(segment);
    }

    /// The sealed segment with the least life, to be cleaned, if it has less than a full one.
    pub(crate) fn victim(&self) -> Option<usize> {
        (0..self.segments.len())
            .filter(|&s| self.segments[s].state == SegmentState::Sealed)
            .min_by_key(|&s| self.segments[s].live)
    }

    /// All sealed segments, the emptiest first.
    pub(crate) fn victims(&self) -> Vec<usize> {
        let is_sealed = |&s: &usize| self.segments[s].state == SegmentState::Sealed;
        let mut sealed: Vec<usize> = (0..self.segments.len()).filter(is_sealed).collect();
        sealed.sort_by_key(|&s| self.segments[s].live);
        sealed
    }

    /// The slots of a segment.
    pub(crate) fn segment_run(&self, segment: usize) -> Run {
        assert!(segment < self.segments.len(), "a log has this segment");
        Run {
            slot: self.region.first + segment as u64 * self.segment_slots,
            count: self.segment_slots,
        }
    }

    /// What was appended last may be cleaned, too: what comes next takes another segment.
    pub(crate) fn seal_open(&mut self) {
        if self.next_in_open > 0 {
            self.seal();
            self.next_in_open = self.segment_slots;
        }
    }

    /// The same where a write waits for room: with no segment sealed, what was appended last is. None is left where
    /// nothing in it lived: then it is free.
    pub(crate) fn victim_for_room(&mut self) -> Option<usize> {
        let sealed = self.victim();
        if sealed.is_none() {
            self.seal_open();
        }
        sealed.or_else(|| self.victim())
    }

    /// Living slots.
    pub(crate) fn live_slots(&self) -> u64 {
        self.segments.iter().map(|segment| segment.live).sum()
    }

    /// Living slots in a segment.
    pub(crate) fn live(&self, segment: usize) -> u64 {
        self.segments[segment].live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::DeviceId;

    fn log() -> Log {
        Log::new(SlotRegion { first: 100, ..SlotRegion::new(DeviceId(0), true, 40, 0) }, 10)
    }

    #[test]
    fn what_a_log_takes_below_a_share_leaves_the_rest_free() {
        let mut log = log();
        for (appended, percent, slots, is_taken) in [
            (0, 100, 40, true),
            (0, 100, 41, false),
            (0, 80, 32, true),
            (0, 80, 33, false),
            (0, 0, 1, false),
            (13, 80, 19, true),
            (0, 80, 20, false),
            (0, 120, 27, true),
            (0, 120, 28, false),
        ] {
            let mut left = appended;
            while left > 0 {
                left -= log.append(left, true).expect("it has room").count;
            }
            assert_eq!(log.takes_below(percent, slots), is_taken, "{percent} %, {slots} slots");
        }
    }

    /// A segment may be written once more as soon as nothing in it lives, also if it is the one appended to.
    #[test]
    fn the_last_segment_makes_room_for_itself() {
        let mut log = log();
        for first in [100, 110, 120, 130] {
            assert_eq!(log.append(10, true), Some(Run { slot: first, count: 10 }));
        }
        assert_eq!((log.free_slots(), log.append(1, true)), (0, None));
        assert_eq!(log.victim(), Some(0), "what is full may be cleaned");
        (130..140).for_each(|slot| log.release(slot));
        assert_eq!(log.free_slots(), 10);
        assert_eq!(log.append(3, true), Some(Run { slot: 130, count: 3 }));
    }

    /// A write that has to fit beside the segment that is kept may find no room though little lives.
    #[test]
    fn what_was_appended_last_makes_room_where_nothing_is_sealed() {
        for (appended, living, is_victim, room) in
            [(10, 3, true, 20), (4, 4, true, 20), (10, 0, false, 30), (0, 0, false, 30)]
        {
            let mut log = log();
            if appended > 0 {
                log.append(appended, true);
                (living..appended).for_each(|at| log.release(100 + at));
            }
            assert_eq!(log.victim(), None);
            assert_eq!(log.victim_for_room(), is_victim.then_some(0), "{appended}, {living}");
            assert_eq!(log.free_slots_of_users(false), room, "{appended}, {living}");
            (0..living).for_each(|at| log.release(100 + at));
            assert_eq!(log.free_slots_of_users(false), 30, "{appended}, {living}: all is clean");
        }
    }

    #[test]
    fn appends_are_contiguous_and_dead_segments_come_back() {
        let mut log = log();
        assert_eq!(log.append(8, true), Some(Run { slot: 100, count: 8 }));
        assert_eq!(log.append(8, false), Some(Run { slot: 108, count: 2 }), "cut at the segment");
        for _ in 0..3 {
            assert_eq!(log.append(10, true).unwrap().count, 10);
        }
        assert_eq!(log.append(1, true), None, "full");
        assert_eq!(log.used_percent(), 100);
        for slot in 100..108 {
            log.release(slot);
        }
        assert_eq!(log.append(4, true), Some(Run { slot: 100, count: 4 }));
        assert_eq!(log.victim().map(|s| log.live(s)), Some(10));
    }

    #[test]
    fn the_stream_breaks_where_no_free_segment_follows() {
        let mut log = log();
        assert!(!log.breaks_within(30), "the segment behind it is free");
        for _ in 0..3 {
            log.append(10, false).unwrap();
        }
        log.append(6, true).unwrap();
        assert_eq!((log.slots_before_break(), log.breaks_within(4)), (4, false));
        assert!(log.breaks_within(5), "behind the last segment comes the first");
        log.append(10, false).unwrap();
        assert_eq!((log.slots_before_break(), log.breaks_within(1)), (0, true));
        assert_eq!(log.append(4, true), Some(Run { slot: 100, count: 4 }));
        assert!(!log.breaks_within(7), "it goes on in the second");
        let held = Log::recovered(*log.region(), 10, &[115]);
        assert!(held.breaks_within(11), "the second one lives");
    }

    #[test]
    fn a_recovered_log_keeps_what_lives() {
        let region = *log().region();
        let mut log = Log::recovered(region, 10, &[100, 115, 139]);
        assert_eq!(log.append(1, true), Some(Run { slot: 120, count: 1 }));
        assert_eq!(log.free_slots(), 9);
        let full = Log::recovered(region, 10, &[100, 110, 120, 130]);
        assert_eq!(full.free_slots(), 0);
        assert_eq!(full.clone().append(1, true), None);
    }
}
