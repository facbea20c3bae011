//! What is a page of the table of objects?
//!
//! Source: design decision 7. The objects of a pool are too many for the root of a checkpoint: all their
//! records, the same as in the journal, are written to one of two areas in turn, page by page, and the
//! root names the area. A page is bound to its number and to the checkpoint that wrote it, and the root
//! has a checksum over those of all pages, so that no page of another time can be taken for one of these.
//!
//! ```text
//! page = magic u32, crc u32, pool u128, generation u64, index u32, body bytes u32, zero to 64, records
//! ```
//! Records do not go beyond their page.

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};

const WHAT: &str = "page of the object table";
const MAGIC: u32 = u32::from_le_bytes(*b"TOT1");
/// Bytes of a page on disk.
pub const IMAGE_PAGE_BYTES: u64 = 32 * 1024;
const HEADER_BYTES: usize = 64;
/// Bytes of records in a page at most.
pub(crate) const IMAGE_BODY_BYTES: usize = IMAGE_PAGE_BYTES as usize - HEADER_BYTES;

/// The page to write.
///
/// # Panics
/// If the body is longer than `IMAGE_BODY_BYTES`.
pub fn encode(pool: u128, generation: u64, index: u32, body: &[u8]) -> Vec<u8> {
    assert!(body.len() <= IMAGE_BODY_BYTES, "records do not go beyond their page");
    let mut out = Writer { bytes: Vec::with_capacity(IMAGE_PAGE_BYTES as usize) };
    out.u32(MAGIC);
    out.u32(0);
    out.u128(pool);
    out.u64(generation);
    out.u32(index);
    out.u32(u32::try_from(body.len()).expect("pages are short"));
    out.pad_to(HEADER_BYTES);
    out.bytes.extend_from_slice(body);
    out.pad_to(IMAGE_PAGE_BYTES as usize);
    let crc = crc32c(&out.bytes);
    out.patch_u32(4, crc);
    out.bytes
}

/// The checksum of a page that `encode` made or `decode` accepted.
pub(crate) fn checksum(page: &[u8]) -> u32 {
    u32::from_le_bytes([page[4], page[5], page[6], page[7]])
}

/// The records of a page.
///
/// # Errors
/// Damaged, of another pool or another time, or another page.
pub fn decode(bytes: &[u8], pool: u128, generation: u64, index: u32) -> Result<&[u8], FormatError> {
    let mut reader = Reader::new(bytes, WHAT);
    if reader.u32()? != MAGIC {
        return Err(FormatError::Magic { what: WHAT });
    }
    let crc = reader.u32()?;
    if reader.u128()? != pool {
        return Err(FormatError::Magic { what: WHAT });
    }
    let (found_generation, found_index) = (reader.u64()?, reader.u32()?);
    let length = reader.u32()? as usize;
    if bytes.len() != IMAGE_PAGE_BYTES as usize {
        return Err(FormatError::Short { what: WHAT, at: bytes.len() });
    }
    let mut covered = bytes.to_vec();
    covered[4..8].fill(0);
    if crc32c(&covered) != crc {
        return Err(FormatError::Checksum { what: WHAT });
    }
    let field = |field, value| Err(FormatError::Field { what: WHAT, field, value });
    if found_generation != generation {
        return field("generation", found_generation);
    }
    if found_index != index {
        return field("index", u64::from(found_index));
    }
    if length > IMAGE_BODY_BYTES {
        return field("body length", length as u64);
    }
    Ok(&bytes[HEADER_BYTES..HEADER_BYTES + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_back_and_no_other_is_taken_for_it() {
        let page = encode(7, 3, 2, b"records");
        assert_eq!(page.len() as u64, IMAGE_PAGE_BYTES);
        assert_eq!(decode(&page, 7, 3, 2).unwrap(), b"records");
        for (pool, generation, index) in [(8, 3, 2), (7, 4, 2), (7, 3, 1)] {
            assert!(decode(&page, pool, generation, index).is_err());
        }
        for at in (0..200).chain([page.len() - 1]) {
            let mut bad = page.clone();
            bad[at] ^= 4;
            assert!(decode(&bad, 7, 3, 2).is_err(), "byte {at}");
        }
        assert!(decode(&page[..100], 7, 3, 2).is_err());
    }
}
