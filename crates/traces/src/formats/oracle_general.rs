//! How does libCacheSim write down a request to a cache?
//!
//! Source: the record layout in libCacheSim's oracleGeneral reader; no sample was at hand.

use super::{Asked, Confidence, Decoder, Format};
use crate::error::Reason;
use crate::fields::scaled;
use crate::input::{Framing, Sample};
use tandem_block::{BLOCK_BYTES, Op};

pub(super) const FORMAT: Format = Format {
    name: "oraclegeneral",
    summary: "libCacheSim oracleGeneral binary: a cache trace, as reads",
    columns: "little-endian records of 24 bytes: time u32 (s), object id u64, object size u32 \
              (bytes), next access i64 (ignored). Every request is a read at object id x 4 KiB, as \
              long as the object; a size of zero (unknown) is 4 KiB. Ids of 2^50 and more are \
              hashes, not addresses, and are errors. One device.",
    detect,
    open: |_, _| Ok(Box::new(OracleGeneral)),
};

const RECORD_BYTES: usize = 24;
/// Ids from here on cannot be addresses of a device: 2^50 blocks are 4 EiB.
const IDS: u64 = 1 << 50;

struct OracleGeneral;

struct Record {
    time_s: u32,
    id: u64,
    size_bytes: u32,
    next_access: i64,
}

impl Record {
    fn read(record: &[u8]) -> Record {
        let bytes = <&[u8; RECORD_BYTES]>::try_from(record).expect("framed to this size");
        let [t0, t1, t2, t3, i0, i1, i2, i3, i4, i5, i6, i7, s0, s1, s2, s3, next @ ..] = *bytes;
        Record {
            time_s: u32::from_le_bytes([t0, t1, t2, t3]),
            id: u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            size_bytes: u32::from_le_bytes([s0, s1, s2, s3]),
            next_access: i64::from_le_bytes(next),
        }
    }
}

impl Decoder for OracleGeneral {
    fn framing(&self) -> Framing {
        Framing::Records(RECORD_BYTES)
    }

    fn decode(&mut self, record: &[u8]) -> Result<Option<Asked>, Reason> {
        let record = Record::read(record);
        if record.id >= IDS {
            return Err(Reason::Shape("the object id is a hash, not an address"));
        }
        let length_bytes =
            if record.size_bytes == 0 { BLOCK_BYTES } else { u64::from(record.size_bytes) };
        let offset_bytes = scaled(record.id, BLOCK_BYTES, "object id")?;
        let time_ns = u64::from(record.time_s) * 1_000_000_000;
        Ok(Some(Asked::new(time_ns, 0, Op::Read, (offset_bytes, length_bytes))))
    }
}

/// The last column tells: it names a later record, or none at all.
fn detect(sample: &Sample) -> Confidence {
    let (mut good, mut all, mut last_s) = (0, 0, 0);
    for record in sample.records::<RECORD_BYTES>() {
        let record = Record::read(record);
        all += 1;
        let is_never = record.next_access == -1 || record.next_access == i64::MAX;
        let is_later = record.next_access > all && record.next_access < 1 << 48;
        if (is_never || is_later) && record.time_s >= last_s && record.size_bytes < 1 << 30 {
            good += 1;
            last_s = record.time_s;
        }
    }
    // nine of ten: a binary file has no headers that could be wrong
    if good * 10 > all * 9 { Confidence::Certain } else { Confidence::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, id: u64, size: u32, next: i64) -> Vec<u8> {
        let parts =
            [&time.to_le_bytes()[..], &id.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()];
        parts.concat()
    }

    #[test]
    fn an_object_is_a_place() {
        let decode = |record: Vec<u8>| OracleGeneral.decode(&record);
        let asked = |length| Ok(Some(Asked::new(2_000_000_000, 0, Op::Read, (12_288, length))));
        assert_eq!(decode(record(2, 3, 700, -1)), asked(700));
        assert_eq!(decode(record(2, 3, 0, 9)), asked(4096));
        assert!(decode(record(2, u64::MAX, 512, 9)).is_err());
    }

    #[test]
    fn the_next_access_tells_the_format() {
        let good: Vec<u8> = (0..50).flat_map(|i| record(i, 3, 512, i64::from(i) + 2)).collect();
        let bad: Vec<u8> = (0..50).flat_map(|i| record(i, 3, 512, 1)).collect();
        let text = b"128166385365934025,web,0,Write,3160743424,4096,135731\n".repeat(9);
        for (bytes, want) in
            [(good, Confidence::Certain), (bad, Confidence::No), (text, Confidence::No)]
        {
            assert_eq!(detect(&Sample { bytes: &bytes, whole: true }), want);
        }
        assert_eq!(detect(&Sample { bytes: &[0; 240], whole: true }), Confidence::No);
    }
}
