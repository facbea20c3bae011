//! Where are the checksums of the homes?
//!
//! Source: design decision 7: those of homes lie in a paged, journalled table. A page holds the
//! CRC-32C of 1016 consecutive home blocks. Two copies a page, written in turn; the sound one with
//! the higher version holds.
//!
//! ```text
//! page = magic u32, crc u32, index u64, version u64, pool u64 (low half), checksum u32 x 1016
//! ```

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 32;
/// Checksums in a page.
pub const PAGE_CHECKSUMS: usize = (PAGE_BYTES as usize - HEADER_BYTES) / 4;
const MAGIC: u32 = u32::from_le_bytes(*b"TCP1");

/// The bytes of a page.
pub fn encode(pool: u128, index: u64, version: u64, checksums: &[u32; PAGE_CHECKSUMS]) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::with_capacity(PAGE_BYTES as usize) };
    out.u32(MAGIC);
    out.u32(0);
    out.u64(index);
    out.u64(version);
    out.u64(pool as u64);
    for &checksum in checksums {
        out.u32(checksum);
    }
    assert_eq!(out.bytes.len(), PAGE_BYTES as usize, "the checksums fill a page");
    let crc = crc32c(&out.bytes);
    out.patch_u32(4, crc);
    out.bytes
}

/// Reads a page; returns its version. A page of zeroes was never written: version 0.
///
/// # Errors
/// Damaged, of another pool or index.
pub fn decode(
    bytes: &[u8],
    pool: u128,
    index: u64,
    checksums: &mut [u32; PAGE_CHECKSUMS],
) -> Result<u64, FormatError> {
    const WHAT: &str = "home checksum page";
    let mut reader = Reader::new(bytes, WHAT);
    if bytes.len() != PAGE_BYTES as usize {
        return Err(FormatError::Short { what: WHAT, at: bytes.len() });
    }
    if bytes.iter().all(|&b| b == 0) {
        checksums.fill(0);
        return Ok(0);
    }
    if reader.u32()? != MAGIC {
        return Err(FormatError::Magic { what: WHAT });
    }
    let crc = reader.u32()?;
    let mut covered = bytes.to_vec();
    covered[4..8].fill(0);
    if crc32c(&covered) != crc {
        return Err(FormatError::Checksum { what: WHAT });
    }
    let (found, version) = (reader.u64()?, reader.u64()?);
    if found != index || reader.u64()? != pool as u64 {
        return Err(FormatError::Field { what: WHAT, field: "index or pool", value: found });
    }
    for checksum in checksums {
        *checksum = reader.u32()?;
    }
    Ok(version)
}
