//! Which blocks do several objects have, and what becomes of a write to them?
//!
//! Source: requirements L3, L4 (snapshots and clones of files and volumes). A clone has the pieces of
//! another object, and both hold the blocks under them (`shares`). Blocks with several holders are never
//! written to: a write takes new ones (`links`), and once these are recorded the piece lies there, and the
//! old ones have a holder less. Who holds blocks last leaves them free.

use super::links::{Link, Links};
use super::shares::Shares;
use super::{Object, Objects, Undo, blocks_of, range_of};
use crate::format::record::PIECE_RECORD_BYTES;
use crate::map::Logical;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use tandem_block::{BLOCK_BYTES, IoError, NAME_BYTES_MAX, ObjectId, ObjectKind};

impl Objects {
    /// Blocks that several objects have.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Parts of objects that lie in new blocks, before that is recorded.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Bytes of the journal that links will take, at most.
    pub(crate) fn link_bytes(&self) -> u64 {
        (self.links.len() * PIECE_RECORD_BYTES) as u64
    }

    /// All of the link that this new block lies in is written to.
    pub(crate) fn note_written(&mut self, block: Logical) {
        self.links.note_written(block);
    }

    /// Was anything shared since the start, or before it?
    #[inline]
    pub(crate) fn was_shared(&self) -> bool {
        self.was_shared
    }

    /// Volumes and snapshots, by name.
    pub fn named(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.by_name.values().map(|id| (*id, &self.by_id[id]))
    }

    /// The volume or snapshot of this name.
    pub fn find(&self, name: &str) -> Option<(ObjectId, &Object)> {
        let id = self.by_name.get(name)?;
        Some((*id, &self.by_id[id]))
    }

    /// Does anybody else have blocks of this piece?
    pub(crate) fn is_shared(&self, piece: &Piece) -> bool {
        piece.logical.is_some() && self.shares.has_any(range_of(piece))
    }

    /// The block of `from`, if all blocks of `from..to` of an object follow each other: as they are read
    /// and written.
    #[inline]
    pub fn single(&self, object: ObjectId, from: u64, to: u64) -> Option<Logical> {
        if !self.links.is_over(object, from, to) {
            return self.runs.single(object, from, to);
        }
        self.links.single(object, from, to)
    }

    /// Pieces and holes of `from..to` of an object, in order: as they are read and written.
    pub fn pieces(&self, object: ObjectId, from: u64, to: u64) -> Vec<Piece> {
        let pieces = self.runs.pieces(object, from, to);
        match self.links.is_over(object, from, to) {
            true => self.links.lay_over(object, pieces),
            false => pieces,
        }
    }

    /// Parts of `from..to` of an object whose blocks it shares, as they are read: where a write must not
    /// go. First block, and behind the last.
    pub(crate) fn shared_parts(&self, object: ObjectId, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        if self.shares.is_empty() {
            return parts;
        }
        for piece in self.pieces(object, from, to) {
            let Some(first) = piece.logical else { continue };
            for part in self.shares.within(range_of(&piece)) {
                let begin = piece.offset + (part.first - first);
                match parts.last_mut() {
                    Some((_, end)) if *end == begin => *end += part.count,
                    _ => parts.push((begin, begin + part.count)),
                }
            }
        }
        parts
    }

    /// Blocks that an object has, and those that it alone has.
    pub(crate) fn held_blocks(&self, object: ObjectId) -> (u64, u64) {
        let reserved = self.by_id.get(&object).map_or(0, |known| known.blocks);
        let (mut all, mut shared) = (reserved, 0);
        for piece in self.runs.of(object) {
            all += piece.count;
            shared += self.shares.blocks_within(range_of(&piece));
        }
        (all, all - shared)
    }

    /// Takes new blocks for these parts of an object, which it shares and is about to write to.
    ///
    /// # Errors
    /// `NoSpace`: there are not so many, or not so many pieces can be recorded; nothing was changed.
    pub(crate) fn link(&mut self, object: ObjectId, parts: &[(u64, u64)]) -> Result<(), IoError> {
        let wanted: u64 = parts.iter().map(|&(from, to)| to - from).sum();
        if wanted > self.free_blocks() {
            return Err(IoError::NoSpace);
        }
        let mut added = Vec::new();
        for &(from, to) in parts {
            let mut at = from;
            while at < to {
                let before = at.checked_sub(1).and_then(|last| self.single(object, last, at));
                let range = self.take_for(object, before.map(|last| last + 1), to - at);
                self.links.add(object, at, range);
                added.push((at, range));
                at += range.count;
            }
        }
        if !self.fits() {
            for (at, range) in added {
                self.links.settle(object, at);
                self.space.release(range);
            }
            return Err(IoError::NoSpace);
        }
        Ok(())
    }

