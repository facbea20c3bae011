//! How does CloudPhysics write down a SCSI command of a virtual machine?
//!
//! Source: the record layouts in libCacheSim's vSCSI reader (version 2 from there only), a sample of
//! version 1, and SBC-4 for the operation codes.

use super::{Asked, Confidence, Decoder, Format};
use crate::error::Reason;
use crate::fields::scaled;
use crate::input::{Framing, Sample};
use tandem_block::{Op, SECTOR_BYTES};

pub(super) const FORMAT: Format = Format {
    name: "vscsi",
    summary: "CloudPhysics vSCSI binary, version 1 or 2",
    columns: "little-endian records. Version 1, 32 bytes: serial u32, length u32 (bytes), segments \
              u32, command u16, version u16 (256), address u64 (sectors of 512 bytes), time u64 (us). \
              Version 2, 40 bytes: command u16, version u16 (512), serial u32, length u32, segments \
              u32, address u64, time u64, response time u64. SYNCHRONIZE CACHE is a flush; commands \
              that are neither read, write nor flush are passed over, as are reads and writes of \
              length zero, which SCSI allows. One device.",
    detect: |sample| {
        if Version::of(sample).is_some() { Confidence::Certain } else { Confidence::No }
    },
    open: |sample, _| match Version::of(sample) {
        Some(version) => Ok(Box::new(Vscsi { version })),
        None if sample.bytes.is_empty() => Ok(Box::new(Vscsi { version: Version::One })),
        None => Err(Reason::Shape("its first records are of neither version 1 nor 2")),
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

const ONE_BYTES: usize = 32;
const TWO_BYTES: usize = 40;

impl Version {
    /// The version that more than half of the first records have.
    fn of(sample: &Sample) -> Option<Version> {
        let most = |(good, all): (usize, usize)| good * 2 > all;
        let ones = sample.records::<ONE_BYTES>().fold((0, 0), |(good, all), record| {
            (good + usize::from(Version::One.command(record).is_ok()), all + 1)
        });
        let twos = sample.records::<TWO_BYTES>().fold((0, 0), |(good, all), record| {
            (good + usize::from(Version::Two.command(record).is_ok()), all + 1)
        });
        match (most(ones), most(twos)) {
            (true, _) => Some(Version::One),
            (_, true) => Some(Version::Two),
            _ => None,
        }
    }

    /// The command of a record, if it says that it is of this version.
    fn command(self, record: &[u8]) -> Result<u8, Reason> {
        let (command_at, version_at, want) = match self {
            Version::One => (12, 14, 1),
            Version::Two => (0, 2, 2),
        };
        // SCSI operation codes have eight bits; the upper byte is zero
        if u16_at(record, version_at) >> 8 != want || record[command_at + 1] != 0 {
            return Err(Reason::Shape("the record is of another version"));
        }
        Ok(record[command_at])
    }
}

struct Vscsi {
    version: Version,
}

impl Decoder for Vscsi {
    fn framing(&self) -> Framing {
        Framing::Records(match self.version {
            Version::One => ONE_BYTES,
            Version::Two => TWO_BYTES,
        })
    }

    fn decode(&mut self, record: &[u8]) -> Result<Option<Asked>, Reason> {
        let op = match self.version.command(record)? {
            // 6, 10, 12 and 16 byte commands
            0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
            // and WRITE AND VERIFY
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
            0x35 | 0x91 => Op::Flush,
            _ => return Ok(None),
        };
        let (length_at, address_at, time_at) = match self.version {
            Version::One => (4, 16, 24),
            Version::Two => (8, 16, 24),
        };
        let length_bytes = u64::from(u32_at(record, length_at));
        if length_bytes == 0 && op != Op::Flush {
            return Ok(None);
        }
        let offset_bytes = scaled(u64_at(record, address_at), SECTOR_BYTES, "address")?;
        let time_ns = scaled(u64_at(record, time_at), 1_000, "time")?;
        Ok(Some(Asked::new(time_ns, 0, op, (offset_bytes, length_bytes))))
    }
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from(u16_at(record, at)) | u32::from(u16_at(record, at + 2)) << 16
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(command: u16, length: u32) -> [u8; 32] {
        let mut record = [0; 32];
        record[4..8].copy_from_slice(&length.to_le_bytes());
        record[12..14].copy_from_slice(&command.to_le_bytes());
        record[14..16].copy_from_slice(&0x100u16.to_le_bytes());
        record[16..24].copy_from_slice(&8u64.to_le_bytes());
        record[24..32].copy_from_slice(&7u64.to_le_bytes());
        record
    }

    #[test]
    fn commands_are_requests_flushes_or_nothing() {
        let mut vscsi = Vscsi { version: Version::One };
        let asked = |op, length| Ok(Some(Asked::new(7_000, 0, op, (4096, length))));
        assert_eq!(vscsi.decode(&one(0x28, 512)), asked(Op::Read, 512));
        assert_eq!(vscsi.decode(&one(0x8a, 1024)), asked(Op::Write, 1024));
        assert_eq!(vscsi.decode(&one(0x35, 0)), asked(Op::Flush, 0));
        assert_eq!(vscsi.decode(&one(0x28, 0)), Ok(None));
        assert_eq!(vscsi.decode(&one(0x12, 96)), Ok(None));
        assert!(vscsi.decode(&[0; 32]).is_err());
    }

    #[test]
    fn versions_are_told_apart() {
        let mut two = [0u8; 40];
        two[0] = 0x2a;
        two[3] = 2;
        let (ones, twos) = (one(0x2a, 512).repeat(10), two.repeat(10));
        for (bytes, want) in
            [(&ones[..], Some(Version::One)), (&twos, Some(Version::Two)), (b"", None)]
        {
            assert_eq!(Version::of(&Sample { bytes, whole: true }), want);
        }
    }
}
