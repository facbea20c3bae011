//! How does Microsoft Research Cambridge write down a request?
//!
//! Source: the readme beside the traces (SNIA IOTTA 388, "MSR Cambridge"). It is also the format
//! that `write` produces, with six operations more, so that nothing is lost on the way.

use super::{Asked, Decoder, Format, vote};
use crate::device::Names;
use crate::error::Reason;
use crate::fields::{begins_with, scaled, split_at, whole};
use tandem_block::{Op, RequestType};

pub(super) const FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV: one line per request of a Windows server's disk",
    columns: "timestamp (100 ns units since 1601), host, disk number, Read or Write, offset (bytes), \
              length (bytes), response time (ignored, may be absent). Host and disk together name \
              the device. Operations of our own: WriteFua, ReadMetadata, WriteMetadata, Flush, \
              Discard, WriteZeroes. A header \
              line is passed over; a length of zero is an error.",
    detect: |sample| vote(sample, &mut Msr::default()),
    open: |_, _| Ok(Box::new(Msr::default())),
};

/// A Windows file time counts these.
const TICK_NS: u64 = 100;

#[derive(Default)]
struct Msr {
    names: Names,
}

impl Decoder for Msr {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        if begins_with(line, "timestamp,") {
            return Ok(None);
        }
        let ([time, host, disk, kind, offset, length, _], found) = split_at::<7>(line, b',');
        if found != 6 && found != 7 {
            return Err(Reason::Columns { want: 7, found });
        }
        let (kind, data_type) = match kind {
            b"ReadMetadata" => (&b"Read"[..], RequestType::Metadata),
            b"WriteMetadata" => (&b"Write"[..], RequestType::Metadata),
            kind => (kind, RequestType::Data),
        };
        let (op, fua) = operation(kind)?;
        whole(disk, "disk number")?;
        // "host,disk" as it stands in the line
        let device_bytes = &line[time.len() + 1..time.len() + 2 + host.len() + disk.len()];
        let time_ns = scaled(whole(time, "timestamp")?, TICK_NS, "timestamp")?;
        let range = (whole(offset, "offset")?, whole(length, "length")?);
        let device = self.names.number(device_bytes)?;
        Ok(Some(Asked { fua, data_type, ..Asked::new(time_ns, device, op, range) }))
    }

    fn device_name(&self, device: u64) -> String {
        self.names.name(device).replace(',', "_")
    }
}

const OPERATIONS: &str =
    "Read, Write, WriteFua, ReadMetadata, WriteMetadata, Flush, Discard, WriteZeroes";

fn operation(kind: &[u8]) -> Result<(Op, bool), Reason> {
    Ok(match kind {
        b"Read" => (Op::Read, false),
        b"Write" => (Op::Write, false),
        b"WriteFua" => (Op::Write, true),
        b"Flush" => (Op::Flush, false),
        b"Discard" => (Op::Discard, false),
        b"WriteZeroes" => (Op::WriteZeroes, false),
        other if other.eq_ignore_ascii_case(b"read") => (Op::Read, false),
        other if other.eq_ignore_ascii_case(b"write") => (Op::Write, false),
        _ => return Err(Reason::Operation(OPERATIONS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_mean_what_the_readme_says() {
        let mut msr = Msr::default();
        let asked = msr.decode(b"128166372003061629,usr,0,Read,7014609920,24576,41286");
        let want = Asked::new(12_816_637_200_306_162_900, 0, Op::Read, (7_014_609_920, 24_576));
        assert_eq!(asked, Ok(Some(want)));
        let second = msr.decode(b"128166372003061630,usr,1,WriteFua,512,1024").unwrap().unwrap();
        assert_eq!((second.device, second.op, second.fua), (1, Op::Write, true));
        assert_eq!(msr.device_name(1), "usr_1");
        assert_eq!(
            msr.decode(b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
            Ok(None)
        );
    }

    #[test]
    fn oddities_have_reasons() {
        for (line, want) in [
            ("1,a,0,Read,0", Reason::Columns { want: 7, found: 5 }),
            ("1,a,0,Read,0,512,9,9", Reason::Columns { want: 7, found: 8 }),
            ("x,a,0,Read,0,512,9", Reason::Number("timestamp")),
            ("1,a,0,Read,0,-1,9", Reason::Number("length")),
            ("200000000000000000,a,0,Read,0,512,9", Reason::TooLarge("timestamp")),
            ("1,a,0,Verify,0,512,9", Reason::Operation(OPERATIONS)),
        ] {
            assert_eq!(Msr::default().decode(line.as_bytes()), Err(want), "{line}");
        }
    }
}
