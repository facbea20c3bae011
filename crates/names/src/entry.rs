//! How does a directory know a name, and in which order are names listed?
//!
//! An entry lies at a *position*, a hash of its name: the key of its attribute, and the cookie by
//! which a listing goes on. So a position never changes while the entry is there, whatever is made or
//! removed beside it. Where two names have one hash, the later one takes the next free position, at
//! most [`WINDOW`] - 1 further on; who looks for a name looks at all of these, so nothing has to be
//! moved when an entry goes. Sixteen names of a directory with one hash of 62 bits do not happen by
//! chance; to who makes them on purpose, the seventeenth is refused (`ENOSPC`).
//!
//! ```text
//!  value:  0 version = 1   1 kind (DT_*)   2 object, little-endian   10 name …
//! ```

use crate::error::NameError;
use crate::inode::Kind;
use crate::key;
use crate::objects::Objects;
use tandem_block::ObjectId;

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Positions at which a name may lie.
pub const WINDOW: u64 = 16;
/// Positions below are for `.` and `..`, and for the beginning.
pub const FIRST_POSITION: u64 = 16;
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 10;

/// What a directory says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Whose name it is.
    pub object: ObjectId,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: &'a [u8],
}

impl<'a> Entry<'a> {
    /// As the value of an attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.name.len());
        out.extend_from_slice(&[VERSION, self.kind as u8]);
        out.extend_from_slice(&self.object.0.to_le_bytes());
        out.extend_from_slice(self.name);
        out
    }

    /// From the value of an attribute; `None` if that is not an entry of this version.
    pub fn decode(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let (head, name) = bytes.split_at_checked(HEAD_BYTES)?;
        check_name(name).ok()?;
        let object = u64::from_le_bytes(head[2..].try_into().ok()?);
        let kind = Kind::from_number(head[1])?;
        (head[0] == VERSION).then_some(Entry { object: ObjectId(object), kind, name })
    }
}

/// Can this be a name?
pub fn check_name(name: &[u8]) -> Result<(), NameError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    let strange =
        matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| b"/\0".contains(byte));
    if strange { Err(NameError::Invalid) } else { Ok(()) }
}

/// The first position at which a name may lie: FNV-1a, mixed, its upper 62 bits. Part of the format.
pub fn position(name: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // FNV leaves the upper bits of short names alike; this is the last step of MurmurHash3
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    FIRST_POSITION + ((hash ^ (hash >> 33)) >> 2)
}

/// Position and entry of a name in a directory.
pub fn find<'a>(
    on: &'a impl Objects,
    directory: ObjectId,
    name: &[u8],
) -> Result<Option<(u64, Entry<'a>)>, NameError> {
    let first = position(name);
    let mut at = first;
    while let Some((found, entry)) = next(on, directory, at - 1)? {
        if found >= first + WINDOW {
            break;
        }
        if entry.name == name {
            return Ok(Some((found, entry)));
        }
        at = found + 1;
    }
    Ok(None)
}

/// A free position for a name that is not in the directory.
pub fn free_position(
    on: &impl Objects,
    directory: ObjectId,
    name: &[u8],
) -> Result<u64, NameError> {
    let first = position(name);
    let is_free = |position: &u64| on.attribute(directory, &key::entry(*position)).is_none();
    (first..first + WINDOW).find(is_free).ok_or(NameError::NoSpace)
}

/// The first entry behind a position.
pub fn next(
    on: &impl Objects,
    directory: ObjectId,
    after: u64,
) -> Result<Option<(u64, Entry<'_>)>, NameError> {
    let Some((key, value)) = on.next_attribute(directory, &key::entry(after)) else {
        return Ok(None);
    };
    if key.first() != Some(&key::ENTRY) {
        return Ok(None);
    }
    let position = key::number(key::ENTRY, key).ok_or(NameError::Damaged(directory))?;
    let entry = Entry::decode(value).ok_or(NameError::Damaged(directory))?;
    Ok(Some((position, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::objects::Change;

    #[test]
    fn bytes_are_as_they_were() {
        let entry = Entry { object: ObjectId(0x0102), kind: Kind::Directory, name: b"n\xff" };
        assert_eq!(entry.encode(), b"\x01\x04\x02\x01\0\0\0\0\0\0n\xff");
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
    }

    /// An entry is looked for where it was put.
    #[test]
    fn positions_are_as_they_were() {
        let found = [&b"a"[..], b"b", b"Makefile", &[0xff; 255]].map(position);
        let golden = [
            2_353_318_092_356_957_094,
            1_988_845_707_113_706_692,
            1_473_490_888_412_825_700,
            514_503_902_798_818_474,
        ];
        assert_eq!(found, golden);
    }

    /// Names whose positions are taken lie behind, are found there, and when there is no room left
    /// are refused.
    #[test]
    fn names_of_one_position_lie_side_by_side() {
        let (mut store, directory) = (Memory::default(), ObjectId(1));
        store
            .commit(&[Change::Create { object: directory, is_directory: true, volume: directory }])
            .unwrap();
        let put = |store: &mut Memory, position, name: &[u8]| {
            let value = Entry { object: ObjectId(position), kind: Kind::File, name }.encode();
            let key = key::entry(position);
            store.commit(&[Change::Set { object: directory, key, value }]).unwrap();
        };
        let first = position(b"a");
        put(&mut store, first - 1, b"before");
        for at in first..first + WINDOW {
            assert_eq!(find(&store, directory, b"a"), Ok(None));
            assert_eq!(free_position(&store, directory, b"a"), Ok(at));
            let mut full = store.clone();
            put(&mut full, at, b"a");
            let found = find(&full, directory, b"a").unwrap().map(|(position, _)| position);
            assert_eq!(found, Some(at));
            put(&mut store, at, b"other");
        }
        assert_eq!(free_position(&store, directory, b"a"), Err(NameError::NoSpace));
        put(&mut store, first + WINDOW, b"a");
        assert_eq!(find(&store, directory, b"a"), Ok(None), "nobody looks so far");
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let entry = Entry { object: ObjectId(2), kind: Kind::File, name: b"n" };
        let sound = entry.encode();
        for (at, value) in [(0, 2), (1, 3), (10, b'/'), (10, 0), (10, b'.')] {
            let mut bytes = sound.clone();
            bytes[at] = value;
            assert_eq!(Entry::decode(&bytes), None, "byte {at} = {value}");
        }
        for length in 0..sound.len() {
            assert_eq!(Entry::decode(&sound[..length]), None);
        }
        assert_eq!(Entry::decode(&[&sound[..], &[b'x'; 255]].concat()), None, "256 bytes");
    }
}
