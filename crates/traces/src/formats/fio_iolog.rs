//! How does fio write down what a job did?
//!
//! Source: fio(1), "Trace file format v2" and "v3". The manual does not name version 3's unit; a log
//! written by fio 3.33 has microseconds (measured).

use super::{Asked, Confidence, Decoder, Format};
use crate::device::Names;
use crate::error::Reason;
use crate::fields::{scaled, split_blank, whole};
use crate::input::Sample;
use tandem_block::Op;

pub(super) const FORMAT: Format = Format {
    name: "fio",
    summary: "fio iolog, version 2 or 3",
    columns: "first line 'fio version 2 iolog' or 'fio version 3 iolog'; then file, action, offset \
              (bytes), length (bytes), in version 3 with the time (us) in front. Each file is a \
              device. Actions: read, write, trim (discard), sync and datasync (flush); add, open and \
              close are passed over. Version 2 has no times but 'wait' (us from the last wait): what \
              lies between two waits arrives together. A length of zero is an error.",
    detect: |sample| {
        if version(sample).is_some() { Confidence::Certain } else { Confidence::No }
    },
    open: |sample, _| {
        let has_times = match version(sample) {
            Some(version) => version == 3,
            None if sample.bytes.is_empty() => true,
            None => {
                return Err(Reason::Shape("its first line is not 'fio version 2 (or 3) iolog'"));
            }
        };
        Ok(Box::new(FioIolog { has_times, waited_us: 0, names: Names::default() }))
    },
};

fn version(sample: &Sample) -> Option<u8> {
    match sample.lines().next()?.trim_ascii() {
        b"fio version 2 iolog" => Some(2),
        b"fio version 3 iolog" => Some(3),
        _ => None,
    }
}

struct FioIolog {
    has_times: bool,
    /// Version 2: all waits so far.
    waited_us: u64,
    names: Names,
}

impl Decoder for FioIolog {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        if line.starts_with(b"fio version ") {
            return Ok(None);
        }
        let (columns, mut found) = split_blank::<5>(line);
        let [time, file, action, offset, length] = if self.has_times {
            columns
        } else {
            // one column less
            found += 1;
            [&[][..], columns[0], columns[1], columns[2], columns[3]]
        };
        if !(3..=5).contains(&found) {
            return Err(Reason::Columns { want: 5, found });
        }
        let op = match action {
            b"add" | b"open" | b"close" => return Ok(None),
            b"wait" if !self.has_times => {
                let waited_us = self.waited_us.checked_add(whole(offset, "wait")?);
                self.waited_us = waited_us.ok_or(Reason::TooLarge("wait"))?;
                return Ok(None);
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            _ => {
                return Err(Reason::Operation(
                    "read, write, trim, sync, datasync, wait, add, open, close",
                ));
            }
        };
        let time_us = if self.has_times { whole(time, "time")? } else { self.waited_us };
        let range = match op {
            Op::Flush => (0, 0),
            _ => (whole(offset, "offset")?, whole(length, "length")?),
        };
        let time_ns = scaled(time_us, 1_000, "time")?;
        Ok(Some(Asked::new(time_ns, self.names.number(file)?, op, range)))
    }

    fn device_name(&self, device: u64) -> String {
        self.names.name(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Result<Option<Asked>, Reason>> {
        let sample = Sample { bytes: text.as_bytes(), whole: true };
        let mut decoder = (FORMAT.open)(&sample, &crate::OpenOptions::default()).unwrap();
        text.lines().skip(1).map(|line| decoder.decode(line.as_bytes())).collect()
    }

    #[test]
    fn version_2_waits() {
        let text = "fio version 2 iolog\n/f add\n/f open\n/f read 0 4096\n/f wait 250 0\n\
                    /g write 512 512\n/f sync\n/f trim 0 8192\n/f verify 0 1\n";
        let at = |time_us: u64, device, op, range| {
            Ok(Some(Asked::new(time_us * 1000, device, op, range)))
        };
        let got = all(text);
        assert_eq!(got[..2], [Ok(None), Ok(None)]);
        assert_eq!(got[2], at(0, 0, Op::Read, (0, 4096)));
        assert_eq!(got[4], at(250, 1, Op::Write, (512, 512)));
        assert_eq!(got[5], at(250, 0, Op::Flush, (0, 0)));
        assert_eq!(got[6], at(250, 0, Op::Discard, (0, 8192)));
        assert!(matches!(got[7], Err(Reason::Operation(_))));
    }

    #[test]
    fn version_3_has_times() {
        let text = "fio version 3 iolog\n21 /f add\n202 /f read 0 4096\n92187 /f sync 61440 0\n\
                    9 /f\n9 /f wait 1 1\n";
        let got = all(text);
        assert_eq!(got[1], Ok(Some(Asked::new(202_000, 0, Op::Read, (0, 4096)))));
        assert_eq!(got[2], Ok(Some(Asked::new(92_187_000, 0, Op::Flush, (0, 0)))));
        assert_eq!(got[3], Err(Reason::Columns { want: 5, found: 2 }));
        assert!(got[4].is_err(), "version 3 has no wait");
    }
}
