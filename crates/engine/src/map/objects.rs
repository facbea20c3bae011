//! Which objects are there, and which logical blocks are theirs?
//!
//! A block volume reserves its blocks, and with them its homes, when it is made (design decision
//! 10), so a write to it is delayed but never refused for space.

use super::Logical;
use crate::format::record::ObjectRecord;
use std::collections::BTreeMap;
use tandem_block::{BLOCK_BYTES, IoError, ObjectId};

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

/// All objects of the pool.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_id: BTreeMap<ObjectId, Object>,
    blocks: u32,
    /// The object asked for last: most pools have one.
    recent: Option<(ObjectId, Logical, u64)>,
}

impl Objects {
    /// No objects over this many logical blocks.
    pub fn new(blocks: u32) -> Self {
        Objects { by_id: BTreeMap::new(), blocks, recent: None }
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

    /// Makes an object over the first gap that is large enough.
    ///
    /// # Errors
    /// `Exists` for a known id or name, `Misaligned` for a size of zero or not of whole blocks,
    /// `NoSpace` if no gap is large enough.
    pub fn create(&mut self, id: ObjectId, name: &str, size_bytes: u64) -> Result<(), IoError> {
        if self.by_id.iter().any(|(known, object)| *known == id || object.name == name) {
            return Err(IoError::Exists);
        }
        if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(IoError::Misaligned);
        }
        let blocks = u32::try_from(size_bytes / BLOCK_BYTES).map_err(|_| IoError::NoSpace)?;
        let mut taken: Vec<(u32, u32)> =
            self.by_id.values().map(|object| (object.first, object.blocks)).collect();
        taken.sort_unstable();
        let mut first = 0u32;
        for (start, count) in taken {
            if start - first >= blocks {
                break;
            }
            first = start + count;
        }
        if self.blocks - first < blocks {
            return Err(IoError::NoSpace);
        }
        let object = Object { name: name.to_owned(), size_bytes, first, blocks };
        self.by_id.insert(id, object);
        Ok(())
    }

    /// Removes an object and returns what it was; its blocks must be cleared by the caller.
    ///
    /// # Errors
    /// `NoObject`.
    pub fn remove(&mut self, id: ObjectId) -> Result<Object, IoError> {
        self.recent = None;
        self.by_id.remove(&id).ok_or(IoError::NoObject)
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

    /// Takes over what a record says, if it is possible.
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
        self.recent = None;
        self.by_id.insert(ObjectId(record.id), object);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_used_again() {
        let mut objects = Objects::new(100);
        for id in 0..4 {
            objects.create(ObjectId(id), &format!("v{id}"), 25 * 4096).unwrap();
        }
        assert_eq!(objects.create(ObjectId(9), "v9", 4096), Err(IoError::NoSpace));
        assert_eq!(objects.remove(ObjectId(1)).unwrap().first, 25);
        assert_eq!(objects.create(ObjectId(9), "v0", 4096), Err(IoError::Exists));
        objects.create(ObjectId(9), "v9", 20 * 4096).unwrap();
        assert_eq!(objects.locate(ObjectId(9)), Ok((25, 20 * 4096)));
        assert_eq!(objects.locate(ObjectId(1)), Err(IoError::NoObject));
        assert_eq!(objects.create(ObjectId(7), "v7", 100), Err(IoError::Misaligned));
    }
}
