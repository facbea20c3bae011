//! Which objects are there, and what belongs to them?
//!
//! A block volume reserves its blocks, and with them its homes, when it is made (design decision
//! 10), so a write to it is delayed but never refused for space. A thin object takes blocks when they are
//! first written (`runs`, `space`): that may be refused. Blocks that an object has left are free again
//! only when it is durable that nothing lies in them: until then they are *retired*.

mod audit;
mod blocks;
mod evacuate;
mod home;
mod links;
mod replay;
mod shares;
mod sharing;
mod undo;

use super::Logical;
use super::attributes::Attributes;
use super::changes::Changes;
use super::homes::Homes;
use super::runs::{Piece, Runs};
pub use super::space::BlockRange;
use super::space::Space;
use crate::format::pointer::NUMBERS_END;
use crate::format::record::{
    HOMES_RECORD_BYTES, InPieces, ObjectRecord, PIECE_RECORD_BYTES, THIN_RECORD_BYTES, ThinRecord,
};
use crate::format::record_writer::RecordWriter;
use links::Links;
use shares::Shares;
use std::collections::{BTreeMap, VecDeque};
use tandem_block::{BLOCK_BYTES, IoError, NAME_BYTES_MAX, ObjectId, ObjectKind, ObjectOp};
pub use undo::Undo;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name; empty for all but volumes.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// First logical block of a volume whose blocks follow each other.
    pub first: Logical,
    /// Logical blocks reserved for such a volume.
    pub blocks: u64,
    /// What it is for.
    pub kind: ObjectKind,
    /// The volume whose policies apply to it: a volume's own id.
    pub volume: ObjectId,
    /// Whose it is: a number of the front end's.
    pub owner: u64,
    /// It shows what a volume was, and never changes.
    pub is_snapshot: bool,
}

impl Object {
    /// Has it no name?
    pub fn is_thin(&self) -> bool {
        self.kind != ObjectKind::Volume
    }

    /// Do its blocks lie in runs? Those of a volume do once there was a snapshot of it.
    pub fn lies_in_runs(&self) -> bool {
        self.blocks == 0
    }
}

/// Where an object's blocks are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Its first block, if they follow each other.
    pub(crate) first: Logical,
    /// Its size in bytes.
    pub(crate) size_bytes: u64,
    /// They lie in runs.
    pub(crate) is_thin: bool,
    /// It never changes.
    pub(crate) is_snapshot: bool,
    /// The volume whose policies apply.
    pub(crate) volume: ObjectId,
}

/// All objects of the pool.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_id: BTreeMap<ObjectId, Object>,
    by_name: BTreeMap<String, ObjectId>,
    space: Space,
    /// As they may be recorded.
    runs: Runs,
    /// Where something else is read and written, which may not be recorded yet.
    links: Links,
    shares: Shares,
    /// Something was shared since the start, or before it.
    was_shared: bool,
    attributes: Attributes,
    homes: Homes,
    /// Homes that are being left.
    evacuating: Option<evacuate::Evacuating>,
    /// Blocks whose homes were left, with the drives that are gone.
    gone_blocks: u64,
    /// Blocks for which there is no room on SSDs, in a pool without homes.
    withheld: Space,
    /// Blocks taken for what will be appended to objects: of nobody, after a crash.
    ahead: VecDeque<(ObjectId, BlockRange)>,
    blocks: u64,
    /// Bytes of the records of all headers.
    header_bytes: u64,
    /// Bytes that all records may take on the drives.
    record_bytes_max: u64,
    /// Is there a table on the drives for thin objects and attributes?
    has_table: bool,
    /// What records of a start said that several objects may have.
    may_share: Vec<BlockRange>,
    changes: Changes,
    /// The table on the drives is older than what journal units say.
    is_unsaved: bool,
    /// The object asked for last: most pools have one.
    recent: Option<(ObjectId, Located)>,
}

