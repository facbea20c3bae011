//! What was asked of a server, as a trace that `tandem replay` reads?
//!
//! Requests are noted as they came in, not as a client meant to send them: what a server that shares
//! its processors with its clients is asked, and when, is known nowhere else.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tandem_block::{Arrival, Request};
use tandem_traces::write;

/// Requests that are noted at most: some 250 MB of RAM. Later ones are counted.
const NOTES_MAX: usize = 4 << 20;

/// The notes of one server.
#[derive(Debug)]
pub struct Notes {
    path: PathBuf,
    arrivals: Vec<Arrival>,
    forgone: u64,
}

impl Notes {
    /// For this file, which is made at once: a path that cannot be written to is told at the start.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(path: &Path) -> Result<Notes> {
        File::create(path).with_context(|| format!("--record {}", path.display()))?;
        Ok(Notes { path: path.to_owned(), arrivals: Vec::new(), forgone: 0 })
    }

    /// A request is done.
    pub fn note(&mut self, request: &Request) {
        if self.arrivals.len() == NOTES_MAX {
            self.forgone += 1;
            return;
        }
        self.arrivals.push(Arrival {
            at: request.arrived,
            object: request.object,
            op: request.op,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            fua: request.fua,
            stream: request.stream,
            data_type: request.data_type,
        });
    }

    /// Writes them in the order in which they came.
    ///
    /// # Errors
    /// What the file answers.
    pub fn write(&mut self) -> Result<()> {
        self.arrivals.sort_by_key(|arrival| arrival.at);
        let name = || self.path.display().to_string();
        let mut out = BufWriter::new(File::create(&self.path).with_context(name)?);
        let count = write::write_msr(self.arrivals.drain(..), &mut out)?;
        out.flush().with_context(|| self.path.display().to_string())?;
        let place = self.path.display();
        match self.forgone {
            0 => tracing::info!("{place}: {count} requests"),
            more => tracing::warn!("{place}: {count} requests; {more} later ones were too many"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{Instant, ObjectId, Op, RequestId};
    use tandem_traces::OpenOptions;

    /// Requests end in another order than they came.
    #[test]
    fn what_was_asked_is_read_as_a_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("asked.csv");
        let mut notes = Notes::new(&path).expect("a file");
        for (at_us, op, block) in [(900, Op::Write, 3), (500, Op::Read, 1), (700, Op::Write, 2)] {
            let at = Instant::from_ns(at_us * 1_000);
            let range = (block * 4096, 4096);
            notes.note(&Request::new(RequestId(block), ObjectId(9), op, range, at));
        }
        notes.write().expect("it is written");
        let trace = tandem_traces::open(&path, &OpenOptions::default()).expect("a trace");
        let arrivals: Vec<Arrival> = trace.map(|arrival| arrival.expect("sound")).collect();
        let told: Vec<_> = arrivals.iter().map(|a| (a.at.ns, a.op, a.offset_bytes)).collect();
        let want = [(0, Op::Read, 4096), (200_000, Op::Write, 8192), (400_000, Op::Write, 12_288)];
        assert_eq!(told, want);
    }
}
