//! What does the kernel ask of a whole file system?
//!
//! Source: `include/uapi/linux/fuse.h`, protocol 7.31 and later, in the machine's own byte order. A
//! message is understood within its own bytes, or refused with the errno that makes the kernel go on
//! without.

use super::super::wire::{HEADER_BYTES, WRITE_HEAD_BYTES, errno, is_write};
use rustix::fs::OFlags;
use tandem_names::{SetAttributes, Strip};

/// What every message says first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Names the request; echoed in its reply.
    pub unique: u64,
    /// Which file or directory.
    pub node: u64,
    /// On whose behalf.
    pub uid: u32,
    /// Of which group.
    pub gid: u32,
}

/// A name within a message.
pub type Name = Vec<u8>;

/// A call, with everything that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Which node has this name?
    Lookup(Name),
    /// Attributes.
    GetAttr,
    /// Change of attributes.
    SetAttr(Set),
    /// Target of a symbolic link.
    ReadLink,
    /// A symbolic link.
    Symlink {
        /// Its name.
        name: Name,
        /// Where it leads.
        target: Vec<u8>,
    },
    /// A file of any kind but a directory.
    Make {
        /// Its name.
        name: Name,
        /// Kind and permissions.
        mode: u32,
        /// Of a device: which.
        device: u32,
    },
    /// A directory.
    MakeDir {
        /// Its name.
        name: Name,
        /// Permissions.
        mode: u32,
    },
    /// A name goes.
    Unlink(Name),
    /// An empty directory goes.
    RmDir(Name),
    /// Another name.
    Rename {
        /// What it is called.
        name: Name,
        /// The directory of its new name.
        directory: u64,
        /// What it will be called.
        to: Name,
        /// Of `renameat2`.
        flags: u32,
    },
    /// One name more for a node.
    Link {
        /// Which.
        node: u64,
        /// What it will be called, too.
        name: Name,
    },
    /// Open a file or directory.
    Open {
        /// `O_DIRECT` and the like.
        flags: u32,
    },
    /// Open a file that is made if it is not there.
    Create {
        /// Its name.
        name: Name,
        /// `O_EXCL`, `O_DIRECT` and the like.
        flags: u32,
        /// Permissions.
        mode: u32,
    },
    /// Bytes of a file.
    Read {
        /// First byte.
        offset: u64,
        /// How many at most.
        size: u32,
    },
    /// New bytes of a file.
    Write {
        /// Where, and by whom.
        head: WriteHead,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Names of a directory.
    ReadDir {
        /// The cookie behind which to go on.
        cookie: u64,
        /// Bytes of the answer at most.
        size: u32,
    },
    /// Sizes of the file system.
    StatFs,
    /// Closed by its last user.
    Release,
    /// Make everything durable.
    Sync,
    /// Set an extended attribute.
    SetXattr {
        /// Its name.
        name: Name,
        /// Its value.
        value: Vec<u8>,
        /// `XATTR_CREATE` 1, `XATTR_REPLACE` 2.
        flags: u32,
    },
    /// The value of an extended attribute, or its size if `size` is 0.
    GetXattr {
        /// Its name.
        name: Name,
        /// Bytes that the caller takes.
        size: u32,
    },
    /// The names of extended attributes, or their size if `size` is 0.
    ListXattr {
        /// Bytes that the caller takes.
        size: u32,
    },
    /// An extended attribute goes.
    RemoveXattr(Name),
    /// Allocate, zero or discard.
    Allocate {
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
        /// `FALLOC_FL_*`.
        mode: u32,
    },
    /// Bytes of a file for another one.
    Copy(Copy),
    /// Nothing to do, and success.
    Fine,
    /// Nothing to do, and nobody waits.
    Silent,
    /// Refused with this errno.
    Refused(i32),
}

/// What a copy says besides whose bytes they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// The first of them.
    pub offset: u64,
    /// Which node gets them.
    pub to: u64,
    /// Where.
    pub to_offset: u64,
    /// How many at most.
    pub length: u64,
}

/// What a write says besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteHead {
    /// First byte.
    pub offset: u64,
    /// The open file's flags (`O_DSYNC`).
    pub flags: u32,
    /// The writer may not leave the bits set-user-ID and set-group-ID as they are.
    pub strips: bool,
}

