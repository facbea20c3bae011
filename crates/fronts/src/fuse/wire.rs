//! What do the bytes on `/dev/fuse` mean?
//!
//! Source: `include/uapi/linux/fuse.h`, protocol 7.31 and later. Numbers are in the machine's own
//! byte order, because both sides are one machine. Only what a directory of fixed files needs is
//! understood; the rest is refused with the errno that makes the kernel stop asking.

/// Header of every message from the kernel, in bytes.
pub const HEADER_BYTES: usize = 40;
/// Header and fixed part of a write; its data follows.
pub const WRITE_HEAD_BYTES: usize = 80;
/// Header of every reply, in bytes.
pub const REPLY_BYTES: usize = 16;
/// The root directory's node.
pub const ROOT: u64 = 1;

/// Errnos of Linux that are not [`tandem_block::IoError`]s.
pub mod errno {
    /// Not permitted: this file system's shape is the pool's.
    pub const EPERM: i32 = 1;
    /// No such file.
    pub const ENOENT: i32 = 2;
    /// The message makes no sense.
    pub const EIO: i32 = 5;
    /// Nothing there: beyond the end.
    pub const ENXIO: i32 = 6;
    /// No memory for what is asked.
    pub const ENOMEM: i32 = 12;
    /// Not a directory.
    pub const ENOTDIR: i32 = 20;
    /// A directory.
    pub const EISDIR: i32 = 21;
    /// Not aligned, or not an answerable question.
    pub const EINVAL: i32 = 22;
    /// Larger than a file can be.
    pub const EFBIG: i32 = 27;
    /// No ioctls here.
    pub const ENOTTY: i32 = 25;
    /// Beyond the end of a file that cannot grow.
    pub const ENOSPC: i32 = 28;
    /// Never ask again.
    pub const ENOSYS: i32 = 38;
    /// A mode that is not supported.
    pub const EOPNOTSUPP: i32 = 95;
    /// The server is stopping.
    pub const ESHUTDOWN: i32 = 108;
}

/// What every message says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Names the request; echoed in its reply.
    pub unique: u64,
    /// Which file or directory.
    pub node: u64,
}

/// What the kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Which node has this name? It lies behind the header.
    Lookup {
        /// Its length.
        name_bytes: usize,
    },
    /// Attributes.
    GetAttr,
    /// Change of attributes.
    SetAttr {
        /// Bits of [`set`].
        valid: u32,
        /// New size in bytes, if `valid` says so.
        size_bytes: u64,
    },
    /// Open a file.
    Open,
    /// Open a directory.
    OpenDir,
    /// Names of a directory.
    ReadDir {
        /// Position of the first entry.
        position: u64,
        /// Bytes of the answer at most.
        size: u32,
    },
    /// Bytes of a file.
    Read(Range),
    /// New bytes of a file, behind the head.
    Write(Range),
    /// Sizes of the file system.
    StatFs,
    /// Make durable what was written.
    Sync,
    /// Allocate, zero or discard.
    Allocate {
        /// First byte.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// Bits of [`allocate`].
        mode: u32,
    },
    /// Where is the next data or hole?
    Seek {
        /// From here on.
        offset: u64,
        /// 3: data, 4: hole.
        whence: u32,
    },
    /// Nothing to do, and success.
    Fine,
    /// Nothing to do, and nobody waits.
    Silent,
    /// Refused with this errno.
    Refused(i32),
}

/// Where a read or write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
    /// The open file's flags (`O_DIRECT`, `O_DSYNC`), this call's included.
    pub flags: u32,
}

/// Bits of `FATTR_*`.
pub mod set {
    /// Mode, owner, group.
    pub const OWNERSHIP: u32 = 1 | 2 | 4;
    /// Size.
    pub const SIZE: u32 = 8;
}

/// Bits of `FALLOC_FL_*`.
pub mod allocate {
    /// The size stays.
    pub const KEEP_SIZE: u32 = 0x01;
    /// Discard.
    pub const PUNCH_HOLE: u32 = 0x02;
    /// Write zeroes.
    pub const ZERO_RANGE: u32 = 0x10;
}

/// `SEEK_DATA` of lseek.
pub const SEEK_DATA: u32 = 3;
/// `SEEK_HOLE` of lseek.
pub const SEEK_HOLE: u32 = 4;

const OP_READ: u32 = 15;
const OP_WRITE: u32 = 16;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Is this the head of a write, whose data is not needed to understand it?
pub fn is_write(head: &[u8]) -> bool {
    u32_at(head, 4) == Some(OP_WRITE)
}

/// Of a message that needs memory for the bytes of a file, a read or a write: which request it is.
pub fn moves_bytes(head: &[u8]) -> Option<u64> {
    matches!(u32_at(head, 4), Some(OP_READ | OP_WRITE)).then(|| u64_at(head, 8))?
}

