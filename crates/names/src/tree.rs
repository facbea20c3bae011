//! Which file is meant, and who still holds it?

use crate::draft::{self, Draft};
use crate::entry;
use crate::error::NameError;
use crate::inode::{Inode, Kind};
use crate::key;
use crate::objects::{Change, Objects};
use std::collections::BTreeMap;
use tandem_block::ObjectId;

/// Names that a file can have, and directories in a directory; what counters of programs can hold.
pub const LINKS_MAX: u32 = i32::MAX as u32;

/// On whose behalf, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Owner of what is made.
    pub uid: u32,
    /// Group of what is made.
    pub gid: u32,
    /// Nanoseconds since 1970.
    pub now_ns: i64,
}

/// A file and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its object, which is its inode number too.
    pub object: ObjectId,
    /// What is known.
    pub inode: Inode,
}

/// The names of one mounted volume. All that it keeps is who holds which file open.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) root: ObjectId,
    /// Counts mounts after crashes: see [`Inode::tail_epoch`].
    pub(crate) epoch: u32,
    /// What `user.tandem.tier` may say.
    pub(crate) tiers: Vec<String>,
    /// Open files and directories, and how often each.
    held: BTreeMap<ObjectId, u64>,
}

impl Tree {
    pub(crate) fn new(root: ObjectId, epoch: u32, tiers: &[&str]) -> Tree {
        let tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
        Tree { root, epoch, tiers, held: BTreeMap::new() }
    }

    /// The root directory.
    pub fn root(&self) -> ObjectId {
        self.root
    }

    /// From now on `user.tandem.tier` may say this: volumes get other tiers while they are served.
    pub fn let_tiers(&mut self, tiers: &[&str]) {
        if !self.tiers.iter().eq(tiers.iter()) {
            self.tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
        }
    }

    /// What `user.tandem.tier` may say.
    pub fn tiers(&self) -> &[String] {
        &self.tiers
    }

    pub(crate) fn draft<'a, O: Objects>(&self, on: &'a O) -> Draft<'a, O> {
        Draft::new(on, self.root)
    }

    /// What is known of a file, also of one in a snapshot.
    ///
    /// # Errors
    /// `NotFound`, `OtherVolume`, `Damaged`.
    pub fn inode(&self, on: &impl Objects, object: ObjectId) -> Result<Inode, NameError> {
        draft::look(on, self.root, object)
    }

    /// The same of one that may change.
    ///
    /// # Errors
    /// `ReadOnly`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn own_inode(&self, on: &impl Objects, object: ObjectId) -> Result<Inode, NameError> {
        draft::read(on, self.root, object)
    }

    /// Does it belong to a snapshot, or is it where they are?
    pub fn is_read_only(&self, on: &impl Objects, object: ObjectId) -> bool {
        self.own_inode(on, object) == Err(NameError::ReadOnly)
    }

    pub(crate) fn directory(
        &self,
        on: &impl Objects,
        object: ObjectId,
    ) -> Result<Inode, NameError> {
        let inode = self.inode(on, object)?;
        if inode.is_directory() { Ok(inode) } else { Err(NameError::NotDirectory) }
    }

    /// A file whose bytes may change.
    pub(crate) fn file(&self, on: &impl Objects, object: ObjectId) -> Result<Inode, NameError> {
        let inode = self.readable_file(on, object)?;
        if inode.volume == self.root { Ok(inode) } else { Err(NameError::ReadOnly) }
    }

    /// A file, also of a snapshot.
    pub(crate) fn readable_file(
        &self,
        on: &impl Objects,
        object: ObjectId,
    ) -> Result<Inode, NameError> {
        let inode = self.inode(on, object)?;
        match inode.kind() {
            Kind::File => Ok(inode),
            Kind::Directory => Err(NameError::IsDirectory),
            _ => Err(NameError::Invalid),
        }
    }

    /// The file of this name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `TooLong`, `Invalid` (no name), `OtherVolume`, `Damaged`.
    pub fn lookup(
        &self,
        on: &impl Objects,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Stat, NameError> {
        entry::check_name(name)?;
        self.directory(on, directory)?;
        let Some((_, entry)) = entry::find(on, directory, name)? else {
            let shelf = self.snapshots(on)?.filter(|_| self.is_for_snapshots(directory, name));
            let object = shelf.ok_or(NameError::NotFound)?;
            return Ok(Stat { object, inode: self.inode(on, object)? });
        };
        let damaged = |error| match error {
            NameError::NotFound => NameError::Damaged(directory), // a name of nothing
            other => other,
        };
        let inode = self.inode(on, entry.object).map_err(damaged)?;
        Ok(Stat { object: entry.object, inode })
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is none; `NotFound`, `OtherVolume`, `Damaged`.
    pub fn read_link<'a>(
        &self,
        on: &'a impl Objects,
        object: ObjectId,
    ) -> Result<&'a [u8], NameError> {
        if self.inode(on, object)?.kind() != Kind::Symlink {
            return Err(NameError::Invalid);
        }
        on.attribute(object, key::TARGET).ok_or(NameError::Damaged(object))
    }

    /// Opens a file or directory: it outlives its last name until it is released as often.
    ///
    /// # Errors
    /// `SymbolicLink`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn open(&mut self, on: &impl Objects, object: ObjectId) -> Result<Inode, NameError> {
        let inode = self.inode(on, object)?;
        if inode.kind() == Kind::Symlink {
            return Err(NameError::SymbolicLink);
        }
        *self.held.entry(object).or_default() += 1;
        Ok(inode)
    }

    /// Closes it; what has no name any more goes with the last one.
    ///
    /// # Errors
    /// `OtherVolume`, `Damaged`.
    pub fn release(
        &mut self,
        on: &impl Objects,
        object: ObjectId,
    ) -> Result<Vec<Change>, NameError> {
        let count = self.held.get_mut(&object).expect("what is released was opened");
        *count -= 1;
        if *count > 0 {
            return Ok(Vec::new());
        }
        self.held.remove(&object);
        match self.own_inode(on, object) {
            Ok(inode) if inode.links == 0 => {}
            // a snapshot that was deleted before it was closed is gone
            Ok(_) | Err(NameError::ReadOnly | NameError::NotFound) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let mut draft = self.draft(on);
        if draft.inode(object)?.links == 0 {
            draft.unset(self.root, key::orphan(object));
            draft.remove(object);
        }
        Ok(draft.finish())
    }

    /// All that is open.
    pub(crate) fn held(&self) -> impl Iterator<Item = ObjectId> {
        self.held.keys().copied()
    }

    /// Is it open?
    pub fn is_held(&self, object: ObjectId) -> bool {
        self.held.contains_key(&object)
    }
}
