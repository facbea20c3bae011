//! Where does a write to shared blocks go, before that is recorded?
//!
//! Source: requirements L4; design decision 6. A write to blocks that another object shares takes new ones,
//! and leaves the old ones as they are. A *link* says that a part of an object lies in the new ones: reads
//! and writes see it at once, records do not see it before the new blocks are recorded themselves. So a
//! crash shows the old contents or the new ones, and never the gap between them.
//!
//! ```text
//! written to ─▶ link: new blocks under way ─▶ written ─▶ their places recorded, and behind these
//!                                                        the piece, in one batch: no link any more
//! ```

use crate::map::Logical;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use std::collections::BTreeMap;
use tandem_block::ObjectId;

/// A part of an object that lies in new blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The new blocks.
    pub(crate) range: BlockRange,
    /// They were written to, all of them.
    pub(crate) written: bool,
}

/// All links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// By object and its first block.
    links: BTreeMap<(ObjectId, u64), Link>,
    /// By new block.
    by_logical: BTreeMap<Logical, (ObjectId, u64)>,
    written: usize,
}

impl Links {
    /// Are there none?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// How many of them were written to.
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    /// Those that were written to: object, its first block, new blocks.
    pub(crate) fn all_written(&self) -> impl Iterator<Item = (ObjectId, u64, BlockRange)> + '_ {
        let written = self.links.iter().filter(|(_, link)| link.written);
        written.map(|(&(object, offset), link)| (object, offset, link.range))
    }

    /// Blocks that they lie in.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (BlockRange, ObjectId)> + '_ {
        self.links.iter().map(|(&(object, _), link)| (link.range, object))
    }

    /// Has the object any?
    pub(crate) fn has_any(&self, object: ObjectId) -> bool {
        self.links.range((object, 0)..=(object, u64::MAX)).next().is_some()
    }

    /// A new one, over blocks of the object that have none.
    pub(crate) fn add(&mut self, object: ObjectId, offset: u64, range: BlockRange) {
        self.insert(object, offset, Link { range, written: false });
    }

    fn insert(&mut self, object: ObjectId, offset: u64, link: Link) {
        self.written += usize::from(link.written);
        assert!(link.range.count > 0, "a link has a block");
        let before = self.by_logical.insert(link.range.first, (object, offset));
        assert!(before.is_none(), "new blocks are of one link");
        let before = self.links.insert((object, offset), link);
        assert!(before.is_none(), "a part of an object has one link");
        assert_eq!(self.links.len(), self.by_logical.len(), "each link is found by both ends");
    }

    fn take(&mut self, object: ObjectId, offset: u64) -> Option<Link> {
        let link = self.links.remove(&(object, offset))?;
        assert!(
            self.written >= usize::from(link.written),
            "links that were written to are counted"
        );
        self.written -= usize::from(link.written);
        let known = self.by_logical.remove(&link.range.first);
        assert_eq!(known, Some((object, offset)), "each link is found by both ends");
        Some(link)
    }

    /// The link that new block lies in: object, its first block, new blocks, and whether it was written to.
    pub(crate) fn at(&self, block: Logical) -> Option<(ObjectId, u64, Link)> {
        let (_, &(object, offset)) = self.by_logical.range(..=block).next_back()?;
        let link = self.links[&(object, offset)];
        (block - link.range.first < link.range.count).then_some((object, offset, link))
    }

    /// All of the link that this new block lies in is written to.
    pub(crate) fn note_written(&mut self, block: Logical) {
        let Some((object, offset, link)) = self.at(block) else { return };
        if !link.written {
            self.links.get_mut(&(object, offset)).expect("found above").written = true;
            self.written += 1;
            assert!(self.written <= self.links.len(), "links that were written to are links");
        }
    }

    /// Links of `from..to` of an object, whole ones.
    fn over(&self, object: ObjectId, from: u64, to: u64) -> Vec<(u64, Link)> {
        let before = self.links.range((object, 0)..=(object, from)).next_back();
        let begin = before.map_or(from, |(&(_, offset), _)| offset);
        let found = self.links.range((object, begin)..(object, to));
        let found = found.map(|(&(_, offset), &link)| (offset, link));
        found.filter(|(offset, link)| offset + link.range.count > from).collect()
    }

    /// Does any lie in `from..to` of the object?
    pub(crate) fn is_over(&self, object: ObjectId, from: u64, to: u64) -> bool {
        !self.is_empty() && !self.over(object, from, to).is_empty()
    }

    /// Pieces of an object as reads see them, of those that records see.
    pub(crate) fn lay_over(&self, object: ObjectId, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut laid = Vec::with_capacity(pieces.len());
        let mut last: Option<u64> = None;
        for piece in pieces {
            let (mut at, end) = (piece.offset, piece.offset + piece.count);
            for (offset, link) in self.over(object, piece.offset, end) {
                let link_end = offset + link.range.count;
                let (low, high) = (offset.max(at), link_end.min(end));
                if low > at {
                    laid.push(piece.within(at, low));
                }
                // one link may lie over several pieces
                if last == Some(offset) {
                    let before: &mut Piece = laid.last_mut().expect("the link's begin");
                    before.count += high - low;
                } else {
                    let logical = Some(link.range.first + (low - offset));
                    laid.push(Piece { offset: low, logical, count: high - low });
                }
                last = Some(offset);
                at = high;
            }
            if at < end {
                laid.push(piece.within(at, end));
                last = None;
            }
        }
        laid
    }

    /// The new block of `from`, if one link has all of `from..to`.
    pub(crate) fn single(&self, object: ObjectId, from: u64, to: u64) -> Option<Logical> {
        let (&(_, offset), link) = self.links.range((object, 0)..=(object, from)).next_back()?;
        (to <= offset + link.range.count && from < offset + link.range.count)
            .then(|| link.range.first + (from - offset))
    }

    /// Takes a link away whose piece is recorded now, or will be.
    pub(crate) fn settle(&mut self, object: ObjectId, offset: u64) -> BlockRange {
        self.take(object, offset).expect("it was found").range
    }

    /// Takes `from..to` of an object out of its links, which may be cut apart. Returns what was taken.
    pub(crate) fn cut(&mut self, object: ObjectId, from: u64, to: u64) -> Vec<(u64, Link)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut left = Vec::new();
        for (offset, link) in self.over(object, from, to) {
            self.take(object, offset);
            let end = offset + link.range.count;
            let (low, high) = (offset.max(from), end.min(to));
            let part = |a: u64, b: u64| {
                let range = BlockRange { first: link.range.first + (a - offset), count: b - a };
                Link { range, written: link.written }
            };
            if offset < low {
                self.insert(object, offset, part(offset, low));
            }
            if high < end {
                self.insert(object, high, part(high, end));
            }
            left.push((low, part(low, high)));
        }
        left
    }

    /// Puts back what `cut` took.
    pub(crate) fn put_back(&mut self, object: ObjectId, links: &[(u64, Link)]) {
        for &(offset, link) in links {
            self.insert(object, offset, link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ObjectId = ObjectId(7);

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    fn piece(offset: u64, logical: Option<u64>, count: u64) -> Piece {
        Piece { offset, logical, count }
    }

    #[test]
    fn reads_see_them_and_records_do_not() {
        let mut links = Links::default();
        let pieces = vec![piece(0, Some(100), 10), piece(10, Some(300), 10), piece(20, None, 5)];
        assert_eq!(links.lay_over(ONE, pieces.clone()), pieces);
        links.add(ONE, 8, range(500, 4));
        links.add(ONE, 15, range(600, 1));
        links.add(ObjectId(8), 0, range(700, 30));
        assert_eq!(
            links.lay_over(ONE, pieces),
            [
                piece(0, Some(100), 8),
                piece(8, Some(500), 4),
                piece(12, Some(302), 3),
                piece(15, Some(600), 1),
                piece(16, Some(306), 4),
                piece(20, None, 5),
            ]
        );
        assert_eq!((links.single(ONE, 9, 12), links.single(ONE, 9, 13)), (Some(501), None));
        assert_eq!(links.single(ONE, 7, 9), None);
        assert_eq!(links.single(ONE, 12, 13), None);
        assert!(links.is_over(ONE, 11, 12) && !links.is_over(ONE, 12, 15));
        links.note_written(502);
        assert_eq!(links.all_written().collect::<Vec<_>>(), [(ONE, 8, range(500, 4))]);
        assert_eq!(links.at(503).map(|(id, offset, _)| (id, offset)), Some((ONE, 8)));
        assert!(links.at(504).is_none());
    }

    #[test]
    fn what_is_cut_can_be_put_back() {
        let mut links = Links::default();
        links.add(ONE, 8, range(500, 4));
        links.add(ONE, 20, range(600, 2));
        links.note_written(500);
        let left = links.cut(ONE, 9, 21);
        assert_eq!(
            left.iter().map(|(at, link)| (*at, link.range)).collect::<Vec<_>>(),
            [(9, range(501, 3)), (20, range(600, 1))]
        );
        assert_eq!((links.len(), links.written()), (2, 1));
        links.put_back(ONE, &left);
        assert_eq!((links.len(), links.written()), (4, 2));
        assert_eq!(links.single(ONE, 9, 12), Some(501));
        assert_eq!(links.settle(ONE, 9), range(501, 3));
        assert_eq!(links.written(), 1);
    }
}
