//! Records of one batch, gathered into the body of a unit, a page or a root: adjacent blocks become one run.

use super::cursor::Writer;
use super::record::{
    FLAG_CHECKSUMS, FLAG_LOG_VOLATILE, FLAG_SNAPSHOT, FRAGMENT_BYTES, FRAGMENTED_RECORD_BYTES,
    FRAGMENTS_MAX, FragmentedRecord, HOMES_RECORD_BYTES, IN_PIECES_RECORD_BYTES, KIND_ATTRIBUTE,
    KIND_ATTRIBUTE_GONE, KIND_FRAGMENTED, KIND_HOMES, KIND_OBJECT, KIND_OBJECT_GONE, KIND_PIECE,
    KIND_RUN, KIND_THIN, OBJECT_RECORD_BYTES, ObjectRecord, PIECE_RECORD_BYTES, RUN_BLOCKS_MAX,
    RUN_RECORD_BYTES, THIN_RECORD_BYTES, ThinRecord, VERSION, VERSION_SHARED,
};
use crate::map::runs::Piece;
use crate::map::space::BlockRange;
use crate::map::{Logical, NONE, Slot};
use tandem_block::{KEY_BYTES_MAX, ObjectKind, VALUE_BYTES_MAX};

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

#[cfg(test)]
mod tests {
    use super::super::pointer::NUMBERS_END;
    use super::super::record::*;
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
