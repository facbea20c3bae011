//! Which file is next, if files are taken in rotation?
//!
//! Source: [LORIS §V]: the file server and the web server "access files uniformly in sequence".
//! FileBench makes the files of a set in random order, and then takes one after the other of it.
//! **Guess:** one position for each operation, evenly apart. FileBench has one for each of its
//! threads, and the paper does not say how many it has.

use super::layer::{FileId, Layer};
use tandem_block::Rng;

/// The order of a set of files, and who stands where in it.
#[derive(Clone)]
pub(super) struct Rotation {
    /// `None`: a file was deleted there, and the next one that is made has its place.
    files: Vec<Option<FileId>>,
    /// Where that is.
    free: Option<usize>,
    /// Where each operation goes on.
    next: Vec<usize>,
}

impl Rotation {
    /// All files of a volume that may be picked, in random order.
    pub(super) fn of(layer: &Layer, volume: u8, operations: usize, rng: &mut Rng) -> Rotation {
        let mut files: Vec<Option<FileId>> = layer.all_listed(volume).map(Some).collect();
        assert!(files.len() > operations, "there are more files than operations");
        for at in (1..files.len()).rev() {
            files.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let next = (0..operations).map(|of| files.len() * of / operations).collect();
        Rotation { files, free: None, next }
    }

    /// The next file of an operation.
    pub(super) fn take(&mut self, operation: usize) -> FileId {
        self.advance(operation).1
    }

    /// The next file of an operation that deletes it.
    pub(super) fn remove(&mut self, operation: usize) -> FileId {
        let (at, file) = self.advance(operation);
        self.files[at] = None;
        assert!(self.free.is_none(), "a file is made between two that are deleted");
        self.free = Some(at);
        file
    }

    /// A file was made.
    pub(super) fn put(&mut self, file: FileId) {
        match self.free.take() {
            Some(at) => self.files[at] = Some(file),
            None => self.files.push(Some(file)),
        }
    }

    fn advance(&mut self, operation: usize) -> (usize, FileId) {
        for _ in 0..self.files.len() {
            let at = self.next[operation] % self.files.len();
            self.next[operation] = at + 1;
            if let Some(file) = self.files[at] {
                return (at, file);
            }
        }
        unreachable!("there are as many files as at first")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::made;
    use std::collections::BTreeMap;
    use tandem_block::{KIB, Op};

    /// How often each page of the web server's files is read from the drives in some rounds.
    fn reads(spec: &str) -> BTreeMap<u64, u64> {
        let (warm_up, arrivals) = made(spec);
        let mut counts = BTreeMap::new();
        for read in arrivals[warm_up as usize..].iter().filter(|a| a.op == Op::Read) {
            for page in 0..read.length_bytes / (4 * KIB) {
                *counts.entry(read.offset_bytes / (4 * KIB) + page).or_default() += 1;
            }
        }
        counts
    }

    /// Half the reads that all files take read half of the files once each. Uniform draws read two fifths of the
    /// files, some of them many times.
    #[test]
    fn no_file_is_read_again_before_all_were() {
        let often = |spec: &str| {
            let counts = reads(spec);
            let most = counts.values().filter(|count| **count > 1).count();
            (counts.len(), most * 100 / counts.len())
        };
        let (in_turn, again) = often("webserver:files=5000,rounds=250,ram=1MiB,order=rotation");
        let (uniform, at_random) = often("webserver:files=5000,rounds=250,ram=1MiB");
        assert!(in_turn > uniform * 11 / 10, "{in_turn} {uniform}");
        // pages of directories and of attributes are read for several files
        assert!(again < 8 && at_random > 15, "{again} {at_random} %");
    }

    /// Files go and come for four times as many rounds as there are files, and none is asked for that is gone:
    /// the layer of files would panic.
    #[test]
    fn what_is_made_stands_where_a_file_was_deleted() {
        let (warm_up, arrivals) = made("fileserver:files=200,rounds=800,ram=1MiB,order=rotation");
        let deleted = arrivals[warm_up as usize..].iter().filter(|a| a.op == Op::Discard).count();
        assert!(deleted >= 800, "{deleted}");
    }
}
