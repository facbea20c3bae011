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
use super::cursor::{Reader, Writer};
use super::pointer::NUMBERS_END;
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use crate::map::{Logical, NONE, Slot};
use tandem_block::{KEY_BYTES_MAX, ObjectKind, VALUE_BYTES_MAX};

const WHAT: &str = "journal record";
const VERSION: u8 = 1;
/// Of what programs that know of no snapshots must not read.
const VERSION_SHARED: u8 = 2;
const KIND_RUN: u8 = 1;
const KIND_FRAGMENTED: u8 = 2;
const KIND_OBJECT: u8 = 3;
const KIND_OBJECT_GONE: u8 = 4;
const KIND_THIN: u8 = 5;
const KIND_PIECE: u8 = 6;
const KIND_ATTRIBUTE: u8 = 7;
const KIND_ATTRIBUTE_GONE: u8 = 8;
const KIND_HOMES: u8 = 9;

/// The home holds this version.
pub const FLAG_HOME: u8 = 1;
/// The log place is named for information only: it was not durable.
pub(crate) const FLAG_LOG_VOLATILE: u8 = 2;
/// The checksums are real; without it they are unknown and zero.
pub const FLAG_CHECKSUMS: u8 = 4;

/// Of an object in pieces: it never changes.
const FLAG_SNAPSHOT: u32 = 1;

/// Blocks in one run record at most: the body length is 16 bits.
pub(crate) const RUN_BLOCKS_MAX: usize = 8192;
/// Bytes of the record of a run without its checksums: header and body.
const RUN_RECORD_BYTES: usize = 4 + 19;
/// Bytes of the record of a block under fragments, without them, and of each of these.
const FRAGMENTED_RECORD_BYTES: usize = 4 + 23;
const FRAGMENT_BYTES: usize = 10;
/// Room that one more block may take in a body: a record with all fragments, and a run's header.
pub(crate) const BLOCK_RECORDS_BYTES_MAX: usize =
    RUN_RECORD_BYTES + FRAGMENTED_RECORD_BYTES + FRAGMENT_BYTES * FRAGMENTS_MAX;
/// Bytes of an object's record without its name, at most: header and body.
pub(crate) const OBJECT_RECORD_BYTES: usize = 4 + 32;
/// … where it lies in pieces.
const IN_PIECES_RECORD_BYTES: usize = 4 + 30;
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

/// Gathers records for one batch; adjacent blocks become one run.
#[derive(Debug, Default)]
pub struct RecordWriter {
    out: Writer,
    /// Where the open run's body begins, and what would continue it.
    open: Option<OpenRun>,
    /// Where the last record ends, as its header says.
    end: usize,
    updates: u64,
}

#[derive(Debug)]
struct OpenRun {
    header_at: usize,
    flags: u8,
    next: RunKey,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunKey {
    logical: Logical,
    ssd: Slot,
    log: Slot,
}

impl RunKey {
    fn after(self) -> RunKey {
        let step = |slot: Slot| if slot == NONE { NONE } else { slot + 1 };
        RunKey { logical: self.logical + 1, ssd: step(self.ssd), log: step(self.log) }
    }
}

impl RecordWriter {
    /// Adds one block that lives at these places.
    pub fn block(&mut self, flags: u8, logical: Logical, ssd: Slot, log: Slot, checksum: u32) {
        assert!(logical != NONE, "a record is of a block");
        assert!(
            flags & FLAG_LOG_VOLATILE == 0 || (ssd != NONE && log != NONE),
            "a place that is volatile is named beside one that is durable"
        );
        self.updates += 1;
        let key = RunKey { logical, ssd, log };
        if let Some(open) = &mut self.open
            && open.flags == flags
            && open.next == key
            && open.count < RUN_BLOCKS_MAX
        {
            open.count += 1;
            open.next = key.after();
            if flags & FLAG_CHECKSUMS != 0 {
                self.out.u32(checksum);
            }
            return;
        }
        self.close();
        let header_at = self.out.bytes.len();
        self.out.u32(0);
        self.out.u8(flags);
        self.out.u8(0);
        self.out.u16(0);
        self.out.number(logical);
        self.out.number(ssd);
        self.out.number(log);
        if flags & FLAG_CHECKSUMS != 0 {
            self.out.u32(checksum);
        }
        self.open = Some(OpenRun { header_at, flags, next: key.after(), count: 1 });
    }

