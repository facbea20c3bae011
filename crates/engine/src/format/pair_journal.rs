//! What are the bytes of a pair's journal?
//!
//! Source: requirements I16, frontier D4; how they are used is in `mirror/journal.rs`. A drive of its own:
//! two heads written in turn, the sound one with the higher sequence holds; then a ring of units. A unit
//! is a header and the data of its extents, each filled up to whole blocks. Units carry the id of their
//! journal, their generation and a number that rises by one, so that nothing older is taken for one.
//!
//! ```text
//! head = 0 magic u64 | 8 crc u32 | 12 version u32 | 16 sequence u64 | 24 pair uuid u128 | 40 own uuid u128
//!        56 generation u32 | 60 members u8, 0 u8 x 3 | 64 ring bytes u64 | 72 tail at u64 | 80 tail unit u64
//! unit = 0 magic u64 | 8 crc u32 | 12 version u32 | 16 own uuid u128 | 32 generation u32 | 36 extents u32
//!        40 sequence u64 | 48 durable up to u64 | 56 blocks u32, 60 0 u32
//!        64 extents (offset u64, bytes u64) x n | checksum of a block u32 x m | zero up to a block
//!        | data, m blocks
//! ```

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};
use tandem_block::{BLOCK_BYTES, KIB, MIB, SECTOR_BYTES};

const HEAD: &str = "head of a pair's journal";
const UNIT: &str = "unit of a pair's journal";
const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"TANDEMPJ");
const UNIT_MAGIC: u64 = u64::from_le_bytes(*b"TANDEMPU");
const VERSION: u32 = 1;
const UNIT_FIXED_BYTES: usize = 64;
/// Bytes kept for each of the two heads.
pub(crate) const HEAD_BYTES: u64 = 4 * KIB;
/// First byte of the ring.
pub(crate) const RING_AT: u64 = 64 * KIB;
/// Extents of a unit at most.
pub(crate) const EXTENTS_MAX: usize = 1024;
/// Data of a unit at most: more than any one write has.
pub(crate) const DATA_BYTES_MAX: u64 = 64 * MIB;
/// The longest header.
pub(crate) const HEADER_BYTES_MAX: u64 =
    header_bytes(EXTENTS_MAX, (DATA_BYTES_MAX / BLOCK_BYTES) as usize);

/// Bytes of a ring on a drive of so many bytes.
pub(crate) fn ring_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes.saturating_sub(RING_AT) / BLOCK_BYTES * BLOCK_BYTES
}

/// Bytes of the data of an extent.
pub(crate) const fn padded(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Bytes of a header with so many extents and checksums.
pub(crate) const fn header_bytes(extents: usize, blocks: usize) -> u64 {
    padded((UNIT_FIXED_BYTES + 16 * extents + 4 * blocks) as u64)
}

/// Where the ring begins, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHead {
    /// Rises with every head.
    pub sequence: u64,
    /// The pair's id.
    pub pair: u128,
    /// This journal's id.
    pub own: u128,
    /// Rises with every start of the pair; above 0. The pair's records name the one that counts.
    pub generation: u32,
    /// A bit for each leg to which the ring brings all that it lacks.
    pub members: u8,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Where in the ring its first unit lies, or would.
    pub tail_at: u64,
    /// … and its number
    pub tail_unit: u64,
}

impl JournalHead {
    /// The bytes to write: a block.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.generation > 0, "a generation that counts is above 0");
        assert!(self.members <= 3, "a pair has two legs");
        assert!(self.ring_bytes.is_multiple_of(BLOCK_BYTES), "a ring has whole blocks");
        assert!(
            self.tail_at <= self.ring_bytes && self.tail_at.is_multiple_of(BLOCK_BYTES),
            "the first unit lies in the ring"
        );
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u64(HEAD_MAGIC);
        out.u32(0);
        out.u32(VERSION);
        out.u64(self.sequence);
        out.u128(self.pair);
        out.u128(self.own);
        out.u32(self.generation);
        out.u32(u32::from(self.members));
        out.u64(self.ring_bytes);
        out.u64(self.tail_at);
        out.u64(self.tail_unit);
        out.pad_to(HEAD_BYTES as usize);
        let crc = crc32c(&out.bytes);
        out.patch_u32(8, crc);
        out.bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// Not a head, damaged, of a newer version, or with impossible fields.
    pub(crate) fn decode(bytes: &[u8]) -> Result<JournalHead, FormatError> {
        let bytes = bytes
            .get(..HEAD_BYTES as usize)
            .ok_or(FormatError::Short { what: HEAD, at: bytes.len() })?;
        let mut reader = open(bytes, HEAD, HEAD_MAGIC, bytes.len())?;
        let (sequence, pair, own) = (reader.u64()?, reader.u128()?, reader.u128()?);
        let (generation, members) = (reader.u32()?, reader.u32()?);
        let (ring_bytes, tail_at, tail_unit) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let field = |field, value| FormatError::Field { what: HEAD, field, value };
        if generation == 0 {
            return Err(field("the generation", 0));
        }
        if members > 3 {
            return Err(field("the members", u64::from(members)));
        }
        if !ring_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(field("the bytes of the ring", ring_bytes));
        }
        if tail_at > ring_bytes || !tail_at.is_multiple_of(BLOCK_BYTES) {
            return Err(field("the place of the first unit", tail_at));
        }
        let members = members as u8;
        Ok(JournalHead { sequence, pair, own, generation, members, ring_bytes, tail_at, tail_unit })
    }
}

