//! Which objects are there, and which logical blocks are theirs?
//!
//! A block volume reserves its blocks, and with them its homes, when it is made (design decision
//! 10), so a write to it is delayed but never refused for space. Blocks that an object has left are
//! free again only when it is durable that nothing lies in them: until then they are *retired*.

use super::Logical;
use crate::format::record::ObjectRecord;
use std::collections::BTreeMap;
use tandem_block::{BLOCK_BYTES, IoError, NAME_BYTES_MAX, ObjectId, ObjectOp};

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// First logical block.
    pub first: Logical,
    /// Logical blocks reserved.
    pub blocks: u32,
}

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// First block.
    pub first: Logical,
    /// How many.
    pub count: u32,
}

/// All objects of the pool.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_id: BTreeMap<ObjectId, Object>,
    by_name: BTreeMap<String, ObjectId>,
    /// Ranges that nobody has: first block to count, never touching each other.
    free: BTreeMap<Logical, u32>,
    blocks: u32,
    /// Bytes of all object records, which a checkpoint's root has to hold.
    record_bytes: usize,
    /// The object asked for last: most pools have one.
    recent: Option<(ObjectId, Logical, u64)>,
}

impl Objects {
    /// No objects over this many logical blocks.
    pub fn new(blocks: u32) -> Self {
        let mut objects = Objects { blocks, ..Objects::default() };
        objects.release(BlockRange { first: 0, count: blocks });
        objects
    }

    /// Finds an object: its first block and its size.
    #[inline]
    pub fn locate(&mut self, id: ObjectId) -> Result<(Logical, u64), IoError> {
        if let Some((recent, first, size_bytes)) = self.recent
            && recent == id
        {
            return Ok((first, size_bytes));
        }
        let object = self.by_id.get(&id).ok_or(IoError::NoObject)?;
        self.recent = Some((id, object.first, object.size_bytes));
        Ok((object.first, object.size_bytes))
    }

