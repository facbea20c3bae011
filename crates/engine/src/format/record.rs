//! What does one journal record say?
//!
//! Source: design decisions 6 and 7. A record says where a run of logical blocks lives *now*, whole
//! and absolute, so that replaying it twice, or over a younger checkpoint, changes nothing. It
//! names durable places only (the one exception, a log place whose tail copy on the SSD is durable,
//! carries a flag and is not believed at recovery).
//!
//! ```text
//! record  = kind u8, version u8, body length u16, body
//! run     = flags u8, 0 u8, count u16, logical u40, ssd slot u40, log slot u40,
//!           checksum u32 x count (only with FLAG_CHECKSUMS)
//! fragmented = flags u8, fragments u8, 0 u16, logical u40, ssd u40, log u40, base checksum u32,
//!           (slot u40, checksum u32, mask u8) x fragments, oldest first
//! object  = id u64, size u64, first logical u40, blocks u40, flags u32, name          a volume
//! object, version 2 = id u64, size u64, origin u64, flags u32, name    a volume, or snapshot, in pieces
//! gone    = id u64                                          an object, its blocks and attributes
//! thin    = id u64, size u64, volume u64, owner u64, kind u8 (1 data, 2 directory), 0 u8 x 3
//! piece   = object u64, offset u40, logical u40 (NONE: a hole), count u40, all in blocks
//!           (version 2: its blocks may be other pieces', too)
//! attribute = object u64, key length u16, key, value to the end
//! attribute gone = object u64, key to the end
//! homes   = logical u40, place u40, count u40        homes of these blocks lie there, in the numbering of blocks
//! ```

use super::FormatError;
use super::cursor::Reader;
use super::pointer::NUMBERS_END;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use crate::map::{Logical, NONE, Slot};
use tandem_block::{KEY_BYTES_MAX, ObjectKind, VALUE_BYTES_MAX};

const WHAT: &str = "journal record";
pub(super) const VERSION: u8 = 1;
/// Of what programs that know of no snapshots must not read.
pub(super) const VERSION_SHARED: u8 = 2;
pub(super) const KIND_RUN: u8 = 1;
pub(super) const KIND_FRAGMENTED: u8 = 2;
pub(super) const KIND_OBJECT: u8 = 3;
pub(super) const KIND_OBJECT_GONE: u8 = 4;
pub(super) const KIND_THIN: u8 = 5;
pub(super) const KIND_PIECE: u8 = 6;
pub(super) const KIND_ATTRIBUTE: u8 = 7;
pub(super) const KIND_ATTRIBUTE_GONE: u8 = 8;
pub(super) const KIND_HOMES: u8 = 9;

/// The home holds this version.
pub const FLAG_HOME: u8 = 1;
/// The log place is named for information only: it was not durable.
pub(crate) const FLAG_LOG_VOLATILE: u8 = 2;
/// The checksums are real; without it they are unknown and zero.
pub const FLAG_CHECKSUMS: u8 = 4;

/// Of an object in pieces: it never changes.
pub(super) const FLAG_SNAPSHOT: u32 = 1;

/// Blocks in one run record at most: the body length is 16 bits.
pub(crate) const RUN_BLOCKS_MAX: usize = 8192;
/// Bytes of the record of a run without its checksums: header and body.
pub(super) const RUN_RECORD_BYTES: usize = 4 + 19;
/// Bytes of the record of a block under fragments, without them, and of each of these.
pub(super) const FRAGMENTED_RECORD_BYTES: usize = 4 + 23;
pub(super) const FRAGMENT_BYTES: usize = 10;
/// Room that one more block may take in a body: a record with all fragments, and a run's header.
pub(crate) const BLOCK_RECORDS_BYTES_MAX: usize =
    RUN_RECORD_BYTES + FRAGMENTED_RECORD_BYTES + FRAGMENT_BYTES * FRAGMENTS_MAX;
/// Bytes of an object's record without its name, at most: header and body.
pub(crate) const OBJECT_RECORD_BYTES: usize = 4 + 32;
/// … where it lies in pieces.
pub(super) const IN_PIECES_RECORD_BYTES: usize = 4 + 30;
/// Bytes of a thin object's record.
pub(crate) const THIN_RECORD_BYTES: usize = 4 + 36;
/// Bytes of the record of a piece.
pub(crate) const PIECE_RECORD_BYTES: usize = 4 + 23;
/// Bytes of the record of where homes lie.
pub(crate) const HOMES_RECORD_BYTES: usize = 4 + 15;
/// Bytes of the longest record of an object or a part of one.
pub(crate) const OBJECTS_RECORD_BYTES_MAX: usize = 4 + 10 + KEY_BYTES_MAX + VALUE_BYTES_MAX;
/// Sectors in a block bound the fragments that can lie over it.
pub(crate) const FRAGMENTS_MAX: usize = 8;

