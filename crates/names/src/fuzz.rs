//! Which decoders here read bytes that somebody else wrote?
//!
//! Attributes are read back from drives. Each function decodes any bytes; what it understands, it must
//! write again as the same bytes.

use crate::entry::Entry;
use crate::inode::{Inode, Kind, mode};
use crate::key;
use crate::volume::VolumeMark;
use tandem_block::ObjectId;

/// An inode; false if it is none.
pub fn inode(bytes: &[u8]) -> bool {
    let found = Inode::decode(bytes);
    found.is_some_and(|inode| same(&inode.encode(), bytes))
}

/// An entry of a directory; false if it is none.
pub fn entry(bytes: &[u8]) -> bool {
    let found = Entry::decode(bytes);
    found.is_some_and(|entry| same(&entry.encode(), bytes))
}

/// What a volume's root says; false if it is none.
pub fn volume(bytes: &[u8]) -> bool {
    let found = VolumeMark::decode(bytes);
    found.is_some_and(|mark| same(&mark.encode(), bytes))
}

/// Where the snapshots of a volume are, or whose they are; false if it does not say.
pub fn naming(bytes: &[u8]) -> bool {
    let found = key::object(bytes);
    found.is_some_and(|object| same(&key::naming(object), bytes))
}

/// Sound ones to begin with.
pub fn sound_namings() -> Vec<Vec<u8>> {
    vec![key::naming(ObjectId(77))]
}

fn same(encoded: &[u8], bytes: &[u8]) -> bool {
    assert_eq!(encoded, bytes, "what is understood is written as it was read");
    true
}

/// Sound inodes to begin with.
pub fn sound_inodes() -> Vec<Vec<u8>> {
    let inode = |mode, size_bytes| Inode {
        mode,
        uid: 1000,
        gid: 100,
        links: 2,
        device: 0,
        size_bytes,
        accessed_ns: 1,
        modified_ns: -1,
        changed_ns: i64::MAX,
        volume: ObjectId(1),
        parent: ObjectId(2),
        tail_epoch: 3,
    };
    let (file, directory) = (mode::FILE | 0o4755, mode::DIRECTORY | 0o1777);
    vec![inode(file, 1 << 40).encode(), inode(directory, 0).encode()]
}

/// Sound entries to begin with.
pub fn sound_entries() -> Vec<Vec<u8>> {
    let entry = |kind, name| Entry { object: ObjectId(77), kind, name }.encode();
    vec![entry(Kind::File, b"a"), entry(Kind::Symlink, &[0xff; 255])]
}

/// Sound marks of volumes to begin with.
pub fn sound_volumes() -> Vec<Vec<u8>> {
    vec![VolumeMark { is_clean: true, epoch: 1 }.encode()]
}
