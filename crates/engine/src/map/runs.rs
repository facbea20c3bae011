//! Where in the pool's logical blocks do those of a thin object lie?
//!
//! A run is a piece of an object, from one of its blocks on, over logical blocks that follow each other.
//! What lies under no run is a hole, and reads as zeroes. The runs of all objects are in one table: most
//! objects have one run.

use super::Logical;
use super::space::BlockRange;
use std::collections::BTreeMap;
use tandem_block::ObjectId;

/// A part of an object, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First block within the object.
    pub offset: u64,
    /// Its logical block; `None` for a hole.
    pub logical: Option<Logical>,
    /// How many.
    pub count: u64,
}

impl Piece {
    /// The part of it between these blocks of the object, which it touches.
    pub(crate) fn within(self, from: u64, to: u64) -> Piece {
        let offset = self.offset.max(from);
        let end = (self.offset + self.count).min(to);
        assert!(offset <= end, "a piece touches these blocks");
        let logical = self.logical.map(|logical| logical + (offset - self.offset));
        Piece { offset, logical, count: end - offset }
    }
}

/// Runs of thin objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// Object and offset to logical block and count.
    runs: BTreeMap<(ObjectId, u64), (Logical, u64)>,
}

impl Runs {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Are there none?
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn run_at_or_before(&self, object: ObjectId, offset: u64) -> Option<Piece> {
        let (&(_, first), &(logical, count)) =
            self.runs.range((object, 0)..=(object, offset)).next_back()?;
        Some(Piece { offset: first, logical: Some(logical), count })
    }

    /// The logical block of `from`, if one run has all blocks of `from..to`.
    #[inline]
    pub(crate) fn single(&self, object: ObjectId, from: u64, to: u64) -> Option<Logical> {
        let run = self.run_at_or_before(object, from)?;
        (to <= run.offset + run.count).then(|| run.logical.expect("a run") + (from - run.offset))
    }

    /// Runs and holes of `from..to`, in order.
    pub(crate) fn pieces(&self, object: ObjectId, from: u64, to: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = from;
        let begin = self.run_at_or_before(object, from).map_or(from, |run| run.offset);
        for (&(_, offset), &(logical, count)) in self.runs.range((object, begin)..(object, to)) {
            if offset + count <= from {
                continue;
            }
            if offset > at {
                pieces.push(Piece { offset: at, logical: None, count: offset - at });
            }
            let run = Piece { offset, logical: Some(logical), count }.within(from, to);
            at = run.offset + run.count;
            pieces.push(run);
        }
        if at < to {
            pieces.push(Piece { offset: at, logical: None, count: to - at });
        }
        pieces
    }

