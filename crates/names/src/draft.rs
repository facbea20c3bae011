//! What would one operation change? Collected here, so that an inode that several steps touch is
//! written once.

use crate::entry::{self, Entry};
use crate::error::NameError;
use crate::inode::{Inode, Kind};
use crate::key;
use crate::objects::{Change, Objects};
use crate::snapshots::SNAPSHOTS_NAME;
use std::collections::BTreeMap;
use tandem_block::ObjectId;

/// An operation as far as it was thought through.
pub struct Draft<'a, O> {
    pub on: &'a O,
    volume: ObjectId,
    /// What was there, if it was, and what shall be there.
    inodes: BTreeMap<ObjectId, (Option<Inode>, Inode)>,
    changes: Vec<Change>,
}

/// The inode of an object of this volume, to be changed.
pub fn read(on: &impl Objects, volume: ObjectId, object: ObjectId) -> Result<Inode, NameError> {
    let inode = decode(on, object)?;
    match inode.volume == volume {
        true => Ok(inode),
        false if is_kept(on, inode.volume, volume) => Err(NameError::ReadOnly),
        false => Err(NameError::OtherVolume),
    }
}

/// The inode of an object of this volume, or of one of its snapshots.
pub fn look(on: &impl Objects, volume: ObjectId, object: ObjectId) -> Result<Inode, NameError> {
    let inode = decode(on, object)?;
    let is_ours = inode.volume == volume || is_kept(on, inode.volume, volume);
    if is_ours { Ok(inode) } else { Err(NameError::OtherVolume) }
}

/// Is `kept` the directory of the snapshots of this volume, or one of them?
pub fn is_kept(on: &impl Objects, kept: ObjectId, volume: ObjectId) -> bool {
    on.attribute(kept, key::KEPT).is_some_and(|value| key::object(value) == Some(volume))
}

fn decode(on: &impl Objects, object: ObjectId) -> Result<Inode, NameError> {
    let Some(bytes) = on.attribute(object, key::INODE) else {
        let is_there = on.size_bytes(object).is_some();
        return Err(if is_there { NameError::Damaged(object) } else { NameError::NotFound });
    };
    Inode::decode(bytes).ok_or(NameError::Damaged(object))
}

impl<'a, O: Objects> Draft<'a, O> {
    pub fn new(on: &'a O, volume: ObjectId) -> Self {
        Draft { on, volume, inodes: BTreeMap::new(), changes: Vec::new() }
    }

    /// The inode as it is now, to be changed.
    pub fn inode(&mut self, object: ObjectId) -> Result<&mut Inode, NameError> {
        if !self.inodes.contains_key(&object) {
            let inode = read(self.on, self.volume, object)?;
            self.inodes.insert(object, (Some(inode), inode));
        }
        Ok(&mut self.inodes.get_mut(&object).expect("put there above").1)
    }

    /// A directory that has a name, to be changed: nothing is made in one that was removed.
    pub fn directory(&mut self, object: ObjectId) -> Result<&mut Inode, NameError> {
        let inode = self.inode(object)?;
        if !inode.is_directory() {
            return Err(NameError::NotDirectory);
        }
        if inode.links == 0 {
            return Err(NameError::NotFound);
        }
        Ok(inode)
    }

    /// The contents of a directory change.
    pub fn touch_directory(&mut self, object: ObjectId, now_ns: i64) -> Result<(), NameError> {
        let inode = self.inode(object)?;
        (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
        Ok(())
    }

    /// A new object with this inode.
    pub fn create(&mut self, object: ObjectId, inode: Inode) {
        let (is_directory, volume) = (inode.is_directory(), inode.volume);
        self.changes.push(Change::Create { object, is_directory, volume });
        self.inodes.insert(object, (None, inode));
    }

    /// The object goes.
    pub fn remove(&mut self, object: ObjectId) {
        self.inodes.remove(&object);
        self.changes.push(Change::Remove { object });
    }

    pub fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        self.changes.push(Change::Resize { object, size_bytes });
    }

    /// Blocks of one object become those of another one, too.
    pub fn share(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub fn set(&mut self, object: ObjectId, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push(Change::Set { object, key, value });
    }

    pub fn unset(&mut self, object: ObjectId, key: Vec<u8>) {
        self.changes.push(Change::Unset { object, key });
    }

    /// A new name in a directory.
    pub fn add_entry(
        &mut self,
        directory: ObjectId,
        name: &[u8],
        (object, kind): (ObjectId, Kind),
    ) -> Result<(), NameError> {
        if directory == self.volume && name == SNAPSHOTS_NAME {
            return Err(NameError::NotPermitted); // it leads elsewhere
        }
        let position = entry::free_position(self.on, directory, name)?;
        self.point(directory, position, &Entry { object, kind, name });
        Ok(())
    }

    /// The entry at a position says this from now on.
    pub fn point(&mut self, directory: ObjectId, position: u64, entry: &Entry<'_>) {
        self.set(directory, key::entry(position), entry.encode());
    }

    /// A name goes.
    pub fn remove_entry(&mut self, directory: ObjectId, position: u64) {
        self.unset(directory, key::entry(position));
    }

    /// All changes.
    pub fn finish(mut self) -> Vec<Change> {
        for (object, (before, after)) in self.inodes {
            if before != Some(after) {
                let (key, value) = (key::INODE.to_vec(), after.encode());
                self.changes.push(Change::Set { object, key, value });
            }
        }
        self.changes
    }
}