/// Understands a message of `total` bytes; `bytes` is all of it, or a write's head. `None` if it is
/// no message at all.
pub fn parse(bytes: &[u8], total: usize) -> Option<(Header, Ask)> {
    let opcode = u32_at(bytes, 4)?;
    let header = Header { unique: u64_at(bytes, 8)?, node: u64_at(bytes, 16)? };
    if bytes.len() < HEADER_BYTES || u32_at(bytes, 0)? as usize != total {
        return None;
    }
    let ask = body(opcode, &bytes[HEADER_BYTES..], total).unwrap_or(Ask::Refused(errno::EIO));
    Some((header, ask))
}

fn body(opcode: u32, body: &[u8], total: usize) -> Option<Ask> {
    Some(match opcode {
        1 => Ask::Lookup { name_bytes: body.iter().position(|byte| *byte == 0)? },
        // forget, batch_forget
        2 | 42 => Ask::Silent,
        3 => Ask::GetAttr,
        4 => Ask::SetAttr { valid: u32_at(body, 0)?, size_bytes: u64_at(body, 16)? },
        // symlink, mknod, mkdir, unlink, rmdir, rename, link, create, rename2, tmpfile
        6 | 8..=13 | 35 | 45 | 51 => Ask::Refused(errno::EPERM),
        14 => Ask::Open,
        15 => Ask::Read(range(body)?),
        OP_WRITE => {
            let range = range(body)?;
            if total.checked_sub(WRITE_HEAD_BYTES) != Some(range.length as usize) {
                return None;
            }
            Ask::Write(range)
        }
        17 => Ask::StatFs,
        // release, releasedir
        18 | 29 => Ask::Fine,
        20 => Ask::Sync,
        27 => Ask::OpenDir,
        28 => Ask::ReadDir { position: u64_at(body, 8)?, size: u32_at(body, 16)? },
        // fsyncdir
        30 => Ask::Fine,
        39 => Ask::Refused(errno::ENOTTY),
        43 => Ask::Allocate {
            offset: u64_at(body, 8)?,
            length: u64_at(body, 16)?,
            mode: u32_at(body, 24)?,
        },
        46 => Ask::Seek { offset: u64_at(body, 8)?, whence: u32_at(body, 16)? },
        // extended attributes, locks, access, flush at close, interrupt: the kernel goes on without
        _ => Ask::Refused(errno::ENOSYS),
    })
}

/// `fuse_read_in` and `fuse_write_in` agree in what matters.
fn range(body: &[u8]) -> Option<Range> {
    let (offset, length) = (u64_at(body, 8)?, u32_at(body, 16)?);
    offset.checked_add(u64::from(length))?;
    Some(Range { offset, length, flags: u32_at(body, 32)? })
}

