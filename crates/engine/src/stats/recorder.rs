//! How long did requests take?
//!
//! Histograms of at most 0.1 % error, kept by the event loop that sees the completions; per stage, per
//! size of write, per place that served a read.

use super::histogram::Histogram;
use crate::port::{Done, ServedFrom};
use tandem_block::{Instant, Op, Request};

/// Upper bounds of the write size groups in bytes; the last group has none. [BCW Fig. 9] plus the
/// halves that design.md names.
pub const SIZE_GROUPS: [Option<u64>; 6] =
    [Some(4 << 10), Some(16 << 10), Some(64 << 10), Some(256 << 10), Some(1 << 20), None];

/// One distribution with exact mean and extremes.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    histogram: Histogram,
    sum_ns: u128,
    max_ns: u64,
}

impl Latencies {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.record(ns);
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Exact mean, rounded down; 0 without any.
    pub fn mean_ns(&self) -> u64 {
        let count = u128::from(self.count().max(1));
        u64::try_from(self.sum_ns / count).unwrap_or(u64::MAX)
    }

    /// Exact maximum.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// (a value that is at most 0.1 % off, how many were about this large), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.buckets()
    }

    /// The value below which `ten_thousandths` of the values lie (5000: the median); at most 0.1 %
    /// off, never above the maximum.
    pub fn percentile_ns(&self, ten_thousandths: u64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        let rank = (u128::from(self.count()) * u128::from(ten_thousandths)).div_ceil(10_000).max(1);
        self.histogram.at_rank(rank).map_or(self.max_ns, |value| value.min(self.max_ns))
    }
}

/// A latency with its stages.
#[derive(Clone, Debug, Default)]
pub struct Staged {
    /// From arrival to acknowledgement.
    pub total: Latencies,
    /// From arrival to the first device command.
    pub wait: Latencies,
    /// From there to the last completion.
    pub device: Latencies,
}

/// All distributions of one run.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Reads.
    pub read: Staged,
    /// Writes, discards, write-zeroes.
    pub write: Staged,
    /// Flushes.
    pub flush: Staged,
    /// Writes by size group.
    pub write_by_size: [Latencies; 6],
    /// Reads by place.
    pub read_from: [Latencies; 5],
    /// Writes by the side that they were steered to: SSDs, logs of hard drives.
    pub write_to: [Latencies; 2],
    /// Requests that ended with an error.
    pub errors: u64,
}

impl Recorder {
    /// Counts one completed request.
    #[inline]
    pub fn record(&mut self, request: &Request, done: &Done, now: Instant) {
        if done.status.is_err() {
            self.errors += 1;
            return;
        }
        let total_ns = request.age(now).ns;
        let staged = match request.op {
            Op::Read => &mut self.read,
            Op::Flush => &mut self.flush,
            Op::Write | Op::Discard | Op::WriteZeroes => &mut self.write,
        };
        staged.total.record(total_ns);
        staged.wait.record(done.wait_ns);
        staged.device.record(done.device_ns);
        match request.op {
            Op::Write => {
                let group = SIZE_GROUPS
                    .iter()
                    .position(|bound| bound.is_none_or(|b| request.length_bytes <= b))
                    .expect("the last group has no bound");
                self.write_by_size[group].record(total_ns);
                let to_log = done.served_from == ServedFrom::HddLog;
                self.write_to[usize::from(to_log)].record(total_ns);
            }
            Op::Read => self.read_from[served_index(done.served_from)].record(total_ns),
            _ => {}
        }
    }
}

/// Position of a place in `Recorder::read_from`.
pub const fn served_index(from: ServedFrom) -> usize {
    match from {
        ServedFrom::Ram => 0,
        ServedFrom::Ssd => 1,
        ServedFrom::SsdCopy => 2,
        ServedFrom::HddLog => 3,
        ServedFrom::HddHome => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{ObjectId, PayloadId, RequestId};

    /// Asked for at 0, answered behind what it waited and what the drive took.
    fn recorded(recorder: &mut Recorder, request: (Op, u64), wait_ns: u64, device_ns: u64) {
        let (op, bytes) = request;
        let request = Request::new(RequestId(1), ObjectId(0), op, (0, bytes), Instant::ZERO);
        let done = Done {
            request: request.id,
            status: Ok(()),
            payload: PayloadId::NONE,
            skip_bytes: 0,
            wait_ns,
            device_ns,
            served_from: ServedFrom::Ssd,
        };
        recorder.record(&request, &done, Instant::from_ns(wait_ns + device_ns));
    }

    /// S5: what a request waits for others and what its drive takes are told apart.
    #[test]
    fn s5_waiting_is_told_from_what_the_drive_takes() {
        let mut recorder = Recorder::default();
        for place in 0..10 {
            recorded(&mut recorder, (Op::Read, 4096), place * 1_000_000, 50_000);
        }
        let read = &recorder.read;
        assert_eq!((read.wait.max_ns(), read.device.max_ns()), (9_000_000, 50_000));
        assert_eq!((read.wait.mean_ns(), read.device.mean_ns()), (4_500_000, 50_000));
        assert_eq!(read.total.max_ns(), 9_050_000);
        assert_eq!(recorder.write.total.count(), 0);
    }

    /// M33: writes by the paper's groups of size, each with its upper bound.
    #[test]
    fn m33_writes_are_told_apart_by_size() {
        let mut recorder = Recorder::default();
        for (group, bytes) in
            [(0, 512), (0, 4 << 10), (1, 16 << 10), (2, 20 << 10), (3, 256 << 10), (4, 1 << 20)]
        {
            let before = recorder.write_by_size[group].count();
            recorded(&mut recorder, (Op::Write, bytes), 0, 1000);
            assert_eq!(recorder.write_by_size[group].count(), before + 1, "{bytes} bytes");
        }
        recorded(&mut recorder, (Op::Write, (1 << 20) + 512), 0, 1000);
        assert_eq!(recorder.write_by_size[5].count(), 1);
        assert_eq!((recorder.write.total.count(), recorder.write_to[0].count()), (7, 7));
    }
}