/// A run of blocks that live at the same kinds of place, contiguously.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunRecord {
    /// `FLAG_…`.
    pub(crate) flags: u8,
    /// First logical block.
    pub(crate) logical: Logical,
    /// First SSD slot or `NONE`.
    pub(crate) ssd: Slot,
    /// First log slot or `NONE`.
    pub(crate) log: Slot,
    /// One checksum a block.
    pub(crate) checksums: Vec<u32>,
}

/// One fragment: some sectors of a block in a slot of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRecord {
    /// Where.
    pub slot: Slot,
    /// Checksum of that slot's block.
    pub checksum: u32,
    /// Bit n: sector n of the block is in this fragment.
    pub mask: u8,
}

/// A block with fragments over its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentedRecord {
    /// `FLAG_…`, of the base.
    pub flags: u8,
    /// Which block.
    pub logical: Logical,
    /// The base's SSD slot or `NONE`.
    pub ssd: Slot,
    /// The base's log slot or `NONE`.
    pub log: Slot,
    /// The base's checksum if it has a slot.
    pub checksum: u32,
    /// Oldest first.
    pub fragments: Vec<FragmentRecord>,
}

/// An object as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Its id.
    pub id: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// First logical block.
    pub first: Logical,
    /// Logical blocks reserved for it.
    pub blocks: u64,
    /// Reserved, zero.
    pub flags: u32,
    /// Its name.
    pub name: String,
    /// It lies in pieces, like a thin object, and not in blocks that follow each other.
    pub in_pieces: Option<InPieces>,
}

/// What is to be said of a named object that lies in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPieces {
    /// The volume whose policies apply to it: its own id, or of what it is a snapshot.
    pub(crate) origin: u64,
    /// It never changes.
    pub(crate) is_snapshot: bool,
}

/// A thin object as it is now, without its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThinRecord {
    /// Its id.
    pub id: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The volume whose policies apply to it.
    pub volume: u64,
    /// A number of the front end's.
    pub owner: u64,
    /// Data or directory.
    pub kind: ObjectKind,
}

/// An attribute as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttributeRecord {
    /// Of which object.
    pub(crate) id: u64,
    /// Which.
    pub(crate) key: Vec<u8>,
    /// Its value; `None`: it is gone.
    pub(crate) value: Option<Vec<u8>>,
}

/// Any record: what blocks, objects or attributes are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Run(RunRecord),
    Fragmented(FragmentedRecord),
    Object(ObjectRecord),
    /// The object is gone.
    ObjectGone(u64),
    Thin(ThinRecord),
    Piece(u64, Piece),
    /// Others may lie there, too.
    SharedPiece(u64, Piece),
    Attribute(AttributeRecord),
    /// The homes of these blocks lie here now, one behind the other.
    Homes(BlockRange, Logical),
}

/// Decodes all records of a unit's body.
///
/// # Errors
/// If the bytes are not what `RecordWriter` writes.
pub(crate) fn decode(body: &[u8]) -> Result<Vec<Record>, FormatError> {
    let mut reader = Reader::new(body, WHAT);
    let mut records = Vec::new();
    while reader.left() > 0 {
        let kind = reader.u8()?;
        let version = reader.u8()?;
        let is_shared = version == VERSION_SHARED && [KIND_OBJECT, KIND_PIECE].contains(&kind);
        if version != VERSION && !is_shared {
            let (found, known) = (u32::from(version), u32::from(VERSION));
            return Err(FormatError::Version { what: WHAT, found, known });
        }
        let length = usize::from(reader.u16()?);
        let mut inner = Reader::new(reader.take(length)?, WHAT);
        let record = match kind {
            KIND_RUN => Record::Run(run(&mut inner)?),
            KIND_FRAGMENTED => Record::Fragmented(fragmented(&mut inner)?),
            KIND_OBJECT if is_shared => Record::Object(object_in_pieces(&mut inner)?),
            KIND_OBJECT => Record::Object(object(&mut inner)?),
            KIND_OBJECT_GONE => Record::ObjectGone(inner.u64()?),
            KIND_THIN => Record::Thin(thin(&mut inner)?),
            KIND_PIECE => piece(&mut inner, is_shared)?,
            KIND_ATTRIBUTE | KIND_ATTRIBUTE_GONE => {
                Record::Attribute(attribute(&mut inner, kind == KIND_ATTRIBUTE)?)
            }
            KIND_HOMES => homes(&mut inner)?,
            _ => return Err(field("kind", u64::from(kind))),
        };
        if inner.left() > 0 {
            return Err(field("length", length as u64));
        }
        records.push(record);
    }
    Ok(records)
}

fn field(field: &'static str, value: u64) -> FormatError {
    FormatError::Field { what: WHAT, field, value }
}