impl Objects {
    /// No objects over this many logical blocks.
    pub(crate) fn new(blocks: u64) -> Self {
        let mut objects = Objects { blocks, record_bytes_max: u64::MAX, ..Objects::default() };
        objects.space.release(BlockRange { first: 0, count: blocks });
        objects
    }

    /// All records together may take so many bytes; without a table there are volumes alone.
    pub(crate) fn bound(&mut self, record_bytes_max: u64, has_table: bool) {
        (self.record_bytes_max, self.has_table) = (record_bytes_max, has_table);
    }

    /// Is there a table for them on the drives?
    #[inline]
    pub fn has_table(&self) -> bool {
        self.has_table
    }

    /// Finds an object.
    ///
    /// # Errors
    /// `NoObject`.
    #[inline]
    pub(crate) fn locate(&mut self, id: ObjectId) -> Result<Located, IoError> {
        if let Some((recent, located)) = self.recent
            && recent == id
        {
            return Ok(located);
        }
        let object = self.by_id.get(&id).ok_or(IoError::NoObject)?;
        let (first, size_bytes, volume) = (object.first, object.size_bytes, object.volume);
        let (is_thin, is_snapshot) = (object.lies_in_runs(), object.is_snapshot);
        let located = Located { first, size_bytes, is_thin, is_snapshot, volume };
        self.recent = Some((id, located));
        Ok(located)
    }

