//! How does a file become a stream of requests?
//!
//! The format's decoder says what each line means; everything that is alike for all formats is done
//! here and in `intake`. Errors name file and line; with `skip_bad` malformed lines are counted.

mod intake;

use crate::error::{Place, Reason, TraceError};
use crate::formats::{Confidence, Decoder, FORMATS, Format, format_named};
use crate::input::{Frame, Framing, Input};
use crate::spell;
use intake::Intake;
pub use intake::{DeviceSummary, Summary};
use std::io::{self, Read};
use std::path::Path;
use tandem_block::Arrival;

/// How to read a trace.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The format's name, or `None` to detect it from the first 1,000 lines.
    pub format: Option<String>,
    /// Count malformed lines instead of ending with an error at the first.
    pub skip_bad: bool,
    /// Which action of a blkparse trace is the request: `Q` (queued, the default), `D` (sent to the
    /// drive), or another of blkparse's letters.
    pub blkparse_action: u8,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { format: None, skip_bad: false, blkparse_action: b'Q' }
    }
}

/// Opens a trace file: plain, gzip or zstd, in any of the formats.
///
/// # Errors
/// `Io` if it cannot be read, `UnknownFormat`, `NotRecognised`, `Ambiguous` or `WrongFormat` if its
/// format is not clear.
pub fn open(path: &Path, options: &OpenOptions) -> Result<TraceReader, TraceError> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => open_reader(&name, file, options),
        Err(error) => Err(TraceError::Io { file: name, error }),
    }
}

/// Opens a trace that comes from anywhere; `name` stands for the file in errors.
///
/// # Errors
/// As `open`.
pub fn open_reader(
    name: &str,
    source: impl Read + Send + 'static,
    options: &OpenOptions,
) -> Result<TraceReader, TraceError> {
    open_limited(name, source, options, u64::MAX)
}

/// As `open_reader`, but reads no more than so many decompressed bytes.
pub(crate) fn open_limited(
    name: &str,
    source: impl Read + Send + 'static,
    options: &OpenOptions,
    unpacked_bytes_max: u64,
) -> Result<TraceReader, TraceError> {
    let file = name.to_owned();
    let wanted = match &options.format {
        Some(wanted) => Some(format_named(wanted).ok_or_else(|| TraceError::UnknownFormat {
            name: wanted.clone(),
            nearest: spell::nearest(wanted, FORMATS.iter().map(|format| format.name)),
        })?),
        None => None,
    };
    let input = Input::new(source, unpacked_bytes_max)
        .map_err(|error| TraceError::Io { file: file.clone(), error })?;
    let format = match wanted {
        Some(format) => format,
        None => detect(&file, &input)?,
    };
    let decoder = (format.open)(&input.sample(), options).map_err(|reason| {
        TraceError::WrongFormat { file: file.clone(), format: format.name, reason }
    })?;
    Ok(TraceReader {
        file,
        format,
        framing: decoder.framing(),
        input,
        decoder,
        intake: Intake::default(),
        pending: None,
        skip_bad: options.skip_bad,
        is_over: false,
    })
}

/// The one format that fits the first lines best.
fn detect(file: &str, input: &Input) -> Result<&'static Format, TraceError> {
    let sample = input.sample();
    let not = |what| Err(TraceError::NotRecognised { file: file.to_owned(), what });
    if sample.bytes.is_empty() {
        return not("the file is empty or cannot be decompressed");
    }
    let fits: Vec<(Confidence, &'static Format)> =
        FORMATS.iter().map(|format| ((format.detect)(&sample), format)).collect();
    let best = fits.iter().map(|&(fit, _)| fit).max().unwrap_or(Confidence::No);
    if best == Confidence::No {
        return not("its first 1,000 lines fit no known trace format");
    }
    let mut candidates = fits.iter().filter(|&&(fit, _)| fit == best).map(|&(_, format)| format);
    let first = candidates.next().expect("the best is among them");
    let others: Vec<&'static str> = candidates.map(|format| format.name).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let candidates = std::iter::once(first.name).chain(others).collect();
    Err(TraceError::Ambiguous { file: file.to_owned(), candidates })
}

