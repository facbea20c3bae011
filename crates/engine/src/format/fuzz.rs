//! Can the decoders of the bytes on disk be fooled? Entry points for fuzzers: any bytes, an answer or
//! an error, no panic.
//!
//! A random change of sealed bytes is caught by the checksum and nothing behind it is tried; so the
//! bytes are sealed anew first. What then decodes must also encode to the same again.

use super::pair::{self, PairRecord};
use super::pair_journal::{HEAD_BYTES, HEADER_BYTES_MAX, JournalHead, UnitHeader};
use super::replacement::Mark;
use super::superblock::Superblock;
use super::unit::{self, HEADER_BYTES, Unit};
use super::{FormatError, crc32c, image, leaf, page, pointer, record, root};
use crate::format::pointer::NUMBERS_END;
use crate::map::NONE;
use crate::map::attributes::Attributes;
use tandem_block::BLOCK_BYTES;

/// The pool that the units, roots and pages of a fuzzer belong to.
pub const POOL: u128 = 0x7461_6e64_656d;
/// The number of its page.
pub const INDEX: u64 = 3;

/// Writes the checksum of `bytes[..covered]` at byte `at` of them.
fn seal(bytes: &mut [u8], at: usize, covered: usize) {
    if let Some(covered) = bytes.get_mut(..covered)
        && at + 4 <= covered.len()
    {
        covered[at..at + 4].fill(0);
        let crc = crc32c(covered);
        covered[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The 32-bit number at byte `at`.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let found = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(found.try_into().expect("four bytes")) as usize)
}

/// A superblock.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn superblock(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = Superblock::decode(bytes);
    let mut block = bytes.to_vec();
    block.resize(BLOCK_BYTES as usize, 0);
    seal(&mut block, 8, BLOCK_BYTES as usize);
    let found = Superblock::decode(&block)?;
    assert_eq!(Superblock::decode(&found.encode()), Ok(found), "it comes back");
    Ok(())
}

/// A mark of a drive that shall take another one's place.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn successor_mark(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = Mark::decode(bytes);
    let mut block = bytes.to_vec();
    block.resize(BLOCK_BYTES as usize, 0);
    seal(&mut block, 8, BLOCK_BYTES as usize);
    let found = Mark::decode(&block)?;
    assert_eq!(Mark::decode(&found.encode()), Ok(found), "it comes back");
    Ok(())
}

/// A record of a mirrored pair.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn pair_record(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = PairRecord::decode(bytes);
    let mut place = bytes.to_vec();
    place.resize(pair::RECORD_BYTES as usize, 0);
    let covered = pair::covered_bytes(&place).unwrap_or(0);
    seal(&mut place, 8, covered);
    let found = PairRecord::decode(&place)?;
    assert_eq!(PairRecord::decode(&found.encode()), Ok(found), "it comes back");
    Ok(())
}

/// The head of a pair's journal.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn pair_journal_head(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = JournalHead::decode(bytes);
    let mut head = bytes.to_vec();
    head.resize(HEAD_BYTES as usize, 0);
    seal(&mut head, 8, HEAD_BYTES as usize);
    let found = JournalHead::decode(&head)?;
    assert_eq!(JournalHead::decode(&found.encode()), Ok(found), "it comes back");
    Ok(())
}

/// The header of a unit of a pair's journal.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn pair_journal_unit(bytes: &[u8]) -> Result<(), FormatError> {
    const PAIR_BYTES: u64 = 1 << 40;
    let _ = UnitHeader::decode(bytes, PAIR_BYTES);
    let mut unit = bytes.to_vec();
    unit.resize(HEADER_BYTES_MAX as usize, 0);
    let covered = UnitHeader::peek(&unit).unwrap_or(0) as usize;
    seal(&mut unit, 8, covered);
    let found = UnitHeader::decode(&unit, PAIR_BYTES)?;
    assert_eq!(UnitHeader::decode(&found.encode(), PAIR_BYTES), Ok(found), "it comes back");
    Ok(())
}

/// A journal unit and the records in it.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If a record claims what no map can hold.
pub fn journal_unit(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = Unit::decode(bytes, POOL);
    // what stands in the header and behind it, sealed and stamped as a writer would
    let word = |at: usize| number(bytes, at).unwrap_or(0) as u64;
    let body: Vec<u8> =
        bytes.chunks(512).flat_map(|sector| &sector[..sector.len().min(508)]).copied().collect();
    let end = (HEADER_BYTES + word(40) as usize).min(body.len());
    let written = Unit {
        sequence: word(24),
        acked_upto: word(32),
        body: body.get(HEADER_BYTES..end).unwrap_or(&[]).to_vec(),
    };
    let sealed = written.encode(POOL);
    let _ = unit::is_damaged(bytes, POOL, written.sequence);
    let unit = Unit::decode(&sealed, POOL)?;
    assert_eq!(Unit::decode(&unit.encode(POOL), POOL).as_ref(), Ok(&unit), "it comes back");
    records(&unit.body)
}

