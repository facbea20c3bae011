//! How does the Storage Performance Council write down a request?
//!
//! Source: SPC Trace File Format Specification 1.0.1 (read); the UMass repository's Financial and
//! WebSearch traces are in it, with a block of 512 bytes.

use super::{Asked, Decoder, Format, vote};
use crate::error::Reason;
use crate::fields::{decimal, scaled, split_at, whole};
use tandem_block::{Op, SECTOR_BYTES};

pub(super) const FORMAT: Format = Format {
    name: "spc",
    summary: "SPC trace file (UMass Financial and WebSearch)",
    columns: "application storage unit (the device), address (blocks of 512 bytes), length (bytes), \
              R or W, timestamp (seconds), then optional columns that are ignored. A length of zero \
              is an error.",
    detect: |sample| vote(sample, &mut Spc),
    open: |_, _| Ok(Box::new(Spc)),
};

struct Spc;

impl Decoder for Spc {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        let (columns, found) = split_at::<5>(line, b',');
        if found < 5 {
            return Err(Reason::Columns { want: 5, found });
        }
        let [unit, address, length, kind, time] = columns.map(<[u8]>::trim_ascii);
        let op = match kind {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err(Reason::Operation("R, W")),
        };
        let offset_bytes = scaled(whole(address, "address")?, SECTOR_BYTES, "address")?;
        let range = (offset_bytes, whole(length, "length")?);
        Ok(Some(Asked::new(decimal(time, 9, "timestamp")?, whole(unit, "unit")?, op, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_mean_what_the_specification_says() {
        // the specification's own kind of example: blanks are allowed, further columns too
        let asked = Spc.decode(b"0, 20941264, 8192, W, 0.551706, 7, eight");
        assert_eq!(
            asked,
            Ok(Some(Asked::new(551_706_000, 0, Op::Write, (20_941_264 * 512, 8192))))
        );
        assert_eq!(Spc.decode(b"0,1,512,r"), Err(Reason::Columns { want: 5, found: 4 }));
    }
}