/// The head of a reply with `length` bytes behind it, or with an errno.
pub fn reply_head(unique: u64, errno: i32, length: usize) -> [u8; REPLY_BYTES] {
    let total = u32::try_from(REPLY_BYTES + length).expect("replies are at most some MiB");
    let mut head = [0; REPLY_BYTES];
    head[..4].copy_from_slice(&total.to_ne_bytes());
    head[4..8].copy_from_slice(&(-errno).to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// `FUSE_NOTIFY_INVAL_INODE` without a range: a node's attributes have changed, its bytes have not.
pub fn stale_attributes(node: u64) -> [u8; REPLY_BYTES + 24] {
    const INVAL_INODE: i32 = 2;
    let mut notice = [0; REPLY_BYTES + 24];
    // with no request that it answers the number of the kind stands for an errno
    notice[..REPLY_BYTES].copy_from_slice(&reply_head(0, -INVAL_INODE, 24));
    notice[REPLY_BYTES..REPLY_BYTES + 8].copy_from_slice(&node.to_ne_bytes());
    notice[REPLY_BYTES + 8..REPLY_BYTES + 16].copy_from_slice(&(-1i64).to_ne_bytes());
    notice
}

/// A file or directory as the kernel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its node.
    pub node: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Last change: seconds and nanoseconds since 1970.
    pub changed: (u64, u32),
    /// Type and permissions.
    pub mode: u32,
    /// Links to it.
    pub links: u32,
    /// Owner and group.
    pub owner: (u32, u32),
}

/// How long the kernel may believe attributes: the time of the last change moves.
const ATTRIBUTES_SECONDS: u64 = 1;
/// How long the kernel may believe names: they never change.
const NAMES_SECONDS: u64 = 3600;

fn put_u32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

fn put_u64(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

fn put_attributes(out: &mut Vec<u8>, it: &Attributes) {
    let (seconds, ns) = it.changed;
    put_u64(out, &[it.node, it.size_bytes, it.size_bytes / 512, seconds, seconds, seconds]);
    put_u32(out, &[ns, ns, ns, it.mode, it.links, it.owner.0, it.owner.1, 0, 4096, 0]);
}

/// `fuse_attr_out`.
pub fn put_attr_out(out: &mut Vec<u8>, it: &Attributes) {
    put_u64(out, &[ATTRIBUTES_SECONDS, 0]);
    put_attributes(out, it);
}

/// `fuse_entry_out`.
pub fn put_entry_out(out: &mut Vec<u8>, it: &Attributes) {
    put_u64(out, &[it.node, 0, NAMES_SECONDS, ATTRIBUTES_SECONDS, 0]);
    put_attributes(out, it);
}

/// `fuse_open_out`.
pub fn put_open_out(out: &mut Vec<u8>, flags: u32) {
    put_u64(out, &[0]);
    put_u32(out, &[flags, 0]);
}

/// `fuse_kstatfs`: full, because there is no room for more files.
pub fn put_statfs_out(out: &mut Vec<u8>, blocks: u64, files: u64) {
    put_u64(out, &[blocks, 0, 0, files, 0]);
    put_u32(out, &[4096, 255, 4096, 0]);
    put_u32(out, &[0; 6]);
}

/// One `fuse_dirent`; false if it would make `out` longer than `limit`.
pub fn put_dirent(
    out: &mut Vec<u8>,
    limit: usize,
    node: u64,
    next: u64,
    kind: u32,
    name: &str,
) -> bool {
    let length = (24 + name.len()).next_multiple_of(8);
    if out.len() + length > limit {
        return false;
    }
    let end = out.len() + length;
    put_u64(out, &[node, next]);
    put_u32(out, &[u32::try_from(name.len()).expect("at most 255"), kind]);
    out.extend_from_slice(name.as_bytes());
    out.resize(end, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let total = (HEADER_BYTES + body.len()) as u32;
        let mut bytes = Vec::new();
        put_u32(&mut bytes, &[total, opcode]);
        put_u64(&mut bytes, &[77, ROOT]);
        put_u32(&mut bytes, &[0; 4]);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_lookup_carries_its_name() {
        let bytes = message(1, b"vol0\0");
        let (header, ask) = parse(&bytes, bytes.len()).unwrap();
        assert_eq!(header, Header { unique: 77, node: ROOT });
        assert_eq!(ask, Ask::Lookup { name_bytes: 4 });
    }

    #[test]
    fn a_write_is_understood_by_its_head_and_must_have_its_data() {
        let mut body = Vec::new();
        put_u64(&mut body, &[1, 4096]);
        put_u32(&mut body, &[512, 0, 0, 0, 0x8001, 0]);
        body.extend_from_slice(&[7; 512]);
        let bytes = message(OP_WRITE, &body);
        let head = &bytes[..WRITE_HEAD_BYTES];
        assert!(is_write(head));
        let range = Range { offset: 4096, length: 512, flags: 0x8001 };
        assert_eq!(parse(head, bytes.len()).unwrap().1, Ask::Write(range));
        let short = message(OP_WRITE, &body[..body.len() - 1]);
        assert_eq!(parse(&short, short.len()).unwrap().1, Ask::Refused(errno::EIO));
    }

    #[test]
    fn nothing_cut_short_is_understood() {
        let bytes = message(43, &[0; 32]);
        for length in 0..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            assert!(parse(&cut, length).is_none(), "its length does not fit");
            if length >= HEADER_BYTES {
                cut[..4].copy_from_slice(&(length as u32).to_ne_bytes());
                let understood = parse(&cut, length).unwrap().1;
                let whole = length >= HEADER_BYTES + 28; // the padding at the end is not read
                assert_eq!(understood != Ask::Refused(errno::EIO), whole);
            }
        }
    }

    #[test]
    fn any_bytes_are_understood_or_refused() {
        let mut rng = tandem_block::Rng::new(5);
        for opcode in 0..60 {
            for length in 0..100 {
                let body: Vec<u8> = (0..length).map(|_| rng.bits() as u8).collect();
                assert!(crate::fuse::fuzz_message(&message(opcode, &body)).is_some());
            }
        }
    }

    #[test]
    fn replies_have_the_sizes_of_the_kernel() {
        let it = Attributes {
            node: 2,
            size_bytes: 8,
            changed: (1, 2),
            mode: 3,
            links: 1,
            owner: (0, 0),
        };
        let mut out = Vec::new();
        for (write, size) in [
            (put_attr_out as fn(&mut Vec<u8>, &Attributes), 104),
            (put_entry_out, 128),
            (|out: &mut Vec<u8>, _: &Attributes| put_open_out(out, 1), 16),
            (|out: &mut Vec<u8>, _: &Attributes| put_statfs_out(out, 1, 1), 80),
        ] {
            out.clear();
            write(&mut out, &it);
            assert_eq!(out.len(), size);
        }
        out.clear();
        assert!(put_dirent(&mut out, 32, 2, 1, 8, "vol0") && out.len() == 32);
        assert!(!put_dirent(&mut out, 63, 2, 1, 8, "v"));
    }
}
