//! How is the map cut into checkpoint shards, and what is in the root?
//!
//! Source: design decision 7. A shard is a fixed range of slots, or of home bits. Each has two
//! copies on disk and is always written over the one that the root does not name, so that a
//! checkpoint that is cut short leaves the one before whole. The root says which copy of each shard
//! holds, and where replay begins: a damaged copy is an error, and never a reason to believe the
//! other one, which is older.
//!
//! ```text
//! shard = magic u32, crc u32, pool u128, checkpoint u64, index u64, zero to 64, body
//! slot  = owner u32, checksum u32, mask u8, order u8, 0 u16        (12 bytes; mask 255: whole block)
//! root  = magic u32, crc u32, pool u128, checkpoint u64, replay sequence u64, replay offset u64,
//!         replay upto u64, object bytes u32, bitmap words u32, [table], home checksums, bitmap of written shards,
//!         bitmap of the copies that hold (0: the first), object records
//! table = generation u64, pages u32, area u32, crc u32, 0 u32      in a root with the second magic: the
//!         objects are in a table of their own, and not in the root
//! home checksums = leaves u64, pointers u32, 0 u32, pointer x so many (`pointer`)
//! ```

use super::cursor::{Reader, Writer};
use super::pointer::TableRoot;
use super::{FormatError, crc32c};
use crate::map::slots::number_from_disk;

/// Bytes of a shard on disk.
pub const SHARD_BYTES: u64 = 32 * 1024;
const HEADER_BYTES: usize = 64;
const SLOT_BYTES: usize = 12;
/// Slots in one shard.
pub(crate) const SHARD_SLOTS: usize = (SHARD_BYTES as usize - HEADER_BYTES) / SLOT_BYTES;
/// Home bits in one shard, a multiple of 64.
pub(crate) const SHARD_HOMES: usize = (SHARD_BYTES as usize - HEADER_BYTES) / 8 * 64;
const SHARD_MAGIC: u32 = u32::from_le_bytes(*b"TSH1");
const ROOT_MAGIC: u32 = u32::from_le_bytes(*b"TRT3");
const ROOT_WITH_TABLE_MAGIC: u32 = u32::from_le_bytes(*b"TRT4");

/// Shards for this many slots.
pub(crate) fn slot_shards(slots: u64) -> u64 {
    slots.div_ceil(SHARD_SLOTS as u64)
}

/// Shards for this many home bits.
pub(crate) fn home_shards(homes: u64) -> u64 {
    homes.div_ceil(SHARD_HOMES as u64)
}

/// One slot as a checkpoint knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The logical block, or `NONE`.
    pub owner: u64,
    /// Its checksum.
    pub checksum: u32,
    /// 255 for a whole block, else the sectors of a fragment.
    pub mask: u8,
    /// Position among the block's fragments, oldest 0.
    pub order: u8,
}

/// Builds one shard.
#[derive(Debug)]
pub struct ShardWriter {
    out: Writer,
}

impl ShardWriter {
    /// Begins shard `index` of checkpoint `checkpoint`.
    pub fn new(pool: u128, checkpoint: u64, index: u64) -> Self {
        let mut out = Writer { bytes: Vec::with_capacity(SHARD_BYTES as usize) };
        out.u32(SHARD_MAGIC);
        out.u32(0);
        out.u128(pool);
        out.u64(checkpoint);
        out.u64(index);
        out.pad_to(HEADER_BYTES);
        ShardWriter { out }
    }

    /// Adds the next slot.
    pub fn slot(&mut self, entry: SlotEntry) {
        assert!(entry.mask != 0, "a slot holds sectors of its block");
        self.out.number(entry.owner);
        self.out.u32(entry.checksum);
        self.out.u8(entry.mask);
        self.out.u8(entry.order);
        self.out.u16(0);
    }

    /// Adds the next 64 home bits.
    pub fn homes(&mut self, word: u64) {
        self.out.u64(word);
    }

    /// The bytes to write.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.pad_to(SHARD_BYTES as usize);
        let crc = crc32c(&self.out.bytes);
        self.out.patch_u32(4, crc);
        self.out.bytes
    }
}