    /// All objects in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.by_id.iter().map(|(id, object)| (*id, object))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Objects from this id on.
    pub(crate) fn from(&self, id: ObjectId) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.by_id.range(id..).map(|(id, object)| (*id, object))
    }

    /// One object.
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.by_id.get(&id)
    }

    /// Where thin objects lie, as it may be recorded.
    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// What is noted of objects.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Where homes lie.
    pub(crate) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// What no journal unit says yet.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Blocks that objects can still take.
    pub(crate) fn free_blocks(&self) -> u64 {
        let ahead: u64 = self.ahead.iter().map(|(_, range)| range.count).sum();
        self.space.free_blocks() + ahead
    }

    /// Bytes of the records of all objects, and how many they may be.
    pub fn record_bytes(&self) -> (u64, u64) {
        // a link that becomes a run may cut another one in two
        let runs = (self.runs.len() + 2 * self.links.len()) * PIECE_RECORD_BYTES;
        let homes = self.homes.len() * HOMES_RECORD_BYTES;
        let bytes = self.header_bytes + (runs + homes) as u64 + self.attributes.record_bytes();
        (bytes, self.record_bytes_max)
    }

    /// Do the records still fit the place that they have on the drives?
    pub(crate) fn fits(&self) -> bool {
        let (bytes, max) = self.record_bytes();
        bytes <= max
    }

    /// … with so many more runs?
    pub(crate) fn fits_with_runs(&self, runs: usize) -> bool {
        let (bytes, max) = self.record_bytes();
        bytes + (runs * PIECE_RECORD_BYTES) as u64 <= max
    }

    /// Makes a volume over the first gap that is large enough.
    ///
    /// # Errors
    /// `Exists` for a known id or name, `Misaligned` for a size of zero or not of whole blocks,
    /// `NoSpace` if no gap is large enough, `NameTooLong`.
    pub(crate) fn create(
        &mut self,
        id: ObjectId,
        name: &str,
        size_bytes: u64,
    ) -> Result<(), IoError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(IoError::NameTooLong);
        }
        if self.by_id.contains_key(&id) || self.by_name.contains_key(name) {
            return Err(IoError::Exists);
        }
        let blocks = blocks_of(size_bytes)?;
        if self.space.free_blocks() < blocks {
            self.drop_ahead();
        }
        let first = self.space.take_whole(blocks).ok_or(IoError::NoSpace)?;
        let (kind, name) = (ObjectKind::Volume, name.to_owned());
        let volume = id;
        let (owner, is_snapshot) = (0, false);
        let object = Object { name, size_bytes, first, blocks, kind, volume, owner, is_snapshot };
        self.insert(id, object);
        Ok(())
    }

    fn create_thin(
        &mut self,
        id: ObjectId,
        kind: ObjectKind,
        volume: ObjectId,
        owner: u64,
    ) -> Result<(), IoError> {
        let is_volume = |known: &Object| known.kind == ObjectKind::Volume && !known.is_snapshot;
        if kind == ObjectKind::Volume || !self.has_table {
            return Err(IoError::Unsupported);
        }
        if self.by_id.contains_key(&id) {
            return Err(IoError::Exists);
        }
        if !self.by_id.get(&volume).is_some_and(is_volume) {
            return Err(IoError::NoObject);
        }
        let object = Object {
            name: String::new(),
            size_bytes: 0,
            first: 0,
            blocks: 0,
            kind,
            volume,
            owner,
            is_snapshot: false,
        };
        self.insert(id, object);
        Ok(())
    }

    /// Does one step of a batch. Returns what undoes it; `note` has to follow, or `undo`.
    ///
    /// # Errors
    /// As `create`, and `NoObject`, `NoAttribute`, `AttributeSize`, `Unsupported`; nothing was changed
    /// then.
    pub(crate) fn apply(&mut self, op: &ObjectOp) -> Result<Undo, IoError> {
        match op {
            ObjectOp::Create { object, name, size_bytes } => {
                self.create(*object, name, *size_bytes)?;
                Ok(Undo::Made(*object))
            }
            ObjectOp::CreateThin { object, kind, volume, owner } => {
                self.create_thin(*object, *kind, *volume, *owner)?;
                Ok(Undo::Made(*object))
            }
            ObjectOp::Remove { object } => {
                let before = self.detach(*object).ok_or(IoError::NoObject)?;
                let pieces = self.runs.cut(*object, 0, u64::MAX);
                let links = self.links.cut(*object, 0, u64::MAX);
                let attributes = self.attributes.remove_all(*object);
                Ok(Undo::Gone { object: *object, before, pieces, links, attributes })
            }
            ObjectOp::Rename { object, name } => self.rename(*object, name),
            ObjectOp::Resize { object, size_bytes } => self.resize(*object, *size_bytes),
            ObjectOp::SetAttribute { object, key, value } => {
                Attributes::check(key, value)?;
                if !self.has_table {
                    return Err(IoError::Unsupported);
                }
                self.by_id.get(object).ok_or(IoError::NoObject)?;
                let before = self.attributes.set(*object, key, value);
                Ok(Undo::Value { object: *object, key: key.clone(), before })
            }
            ObjectOp::RemoveAttribute { object, key } => {
                self.by_id.get(object).ok_or(IoError::NoObject)?;
                let before = self.attributes.remove(*object, key).ok_or(IoError::NoAttribute)?;
                Ok(Undo::Value { object: *object, key: key.clone(), before: Some(before) })
            }
            ObjectOp::Share { from, from_block, to, to_block, blocks } => {
                self.share((*from, *from_block), (*to, *to_block), *blocks)
            }
            ObjectOp::Snapshot { from, to, name } => self.snapshot(*from, *to, name),
        }
    }

    fn rename(&mut self, id: ObjectId, name: &str) -> Result<Undo, IoError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(IoError::NameTooLong);
        }
        if self.by_name.get(name).is_some_and(|&known| known != id) {
            return Err(IoError::Exists);
        }
        if self.by_id.get(&id).ok_or(IoError::NoObject)?.is_thin() {
            return Err(IoError::Unsupported);
        }
        let before = self.detach(id).expect("found above");
        self.insert(id, Object { name: name.to_owned(), ..before.clone() });
        Ok(Undo::Changed { object: id, before, pieces: Vec::new(), links: Vec::new(), left: None })
    }

    fn resize(&mut self, id: ObjectId, size_bytes: u64) -> Result<Undo, IoError> {
        let known = self.by_id.get(&id).ok_or(IoError::NoObject)?;
        if known.is_snapshot {
            return Err(IoError::Snapshot);
        }
        if known.is_thin() {
            return self.resize_thin(id, size_bytes);
        }
        let blocks = blocks_of(size_bytes)?;
        if known.lies_in_runs() {
            return self.resize_thin(id, size_bytes);
        }
        let (first, had) = (known.first, known.blocks);
        if blocks > had {
            // in place: homes are fixed, so a volume grows into the gap behind it or not at all
            let behind = BlockRange { first: first + had, count: blocks - had };
            if !self.space.is_free(behind) {
                self.drop_ahead();
            }
            if !self.space.is_free(behind) {
                return Err(IoError::NoSpace);
            }
            self.space.take(behind);
        }
        let cut = BlockRange { first: first + blocks.min(had), count: had.saturating_sub(blocks) };
        let left = (cut.count > 0).then_some(cut);
        let before = self.detach(id).expect("found above");
        self.insert(id, Object { size_bytes, blocks, ..before.clone() });
        let (pieces, links) = (Vec::new(), Vec::new());
        Ok(Undo::Changed { object: id, before, pieces, links, left })
    }

    fn resize_thin(&mut self, id: ObjectId, size_bytes: u64) -> Result<Undo, IoError> {
        let blocks = size_bytes.div_ceil(BLOCK_BYTES);
        if blocks >= NUMBERS_END {
            return Err(IoError::NoSpace);
        }
        let object = self.by_id.get_mut(&id).expect("found by the caller");
        let before = object.clone();
        object.size_bytes = size_bytes;
        self.recent = None;
        let (mut pieces, mut links) = (Vec::new(), Vec::new());
        if size_bytes < before.size_bytes {
            pieces = self.runs.cut(id, blocks, u64::MAX);
            links = self.links.cut(id, blocks, u64::MAX);
            self.drop_ahead_of(id);
        }
        Ok(Undo::Changed { object: id, before, pieces, links, left: None })
    }

    /// A step of a batch holds: notes what journal units have to say, and returns the blocks that it left
    /// behind. Whoever asks clears them, and releases them when that is durable.
    pub(crate) fn note(&mut self, undo: &Undo) -> Vec<BlockRange> {
        self.is_unsaved = true;
        match undo {
            Undo::Made(id) => {
                let is_volume = self.by_id.get(id).is_none_or(|object| !object.is_thin());
                self.changes.header(*id, is_volume);
                Vec::new()
            }
            Undo::Gone { object, before, pieces, links, .. } => {
                self.changes.gone(*object, !before.is_thin());
                self.drop_ahead_of(*object);
                let reserved = BlockRange { first: before.first, count: before.blocks };
                let reserved = (reserved.count > 0).then_some(reserved);
                let mut left = self.leave(pieces, links);
                left.extend(reserved);
                if before.is_snapshot {
                    self.settle_back(before.volume);
                }
                left
            }
            Undo::Changed { object, before, pieces, links, left } => {
                self.changes.header(*object, !before.is_thin());
                assert!(
                    left.is_none() || (pieces.is_empty() && links.is_empty()),
                    "a volume leaves reserved blocks, or pieces"
                );
                if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
                    self.changes.blocks(*object, first.offset, last.offset + last.count, 1);
                }
                let mut gone = self.leave(pieces, links);
                gone.extend(*left);
                gone
            }
            Undo::Shared { to, added, pieces, .. } => self.note_shared(*to, added, pieces),
            Undo::Snapshot { from, to, before } => self.note_snapshot(*from, *to, before),
            Undo::Value { object, key, .. } => {
                let value_bytes = self.attributes.get(*object, key).map_or(0, <[u8]>::len);
                self.changes.attribute(*object, key, value_bytes);
                Vec::new()
            }
        }
    }

    fn insert(&mut self, id: ObjectId, object: Object) {
        self.recent = None;
        self.header_bytes += header_bytes(&object);
        if !object.is_thin() {
            let before = self.by_name.insert(object.name.clone(), id);
            assert!(before.is_none(), "one object has a name");
        }
        let before = self.by_id.insert(id, object);
        assert!(before.is_none(), "one object has an id");
    }

    fn detach(&mut self, id: ObjectId) -> Option<Object> {
        self.recent = None;
        let object = self.by_id.remove(&id)?;
        if !object.is_thin() {
            let named = self.by_name.remove(&object.name);
            assert_eq!(named, Some(id), "a name leads to its object");
        }
        assert!(self.header_bytes >= header_bytes(&object), "its header was counted");
        self.header_bytes -= header_bytes(&object);
        Some(object)
    }

    /// Writes everything that changed, as it is now.
    pub(crate) fn record_changes(&mut self, records: &mut RecordWriter) {
        for blocks in self.changes.take_homes() {
            for (run, place) in self.homes.runs(blocks) {
                records.homes(run, place);
            }
        }
        for (id, changed) in self.changes.take() {
            if changed.gone {
                records.object_gone(id.0);
            }
            let Some(object) = self.by_id.get(&id) else { continue };
            if changed.header {
                write_header(id, object, records);
            }
            for (from, to) in changed.blocks {
                for piece in self.runs.pieces(id, from, to) {
                    let is_shared = self.is_shared(&piece);
                    records.piece(id.0, piece, is_shared);
                }
            }
            for key in changed.keys {
                match self.attributes.get(id, &key) {
                    Some(value) => records.attribute(id.0, &key, value),
                    None => records.attribute_gone(id.0, &key),
                }
            }
        }
    }

    /// What changed is written elsewhere.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.take();
    }

    /// All volumes, as the root of a pool without a table has them.
    pub(crate) fn records(&self) -> Vec<u8> {
        let mut records = RecordWriter::default();
        for (&id, object) in &self.by_id {
            write_header(id, object, &mut records);
        }
        records.take()
    }

    /// Is the table on the drives older than this? From now on it is not.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.is_unsaved)
    }

    /// The table on the drives has to be written anew.
    pub(crate) fn note_unsaved(&mut self) {
        self.is_unsaved = true;
    }
}

