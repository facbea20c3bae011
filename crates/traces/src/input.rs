//! Where do the bytes of a trace come from, and where does one line or record end?
//!
//! Plain, gzip and zstd are told apart by their first bytes, never by the file's name. One buffer of
//! 256 KiB is all that is held: its first filling is what detection looks at, and reading goes on
//! from there, so that a pipe need not be rewound.

use std::io::{self, Read};
use std::ops::Range;

/// Longer lines are bad; they are skipped without being held.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;
/// The one buffer; its first filling is the sample for detection.
const BUFFER_BYTES: usize = 256 * 1024;
/// Detection looks at no more lines than this (issue: the first 1,000 lines).
const SAMPLE_LINES_MAX: usize = 1000;

/// How a format divides its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Lines of text.
    Lines,
    /// Records of so many bytes.
    Records(usize),
}

/// What comes next in the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A line (without its end) or a record: these bytes of the buffer.
    Whole(Range<usize>),
    /// A line that was too long to hold; it has been skipped.
    Long,
    /// The file ended inside a record, of which so many bytes are there.
    Cut(usize),
    /// The file ended.
    End,
}

/// A trace's bytes, decompressed, divided on demand.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// An error met while filling; reported when all bytes before it are used.
    trouble: Option<io::Error>,
    frames: u64,
    frame_offset_bytes: u64,
    start_offset_bytes: u64,
    compressed: bool,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Input {
    /// Looks at the first bytes, decompresses where they say so, and fills the buffer. After so many
    /// decompressed bytes the input ends, whatever follows.
    pub(crate) fn new(
        mut raw: impl Read + Send + 'static,
        unpacked_bytes_max: u64,
    ) -> io::Result<Input> {
        let mut magic = [0u8; 4];
        let found = read_fully(&mut raw, &mut magic)?;
        let whole = io::Cursor::new(magic[..found].to_vec()).chain(raw);
        let (source, compressed): (Box<dyn Read + Send>, bool) = match &magic[..found] {
            [0x1f, 0x8b, ..] => (Box::new(flate2::read::MultiGzDecoder::new(whole)), true),
            // a zstd frame, or a skippable frame in front of one
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                (Box::new(zstd::stream::read::Decoder::new(whole)?), true)
            }
            _ => (Box::new(whole), false),
        };
        let mut input = Input {
            source: Box::new(source.take(unpacked_bytes_max)),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            ended: false,
            trouble: None,
            frames: 0,
            frame_offset_bytes: 0,
            start_offset_bytes: 0,
            compressed,
        };
        while input.end < BUFFER_BYTES && !input.ended {
            input.fill();
        }
        Ok(input)
    }

    /// The first bytes of the trace, for detection. Call before the first `next`.
    pub(crate) fn sample(&self) -> Sample<'_> {
        let whole = self.ended && self.trouble.is_none();
        Sample { bytes: &self.buffer[self.start..self.end], whole }
    }

    /// The bytes of a frame.
    pub(crate) fn bytes(&self, frame: Range<usize>) -> &[u8] {
        &self.buffer[frame]
    }

    /// Is it gzip or zstd?
    pub(crate) fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// How many lines or records have been divided off.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Where the last line or record began.
    pub(crate) fn frame_offset_bytes(&self) -> u64 {
        self.frame_offset_bytes
    }

    /// Divides off the next line or record.
    ///
    /// # Errors
    /// Once everything before it has been used: what the file or the decompressor answered.
    pub(crate) fn next(&mut self, framing: Framing) -> io::Result<Frame> {
        self.frame_offset_bytes = self.start_offset_bytes;
        match framing {
            Framing::Lines => self.next_line(),
            Framing::Records(size_bytes) => self.next_record(size_bytes),
        }
    }

    fn next_line(&mut self) -> io::Result<Frame> {
        let mut seen = self.start;
        loop {
            if let Some(at) = find_newline(&self.buffer[seen..self.end]) {
                let line = self.start..seen + at;
                self.take(line.len() + 1);
                return Ok(if line.len() > LINE_BYTES_MAX {
                    Frame::Long
                } else {
                    Frame::Whole(without_return(&self.buffer, line))
                });
            }
            if self.end - self.start > LINE_BYTES_MAX {
                return self.skip_line();
            }
            if self.ended {
                self.report_trouble()?;
                let line = self.start..self.end;
                if line.is_empty() {
                    return Ok(Frame::End);
                }
                self.take(line.len());
                return Ok(Frame::Whole(without_return(&self.buffer, line)));
            }
            let held = self.end - self.start;
            self.fill();
            seen = self.start + held;
        }
    }

    /// Drops everything up to and with the next newline.
    fn skip_line(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(at) = find_newline(&self.buffer[self.start..self.end]) {
                self.take(at + 1);
                return Ok(Frame::Long);
            }
            self.advance(self.end - self.start);
            if self.ended {
                self.report_trouble()?;
                self.frames += 1;
                return Ok(Frame::Long);
            }
            self.fill();
        }
    }

    fn next_record(&mut self, size_bytes: usize) -> io::Result<Frame> {
        while self.end - self.start < size_bytes && !self.ended {
            self.fill();
        }
        let held = self.end - self.start;
        if held >= size_bytes {
            let record = self.start..self.start + size_bytes;
            self.take(size_bytes);
            return Ok(Frame::Whole(record));
        }
        self.report_trouble()?;
        if held == 0 {
            return Ok(Frame::End);
        }
        self.take(held);
        Ok(Frame::Cut(held))
    }

    /// Everything from here on is lost if the source ended in trouble.
    fn report_trouble(&mut self) -> io::Result<()> {
        match self.trouble.take() {
            Some(error) => {
                self.start = self.end;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Marks the next bytes as used: one frame.
    fn take(&mut self, count: usize) {
        self.advance(count);
        self.frames += 1;
    }

    /// Marks the next bytes as used.
    fn advance(&mut self, count: usize) {
        self.start += count;
        self.start_offset_bytes += count as u64;
    }

    /// Moves what is left to the front and reads once more behind it.
    fn fill(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        assert!(self.end < BUFFER_BYTES, "a full buffer holds a whole line or record");
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.trouble = Some(error);
                    self.ended = true;
                }
            }
            return;
        }
    }
}

