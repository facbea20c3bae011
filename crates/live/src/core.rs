//! What does the event loop own beside the engine and the front ends? Ring, payloads, devices, timers.

use crate::clock::Clock;
use crate::device::{Device, DeviceContext, IoDone};
use crate::drives::Drives;
use crate::engine::LiveEngine;
use crate::front::{Counter, DEVICE_OWNERS, FrontContext};
use crate::payload::Payloads;
use crate::uring::{Finished, Ring};
use std::collections::VecDeque;
use tandem_block::Instant;
use tandem_engine::Io;

pub(crate) struct Core {
    pub clock: Clock,
    pub ring: Ring,
    pub payloads: Payloads,
    pub devices: Drives,
    pub counter: Counter,
    /// Device commands that are done and that the engine does not know of yet.
    pub done: VecDeque<IoDone>,
    pub wake_at: Instant,
    /// For completions; kept to keep its memory.
    pub sums: Vec<u32>,
}

impl Core {
    /// What front end `front` works with.
    pub fn context<'a>(
        &'a mut self,
        front: usize,
        now: Instant,
        engine: &'a mut dyn LiveEngine,
    ) -> FrontContext<'a> {
        FrontContext {
            now,
            ring: &mut self.ring,
            payloads: &mut self.payloads,
            counter: &mut self.counter,
            devices: &mut self.devices,
            engine,
            front,
        }
    }

    fn with_device(
        &mut self,
        index: usize,
        now: Instant,
        act: impl FnOnce(&mut dyn Device, &mut DeviceContext<'_>),
    ) {
        let Core { ring, payloads, devices, done, .. } = self;
        let (tag, device) = devices.at(index);
        let owner = DEVICE_OWNERS + tag;
        act(device, &mut DeviceContext { now, ring, payloads, done, owner });
    }

    /// Sends a command to its device.
    pub fn submit(&mut self, io: Io) {
        // a fresh reading: an emulated drive counts its latency from here
        let now = self.clock.now();
        let index = usize::from(io.device.0);
        self.with_device(index, now, |device, context| device.submit(io, context));
    }

    /// A ring operation of a device is done.
    pub fn device_finished(&mut self, finished: &Finished) {
        let now = self.clock.now();
        let place = self.devices.place_of(finished.tag.owner - DEVICE_OWNERS);
        let Some(index) = place else { return }; // of a drive that was let go
        let (value, result) = (finished.tag.value, finished.result);
        self.with_device(index, now, |device, context| device.finished(value, result, context));
    }

    /// Lets the drive whose answer has been due for longest give it: one answer, so that what several
    /// drives say is heard in the order of the instants at which they said it. False if none is due.
    pub fn tick(&mut self) -> bool {
        let dues = self.devices.iter().map(|device| device.due()).enumerate();
        let Some((index, due)) = dues.min_by_key(|(_, due)| *due) else { return false };
        if due == Instant::NEVER {
            return false;
        }
        let now = self.clock.now();
        if due > now {
            return false;
        }
        self.with_device(index, now, |device, context| device.tick(context));
        true
    }

    /// When something is due without anybody asking.
    pub fn next_due(&self) -> Instant {
        self.devices.iter().map(|device| device.due()).fold(self.wake_at, Instant::min)
    }
}
