//! How is a step of a batch taken back?
//!
//! Source: design, "A request": all steps of a batch happen, or none.

use super::links::Link;
use super::{Object, Objects, range_of};
use crate::map::attributes::Removed;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use tandem_block::ObjectId;

/// What takes one step of a batch back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// The object was made.
    Made(ObjectId),
    /// It was taken away, with everything.
    Gone {
        /// Which.
        object: ObjectId,
        /// As it was.
        before: Object,
        /// Its runs.
        pieces: Vec<Piece>,
        /// Its links.
        links: Vec<(u64, Link)>,
        /// Its attributes.
        attributes: Vec<Removed>,
    },
    /// Its name or size changed.
    Changed {
        /// Which.
        object: ObjectId,
        /// As it was.
        before: Object,
        /// Runs that were cut off.
        pieces: Vec<Piece>,
        /// Links that were.
        links: Vec<(u64, Link)>,
        /// What was cut off of a volume.
        left: Option<BlockRange>,
    },
    /// Some of its blocks are another one's, too.
    Shared {
        /// Which.
        to: ObjectId,
        /// The first of them.
        at: u64,
        /// What they are now, holes too.
        added: Vec<Piece>,
        /// Runs that were there.
        pieces: Vec<Piece>,
    },
    /// A snapshot was made.
    Snapshot {
        /// Of which volume.
        from: ObjectId,
        /// Which.
        to: ObjectId,
        /// The volume as it was.
        before: Object,
    },
    /// An attribute changed.
    Value {
        /// Of which object.
        object: ObjectId,
        /// Which.
        key: Box<[u8]>,
        /// Its value, if it was there.
        before: Option<Box<[u8]>>,
    },
}

impl Objects {
    /// Takes a step back. Steps are undone in the opposite order.
    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Made(id) => {
                let made = self.detach(id).expect("it was made");
                self.release(BlockRange { first: made.first, count: made.blocks });
            }
            Undo::Gone { object, before, pieces, links, attributes } => {
                self.insert(object, before);
                self.put_back(object, &pieces);
                self.links.put_back(object, &links);
                for (key, value) in attributes {
                    self.attributes.set(object, &key, &value);
                }
            }
            Undo::Changed { object, before, pieces, links, left: _ } => {
                let after = self.detach(object).expect("it was changed");
                if after.blocks > before.blocks {
                    let (first, count) =
                        (after.first + before.blocks, after.blocks - before.blocks);
                    self.release(BlockRange { first, count });
                }
                self.insert(object, before);
                self.put_back(object, &pieces);
                self.links.put_back(object, &links);
            }
            Undo::Shared { to, at, added, pieces } => {
                let blocks: u64 = added.iter().map(|piece| piece.count).sum();
                self.runs.cut(to, at, at + blocks);
                self.put_back(to, &pieces);
            }
            Undo::Snapshot { from, to, before } => self.undo_snapshot(from, to, before),
            Undo::Value { object, key, before: Some(value) } => {
                self.attributes.set(object, &key, &value);
            }
            Undo::Value { object, key, before: None } => {
                self.attributes.remove(object, &key);
            }
        }
    }

    pub(super) fn put_back(&mut self, object: ObjectId, pieces: &[Piece]) {
        for piece in pieces {
            self.runs.put(object, piece.offset, range_of(piece));
        }
    }
}
