//! How many requests has a trace, and how far do they reach?
//!
//! Counted from the arrivals themselves, so that a limit or a merge counts what is replayed.

use std::collections::BTreeMap;
use tandem_block::{Arrival, MIB, ObjectId, Op};

/// Counts and footprint of a stream of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Reads, writes and discards; flushes are not requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Discards and write-zeroes.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// When the last one arrives, in ns.
    pub duration_ns: u64,
    /// So many of the first arrivals only prepare what the others are about: statistics begin behind
    /// them. Not counted but told, by a synthetic workload.
    pub warm_up_requests: u64,
    /// One past the last byte asked for, by object.
    ends: BTreeMap<ObjectId, u64>,
    /// The object counted last, and its end so far: most traces have runs of one.
    recent: Option<(ObjectId, u64)>,
}

impl Survey {
    /// Counts one.
    pub fn count(&mut self, arrival: &Arrival) {
        self.duration_ns = self.duration_ns.max(arrival.at.ns);
        match arrival.op {
            Op::Flush => self.flushes += 1,
            Op::Read => {
                self.reads += 1;
                self.read_bytes += arrival.length_bytes;
            }
            Op::Write => {
                self.writes += 1;
                self.write_bytes += arrival.length_bytes;
            }
            Op::Discard | Op::WriteZeroes => self.discards += 1,
        }
        self.requests += u64::from(arrival.op != Op::Flush);
        let end_bytes = arrival.offset_bytes + arrival.length_bytes;
        if self.recent.is_some_and(|(object, known)| object == arrival.object && end_bytes <= known)
        {
            return;
        }
        let end = self.ends.entry(arrival.object).or_default();
        *end = (*end).max(end_bytes);
        self.recent = Some((arrival.object, *end));
    }

    /// The volumes that the trace needs, by object: one past the last byte, in whole MiB.
    pub fn volumes(&self) -> impl Iterator<Item = (ObjectId, u64)> + '_ {
        self.ends.iter().map(|(object, end)| (*object, end.max(&1).next_multiple_of(MIB)))
    }

    /// Bytes of all volumes.
    pub fn footprint_bytes(&self) -> u64 {
        self.volumes().fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{Instant, RequestType, StreamId};

    #[test]
    fn counts_and_footprints() {
        let mut survey = Survey::default();
        for (at, object, op, offset_bytes, length_bytes) in [
            (0, 3, Op::Write, 4096, 512),
            (5, 3, Op::Read, 0, 1024),
            (9, 1, Op::Flush, 0, 0),
            (9, 3, Op::Discard, 3 << 20, 512),
            (12, 3, Op::Write, 0, 512),
        ] {
            let (at, object) = (Instant::from_ns(at), ObjectId(object));
            survey.count(&Arrival {
                at,
                object,
                op,
                offset_bytes,
                length_bytes,
                fua: false,
                stream: StreamId(0),
                data_type: RequestType::Data,
            });
        }
        assert_eq!((survey.requests, survey.reads, survey.writes), (4, 1, 2));
        assert_eq!((survey.discards, survey.flushes, survey.duration_ns), (1, 1, 12));
        assert_eq!((survey.read_bytes, survey.write_bytes), (1024, 1024));
        let volumes: Vec<_> = survey.volumes().collect();
        assert_eq!(volumes, [(ObjectId(1), MIB), (ObjectId(3), 4 * MIB)]);
        assert_eq!(survey.footprint_bytes(), 5 * MIB);
    }
}