/// The header of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    /// The journal's id.
    pub own: u128,
    /// Of which start of the pair.
    pub generation: u32,
    /// Rises by one.
    pub sequence: u64,
    /// Units up to here were durable when this one was composed.
    pub durable_upto: u64,
    /// First byte of the pair, and bytes, in the order of acceptance.
    pub extents: Vec<(u64, u64)>,
    /// CRC-32C of each block of the data.
    pub checksums: Vec<u32>,
}

impl UnitHeader {
    /// Bytes of the header.
    pub(crate) fn header_bytes(&self) -> u64 {
        header_bytes(self.extents.len(), self.checksums.len())
    }

    /// Bytes of the data behind it.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.checksums.len() as u64 * BLOCK_BYTES
    }

    /// The bytes to write before the data.
    ///
    /// # Panics
    /// If it does not fit: the caller keeps the bounds.
    pub fn encode(&self) -> Vec<u8> {
        let data: u64 = self.extents.iter().map(|&(_, bytes)| padded(bytes)).sum();
        assert!(self.extents.len() <= EXTENTS_MAX && data <= DATA_BYTES_MAX, "units are bounded");
        assert_eq!(data, self.data_bytes(), "a checksum for every block");
        assert!(self.durable_upto < self.sequence, "a unit is not durable before it is written");
        let is_whole = |&(offset, bytes): &(u64, u64)| {
            (offset | bytes).is_multiple_of(SECTOR_BYTES) && bytes > 0
        };
        assert!(self.extents.iter().all(is_whole), "an extent has whole sectors");
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u64(UNIT_MAGIC);
        out.u32(0);
        out.u32(VERSION);
        out.u128(self.own);
        out.u32(self.generation);
        out.u32(self.extents.len() as u32);
        out.u64(self.sequence);
        out.u64(self.durable_upto);
        out.u32(self.checksums.len() as u32);
        out.u32(0);
        for &(offset, bytes) in &self.extents {
            out.u64(offset);
            out.u64(bytes);
        }
        for &checksum in &self.checksums {
            out.u32(checksum);
        }
        out.pad_to(self.header_bytes() as usize);
        let crc = crc32c(&out.bytes);
        out.patch_u32(8, crc);
        out.bytes
    }

    /// How many bytes has the header that begins here? What else it says is not verified yet.
    ///
    /// # Errors
    /// No header, or impossible counts.
    pub(crate) fn peek(bytes: &[u8]) -> Result<u64, FormatError> {
        let mut reader = Reader::new(bytes, UNIT);
        if reader.u64()? != UNIT_MAGIC {
            return Err(FormatError::Magic { what: UNIT });
        }
        reader.take(28)?;
        let extents = reader.u32()?;
        reader.take(16)?;
        let blocks = reader.u32()?;
        let field = |field, value| FormatError::Field { what: UNIT, field, value };
        if extents as usize > EXTENTS_MAX {
            return Err(field("the number of extents", u64::from(extents)));
        }
        if u64::from(blocks) * BLOCK_BYTES > DATA_BYTES_MAX {
            return Err(field("the number of blocks", u64::from(blocks)));
        }
        Ok(header_bytes(extents as usize, blocks as usize))
    }

    /// Reads the header that begins here, of a pair of so many bytes.
    ///
    /// # Errors
    /// No header, torn, damaged, of a newer version, or with impossible fields.
    pub(crate) fn decode(bytes: &[u8], pair_bytes: u64) -> Result<UnitHeader, FormatError> {
        let covered = UnitHeader::peek(bytes)? as usize;
        let mut reader = open(bytes, UNIT, UNIT_MAGIC, covered)?;
        let (own, generation, count) = (reader.u128()?, reader.u32()?, reader.u32()?);
        let (sequence, durable_upto) = (reader.u64()?, reader.u64()?);
        let (blocks, _) = (reader.u32()?, reader.u32()?);
        let field = |field, value| FormatError::Field { what: UNIT, field, value };
        let (mut extents, mut data_bytes) = (Vec::new(), 0);
        for _ in 0..count {
            let (offset, bytes) = (reader.u64()?, reader.u64()?);
            let fits = offset.checked_add(bytes).is_some_and(|end| end <= pair_bytes);
            let whole = (offset | bytes).is_multiple_of(SECTOR_BYTES) && bytes > 0;
            if !fits || !whole {
                return Err(field("an extent", offset));
            }
            data_bytes += padded(bytes);
            extents.push((offset, bytes));
        }
        if data_bytes != u64::from(blocks) * BLOCK_BYTES {
            return Err(field("the bytes of its extents", data_bytes));
        }
        if durable_upto >= sequence {
            return Err(field("what was durable before it", durable_upto));
        }
        let checksums = (0..blocks).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        Ok(UnitHeader { own, generation, sequence, durable_upto, extents, checksums })
    }
}