    /// Links of which everything is recorded become pieces, which are to be recorded behind that. Returns
    /// them, and the blocks that nobody has any more.
    pub(crate) fn settle_links(
        &mut self,
        is_recorded: impl Fn(Logical) -> bool,
    ) -> (Vec<(ObjectId, Piece)>, Vec<BlockRange>) {
        let all = |range: BlockRange| (range.first..range.first + range.count).all(&is_recorded);
        let done = self.links.all_written().filter(|&(.., range)| all(range));
        let done: Vec<(ObjectId, u64, BlockRange)> = done.collect();
        let (mut durable, mut left) = (Vec::new(), Vec::new());
        for (object, offset, range) in done {
            assert!(!self.shares.has_any(range), "new blocks are nobody else's");
            self.links.settle(object, offset);
            let pieces = self.runs.cut(object, offset, offset + range.count);
            self.runs.put(object, offset, range);
            left.extend(self.leave(&pieces, &[]));
            let piece = Piece { offset, logical: Some(range.first), count: range.count };
            durable.push((object, piece));
            self.is_unsaved = true;
        }
        (durable, left)
    }

    /// The write that a link was made for has failed: the object has what it had. Returns the new blocks.
    pub(crate) fn drop_link(&mut self, block: Logical) -> Option<BlockRange> {
        let (object, offset, _) = self.links.at(block)?;
        Some(self.links.settle(object, offset))
    }

    /// An object has left these. Returns what nobody has any more.
    pub(super) fn leave(&mut self, pieces: &[Piece], links: &[(u64, Link)]) -> Vec<BlockRange> {
        let mut left: Vec<BlockRange> =
            pieces.iter().flat_map(|piece| self.shares.leave(range_of(piece))).collect();
        left.extend(links.iter().map(|(_, link)| link.range));
        left
    }

    /// See `ObjectOp::Share`. Nothing of either part is linked.
    pub(super) fn share(
        &mut self,
        (from, from_block): (ObjectId, u64),
        (to, at): (ObjectId, u64),
        blocks: u64,
    ) -> Result<Undo, IoError> {
        let is_within = |object: &Object, block: u64| {
            let end = block.checked_add(blocks);
            end.is_some_and(|end| end <= object.size_bytes.div_ceil(BLOCK_BYTES))
        };
        let source = self.by_id.get(&from).ok_or(IoError::NoObject)?;
        let target = self.by_id.get(&to).ok_or(IoError::NoObject)?;
        if !self.has_table || !source.is_thin() || !target.is_thin() {
            return Err(IoError::Unsupported);
        }
        let overlaps = from == to && from_block.abs_diff(at) < blocks;
        if blocks == 0 || overlaps || !is_within(source, from_block) || !is_within(target, at) {
            return Err(IoError::OutOfRange);
        }
        assert!(
            !self.links.is_over(from, from_block, from_block + blocks)
                && !self.links.is_over(to, at, at + blocks),
            "who shares waits until what was written is recorded"
        );
        let mut added = self.runs.pieces(from, from_block, from_block + blocks);
        added.iter_mut().for_each(|piece| piece.offset = piece.offset - from_block + at);
        let pieces = self.runs.cut(to, at, at + blocks);
        let there: Vec<Piece> = added.iter().copied().filter(|p| p.logical.is_some()).collect();
        self.put_back(to, &there);
        Ok(Undo::Shared { to, at, added, pieces })
    }

    pub(super) fn note_shared(
        &mut self,
        to: ObjectId,
        added: &[Piece],
        pieces: &[Piece],
    ) -> Vec<BlockRange> {
        self.was_shared = true;
        self.drop_ahead_of(to);
        if let (Some(first), Some(last)) = (added.first(), added.last()) {
            self.changes.blocks(to, first.offset, last.offset + last.count, added.len());
        }
        for piece in added.iter().filter(|piece| piece.logical.is_some()) {
            self.shares.join(range_of(piece));
        }
        self.leave(pieces, &[])
    }

