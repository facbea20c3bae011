//! How does a volume begin, and what is done when it is mounted and unmounted?
//!
//! ```text
//!  value of V:  0 version = 1   1 unmounted cleanly: 0, 1   2 epoch, little-endian   6 end
//! ```

use crate::draft::Draft;
use crate::error::NameError;
use crate::inode::{Inode, mode};
use crate::key;
use crate::objects::{Change, Objects, Space};
use crate::snapshots::is_snapshot;
use crate::tree::{Caller, Tree};
use tandem_block::ObjectId;

const VERSION: u8 = 1;
const BYTES: usize = 6;
/// The value of an orphan's record.
pub(crate) const ORPHAN_VALUE: &[u8] = &[VERSION];

/// What the root of a volume says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeMark {
    /// Nobody has it mounted, and who had it said goodbye.
    pub is_clean: bool,
    /// Counts mounts after crashes, from 1.
    pub epoch: u32,
}

impl VolumeMark {
    /// As the value of an attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.is_clean)];
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out
    }

    /// From the value of an attribute; `None` if that is not a volume of this version.
    pub fn decode(bytes: &[u8]) -> Option<VolumeMark> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let epoch = u32::from_le_bytes(bytes[2..].try_into().ok()?);
        let sound = bytes[0] == VERSION && bytes[1] <= 1 && epoch > 0;
        sound.then_some(VolumeMark { is_clean: bytes[1] == 1, epoch })
    }

    /// What the root of a volume says; `None` if the object is no root.
    pub fn of(on: &impl Objects, root: ObjectId) -> Option<Result<VolumeMark, NameError>> {
        let bytes = on.attribute(root, key::VOLUME)?;
        Some(VolumeMark::decode(bytes).ok_or(NameError::Damaged(root)))
    }
}

/// Sizes of a volume, for `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// Room in bytes and objects.
    pub space: Space,
    /// Longest name in bytes.
    pub name_bytes_max: u32,
}

impl Tree {
    /// A new volume: what makes an object without attributes its root, the volume's own object.
    pub fn format(root: ObjectId, permissions: u32, owner: &Caller) -> Vec<Change> {
        let now_ns = owner.now_ns;
        let inode = Inode {
            mode: mode::DIRECTORY | permissions & mode::PERMISSIONS,
            uid: owner.uid,
            gid: owner.gid,
            links: 2,
            device: 0,
            size_bytes: 0,
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
            volume: root,
            parent: root,
            tail_epoch: 0,
        };
        let mark = VolumeMark { is_clean: true, epoch: 1 };
        let set = |key: &[u8], value| Change::Set { object: root, key: key.to_vec(), value };
        vec![set(key::INODE, inode.encode()), set(key::VOLUME, mark.encode())]
    }

    /// Mounts a volume. The changes must be *durable*, not only applied, before anything else is
    /// done: they say that it is in use, so that the next mount after a crash trusts no end of a file.
    /// `tiers` is what `user.tandem.tier` may say.
    ///
    /// # Errors
    /// `NotFound` if the object is no root of a volume, `Damaged`.
    pub fn mount(
        on: &impl Objects,
        root: ObjectId,
        tiers: &[&str],
    ) -> Result<(Tree, Vec<Change>), NameError> {
        let mark = VolumeMark::of(on, root).ok_or(NameError::NotFound)??;
        let epoch = if mark.is_clean {
            mark.epoch
        } else {
            mark.epoch.checked_add(1).ok_or(NameError::Damaged(root))?
        };
        let tree = Tree::new(root, epoch, tiers);
        tree.directory(on, root)?;
        let changes = tree.mark(false);
        Ok((tree, changes))
    }

    /// The last changes, to be made durable when everything else was applied and released.
    pub fn unmount(self) -> Vec<Change> {
        self.mark(true)
    }

    fn mark(&self, is_clean: bool) -> Vec<Change> {
        let value = VolumeMark { is_clean, epoch: self.epoch }.encode();
        vec![Change::Set { object: self.root, key: key::VOLUME.to_vec(), value }]
    }

    /// Removes files that had no name when the last mount ended, at most `limit` at a time. To be
    /// called after mounting until nothing is left to change, before anything is opened.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn reap(&self, on: &impl Objects, limit: usize) -> Result<Vec<Change>, NameError> {
        let mut draft = self.draft(on);
        let mut after = key::orphan(ObjectId(0));
        let mut reaped = 0;
        while reaped < limit {
            let Some((key, _)) = on.next_attribute(self.root, &after) else { break };
            if key.first() != Some(&key::ORPHAN) {
                break;
            }
            let object = key::number(key::ORPHAN, key).ok_or(NameError::Damaged(self.root))?;
            let object = ObjectId(object);
            if is_snapshot(on, object) {
                // bit by bit: `clear_deleted`
                after = key.to_vec();
                continue;
            }
            reaped += 1;
            assert!(!self.is_held(object), "orphans of the last mount are reaped first");
            if draft.inode(object)?.links != 0 {
                return Err(NameError::Damaged(object));
            }
            draft.remove(object);
            draft.unset(self.root, key.to_vec());
            after = key.to_vec();
        }
        Ok(draft.finish())
    }

    /// Sizes of the volume.
    pub fn statfs(&self, on: &impl Objects) -> FsStat {
        let name_bytes_max = crate::NAME_BYTES_MAX as u32;
        FsStat { space: on.space(), name_bytes_max }
    }

    /// What has lost its last name goes: at once, or when nobody holds it any more.
    pub(crate) fn bury<O: Objects>(&self, draft: &mut Draft<'_, O>, object: ObjectId) {
        if self.is_held(object) {
            draft.set(self.root, key::orphan(object), ORPHAN_VALUE.to_vec());
        } else {
            draft.remove(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_they_were() {
        let mark = VolumeMark { is_clean: true, epoch: 0x0102 };
        assert_eq!(mark.encode(), [1, 1, 2, 1, 0, 0]);
        assert_eq!(VolumeMark::decode(&mark.encode()), Some(mark));
        for bytes in [&[2, 1, 2, 1, 0, 0][..], &[1, 2, 2, 1, 0, 0], &[1, 1, 0, 0, 0, 0], &[1, 1]] {
            assert_eq!(VolumeMark::decode(bytes), None);
        }
    }
}
