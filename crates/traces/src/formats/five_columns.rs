//! DiskSim, MQSim or LinnOS? They have the same five columns in other units.
//!
//! ```text
//!            time           address       length
//!  disksim   ms, decimals   sectors       sectors
//!  mqsim     ns, whole      sectors       sectors
//!  linnos    ms, decimals   bytes         bytes
//! ```
//! What tells them apart: a fraction in the time excludes ns; a mean gap above 5,000 excludes ms (it
//! would be five seconds), one below 500 excludes ns (two million requests a second); an address or
//! length that is no multiple of 512 excludes bytes; lengths that all are multiples of 512, some of
//! them 4096 and more, exclude sectors (every request would be 256 KiB or more, some over 2 MiB).
//! All four limits are guesses. What remains undecided is a tie, which the user settles.

use super::{Asked, Confidence, Decoder, Format};
use crate::error::Reason;
use crate::fields::{blank_columns, decimal, scaled, whole};
use crate::input::Sample;
use tandem_block::{Op, SECTOR_BYTES};

const GAP_MS_MAX: u64 = 5_000;
const GAP_NS_LEAST: u64 = 500;
const LENGTH_BYTES_LEAST: u64 = 4_096;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    DiskSim,
    MqSim,
    LinnOs,
}

/// Reads five columns in one of the three units.
pub(super) struct FiveColumns {
    units: Units,
}

impl FiveColumns {
    pub(super) const fn new(units: Units) -> FiveColumns {
        FiveColumns { units }
    }
}

impl Decoder for FiveColumns {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        let [time, device, address, length, kind] = blank_columns(line)?;
        let op = match kind {
            b"0" => Op::Write,
            b"1" => Op::Read,
            flags if self.units == Units::DiskSim => disksim_flags(flags)?,
            _ => return Err(Reason::Operation("0, 1")),
        };
        let time_ns = match self.units {
            Units::MqSim => whole(time, "time")?,
            Units::DiskSim | Units::LinnOs => decimal(time, 6, "time")?,
        };
        let unit_bytes = if self.units == Units::LinnOs { 1 } else { SECTOR_BYTES };
        let offset_bytes = scaled(whole(address, "address")?, unit_bytes, "address")?;
        let length_bytes = scaled(whole(length, "length")?, unit_bytes, "length")?;
        let device = whole(device, "device")?;
        Ok(Some(Asked::new(time_ns, device, op, (offset_bytes, length_bytes))))
    }
}

/// DiskSim's flags are hexadecimal; the lowest bit is "read".
fn disksim_flags(flags: &[u8]) -> Result<Op, Reason> {
    let text = std::str::from_utf8(flags).map_err(|_| Reason::Number("flags"))?;
    let bits = u32::from_str_radix(text, 16).map_err(|_| Reason::Number("flags"))?;
    Ok(if bits & 1 == 1 { Op::Read } else { Op::Write })
}

/// How well do the first lines fit these units, given the other two?
pub(super) fn detect(sample: &Sample, units: Units) -> Confidence {
    let fits = Look::at(sample).map(Look::fitting).unwrap_or_default();
    match (fits.contains(&units), fits.len()) {
        (false, _) => Confidence::No,
        (true, 1) => Confidence::Certain,
        (true, _) => Confidence::Possible,
    }
}

/// What the first lines have in common.
#[derive(Clone, Copy, Debug)]
struct Look {
    has_fractions: bool,
    has_flags: bool,
    is_in_512: bool,
    length_max: u64,
    /// Whole units from the first time to the last, per line; `None` for a single line.
    gap: Option<u64>,
}

impl Look {
    /// `None` if half of the lines or more are something else.
    fn at(sample: &Sample) -> Option<Look> {
        let mut look = Look {
            has_fractions: false,
            has_flags: false,
            is_in_512: true,
            length_max: 0,
            gap: None,
        };
        let (mut good, mut bad, mut first, mut last) = (0u64, 0u64, None, 0);
        for line in sample.lines() {
            let Some((time, address, length)) = look.line(line) else {
                bad += 1;
                continue;
            };
            good += 1;
            first.get_or_insert(time);
            last = time;
            look.is_in_512 &=
                address.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
            look.length_max = look.length_max.max(length);
        }
        if good > 1 {
            look.gap = first.map(|first: u64| last.saturating_sub(first) / (good - 1));
        }
        (good > bad).then_some(look)
    }

    fn line(&mut self, line: &[u8]) -> Option<(u64, u64, u64)> {
        let [time, device, address, length, kind] = blank_columns(line).ok()?;
        whole(device, "").ok()?;
        disksim_flags(kind).ok()?;
        let numbers =
            (decimal(time, 0, "").ok()?, whole(address, "").ok()?, whole(length, "").ok()?);
        self.has_flags |= kind != b"0" && kind != b"1";
        self.has_fractions |= time.contains(&b'.');
        Some(numbers)
    }

