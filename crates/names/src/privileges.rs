//! Which privileges does a file lose when somebody changes it?
//!
//! Source: capabilities(7), chown(2), write(2), and `FUSE_HANDLE_KILLPRIV_V2` of
//! `include/uapi/linux/fuse.h`, by which the kernel leaves to a file system what it would otherwise ask
//! before every single write. A program that runs with more rights than its caller has must not keep
//! them when others have changed it.

use crate::draft::Draft;
use crate::error::NameError;
use crate::inode::{Inode, Kind, mode};
use crate::key;
use crate::objects::Objects;
use tandem_block::ObjectId;

/// What a change takes from a file, besides what it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strip {
    /// Nothing: the kernel has seen to it.
    #[default]
    Nothing,
    /// Its capabilities: who changes it may give it the bits of its mode again.
    Capabilities,
    /// Capabilities, set-user-ID, and set-group-ID where the group may execute it.
    All,
}

/// Has a regular file anything of this? Others keep what they have.
pub fn has_any(on: &impl Objects, object: ObjectId, inode: &Inode, strip: Strip) -> bool {
    strip != Strip::Nothing
        && inode.kind() == Kind::File
        && (bits(inode, strip) != 0 || on.attribute(object, key::CAPABILITY).is_some())
}

/// Bits of a mode that go.
fn bits(inode: &Inode, strip: Strip) -> u32 {
    let of_group = mode::SET_GROUP | mode::GROUP_EXECUTES;
    let has_group = inode.mode & of_group == of_group;
    let bits = mode::SET_USER | if has_group { mode::SET_GROUP } else { 0 };
    if strip == Strip::All { inode.mode & bits } else { 0 }
}

impl<O: Objects> Draft<'_, O> {
    /// Takes privileges from a regular file.
    pub fn strip(&mut self, object: ObjectId, strip: Strip) -> Result<(), NameError> {
        let on = self.on;
        let inode = self.inode(object)?;
        if has_any(on, object, inode, strip) {
            inode.mode &= !bits(inode, strip);
            if on.attribute(object, key::CAPABILITY).is_some() {
                self.unset(object, key::CAPABILITY.to_vec());
            }
        }
        Ok(())
    }
}
