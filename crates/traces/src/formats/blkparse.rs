//! How does blkparse write down what Linux's block layer did?
//!
//! Source: blkparse(1), "default output" and "trace actions"; the kernel's meaning of the letters in
//! the seventh column; samples.

use super::{Asked, Confidence, Decoder, Format};
use crate::device::Names;
use crate::error::Reason;
use crate::fields::{decimal, scaled, split_blank, whole};
use crate::input::Sample;
use tandem_block::{Op, SECTOR_BYTES};

pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse text: every step of Linux's block layer; Q lines are replayed, or D",
    columns: "major,minor, cpu, sequence, time (s), process id, action, kind, address (sectors of \
              512 bytes), '+', sectors, [process]. Only lines of the chosen action are requests \
              (--action, default Q: as queued). Kind: a leading F is a flush before it, then R, W, D \
              (discard), WZ (write zeroes) or N (nothing), then F (FUA), B (barrier: flush before it \
              and FUA) and letters without effect. Without sectors it is a flush or nothing. The \
              statistics at the end are passed over.",
    detect,
    open: |_, options| Ok(Box::new(Blkparse::new(options.blkparse_action))),
};

struct Blkparse {
    action: u8,
    is_in_statistics: bool,
    names: Names,
}

impl Blkparse {
    fn new(action: u8) -> Blkparse {
        Blkparse { action, is_in_statistics: false, names: Names::default() }
    }

    /// Has the trace ended and blkparse's account of it begun?
    fn is_statistics(&mut self, line: &[u8]) -> bool {
        self.is_in_statistics |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
        self.is_in_statistics
    }
}

impl Decoder for Blkparse {
    fn decode(&mut self, line: &[u8]) -> Result<Option<Asked>, Reason> {
        if self.is_statistics(line) {
            return Ok(None);
        }
        let (columns, found) = split_blank::<10>(line);
        if found < 7 {
            return Err(Reason::Columns { want: 7, found });
        }
        let [device, cpu, _, time, _, action, kind, address, plus, sectors] = columns;
        if !is_device(device) || whole(cpu, "cpu").is_err() {
            return Err(Reason::Shape("it does not begin with major,minor and cpu"));
        }
        if action != [self.action] {
            return Ok(None);
        }
        let Some(kind) = Kind::read(kind) else { return Ok(None) };
        let time_ns = decimal(time, 9, "time")?;
        let device = self.names.number(device)?;
        let (address, sectors) = match plus {
            b"+" => (whole(address, "address")?, whole(sectors, "length")?),
            _ => (0, 0),
        };
        let range =
            (scaled(address, SECTOR_BYTES, "address")?, scaled(sectors, SECTOR_BYTES, "length")?);
        if sectors == 0 || kind.op == Op::Flush {
            let is_flush = kind.op == Op::Flush || kind.flush_before;
            return Ok(is_flush.then(|| Asked::new(time_ns, device, Op::Flush, (0, 0))));
        }
        let asked = Asked::new(time_ns, device, kind.op, range);
        Ok(Some(Asked { fua: kind.fua, flush_before: kind.flush_before, ..asked }))
    }

    fn device_name(&self, device: u64) -> String {
        self.names.name(device)
    }
}

/// What the letters of the seventh column say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    op: Op,
    fua: bool,
    flush_before: bool,
}

impl Kind {
    /// `None` for commands that move no data.
    fn read(letters: &[u8]) -> Option<Kind> {
        let (starts_with_flush, rest) = match letters {
            [b'F', rest @ ..] => (true, rest),
            _ => (false, letters),
        };
        let (op, flags) = match rest {
            [b'R', flags @ ..] => (Op::Read, flags),
            [b'W', b'Z', flags @ ..] => (Op::WriteZeroes, flags),
            [b'W', flags @ ..] => (Op::Write, flags),
            [b'D', flags @ ..] => (Op::Discard, flags),
            // an F alone, or before flags without a command: a flush of its own
            flags if starts_with_flush => (Op::Flush, flags),
            _ => return None,
        };
        let is_barrier = flags.contains(&b'B');
        let is_write = op == Op::Write;
        Some(Kind {
            op,
            fua: is_write && (is_barrier || flags.contains(&b'F')),
            flush_before: op != Op::Flush && (starts_with_flush || is_barrier),
        })
    }
}

/// "major,minor".
fn is_device(text: &[u8]) -> bool {
    let mut parts = text.split(|&byte| byte == b',');
    let mut part = || parts.next().is_some_and(|part| whole(part, "").is_ok());
    part() && part() && parts.next().is_none()
}

/// Any action will do: a trace without Q lines is still one of blkparse.
fn detect(sample: &Sample) -> Confidence {
    let mut decoder = Blkparse::new(b'Q');
    let (mut good, mut bad) = (0, 0);
    for line in sample.lines().take_while(|line| !line.starts_with(b"CPU")) {
        match decoder.decode(line) {
            Ok(_) => good += 1,
            Err(_) => bad += 1,
        }
    }
    if good > bad { Confidence::Certain } else { Confidence::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &str, action: u8) -> Result<Option<Asked>, Reason> {
        Blkparse::new(action).decode(line.as_bytes())
    }

    #[test]
    fn only_the_chosen_action_is_a_request() {
        let line = "  8,16   8        1     0.000020436 13213  Q   W 766877144 + 8 [kworker/u81:0]";
        let want = Asked::new(20_436, 0, Op::Write, (766_877_144 * 512, 4096));
        assert_eq!(decode(line, b'Q'), Ok(Some(want)));
        assert_eq!(decode(line, b'D'), Ok(None));
        for line in [
            "  8,16   5        0     0.000012990     0  m   N cfq18615S / insert_request",
            "  8,16   5        4     0.000008750 18615  P   N [java]",
            "CPU0 (8,16):",
        ] {
            assert_eq!(decode(line, b'P'), Ok(None), "{line}");
        }
    }

    #[test]
    fn letters_are_flushes_and_flags() {
        let kind = |op, fua, flush_before| Some(Kind { op, fua, flush_before });
        for (letters, want) in [
            ("RA", kind(Op::Read, false, false)),
            ("WS", kind(Op::Write, false, false)),
            ("WFSM", kind(Op::Write, true, false)),
            ("FWFSM", kind(Op::Write, true, true)),
            ("FWS", kind(Op::Write, false, true)),
            ("WBS", kind(Op::Write, true, true)),
            ("D", kind(Op::Discard, false, false)),
            ("WZ", kind(Op::WriteZeroes, false, false)),
            ("FF", kind(Op::Flush, false, false)),
            ("FN", kind(Op::Flush, false, false)),
            ("N", None),
        ] {
            assert_eq!(Kind::read(letters.as_bytes()), want, "{letters}");
        }
        let flush = decode("8,0 1 1 1.0 7 Q FWS [jbd2/sda1-8]", b'Q').unwrap().unwrap();
        assert_eq!(flush, Asked::new(1_000_000_000, 0, Op::Flush, (0, 0)));
        assert_eq!(decode("8,0 1 1 1.0 7 Q R [smartctl]", b'Q'), Ok(None));
    }

    #[test]
    fn other_lines_are_bad() {
        for line in ["8,0 1 1 1.0 7 Q", "eight,0 1 1 1.0 7 Q R 8 + 8", "8,0 1 1 x 7 Q R 8 + 8"] {
            assert!(decode(line, b'Q').is_err(), "{line}");
        }
    }
}