    /// All objects in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.by_id.iter().map(|(id, object)| (*id, object))
    }

    /// One object.
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.by_id.get(&id)
    }

    /// Bytes of all object records.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Makes an object over the first gap that is large enough.
    ///
    /// # Errors
    /// `Exists` for a known id or name, `Misaligned` for a size of zero or not of whole blocks,
    /// `NoSpace` if no gap is large enough, `NameTooLong`.
    pub fn create(&mut self, id: ObjectId, name: &str, size_bytes: u64) -> Result<(), IoError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(IoError::NameTooLong);
        }
        if self.by_id.contains_key(&id) || self.by_name.contains_key(name) {
            return Err(IoError::Exists);
        }
        let blocks = blocks_of(size_bytes)?;
        let gap = self.free.iter().find(|(_, count)| **count >= blocks).map(|(&first, _)| first);
        let first = gap.ok_or(IoError::NoSpace)?;
        self.take(BlockRange { first, count: blocks });
        self.insert(id, Object { name: name.to_owned(), size_bytes, first, blocks });
        Ok(())
    }

    /// Does one step of a batch. Returns what undoes it, and the blocks that it leaves behind:
    /// whoever asks clears them, and releases them when that is durable.
    ///
    /// # Errors
    /// As `create`, and `NoObject`; nothing was changed then.
    pub fn apply(&mut self, op: &ObjectOp) -> Result<(Undo, Option<BlockRange>), IoError> {
        match op {
            ObjectOp::Create { object, name, size_bytes } => {
                self.create(*object, name, *size_bytes)?;
                Ok((Undo { object: *object, before: None }, None))
            }
            ObjectOp::Remove { object } => {
                let before = self.detach(*object).ok_or(IoError::NoObject)?;
                let left = BlockRange { first: before.first, count: before.blocks };
                Ok((Undo { object: *object, before: Some(before) }, Some(left)))
            }
            ObjectOp::Rename { object, name } => {
                if name.len() > NAME_BYTES_MAX {
                    return Err(IoError::NameTooLong);
                }
                if self.by_name.get(name).is_some_and(|known| known != object) {
                    return Err(IoError::Exists);
                }
                let before = self.detach(*object).ok_or(IoError::NoObject)?;
                self.insert(*object, Object { name: name.clone(), ..before.clone() });
                Ok((Undo { object: *object, before: Some(before) }, None))
            }
            ObjectOp::Resize { object, size_bytes } => self.resize(*object, *size_bytes),
        }
    }

    fn resize(
        &mut self,
        id: ObjectId,
        size_bytes: u64,
    ) -> Result<(Undo, Option<BlockRange>), IoError> {
        let known = self.by_id.get(&id).ok_or(IoError::NoObject)?;
        let blocks = blocks_of(size_bytes)?;
        let (first, had) = (known.first, known.blocks);
        let mut left = None;
        if blocks > had {
            // in place: homes are fixed, so an object grows into the gap behind it or not at all
            let behind = BlockRange { first: first + had, count: blocks - had };
            if self.free.get(&behind.first).is_none_or(|&count| count < behind.count) {
                return Err(IoError::NoSpace);
            }
            self.take(behind);
        } else if blocks < had {
            left = Some(BlockRange { first: first + blocks, count: had - blocks });
        }
        let before = self.detach(id).expect("found above");
        self.insert(id, Object { size_bytes, blocks, ..before.clone() });
        Ok((Undo { object: id, before: Some(before) }, left))
    }

    /// Takes a step back. Steps are undone in the opposite order.
    pub fn undo(&mut self, undo: Undo) {
        let after = self.detach(undo.object);
        let had = undo.before.as_ref().map_or(0, |object| object.blocks);
        if let Some(after) = &after
            && after.blocks > had
        {
            self.release(BlockRange { first: after.first + had, count: after.blocks - had });
        }
        if let Some(before) = undo.before {
            self.insert(undo.object, before);
        }
    }

    fn insert(&mut self, id: ObjectId, object: Object) {
        self.recent = None;
        self.record_bytes += record_bytes(&object);
        self.by_name.insert(object.name.clone(), id);
        self.by_id.insert(id, object);
    }

    fn detach(&mut self, id: ObjectId) -> Option<Object> {
        self.recent = None;
        let object = self.by_id.remove(&id)?;
        self.by_name.remove(&object.name);
        self.record_bytes -= record_bytes(&object);
        Some(object)
    }

    /// Takes free blocks away from everyone, until they are released.
    pub fn reserve(&mut self, range: BlockRange) {
        self.take(range);
    }

    fn take(&mut self, range: BlockRange) {
        let (&first, &count) = self.free.range(..=range.first).next_back().expect("it is free");
        let end = range.first + range.count;
        assert!(end <= first + count, "only free blocks are taken");
        self.free.remove(&first);
        if first < range.first {
            self.free.insert(first, range.first - first);
        }
        if end < first + count {
            self.free.insert(end, first + count - end);
        }
    }

    /// Nothing lies in these blocks any more, and that is durable.
    pub fn release(&mut self, range: BlockRange) {
        if range.count == 0 {
            return;
        }
        let (mut first, mut end) = (range.first, range.first + range.count);
        if let Some((&before, &count)) = self.free.range(..first).next_back()
            && before + count == first
        {
            self.free.remove(&before);
            first = before;
        }
        if let Some(count) = self.free.remove(&end) {
            end += count;
        }
        let known = self.free.insert(first, end - first);
        assert!(known.is_none(), "blocks are released once");
    }

    /// An object as the journal writes it.
    pub fn record(&self, id: ObjectId) -> Option<ObjectRecord> {
        self.by_id.get(&id).map(|object| ObjectRecord {
            id: id.0,
            size_bytes: object.size_bytes,
            first: object.first,
            blocks: object.blocks,
            flags: 0,
            name: object.name.clone(),
        })
    }

    /// Takes over what a record says, if it is possible. Records of one recovery may contradict each
    /// other on the way, so that only `end_replay` sees whether they fit together.
    pub fn replay(&mut self, record: &ObjectRecord) -> bool {
        let end = record.first.checked_add(record.blocks);
        if end.is_none_or(|end| end > self.blocks)
            || record.size_bytes > u64::from(record.blocks) * BLOCK_BYTES
        {
            return false;
        }
        let object = Object {
            name: record.name.clone(),
            size_bytes: record.size_bytes,
            first: record.first,
            blocks: record.blocks,
        };
        self.by_id.insert(ObjectId(record.id), object);
        true
    }

    /// A record says that the object is gone.
    pub fn replay_gone(&mut self, id: ObjectId) {
        self.by_id.remove(&id);
    }

    /// All records were replayed: names and free blocks are found out.
    ///
    /// # Errors
    /// Two objects with one name, or over the same blocks.
    pub fn end_replay(&mut self) -> Result<(), String> {
        self.recent = None;
        let objects = std::mem::take(&mut self.by_id);
        let mut ranges: Vec<(Logical, u32, ObjectId)> =
            objects.iter().map(|(&id, object)| (object.first, object.blocks, id)).collect();
        ranges.sort_unstable();
        *self = Objects { blocks: self.blocks, ..Objects::default() };
        let mut at = 0;
        for (first, count, id) in ranges {
            if first < at {
                return Err(format!("object {} lies over blocks of another one", id.0));
            }
            self.release(BlockRange { first: at, count: first - at });
            at = first + count;
        }
        self.release(BlockRange { first: at, count: self.blocks - at });
        for (id, object) in objects {
            if self.by_name.contains_key(&object.name) {
                return Err(format!("two objects are called {}", object.name));
            }
            self.insert(id, object);
        }
        Ok(())
    }

    /// Does any object have this block?
    pub fn ranges(&self) -> Vec<BlockRange> {
        let range = |object: &Object| BlockRange { first: object.first, count: object.blocks };
        let mut ranges: Vec<BlockRange> = self.by_id.values().map(range).collect();
        ranges.sort_unstable_by_key(|range| range.first);
        ranges
    }
}

