//! What do reads and writes of a file's bytes need before and after?
//!
//! Bytes lie in the object at their own offsets; the object may be larger than the file. What lies
//! between the two ends is the *tail*; see the crate's page for why it must be known to be zeroes.

use crate::error::NameError;
use crate::objects::{Change, Objects};
use crate::privileges::{self, Strip};
use crate::tree::Tree;
use tandem_block::{BLOCK_BYTES, MIB, ObjectId, SECTOR_BYTES};

/// Largest file in bytes, 4 PiB: the engine numbers the blocks of an object by 40 bits.
pub const FILE_BYTES_MAX: u64 = ((1 << 40) - 2) * BLOCK_BYTES;
/// Times of writes are whole ticks, as Linux's own have long been: not every small write of a file
/// changes its inode.
const TICK_NS: i64 = 4_000_000;
/// A file that grows gets room for an eighth of its size more, up to this, so that not every append
/// changes the object's size.
const ROOM_BYTES_MAX: u64 = MIB;

/// Which bytes of the object a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// First byte.
    pub offset_bytes: u64,
    /// How many; 0 at and behind the end.
    pub length_bytes: u64,
}

/// Bytes behind the end of a file that need not be zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleTail {
    /// The end of the file.
    pub from_bytes: u64,
    /// The end of its last block. If there is nothing between the two, nothing has to be zeroed or
    /// flushed.
    pub to_bytes: u64,
}

/// The whole sectors around a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// First byte, a multiple of 512.
    pub offset_bytes: u64,
    /// Bytes, a multiple of 512.
    pub length_bytes: u64,
    /// Sectors of which only a part is meant: they have to be read before they are written.
    pub parts: [Option<u64>; 2],
}

/// The whole sectors around a range of bytes, which must not be empty nor end above 2^63.
pub fn cover(offset_bytes: u64, length_bytes: u64) -> Cover {
    assert!(length_bytes > 0, "nothing to cover");
    let end = offset_bytes + length_bytes;
    let first = offset_bytes / SECTOR_BYTES * SECTOR_BYTES;
    let last = (end - 1) / SECTOR_BYTES * SECTOR_BYTES;
    let head_is_part = first < offset_bytes || (first == last && !end.is_multiple_of(SECTOR_BYTES));
    let tail_is_part = first != last && !end.is_multiple_of(SECTOR_BYTES);
    let parts = [head_is_part.then_some(first), tail_is_part.then_some(last)];
    Cover { offset_bytes: first, length_bytes: last + SECTOR_BYTES - first, parts }
}

impl Tree {
    /// The part of a range that the file has: to be read, or, where holes are punched, zeroed.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn range(
        &self,
        on: &impl Objects,
        file: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<ReadRange, NameError> {
        let size_bytes = self.readable_file(on, file)?.size_bytes;
        let offset_bytes = offset_bytes.min(size_bytes);
        let length_bytes = length_bytes.min(size_bytes - offset_bytes);
        Ok(ReadRange { offset_bytes, length_bytes })
    }

