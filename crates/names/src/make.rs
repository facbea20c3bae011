//! What does a new file, directory or link change?

use crate::draft::Draft;
use crate::entry;
use crate::error::NameError;
use crate::inode::{Inode, Kind, mode};
use crate::key;
use crate::objects::{Change, Objects};
use crate::tree::{Caller, LINKS_MAX, Stat, Tree};
use crate::xattr::TIER_ATTRIBUTE;
use tandem_block::ObjectId;

/// Longest target of a symbolic link in bytes, as Linux has it.
pub const SYMLINK_BYTES_MAX: usize = 4095;

/// What shall be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New<'a> {
    /// A file, device, pipe or socket: kind and permissions, and which device.
    Node {
        /// As in `mknod`: without a kind it is a regular file.
        mode: u32,
        /// Of a device: which.
        device: u32,
    },
    /// A directory with these permissions.
    Directory {
        /// As in `mkdir`.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Any bytes but NUL.
        target: &'a [u8],
    },
}

/// What was made, or is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The file.
    pub stat: Stat,
    /// To be committed.
    pub changes: Vec<Change>,
}

impl New<'_> {
    fn mode(&self) -> Result<u32, NameError> {
        match *self {
            New::Node { mode, .. } if mode & mode::KIND == 0 => {
                Ok(mode::FILE | mode & mode::PERMISSIONS)
            }
            New::Node { mode, .. } => {
                let kind = Kind::of_mode(mode & mode::KIND).ok_or(NameError::Invalid)?;
                match kind {
                    Kind::Directory => Err(NameError::NotPermitted),
                    Kind::Symlink => Err(NameError::Invalid),
                    _ => Ok(mode & (mode::KIND | mode::PERMISSIONS)),
                }
            }
            New::Directory { mode } => Ok(mode::DIRECTORY | mode & mode::PERMISSIONS),
            New::Symlink { .. } => Ok(mode::SYMLINK | 0o777),
        }
    }
}

impl Tree {
    /// Makes a file, directory, symbolic link or special file under a new name.
    ///
    /// # Errors
    /// `Exists`, `NotDirectory`, `NotFound` (the directory), `TooLong`, `Invalid`, `TooManyLinks`,
    /// `NoSpace`, `NotPermitted` (a directory by `New::Node`), `OtherVolume`, `Damaged`.
    pub fn make(
        &self,
        on: &impl Objects,
        parent: ObjectId,
        name: &[u8],
        what: New<'_>,
        by: &Caller,
    ) -> Result<Made, NameError> {
        entry::check_name(name)?;
        let mode = what.mode()?;
        let is_taken = || Ok(entry::find(on, parent, name)?.is_some());
        if self.is_for_snapshots(parent, name) && !is_taken()? {
            return match what {
                New::Directory { mode } => self.make_for_snapshots(on, mode, by),
                _ => Err(NameError::NotPermitted),
            };
        }
        let mut draft = self.draft(on);
        let directory = *draft.directory(parent)?;
        if entry::find(on, parent, name)?.is_some() {
            return Err(NameError::Exists);
        }
        if on.space().free_objects == 0 {
            return Err(NameError::NoSpace);
        }
        let object = on.fresh_id();
        let inode = self.first_inode(&directory, parent, mode, by);
        draft.create(object, inode);
        match what {
            New::Symlink { target } => {
                check_target(target)?;
                draft.inode(object)?.size_bytes = target.len() as u64;
                draft.set(object, key::TARGET.to_vec(), target.to_vec());
            }
            New::Directory { .. } => add_link(draft.inode(parent)?)?,
            New::Node { device, .. } => {
                let is_device = matches!(inode.kind(), Kind::Block | Kind::Character);
                draft.inode(object)?.device = if is_device { device } else { 0 };
            }
        }
        if matches!(inode.kind(), Kind::File | Kind::Directory) {
            inherit_tier(&mut draft, parent, object);
        }
        draft.add_entry(parent, name, (object, inode.kind()))?;
        draft.touch_directory(parent, by.now_ns)?;
        let inode = *draft.inode(object)?;
        Ok(Made { stat: Stat { object, inode }, changes: draft.finish() })
    }