/// What takes one step of a batch back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    object: ObjectId,
    before: Option<Object>,
}

fn blocks_of(size_bytes: u64) -> Result<u32, IoError> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(IoError::Misaligned);
    }
    u32::try_from(size_bytes / BLOCK_BYTES).map_err(|_| IoError::NoSpace)
}

/// Bytes of an object's record in a journal unit or a root.
fn record_bytes(object: &Object) -> usize {
    crate::format::record::OBJECT_RECORD_BYTES + object.name.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> BlockRange {
        BlockRange { first, count }
    }

    #[test]
    fn gaps_are_used_again_once_they_are_released() {
        let mut objects = Objects::new(100);
        for id in 0..4 {
            objects.create(ObjectId(id), &format!("v{id}"), 25 * 4096).unwrap();
        }
        assert_eq!(objects.create(ObjectId(9), "v9", 4096), Err(IoError::NoSpace));
        let (_, left) = objects.apply(&ObjectOp::Remove { object: ObjectId(1) }).unwrap();
        assert_eq!(left, Some(range(25, 25)));
        assert_eq!(objects.create(ObjectId(9), "v9", 4096), Err(IoError::NoSpace), "retired");
        objects.release(range(25, 25));
        assert_eq!(objects.create(ObjectId(9), "v0", 4096), Err(IoError::Exists));
        objects.create(ObjectId(9), "v9", 20 * 4096).unwrap();
        assert_eq!(objects.locate(ObjectId(9)), Ok((25, 20 * 4096)));
        assert_eq!(objects.locate(ObjectId(1)), Err(IoError::NoObject));
        assert_eq!(objects.create(ObjectId(7), "v7", 100), Err(IoError::Misaligned));
    }

    #[test]
    fn every_step_can_be_taken_back() {
        let mut objects = Objects::new(100);
        objects.create(ObjectId(1), "a", 10 * 4096).unwrap();
        objects.create(ObjectId(2), "b", 10 * 4096).unwrap();
        let steps = [
            ObjectOp::Rename { object: ObjectId(1), name: "c".into() },
            ObjectOp::Resize { object: ObjectId(2), size_bytes: 30 * 4096 },
            ObjectOp::Resize { object: ObjectId(1), size_bytes: 4096 },
            ObjectOp::Create { object: ObjectId(3), name: "a".into(), size_bytes: 4096 },
            ObjectOp::Remove { object: ObjectId(2) },
        ];
        let before = format!("{objects:?}");
        let undo: Vec<Undo> = steps.iter().map(|op| objects.apply(op).unwrap().0).collect();
        assert!(objects.get(ObjectId(2)).is_none());
        assert_eq!(objects.get(ObjectId(3)).unwrap().first, 40, "what was cut off is retired");
        for undo in undo.into_iter().rev() {
            objects.undo(undo);
        }
        assert_eq!(format!("{objects:?}"), before);
    }

    #[test]
    fn records_that_contradict_each_other_are_refused_at_the_end() {
        let record = |id, first, name: &str| ObjectRecord {
            id,
            size_bytes: 4096,
            first,
            blocks: 10,
            flags: 0,
            name: name.into(),
        };
        let mut objects = Objects::new(100);
        assert!(objects.replay(&record(1, 0, "a")) && objects.replay(&record(2, 5, "b")));
        assert!(objects.clone().end_replay().unwrap_err().contains("over blocks"));
        assert!(objects.replay(&record(2, 10, "a")));
        assert!(objects.clone().end_replay().unwrap_err().contains("two objects"));
        assert!(objects.replay(&record(2, 20, "b")));
        objects.end_replay().unwrap();
        objects.create(ObjectId(3), "c", 10 * 4096).unwrap();
        assert_eq!(objects.get(ObjectId(3)).unwrap().first, 10, "the gap between them");
        assert!(!objects.replay(&record(4, 95, "d")), "beyond the end");
    }
}