    /// See `ObjectOp::Snapshot`. Nothing of the volume is linked.
    pub(super) fn snapshot(
        &mut self,
        from: ObjectId,
        to: ObjectId,
        name: &str,
    ) -> Result<Undo, IoError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(IoError::NameTooLong);
        }
        if self.by_id.contains_key(&to) || self.by_name.contains_key(name) {
            return Err(IoError::Exists);
        }
        let before = self.by_id.get(&from).ok_or(IoError::NoObject)?.clone();
        if !self.has_table || before.kind != ObjectKind::Volume {
            return Err(IoError::Unsupported);
        }
        assert!(!self.links.has_any(from), "a snapshot waits until what was written is recorded");
        if !before.lies_in_runs() {
            self.detach(from);
            self.insert(from, Object { first: 0, blocks: 0, ..before.clone() });
            self.runs.put(from, 0, BlockRange { first: before.first, count: before.blocks });
        }
        let taken = Object {
            name: name.to_owned(),
            first: 0,
            blocks: 0,
            is_snapshot: true,
            ..before.clone()
        };
        self.insert(to, taken);
        for piece in self.runs.of(from).collect::<Vec<_>>() {
            self.runs.put(to, piece.offset, range_of(&piece));
        }
        Ok(Undo::Snapshot { from, to, before })
    }

    pub(super) fn note_snapshot(
        &mut self,
        from: ObjectId,
        to: ObjectId,
        before: &Object,
    ) -> Vec<BlockRange> {
        self.was_shared = true;
        let pieces: Vec<Piece> = self.runs.of(from).collect();
        let end = pieces.last().map_or(0, |piece| piece.offset + piece.count);
        if !before.lies_in_runs() {
            self.changes.header(from, true);
            self.changes.blocks(from, 0, end, 1);
        }
        self.changes.header(to, true);
        if end > 0 {
            // holes between the pieces are recorded, too
            self.changes.blocks(to, 0, end, 2 * pieces.len() + 1);
        }
        pieces.iter().for_each(|piece| self.shares.join(range_of(piece)));
        Vec::new()
    }

    pub(super) fn undo_snapshot(&mut self, from: ObjectId, to: ObjectId, before: Object) {
        let made = self.detach(to);
        assert!(made.is_some_and(|made| made.is_snapshot), "the snapshot that was made goes");
        self.runs.cut(to, 0, u64::MAX);
        if !before.lies_in_runs() {
            self.runs.cut(from, 0, u64::MAX);
            self.detach(from);
            self.insert(from, before);
        }
    }

    /// A snapshot went: a volume that shares nothing any more, and whose blocks follow each other still, or
    /// again, is one like those of which there never was a snapshot.
    pub(super) fn settle_back(&mut self, volume: ObjectId) {
        let Some(known) = self.by_id.get(&volume) else { return };
        if known.is_thin() || known.is_snapshot || !known.lies_in_runs() {
            return;
        }
        let blocks = blocks_of(known.size_bytes).expect("a volume has whole blocks");
        let Some(first) = self.runs.single(volume, 0, blocks) else { return };
        let range = BlockRange { first, count: blocks };
        if self.links.has_any(volume) || self.shares.has_any(range) {
            return;
        }
        self.runs.cut(volume, 0, u64::MAX);
        let before = self.detach(volume).expect("found above");
        self.insert(volume, Object { first, blocks, ..before });
        self.changes.header(volume, true);
        self.changes.blocks(volume, 0, blocks, 1);
    }

    /// After a start: who holds what.
    pub(super) fn count_shares(&mut self, ranges: &[(BlockRange, ObjectId)]) {
        let ranges: Vec<BlockRange> = ranges.iter().map(|&(range, _)| range).collect();
        self.shares = Shares::count(&ranges);
        self.was_shared = !self.shares.is_empty();
    }

    /// Records that a change needs at most to say where blocks lie that it shares.
    pub(crate) fn pieces_shared(&self, from: ObjectId, first: u64, end: u64) -> usize {
        self.runs.pieces(from, first, end).len() + 3
    }
}