    /// Adds a block with fragments.
    pub fn fragmented(&mut self, record: &FragmentedRecord) {
        assert!(
            (1..=FRAGMENTS_MAX).contains(&record.fragments.len()),
            "at most one fragment a sector, and at least one in all"
        );
        assert!(
            record.flags & FLAG_LOG_VOLATILE == 0 || (record.ssd != NONE && record.log != NONE),
            "a place that is volatile is named beside one that is durable"
        );
        self.close();
        self.updates += 1;
        let parts = FRAGMENT_BYTES * record.fragments.len();
        self.header(KIND_FRAGMENTED, FRAGMENTED_RECORD_BYTES - 4 + parts);
        self.out.u8(record.flags);
        self.out.u8(record.fragments.len() as u8);
        self.out.u16(0);
        self.out.number(record.logical);
        self.out.number(record.ssd);
        self.out.number(record.log);
        self.out.u32(record.checksum);
        for fragment in &record.fragments {
            assert!(!matches!(fragment.mask, 0 | 255), "a fragment is some sectors of a block");
            assert!(fragment.slot != NONE, "a fragment is somewhere");
            self.out.number(fragment.slot);
            self.out.u32(fragment.checksum);
            self.out.u8(fragment.mask);
        }
    }

    /// Adds an object.
    pub fn object(&mut self, object: &ObjectRecord) {
        self.close();
        if let Some(pieces) = object.in_pieces {
            assert!(
                object.first == 0 && object.blocks == 0,
                "an object in pieces reserves no blocks"
            );
            let body_bytes = IN_PIECES_RECORD_BYTES - 4 + object.name.len();
            self.header_of(KIND_OBJECT, VERSION_SHARED, body_bytes);
            self.out.u64(object.id);
            self.out.u64(object.size_bytes);
            self.out.u64(pieces.origin);
            self.out.u32(if pieces.is_snapshot { FLAG_SNAPSHOT } else { 0 });
            self.out.text(&object.name);
            return;
        }
        self.header(KIND_OBJECT, OBJECT_RECORD_BYTES - 4 + object.name.len());
        self.out.u64(object.id);
        self.out.u64(object.size_bytes);
        self.out.number(object.first);
        self.out.number(object.blocks);
        self.out.u32(object.flags);
        self.out.text(&object.name);
    }

    /// Adds the end of an object.
    pub fn object_gone(&mut self, id: u64) {
        self.close();
        self.header(KIND_OBJECT_GONE, 8);
        self.out.u64(id);
    }

    /// Adds a thin object.
    pub fn thin(&mut self, thin: &ThinRecord) {
        self.close();
        self.header(KIND_THIN, THIN_RECORD_BYTES - 4);
        self.out.u64(thin.id);
        self.out.u64(thin.size_bytes);
        self.out.u64(thin.volume);
        self.out.u64(thin.owner);
        self.out.u32(match thin.kind {
            ObjectKind::Volume => unreachable!("volumes are not thin"),
            ObjectKind::Data => 1,
            ObjectKind::Directory => 2,
        });
    }

    /// Adds where some blocks of a thin object lie, and whether others may lie there, too.
    pub fn piece(&mut self, id: u64, piece: Piece, is_shared: bool) {
        assert!(piece.count > 0 && piece.logical != Some(NONE), "a piece has blocks");
        self.close();
        let version = if is_shared { VERSION_SHARED } else { VERSION };
        self.header_of(KIND_PIECE, version, PIECE_RECORD_BYTES - 4);
        self.out.u64(id);
        self.out.number(piece.offset);
        self.out.number(piece.logical.unwrap_or(NONE));
        self.out.number(piece.count);
    }

