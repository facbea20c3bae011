//! What is known of a file besides its bytes, and how is it laid into an attribute?
//!
//! ```text
//!  0 version = 1     13 links         25 size          49 changed     65 parent
//!  1 mode            17 device        33 accessed      57 volume      73 tail epoch
//!  5 owner  9 group  21 reserved = 0  41 modified                     77 end
//! ```
//! Numbers are little-endian, times nanoseconds since 1970, signed.

use tandem_block::ObjectId;

const VERSION: u8 = 1;
/// Bytes of an encoded inode.
const BYTES: usize = 77;

/// Bits of a mode.
pub mod mode {
    /// Where the kind of a file stands.
    pub const KIND: u32 = 0o170_000;
    /// A directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// A regular file.
    pub const FILE: u32 = 0o100_000;
    /// A symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// Permissions and the bits set-user, set-group and sticky.
    pub const PERMISSIONS: u32 = 0o7777;
    /// Set-user: a program runs as its owner.
    pub const SET_USER: u32 = 0o4000;
    /// The group may execute it.
    pub const GROUP_EXECUTES: u32 = 0o010;
    /// Set-group: what is made in such a directory belongs to its group.
    pub const SET_GROUP: u32 = 0o2000;
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A pipe with a name.
    Fifo = 1,
    /// A character device.
    Character = 2,
    /// A directory.
    Directory = 4,
    /// A block device.
    Block = 6,
    /// A regular file.
    File = 8,
    /// A symbolic link.
    Symlink = 10,
    /// A socket with a name.
    Socket = 12,
}

impl Kind {
    /// By the number that directory listings use (`DT_*`); a mode has it in its top four bits.
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            1 => Kind::Fifo,
            2 => Kind::Character,
            4 => Kind::Directory,
            6 => Kind::Block,
            8 => Kind::File,
            10 => Kind::Symlink,
            12 => Kind::Socket,
            _ => return None,
        })
    }

    /// The kind in a mode.
    pub fn of_mode(mode: u32) -> Option<Kind> {
        u8::try_from(mode >> 12).ok().and_then(Kind::from_number)
    }
}

/// All that `stat` says of a file, and a little more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names of it; for a directory 2 and one for each directory in it; 0 for what was unlinked.
    pub links: u32,
    /// Of a device: which.
    pub device: u32,
    /// Exact size: bytes of a file, of a symbolic link's target, else 0.
    pub size_bytes: u64,
    /// Last read, in nanoseconds since 1970.
    pub accessed_ns: i64,
    /// Last change of the contents, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Last change of anything, in nanoseconds since 1970.
    pub changed_ns: i64,
    /// The root of its volume.
    pub volume: ObjectId,
    /// Of a directory: where it is (the root is in itself); else 0.
    pub parent: ObjectId,
    /// Of a file: the volume's epoch in which the bytes from its end to the object's end were known
    /// to be zeroes, durably; 0 if they are not.
    pub tail_epoch: u32,
}

impl Inode {
    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind::of_mode(self.mode).expect("checked when it was made and when it was decoded")
    }

    /// Is it a directory?
    pub fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory
    }

    /// As the value of an attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.push(VERSION);
        for number in [self.mode, self.uid, self.gid, self.links, self.device, 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.size_bytes.to_le_bytes());
        for time in [self.accessed_ns, self.modified_ns, self.changed_ns] {
            out.extend_from_slice(&time.to_le_bytes());
        }
        for object in [self.volume, self.parent] {
            out.extend_from_slice(&object.0.to_le_bytes());
        }
        out.extend_from_slice(&self.tail_epoch.to_le_bytes());
        assert_eq!(out.len(), BYTES, "the layout is as drawn");
        out
    }

    /// From the value of an attribute; `None` if that is not an inode of this version.
    pub fn decode(bytes: &[u8]) -> Option<Inode> {
        if bytes.len() != BYTES || bytes[0] != VERSION || u32_at(bytes, 21) != 0 {
            return None;
        }
        let time = |at| u64_at(bytes, at).cast_signed();
        let inode = Inode {
            mode: u32_at(bytes, 1),
            uid: u32_at(bytes, 5),
            gid: u32_at(bytes, 9),
            links: u32_at(bytes, 13),
            device: u32_at(bytes, 17),
            size_bytes: u64_at(bytes, 25),
            accessed_ns: time(33),
            modified_ns: time(41),
            changed_ns: time(49),
            volume: ObjectId(u64_at(bytes, 57)),
            parent: ObjectId(u64_at(bytes, 65)),
            tail_epoch: u32_at(bytes, 73),
        };
        Kind::of_mode(inode.mode).map(|_| inode)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the length was checked"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the length was checked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Inode {
        Inode {
            mode: 0o100_644,
            uid: 1000,
            gid: 100,
            links: 2,
            device: 0x0801,
            size_bytes: 0x0102_0304_0506,
            accessed_ns: 1,
            modified_ns: -2,
            changed_ns: 1_700_000_000_000_000_003,
            volume: ObjectId(7),
            parent: ObjectId(8),
            tail_epoch: 9,
        }
    }

    /// What lies on drives today must be read tomorrow.
    #[test]
    fn bytes_are_as_they_were() {
        let golden = "01 a4810000 e8030000 64000000 02000000 01080000 00000000 060504030201 0000 \
                      0100000000000000 feffffffffffffff 03002a36fe9c9717 0700000000000000 \
                      0800000000000000 09000000";
        let hex: String = sample().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden.replace(' ', ""));
        assert_eq!(Inode::decode(&sample().encode()), Some(sample()));
    }

    #[test]
    fn what_is_no_inode_is_refused() {
        let sound = sample().encode();
        for (at, value) in [(0, 0), (0, 2), (2, 0x30), (21, 1)] {
            let mut bytes = sound.clone();
            bytes[at] = value;
            assert_eq!(Inode::decode(&bytes), None, "byte {at} = {value}");
        }
        assert_eq!(Inode::decode(&sound[..BYTES - 1]), None);
        assert_eq!(Inode::decode(&[sound, vec![0]].concat()), None);
    }
}
