//! How far has a drive come that shall take another one's place?
//!
//! Two marks, in the first and the last block of the successor, where superblocks will stand when it is
//! a member; written in turn, the sound one with the higher number holds. A mark counts only while every
//! superblock of the pool names the successor: whoever served the pool without it has left it out there.
//!
//! ```text
//! 0 magic u64 | 8 crc u32 | 12 version u32 | 16 number u64 | 24 pool u128 | 40 successor u128
//! 56 drive that it replaces u128 | 72 its index u8, 0 x 7 | 80 copied bytes u64 | 88 bytes to copy u64
//! ```

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};
use tandem_block::BLOCK_BYTES;

const WHAT: &str = "mark of a successor";
const MAGIC: u64 = u64::from_le_bytes(*b"TANDEMHO");
const VERSION: u32 = 1;

/// How far the copy has durably come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Rises with every mark.
    pub number: u64,
    /// The pool.
    pub pool: u128,
    /// The id that this drive gets.
    pub successor: u128,
    /// The id of the drive that it replaces.
    pub replaces: u128,
    /// That drive's position among the members.
    pub index: u8,
    /// So much of the data lies here, in the order of copying.
    pub copied_bytes: u64,
    /// … of so much.
    pub total_bytes: u64,
}

/// Does this block look like a mark, sound or not?
#[cfg(test)]
pub(crate) fn is_ours(block: &[u8]) -> bool {
    block.len() >= 8 && block[..8] == MAGIC.to_le_bytes()
}

impl Mark {
    /// The block to write.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.copied_bytes <= self.total_bytes, "no more is copied than there is");
        let mut out = Writer::default();
        out.u64(MAGIC);
        out.u32(0);
        out.u32(VERSION);
        out.u64(self.number);
        out.u128(self.pool);
        out.u128(self.successor);
        out.u128(self.replaces);
        out.u64(u64::from(self.index));
        out.u64(self.copied_bytes);
        out.u64(self.total_bytes);
        out.pad_to(BLOCK_BYTES as usize);
        let crc = crc32c(&out.bytes);
        out.patch_u32(8, crc);
        out.bytes
    }

    /// Reads a block.
    ///
    /// # Errors
    /// Not a mark, damaged, of a newer version, or with impossible fields.
    pub(crate) fn decode(block: &[u8]) -> Result<Mark, FormatError> {
        let mut reader = Reader::new(block, WHAT);
        if reader.u64()? != MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        let crc = reader.u32()?;
        let version = reader.u32()?;
        if block.len() != BLOCK_BYTES as usize {
            return Err(FormatError::Short { what: WHAT, at: block.len() });
        }
        let mut covered = block.to_vec();
        covered[8..12].fill(0);
        if crc32c(&covered) != crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        if version != VERSION {
            return Err(FormatError::Version { what: WHAT, found: version, known: VERSION });
        }
        let number = reader.u64()?;
        let (pool, successor, replaces) = (reader.u128()?, reader.u128()?, reader.u128()?);
        let index = reader.u64()?;
        let (copied_bytes, total_bytes) = (reader.u64()?, reader.u64()?);
        let index = u8::try_from(index).map_err(|_| FormatError::Field {
            what: WHAT,
            field: "index",
            value: index,
        })?;
        if copied_bytes > total_bytes {
            let field = "copied bytes";
            return Err(FormatError::Field { what: WHAT, field, value: copied_bytes });
        }
        Ok(Mark { number, pool, successor, replaces, index, copied_bytes, total_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_every_flipped_bit_is_seen() {
        let mark = Mark {
            number: 7,
            pool: 1,
            successor: 2,
            replaces: 3,
            index: 1,
            copied_bytes: 1 << 20,
            total_bytes: 1 << 30,
        };
        let block = mark.encode();
        assert!(is_ours(&block));
        assert_eq!(Mark::decode(&block), Ok(mark));
        for at in 0..block.len() {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert!(Mark::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Mark::decode(&block[..512]).is_err());
    }
}
