//! What is one journal unit, and how is a torn one told from a damaged one?
//!
//! Source: design decision 7. Units are written one at a time and the next is composed only when
//! the one before is durable. So at recovery the first unit that cannot be read is a torn tail,
//! unless a readable unit with a higher number proves that it once was durable: then it is
//! corruption. The newest unit has none behind it; therefore every sector carries a stamp of its unit.
//! Sectors are written whole or not at all: a unit all of whose sectors have its stamp was written to
//! its end, and if it cannot be read it is damaged. A torn one has sectors of something older.
//!
//! ```text
//! header = 0 magic u32 | 4 crc u32 | 8 pool u128 | 24 sequence u64 | 32 acked_upto u64
//!          40 body bytes u32 | 44 version u16 | 46 flags u16 | 48 crc of the header u32 | 52 zero
//! sector = 508 bytes of (header, body, zero) | stamp u32; as many as fill whole blocks of 4 KiB
//! ```

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};
use tandem_block::BLOCK_BYTES;

const WHAT: &str = "journal unit";
const MAGIC: u32 = u32::from_le_bytes(*b"TJU1");
const VERSION: u16 = 1;
/// Bytes before the body.
pub(crate) const HEADER_BYTES: usize = 64;
/// A unit's size on disk at most; bounds what recovery has to hold.
pub(crate) const UNIT_BYTES_MAX: usize = 1 << 20;
const HEADER_CRC_AT: usize = 48;
const SECTOR: usize = tandem_block::SECTOR_BYTES as usize;
/// Bytes of a sector before its stamp.
const SECTOR_BODY: usize = SECTOR - 4;
/// Wrong bits that a stamp may have and still be known: two stamps differ in sixteen on average, and
/// once in eight million in so few.
const STAMP_BITS_WRONG_MAX: u32 = 2;

/// A unit's header and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Rises by one per unit, never repeats within a pool.
    pub sequence: u64,
    /// Every unit up to here was durable when this one was composed.
    pub acked_upto: u64,
    /// Encoded records.
    pub body: Vec<u8>,
}

/// Bytes on disk of a unit with this body.
pub fn disk_bytes(body_bytes: usize) -> usize {
    let sectors = (HEADER_BYTES + body_bytes).div_ceil(SECTOR_BODY);
    (sectors * SECTOR).next_multiple_of(BLOCK_BYTES as usize)
}

/// Longest body of a unit that takes at most so many bytes on disk, a multiple of 4096.
pub(crate) fn body_bytes_max(disk_bytes: usize) -> usize {
    assert!(disk_bytes >= BLOCK_BYTES as usize, "a unit has a block for its header");
    disk_bytes / SECTOR * SECTOR_BODY - HEADER_BYTES
}

/// What every sector of a unit ends with: its number and pool, mixed so that neighbours differ, and
/// never near to what an empty or an erased sector holds.
fn stamp(pool: u128, sequence: u64) -> u32 {
    let mut seed = sequence ^ (pool as u64).rotate_left(32) ^ (pool >> 64) as u64;
    loop {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let stamp = (mixed >> 32) as u32;
        if (8..=24).contains(&stamp.count_ones()) {
            return stamp;
        }
    }
}

/// Which blocks of 4 KiB, from the beginning of `bytes` on, have a sector of this unit? Offsets in bytes.
pub(crate) fn blocks_of(bytes: &[u8], pool: u128, sequence: u64) -> Vec<usize> {
    let wanted = stamp(pool, sequence).to_le_bytes();
    let bytes = &bytes[..bytes.len().min(UNIT_BYTES_MAX)];
    let blocks = bytes.chunks_exact(BLOCK_BYTES as usize).enumerate();
    let has_one =
        |block: &[u8]| block.chunks_exact(SECTOR).any(|sector| sector[SECTOR_BODY..] == wanted);
    blocks.filter(|(_, block)| has_one(block)).map(|(at, _)| at * BLOCK_BYTES as usize).collect()
}

/// Was this unit written to its end, though it cannot be read? `bytes` begin where it would lie.
pub fn is_damaged(bytes: &[u8], pool: u128, sequence: u64) -> bool {
    let wanted = stamp(pool, sequence);
    let is_its = |sector: &[u8]| {
        let found = u32::from_le_bytes(sector[SECTOR_BODY..].try_into().expect("four bytes"));
        (found ^ wanted).count_ones() <= STAMP_BITS_WRONG_MAX
    };
    let Some(first) = bytes.get(..SECTOR) else { return false };
    if !is_its(first) {
        return false;
    }
    match Unit::peek(bytes, pool) {
        // the sector is there, whole, so its header was: it is damaged
        Err(_) => true,
        Ok((_, found)) if found != sequence => true,
        Ok((length, _)) => {
            bytes.get(..length).is_none_or(|unit| unit.chunks_exact(SECTOR).all(is_its))
                && Unit::decode(bytes, pool).is_err()
        }
    }
}

impl Unit {
    /// The bytes to write, a multiple of 4 KiB.
    pub fn encode(&self, pool: u128) -> Vec<u8> {
        let length = disk_bytes(self.body.len());
        assert!(length <= UNIT_BYTES_MAX, "units are bounded");
        let mut out = Writer { bytes: Vec::with_capacity(length) };
        out.u32(MAGIC);
        out.u32(0);
        out.u128(pool);
        out.u64(self.sequence);
        out.u64(self.acked_upto);
        out.u32(u32::try_from(self.body.len()).expect("units are bounded"));
        out.u16(VERSION);
        out.u16(0);
        let header_crc = crc32c(&out.bytes);
        out.u32(header_crc);
        out.pad_to(HEADER_BYTES);
        out.bytes.extend_from_slice(&self.body);
        let crc = crc32c(&out.bytes);
        out.patch_u32(4, crc);
        out.pad_to(length / SECTOR * SECTOR_BODY);
        let stamp = stamp(pool, self.sequence).to_le_bytes();
        let mut sectors = Vec::with_capacity(length);
        for sector in out.bytes.chunks_exact(SECTOR_BODY) {
            sectors.extend_from_slice(sector);
            sectors.extend_from_slice(&stamp);
        }
        assert_eq!(sectors.len(), length, "a unit fills the blocks that it was given");
        sectors
    }

