//! What can be wrong with a trace, and where?

use std::fmt;

/// Where in a trace something is, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text format.
    Line(u64),
    /// A record of a binary format.
    Record {
        /// Counted from 1.
        number: u64,
        /// Where it begins in the (decompressed) file.
        offset_bytes: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Record { number, offset_bytes } => {
                write!(f, "record {number} at byte {offset_bytes}")
            }
        }
    }
}

/// Why one line or record cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Too few or too many columns.
    #[error("expected {want} columns, found {found}")]
    Columns {
        /// How many the format has.
        want: usize,
        /// How many this line has (counted up to one more than the format has).
        found: usize,
    },
    /// A column that must hold a number holds something else.
    #[error("the {0} is not a number")]
    Number(&'static str),
    /// A number does not fit, or lies beyond what a device can have.
    #[error("the {0} is too large")]
    TooLarge(&'static str),
    /// The operation is neither a read nor a write nor another that the format knows.
    #[error("the operation is not one of {0}")]
    Operation(&'static str),
    /// A read or write of nothing.
    #[error("the length is zero")]
    ZeroLength,
    /// Nothing that has a meaning in this format.
    #[error("{0}")]
    Shape(&'static str),
    /// A line without end; it is skipped, never held in memory.
    #[error("the line is longer than 64 KiB")]
    LongLine,
    /// More devices than a trace may name.
    #[error("more than 65,536 devices, or a device name longer than 256 bytes")]
    Devices,
    /// The file ends inside a record.
    #[error("the trace is cut: its last record has {found} of {want} bytes")]
    Cut {
        /// Bytes of a whole record.
        want: usize,
        /// Bytes that are there.
        found: usize,
    },
}

/// Trouble with a trace as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system could not open or read the file.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// One line or record is malformed, and bad ones were not to be skipped.
    #[error("{file}, {place}: {reason}{} (--skip-bad counts such lines instead)",
        quoted(.text, *.format))]
    Bad {
        /// The file.
        file: String,
        /// Which line or record.
        place: Place,
        /// What is wrong with it.
        reason: Reason,
        /// The format that it was read as.
        format: Option<&'static str>,
        /// Its beginning, at most 60 characters.
        text: String,
    },
    /// The compressed data is cut off or damaged.
    #[error(
        "{file}: the compressed trace is cut or damaged after {place}: {error} \
         (--skip-bad replays what comes before)"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The last line or record that could be read.
        place: Place,
        /// What the decompressor says.
        error: std::io::Error,
    },
    /// No format of this name.
    #[error("no trace format is called {name:?}; did you mean {nearest:?}?")]
    UnknownFormat {
        /// What was asked for.
        name: String,
        /// The known name nearest to it.
        nearest: &'static str,
    },
    /// The first lines fit no format.
    #[error(
        "{file}: {what}; if you know its format, name it with --format (`tandem formats` lists them)"
    )]
    NotRecognised {
        /// The file.
        file: String,
        /// What was seen.
        what: &'static str,
    },
    /// The first lines fit several formats equally well.
    #[error(
        "{file} could be {}: name one with --format (same columns, other units)",
        .candidates.join(" or ")
    )]
    Ambiguous {
        /// The file.
        file: String,
        /// The names of the formats that fit.
        candidates: Vec<&'static str>,
    },
    /// The file is not of the format that was asked for.
    #[error("{file} is not {format}: {reason}")]
    WrongFormat {
        /// The file.
        file: String,
        /// The format asked for.
        format: &'static str,
        /// What does not fit.
        reason: Reason,
    },
}

/// What the line says and what it was taken for, where there is something to quote.
fn quoted(text: &str, format: Option<&str>) -> String {
    let format = format.map(|name| format!(" (read as {name})")).unwrap_or_default();
    if text.is_empty() { format } else { format!("{format}: {text:?}") }
}
