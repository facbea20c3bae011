//! Which attribute of an object says what? The first byte of its key does.

use tandem_block::ObjectId;

/// An entry of a directory: position, big-endian, so that keys sort by it.
pub const ENTRY: u8 = b'E';
/// The inode.
pub const INODE: &[u8] = b"I";
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