fn range_of(piece: &Piece) -> BlockRange {
    BlockRange { first: piece.logical.expect("holes are nowhere"), count: piece.count }
}

fn blocks_of(size_bytes: u64) -> Result<u64, IoError> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(IoError::Misaligned);
    }
    let blocks = size_bytes / BLOCK_BYTES;
    if blocks >= NUMBERS_END { Err(IoError::NoSpace) } else { Ok(blocks) }
}

/// Writes what is to be said of an object itself.
pub(crate) fn write_header(id: ObjectId, object: &Object, records: &mut RecordWriter) {
    if object.is_thin() {
        assert!(object.blocks == 0 && !object.is_snapshot, "a thin object reserves nothing");
        records.thin(&ThinRecord {
            id: id.0,
            size_bytes: object.size_bytes,
            volume: object.volume.0,
            owner: object.owner,
            kind: object.kind,
        });
        return;
    }
    assert!(object.lies_in_runs() || !object.is_snapshot, "a snapshot lies in runs");
    records.object(&ObjectRecord {
        id: id.0,
        size_bytes: object.size_bytes,
        first: object.first,
        blocks: object.blocks,
        flags: 0,
        name: object.name.clone(),
        in_pieces: object
            .lies_in_runs()
            .then_some(InPieces { origin: object.volume.0, is_snapshot: object.is_snapshot }),
    });
}

/// Bytes of an object's own record.
fn header_bytes(object: &Object) -> u64 {
    let bytes = if object.is_thin() {
        THIN_RECORD_BYTES
    } else {
        crate::format::record::OBJECT_RECORD_BYTES + object.name.len()
    };
    bytes as u64
}

#[cfg(test)]
mod tests;
