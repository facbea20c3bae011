//! How fast is a bare file of `fuser`? Bytes in memory and nothing else, with the same options as
//! the Tandem front end: the yardstick of the benchmark, not a product.
//!
//! `fuse_bare DIR [MIB] [THREADS]` mounts a directory with one file, `bare`, until it is unmounted.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::RwLock;
use std::time::{Duration, SystemTime};

const FILE: INodeNo = INodeNo(2);
const TTL: Duration = Duration::from_secs(1);
/// Bytes under one lock, so that threads seldom meet.
const STRIPE: usize = 1 << 20;

struct Bare {
    stripes: Vec<RwLock<Box<[u8]>>>,
    made: SystemTime,
}

impl Bare {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let size = (self.stripes.len() * STRIPE) as u64;
        let (kind, perm, size) = match node {
            FILE => (FileType::RegularFile, 0o600, size),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            crtime: self.made,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The stripes of a range: stripe, first byte in it, bytes.
    fn pieces(&self, offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let size = self.stripes.len() * STRIPE;
        let mut at = usize::try_from(offset).unwrap_or(size).min(size);
        let end = size.min(at + length);
        std::iter::from_fn(move || {
            let (stripe, first) = (at / STRIPE, at % STRIPE);
            let count = (end - at).min(STRIPE - first);
            at += count;
            (count > 0).then_some((stripe, first, count))
        })
    }
}

impl Filesystem for Bare {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(256);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "bare" {
            reply.entry(&TTL, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(node));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut pieces = self.pieces(offset, size as usize);
        match (pieces.next(), pieces.next()) {
            (None, _) => reply.data(&[]),
            (Some((stripe, at, count)), None) => {
                let bytes = self.stripes[stripe].read().expect("nobody panics holding it");
                reply.data(&bytes[at..at + count]);
            }
            _ => {
                let mut out = Vec::with_capacity(size as usize);
                for (stripe, at, count) in self.pieces(offset, size as usize) {
                    let bytes = self.stripes[stripe].read().expect("nobody panics holding it");
                    out.extend_from_slice(&bytes[at..at + count]);
                }
                reply.data(&out);
            }
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut done = 0;
        for (stripe, at, count) in self.pieces(offset, data.len()) {
            let mut bytes = self.stripes[stripe].write().expect("nobody panics holding it");
            bytes[at..at + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
        reply.written(done as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let point = arguments.next().ok_or("usage: fuse_bare DIR [MIB] [THREADS]")?;
    let mib: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let threads: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    // written once, so that no page is touched for the first time while it is measured
    let stripe = || RwLock::new(vec![1u8; STRIPE].into_boxed_slice());
    let stripes = (0..mib << 20 >> 20).map(|_| stripe()).collect();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("bare".into()), MountOption::NoAtime];
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    fuser::mount(Bare { stripes, made: SystemTime::now() }, point, &config)?;
    Ok(())
}
