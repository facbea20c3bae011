//! Moves whose homes are being written, beside the one that reads its sources.
//!
//! The SSD is read for the next move while a hard drive writes the last one, so neither waits for the other.

use crate::map::{FixedState, Logical, NONE};
use crate::migration::one_move::{Move, Part, Stage};
use crate::owner::{MoveKind, Parts};
use hashbrown::HashSet;

/// Moves whose homes are written at once at most: one that a drive writes, and one that waits behind it (guess).
const UNDER_WAY_MAX: usize = 2;

/// These moves, by the numbers that their commands name.
#[derive(Clone, Debug, Default)]
pub(crate) struct HomeWrites {
    under_way: Vec<(u32, Move)>,
    /// The blocks of which a home is written: a part without a slot is not sent.
    blocks: HashSet<Logical, FixedState>,
    /// Blocks of write-back whose write has not ended.
    written_back: u64,
    last: u32,
}

impl HomeWrites {
    /// Is none under way?
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// May one more come?
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX
    }

    /// Is the home of this block being written?
    pub(crate) fn has(&self, block: Logical) -> bool {
        self.blocks.contains(&block)
    }

    /// Is one of this kind among them?
    pub(crate) fn has_kind(&self, kind: MoveKind) -> bool {
        self.under_way.iter().any(|(_, m)| m.kind == kind)
    }

    /// Blocks of SSDs whose homes are being written.
    pub(crate) fn written_back(&self) -> u64 {
        self.written_back
    }

    /// The number of the move that comes next.
    pub(crate) fn number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// Its writes are in the queues.
    pub(crate) fn add(&mut self, number: u32, m: Move) {
        assert!(number == self.last, "a move is added when its writes name it");
        assert!(self.has_room(), "so many write their homes at once at most");
        assert!(m.stage == Stage::Writing && m.outstanding > 0, "a move waits for its writes");
        for part in m.parts.iter().filter(|part| part.slot != NONE) {
            let is_new = self.blocks.insert(part.logical);
            assert!(is_new, "one home of a block is written at a time");
            self.written_back += u64::from(m.kind == MoveKind::WriteBack);
        }
        self.under_way.push((number, m));
    }

    /// A write has ended. Returns what it was for and its parts, which nobody else watches now if it succeeded.
    pub(crate) fn written(&mut self, number: u32, parts: Parts, is_sound: bool) -> Vec<Part> {
        let m = self.get_mut(number);
        assert!(m.outstanding > 0, "a move waits for each of its writes");
        assert!(parts.range().end <= m.parts.len(), "a move writes its own parts");
        m.outstanding -= 1;
        m.failed |= !is_sound;
        let is_counted = m.kind == MoveKind::WriteBack;
        let written = &mut m.parts[parts.range()];
        let of = |part: &mut Part| {
            let copied = if is_sound { part.copied.take() } else { None };
            Part {
                logical: part.logical,
                slot: part.slot,
                checksum: part.checksum,
                found: part.found,
                copied,
            }
        };
        let written: Vec<Part> = written.iter_mut().map(of).collect();
        let counted = if is_counted { written.len() as u64 } else { 0 };
        let left = self.written_back.checked_sub(counted);
        self.written_back =
            left.expect("what is written back is counted until its write has ended");
        written
    }

    /// The move, if all its writes have ended.
    pub(crate) fn take_over(&mut self, number: u32) -> Option<Move> {
        let at = self.at(number);
        if self.under_way[at].1.outstanding > 0 {
            return None;
        }
        let (_, m) = self.under_way.remove(at);
        for part in m.parts.iter().filter(|part| part.slot != NONE) {
            let was_there = self.blocks.remove(&part.logical);
            assert!(was_there, "a block is on its way until its move has ended");
        }
        Some(m)
    }

    fn at(&self, number: u32) -> usize {
        let found = self.under_way.iter().position(|(known, _)| *known == number);
        found.expect("a move is known until its last write has ended")
    }

    fn get_mut(&mut self, number: u32) -> &mut Move {
        let at = self.at(number);
        &mut self.under_way[at].1
    }

    /// Commands that they wait for.
    pub(crate) fn commands_counted(&self) -> u64 {
        self.under_way.iter().map(|(_, m)| u64::from(m.outstanding)).sum()
    }

    /// Blocks whose homes a write goes to.
    pub(crate) fn homes_of(&self, number: u32, parts: Parts) -> Vec<Logical> {
        let m = &self.under_way[self.at(number)].1;
        m.parts[parts.range()].iter().map(|part| part.logical).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Run;
    use crate::migration::moves::known::Sums;
    use tandem_block::{Instant, PayloadId};

    fn writing(blocks: std::ops::Range<Logical>, outstanding: u32) -> Move {
        Move {
            kind: MoveKind::WriteBack,
            stage: Stage::Writing,
            parts: blocks.map(|block| Part::new(block, block)).collect(),
            buffer: PayloadId::NONE,
            outstanding,
            failed: false,
            after_batch: 0,
            target: Run { slot: NONE, count: 1 },
            targets: Vec::new(),
            since: Instant::default(),
            sums: Sums::default(),
        }
    }

    /// Two moves of four blocks, in two writes each, which end in another order.
    #[test]
    fn moves_end_in_any_order_and_keep_their_blocks_until_then() {
        let mut writes = HomeWrites::default();
        let first = writes.number();
        writes.add(first, writing(0..4, 2));
        assert!(writes.has_room() && !writes.is_empty());
        let second = writes.number();
        writes.add(second, writing(10..14, 2));
        assert!(!writes.has_room());
        assert_eq!((writes.commands_counted(), writes.written_back()), (4, 8));
        assert!(writes.has_kind(MoveKind::WriteBack) && !writes.has_kind(MoveKind::LogGc));
        let parts = |first| Parts { first, count: 2 };
        assert_eq!(writes.homes_of(second, parts(2)), [12, 13]);
        let ends = [
            (second, 0, true, false),
            (first, 2, false, false),
            (second, 2, true, true),
            (first, 0, true, true),
        ];
        for (ended, (number, at, is_sound, is_last)) in (1..).zip(ends) {
            let written = writes.written(number, parts(at), is_sound);
            assert_eq!(writes.written_back(), 8 - 2 * ended);
            assert_eq!(written.len(), 2);
            assert!(written.iter().all(|part| writes.has(part.logical)));
            let over = writes.take_over(number);
            assert_eq!(over.is_some(), is_last);
            assert!(over.is_none_or(|m| m.failed == (number == first)));
        }
        assert!(writes.is_empty() && !writes.has(0) && !writes.has(13));
    }

    /// What has changed since it was read is not sent, and may go home with the next move.
    #[test]
    fn a_part_that_was_not_sent_is_free_at_once() {
        let mut writes = HomeWrites::default();
        let (first, mut m) = (writes.number(), writing(0..2, 1));
        m.parts[1].slot = NONE;
        writes.add(first, m);
        assert!(writes.has(0) && !writes.has(1));
        let second = writes.number();
        writes.add(second, writing(1..2, 1));
        assert_eq!(writes.written(first, Parts { first: 0, count: 1 }, true).len(), 1);
        assert!(writes.take_over(first).is_some() && !writes.has(0) && writes.has(1));
    }
}