    /// All runs of an object, in order.
    pub(crate) fn of(&self, object: ObjectId) -> impl Iterator<Item = Piece> + '_ {
        let runs = self.runs.range((object, 0)..=(object, u64::MAX));
        runs.map(|(&(_, offset), &(logical, count))| Piece {
            offset,
            logical: Some(logical),
            count,
        })
    }

    /// Runs from this one on.
    pub(crate) fn from(
        &self,
        object: ObjectId,
        offset: u64,
    ) -> impl Iterator<Item = (ObjectId, Piece)> + '_ {
        self.runs.range((object, offset)..).map(|(&(id, offset), &(logical, count))| {
            (id, Piece { offset, logical: Some(logical), count })
        })
    }

    /// Blocks that the object has.
    #[cfg(test)]
    pub(crate) fn blocks(&self, object: ObjectId) -> u64 {
        self.of(object).map(|run| run.count).sum()
    }

    /// These blocks of the object, a hole until now, lie there.
    pub(crate) fn put(&mut self, object: ObjectId, offset: u64, range: BlockRange) {
        assert!(range.count > 0, "a run has a block");
        let (mut offset, mut first, mut count) = (offset, range.first, range.count);
        let behind = self.runs.range((object, offset)..=(object, u64::MAX)).next();
        assert!(
            behind.is_none_or(|(&(_, at), _)| at - offset >= count),
            "it was a hole to its end"
        );
        if let Some(before) = self.run_at_or_before(object, offset) {
            let logical = before.logical.expect("a run");
            assert!(before.offset + before.count <= offset, "it was a hole");
            if before.offset + before.count == offset && logical + before.count == first {
                self.runs.remove(&(object, before.offset));
                (offset, first, count) = (before.offset, logical, before.count + count);
            }
        }
        if let Some(end) = offset.checked_add(count)
            && let Some(&(logical, more)) = self.runs.get(&(object, end))
            && first + count == logical
        {
            self.runs.remove(&(object, end));
            count += more;
        }
        self.runs.insert((object, offset), (first, count));
    }

    /// Makes a hole of `from..to`. Returns the blocks that lay there.
    pub(crate) fn cut(&mut self, object: ObjectId, from: u64, to: u64) -> Vec<Piece> {
        let pieces = self.pieces(object, from, to);
        let left: Vec<Piece> = pieces.into_iter().filter(|piece| piece.logical.is_some()).collect();
        for piece in &left {
            let whole = self.run_at_or_before(object, piece.offset).expect("it was found");
            let (logical, end) = (whole.logical.expect("a run"), whole.offset + whole.count);
            assert!(piece.offset + piece.count <= end, "a part that is cut lies in one run");
            self.runs.remove(&(object, whole.offset));
            if whole.offset < piece.offset {
                let count = piece.offset - whole.offset;
                self.runs.insert((object, whole.offset), (logical, count));
            }
            let cut_end = piece.offset + piece.count;
            if cut_end < end {
                let behind = logical + (cut_end - whole.offset);
                self.runs.insert((object, cut_end), (behind, end - cut_end));
            }
        }
        left
    }

    /// Takes over what a record says of some blocks, whatever was there.
    pub(crate) fn replay(&mut self, object: ObjectId, piece: Piece) {
        self.cut(object, piece.offset, piece.offset.saturating_add(piece.count));
        if let Some(first) = piece.logical {
            self.put(object, piece.offset, BlockRange { first, count: piece.count });
        }
    }

    /// All runs by object.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ObjectId, BlockRange)> + '_ {
        self.runs.iter().map(|(&(id, _), &(first, count))| (id, BlockRange { first, count }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::Rng;

    const ONE: ObjectId = ObjectId(7);

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange { first, count }
    }

    fn piece(offset: u64, logical: Option<u64>, count: u64) -> Piece {
        Piece { offset, logical, count }
    }

    #[test]
    fn runs_grow_together_and_are_cut_apart() {
        let mut runs = Runs::default();
        runs.put(ONE, 10, range(100, 5));
        runs.put(ONE, 20, range(110, 5));
        assert_eq!(runs.len(), 2);
        runs.put(ONE, 15, range(105, 5));
        assert_eq!(runs.len(), 1, "all lie behind each other");
        assert_eq!(runs.single(ONE, 12, 25), Some(102));
        assert_eq!(runs.single(ONE, 12, 26), None);
        assert_eq!(runs.single(ObjectId(6), 12, 13), None);
        assert_eq!(runs.cut(ONE, 14, 16), [piece(14, Some(104), 2)]);
        assert_eq!(
            runs.pieces(ONE, 0, 30),
            [
                piece(0, None, 10),
                piece(10, Some(100), 4),
                piece(14, None, 2),
                piece(16, Some(106), 9),
                piece(25, None, 5)
            ]
        );
        runs.replay(ONE, piece(5, None, 100));
        assert!(runs.is_empty());
    }

    /// Against an array of blocks.
    #[test]
    fn as_an_array_would() {
        let mut rng = Rng::new(1);
        let (mut runs, mut plain) = (Runs::default(), [None; 64]);
        let neighbours = [ObjectId(6), ObjectId(8)];
        for other in neighbours {
            runs.put(other, 0, range(9000, 64));
        }
        for round in 0..5000u64 {
            let from = rng.below(60);
            let to = rng.between(from + 1, 64);
            let logical = rng.chance_ppm(600_000).then(|| rng.below(200) + round * 1000);
            runs.replay(ONE, piece(from, logical, to - from));
            for block in from..to {
                plain[block as usize] = logical.map(|logical| logical + block - from);
            }
            let mut at = 0;
            for piece in runs.pieces(ONE, 0, 64) {
                assert_eq!(piece.offset, at, "in order, without gaps");
                for i in 0..piece.count {
                    assert_eq!(plain[(at + i) as usize], piece.logical.map(|first| first + i));
                }
                at += piece.count;
            }
            assert_eq!(at, 64);
            let single = runs.single(ONE, from, to);
            let follows = (from..to).all(|block| {
                plain[block as usize].is_some()
                    && plain[block as usize] == plain[from as usize].map(|f| f + block - from)
            });
            assert_eq!(single, plain[from as usize].filter(|_| follows), "{from}..{to}");
        }
        for other in neighbours {
            assert_eq!(runs.single(other, 0, 64), Some(9000));
        }
    }
}
