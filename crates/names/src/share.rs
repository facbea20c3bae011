//! What changes when a part of a file becomes a part of another one, by reference?
//!
//! Source: requirements L4 (clones of files); copy_file_range(2). Whole blocks are shared, and the end of a
//! file with what is behind it in its last block, which from then on is not known to be zeroes.

use crate::data::FILE_BYTES_MAX;
use crate::error::NameError;
use crate::objects::{Change, Objects};
use crate::privileges::Strip;
use crate::tree::Tree;
use tandem_block::{BLOCK_BYTES, KIB, ObjectId};

/// Less is copied: what is shared is made durable first, which takes longer than to write it anew (guess).
const SHARED_BYTES_MIN: u64 = 64 * KIB;

/// A part of a file, and where it shall be, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Whose bytes.
    pub from: ObjectId,
    /// The first of them.
    pub from_bytes: u64,
    /// Who shall have them.
    pub to: ObjectId,
    /// Where.
    pub to_bytes: u64,
    /// How many.
    pub length_bytes: u64,
}

impl Tree {
    /// How many of these bytes can be shared: those up to the end of the file, or fewer. The others have
    /// to be copied.
    ///
    /// # Errors
    /// `Unsupported`: none of them; also `IsDirectory`, `Invalid`, `FileTooLarge`, `NotFound`, `OtherVolume`,
    /// `Damaged`.
    pub fn shareable(&self, on: &impl Objects, it: &Shared) -> Result<u64, NameError> {
        let (from, to) = (self.readable_file(on, it.from)?, self.file(on, it.to)?);
        let length = it.length_bytes.min(from.size_bytes.saturating_sub(it.from_bytes));
        let end = it.to_bytes.checked_add(length).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(NameError::FileTooLarge)?;
        if length == 0 {
            return Ok(0);
        }
        // a last block may go as it is if both files end in it
        let both_end = it.from_bytes + length == from.size_bytes && end >= to.size_bytes;
        let shared = if both_end { length } else { length / BLOCK_BYTES * BLOCK_BYTES };
        let starts = [it.from_bytes, it.to_bytes];
        let overlaps = it.from == it.to
            && it.from_bytes.abs_diff(it.to_bytes) < shared.next_multiple_of(BLOCK_BYTES);
        let fits = starts.iter().all(|at| at.is_multiple_of(BLOCK_BYTES));
        let is_known = it.from_bytes + length <= FILE_BYTES_MAX && end <= FILE_BYTES_MAX;
        if !fits || overlaps || !is_known || shared < SHARED_BYTES_MIN {
            return Err(NameError::Unsupported);
        }
        Ok(shared)
    }