impl WriteHead {
    /// Shall it be durable before it is answered?
    pub fn is_durable(&self) -> bool {
        // `O_SYNC` includes it
        self.flags & OFlags::DSYNC.bits() != 0
    }
}

/// Bits of `FATTR_*` that say what is set.
pub mod set {
    /// Permissions.
    pub const MODE: u32 = 1;
    /// Owner.
    pub const UID: u32 = 1 << 1;
    /// Group.
    pub const GID: u32 = 1 << 2;
    /// Size.
    pub const SIZE: u32 = 1 << 3;
    /// Time of access.
    pub const ATIME: u32 = 1 << 4;
    /// Time of change.
    pub const MTIME: u32 = 1 << 5;
    /// Time of access: now.
    pub const ATIME_NOW: u32 = 1 << 7;
    /// Time of change: now.
    pub const MTIME_NOW: u32 = 1 << 8;
    /// Who changes the size may not leave the bits set-user-ID and set-group-ID as they are.
    pub const STRIPS: u32 = 1 << 11;
}

/// A change of attributes: what the bits of `valid` say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Bits of [`set`].
    pub valid: u32,
    /// Bytes.
    pub size_bytes: u64,
    /// Nanoseconds since 1970.
    pub accessed_ns: i64,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
    /// Kind and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn time_at(bytes: &[u8], seconds: usize, ns: usize) -> Option<i64> {
    let seconds = u64_at(bytes, seconds)?.cast_signed();
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(u32_at(bytes, ns)?)))
}

/// The text that ends with a NUL at the beginning, and what is behind it.
fn name(bytes: &[u8]) -> Option<(Name, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((bytes[..end].to_vec(), &bytes[end + 1..]))
}

fn name_at(bytes: &[u8], at: usize) -> Option<Name> {
    Some(name(bytes.get(at..)?)?.0)
}

/// Understands a whole message; `None` if it is none.
pub fn parse(bytes: &[u8]) -> Option<(Header, Call)> {
    let header = header(bytes, bytes.len())?;
    let opcode = u32_at(bytes, 4)?;
    let call = of_names(opcode, &bytes[HEADER_BYTES..])
        .or_else(|| of_files(opcode, &bytes[HEADER_BYTES..]));
    Some((header, call.unwrap_or(Call::Refused(errno::EIO))))
}

/// The same of a message that lies in two parts, the first of which is a write's head if it is one: its
/// bytes are copied once.
pub fn parse_parts(head: &[u8], body: &[u8]) -> Option<(Header, Call)> {
    if !is_write(head) || head.len() != WRITE_HEAD_BYTES {
        return if body.is_empty() { parse(head) } else { parse(&[head, body].concat()) };
    }
    let (header, head) = parse_write(head, body)?;
    let call = head.map(|head| Call::Write { head, bytes: body.to_vec() });
    Some((header, call.unwrap_or(Call::Refused(errno::EIO))))
}

/// The head of a write, whose bytes stay where they are; `None` within if it does not fit them.
pub fn parse_write(head: &[u8], bytes: &[u8]) -> Option<(Header, Option<WriteHead>)> {
    if !is_write(head) || head.len() != WRITE_HEAD_BYTES {
        return None;
    }
    let header = header(head, head.len() + bytes.len())?;
    Some((header, write(&head[HEADER_BYTES..], bytes)))
}

fn header(bytes: &[u8], total: usize) -> Option<Header> {
    if u32_at(bytes, 0)? as usize != total || bytes.len() < HEADER_BYTES {
        return None;
    }
    Some(Header {
        unique: u64_at(bytes, 8)?,
        node: u64_at(bytes, 16)?,
        uid: u32_at(bytes, 24)?,
        gid: u32_at(bytes, 28)?,
    })
}

/// `fuse_write_in`, of the bytes behind it.
fn write(head: &[u8], bytes: &[u8]) -> Option<WriteHead> {
    const KILL_SUIDGID: u32 = 1 << 2;
    if bytes.len() != u32_at(head, 16)? as usize {
        return None;
    }
    let strips = u32_at(head, 20)? & KILL_SUIDGID != 0;
    Some(WriteHead { offset: u64_at(head, 8)?, flags: u32_at(head, 32)?, strips })
}

