//! How is a modelled drive asked? In virtual time: a command's end is known when it is submitted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tandem_block::{Drive, DriveEvent, DriveOp, Instant, IoError};
use tandem_engine::profile::Probe;

/// A modelled drive and its clock.
pub struct ModelProbe {
    drive: Box<dyn Drive>,
    now_ns: u64,
}

impl ModelProbe {
    /// The drive at the beginning of time.
    pub fn new(drive: Box<dyn Drive>) -> Self {
        ModelProbe { drive, now_ns: 0 }
    }

    /// A drive that has been used until then.
    pub fn at(drive: Box<dyn Drive>, now_ns: u64) -> Self {
        ModelProbe { drive, now_ns }
    }

    /// The drive as it is now.
    pub fn into_drive(self) -> Box<dyn Drive> {
        self.drive
    }

    /// What the drive did inside, if it was built to keep that.
    pub fn take_events(&mut self) -> Vec<DriveEvent> {
        self.drive.take_events()
    }
}

impl Probe for ModelProbe {
    fn capacity_bytes(&self) -> u64 {
        self.drive.capacity_bytes()
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn rest(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn keep(&mut self, depth: usize, ops: &[DriveOp]) -> Result<Vec<u64>, IoError> {
        let mut under_way: BinaryHeap<Reverse<u64>> = BinaryHeap::with_capacity(depth);
        let mut latencies = Vec::with_capacity(ops.len());
        for op in ops {
            if under_way.len() >= depth.max(1)
                && let Some(Reverse(end)) = under_way.pop()
            {
                self.now_ns = self.now_ns.max(end);
            }
            let outcome = self.drive.submit(Instant::from_ns(self.now_ns), *op);
            outcome.status?;
            latencies.push(outcome.ack_at.ns - self.now_ns);
            under_way.push(Reverse(outcome.ack_at.ns));
        }
        let last = under_way.into_iter().map(|Reverse(end)| end).max();
        self.now_ns = self.now_ns.max(last.unwrap_or(0));
        Ok(latencies)
    }
}
