//! What does the end of a name change?

use crate::draft::Draft;
use crate::entry;
use crate::error::NameError;
use crate::inode::Kind;
use crate::objects::{Change, Objects};
use crate::tree::Tree;
use tandem_block::ObjectId;

impl Tree {
    /// Takes a name from a file that is no directory; with its last name it goes, or, while
    /// somebody holds it, becomes an orphan.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`, `NotDirectory`, `TooLong`, `Invalid`, `OtherVolume`, `Damaged`.
    pub fn unlink(
        &self,
        on: &impl Objects,
        parent: ObjectId,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        self.take_name(on, parent, name, false, now_ns)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `Busy` (that of snapshots, if it is open), `NotDirectory`, `NotFound`, `TooLong`, `Invalid`, `OtherVolume`, `Damaged`.
    pub fn rmdir(
        &self,
        on: &impl Objects,
        parent: ObjectId,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        self.take_name(on, parent, name, true, now_ns)
    }

    fn take_name(
        &self,
        on: &impl Objects,
        parent: ObjectId,
        name: &[u8],
        of_directory: bool,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        entry::check_name(name)?;
        let mut draft = self.draft(on);
        draft.directory(parent)?;
        let found = entry::find(on, parent, name)?;
        if found.is_none() && self.is_for_snapshots(parent, name) {
            return match of_directory {
                true => self.remove_for_snapshots(on),
                false => Err(NameError::IsDirectory),
            };
        }
        let (position, entry) = found.ok_or(NameError::NotFound)?;
        match entry.kind == Kind::Directory {
            true if !of_directory => return Err(NameError::IsDirectory),
            false if of_directory => return Err(NameError::NotDirectory),
            _ => {}
        }
        self.lose_name(&mut draft, parent, entry.object, now_ns)?;
        draft.remove_entry(parent, position);
        draft.touch_directory(parent, now_ns)?;
        Ok(draft.finish())
    }

    /// What a file and its directory lose with a name, besides the entry.
    pub(crate) fn lose_name<O: Objects>(
        &self,
        draft: &mut Draft<'_, O>,
        parent: ObjectId,
        object: ObjectId,
        now_ns: i64,
    ) -> Result<(), NameError> {
        let inode = draft.inode(object)?;
        inode.changed_ns = now_ns;
        if inode.is_directory() {
            if entry::next(draft.on, object, 0)?.is_some() {
                return Err(NameError::NotEmpty);
            }
            draft.inode(object)?.links = 0;
            let parent_inode = draft.inode(parent)?;
            parent_inode.links =
                parent_inode.links.checked_sub(1).ok_or(NameError::Damaged(parent))?;
        } else {
            inode.links = inode.links.checked_sub(1).ok_or(NameError::Damaged(object))?;
        }
        if draft.inode(object)?.links == 0 {
            self.bury(draft, object);
        }
        Ok(())
    }
}
