//! What does the kernel hear of files? The structures that answers consist of.

use fuser::FopenFlags;
use tandem_block::ObjectId;
use tandem_names::{FsStat, Inode, Kind, Listed};

/// How long the kernel may believe names and attributes, in seconds: nobody else changes them, and
/// what it changes itself it knows.
const VALID_SECONDS: u64 = 60;
/// The preferred size of requests in bytes, as `stat` tells it.
const BLOCK_BYTES: u32 = 4096;

fn put_u32(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

fn put_u64(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
}

/// The node of an object: the root is 1, as the kernel wants it; the others follow.
pub fn node_of(root: ObjectId, object: ObjectId) -> u64 {
    if object == root { 1 } else { object.0 + 2 }
}

/// The object of a node.
pub fn object_of(root: ObjectId, node: u64) -> ObjectId {
    if node == 1 { root } else { ObjectId(node.wrapping_sub(2)) }
}

fn put_attributes(out: &mut Vec<u8>, node: u64, it: &Inode) {
    let times = [it.accessed_ns, it.modified_ns, it.changed_ns];
    put_u64(out, &[node, it.size_bytes, it.size_bytes.div_ceil(512)]);
    for time in times {
        put_u64(out, &[time.div_euclid(1_000_000_000).cast_unsigned()]);
    }
    for time in times {
        put_u32(out, &[u32::try_from(time.rem_euclid(1_000_000_000)).expect("below 10^9")]);
    }
    put_u32(out, &[it.mode, it.links, it.uid, it.gid, it.device, BLOCK_BYTES, 0]);
}

/// `fuse_attr_out`.
pub fn attr_out(node: u64, it: &Inode) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    put_u64(&mut out, &[VALID_SECONDS, 0]);
    put_attributes(&mut out, node, it);
    out
}

/// `fuse_entry_out`.
pub fn entry_out(node: u64, it: &Inode) -> Vec<u8> {
    let mut out = Vec::with_capacity(144);
    put_u64(&mut out, &[node, 0, VALID_SECONDS, VALID_SECONDS, 0]);
    put_attributes(&mut out, node, it);
    out
}

/// `fuse_open_out`: what the kernel remembers of a file stays right while it is closed. A `direct` handle
/// goes past it, and its writes within the file need not wait for each other.
pub fn open_out(direct: bool) -> Vec<u8> {
    let ways = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
    let ways = if direct { ways } else { FopenFlags::empty() };
    let mut out = Vec::with_capacity(16);
    put_u64(&mut out, &[0]);
    put_u32(&mut out, &[(FopenFlags::FOPEN_KEEP_CACHE | ways).bits(), 0]);
    out
}

/// `fuse_write_out`, and `fuse_getxattr_out`.
pub fn count_out(count: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(8);
    put_u32(&mut out, &[count, 0]);
    out
}

/// `fuse_statfs_out`.
pub fn statfs_out(stat: &FsStat) -> Vec<u8> {
    let mut out = Vec::with_capacity(80);
    let (space, block) = (&stat.space, u64::from(BLOCK_BYTES));
    let (total, free) = (space.total_bytes / block, space.free_bytes / block);
    let objects = space.objects.saturating_add(space.free_objects);
    put_u64(&mut out, &[total, free, free, objects, space.free_objects]);
    put_u32(&mut out, &[BLOCK_BYTES, stat.name_bytes_max, BLOCK_BYTES, 0]);
    put_u32(&mut out, &[0; 6]);
    out
}

/// One `fuse_dirent`; false if it would make `out` longer than `limit`.
pub fn put_dirent(out: &mut Vec<u8>, limit: usize, node: u64, line: &Listed<'_>) -> bool {
    let length = (24 + line.name.len()).next_multiple_of(8);
    if out.len() + length > limit {
        return false;
    }
    let end = out.len() + length;
    put_u64(out, &[node, line.cookie]);
    let name_bytes = u32::try_from(line.name.len()).expect("at most 255");
    put_u32(out, &[name_bytes, kind_number(line.kind)]);
    out.extend_from_slice(line.name);
    out.resize(end, 0);
    true
}

fn kind_number(kind: Kind) -> u32 {
    kind as u32
}
