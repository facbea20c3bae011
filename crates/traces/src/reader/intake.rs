//! What is done alike to the requests of every format?
//!
//! Times count from the first request; a time that goes back is clamped to the one before and
//! counted. Devices are objects 0, 1, ... in order of appearance. A range grows to whole sectors.
//! A flush flag on a write becomes a FLUSH before it, which is not a request in the counts.

use crate::device::Keys;
use crate::error::Reason;
use crate::formats::{Asked, Decoder};
use tandem_block::{Arrival, Duration, GIB, Instant, ObjectId, Op, SECTOR_BYTES};

/// A read or write may be at most this long. Guess: no device takes so much at once, and a larger
/// number means that the columns were misread.
const REQUEST_BYTES_MAX: u64 = GIB;
/// No address lies beyond 4 EiB, so that sums of addresses never overflow.
const ADDRESS_BYTES_MAX: u64 = 1 << 62;

/// What a trace, or what has been read of it, amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Reads, writes and discards; flushes are not requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Discards and write-zeroes: requests about a range that carry no data.
    pub discards: u64,
    /// Flushes, of their own or before a write.
    pub flushes: u64,
    /// Bytes read, in whole sectors.
    pub read_bytes: u64,
    /// Bytes written, in whole sectors.
    pub write_bytes: u64,
    /// From the first request to the last.
    pub duration: Duration,
    /// Malformed lines or records that were skipped.
    pub bad_lines: u64,
    /// Lines that are right but ask for nothing: headers, other actions, commands without data.
    pub passed_lines: u64,
    /// Requests whose time went back and was clamped to that of the request before.
    pub clamped: u64,
    /// Requests whose offset or length was no multiple of 512 and grew to whole sectors.
    pub rounded: u64,
    /// The devices in order of first appearance; each is the object of its index.
    pub devices: Vec<DeviceSummary>,
}

/// One device of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSummary {
    /// What the trace calls it.
    pub name: String,
    /// Requests to it.
    pub requests: u64,
    /// One past the last byte asked for: the least size it can have had.
    pub end_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Intake {
    base_ns: Option<u64>,
    last_ns: u64,
    keys: Keys,
    summary: Summary,
}

impl Intake {
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    pub(super) fn count_bad(&mut self) {
        self.summary.bad_lines += 1;
    }

    pub(super) fn count_passed(&mut self) {
        self.summary.passed_lines += 1;
    }

    /// The request, and the flush that comes before it, if one does. Nothing changes on an error.
    pub(super) fn take(
        &mut self,
        asked: Asked,
        decoder: &dyn Decoder,
    ) -> Result<(Option<Arrival>, Arrival), Reason> {
        let (offset_bytes, length_bytes) = sectors(&asked)?;
        let (index, is_first) = self.keys.number(asked.device)?;
        if is_first {
            let name = decoder.device_name(asked.device);
            self.summary.devices.push(DeviceSummary { name, requests: 0, end_bytes: 0 });
        }
        let arrival = Arrival {
            at: self.time(asked.time_ns),
            object: ObjectId(index as u64),
            op: asked.op,
            offset_bytes,
            length_bytes,
            fua: asked.fua,
            stream: asked.stream,
            data_type: asked.data_type,
        };
        self.count(&asked, &arrival, index);
        let flush = asked.flush_before.then_some(Arrival {
            op: Op::Flush,
            offset_bytes: 0,
            length_bytes: 0,
            fua: false,
            ..arrival
        });
        Ok((flush, arrival))
    }

    fn time(&mut self, time_ns: u64) -> Instant {
        let base_ns = *self.base_ns.get_or_insert(time_ns);
        let at_ns = time_ns.saturating_sub(base_ns);
        if time_ns < base_ns || at_ns < self.last_ns {
            self.summary.clamped += 1;
        } else {
            self.last_ns = at_ns;
        }
        Instant::from_ns(self.last_ns)
    }

    fn count(&mut self, asked: &Asked, arrival: &Arrival, index: usize) {
        let summary = &mut self.summary;
        summary.duration = Duration::from_ns(self.last_ns);
        summary.flushes += u64::from(asked.flush_before);
        if asked.op == Op::Flush {
            summary.flushes += 1;
            return;
        }
        summary.requests += 1;
        match asked.op {
            Op::Read => {
                summary.reads += 1;
                summary.read_bytes += arrival.length_bytes;
            }
            Op::Write => {
                summary.writes += 1;
                summary.write_bytes += arrival.length_bytes;
            }
            Op::Discard | Op::WriteZeroes | Op::Flush => summary.discards += 1,
        }
        summary.rounded += u64::from(arrival.length_bytes != asked.length_bytes);
        let device = &mut summary.devices[index];
        device.requests += 1;
        device.end_bytes = device.end_bytes.max(arrival.offset_bytes + arrival.length_bytes);
    }
}

/// The range in whole sectors: the smallest that covers what was asked.
fn sectors(asked: &Asked) -> Result<(u64, u64), Reason> {
    if asked.op == Op::Flush {
        return Ok((0, 0));
    }
    if asked.length_bytes == 0 {
        return Err(Reason::ZeroLength);
    }
    let moves_data = matches!(asked.op, Op::Read | Op::Write);
    if moves_data && asked.length_bytes > REQUEST_BYTES_MAX {
        return Err(Reason::TooLarge("length"));
    }
    let end_bytes = asked
        .offset_bytes
        .checked_add(asked.length_bytes)
        .filter(|&end_bytes| end_bytes <= ADDRESS_BYTES_MAX)
        .ok_or(Reason::TooLarge("offset"))?;
    let offset_bytes = asked.offset_bytes & !(SECTOR_BYTES - 1);
    Ok((offset_bytes, end_bytes.next_multiple_of(SECTOR_BYTES) - offset_bytes))
}
