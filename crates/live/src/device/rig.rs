//! How is one device driven in a test, without an event loop?

use super::{Device, DeviceContext, IoDone};
use crate::clock::Clock;
use crate::payload::Payloads;
use crate::uring::{Ring, Submission};
use std::collections::VecDeque;
use tandem_block::{DeviceId, Instant, PayloadId};
use tandem_engine::{Io, IoId, IoOp};

pub(super) struct Rig {
    pub device: Box<dyn Device>,
    pub payloads: Payloads,
    ring: Ring,
    done: VecDeque<IoDone>,
    clock: Clock,
    next: u32,
    next_payload: u64,
}

impl Rig {
    pub fn new(device: Box<dyn Device>) -> Rig {
        Rig {
            device,
            payloads: Payloads::new(64 << 20),
            ring: Ring::new(Submission::Eager).unwrap(),
            done: VecDeque::new(),
            clock: Clock::start(),
            next: 0,
            next_payload: PayloadId::ENGINE_BIT,
        }
    }

    fn with(&mut self, act: impl FnOnce(&mut dyn Device, &mut DeviceContext<'_>)) {
        let Rig { device, payloads, ring, done, clock, .. } = self;
        let now = clock.now();
        act(&mut **device, &mut DeviceContext { now, ring, payloads, done, owner: 7 });
    }

    pub fn submit(&mut self, op: IoOp) -> IoId {
        self.next += 1;
        let io = Io { id: IoId(self.next), device: DeviceId(0), op };
        self.with(|device, context| device.submit(io, context));
        IoId(self.next)
    }

    /// One turn of a small event loop.
    pub fn turn(&mut self) {
        let mut finished = Vec::new();
        self.ring.poll(&mut finished);
        for one in finished {
            assert_eq!(one.tag.owner, 7);
            self.with(|device, context| device.finished(one.tag.value, one.result, context));
        }
        if self.device.due() <= self.clock.now() {
            self.with(|device, context| device.tick(context));
        }
    }

    /// Waits for this command and gives what it said.
    pub fn wait(&mut self, io: IoId) -> IoDone {
        let begin = self.clock.now();
        loop {
            if let Some(at) = self.done.iter().position(|done| done.io == io) {
                return self.done.remove(at).unwrap();
            }
            assert!(self.clock.now().since(begin).ns < 30_000_000_000, "{io:?} never ends");
            self.turn();
        }
    }

    pub fn run(&mut self, op: IoOp) -> IoDone {
        let io = self.submit(op);
        self.wait(io)
    }

    pub fn payload(&mut self, bytes: &[u8]) -> PayloadId {
        let id = self.payloads.begin(bytes.len(), 0).expect("memory for a test");
        self.payloads.fill(id, 0, bytes);
        self.payloads.seal(id);
        id
    }

    pub fn write_op(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) -> IoOp {
        let from = self.payload(bytes);
        let length_bytes = bytes.len() as u64;
        IoOp::Write { offset_bytes, length_bytes, from, from_offset_bytes: 0, fua }
    }

    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) -> IoDone {
        let op = self.write_op(offset_bytes, bytes, fua);
        self.run(op)
    }

    pub fn read(&mut self, offset_bytes: u64, length_bytes: u64) -> (Vec<u8>, IoDone) {
        self.next_payload += 1;
        let into = PayloadId(self.next_payload);
        self.payloads.reserve(into, length_bytes);
        let op = IoOp::Read { offset_bytes, length_bytes, into, into_offset_bytes: 0 };
        let done = self.run(op);
        let mut out = Vec::new();
        self.payloads.append_to(into, 0, length_bytes, &mut out);
        (out, done)
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}
