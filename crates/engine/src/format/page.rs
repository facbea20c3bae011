//! The checksums of 1,024 blocks that follow each other: a leaf of the table of the map.
//!
//! ```text
//! page = checksum u32 x 1024
//! ```
//! Its pointer has the CRC, which covers pool, table and number as well (`pointer`). Where a page was never
//! written the pointer is to nothing, and all checksums are 0.

use super::FormatError;
use super::pointer::LEAF_BLOCKS;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Checksums in a page.
pub const PAGE_CHECKSUMS: usize = LEAF_BLOCKS;

/// The checksums of a page.
pub type Checksums = [u32; PAGE_CHECKSUMS];

/// The bytes of a page.
pub fn encode(checksums: &Checksums) -> Vec<u8> {
    let bytes: Vec<u8> = checksums.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
    assert_eq!(bytes.len() as u64, PAGE_BYTES, "the checksums fill a page");
    bytes
}

/// Reads a page.
///
/// # Errors
/// If it is cut short.
pub fn decode(bytes: &[u8]) -> Result<Box<Checksums>, FormatError> {
    if bytes.len() as u64 != PAGE_BYTES {
        return Err(FormatError::Short { what: "page of checksums", at: bytes.len() });
    }
    let mut checksums = Box::new([0; PAGE_CHECKSUMS]);
    for (checksum, bytes) in checksums.iter_mut().zip(bytes.chunks_exact(4)) {
        *checksum = u32::from_le_bytes(bytes.try_into().expect("chunks of four"));
    }
    Ok(checksums)
}
