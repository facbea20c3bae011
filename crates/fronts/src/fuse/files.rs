//! Which files are there, and what do they say of themselves? One directory, one file per volume,
//! fixed for the life of the mount.

use super::mount::FuseError;
use super::wire::{self, Attributes, ROOT, errno};
use std::time::{SystemTime, UNIX_EPOCH};
use tandem_block::ObjectId;

/// One volume as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile {
    /// The volume's name, and the file's.
    pub name: String,
    /// Its object.
    pub object: ObjectId,
    /// Its size in bytes, a multiple of 4096.
    pub size_bytes: u64,
}

const DIRECTORY_MODE: u32 = 0o040_700;
const FILE_MODE: u32 = 0o100_600;
const DIRECTORY_KIND: u32 = 4;
const FILE_KIND: u32 = 8;
const NAME_BYTES_MAX: usize = 255;
/// Nodes: the root, then the volumes.
const FIRST_FILE: u64 = ROOT + 1;

#[derive(Debug)]
struct File {
    volume: VolumeFile,
    changed: SystemTime,
    /// Written since `changed`; the clock is read when somebody asks.
    written: bool,
}

/// The directory.
#[derive(Debug)]
pub(super) struct Files {
    files: Vec<File>,
    made: SystemTime,
    owner: (u32, u32),
}

impl Files {
    pub fn new(volumes: Vec<VolumeFile>) -> Result<Files, FuseError> {
        let made = SystemTime::now();
        for (index, VolumeFile { name, .. }) in volumes.iter().enumerate() {
            let strange = name.is_empty()
                || name == "."
                || name == ".."
                || name.len() > NAME_BYTES_MAX
                || name.contains(['/', '\0']);
            if strange || volumes[..index].iter().any(|other| other.name == *name) {
                return Err(FuseError::Name(name.clone()));
            }
        }
        let file = |volume| File { volume, changed: made, written: false };
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Ok(Files { files: volumes.into_iter().map(file).collect(), made, owner })
    }

    fn find(&mut self, node: u64) -> Option<&mut File> {
        let index = usize::try_from(node.checked_sub(FIRST_FILE)?).ok()?;
        self.files.get_mut(index)
    }

    /// The volume behind a node, or an errno.
    pub fn volume(&mut self, node: u64) -> Result<(ObjectId, u64), i32> {
        match self.find(node) {
            Some(file) => Ok((file.volume.object, file.volume.size_bytes)),
            None if node == ROOT => Err(errno::EISDIR),
            None => Err(errno::ENOENT),
        }
    }

    /// Something was written to it.
    pub fn touch(&mut self, node: u64) {
        if let Some(file) = self.find(node) {
            file.written = true;
        }
    }

    /// Node of a name.
    pub fn lookup(&self, name: &[u8]) -> Option<u64> {
        let index = self.files.iter().position(|file| file.volume.name.as_bytes() == name)?;
        Some(FIRST_FILE + index as u64)
    }

    pub fn attributes(&mut self, node: u64) -> Option<Attributes> {
        let owner = self.owner;
        if node == ROOT {
            let changed = since_1970(self.made);
            let mode = DIRECTORY_MODE;
            return Some(Attributes { node, size_bytes: 0, changed, mode, links: 2, owner });
        }
        let file = self.find(node)?;
        if std::mem::take(&mut file.written) {
            file.changed = SystemTime::now();
        }
        let (size_bytes, changed) = (file.volume.size_bytes, since_1970(file.changed));
        Some(Attributes { node, size_bytes, changed, mode: FILE_MODE, links: 1, owner })
    }

    /// Entries of the directory from `position` on, at most `limit` bytes.
    pub fn list(&self, position: u64, limit: usize, out: &mut Vec<u8>) {
        let dots = [(ROOT, DIRECTORY_KIND, "."), (ROOT, DIRECTORY_KIND, "..")];
        let files = self.files.iter().zip(FIRST_FILE..);
        let files = files.map(|(file, node)| (node, FILE_KIND, file.volume.name.as_str()));
        let entries = (1..).zip(dots.into_iter().chain(files));
        for (next, (node, kind, name)) in
            entries.skip(usize::try_from(position).unwrap_or(usize::MAX))
        {
            if !wire::put_dirent(out, limit, node, next, kind, name) {
                return;
            }
        }
    }

    /// Blocks of 4 KiB of all volumes, and how many there are.
    pub fn totals(&self) -> (u64, u64) {
        let bytes: u64 = self.files.iter().map(|file| file.volume.size_bytes).sum();
        (bytes / 4096, self.files.len() as u64)
    }
}

fn since_1970(time: SystemTime) -> (u64, u32) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str) -> VolumeFile {
        VolumeFile { name: name.into(), object: ObjectId(9), size_bytes: 8192 }
    }

    #[test]
    fn names_that_are_no_files_are_refused() {
        for names in [vec!["a/b"], vec![".."], vec![""], vec!["a", "a"]] {
            let files = Files::new(names.into_iter().map(volume).collect());
            assert!(matches!(files, Err(FuseError::Name(_))));
        }
    }

    #[test]
    fn a_listing_goes_on_where_it_stopped() {
        let mut files = Files::new(vec![volume("a"), volume("b")]).unwrap();
        let mut out = Vec::new();
        files.list(0, 3 * 32, &mut out);
        assert_eq!(out.len(), 96, "two dots and the first file");
        out.clear();
        files.list(3, 4096, &mut out);
        assert_eq!(out.len(), 32, "the last one");
        assert_eq!(files.lookup(b"b"), Some(3));
        assert_eq!(files.volume(3), Ok((ObjectId(9), 8192)));
        assert_eq!(files.volume(ROOT), Err(errno::EISDIR));
        let before = files.attributes(3).unwrap().changed;
        files.touch(3);
        assert!(files.attributes(3).unwrap().changed > before, "a write is seen in its time");
    }
}
