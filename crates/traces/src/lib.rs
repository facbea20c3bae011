//! What was asked? Traces of real systems and synthetic workloads, as one record type.
//!
//! ```text
//!  file, pipe ── input (gzip, zstd, lines, records) ── formats::* (one file each) ─┐
//!                                                                                  ├─ reader ── Arrival
//!  synth::* (one file each) ───────────────────────────────────────────────────────┘   │
//!                                               transform (speedup, limit, merge) ── write
//! ```
//! A format's file says what its columns mean; `reader` does what is alike for all: times from 0,
//! devices numbered in order of appearance, offsets and lengths in whole sectors, counts, errors
//! with file and line. Everything streams in bounded memory, and no floating point is used.

mod device;
mod error;
mod fields;
pub mod formats;
pub mod fuzz;
mod input;
mod reader;
pub mod spell;
pub mod synth;
pub mod transform;
pub mod write;

pub use error::{Place, Reason, TraceError};
pub use formats::{FORMATS, Format, format_named};
pub use reader::{DeviceSummary, OpenOptions, Summary, TraceReader, open, open_reader};