fn without_return(buffer: &[u8], line: Range<usize>) -> Range<usize> {
    if buffer[line.clone()].ends_with(b"\r") { line.start..line.end - 1 } else { line }
}

fn read_fully(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut found = 0;
    while found < into.len() {
        match source.read(&mut into[found..]) {
            Ok(0) => break,
            Ok(count) => found += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The first newline, eight bytes at a time: a byte of `word ^ newlines` is zero where one is.
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let differences = u64::from_le_bytes(*word) ^ (LOW * 0x0a);
        let zeroes = differences.wrapping_sub(LOW) & !differences & HIGH;
        if zeroes != 0 {
            return Some(index * 8 + zeroes.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte == b'\n').map(|at| words.len() * 8 + at)
}

/// The beginning of a trace, as detection sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    /// At most 256 KiB.
    pub(crate) bytes: &'a [u8],
    /// Is that all there is?
    pub(crate) whole: bool,
}

impl<'a> Sample<'a> {
    /// The first lines that are complete and not blank.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let complete = if self.whole {
            self.bytes
        } else {
            let end = self.bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
            &self.bytes[..end]
        };
        complete
            .split(|&byte| byte == b'\n')
            .take(SAMPLE_LINES_MAX)
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !crate::fields::is_blank_line(line))
    }

    /// The first records of so many bytes.
    pub(crate) fn records<const N: usize>(&self) -> impl Iterator<Item = &'a [u8; N]> {
        self.bytes.as_chunks::<N>().0.iter().take(SAMPLE_LINES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut input = Input::new(io::Cursor::new(bytes.to_vec()), u64::MAX).unwrap();
        let mut lines = Vec::new();
        loop {
            match input.next(Framing::Lines).unwrap() {
                Frame::Whole(range) => {
                    lines.push(String::from_utf8_lossy(input.bytes(range)).into_owned());
                }
                Frame::Long => lines.push("LONG".into()),
                Frame::Cut(_) => unreachable!("lines are never cut"),
                Frame::End => {
                    assert_eq!(input.frames(), lines.len() as u64);
                    return lines;
                }
            }
        }
    }

    #[test]
    fn lines_end_with_or_without_a_return_or_a_newline() {
        assert_eq!(
            lines(b"a\nb\r\n\nlonger than eight\nc"),
            ["a", "b", "", "longer than eight", "c"]
        );
        assert_eq!(lines(b""), [""; 0]);
    }

    #[test]
    fn long_lines_are_skipped_and_numbered_once() {
        for length in [LINE_BYTES_MAX, LINE_BYTES_MAX + 1, BUFFER_BYTES - 1, BUFFER_BYTES * 5] {
            let mut text = b"a\n".to_vec();
            text.extend(vec![b'x'; length]);
            text.extend(b"\nb\n");
            let got = lines(&text);
            assert_eq!((got.len(), &*got[0], &*got[2]), (3, "a", "b"), "{length}");
            assert_eq!(got[1] == "LONG", length > LINE_BYTES_MAX, "{length}");
            text.truncate(length);
            assert_eq!(lines(&text).len(), 2, "{length} without end");
        }
    }

    #[test]
    fn records_and_the_rest() {
        let mut input = Input::new(io::Cursor::new(vec![7u8; 70]), u64::MAX).unwrap();
        for _ in 0..2 {
            let Frame::Whole(range) = input.next(Framing::Records(32)).unwrap() else {
                unreachable!("two whole records")
            };
            assert_eq!(input.bytes(range), [7u8; 32]);
        }
        assert_eq!(input.next(Framing::Records(32)).unwrap(), Frame::Cut(6));
        assert_eq!((input.frames(), input.frame_offset_bytes()), (3, 64));
        assert_eq!(input.next(Framing::Records(32)).unwrap(), Frame::End);
    }

    #[test]
    fn newlines_are_found_at_every_place() {
        for length in 0..40 {
            let mut bytes = vec![0x8a_u8; length];
            assert_eq!(find_newline(&bytes), None);
            for at in (0..length).rev() {
                bytes[at] = b'\n';
                assert_eq!(find_newline(&bytes), Some(at));
            }
        }
    }
}
