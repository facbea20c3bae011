//! How does Tencent's cloud block storage write down a request?
//!
//! Source: the readme of the trace (SNIA IOTTA, "Tencent Block Storage"), read, no sample at hand.

use super::{Asked, Decoder, Format, vote};
use crate::error::Reason;
use crate::fields::{begins_with, columns, decimal, scaled, whole};
use tandem_block::{Op, SECTOR_BYTES};

pub(super) const FORMAT: Format = Format {
    name: "tencent",
    summary: "Tencent CBS CSV: 5,584 cloud volumes",
    columns: "timestamp (Unix seconds), offset (sectors of 512 bytes), length (sectors), 0 read or \
              1 write, volume id. All requests of one second arrive together, as the trace says no \
              more. A header line is passed over; a length of zero is an error.",
    detect: |sample| vote(sample, &mut Tencent),
    open: |_, _| Ok(Box::new(Tencent)),
};

struct Tencent;

impl Decoder for Tencent {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        if begins_with(line, "timestamp,") {
            return Ok(None);
        }
        let [time, offset, length, kind, volume] = columns(line, b',')?;
        let op = match kind {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(Reason::Operation("0, 1")),
        };
        let offset_bytes = scaled(whole(offset, "offset")?, SECTOR_BYTES, "offset")?;
        let length_bytes = scaled(whole(length, "length")?, SECTOR_BYTES, "length")?;
        let time_ns = decimal(time, 9, "timestamp")?;
        let volume = whole(volume, "volume id")?;
        Ok(Some(Asked::new(time_ns, volume, op, (offset_bytes, length_bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_mean_what_the_readme_says() {
        let asked = Tencent.decode(b"1538323200,12910952,128,0,1063");
        let want =
            Asked::new(1_538_323_200_000_000_000, 1063, Op::Read, (12_910_952 * 512, 128 * 512));
        assert_eq!(asked, Ok(Some(want)));
        assert_eq!(Tencent.decode(b"Timestamp,Offset,Size,IOType,VolumeID"), Ok(None));
        assert_eq!(Tencent.decode(b"1,2,3,2,4"), Err(Reason::Operation("0, 1")));
    }
}