    /// What must be made zeroes, durably, before the file may grow to `end_bytes`.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn stale_tail(
        &self,
        on: &impl Objects,
        file: ObjectId,
        end_bytes: u64,
    ) -> Result<Option<StaleTail>, NameError> {
        let inode = self.file(on, file)?;
        let room = on.size_bytes(file).ok_or(NameError::NotFound)?;
        let grows = end_bytes > inode.size_bytes;
        if !grows || inode.tail_epoch == self.epoch || room <= inode.size_bytes {
            return Ok(None);
        }
        let to_bytes = inode.size_bytes.next_multiple_of(BLOCK_BYTES);
        Ok(Some(StaleTail { from_bytes: inode.size_bytes, to_bytes }))
    }

    /// The stale tail was overwritten with zeroes, and that was flushed.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn tail_is_zero(
        &self,
        on: &impl Objects,
        file: ObjectId,
    ) -> Result<Vec<Change>, NameError> {
        let inode = self.file(on, file)?;
        let room = on.size_bytes(file).ok_or(NameError::NotFound)?;
        let blocks = inode.size_bytes.next_multiple_of(BLOCK_BYTES);
        let mut draft = self.draft(on);
        if blocks < room {
            draft.resize(file, blocks);
        }
        draft.inode(file)?.tail_epoch = self.epoch;
        Ok(draft.finish())
    }

    /// A write beyond the end failed, or what it had written was not recorded: nobody knows what is
    /// there.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    pub fn tail_is_unknown(
        &self,
        on: &impl Objects,
        file: ObjectId,
    ) -> Result<Vec<Change>, NameError> {
        self.file(on, file)?;
        let mut draft = self.draft(on);
        draft.inode(file)?.tail_epoch = 0;
        Ok(draft.finish())
    }

    /// Before bytes up to `end_bytes` are written: the object gets room for them.
    ///
    /// # Errors
    /// `FileTooLarge`, `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    ///
    /// # Panics
    /// If the file grows and its tail is stale.
    pub fn make_room(
        &self,
        on: &impl Objects,
        file: ObjectId,
        end_bytes: u64,
    ) -> Result<Vec<Change>, NameError> {
        self.file(on, file)?;
        if end_bytes > FILE_BYTES_MAX {
            return Err(NameError::FileTooLarge);
        }
        assert_eq!(self.stale_tail(on, file, end_bytes)?, None, "a file grows only over zeroes");
        let room = on.size_bytes(file).ok_or(NameError::NotFound)?;
        let mut draft = self.draft(on);
        if end_bytes > room {
            let eighth = 1 << (end_bytes / 8).max(1).ilog2();
            let step = u64::clamp(eighth, BLOCK_BYTES, ROOM_BYTES_MAX);
            draft.resize(file, end_bytes.next_multiple_of(step).min(FILE_BYTES_MAX));
            draft.inode(file)?.tail_epoch = self.epoch;
        }
        Ok(draft.finish())
    }

    /// Bytes up to `end_bytes` were written; they are the file's from now on, and it loses `strip`.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`, `NotFound`, `OtherVolume`, `Damaged`.
    ///
    /// # Panics
    /// If the object has no room for them.
    pub fn written(
        &self,
        on: &impl Objects,
        file: ObjectId,
        end_bytes: u64,
        strip: Strip,
        now_ns: i64,
    ) -> Result<Vec<Change>, NameError> {
        let known = self.file(on, file)?;
        let tick_ns = now_ns - now_ns.rem_euclid(TICK_NS);
        let is_told = (known.modified_ns, known.changed_ns) == (tick_ns, tick_ns);
        if is_told && end_bytes <= known.size_bytes && !privileges::has_any(on, file, &known, strip)
        {
            return Ok(Vec::new());
        }
        let room = on.size_bytes(file).ok_or(NameError::NotFound)?;
        assert!(end_bytes <= room, "room was made before");
        let mut draft = self.draft(on);
        let inode = draft.inode(file)?;
        (inode.modified_ns, inode.changed_ns) = (tick_ns, tick_ns);
        inode.size_bytes = inode.size_bytes.max(end_bytes);
        draft.strip(file, strip)?;
        Ok(draft.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_which_a_part_is_meant_are_read_first() {
        for (range, offset_bytes, length_bytes, parts) in [
            ((0, 512), 0, 512, [None, None]),
            ((512, 1024), 512, 1024, [None, None]),
            ((1, 511), 0, 512, [Some(0), None]),
            ((512, 5), 512, 512, [Some(512), None]),
            ((513, 2), 512, 512, [Some(512), None]),
            ((511, 2), 0, 1024, [Some(0), Some(512)]),
            ((0, 1025), 0, 1536, [None, Some(1024)]),
            ((100, 924), 0, 1024, [Some(0), None]),
        ] {
            let expected = Cover { offset_bytes, length_bytes, parts };
            assert_eq!(cover(range.0, range.1), expected, "{range:?}");
        }
    }
}
