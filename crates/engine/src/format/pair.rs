//! Which leg of a mirrored pair is ahead, and where?
//!
//! Source: [IANUS §5.2] "as long as we store the mode each drive is in"; B9: which leg is ahead must be
//! durable before an acknowledgement hangs on it. Each leg begins with two records, written in turn;
//! the sound one with the higher sequence holds. The pair's own bytes follow behind them.
//!
//! ```text
//! 0 magic u64 | 8 crc u32 | 12 version u32 | 16 sequence u64 | 24 pair uuid u128 | 40 own uuid u128
//! 56 leg u8, ahead u8, state u8, 0 | 60 marks u32, 64 left behind u32, 68 journal u32 | 72 capacity u64
//! 80 region bytes u64 | marks u32 x n | left behind (offset u64, bytes u64) x n
//! ```
//! Version 2 where a journal counts: who does not know of it must not touch the pair.

use super::cursor::{Reader, Writer};
use super::{FormatError, crc32c};
use tandem_block::{BLOCK_BYTES, KIB};

const WHAT: &str = "pair record";
const MAGIC: u64 = u64::from_le_bytes(*b"TANDEMPR");
const VERSION: u32 = 1;
const VERSION_JOURNAL: u32 = 2;
const HEAD_BYTES: usize = 88;
/// Bytes kept for each of the two records.
pub const RECORD_BYTES: u64 = 128 * KIB;
/// Bytes before the pair's own first byte, on each leg.
pub const HEADER_BYTES: u64 = 2 * RECORD_BYTES;
/// Regions of a pair at most.
pub(crate) const REGIONS_MAX: u64 = 4096;
/// Extents of one record at most.
pub(crate) const EXTENTS_MAX: usize =
    (RECORD_BYTES as usize - HEAD_BYTES - 4 * REGIONS_MAX as usize) / 16;

/// How much does the leg that is ahead hold?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Both legs hold the same: the pair was stopped.
    Clean,
    /// The leg ahead holds what the other lacks in the marked regions; extents that it was left
    /// behind in are on the other one.
    Open,
    /// The leg ahead serves alone; the other one knows nothing of it.
    Alone,
}

/// One leg's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairRecord {
    /// Rises with every record of the pair.
    pub sequence: u64,
    /// The pair's id: its first leg's.
    pub pair: u128,
    /// This drive's id.
    pub own: u128,
    /// Which leg this is: 0 or 1.
    pub leg: u8,
    /// Which leg is ahead.
    pub ahead: u8,
    /// … and by how much.
    pub standing: Standing,
    /// Bytes of the pair.
    pub capacity_bytes: u64,
    /// Bytes of one region.
    pub region_bytes: u64,
    /// Regions in which the leg ahead may hold what the other lacks, ascending.
    pub marks: Vec<u32>,
    /// Extents (first byte, bytes) that the leg ahead lacks, ascending and apart.
    pub behind: Vec<(u64, u64)>,
    /// The generation of the journal that holds what a leg may lack; 0: none does.
    pub journal: u32,
}

/// Bytes of a region of a pair of this size: a power of two, so that there are not too many.
pub fn region_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes.div_ceil(REGIONS_MAX).next_power_of_two().max(256 * KIB)
}

/// Bytes of a record with so many marks and extents, a multiple of a block.
fn length_bytes(marks: usize, behind: usize) -> usize {
    (HEAD_BYTES + 4 * marks + 16 * behind).next_multiple_of(BLOCK_BYTES as usize)
}