    /// Shares what can be shared. Gives how many bytes that is.
    ///
    /// # Errors
    /// As `shareable`.
    ///
    /// # Panics
    /// If the file grows and its tail is stale.
    pub fn share(
        &self,
        on: &impl Objects,
        it: &Shared,
        strip: Strip,
        now_ns: i64,
    ) -> Result<(Vec<Change>, u64), NameError> {
        let shared = self.shareable(on, it)?;
        if shared == 0 {
            return Ok((Vec::new(), 0));
        }
        let end = it.to_bytes + shared;
        assert_eq!(self.stale_tail(on, it.to, end)?, None, "a file grows only over zeroes");
        let room = on.size_bytes(it.to).ok_or(NameError::NotFound)?;
        let mut draft = self.draft(on);
        if end > room {
            draft.resize(it.to, end.next_multiple_of(BLOCK_BYTES));
            draft.inode(it.to)?.tail_epoch = self.epoch;
        }
        let block = |bytes: u64| bytes / BLOCK_BYTES;
        draft.share(Change::Share {
            from: it.from,
            from_block: block(it.from_bytes),
            to: it.to,
            to_block: block(it.to_bytes),
            blocks: block(shared.next_multiple_of(BLOCK_BYTES)),
        });
        let inode = draft.inode(it.to)?;
        (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
        inode.size_bytes = inode.size_bytes.max(end);
        if !shared.is_multiple_of(BLOCK_BYTES) {
            // somebody may be about to write behind the end of the other one
            inode.tail_epoch = 0;
        }
        draft.strip(it.to, strip)?;
        Ok((draft.finish(), shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make::New;
    use crate::memory::{Memory, Mounted};
    use crate::tree::Caller;

    const ROOT: ObjectId = ObjectId(1);

    fn mounted() -> Mounted {
        let mut store = Memory::new(1000);
        store.format(ROOT, 0o755, &Caller { uid: 0, gid: 0, now_ns: 0 }).unwrap();
        Mounted::mount(store, ROOT, &[]).unwrap()
    }

    fn file(on: &mut Mounted, name: &[u8], bytes: &[u8]) -> ObjectId {
        let by = Caller { uid: 0, gid: 0, now_ns: 1 };
        let what = New::Node { mode: 0o644, device: 0 };
        let made = on.tree.make(&on.store, ROOT, name, what, &by).unwrap();
        on.store.commit(&made.changes).unwrap();
        if !bytes.is_empty() {
            on.write(made.stat.object, 0, bytes, 2).unwrap();
        }
        made.stat.object
    }

    fn numbered(length: u64) -> Vec<u8> {
        (0..length).map(|i| (i / 512 + i) as u8).collect()
    }

    #[test]
    fn a_whole_file_and_what_is_behind_its_end() {
        let mut on = mounted();
        let bytes = numbered(100_123);
        let (from, to) = (file(&mut on, b"a", &bytes), file(&mut on, b"b", b""));
        let it = Shared { from, from_bytes: 0, to, to_bytes: 0, length_bytes: 1 << 40 };
        let (changes, shared) = on.tree.share(&on.store, &it, Strip::Nothing, 3).unwrap();
        assert_eq!(shared, 100_123);
        on.store.commit(&changes).unwrap();
        assert_eq!(on.read(to, 0, 200_000).unwrap(), bytes);
        assert_eq!(on.tree.inode(&on.store, to).unwrap().tail_epoch, 0);
        // what grows over it is zeroes, and the other one stays as it is
        on.write(to, 100_200, b"x", 4).unwrap();
        let mut longer = bytes.clone();
        longer.resize(100_200, 0);
        longer.push(b'x');
        assert_eq!(on.read(to, 0, 200_000).unwrap(), longer);
        assert_eq!(on.read(from, 0, 200_000).unwrap(), bytes);
    }

    #[test]
    fn what_does_not_lie_in_whole_blocks_is_for_the_caller_to_copy() {
        let mut on = mounted();
        let (from, to) = (file(&mut on, b"a", &numbered(300_000)), file(&mut on, b"b", b""));
        let longer = file(&mut on, b"c", &numbered(400_000));
        let may = |it: Shared| on.tree.shareable(&on.store, &it);
        let of = |from_bytes, to, to_bytes, length_bytes| Shared {
            from,
            from_bytes,
            to,
            to_bytes,
            length_bytes,
        };
        for (it, shared) in [
            (of(0, to, 0, 300_000), Ok(300_000)),
            (of(4096, to, 8192, 1 << 62), Ok(295_904)),
            (of(0, to, 0, 100_000), Ok(98_304)),
            (of(0, longer, 0, 300_000), Ok(299_008)),
            (of(300_000, to, 0, 5), Ok(0)),
            (of(0, from, 102_400, 70_000), Ok(69_632)),
            (of(0, from, 4096, 70_000), Err(NameError::Unsupported)),
            (of(0, to, 512, 300_000), Err(NameError::Unsupported)),
            (of(512, to, 0, 200_000), Err(NameError::Unsupported)),
            (of(0, to, 0, 65_535), Err(NameError::Unsupported)),
            (of(0, ROOT, 0, 300_000), Err(NameError::IsDirectory)),
            (of(0, to, u64::MAX - 5, 300_000), Err(NameError::FileTooLarge)),
        ] {
            assert_eq!(may(it), shared, "{it:?}");
        }
    }
}