    /// Reads the header alone: how many bytes the unit has on disk, and its sequence. The body is not
    /// verified yet.
    pub(crate) fn peek(bytes: &[u8], pool: u128) -> Result<(usize, u64), FormatError> {
        let mut reader = Reader::new(bytes, WHAT);
        if reader.u32()? != MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        reader.u32()?;
        if reader.u128()? != pool {
            return Err(FormatError::Magic { what: WHAT });
        }
        let sequence = reader.u64()?;
        reader.u64()?;
        let body_bytes = reader.u32()? as usize;
        let version = u32::from(reader.u16()?);
        if version != u32::from(VERSION) {
            let known = u32::from(VERSION);
            return Err(FormatError::Version { what: WHAT, found: version, known });
        }
        let header_crc = (reader.take(2)?, reader.u32()?).1;
        let mut covered = bytes[..HEADER_CRC_AT].to_vec();
        covered[4..8].fill(0);
        if crc32c(&covered) != header_crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        if body_bytes > UNIT_BYTES_MAX || disk_bytes(body_bytes) > UNIT_BYTES_MAX {
            let value = body_bytes as u64;
            return Err(FormatError::Field { what: WHAT, field: "body length", value });
        }
        Ok((disk_bytes(body_bytes), sequence))
    }

    /// Decodes a whole unit that begins at the first of `bytes`.
    ///
    /// # Errors
    /// Torn, damaged, of another pool or version, or cut short.
    pub fn decode(bytes: &[u8], pool: u128) -> Result<Unit, FormatError> {
        let (disk, sequence) = Unit::peek(bytes, pool)?;
        if bytes.len() < disk {
            return Err(FormatError::Short { what: WHAT, at: bytes.len() });
        }
        let mut reader = Reader::new(bytes, WHAT);
        reader.take(4)?;
        let crc = reader.u32()?;
        reader.take(24)?;
        let acked_upto = reader.u64()?;
        let body_bytes = reader.u32()? as usize;
        let wanted = stamp(pool, sequence).to_le_bytes();
        let mut covered = Vec::with_capacity(disk);
        for sector in bytes[..disk].chunks_exact(SECTOR) {
            if sector[SECTOR_BODY..] != wanted {
                return Err(FormatError::Checksum { what: WHAT });
            }
            covered.extend_from_slice(&sector[..SECTOR_BODY]);
        }
        if covered[HEADER_BYTES + body_bytes..].iter().any(|&byte| byte != 0) {
            return Err(FormatError::Checksum { what: WHAT });
        }
        covered.truncate(HEADER_BYTES + body_bytes);
        covered[4..8].fill(0);
        if crc32c(&covered) != crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        covered.drain(..HEADER_BYTES);
        Ok(Unit { sequence, acked_upto, body: covered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_torn_unit_are_found() {
        let unit = Unit { sequence: 16, acked_upto: 15, body: vec![7; 9_000] };
        let bytes = unit.encode(3);
        assert_eq!(blocks_of(&bytes, 3, 16), [0, 4096, 8192]);
        assert_eq!(blocks_of(&bytes, 3, 17), []);
        let mut torn = bytes.clone();
        torn[4096..8192].fill(0);
        torn[512..1024].fill(9);
        assert_eq!(blocks_of(&torn, 3, 16), [0, 8192]);
    }

    #[test]
    fn a_unit_comes_back_and_damage_is_seen() {
        let unit = Unit { sequence: 5, acked_upto: 4, body: vec![3; 5000] };
        let bytes = unit.encode(77);
        assert_eq!(bytes.len(), 8192);
        assert_eq!(Unit::decode(&bytes, 77).unwrap(), unit);
        assert!(!is_damaged(&bytes, 77, 5), "a sound one is not damaged");
        assert!(matches!(Unit::decode(&bytes, 78), Err(FormatError::Magic { .. })));
        assert!(matches!(Unit::decode(&bytes[..4096], 77), Err(FormatError::Short { .. })));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Unit::decode(&bad, 77).is_err(), "byte {at}");
            assert!(is_damaged(&bad, 77, 5), "byte {at}: it was written whole");
        }
    }

    #[test]
    fn a_torn_unit_is_not_a_damaged_one() {
        let older = Unit { sequence: 4, acked_upto: 3, body: vec![9; 7000] }.encode(77);
        let bytes = Unit { sequence: 5, acked_upto: 4, body: vec![3; 5000] }.encode(77);
        for before in [vec![0; bytes.len()], older] {
            for missing in 0..bytes.len() / SECTOR {
                let mut torn = bytes.clone();
                let sector = missing * SECTOR..(missing + 1) * SECTOR;
                torn[sector.clone()].copy_from_slice(&before[sector]);
                assert!(Unit::decode(&torn, 77).is_err());
                assert!(!is_damaged(&torn, 77, 5), "sector {missing} was never written");
            }
        }
    }

    #[test]
    fn the_longest_body_fits() {
        for blocks in [1, 2, 16, 256] {
            let longest = body_bytes_max(blocks * 4096);
            assert_eq!(disk_bytes(longest), blocks * 4096);
            assert!(disk_bytes(longest + 1) > blocks * 4096);
        }
    }
}