    fn fitting(self) -> Vec<Units> {
        let may_be_ms = self.has_fractions || self.gap.is_none_or(|gap| gap <= GAP_MS_MAX);
        let may_be_ns = !self.has_fractions && self.gap.is_none_or(|gap| gap >= GAP_NS_LEAST);
        let may_be_bytes = self.is_in_512;
        let may_be_sectors = !self.is_in_512 || self.length_max < LENGTH_BYTES_LEAST;
        // whole ns go with sectors only, and a flag that is neither 0 nor 1 with DiskSim only
        let fits = [
            (Units::DiskSim, may_be_ms && may_be_sectors),
            (Units::MqSim, may_be_ns && (may_be_sectors || !may_be_ms) && !self.has_flags),
            (Units::LinnOs, may_be_ms && may_be_bytes && !self.has_flags),
        ];
        fits.into_iter().filter(|&(_, does)| does).map(|(units, _)| units).collect()
    }
}

/// One of the three formats.
pub(super) const fn format(
    name: &'static str,
    summary: &'static str,
    columns: &'static str,
    units: Units,
) -> Format {
    match units {
        Units::DiskSim => Format {
            name,
            summary,
            columns,
            detect: |sample| detect(sample, Units::DiskSim),
            open: |_, _| Ok(Box::new(FiveColumns::new(Units::DiskSim))),
        },
        Units::MqSim => Format {
            name,
            summary,
            columns,
            detect: |sample| detect(sample, Units::MqSim),
            open: |_, _| Ok(Box::new(FiveColumns::new(Units::MqSim))),
        },
        Units::LinnOs => Format {
            name,
            summary,
            columns,
            detect: |sample| detect(sample, Units::LinnOs),
            open: |_, _| Ok(Box::new(FiveColumns::new(Units::LinnOs))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::Units::{DiskSim, LinnOs, MqSim};
    use super::*;

    #[test]
    fn one_line_in_three_units() {
        let line = b"5 2 8 16 1";
        for (units, time_ns, range) in [
            (DiskSim, 5_000_000, (4096, 8192)),
            (MqSim, 5, (4096, 8192)),
            (LinnOs, 5_000_000, (8, 16)),
        ] {
            let asked = FiveColumns::new(units).decode(line).unwrap().unwrap();
            assert_eq!(asked, Asked::new(time_ns, 2, Op::Read, range), "{units:?}");
        }
        let mut disksim = FiveColumns::new(DiskSim);
        assert_eq!(disksim.decode(b"1.25 0 8 16 41").unwrap().unwrap().op, Op::Read);
        assert_eq!(disksim.decode(b"1.25 0 8 16 g"), Err(Reason::Number("flags")));
        assert_eq!(FiveColumns::new(MqSim).decode(b"1 0 8 16 2"), Err(Reason::Operation("0, 1")));
        assert_eq!(FiveColumns::new(MqSim).decode(b"1.5 0 8 8 0"), Err(Reason::Number("time")));
    }

    #[test]
    fn units_are_told_apart_or_tied() {
        for (text, want) in [
            // a fraction, addresses that are no bytes
            ("0.5 0 7 8 1\n1.5 0 9 8 1\n", &[DiskSim][..]),
            // a fraction, bytes
            ("0.5 0 8192 4096 1\n1.5 0 512 512 1\n", &[LinnOs]),
            // a fraction, and 512 of either
            ("0.5 0 8192 512 1\n1.5 0 512 512 1\n", &[DiskSim, LinnOs]),
            // whole numbers, far apart
            ("0 0 7 8 1\n90000 0 9 8 1\n", &[MqSim]),
            ("0 0 8192 4096 1\n90000 0 512 512 1\n", &[MqSim]),
            // whole numbers, close together
            ("0 0 7 8 1\n90 0 9 8 1\n", &[DiskSim]),
            ("0 0 8192 4096 1\n90 0 512 512 1\n", &[LinnOs]),
            // whole numbers, neither close nor far
            ("0 0 7 8 1\n900 0 9 8 1\n", &[DiskSim, MqSim]),
            // one line says little
            ("0 0 7 8 1\n", &[DiskSim, MqSim]),
            // flags
            ("0 0 7 8 9\n900 0 9 8 1\n", &[DiskSim]),
            // something else
            ("0 0 7 8\n900 0 9 8 1\n", &[]),
        ] {
            let sample = Sample { bytes: text.as_bytes(), whole: true };
            let fits = Look::at(&sample).map(Look::fitting).unwrap_or_default();
            assert_eq!(fits, want, "{text}");
        }
    }
}
