//! What does the least of all minds look like? Identity on device 0, no map and no promise: enough
//! to test the event loop and its fronts without the engine.

use std::collections::HashMap;
use tandem_block::{DeviceId, Instant, IoError, ObjectId, Op, PayloadId, Request, RequestId};
use tandem_live::status::Status;
use tandem_live::{Command, Done, Event, Io, IoId, IoOp, ServedFrom};
use tandem_live::{Extent, LiveEngine};

/// What its status says, to be known again.
pub const FRAGMENTS: u64 = 77;

/// Object n lies at n x `object_bytes`.
pub struct PassThrough {
    object_bytes: u64,
    next: u32,
    in_flight: HashMap<u32, Request>,
    stopping: bool,
    /// Checksums of the last write and read, in order of completion.
    pub sums: Vec<Vec<u32>>,
}

impl PassThrough {
    pub fn new(object_bytes: u64) -> PassThrough {
        PassThrough {
            object_bytes,
            next: 0,
            in_flight: HashMap::new(),
            stopping: false,
            sums: Vec::new(),
        }
    }

    fn request(&mut self, request: &Request, out: &mut Vec<Command>) {
        let offset_bytes = request.object.0 * self.object_bytes + request.offset_bytes;
        let length_bytes = request.length_bytes;
        self.next = self.next.wrapping_add(1);
        let mut request = *request;
        let op = match request.op {
            Op::Read => {
                let into = PayloadId(PayloadId::ENGINE_BIT | u64::from(self.next));
                request.payload = into;
                out.push(Command::Reserve { payload: into, length_bytes });
                IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes: 0 }
            }
            Op::Write => IoOp::Write {
                offset_bytes,
                length_bytes,
                from: request.payload,
                from_offset_bytes: 0,
                fua: request.fua,
            },
            Op::Flush => IoOp::Flush,
            // a trimmed place may hold anything, so zeroes are written
            Op::Discard | Op::WriteZeroes => {
                let from = PayloadId(PayloadId::ENGINE_BIT | u64::from(self.next));
                request.payload = from;
                out.push(Command::Reserve { payload: from, length_bytes });
                let (from_offset_bytes, fua) = (0, request.fua);
                IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes, fua }
            }
        };
        self.in_flight.insert(self.next, request);
        out.push(Command::Submit(Io { id: IoId(self.next), device: DeviceId(0), op }));
    }

    fn done(&mut self, io: IoId, status: Result<(), IoError>, out: &mut Vec<Command>) {
        let request = self.in_flight.remove(&io.0).expect("a command completes once");
        if request.op.is_write() {
            out.push(Command::Release(request.payload));
        }
        let payload = if request.op == Op::Read { request.payload } else { PayloadId::NONE };
        out.push(Command::Complete(reply(request.id, status, payload)));
        if self.stopping && self.in_flight.is_empty() {
            out.push(Command::Stopped);
        }
    }
}

fn reply(request: RequestId, status: Result<(), IoError>, payload: PayloadId) -> Done {
    Done {
        request,
        status,
        payload,
        skip_bytes: 0,
        wait_ns: 0,
        device_ns: 0,
        served_from: ServedFrom::Ram,
    }
}

impl LiveEngine for PassThrough {
    fn on(&mut self, _now: Instant, event: Event<'_>, out: &mut Vec<Command>) {
        match event {
            Event::Start => out.push(Command::Started(Ok(()))),
            Event::Request(request) => self.request(request, out),
            Event::Completion { io, status, checksums, .. } => {
                if self.sums.len() < 64 {
                    self.sums.push(checksums.to_vec());
                }
                self.done(io, status, out);
            }
            Event::Wake | Event::Batch(_) => {}
            Event::Shutdown => {
                self.stopping = true;
                if self.in_flight.is_empty() {
                    out.push(Command::Stopped);
                }
            }
        }
    }

    fn status(&self, _now: Instant) -> Status {
        Status { fragments: FRAGMENTS, ..Status::default() }
    }

    /// Every second MiB is a hole, so that a client's block status can be checked.
    fn extents(&self, _object: ObjectId, range: (u64, u64), out: &mut Vec<Extent>) {
        let (mut at, end) = (range.0, range.0 + range.1);
        while at < end {
            let next = ((at >> 20) + 1) << 20;
            let allocated = (at >> 20).is_multiple_of(2);
            out.push(Extent { length_bytes: next.min(end) - at, allocated });
            at = next;
        }
    }
}