fn run(reader: &mut Reader<'_>) -> Result<RunRecord, FormatError> {
    let flags = reader.u8()?;
    reader.u8()?;
    let count = usize::from(reader.u16()?);
    let logical = reader.number()?;
    let ssd = reader.number()?;
    let log = reader.number()?;
    let sums = if flags & FLAG_CHECKSUMS != 0 { count } else { 0 };
    if count == 0 || count > RUN_BLOCKS_MAX || reader.left() != 4 * sums {
        return Err(field("count", count as u64));
    }
    for start in [logical, ssd, log] {
        if start != NONE && start + count as u64 >= NUMBERS_END {
            return Err(field("place", start));
        }
    }
    if logical == NONE {
        return Err(field("logical block", logical));
    }
    let mut checksums = vec![0; count];
    for checksum in &mut checksums[..sums] {
        *checksum = reader.u32()?;
    }
    Ok(RunRecord { flags, logical, ssd, log, checksums })
}

fn fragmented(reader: &mut Reader<'_>) -> Result<FragmentedRecord, FormatError> {
    let flags = reader.u8()?;
    let count = usize::from(reader.u8()?);
    reader.u16()?;
    let (logical, ssd, log) = (reader.number()?, reader.number()?, reader.number()?);
    let checksum = reader.u32()?;
    if count == 0 || count > FRAGMENTS_MAX {
        return Err(field("fragments", count as u64));
    }
    let mut fragments = Vec::with_capacity(count);
    for _ in 0..count {
        let (slot, checksum) = (reader.number()?, reader.u32()?);
        let mask = reader.u8()?;
        if matches!(mask, 0 | 255) {
            return Err(field("mask", u64::from(mask)));
        }
        fragments.push(FragmentRecord { slot, checksum, mask });
    }
    Ok(FragmentedRecord { flags, logical, ssd, log, checksum, fragments })
}

fn object(reader: &mut Reader<'_>) -> Result<ObjectRecord, FormatError> {
    Ok(ObjectRecord {
        id: reader.u64()?,
        size_bytes: reader.u64()?,
        first: reader.number()?,
        blocks: reader.number()?,
        flags: reader.u32()?,
        name: reader.text()?,
        in_pieces: None,
    })
}

fn object_in_pieces(reader: &mut Reader<'_>) -> Result<ObjectRecord, FormatError> {
    let (id, size_bytes, origin) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let flags = reader.u32()?;
    if flags & !FLAG_SNAPSHOT != 0 {
        return Err(field("flags of an object", u64::from(flags)));
    }
    let in_pieces = Some(InPieces { origin, is_snapshot: flags & FLAG_SNAPSHOT != 0 });
    let name = reader.text()?;
    Ok(ObjectRecord { id, size_bytes, first: 0, blocks: 0, flags: 0, name, in_pieces })
}

fn thin(reader: &mut Reader<'_>) -> Result<ThinRecord, FormatError> {
    let (id, size_bytes) = (reader.u64()?, reader.u64()?);
    let (volume, owner) = (reader.u64()?, reader.u64()?);
    let kind = match reader.u32()? {
        1 => ObjectKind::Data,
        2 => ObjectKind::Directory,
        other => return Err(field("object kind", u64::from(other))),
    };
    Ok(ThinRecord { id, size_bytes, volume, owner, kind })
}

/// Can there be so many blocks?
fn is_count(count: u64) -> bool {
    count > 0 && count < NUMBERS_END
}

fn piece(reader: &mut Reader<'_>, is_shared: bool) -> Result<Record, FormatError> {
    let (id, offset) = (reader.u64()?, reader.number()?);
    let (logical, count) = (reader.number()?, reader.number()?);
    let logical = (logical != NONE).then_some(logical);
    let ends = |first: u64| first + count < NUMBERS_END;
    if !is_count(count)
        || offset == NONE
        || offset + count > NUMBERS_END
        || !logical.is_none_or(ends)
    {
        return Err(field("count of a piece", count));
    }
    let piece = Piece { offset, logical, count };
    Ok(if is_shared { Record::SharedPiece(id, piece) } else { Record::Piece(id, piece) })
}

fn homes(reader: &mut Reader<'_>) -> Result<Record, FormatError> {
    let (first, place, count) = (reader.number()?, reader.number()?, reader.number()?);
    let ends = |place: u64| place != NONE && place + count < NUMBERS_END;
    if !is_count(count) || !ends(first) || !ends(place) {
        return Err(field("count of homes", count));
    }
    Ok(Record::Homes(BlockRange { first, count }, place))
}

fn attribute(reader: &mut Reader<'_>, is_set: bool) -> Result<AttributeRecord, FormatError> {
    let id = reader.u64()?;
    let length = if is_set { usize::from(reader.u16()?) } else { reader.left() };
    let key = reader.take(length)?.to_vec();
    let rest = reader.take(reader.left())?.to_vec();
    if key.is_empty() || key.len() > KEY_BYTES_MAX || rest.len() > VALUE_BYTES_MAX {
        return Err(field("attribute", rest.len() as u64));
    }
    Ok(AttributeRecord { id, key, value: is_set.then_some(rest) })
}
