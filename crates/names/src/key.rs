//! Which attribute of an object says what? The first byte of its key does.

use tandem_block::ObjectId;

/// An entry of a directory: position, big-endian, so that keys sort by it.
pub const ENTRY: u8 = b'E';
/// The inode.
pub const INODE: &[u8] = b"I";
/// At a directory whose inode says that it is a volume, and is none but read-only: whose it is.
pub const KEPT: &[u8] = b"K";
/// At a volume's root: the directory of its snapshots.
pub const SNAPSHOTS: &[u8] = b"S";
/// The target of a symbolic link.
pub const TARGET: &[u8] = b"L";
/// At a volume's root: an object without a name that was still open, its id big-endian.
pub const ORPHAN: u8 = b'O';
/// At a volume's root: that it is one.
pub const VOLUME: &[u8] = b"V";
/// An extended attribute: its name.
pub const XATTR: u8 = b'X';

/// The extended attribute in which Linux keeps what a program may do.
pub const CAPABILITY: &[u8] = b"Xsecurity.capability";

/// Of values that name an object.
const NAMING_VERSION: u8 = 1;

/// The key of the entry at `position`.
pub fn entry(position: u64) -> Vec<u8> {
    with_number(ENTRY, position)
}

/// The key of the record of an orphan.
pub fn orphan(object: ObjectId) -> Vec<u8> {
    with_number(ORPHAN, object.0)
}

/// The key of an extended attribute.
pub fn xattr(name: &[u8]) -> Vec<u8> {
    let mut key = vec![XATTR];
    key.extend_from_slice(name);
    key
}

/// The number in a key of this tag; `None` if it is another tag's.
pub fn number(tag: u8, key: &[u8]) -> Option<u64> {
    let rest = key.strip_prefix(&[tag])?;
    Some(u64::from_be_bytes(rest.try_into().ok()?))
}

/// The value of an attribute that names an object.
pub fn naming(object: ObjectId) -> Vec<u8> {
    [&[NAMING_VERSION][..], &object.0.to_le_bytes()].concat()
}

/// The object that such a value names; `None` if it is not of this version.
pub fn object(value: &[u8]) -> Option<ObjectId> {
    let number = value.strip_prefix(&[NAMING_VERSION])?.try_into().ok()?;
    Some(ObjectId(u64::from_le_bytes(number)))
}

fn with_number(tag: u8, number: u64) -> Vec<u8> {
    let mut key = vec![tag];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine looks for it there.
    #[test]
    fn the_tier_is_where_the_engine_looks_for_it() {
        assert_eq!(xattr(crate::xattr::TIER_ATTRIBUTE), tandem_block::TIER_KEY);
    }
}