/// Verifies a shard and returns its checkpoint number; its body begins after the header.
///
/// # Errors
/// Damaged, of another pool, or not the shard of this index.
pub fn shard_checkpoint(bytes: &[u8], pool: u128, index: u64) -> Result<u64, FormatError> {
    const WHAT: &str = "checkpoint shard";
    let mut reader = Reader::new(bytes, WHAT);
    if reader.u32()? != SHARD_MAGIC {
        return Err(FormatError::Magic { what: WHAT });
    }
    let crc = reader.u32()?;
    if reader.u128()? != pool {
        return Err(FormatError::Magic { what: WHAT });
    }
    let checkpoint = reader.u64()?;
    let found = reader.u64()?;
    if bytes.len() != SHARD_BYTES as usize {
        return Err(FormatError::Short { what: WHAT, at: bytes.len() });
    }
    let mut covered = bytes.to_vec();
    covered[4..8].fill(0);
    if crc32c(&covered) != crc {
        return Err(FormatError::Checksum { what: WHAT });
    }
    if found != index {
        return Err(FormatError::Field { what: WHAT, field: "index", value: found });
    }
    Ok(checkpoint)
}

/// The slots of a verified shard, as many as it has room for.
pub(crate) fn shard_slots(bytes: &[u8]) -> impl Iterator<Item = SlotEntry> + '_ {
    bytes[HEADER_BYTES..].chunks_exact(SLOT_BYTES).map(|b| SlotEntry {
        owner: number_from_disk(u32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        checksum: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        mask: b[8],
        order: b[9],
    })
}

/// The home words of a verified shard.
pub(crate) fn shard_homes(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes[HEADER_BYTES..]
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes(b.try_into().expect("chunks of eight")))
}

/// The table of objects as a root names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootImage {
    /// Number of the checkpoint that wrote it.
    pub generation: u64,
    /// Which of the two areas.
    pub area: u32,
    /// Its pages.
    pub pages: u32,
    /// Over the checksums of all pages.
    pub crc: u32,
}

/// A checkpoint's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Number of the checkpoint; the higher of two sound roots holds.
    pub checkpoint: u64,
    /// First journal unit that is not in it. The first unit of a pool is 1.
    pub replay_sequence: u64,
    /// Where in the journal ring that unit begins (or would).
    pub replay_offset: u64,
    /// The last journal unit that a shard may show: the checkpoint is whole only with the units up to
    /// it, so recovery must find them.
    pub replay_upto: u64,
    /// Bit n: shard n was written by this checkpoint or an earlier one.
    pub written: Vec<u64>,
    /// Bit n: the second copy of shard n holds, and not the first. As many words as `written`.
    pub second_copy: Vec<u64>,
    /// Object records, of a pool without a table of its own.
    pub objects: Vec<u8>,
    /// The table of objects.
    pub image: Option<RootImage>,
    /// The table of the checksums of homes.
    pub checksums: TableRoot,
}

pub(super) const ROOT_HEADER_BYTES: usize = 64;
pub(super) const ROOT_TABLE_BYTES: usize = 24;

impl Root {
    /// Which copy of this shard holds (0 or 1); `None`: it was never written.
    pub fn copy_of(&self, shard: u64) -> Option<u64> {
        let bit = |words: &[u64]| words[(shard / 64) as usize] >> (shard % 64) & 1;
        (bit(&self.written) == 1).then(|| bit(&self.second_copy))
    }

    /// Has a root of these bytes a table? Of a sound one.
    pub(super) fn has_table(bytes: &[u8]) -> bool {
        bytes.starts_with(&ROOT_WITH_TABLE_MAGIC.to_le_bytes())
    }

