//! How does Alibaba's block-trace release write down a request?
//!
//! Source: the readme of alibaba/block-traces (2020), read; no sample was at hand.

use super::{Asked, Decoder, Format, vote};
use crate::error::Reason;
use crate::fields::{begins_with, columns, scaled, whole};
use tandem_block::Op;

pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    summary: "Alibaba block traces CSV: 1,000 cloud volumes",
    columns: "device id, R or W, offset (bytes), length (bytes), timestamp (us). A header line is \
              passed over; a length of zero is an error.",
    detect: |sample| vote(sample, &mut Alibaba),
    open: |_, _| Ok(Box::new(Alibaba)),
};

struct Alibaba;

impl Decoder for Alibaba {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        if begins_with(line, "device_id,") {
            return Ok(None);
        }
        let [device, kind, offset, length, time] = columns(line, b',')?;
        let op = match kind {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err(Reason::Operation("R, W")),
        };
        let time_ns = scaled(whole(time, "timestamp")?, 1_000, "timestamp")?;
        let range = (whole(offset, "offset")?, whole(length, "length")?);
        Ok(Some(Asked::new(time_ns, whole(device, "device id")?, op, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_mean_what_the_readme_says() {
        let asked = Alibaba.decode(b"419,W,8792731648,16384,1577808144360767");
        let want = Asked::new(1_577_808_144_360_767_000, 419, Op::Write, (8_792_731_648, 16_384));
        assert_eq!(asked, Ok(Some(want)));
        assert_eq!(Alibaba.decode(b"device_id,opcode,offset,length,timestamp"), Ok(None));
        assert_eq!(Alibaba.decode(b"1,X,0,512,1"), Err(Reason::Operation("R, W")));
    }
}