/// A trace being read: an iterator of requests in order of time.
pub struct TraceReader {
    file: String,
    format: &'static Format,
    framing: Framing,
    input: Input,
    decoder: Box<dyn Decoder>,
    intake: Intake,
    /// The write whose flush has just been handed out.
    pending: Option<Arrival>,
    skip_bad: bool,
    is_over: bool,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader")
            .field("file", &self.file)
            .field("format", &self.format.name)
            .finish_non_exhaustive()
    }
}

impl TraceReader {
    /// The format that was named or detected.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The file's name, as in errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What has been read so far; the whole trace once the iterator has ended.
    pub fn summary(&self) -> &Summary {
        self.intake.summary()
    }

    fn place(&self) -> Place {
        match self.framing {
            Framing::Lines => Place::Line(self.input.frames()),
            Framing::Records(_) => Place::Record {
                number: self.input.frames(),
                offset_bytes: self.input.frame_offset_bytes(),
            },
        }
    }

    /// Counts a bad line, or ends the trace with its error.
    fn bad(&mut self, reason: Reason, text: &[u8]) -> Result<(), TraceError> {
        if self.skip_bad {
            self.intake.count_bad();
            return Ok(());
        }
        self.is_over = true;
        let text = match self.framing {
            Framing::Lines => String::from_utf8_lossy(text).chars().take(60).collect(),
            Framing::Records(_) => text.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
        };
        Err(TraceError::Bad {
            file: self.file.clone(),
            place: self.place(),
            reason,
            format: Some(self.format.name),
            text,
        })
    }

    /// The input failed: a damaged archive ends the trace, a failing disk is always an error.
    fn broken(&mut self, error: io::Error) -> Result<(), TraceError> {
        self.is_over = true;
        let is_damage = self.input.is_compressed() && error.kind() != io::ErrorKind::OutOfMemory;
        // the operating system's own errors carry its number, the decompressors' do not
        if !is_damage || error.raw_os_error().is_some() {
            return Err(TraceError::Io { file: self.file.clone(), error });
        }
        if self.skip_bad {
            self.intake.count_bad();
            return Ok(());
        }
        Err(TraceError::Damaged { file: self.file.clone(), place: self.place(), error })
    }

    /// Reads one line or record: a request, nothing to replay, or an error.
    fn step(&mut self) -> Result<Option<Arrival>, TraceError> {
        let range = match self.input.next(self.framing) {
            Ok(Frame::Whole(range)) => range,
            Ok(Frame::Long) => return self.bad(Reason::LongLine, b"").map(|()| None),
            Ok(Frame::Cut(found)) => {
                let Framing::Records(want) = self.framing else {
                    unreachable!("only records are cut")
                };
                return self.bad(Reason::Cut { want, found }, b"").map(|()| None);
            }
            Ok(Frame::End) => {
                self.is_over = true;
                return Ok(None);
            }
            Err(error) => return self.broken(error).map(|()| None),
        };
        let record = self.input.bytes(range.clone());
        if self.framing == Framing::Lines && crate::fields::is_blank_line(record) {
            return Ok(None);
        }
        let taken = self.decoder.decode(record).and_then(|asked| match asked {
            Some(asked) => self.intake.take(asked, &*self.decoder).map(Some),
            None => Ok(None),
        });
        match taken {
            Ok(Some((Some(flush), arrival))) => {
                self.pending = Some(arrival);
                Ok(Some(flush))
            }
            Ok(Some((None, arrival))) => Ok(Some(arrival)),
            Ok(None) => {
                self.intake.count_passed();
                Ok(None)
            }
            Err(reason) => {
                // cold: the text is copied only to be quoted
                let text = self.input.bytes(range).iter().take(256).copied().collect::<Vec<u8>>();
                self.bad(reason, &text).map(|()| None)
            }
        }
    }
}

impl Iterator for TraceReader {
    type Item = Result<Arrival, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(arrival) = self.pending.take() {
            return Some(Ok(arrival));
        }
        while !self.is_over {
            match self.step() {
                Ok(Some(arrival)) => return Some(Ok(arrival)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