/// How many bytes the checksum of the record in `place` covers; `None` if its counts are impossible.
pub(crate) fn covered_bytes(place: &[u8]) -> Option<usize> {
    let count = |at: usize| {
        let bytes = place.get(at..at + 4)?.try_into().expect("four bytes");
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let (marks, behind) = (count(60)?, count(64)?);
    let possible = marks as u64 <= REGIONS_MAX && behind <= EXTENTS_MAX;
    possible.then(|| length_bytes(marks, behind))
}

impl PairRecord {
    /// The bytes to write, a multiple of a block.
    ///
    /// # Panics
    /// If it does not fit: the caller keeps the bounds.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.leg <= 1 && self.ahead <= 1, "a pair has two legs");
        assert!(self.region_bytes.is_power_of_two(), "a region is a power of two");
        let regions = self.capacity_bytes.div_ceil(self.region_bytes);
        assert!(regions <= REGIONS_MAX, "a pair has not too many regions");
        let is_region = |&mark: &u32| u64::from(mark) < regions;
        assert!(self.marks.iter().all(is_region), "a mark is of a region");
        let mut end = 0;
        for &(offset, bytes) in &self.behind {
            assert!(offset >= end && bytes > 0, "extents ascend, and lie apart");
            end = offset + bytes;
        }
        assert!(end <= self.capacity_bytes, "extents lie in the pair");
        self.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        assert!(self.behind.len() <= EXTENTS_MAX && self.marks.len() as u64 <= REGIONS_MAX);
        let mut out = Writer::default();
        out.u64(MAGIC);
        out.u32(0);
        out.u32(if self.journal == 0 { VERSION } else { VERSION_JOURNAL });
        out.u64(self.sequence);
        out.u128(self.pair);
        out.u128(self.own);
        out.u8(self.leg);
        out.u8(self.ahead);
        out.u8(match self.standing {
            Standing::Clean => 0,
            Standing::Open => 1,
            Standing::Alone => 2,
        });
        out.u8(0);
        out.u32(self.marks.len() as u32);
        out.u32(self.behind.len() as u32);
        out.u32(self.journal);
        out.u64(self.capacity_bytes);
        out.u64(self.region_bytes);
        for &mark in &self.marks {
            out.u32(mark);
        }
        for &(offset, bytes) in &self.behind {
            out.u64(offset);
            out.u64(bytes);
        }
        out.pad_to(length_bytes(self.marks.len(), self.behind.len()));
        let crc = crc32c(&out.bytes);
        out.patch_u32(8, crc);
        out.bytes
    }

    /// Reads a record from the bytes of its place, which may be followed by older ones.
    ///
    /// # Errors
    /// Not a record, damaged, of a newer version, or with impossible fields.
    pub fn decode(bytes: &[u8]) -> Result<PairRecord, FormatError> {
        let mut reader = Reader::new(bytes, WHAT);
        if reader.u64()? != MAGIC {
            return Err(FormatError::Magic { what: WHAT });
        }
        let (crc, version) = (reader.u32()?, reader.u32()?);
        if !(VERSION..=VERSION_JOURNAL).contains(&version) {
            let known = VERSION_JOURNAL;
            return Err(FormatError::Version { what: WHAT, found: version, known });
        }
        let (sequence, pair, own) = (reader.u64()?, reader.u128()?, reader.u128()?);
        let (leg, ahead, standing, _) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
        let (marks, behind, journal) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (capacity_bytes, region_bytes) = (reader.u64()?, reader.u64()?);
        let field = |field, value| FormatError::Field { what: WHAT, field, value };
        if u64::from(marks) > REGIONS_MAX {
            return Err(field("the number of marks", u64::from(marks)));
        }
        if behind as usize > EXTENTS_MAX {
            return Err(field("the number of extents", u64::from(behind)));
        }
        let length = length_bytes(marks as usize, behind as usize);
        let Some(covered) = bytes.get(..length) else {
            return Err(FormatError::Short { what: WHAT, at: bytes.len() });
        };
        let mut covered = covered.to_vec();
        covered[8..12].fill(0);
        if crc32c(&covered) != crc {
            return Err(FormatError::Checksum { what: WHAT });
        }
        if leg > 1 || ahead > 1 {
            return Err(field("a leg", u64::from(leg.max(ahead))));
        }
        if (version == VERSION_JOURNAL) != (journal > 0) {
            return Err(field("the journal", u64::from(journal)));
        }
        let standing = match standing {
            0 => Standing::Clean,
            1 => Standing::Open,
            2 => Standing::Alone,
            other => return Err(field("the standing", u64::from(other))),
        };
        if capacity_bytes == 0 || region_bytes != self::region_bytes(capacity_bytes) {
            return Err(field("the bytes of a region", region_bytes));
        }
        let regions = capacity_bytes.div_ceil(region_bytes);
        let marks = (0..marks).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        if let Some(&mark) = marks.iter().find(|&&mark| u64::from(mark) >= regions) {
            return Err(field("a mark", u64::from(mark)));
        }
        let extents = extents(&mut reader, behind, capacity_bytes)?;
        Ok(PairRecord {
            sequence,
            pair,
            own,
            leg,
            ahead,
            standing,
            capacity_bytes,
            region_bytes,
            marks,
            behind: extents,
            journal,
        })
    }
}

fn extents(
    reader: &mut Reader<'_>,
    count: u32,
    capacity_bytes: u64,
) -> Result<Vec<(u64, u64)>, FormatError> {
    let (mut extents, mut end) = (Vec::new(), 0u64);
    for _ in 0..count {
        let (offset, bytes) = (reader.u64()?, reader.u64()?);
        if offset < end || bytes == 0 || bytes > capacity_bytes.saturating_sub(offset) {
            return Err(FormatError::Field { what: WHAT, field: "an extent", value: offset });
        }
        end = offset + bytes;
        extents.push((offset, bytes));
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> PairRecord {
        PairRecord {
            sequence: 7,
            pair: 1,
            own: 2,
            leg: 1,
            ahead: 0,
            standing: Standing::Open,
            capacity_bytes: 64 << 20,
            region_bytes: region_bytes(64 << 20),
            marks: vec![0, 5, 255],
            behind: vec![(0, 4096), (8192, 512)],
            journal: 0,
        }
    }

    #[test]
    fn what_was_written_is_read_also_over_older_bytes() {
        let mut bytes = record().encode();
        assert_eq!(PairRecord::decode(&bytes).unwrap(), record());
        bytes.extend(vec![0xAA; 4096]);
        assert_eq!(PairRecord::decode(&bytes).unwrap(), record());
        let journaled = PairRecord { journal: 5, ..record() };
        assert_eq!(PairRecord::decode(&journaled.encode()).unwrap(), journaled);
    }

    #[test]
    fn the_largest_record_fits_its_place() {
        let capacity_bytes = 4 << 40;
        let full = PairRecord {
            capacity_bytes,
            region_bytes: region_bytes(capacity_bytes),
            marks: (0..REGIONS_MAX as u32).collect(),
            behind: (0..EXTENTS_MAX as u64).map(|i| (i * 8192, 4096)).collect(),
            ..record()
        };
        let bytes = full.encode();
        assert!(bytes.len() as u64 <= RECORD_BYTES);
        assert_eq!(PairRecord::decode(&bytes).unwrap(), full);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let bytes = record().encode();
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(PairRecord::decode(&damaged).is_err(), "bit {at}");
        }
    }

    #[test]
    fn impossible_fields_are_named() {
        for (broken, what) in [
            (PairRecord { marks: vec![256], ..record() }, "a mark"),
            (PairRecord { behind: vec![(4096, 4096), (0, 512)], ..record() }, "an extent"),
            (PairRecord { behind: vec![(64 << 20, 512)], ..record() }, "an extent"),
            (PairRecord { region_bytes: 3000, ..record() }, "the bytes of a region"),
            (PairRecord { ahead: 2, ..record() }, "a leg"),
        ] {
            let error = PairRecord::decode(&broken.bytes()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
