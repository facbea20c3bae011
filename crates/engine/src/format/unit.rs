//! What is one journal unit, and how is a torn one told from a damaged one?
//!
//! Source: design decision 7. Units are written one at a time and the next is composed only when
//! the one before is durable. So at recovery the first unit that cannot be read is a torn tail,
//! unless a readable unit with a higher number proves that it once was durable: then it is
//! corruption.
//!
//! ```text
//! 0 magic u32 | 4 crc u32 | 8 pool u128 | 24 sequence u64 | 32 acked_upto u64
//! 40 body bytes u32 | 44 version u16 | 46 flags u16 | 48 zero | 64 body, padded to 4 KiB
//! ```

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};
use tandem_block::BLOCK_BYTES;

const WHAT: &str = "journal unit";
const MAGIC: u32 = u32::from_le_bytes(*b"TJU1");
const VERSION: u16 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 64;
/// A unit's size on disk at most; bounds what recovery has to hold.
pub const UNIT_BYTES_MAX: usize = 1 << 20;

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
    (HEADER_BYTES + body_bytes).next_multiple_of(BLOCK_BYTES as usize)
}

impl Unit {
    /// The bytes to write, a multiple of 4 KiB.
    pub fn encode(&self, pool: u128) -> Vec<u8> {
        let mut out = Writer { bytes: Vec::with_capacity(disk_bytes(self.body.len())) };
        out.u32(MAGIC);
        out.u32(0);
        out.u128(pool);
        out.u64(self.sequence);
        out.u64(self.acked_upto);
        out.u32(u32::try_from(self.body.len()).expect("units are bounded"));
        out.u16(VERSION);
        out.u16(0);
        out.pad_to(HEADER_BYTES);
        out.bytes.extend_from_slice(&self.body);
        assert!(disk_bytes(self.body.len()) <= UNIT_BYTES_MAX, "units are bounded");
        let crc = crc32c(&out.bytes);
        out.patch_u32(4, crc);
        out.pad_to(disk_bytes(self.body.len()));
        out.bytes
    }

    /// Reads the header alone: how many bytes the unit has on disk, and its sequence. The checksum
    /// is not verified yet.
    pub fn peek(bytes: &[u8], pool: u128) -> Result<(usize, u64), FormatError> {
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
        let mut covered = bytes[..HEADER_BYTES + body_bytes].to_vec();
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
    fn a_unit_comes_back_and_damage_is_seen() {
        let unit = Unit { sequence: 5, acked_upto: 4, body: vec![3; 5000] };
        let bytes = unit.encode(77);
        assert_eq!(bytes.len(), 8192);
        assert_eq!(Unit::decode(&bytes, 77).unwrap(), unit);
        assert!(matches!(Unit::decode(&bytes, 78), Err(FormatError::Magic { .. })));
        assert!(matches!(Unit::decode(&bytes[..4096], 77), Err(FormatError::Short { .. })));
        for at in 0..HEADER_BYTES + 5000 {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Unit::decode(&bad, 77).is_err(), "byte {at}");
        }
    }
}