    /// Adds an attribute.
    pub fn attribute(&mut self, id: u64, key: &[u8], value: &[u8]) {
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "keys are bounded");
        assert!(value.len() <= VALUE_BYTES_MAX, "values are bounded");
        self.close();
        self.header(KIND_ATTRIBUTE, 10 + key.len() + value.len());
        self.out.u64(id);
        self.out.u16(key.len() as u16);
        self.out.bytes.extend_from_slice(key);
        self.out.bytes.extend_from_slice(value);
    }

    /// Adds the end of an attribute.
    pub fn attribute_gone(&mut self, id: u64, key: &[u8]) {
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "keys are bounded");
        self.close();
        self.header(KIND_ATTRIBUTE_GONE, 8 + key.len());
        self.out.u64(id);
        self.out.bytes.extend_from_slice(key);
    }

    /// Adds where the homes of some blocks lie.
    pub fn homes(&mut self, blocks: BlockRange, place: Logical) {
        assert!(blocks.count > 0, "some homes lie there");
        self.close();
        self.header(KIND_HOMES, HOMES_RECORD_BYTES - 4);
        self.out.number(blocks.first);
        self.out.number(place);
        self.out.number(blocks.count);
    }

    fn header(&mut self, kind: u8, body_bytes: usize) {
        self.header_of(kind, VERSION, body_bytes);
    }

    fn header_of(&mut self, kind: u8, version: u8, body_bytes: usize) {
        self.out.u8(kind);
        self.out.u8(version);
        self.out.u16(u16::try_from(body_bytes).expect("record bodies are bounded"));
        self.end = self.out.bytes.len() + body_bytes;
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let body_bytes = u16::try_from(self.out.bytes.len() - open.header_at - 4)
                .expect("RUN_BLOCKS_MAX bounds it");
            let header =
                u32::from(KIND_RUN) | u32::from(VERSION) << 8 | u32::from(body_bytes) << 16;
            self.out.patch_u32(open.header_at, header);
            let count = u32::try_from(open.count).expect("RUN_BLOCKS_MAX bounds it");
            self.out.patch_u32(open.header_at + 4, u32::from(open.flags) | count << 16);
            let sums = if open.flags & FLAG_CHECKSUMS != 0 { open.count } else { 0 };
            self.end = open.header_at + RUN_RECORD_BYTES + 4 * sums;
        }
        assert_eq!(self.out.bytes.len(), self.end, "a record is as long as its header says");
    }

    /// Bytes gathered so far.
    pub(crate) fn len_bytes(&self) -> usize {
        self.out.bytes.len()
    }

    /// Map updates gathered so far.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// Is there nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.out.bytes.is_empty()
    }

    /// The bytes of all records, and nothing left behind.
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        (self.updates, self.end) = (0, 0);
        std::mem::take(&mut self.out.bytes)
    }
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
    if count == 0 || reader.left() != 4 * sums {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_become_one_run() {
        let mut writer = RecordWriter::default();
        for i in 0..5 {
            writer.block(FLAG_CHECKSUMS, 100 + i, 40 + i, NONE, 7 + i as u32);
        }
        writer.block(FLAG_CHECKSUMS, 105, 99, NONE, 1);
        writer.block(FLAG_HOME, 106, NONE, NONE, 0);
        let records = decode(&writer.take()).unwrap();
        assert_eq!(records.len(), 3);
        let Record::Run(first) = &records[0] else { panic!("a run") };
        assert_eq!((first.logical, first.ssd, first.log), (100, 40, NONE));
        assert_eq!(first.checksums, [7, 8, 9, 10, 11]);
    }

    #[test]
    fn every_kind_comes_back() {
        let mut writer = RecordWriter::default();
        let fragmented = FragmentedRecord {
            flags: FLAG_HOME,
            logical: 3,
            ssd: NONE,
            log: 9,
            checksum: 5,
            fragments: vec![FragmentRecord { slot: 1, checksum: 2, mask: 0x0f }],
        };
        let object = ObjectRecord {
            id: 1,
            size_bytes: 4096,
            first: 0,
            blocks: 1,
            flags: 0,
            name: "vol0".into(),
            in_pieces: None,
        };
        let in_pieces = Some(InPieces { origin: 1, is_snapshot: true });
        let snapshot = ObjectRecord { id: 2, blocks: 0, in_pieces, ..object.clone() };
        writer.block(0, 1, 2, 3, 4);
        writer.fragmented(&fragmented);
        writer.object(&object);
        writer.object_gone(7);
        let thin = ThinRecord {
            id: 9,
            size_bytes: 1 << 40,
            volume: 1,
            owner: 1000,
            kind: ObjectKind::Directory,
        };
        writer.thin(&thin);
        let pieces = [Some(77), None].map(|logical| Piece { offset: 5, logical, count: 3 });
        pieces.iter().for_each(|&piece| writer.piece(9, piece, false));
        writer.attribute(9, b"key", b"");
        writer.attribute_gone(9, &[7; KEY_BYTES_MAX]);
        let blocks = BlockRange { first: 3, count: 9 };
        writer.homes(blocks, 70);
        writer.object(&snapshot);
        writer.piece(2, pieces[0], true);
        let records = decode(&writer.take()).unwrap();
        assert_eq!(records.len(), 12);
        assert_eq!(records[9], Record::Homes(blocks, 70));
        assert_eq!(records[10], Record::Object(snapshot));
        assert_eq!(records[11], Record::SharedPiece(2, pieces[0]));
        assert_eq!(records[4], Record::Thin(thin));
        assert_eq!(records[5..7], pieces.map(|piece| Record::Piece(9, piece)));
        let value = Some(Vec::new());
        let attribute = AttributeRecord { id: 9, key: b"key".to_vec(), value };
        assert_eq!(records[7], Record::Attribute(attribute));
        let gone = AttributeRecord { id: 9, key: vec![7; KEY_BYTES_MAX], value: None };
        assert_eq!(records[8], Record::Attribute(gone));
        assert_eq!(records[1], Record::Fragmented(fragmented));
        assert_eq!(records[2], Record::Object(object));
        assert_eq!(records[3], Record::ObjectGone(7));
    }

    /// The last numbers that there can be, and the first that cannot. A record is made with numbers that
    /// are fine, and one of them is changed in its bytes.
    #[test]
    fn numbers_end_where_those_of_the_format_do() {
        let last = NUMBERS_END - 1;
        // where a number stands, and whether the record holds with the last one, and with none (all bits)
        let check = |bytes: &[u8], (at, holds, may_be_none): (usize, bool, bool)| {
            for (number, holds) in [(last, holds), (NUMBERS_END, may_be_none)] {
                let mut changed = bytes.to_vec();
                changed[at..at + 5].copy_from_slice(&number.to_le_bytes()[..5]);
                let found = decode(&changed);
                assert_eq!(found.is_ok(), holds, "{number:#x} at {at} of {bytes:?}: {found:?}");
            }
        };
        let mut writer = RecordWriter::default();
        writer.block(0, 1, 2, 3, 4);
        let run = writer.take();
        // a run of one block would end at the first number that cannot be
        for (at, may_be_none) in [(8, false), (13, true), (18, true)] {
            check(&run, (at, false, may_be_none));
        }
        writer.piece(9, Piece { offset: 5, logical: Some(77), count: 1 }, false);
        let piece = writer.take();
        for place in [(12, true, false), (17, false, true), (22, false, false)] {
            check(&piece, place);
        }
        writer.homes(BlockRange { first: 3, count: 1 }, 70);
        let homes = writer.take();
        (4..19).step_by(5).for_each(|at| check(&homes, (at, false, false)));
    }

    #[test]
    fn damaged_records_are_errors() {
        let mut writer = RecordWriter::default();
        writer.block(0, 1, 2, 3, 4);
        let first = writer.len_bytes();
        writer.attribute(1, b"key", b"value");
        let good = writer.take();
        for at in 0..good.len() {
            assert!(decode(&good[..at]).is_err() || [0, first].contains(&at), "cut at {at}");
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = decode(&bad); // must not panic
            }
        }
    }
}
