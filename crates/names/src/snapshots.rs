//! Where are the snapshots of a volume of files, and how do they begin and go?
//!
//! Source: issue of tiers and caches ("snapshots of a file or volume (extents shared by reference)"). A
//! directory without a name, which is looked up in the root as `.snapshots` and never listed there, has one
//! directory for each snapshot: the volume as it was, in objects of its own that share all blocks of files.
//! They say that their volume is the snapshot's directory, so nothing that changes the volume reaches them.
//!
//! ```text
//!  root 1               .snapshots 40       the snapshot 41      a file of it 42
//!  ├ I  volume 1        ├ I  volume 40      ├ I  volume 41       ├ I  volume 41
//!  ├ S  → 40            ├ K  → 1            ├ K  → 1             └ (blocks that it shares)
//!  └ O  what is made    └ E  "monday" → 41  └ E  "a" → 42
//!       or goes
//! ```
//! One that is being made, or was deleted, is an orphan's record of the root and has no `K`: nobody sees it, and
//! it is cleared bit by bit.

use crate::draft::Draft;
use crate::entry;
use crate::error::NameError;
use crate::inode::{Inode, Kind, mode};
use crate::key;
use crate::make::Made;
use crate::objects::{Change, Objects};
use crate::tree::{Caller, Stat, Tree};
use tandem_block::ObjectId;

/// What leads from the root to the snapshots.
pub const SNAPSHOTS_NAME: &[u8] = b".snapshots";
/// Directories within each other above which they must be a circle: paths of 4 MiB.
const DEPTH_MAX: usize = 1 << 20;

impl Tree {
    /// The directory of the snapshots; `None` if nobody has made it (`mkdir .snapshots` in the root).
    ///
    /// # Errors
    /// `Damaged`.
    pub fn snapshots(&self, on: &impl Objects) -> Result<Option<ObjectId>, NameError> {
        let value = on.attribute(self.root, key::SNAPSHOTS);
        value.map(|value| key::object(value).ok_or(NameError::Damaged(self.root))).transpose()
    }

    /// Is this the name of that directory?
    pub(crate) fn is_for_snapshots(&self, directory: ObjectId, name: &[u8]) -> bool {
        directory == self.root && name == SNAPSHOTS_NAME
    }

    pub(crate) fn make_for_snapshots(
        &self,
        on: &impl Objects,
        permissions: u32,
        by: &Caller,
    ) -> Result<Made, NameError> {
        if self.snapshots(on)?.is_some() {
            return Err(NameError::Exists);
        }
        if on.space().free_objects == 0 {
            return Err(NameError::NoSpace);
        }
        let object = on.fresh_id();
        let inode = Inode {
            mode: mode::DIRECTORY | permissions & mode::PERMISSIONS,
            uid: by.uid,
            gid: by.gid,
            links: 2,
            device: 0,
            size_bytes: 0,
            accessed_ns: by.now_ns,
            modified_ns: by.now_ns,
            changed_ns: by.now_ns,
            volume: object,
            parent: self.root,
            tail_epoch: 0,
        };
        let set = |object, key: &[u8], value| Change::Set { object, key: key.to_vec(), value };
        let changes = vec![
            Change::Create { object, is_directory: true, volume: self.root },
            set(object, key::INODE, inode.encode()),
            set(object, key::KEPT, key::naming(self.root)),
            set(self.root, key::SNAPSHOTS, key::naming(object)),
        ];
        Ok(Made { stat: Stat { object, inode }, changes })
    }

    pub(crate) fn remove_for_snapshots(&self, on: &impl Objects) -> Result<Vec<Change>, NameError> {
        let object = self.snapshots(on)?.ok_or(NameError::NotFound)?;
        if entry::next(on, object, 0)?.is_some() {
            return Err(NameError::NotEmpty);
        }
        if self.is_held(object) {
            return Err(NameError::Busy);
        }
        let unset = Change::Unset { object: self.root, key: key::SNAPSHOTS.to_vec() };
        Ok(vec![unset, Change::Remove { object }])
    }

