//! How are results told? As tables and pages for people, as JSON for programs.

pub mod html;
pub mod json;
pub mod names;
pub mod table;
pub mod unreliable;
pub mod workload;

use serde::Serialize;
use std::io::{self, Write as _};

/// Prints one JSON document and nothing else.
///
/// # Errors
/// What stdout answers.
pub fn print_json(document: &impl Serialize) -> Result<(), crate::failure::Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// Prints text.
///
/// # Errors
/// What stdout answers.
pub fn print_text(text: &str) -> Result<(), crate::failure::Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
