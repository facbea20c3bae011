//! What do the records of a recovery make of the objects?
//!
//! Source: design decision 7: records are absolute, and come in their order over a table that may be
//! younger than the first of them. So on the way anything may contradict anything; at the end nothing may.

use super::{Object, Objects, range_of};
use crate::format::pointer::NUMBERS_END;
use crate::format::record::{ObjectRecord, Record, ThinRecord};
use crate::map::Logical;
use crate::map::runs::Piece;
use crate::map::space::{BlockRange, Space};
use tandem_block::{BLOCK_BYTES, ObjectId, ObjectKind};

impl Objects {
    /// Takes over what a record says, if it is possible. Records of one recovery may contradict each
    /// other on the way, so that only `end_replay` sees whether they fit together.
    pub(crate) fn replay(&mut self, record: &ObjectRecord) -> bool {
        let end = record.first.checked_add(record.blocks);
        let blocks = match record.in_pieces {
            Some(_) => NUMBERS_END - 1,
            None => record.blocks,
        };
        if end.is_none_or(|end| end > self.blocks) || record.size_bytes > blocks * BLOCK_BYTES {
            return false;
        }
        let object = Object {
            name: record.name.clone(),
            size_bytes: record.size_bytes,
            first: record.first,
            blocks: record.blocks,
            kind: ObjectKind::Volume,
            volume: ObjectId(record.in_pieces.map_or(record.id, |pieces| pieces.origin)),
            owner: 0,
            is_snapshot: record.in_pieces.is_some_and(|pieces| pieces.is_snapshot),
        };
        self.by_id.insert(ObjectId(record.id), object);
        true
    }

    /// Takes over any record of an object or a part of one; false also for other records.
    pub(crate) fn replay_record(&mut self, record: &Record) -> bool {
        match record {
            Record::Object(object) => return self.replay(object),
            Record::ObjectGone(id) => self.replay_gone(ObjectId(*id)),
            Record::Thin(thin) => return self.replay_thin(thin),
            Record::Piece(id, piece) => return self.replay_piece(ObjectId(*id), *piece),
            Record::SharedPiece(id, piece) => {
                self.may_share.extend(piece.logical.map(|_| range_of(piece)));
                return self.replay_piece(ObjectId(*id), *piece);
            }
            Record::Attribute(attribute) => {
                let value = attribute.value.as_deref();
                self.replay_attribute(ObjectId(attribute.id), &attribute.key, value);
            }
            Record::Homes(blocks, place) => return self.replay_homes(*blocks, *place),
            Record::Run(_) | Record::Fragmented(_) => return false,
        }
        true
    }

    /// The same of a thin object.
    pub(crate) fn replay_thin(&mut self, record: &ThinRecord) -> bool {
        if record.size_bytes.div_ceil(BLOCK_BYTES) >= NUMBERS_END {
            return false; // no object has so many blocks
        }
        let object = Object {
            name: String::new(),
            size_bytes: record.size_bytes,
            first: 0,
            blocks: 0,
            kind: record.kind,
            volume: ObjectId(record.volume),
            owner: record.owner,
            is_snapshot: false,
        };
        self.by_id.insert(ObjectId(record.id), object);
        true
    }

    /// The same of some blocks of one.
    pub(crate) fn replay_piece(&mut self, id: ObjectId, piece: Piece) -> bool {
        let end = |first: u64| first.checked_add(piece.count);
        let fits = end(piece.offset).is_some()
            && piece.logical.is_none_or(|at| end(at).is_some_and(|end| end <= self.blocks));
        if fits {
            self.runs.replay(id, piece);
        }
        fits
    }

    /// The same of an attribute; `None`: it is gone.
    pub(crate) fn replay_attribute(&mut self, id: ObjectId, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.attributes.set(id, key, value),
            None => self.attributes.remove(id, key),
        };
    }

    /// The same of where homes lie.
    fn replay_homes(&mut self, blocks: BlockRange, place: Logical) -> bool {
        let ends = |first: Logical| first.checked_add(blocks.count);
        let fits = |first| ends(first).is_some_and(|end| end <= self.blocks);
        let fits = fits(blocks.first) && fits(place);
        if fits {
            self.homes.set(blocks, place);
        }
        fits
    }

    /// A record says that the object is gone, and everything with it.
    pub(crate) fn replay_gone(&mut self, id: ObjectId) {
        self.by_id.remove(&id);
        self.runs.cut(id, 0, u64::MAX);
        self.attributes.remove_all(id);
    }

    /// All records were replayed: names and free blocks are found out.
    ///
    /// # Errors
    /// Two blocks with one home, two objects with one name, or over the same blocks, or parts of an object that is not there.
    pub(crate) fn end_replay(&mut self) -> Result<(), String> {
        self.homes.check(self.blocks)?;
        let mut ranges: Vec<(BlockRange, ObjectId)> = self.owned().collect();
        ranges.sort_unstable_by_key(|(range, _)| range.first);
        let mut space = Space::default();
        let mut at = 0;
        let may_share = union(std::mem::take(&mut self.may_share));
        for &(range, id) in &ranges {
            let end = range.first + range.count;
            if range.first < at {
                let both = BlockRange { first: range.first, count: at.min(end) - range.first };
                let behind = may_share.partition_point(|wide| wide.first <= both.first);
                if behind == 0 || !has(may_share[behind - 1], both) {
                    return Err(format!("object {} lies over blocks of another one", id.0));
                }
            } else {
                space.release(BlockRange { first: at, count: range.first - at });
            }
            at = at.max(end);
        }
        self.count_shares(&ranges);
        space.release(BlockRange { first: at, count: self.blocks - at });
        for id in self.runs.iter().map(|(id, _)| id) {
            if !self.by_id.get(&id).is_some_and(Object::lies_in_runs) {
                return Err(format!("blocks belong to object {}, which is not there", id.0));
            }
        }
        for id in self.attributes.objects() {
            if !self.by_id.contains_key(&id) {
                return Err(format!("an attribute belongs to object {}, which is not there", id.0));
            }
        }
        let objects = std::mem::take(&mut self.by_id);
        (self.space, self.header_bytes, self.recent) = (space, 0, None);
        for (id, object) in objects {
            if !object.is_thin() && self.by_name.contains_key(&object.name) {
                return Err(format!("two objects are called {}", object.name));
            }
            self.insert(id, object);
        }
        Ok(())
    }

    /// Blocks that objects have, and whose they are.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (BlockRange, ObjectId)> + '_ {
        let reserved = |(&id, o): (&ObjectId, &Object)| {
            (o.blocks > 0).then_some((BlockRange { first: o.first, count: o.blocks }, id))
        };
        let runs = self.runs.iter().map(|(id, range)| (range, id));
        self.by_id.iter().filter_map(reserved).chain(runs).chain(self.links.ranges())
    }

    /// Blocks that objects have, in order, each once.
    pub(crate) fn ranges(&self) -> Vec<BlockRange> {
        union(self.owned().map(|(range, _)| range).collect())
    }
}

/// The same blocks in ranges that neither overlap nor touch, in order.
fn union(mut ranges: Vec<BlockRange>) -> Vec<BlockRange> {
    ranges.sort_unstable_by_key(|range| range.first);
    let mut all: Vec<BlockRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.first <= last.first + last.count => {
                let end = (last.first + last.count).max(range.first + range.count);
                last.count = end - last.first;
            }
            _ => all.push(range),
        }
    }
    all
}

/// Does it have all of these blocks?
fn has(wide: BlockRange, range: BlockRange) -> bool {
    wide.first <= range.first && range.first + range.count <= wide.first + wide.count
}