    /// Opens a regular file, which is made if there is none of this name (`O_CREAT`); with
    /// `exclusive` there must be none. It is held once the caller has committed the changes and
    /// called [`Tree::open`].
    ///
    /// # Errors
    /// `Exists` if `exclusive`, `IsDirectory`, `SymbolicLink`; those of [`Tree::make`].
    pub fn create(
        &self,
        on: &impl Objects,
        parent: ObjectId,
        name: &[u8],
        (permissions, exclusive): (u32, bool),
        by: &Caller,
    ) -> Result<Made, NameError> {
        match self.lookup(on, parent, name) {
            Ok(_) if exclusive => Err(NameError::Exists),
            Ok(stat) => match stat.inode.kind() {
                Kind::Directory => Err(NameError::IsDirectory),
                Kind::Symlink => Err(NameError::SymbolicLink),
                _ => Ok(Made { stat, changes: Vec::new() }),
            },
            Err(NameError::NotFound) => {
                let mode = mode::FILE | permissions & mode::PERMISSIONS;
                self.make(on, parent, name, New::Node { mode, device: 0 }, by)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `NotPermitted` for directories, `NotFound` for what has lost its last name, `Exists`,
    /// `NotDirectory`, `TooLong`, `Invalid`, `TooManyLinks`, `NoSpace`, `OtherVolume`, `Damaged`.
    pub fn link(
        &self,
        on: &impl Objects,
        object: ObjectId,
        (parent, name): (ObjectId, &[u8]),
        now_ns: i64,
    ) -> Result<Made, NameError> {
        entry::check_name(name)?;
        let mut draft = self.draft(on);
        draft.directory(parent)?;
        let inode = draft.inode(object)?;
        if inode.is_directory() {
            return Err(NameError::NotPermitted);
        }
        if inode.links == 0 {
            return Err(NameError::NotFound);
        }
        let kind = inode.kind();
        inode.changed_ns = now_ns;
        if entry::find(on, parent, name)?.is_some() {
            return Err(NameError::Exists);
        }
        add_link(draft.inode(object)?)?;
        draft.add_entry(parent, name, (object, kind))?;
        draft.touch_directory(parent, now_ns)?;
        let inode = *draft.inode(object)?;
        Ok(Made { stat: Stat { object, inode }, changes: draft.finish() })
    }

    fn first_inode(&self, directory: &Inode, parent: ObjectId, mode: u32, by: &Caller) -> Inode {
        let is_directory = mode & mode::KIND == mode::DIRECTORY;
        // what is made in a set-group directory belongs to its group, and so on below
        let of_group = directory.mode & mode::SET_GROUP != 0;
        let inherited = if of_group && is_directory { mode::SET_GROUP } else { 0 };
        Inode {
            mode: mode | inherited,
            uid: by.uid,
            gid: if of_group { directory.gid } else { by.gid },
            links: if is_directory { 2 } else { 1 },
            device: 0,
            size_bytes: 0,
            accessed_ns: by.now_ns,
            modified_ns: by.now_ns,
            changed_ns: by.now_ns,
            volume: self.root,
            parent: if is_directory { parent } else { ObjectId(0) },
            // an object without bytes has no tail
            tail_epoch: self.epoch,
        }
    }
}

/// Counts one name more.
pub(crate) fn add_link(inode: &mut Inode) -> Result<(), NameError> {
    if inode.links >= LINKS_MAX {
        return Err(NameError::TooManyLinks);
    }
    inode.links += 1;
    Ok(())
}

fn check_target(target: &[u8]) -> Result<(), NameError> {
    if target.len() > SYMLINK_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if target.is_empty() { Err(NameError::NotFound) } else { Ok(()) }
}

/// A directory's tier is that of what is made in it from then on.
fn inherit_tier<O: Objects>(draft: &mut Draft<'_, O>, parent: ObjectId, object: ObjectId) {
    let key = key::xattr(TIER_ATTRIBUTE);
    if let Some(tier) = draft.on.attribute(parent, &key) {
        draft.set(object, key, tier.to_vec());
    }
}
