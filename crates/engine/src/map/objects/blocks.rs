//! Which blocks does a thin object take, and which does it leave?
//!
//! Source: requirements L4 (thin provisioning), L21 (files and 4 KiB mapping). Blocks for a hole are taken
//! where the object ends before it, if they are free, otherwise from the largest gap. Behind an object that
//! is appended to some are kept ahead, in RAM alone: after a crash they are free.

use super::{Objects, range_of};
use crate::map::Logical;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use tandem_block::{IoError, ObjectId};

/// Blocks kept for what a thin object will have appended next, at most: 1 MiB, so that files written
/// side by side do not lie in pieces of a few KiB (guess).
const AHEAD_BLOCKS_MAX: u64 = 256;
/// Objects for which blocks are kept ahead at once, at most (guess).
const AHEAD_OBJECTS_MAX: usize = 64;
/// No more is kept ahead than this part of what is free.
const AHEAD_PART: u64 = 64;

impl Objects {
    /// Takes blocks for the holes in `from..to` of a thin object, which is about to be written to, in so
    /// many pieces at most. False: there are more holes.
    ///
    /// # Errors
    /// `NoSpace`: there are not so many, or not so many pieces can be recorded; nothing was changed.
    pub(crate) fn fill(
        &mut self,
        object: ObjectId,
        from: u64,
        to: u64,
        pieces_max: usize,
    ) -> Result<bool, IoError> {
        if self.runs.single(object, from, to).is_some() {
            return Ok(true);
        }
        let pieces = self.runs.pieces(object, from, to);
        let holes: Vec<Piece> = pieces.into_iter().filter(|p| p.logical.is_none()).collect();
        let wanted: u64 = holes.iter().map(|hole| hole.count).sum();
        if wanted > self.free_blocks() {
            return Err(IoError::NoSpace);
        }
        let (mut placed, mut is_filled) = (Vec::new(), true);
        for hole in &holes {
            let (mut at, end) = (hole.offset, hole.offset + hole.count);
            assert!(
                !self.links.is_over(object, at, end),
                "a link lies over blocks, not over a hole"
            );
            while at < end {
                if placed.len() == pieces_max {
                    is_filled = false;
                    break;
                }
                let goal = at.checked_sub(1).and_then(|last| self.runs.single(object, last, at));
                let range = self.take_for(object, goal.map(|last| last + 1), end - at);
                self.runs.put(object, at, range);
                placed.push(Piece { offset: at, logical: Some(range.first), count: range.count });
                at += range.count;
            }
        }
        if !self.fits() {
            for piece in placed {
                self.runs.cut(object, piece.offset, piece.offset + piece.count);
                self.space.release(range_of(&piece));
            }
            return Err(IoError::NoSpace);
        }
        for piece in &placed {
            self.changes.blocks(object, piece.offset, piece.offset + piece.count, 1);
        }
        self.is_unsaved |= !placed.is_empty();
        if let Some(last) = placed.last()
            && last.offset + last.count == to
        {
            self.keep_ahead(object, last);
        }
        Ok(is_filled)
    }

    /// Makes a hole of `from..to`, and returns the blocks that lay there.
    pub(crate) fn punch(&mut self, object: ObjectId, from: u64, to: u64) -> Vec<BlockRange> {
        let (pieces, links) = (self.runs.cut(object, from, to), self.links.cut(object, from, to));
        for piece in &pieces {
            self.changes.blocks(object, piece.offset, piece.offset + piece.count, 1);
        }
        self.is_unsaved |= !pieces.is_empty();
        self.leave(&pieces, &links)
    }

    /// Blocks for an object, where what it has ends if possible. There are some.
    pub(super) fn take_for(
        &mut self,
        object: ObjectId,
        goal: Option<Logical>,
        wanted: u64,
    ) -> BlockRange {
        assert!(wanted > 0, "some blocks are wanted");
        let own =
            self.ahead.iter().position(|(id, range)| *id == object && goal == Some(range.first));
        if let Some((id, range)) = own.and_then(|at| self.ahead.remove(at)) {
            let count = wanted.min(range.count);
            let rest = BlockRange { first: range.first + count, count: range.count - count };
            if rest.count > 0 {
                self.ahead.push_back((id, rest));
            }
            return BlockRange { first: range.first, count };
        }
        if let Some(range) = self.space.take_some(goal, wanted) {
            return range;
        }
        self.drop_ahead();
        self.space.take_some(goal, wanted).expect("the caller has counted them")
    }

    /// It was appended to: keeps some blocks behind that for it, as many as it has, within bounds.
    fn keep_ahead(&mut self, object: ObjectId, last: &Piece) {
        let end = range_of(last).first + last.count;
        let part = (self.space.free_blocks() / AHEAD_PART).min(AHEAD_BLOCKS_MAX);
        let wanted = last.offset.min(part);
        let is_known = self.ahead.iter().any(|(id, range)| *id == object && range.first == end);
        let range = BlockRange { first: end, count: wanted };
        if wanted == 0 || is_known || !self.space.is_free(range) {
            return;
        }
        self.drop_ahead_of(object);
        if self.ahead.len() == AHEAD_OBJECTS_MAX
            && let Some((_, oldest)) = self.ahead.pop_front()
        {
            self.space.release(oldest);
        }
        self.space.take(range);
        self.ahead.push_back((object, range));
        assert!(self.ahead.len() <= AHEAD_OBJECTS_MAX, "blocks are kept for so many objects");
    }

    pub(super) fn drop_ahead(&mut self) {
        for (_, range) in std::mem::take(&mut self.ahead) {
            self.space.release(range);
        }
    }

    pub(super) fn drop_ahead_of(&mut self, object: ObjectId) {
        while let Some(at) = self.ahead.iter().position(|(id, _)| *id == object) {
            let (_, range) = self.ahead.remove(at).expect("found above");
            self.space.release(range);
        }
    }
}