    /// Deletes a snapshot: nobody sees it any more, and [`Tree::clear_deleted`] gives back what it holds.
    ///
    /// # Errors
    /// `Busy` if something in it is open, `NotFound`, `TooLong`, `Invalid`, `Damaged`.
    pub fn delete_snapshot(
        &self,
        on: &impl Objects,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        entry::check_name(name)?;
        let directory = self.snapshots(on)?.ok_or(NameError::NotFound)?;
        let (position, entry) = entry::find(on, directory, name)?.ok_or(NameError::NotFound)?;
        let top = entry.object;
        let volume_of = |object| self.inode(on, object).map(|inode| inode.volume);
        if self.held().any(|object| volume_of(object) == Ok(top)) {
            return Err(NameError::Busy);
        }
        let mut draft = Draft::new(on, directory);
        let links = &mut draft.inode(directory)?.links;
        *links = links.checked_sub(1).ok_or(NameError::Damaged(directory))?;
        draft.touch_directory(directory, now_ns)?;
        draft.remove_entry(directory, position);
        draft.unset(top, key::KEPT.to_vec());
        let mut changes = draft.finish();
        let mut draft = Draft::new(on, top);
        draft.inode(top)?.links = 0;
        changes.extend(draft.finish());
        changes.push(self.note_unseen(top));
        Ok(changes)
    }

    /// Nobody sees this snapshot: not yet, or not any more.
    pub(crate) fn note_unseen(&self, top: ObjectId) -> Change {
        let (key, value) = (key::orphan(top), crate::volume::ORPHAN_VALUE.to_vec());
        Change::Set { object: self.root, key, value }
    }

    /// Gives back some of what deleted snapshots hold, `limit` names and directories at most. To be called
    /// until nothing is left to change; `except` is being made.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn clear_deleted(
        &self,
        on: &impl Objects,
        limit: usize,
        except: Option<ObjectId>,
    ) -> Result<Vec<Change>, NameError> {
        let mut after = key::orphan(ObjectId(0));
        while let Some((key, _)) = on.next_attribute(self.root, &after) {
            let Some(number) = key::number(key::ORPHAN, key) else { break };
            let object = ObjectId(number);
            if except != Some(object) && is_snapshot(on, object) {
                return self.clear(on, object, limit);
            }
            after = key.to_vec();
        }
        Ok(Vec::new())
    }

    fn clear(
        &self,
        on: &impl Objects,
        top: ObjectId,
        limit: usize,
    ) -> Result<Vec<Change>, NameError> {
        let mut draft = Draft::new(on, top);
        let mut levels = vec![Level { directory: top, at: 0, position: 0 }];
        let mut cleared = 0;
        while let Some(level) = levels.last_mut().filter(|_| cleared < limit) {
            let directory = level.directory;
            if let Some((position, entry)) = entry::next(on, directory, level.at)? {
                level.at = position;
                if entry.kind == Kind::Directory {
                    levels.push(Level { directory: entry.object, at: 0, position });
                    if levels.len() > DEPTH_MAX {
                        return Err(NameError::Damaged(directory));
                    }
                    continue;
                }
                let links = &mut draft.inode(entry.object)?.links;
                *links = links.checked_sub(1).ok_or(NameError::Damaged(entry.object))?;
                if *links == 0 {
                    draft.remove(entry.object);
                }
                draft.remove_entry(directory, position);
            } else {
                let Level { directory, position, .. } = levels.pop().expect("asked above");
                match levels.last() {
                    Some(above) => draft.remove_entry(above.directory, position),
                    None => draft.unset(self.root, key::orphan(top)),
                }
                draft.remove(directory);
            }
            cleared += 1;
        }
        Ok(draft.finish())
    }
}

/// A directory that is being cleared: where, and at which position it lies in the one above.
struct Level {
    directory: ObjectId,
    at: u64,
    position: u64,
}

/// Is this the directory of a snapshot, also of one that nobody sees?
pub(crate) fn is_snapshot(on: &impl Objects, object: ObjectId) -> bool {
    let inode = on.attribute(object, key::INODE).and_then(Inode::decode);
    inode.is_some_and(|inode| inode.volume == object)
}
