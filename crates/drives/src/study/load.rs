//! How is a drive kept busy? A closed loop of fixed depth, and percentiles of what it saw.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tandem_block::{Drive, DriveOp, DriveOpKind, Instant};

/// One second in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// 256 KiB, the "large" request of [IANUS §2.1] as models §6.3 reads it.
pub(super) const LARGE: u64 = 256 << 10;

/// A drive under a closed loop: a command is submitted as soon as one of `depth` has ended.
pub(super) struct ClosedLoop<D: Drive + ?Sized> {
    pub(super) drive: Box<D>,
    pub(super) now_ns: u64,
    /// What passes between an answer and the command that it lets through.
    think_ns: u64,
    depth: usize,
    in_flight: BinaryHeap<Reverse<u64>>,
}

impl<D: Drive + ?Sized> ClosedLoop<D> {
    pub(super) fn new(drive: Box<D>, depth: usize) -> Self {
        ClosedLoop { drive, now_ns: 0, think_ns: 0, depth, in_flight: BinaryHeap::new() }
    }

    /// The same, where so long passes between an answer and the command that it lets through.
    pub(super) fn thinking(self, think_ns: u64) -> Self {
        ClosedLoop { think_ns, ..self }
    }

    /// Waits for a free place, submits, and returns when it will be acknowledged.
    pub(super) fn submit(
        &mut self,
        kind: DriveOpKind,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> u64 {
        if self.in_flight.len() == self.depth
            && let Some(Reverse(end)) = self.in_flight.pop()
        {
            self.now_ns = self.now_ns.max(end);
        }
        let op = DriveOp { kind, offset_bytes, length_bytes };
        let ack = self.drive.submit(Instant::from_ns(self.now_ns), op).ack_at.ns;
        self.in_flight.push(Reverse(ack + self.think_ns));
        ack
    }

    /// A write.
    pub(super) fn write(&mut self, offset_bytes: u64, length_bytes: u64) -> u64 {
        self.submit(DriveOpKind::Write { fua: false }, offset_bytes, length_bytes)
    }

    /// A read.
    pub(super) fn read(&mut self, offset_bytes: u64, length_bytes: u64) -> u64 {
        self.submit(DriveOpKind::Read, offset_bytes, length_bytes)
    }

    /// Writes the whole drive once in sequence, as large requests.
    pub(super) fn fill(&mut self) {
        self.fill_to(self.drive.capacity_bytes());
    }

    /// Writes so many bytes in sequence from the beginning, in large requests.
    pub(super) fn fill_to(&mut self, bytes: u64) {
        for index in 0..bytes / LARGE {
            self.write(index * LARGE, LARGE);
        }
    }

    /// Waits until all is done and `ns` more; forgets the events so far.
    pub(super) fn rest(&mut self, ns: u64) {
        while let Some(Reverse(end)) = self.in_flight.pop() {
            self.now_ns = self.now_ns.max(end);
        }
        self.now_ns += ns;
        self.drive.take_events();
    }
}

/// The value that `per_cent` of the values do not exceed; sorts them.
pub(super) fn percentile(values: &mut [u64], per_cent: usize) -> u64 {
    assert!(!values.is_empty(), "a percentile of nothing");
    values.sort_unstable();
    values[(values.len() - 1) * per_cent / 100]
}
