//! What does the root of a checkpoint say?
//!
//! Source: design decision 7. A root names all that a start needs: where the table of the map begins (`pointer`), the
//! objects, and where replay of the journal begins. The two roots of a drive are written in turn, so that a
//! checkpoint that is cut short leaves the one before whole.
//!
//! ```text
//! root  = magic u32, crc u32, pool u128, checkpoint u64, replay sequence u64, replay offset u64,
//!         replay upto u64, object bytes u32, 0 u32, [objects], map, object records
//! objects = generation u64, pages u32, area u32, crc u32, 0 u32    in a root with the second magic: the
//!         objects are in a table of their own, and not in the root
//! map   = leaves u64, pointers u32, 0 u32, pointer x so many (`pointer`)
//! ```

use super::cursor::{Reader, Writer};
use super::pointer::TableRoot;
use super::{FormatError, crc32c};

const ROOT_MAGIC: u32 = u32::from_le_bytes(*b"TRT5");
const ROOT_WITH_TABLE_MAGIC: u32 = u32::from_le_bytes(*b"TRT6");

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
    /// The last journal unit that a leaf may show: the checkpoint is whole only with the units up to
    /// it, so recovery must find them.
    pub replay_upto: u64,
    /// Object records, of a pool without a table of its own.
    pub objects: Vec<u8>,
    /// The table of objects.
    pub image: Option<RootImage>,
    /// The table of the map: places of blocks, and their checksums.
    pub map: TableRoot,
}

pub(super) const ROOT_HEADER_BYTES: usize = 64;
pub(super) const ROOT_TABLE_BYTES: usize = 24;

impl Root {
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
        out.u32(0);
        if let Some(image) = &self.image {
            out.u64(image.generation);
            out.u32(image.pages);
            out.u32(image.area);
            out.u32(image.crc);
            out.u32(0);
        }
        self.map.write(&mut out);
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
        let zero = reader.u32()?;
        if zero != 0 {
            let value = u64::from(zero);
            return Err(FormatError::Field { what: WHAT, field: "word that is zero", value });
        }
        let image =
            if magic == ROOT_WITH_TABLE_MAGIC { Some(root_image(&mut reader)?) } else { None };
        let map = TableRoot::read(&mut reader)?;
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
        Ok(Root { checkpoint, replay_sequence, replay_offset, replay_upto, objects, image, map })
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
            objects: Vec::new(),
            image: None,
            map: TableRoot::empty(300),
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
