//! Notes to a person, on stderr. What if nobody can take them?
//!
//! A full disk, a closed pipe or a terminal that is gone must not end a server: `eprintln!` panics
//! there, so this crate does not use it (a lint of `lib.rs` sees to that).

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to stderr; where that is not possible, nothing happens.
pub fn note(line: impl Display) {
    ask(format_args!("{line}\n"));
}

/// The same without the end of a line.
pub fn ask(text: impl Display) {
    // in one write, so that lines of several programs do not mix
    let _ = io::stderr().lock().write_all(text.to_string().as_bytes());
}

/// Stderr as a log writes to it: what cannot be written is dropped, and never an error.
#[derive(Debug)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