/// The records of a journal unit or of a checkpoint's root.
///
/// # Errors
/// If they are none.
///
/// # Panics
/// If a record claims what no map can hold.
pub fn records(body: &[u8]) -> Result<(), FormatError> {
    for found in record::decode(body)? {
        match found {
            record::Record::Run(run) => {
                let count = run.checksums.len() as u64;
                assert!(count > 0, "a run of nothing");
                for start in [run.logical, run.ssd, run.log] {
                    let is_left_out = start == NONE && run.logical != NONE;
                    assert!(is_left_out || start + count < NUMBERS_END, "a run over the end");
                }
            }
            record::Record::Fragmented(block) => {
                let count = block.fragments.len();
                assert!((1..=record::FRAGMENTS_MAX).contains(&count), "{count} fragments");
                assert!(block.fragments.iter().all(|part| part.mask != 0), "an empty fragment");
            }
            record::Record::Piece(_, piece) | record::Record::SharedPiece(_, piece) => {
                assert!(piece.count > 0, "an empty piece");
                assert!(piece.offset + piece.count <= NUMBERS_END, "a piece over its object's end");
                let ends = |first: u64| first + piece.count < NUMBERS_END;
                assert!(piece.logical.is_none_or(ends), "a piece over the end");
            }
            record::Record::Homes(blocks, place) => {
                let fits = [blocks.first, place].iter().all(|at| at + blocks.count < NUMBERS_END);
                assert!(blocks.count > 0 && fits, "homes of nothing, or over the end");
            }
            record::Record::Attribute(attribute) => {
                let value = attribute.value.as_deref().unwrap_or_default();
                assert!(Attributes::check(&attribute.key, value).is_ok(), "what no batch sets");
            }
            record::Record::Object(_) | record::Record::ObjectGone(_) | record::Record::Thin(_) => {
            }
        }
    }
    Ok(())
}

/// A checkpoint's root and the objects in it.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn checkpoint_root(bytes: &[u8]) -> Result<(), FormatError> {
    let _ = root::Root::decode(bytes, POOL);
    let mut sealed = bytes.to_vec();
    // the length of the objects ends the header, but for a zero
    let header = root::ROOT_HEADER_BYTES;
    if let Some(objects) = number(bytes, header - 8) {
        let table = if root::Root::has_table(bytes) { root::ROOT_TABLE_BYTES } else { 0 };
        let pointers = number(bytes, header + table + 8).unwrap_or(0).saturating_mul(16);
        seal(&mut sealed, 4, pointers.saturating_add(objects + header + table + 16));
    }
    let found = root::Root::decode(&sealed, POOL)?;
    let again = root::Root::decode(&found.encode(POOL), POOL);
    assert_eq!(again.as_ref(), Ok(&found), "it comes back");
    records(&found.objects)
}

/// A page of the table of objects, and the records in it.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn object_page(bytes: &[u8]) -> Result<(), FormatError> {
    let index = INDEX as u32;
    let _ = image::decode(bytes, POOL, INDEX, index);
    let mut sealed = bytes.to_vec();
    sealed.resize(image::IMAGE_PAGE_BYTES as usize, 0);
    seal(&mut sealed, 4, image::IMAGE_PAGE_BYTES as usize);
    let body = image::decode(&sealed, POOL, INDEX, index)?;
    let again = image::encode(POOL, INDEX, index, body);
    assert_eq!(image::decode(&again, POOL, INDEX, index), Ok(body), "it comes back");
    records(body)
}

/// The pages of a group's places. Their pointers' CRCs vouch for them, so nothing is sealed.
///
/// # Errors
/// If they are none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn leaf(bytes: &[u8]) -> Result<(), FormatError> {
    let image = leaf::LeafImage::decode(bytes)?;
    assert_eq!(image.encode().concat(), bytes, "it comes back");
    Ok(())
}

/// A page of pointers of version 3. The pointer to it vouches for it, so nothing is sealed.
///
/// # Errors
/// If it is none.
///
/// # Panics
/// If what decodes does not encode to the same.
pub fn pointers(bytes: &[u8]) -> Result<(), FormatError> {
    let found = pointer::decode(bytes)?;
    assert_eq!(pointer::encode(&found), bytes, "it comes back");
    Ok(())
}

/// A page of checksums.
///
/// # Errors
/// If it is none.
pub fn checksum_page(bytes: &[u8]) -> Result<(), FormatError> {
    let checksums = page::decode(bytes)?;
    assert_eq!(page::encode(&checksums), bytes, "it comes back");
    Ok(())
}