/// Calls about names and what hangs on them.
fn of_names(opcode: u32, body: &[u8]) -> Option<Call> {
    let renamed = |head: usize, flags| {
        let (from, rest) = name(body.get(head..)?)?;
        let directory = u64_at(body, 0)?;
        Some(Call::Rename { name: from, directory, to: name_at(rest, 0)?, flags })
    };
    Some(match opcode {
        1 => Call::Lookup(name_at(body, 0)?),
        5 => Call::ReadLink,
        6 => {
            let (name, rest) = name(body)?;
            Call::Symlink { name, target: name_at(rest, 0)? }
        }
        8 => Call::Make {
            mode: u32_at(body, 0)?,
            device: u32_at(body, 4)?,
            name: name_at(body, 16)?,
        },
        9 => Call::MakeDir { mode: u32_at(body, 0)?, name: name_at(body, 8)? },
        10 => Call::Unlink(name_at(body, 0)?),
        11 => Call::RmDir(name_at(body, 0)?),
        12 => renamed(8, 0)?,
        13 => Call::Link { node: u64_at(body, 0)?, name: name_at(body, 8)? },
        21 => {
            let size = u32_at(body, 0)? as usize;
            let (name, value) = name(body.get(8..)?)?;
            Call::SetXattr { name, value: value.get(..size)?.to_vec(), flags: u32_at(body, 4)? }
        }
        22 => Call::GetXattr { size: u32_at(body, 0)?, name: name_at(body, 8)? },
        23 => Call::ListXattr { size: u32_at(body, 0)? },
        24 => Call::RemoveXattr(name_at(body, 0)?),
        35 => Call::Create {
            flags: u32_at(body, 0)?,
            mode: u32_at(body, 4)?,
            name: name_at(body, 16)?,
        },
        45 => renamed(16, u32_at(body, 8)?)?,
        _ => return None,
    })
}

/// Calls about files and directories by their node.
fn of_files(opcode: u32, body: &[u8]) -> Option<Call> {
    Some(match opcode {
        // forget, batch_forget, interrupt: nodes are never used again, and nothing waits for long
        2 | 42 | 36 => Call::Silent,
        3 => Call::GetAttr,
        4 => Call::SetAttr(Set {
            valid: u32_at(body, 0)?,
            size_bytes: u64_at(body, 16)?,
            accessed_ns: time_at(body, 32, 56)?,
            modified_ns: time_at(body, 40, 60)?,
            mode: u32_at(body, 68)?,
            uid: u32_at(body, 76)?,
            gid: u32_at(body, 80)?,
        }),
        // open, opendir
        14 | 27 => Call::Open { flags: u32_at(body, 0)? },
        15 => Call::Read { offset: u64_at(body, 8)?, size: u32_at(body, 16)? },
        16 => {
            let bytes = body.get(40..)?;
            Call::Write { head: write(body, bytes)?, bytes: bytes.to_vec() }
        }
        17 => Call::StatFs,
        // release, releasedir
        18 | 29 => Call::Release,
        // fsync, fsyncdir, syncfs
        20 | 30 | 50 => Call::Sync,
        28 => Call::ReadDir { cookie: u64_at(body, 8)?, size: u32_at(body, 16)? },
        // destroy
        38 => Call::Fine,
        39 => Call::Refused(errno::ENOTTY),
        43 => Call::Allocate {
            offset: u64_at(body, 8)?,
            length: u64_at(body, 16)?,
            mode: u32_at(body, 24)?,
        },
        // copy_file_range
        47 => Call::Copy(Copy {
            offset: u64_at(body, 8)?,
            to: u64_at(body, 16)?,
            to_offset: u64_at(body, 32)?,
            length: u64_at(body, 40)?,
        }),
        // tmpfile
        51 => Call::Refused(errno::EOPNOTSUPP),
        // names of names, which others have understood or refused
        1 | 5 | 6 | 8..=13 | 21..=24 | 35 | 45 => return None,
        // locks, access, flush at close, seeks: the kernel goes on without
        _ => Call::Refused(errno::ENOSYS),
    })
}

