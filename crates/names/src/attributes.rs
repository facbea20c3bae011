//! What does it change to set the attributes of a file, its size among them?

use crate::data::FILE_BYTES_MAX;
use crate::draft::Draft;
use crate::error::NameError;
use crate::inode::{Kind, mode};
use crate::objects::{Change, Objects};
use crate::privileges::Strip;
use crate::tree::Tree;
use tandem_block::{BLOCK_BYTES, ObjectId};

/// A day: what was not read for so long gets a new time of access in any case.
const DAY_NS: i64 = 86_400_000_000_000;

/// What shall be set; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permissions; the kind stays.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size of a file in bytes.
    pub size_bytes: Option<u64>,
    /// Time of access, in nanoseconds since 1970.
    pub accessed_ns: Option<i64>,
    /// Time of change of the contents, in nanoseconds since 1970.
    pub modified_ns: Option<i64>,
    /// What it loses by that.
    pub strip: Strip,
}

impl Tree {
    /// Sets attributes. Before a file grows, [`Tree::stale_tail`] must have nothing to say.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` (the size of what has none), `FileTooLarge`, `NotFound`,
    /// `OtherVolume`, `Damaged`.
    ///
    /// # Panics
    /// If the file grows and its tail is stale.
    pub fn set_attributes(
        &self,
        on: &impl Objects,
        object: ObjectId,
        set: &SetAttributes,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        let mut draft = self.draft(on);
        if let Some(size_bytes) = set.size_bytes {
            self.set_size(&mut draft, object, size_bytes)?;
            draft.inode(object)?.modified_ns = now_ns;
        }
        draft.strip(object, set.strip)?;
        let inode = draft.inode(object)?;
        if let Some(permissions) = set.mode {
            inode.mode = inode.mode & mode::KIND | permissions & mode::PERMISSIONS;
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.accessed_ns = set.accessed_ns.unwrap_or(inode.accessed_ns);
        inode.modified_ns = set.modified_ns.unwrap_or(inode.modified_ns);
        inode.changed_ns = now_ns;
        Ok(draft.finish())
    }

    fn set_size<O: Objects>(
        &self,
        draft: &mut Draft<'_, O>,
        object: ObjectId,
        size_bytes: u64,
    ) -> Result<(), NameError> {
        let before = self.file(draft.on, object)?;
        if size_bytes > FILE_BYTES_MAX {
            return Err(NameError::FileTooLarge);
        }
        let room = draft.on.size_bytes(object).ok_or(NameError::NotFound)?;
        let blocks = size_bytes.next_multiple_of(BLOCK_BYTES);
        if size_bytes > before.size_bytes {
            let tail = self.stale_tail(draft.on, object, size_bytes)?;
            assert!(tail.is_none(), "a file grows only over zeroes");
            if blocks > room {
                draft.resize(object, blocks);
            }
            draft.inode(object)?.tail_epoch = self.epoch;
        } else if size_bytes < before.size_bytes {
            if blocks < room {
                draft.resize(object, blocks);
            }
            // nothing is left behind the end, or the rest of a block
            let is_whole = size_bytes == blocks;
            draft.inode(object)?.tail_epoch = if is_whole { self.epoch } else { 0 };
        }
        draft.inode(object)?.size_bytes = size_bytes;
        Ok(())
    }

    /// Something was read. As `relatime`: the time is kept only where it tells something, because
    /// otherwise every read would be a write.
    ///
    /// # Errors
    /// `NotFound`, `OtherVolume`, `Damaged`.
    pub fn accessed(
        &self,
        on: &impl Objects,
        object: ObjectId,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        let mut draft = self.draft(on);
        let inode = draft.inode(object)?;
        let last_change = inode.modified_ns.max(inode.changed_ns);
        let is_old = now_ns.saturating_sub(inode.accessed_ns) >= DAY_NS;
        if inode.links > 0 && (inode.accessed_ns <= last_change || is_old) {
            inode.accessed_ns = now_ns;
        }
        Ok(draft.finish())
    }

    /// May this be read and written as bytes?
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn check_file(&self, on: &impl Objects, object: ObjectId) -> Result<(), NameError> {
        self.file(on, object).map(|inode| assert_eq!(inode.kind(), Kind::File))
    }
}
