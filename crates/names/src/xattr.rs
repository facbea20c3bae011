//! Which extended attributes does a file have, and which may it have?
//!
//! Source: [LORIS §III] (attributes carry information between layers; each volume has its policy);
//! `user.tandem.tier` names one for a file, or for what will be made in a directory.

use crate::draft::Draft;
use crate::error::NameError;
use crate::inode::Kind;
use crate::key;
use crate::objects::{Change, Objects};
use crate::tree::Tree;
use tandem_block::ObjectId;

/// The tier of a file; of a directory: of what is made in it.
pub const TIER_ATTRIBUTE: &[u8] = b"user.tandem.tier";
/// Longest value in bytes.
pub const XATTR_VALUE_BYTES_MAX: usize = 4096;
/// Longest list of names in bytes, as Linux has it.
pub const XATTR_LIST_BYTES_MAX: usize = 65_536;
/// Longest name in bytes, as Linux has it.
const NAME_BYTES_MAX: usize = 255;
/// What begins like this is ours.
const OURS: &[u8] = b"user.tandem.";

/// What if the attribute is there already, or is not?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// It does not matter.
    #[default]
    Any,
    /// It must not be there (`XATTR_CREATE`).
    Create,
    /// It must be there (`XATTR_REPLACE`).
    Replace,
}

impl Tree {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Unsupported`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn xattr<'a>(
        &self,
        on: &'a impl Objects,
        object: ObjectId,
        name: &[u8],
    ) -> Result<&'a [u8], NameError> {
        self.inode(on, object)?;
        check_name(name)?;
        on.attribute(object, &key::xattr(name)).ok_or(NameError::NoAttribute)
    }

    /// The names of all, a NUL behind each.
    ///
    /// # Errors
    /// `NotFound`, `OtherVolume`, `Damaged`.
    pub fn xattr_list(&self, on: &impl Objects, object: ObjectId) -> Result<Vec<u8>, NameError> {
        self.inode(on, object)?;
        let mut list = Vec::new();
        let mut after = vec![key::XATTR];
        while let Some((key, _)) = on.next_attribute(object, &after) {
            let Some(name) = key.strip_prefix(&[key::XATTR]) else { break };
            list.extend_from_slice(name);
            list.push(0);
            after = key.to_vec();
        }
        Ok(list)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists` and `NoAttribute` as `mode` says, `AttributeTooLarge`, `Unsupported` (namespaces
    /// that are not kept, and tiers where there are none), `NotPermitted` (`user.` on what is neither file nor directory), `Invalid`
    /// (an unknown tier, or an unknown attribute of ours), `NotFound`, `OtherVolume`, `Damaged`.
    pub fn set_xattr(
        &self,
        on: &impl Objects,
        object: ObjectId,
        (name, value): (&[u8], &[u8]),
        mode: SetMode,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        let mut draft = self.change_xattr(on, object, name, now_ns)?;
        if name == TIER_ATTRIBUTE && self.tiers.is_empty() {
            return Err(NameError::Unsupported);
        }
        if name.starts_with(OURS) {
            let is_known = self.tiers.iter().any(|tier| tier.as_bytes() == value);
            if name != TIER_ATTRIBUTE || !is_known {
                return Err(NameError::Invalid);
            }
        }
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(NameError::AttributeTooLarge);
        }
        let key = key::xattr(name);
        let is_there = on.attribute(object, &key).is_some();
        match mode {
            SetMode::Create if is_there => return Err(NameError::Exists),
            SetMode::Replace if !is_there => return Err(NameError::NoAttribute),
            _ => {}
        }
        let listed = if is_there { 0 } else { self.xattr_list(on, object)?.len() };
        if listed + name.len() + 1 > XATTR_LIST_BYTES_MAX {
            return Err(NameError::AttributeTooLarge);
        }
        draft.set(object, key, value.to_vec());
        Ok(draft.finish())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Unsupported`, `NotPermitted`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn remove_xattr(
        &self,
        on: &impl Objects,
        object: ObjectId,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        let mut draft = self.change_xattr(on, object, name, now_ns)?;
        let key = key::xattr(name);
        if on.attribute(object, &key).is_none() {
            return Err(NameError::NoAttribute);
        }
        draft.unset(object, key);
        Ok(draft.finish())
    }

    fn change_xattr<'a, O: Objects>(
        &self,
        on: &'a O,
        object: ObjectId,
        name: &[u8],
        now_ns: i64,
    ) -> Result<Draft<'a, O>, NameError> {
        let mut draft = self.draft(on);
        let inode = draft.inode(object)?;
        inode.changed_ns = now_ns;
        let kind = inode.kind();
        check_name(name)?;
        let has_user = matches!(kind, Kind::File | Kind::Directory);
        if name.starts_with(b"user.") && !has_user {
            return Err(NameError::NotPermitted);
        }
        Ok(draft)
    }
}

fn check_name(name: &[u8]) -> Result<(), NameError> {
    let kept = [&b"user."[..], b"trusted.", b"security."];
    if !kept.iter().any(|space| name.starts_with(space)) {
        return Err(NameError::Unsupported);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::AttributeTooLarge);
    }
    let is_bare = kept.contains(&name);
    if is_bare || name.contains(&0) { Err(NameError::Invalid) } else { Ok(()) }
}
