//! How fast is a whole file system over objects in RAM, and does it stand real programs? Beside
//! `fuse_bare` for the benchmark.
//!
//! `fuse_names DIR`: mounts an empty volume until SIGINT, then checks it and says what it finds. Nothing is
//! kept.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tandem_block::{IoError, ObjectId};
use tandem_fronts::fuse::tree::{Pool, Session, Work};
use tandem_fronts::fuse::{Mount, Reach, TRANSFER_BYTES_MAX, wire};
use tandem_names::memory::{Memory, Mounted};
use tandem_names::{Caller, Objects, Space, check};

const ROOT: ObjectId = ObjectId(1);

/// Objects in RAM that are asked one thing after the other.
struct Ram {
    store: Memory,
    asked: VecDeque<(usize, Work)>,
}

impl Objects for Ram {
    fn size_bytes(&self, object: ObjectId) -> Option<u64> {
        self.store.size_bytes(object)
    }
    fn attribute(&self, object: ObjectId, key: &[u8]) -> Option<&[u8]> {
        self.store.attribute(object, key)
    }
    fn next_attribute(&self, object: ObjectId, after: &[u8]) -> Option<(&[u8], &[u8])> {
        self.store.next_attribute(object, after)
    }
    fn next_object(&self, after: ObjectId) -> Option<ObjectId> {
        self.store.next_object(after)
    }
    fn fresh_ids(&self, count: u64) -> ObjectId {
        self.store.fresh_ids(count)
    }
    fn space(&self) -> Space {
        self.store.space()
    }
}

impl Pool for Ram {
    fn file_tiers(&self) -> Vec<&str> {
        vec!["hot", "cold"]
    }

    fn ask(&mut self, tag: usize, work: Work) {
        self.asked.push_back((tag, work));
    }
}

impl Ram {
    fn perform(&mut self, work: Work) -> Result<Vec<u8>, i32> {
        match work {
            Work::Commit(changes) => self.store.commit(&changes).map_err(IoError::errno)?,
            Work::Read { object, offset_bytes, length_bytes } => {
                return Ok(self.store.read(object, offset_bytes, length_bytes));
            }
            Work::Write { object, offset_bytes, bytes } => {
                self.store.write(object, offset_bytes, &bytes);
            }
            Work::Discard { object, offset_bytes, length_bytes } => {
                let zeroes = vec![0; usize::try_from(length_bytes).map_err(|_| 27)?];
                self.store.write(object, offset_bytes, &zeroes);
            }
            Work::Flush => {}
        }
        // nothing is kept, so nothing has to be remembered for a crash
        self.store.forget_crashes();
        Ok(Vec::new())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let point = std::env::args().nth(1).ok_or("usage: fuse_names DIR")?;
    let mut store = Memory::default();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    store.format(ROOT, 0o755, &Caller { uid, gid, now_ns: now_ns() })?;
    let Mounted { store, tree } = Mounted::mount(store, ROOT, &[])?;
    let mut ram = Ram { store, asked: VecDeque::new() };
    let (mount, fd) = Mount::of_tree(Path::new(&point), "names", Reach::Owner)?;
    let mut session = Session::new(tree, mount.agreed());
    rustix::io::ioctl_fionbio(&fd, false)?;
    let mut device = std::fs::File::from(fd.try_clone()?);
    let mut message = vec![0; TRANSFER_BYTES_MAX + 4096];
    loop {
        let length = match device.read(&mut message) {
            Ok(length) => length,
            // ENODEV: unmounted
            Err(error) if error.raw_os_error() == Some(19) => break,
            Err(error) if matches!(error.raw_os_error(), Some(2 | 4)) => continue,
            Err(error) => return Err(error.into()),
        };
        if !session.message(&message[..length], now_ns(), &mut ram) {
            return Err("a message that is none".into());
        }
        while let Some((tag, work)) = ram.asked.pop_front() {
            let result = ram.perform(work);
            session.answered(tag, result, &mut ram);
        }
        for node in session.take_stale() {
            // a node that the kernel has forgotten is an error, and no matter
            let _ = device.write_all(&wire::stale_attributes(node));
        }
        for reply in session.take_replies() {
            let (errno, body) = match reply.result {
                Ok(body) => (0, body),
                Err(errno) => (errno, Vec::new()),
            };
            let head = wire::reply_head(reply.unique, errno, body.len());
            match device.write_all(&[&head[..], &body].concat()) {
                Err(error) if error.raw_os_error() != Some(2) => return Err(error.into()),
                _ => {}
            }
        }
    }
    let _ = fd.as_fd();
    drop(mount);
    let mut faults = 0;
    let checked = check::check(&ram, ROOT, &mut |fault| {
        faults += 1;
        println!("{fault}");
    });
    println!("{checked:?}: {faults} faults");
    Ok(())
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
