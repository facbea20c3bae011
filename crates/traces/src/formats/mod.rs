//! Which trace formats are there, and what does each have to say of itself?
//!
//! A new format is its file, one line in `FORMATS`, and one fixture.

mod alibaba;
mod blkparse;
mod disksim;
mod fio_iolog;
mod fiu;
mod five_columns;
mod linnos;
mod mqsim;
mod msr;
mod oracle_general;
mod spc;
mod tencent;
mod vscsi;

use crate::error::Reason;
use crate::input::{Framing, Sample};
use crate::reader::OpenOptions;
use tandem_block::{Op, RequestType, StreamId};

/// Every format, in the order in which `tandem formats` lists them.
pub const FORMATS: &[Format] = &[
    msr::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    disksim::FORMAT,
    mqsim::FORMAT,
    linnos::FORMAT,
    fiu::FORMAT,
    spc::FORMAT,
    vscsi::FORMAT,
    blkparse::FORMAT,
    fio_iolog::FORMAT,
    oracle_general::FORMAT,
];

/// Makes a decoder, or says why the file is not of its format.
pub(crate) type Open = fn(&Sample, &OpenOptions) -> Result<Box<dyn Decoder>, Reason>;

/// One trace format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What `--format` calls it.
    pub name: &'static str,
    /// One line: whose format it is.
    pub summary: &'static str,
    /// Its columns with their units, what becomes of odd ones, and where the description is from.
    pub columns: &'static str,
    /// How well do these first lines fit?
    pub(crate) detect: fn(&Sample) -> Confidence,
    /// Makes the decoder; the sample tells versions of one format apart.
    pub(crate) open: Open,
}

/// The format of this name, if there is one.
pub fn format_named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name.eq_ignore_ascii_case(name))
}

/// How well the first lines of a file fit a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// They do not.
    No,
    /// They do, but so they may another format with the same columns.
    Possible,
    /// They do.
    Certain,
}

/// One request in a format's own words, before `reader` makes it an `Arrival`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Nanoseconds since whatever the format counts from.
    pub(crate) time_ns: u64,
    /// Any number that tells the trace's devices apart.
    pub(crate) device: u64,
    /// What is asked.
    pub(crate) op: Op,
    /// First byte; need not be a multiple of 512 yet.
    pub(crate) offset_bytes: u64,
    /// Bytes; need not be a multiple of 512 yet.
    pub(crate) length_bytes: u64,
    /// Forced unit access.
    pub(crate) fua: bool,
    /// A flush of the device comes before it.
    pub(crate) flush_before: bool,
    /// Who asks; 0 where the format does not say.
    pub(crate) stream: StreamId,
    /// Data or metadata.
    pub(crate) data_type: RequestType,
}

impl Asked {
    /// A plain request.
    pub(crate) const fn new(time_ns: u64, device: u64, op: Op, range: (u64, u64)) -> Asked {
        Asked {
            time_ns,
            device,
            op,
            offset_bytes: range.0,
            length_bytes: range.1,
            fua: false,
            flush_before: false,
            stream: StreamId(0),
            data_type: RequestType::Data,
        }
    }
}

/// Reads one line or record at a time.
pub(crate) trait Decoder: Send {
    /// How the file is divided.
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    /// What this line or record asks; `None` for headers, remarks and commands that move no data.
    /// Blank lines do not come here.
    fn decode(&mut self, record: &[u8]) -> Result<Option<Asked>, Reason>;

    /// What the trace calls a device.
    fn device_name(&self, device: u64) -> String {
        device.to_string()
    }
}

/// Certain if more than half of the first lines can be read as requests.
pub(crate) fn vote(sample: &Sample, decoder: &mut dyn Decoder) -> Confidence {
    let (mut good, mut bad) = (0, 0);
    for line in sample.lines() {
        match decoder.decode(line) {
            Ok(Some(_)) => good += 1,
            Ok(None) => {}
            Err(_) => bad += 1,
        }
    }
    if good > bad { Confidence::Certain } else { Confidence::No }
}
