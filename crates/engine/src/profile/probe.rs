//! How is a drive asked while it is measured? One port for a model and for a real device.
//!
//! The measuring procedures of this room run over it, in virtual time or in real time.

use tandem_block::{DriveOp, DriveOpKind, IoError};

/// A drive under measurement. Nobody else uses it meanwhile.
pub trait Probe {
    /// Usable bytes.
    fn capacity_bytes(&self) -> u64;

    /// The time now, in ns from any beginning.
    fn now_ns(&self) -> u64;

    /// Lets the drive rest for `ns`.
    fn rest(&mut self, ns: u64);

    /// Submits the commands in order, at most `depth` of them under way, and waits for all.
    /// Returns the latency of each in ns, in the order of submission.
    ///
    /// # Errors
    /// What the drive says; the measurement ends there.
    fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, IoError>;
}

/// Why a measurement ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// The drive failed.
    #[error("the drive failed while it was measured: {0}")]
    Drive(#[from] IoError),
    /// More would be written than is allowed.
    #[error(
        "the budget of {budget_bytes} bytes is used up while measuring {what}; give more with \
         --budget"
    )]
    Budget {
        /// What was allowed.
        budget_bytes: u64,
        /// What was being measured.
        what: &'static str,
    },
}

/// A measurement: where it may write, how much, and how much it has.
pub struct Session<'a> {
    probe: &'a mut dyn Probe,
    budget_bytes: u64,
    written_bytes: u64,
    /// Where the stream of writes goes on.
    position: u64,
    /// What is being measured, for errors and progress.
    what: &'static str,
    /// What the budget was not enough for.
    missing: Vec<&'static str>,
    progress: &'a mut dyn FnMut(&'static str),
}

/// A flush.
const FLUSH: DriveOp = DriveOp { kind: DriveOpKind::Flush, offset_bytes: 0, length_bytes: 0 };

impl<'a> Session<'a> {
    /// A measurement that may write `budget_bytes` anywhere on the drive; `progress` is told what
    /// is being measured.
    pub fn new(
        probe: &'a mut dyn Probe,
        budget_bytes: u64,
        progress: &'a mut dyn FnMut(&'static str),
    ) -> Self {
        Session {
            probe,
            budget_bytes,
            written_bytes: 0,
            position: 0,
            what: "",
            missing: Vec::new(),
            progress,
        }
    }

    /// Usable bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.probe.capacity_bytes()
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes that may still be written.
    pub fn left_bytes(&self) -> u64 {
        assert!(self.written_bytes <= self.budget_bytes, "no more is written than is allowed");
        self.budget_bytes - self.written_bytes
    }

    /// The time now, in ns.
    pub(crate) fn now_ns(&self) -> u64 {
        self.probe.now_ns()
    }

    /// From now on `what` is measured.
    pub(crate) fn begin(&mut self, what: &'static str) {
        self.what = what;
        (self.progress)(what);
    }

    /// What a procedure found; `None`, and noted, if the budget ended in it: what was found before stands.
    ///
    /// # Errors
    /// The drive's.
    pub fn within_budget<T>(
        &mut self,
        found: Result<T, MeasureError>,
    ) -> Result<Option<T>, MeasureError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(MeasureError::Budget { what, .. }) => {
                self.miss(what);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// The budget is not enough for this.
    pub fn miss(&mut self, what: &'static str) {
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    /// What the budget was not enough for, so far.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Lets the drive rest.
    pub(crate) fn rest(&mut self, ns: u64) {
        self.probe.rest(ns);
    }

    /// Commands under way up to `depth`; their latencies in ns.
    ///
    /// # Errors
    /// The drive's, or the budget's before anything is submitted.
    pub(crate) fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, MeasureError> {
        let is_write = |op: &&DriveOp| matches!(op.kind, DriveOpKind::Write { .. });
        let writes: u64 = ops.iter().filter(is_write).map(|op| op.length_bytes).sum();
        if writes > self.left_bytes() {
            let budget_bytes = self.budget_bytes;
            return Err(MeasureError::Budget { budget_bytes, what: self.what });
        }
        self.written_bytes += writes;
        let latencies = self.probe.keep(depth, ops)?;
        assert!(latencies.len() == ops.len(), "each command has its latency");
        Ok(latencies)
    }

    /// One command alone; its latency in ns.
    fn one(&mut self, op: DriveOp) -> Result<u64, MeasureError> {
        Ok(self.keep(1, &[op])?[0])
    }

    /// Writes the next `bytes` of the stream; the latency in ns. At the end of the drive the stream
    /// goes back to the beginning.
    ///
    /// # Errors
    /// As [`Session::keep`].
    pub(crate) fn write_next(&mut self, bytes: u64) -> Result<u64, MeasureError> {
        if self.position + bytes > self.capacity_bytes() {
            self.position = 0;
        }
        let op = write_at(self.position, bytes);
        self.position += bytes;
        self.one(op)
    }

    /// The stream goes on at the beginning of the drive. What depends on the region is measured there.
    pub(crate) fn rewind(&mut self) {
        self.position = 0;
    }

    /// A flush; its latency in ns. If less than `room` bytes are left before the end of the drive
    /// the next stream begins at the start, so that it is not torn.
    ///
    /// # Errors
    /// As [`Session::keep`].
    pub(crate) fn flush(&mut self, room: u64) -> Result<u64, MeasureError> {
        let latency = self.one(FLUSH)?;
        if self.position + room > self.capacity_bytes() {
            self.position = 0;
        }
        Ok(latency)
    }

    /// A read alone; its latency in ns.
    ///
    /// # Errors
    /// As [`Session::keep`].
    pub(crate) fn read(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64, MeasureError> {
        self.one(DriveOp { kind: DriveOpKind::Read, offset_bytes, length_bytes })
    }
}

/// A write command.
pub(super) fn write_at(offset_bytes: u64, length_bytes: u64) -> DriveOp {
    DriveOp { kind: DriveOpKind::Write { fua: false }, offset_bytes, length_bytes }
}