/// What a call says of attributes.
pub(super) fn attributes(it: &Set, now_ns: i64) -> SetAttributes {
    let has = |bit| it.valid & bit != 0;
    let time = |bit, now, ns| match (has(now), has(bit)) {
        (true, _) => Some(now_ns),
        (false, true) => Some(ns),
        _ => None,
    };
    SetAttributes {
        mode: has(set::MODE).then_some(it.mode),
        uid: has(set::UID).then_some(it.uid),
        gid: has(set::GID).then_some(it.gid),
        size_bytes: has(set::SIZE).then_some(it.size_bytes),
        accessed_ns: time(set::ATIME, set::ATIME_NOW, it.accessed_ns),
        modified_ns: time(set::MTIME, set::MTIME_NOW, it.modified_ns),
        strip: Strip::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        super::super::message(opcode, &Header { unique: 7, node: 1, uid: 2, gid: 3 }, body)
    }

    fn parsed(opcode: u32, body: &[u8]) -> Call {
        let (header, call) = parse(&message(opcode, body)).unwrap();
        assert_eq!(header, Header { unique: 7, node: 1, uid: 2, gid: 3 });
        call
    }

    #[test]
    fn names_stand_where_the_kernel_puts_them() {
        let numbers = |values: &[u32], rest: &[u8]| {
            let mut body: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            body.extend_from_slice(rest);
            body
        };
        let name = b"a".to_vec();
        assert_eq!(parsed(1, b"a\0"), Call::Lookup(name.clone()));
        let target = b"t".to_vec();
        assert_eq!(parsed(6, b"a\0t\0"), Call::Symlink { name: name.clone(), target });
        let made = parsed(8, &numbers(&[0o100_644, 5, 0, 0], b"a\0"));
        assert_eq!(made, Call::Make { name: name.clone(), mode: 0o100_644, device: 5 });
        let made = parsed(9, &numbers(&[0o755, 0], b"a\0"));
        assert_eq!(made, Call::MakeDir { name: name.clone(), mode: 0o755 });
        let to = b"bc".to_vec();
        let renamed =
            |flags| Call::Rename { name: name.clone(), directory: 9, to: to.clone(), flags };
        assert_eq!(parsed(12, &numbers(&[9, 0], b"a\0bc\0")), renamed(0));
        assert_eq!(parsed(45, &numbers(&[9, 0, 2, 0], b"a\0bc\0")), renamed(2));
        let linked = parsed(13, &numbers(&[9, 0], b"a\0"));
        assert_eq!(linked, Call::Link { node: 9, name: name.clone() });
        let set = parsed(21, &numbers(&[2, 1], b"a\0vw"));
        assert_eq!(set, Call::SetXattr { name: name.clone(), value: b"vw".to_vec(), flags: 1 });
        let made = parsed(35, &numbers(&[0o200, 0o600, 0, 0], b"a\0"));
        assert_eq!(made, Call::Create { name, flags: 0o200, mode: 0o600 });
        assert_eq!(parsed(21, &numbers(&[3, 1], b"a\0vw")), Call::Refused(errno::EIO));
        assert_eq!(parsed(6, b"a\0t"), Call::Refused(errno::EIO), "no end");
    }

    #[test]
    fn times_may_lie_before_1970() {
        let mut body = vec![0; 88];
        body[32..40].copy_from_slice(&(-2i64).to_ne_bytes());
        body[56..60].copy_from_slice(&5u32.to_ne_bytes());
        let Call::SetAttr(set) = parsed(4, &body) else { panic!("a change of attributes") };
        assert_eq!(set.accessed_ns, -1_999_999_995);
    }

    #[test]
    fn any_bytes_are_understood_or_refused() {
        let mut rng = tandem_block::Rng::new(5);
        for opcode in 0..60 {
            for length in 0..120 {
                let body: Vec<u8> = (0..length).map(|_| rng.below(4) as u8).collect();
                assert!(parse(&message(opcode, &body)).is_some());
            }
        }
        assert_eq!(parse(&message(1, b"a\0")[1..]), None);
    }

    #[test]
    fn a_message_in_two_parts_is_the_same() {
        let mut rng = tandem_block::Rng::new(6);
        for opcode in 0..60 {
            for length in [0u32, 3, 40, 41, 100] {
                let mut body: Vec<u8> = (0..length).map(|_| rng.below(4) as u8).collect();
                if let Some(size) = body.get_mut(16..20) {
                    // sometimes a write's own size
                    size.copy_from_slice(&(length - 40 + rng.below(2) as u32).to_ne_bytes());
                }
                let whole = message(opcode, &body);
                let (head, rest) = whole.split_at(whole.len().min(WRITE_HEAD_BYTES));
                assert_eq!(parse_parts(head, rest), parse(&whole), "{opcode}, {length}");
            }
        }
    }
}