/// Verifies magic, version and the checksum of the first bytes; what comes next is the first field.
fn open<'a>(
    bytes: &'a [u8],
    what: &'static str,
    magic: u64,
    covered: usize,
) -> Result<Reader<'a>, FormatError> {
    let mut reader = Reader::new(bytes, what);
    if reader.u64()? != magic {
        return Err(FormatError::Magic { what });
    }
    let (crc, version) = (reader.u32()?, reader.u32()?);
    if version != VERSION {
        return Err(FormatError::Version { what, found: version, known: VERSION });
    }
    let Some(covered) = bytes.get(..covered) else {
        return Err(FormatError::Short { what, at: bytes.len() });
    };
    let mut covered = covered.to_vec();
    covered[8..12].fill(0);
    if crc32c(&covered) != crc {
        return Err(FormatError::Checksum { what });
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: u64 = 64 << 20;

    fn head() -> JournalHead {
        JournalHead {
            sequence: 9,
            pair: 1,
            own: 2,
            generation: 3,
            members: 3,
            ring_bytes: 1 << 20,
            tail_at: 8192,
            tail_unit: 77,
        }
    }

    fn unit() -> UnitHeader {
        UnitHeader {
            own: 2,
            generation: 3,
            sequence: 78,
            durable_upto: 70,
            extents: vec![(0, 4096), (8192, 512), (4096, 9216)],
            checksums: vec![1, 2, 3, 4, 5],
        }
    }

    #[test]
    fn what_was_written_is_read_also_over_older_bytes() {
        assert_eq!(JournalHead::decode(&head().encode()).unwrap(), head());
        let mut bytes = unit().encode();
        assert_eq!(bytes.len() as u64, unit().header_bytes());
        bytes.extend(vec![0xAA; 4096]);
        assert_eq!(UnitHeader::decode(&bytes, PAIR).unwrap(), unit());
        assert_eq!(UnitHeader::peek(&bytes).unwrap(), 4096);
    }

    #[test]
    fn the_largest_unit_has_the_longest_header() {
        let full = UnitHeader {
            extents: (0..EXTENTS_MAX as u64).map(|i| (i * 65_536, 65_536)).collect(),
            checksums: (0..(DATA_BYTES_MAX / BLOCK_BYTES) as u32).collect(),
            ..unit()
        };
        let bytes = full.encode();
        assert_eq!(bytes.len() as u64, HEADER_BYTES_MAX);
        assert_eq!(UnitHeader::decode(&bytes, PAIR).unwrap(), full);
        let short = UnitHeader::decode(&bytes[..4096], PAIR);
        assert!(matches!(short, Err(FormatError::Short { .. })));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for (bytes, is_head) in [(head().encode(), true), (unit().encode(), false)] {
            for at in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[at / 8] ^= 1 << (at % 8);
                let seen = match is_head {
                    true => JournalHead::decode(&damaged).is_err(),
                    false => UnitHeader::decode(&damaged, PAIR).is_err(),
                };
                assert!(seen, "bit {at}");
            }
        }
    }

    #[test]
    fn impossible_fields_are_named() {
        for (broken, what) in [
            (JournalHead { generation: 0, ..head() }, "the generation"),
            (JournalHead { members: 4, ..head() }, "the members"),
            (JournalHead { ring_bytes: 5000, ..head() }, "the bytes of the ring"),
            (JournalHead { tail_at: 2 << 20, ..head() }, "the place"),
        ] {
            let error = JournalHead::decode(&broken.bytes()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        for (broken, what) in [
            (UnitHeader { durable_upto: 78, ..unit() }, "durable"),
            (UnitHeader { extents: vec![(PAIR, 512)], checksums: vec![1], ..unit() }, "an extent"),
            (UnitHeader { extents: vec![(100, 512)], checksums: vec![1], ..unit() }, "an extent"),
        ] {
            let error = UnitHeader::decode(&broken.bytes(), PAIR).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