    /// The bytes to write.
    pub fn encode(&self, pool: u128) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32(if self.image.is_some() { ROOT_WITH_TABLE_MAGIC } else { ROOT_MAGIC });
        out.u32(0);
        out.u128(pool);
        out.u64(self.checkpoint);
        out.u64(self.replay_sequence);
        out.u64(self.replay_offset);
        out.u64(self.replay_upto);
        out.u32(u32::try_from(self.objects.len()).expect("roots are bounded"));
        out.u32(u32::try_from(self.written.len()).expect("roots are bounded"));
        if let Some(image) = &self.image {
            out.u64(image.generation);
            out.u32(image.pages);
            out.u32(image.area);
            out.u32(image.crc);
            out.u32(0);
        }
        self.checksums.write(&mut out);
        assert_eq!(self.written.len(), self.second_copy.len(), "one bit a shard in both");
        for &word in self.written.iter().chain(&self.second_copy) {
            out.u64(word);
        }
        out.bytes.extend_from_slice(&self.objects);
        let crc = crc32c(&out.bytes);
        out.patch_u32(4, crc);
        let length = out.bytes.len().next_multiple_of(4096);
        out.pad_to(length);
        out.bytes
    }

    /// Reads a root.
    ///
    /// # Errors
    /// Damaged, of another pool, or what no pool writes.
    pub fn decode(bytes: &[u8], pool: u128) -> Result<Root, FormatError> {
        const WHAT: &str = "checkpoint root";
        let mut reader = Reader::new(bytes, WHAT);
        let magic = reader.u32()?;
        if magic != ROOT_MAGIC && magic != ROOT_WITH_TABLE_MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        let crc = reader.u32()?;
        if reader.u128()? != pool {
            return Err(FormatError::Magic { what: WHAT });
        }
        let (checkpoint, replay_sequence) = (reader.u64()?, reader.u64()?);
        let (replay_offset, replay_upto) = (reader.u64()?, reader.u64()?);
        let length = reader.u32()? as usize;
        let words = reader.u32()? as usize;
        if words > bytes.len() / 16 {
            let value = words as u64;
            return Err(FormatError::Field { what: WHAT, field: "bitmap length", value });
        }
        let image =
            if magic == ROOT_WITH_TABLE_MAGIC { Some(root_image(&mut reader)?) } else { None };
        let checksums = TableRoot::read(&mut reader)?;
        let mut bitmaps = [Vec::with_capacity(words), Vec::with_capacity(words)];
        for bitmap in &mut bitmaps {
            for _ in 0..words {
                bitmap.push(reader.u64()?);
            }
        }
        let [written, second_copy] = bitmaps;
        let objects = reader.take(length)?.to_vec();
        let mut covered = bytes[..reader.position()].to_vec();
        covered[4..8].fill(0);
        if crc32c(&covered) != crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        if replay_sequence == 0 {
            let (field, value) = ("replay sequence", replay_sequence);
            return Err(FormatError::Field { what: WHAT, field, value });
        }
        Ok(Root {
            checkpoint,
            replay_sequence,
            replay_offset,
            replay_upto,
            written,
            second_copy,
            objects,
            image,
            checksums,
        })
    }
}

fn root_image(reader: &mut Reader<'_>) -> Result<RootImage, FormatError> {
    let generation = reader.u64()?;
    let (pages, area) = (reader.u32()?, reader.u32()?);
    let (crc, zero) = (reader.u32()?, reader.u32()?);
    if area > 1 || zero != 0 {
        let value = u64::from(area);
        return Err(FormatError::Field { what: "checkpoint root", field: "area", value });
    }
    Ok(RootImage { generation, area, pages, crc })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Root {
        Root {
            checkpoint: 2,
            replay_sequence: 1,
            replay_offset: 0,
            replay_upto: 0,
            written: vec![1],
            second_copy: vec![0],
            objects: Vec::new(),
            image: None,
            checksums: TableRoot::empty(300),
        }
    }

    #[test]
    fn a_root_begins_behind_a_unit_that_can_be() {
        assert_eq!(Root::decode(&sample().encode(7), 7), Ok(sample()));
        let none = Root { replay_sequence: 0, ..sample() };
        let (what, field) = ("checkpoint root", "replay sequence");
        let wrong = FormatError::Field { what, field, value: 0 };
        assert_eq!(Root::decode(&none.encode(7), 7), Err(wrong), "units are counted from 1");
    }
}
