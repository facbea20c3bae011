//! Which drive model stands between the engine and a device that must not be written?
//!
//! One that answers at once and keeps everything in its volatile buffer for ever, so that an
//! emulated drive over it never has anything to write to the backing.

use tandem_block::{Drive, DriveOp, Instant, Outcome, Ticket};

/// Keeps everything, settles nothing.
#[derive(Clone, Debug)]
pub(super) struct KeepsAll {
    pub capacity_bytes: u64,
    pub tickets: u64,
}

impl Drive for KeepsAll {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn submit(&mut self, now: Instant, _op: DriveOp) -> Outcome {
        self.tickets += 1;
        Outcome { ack_at: now, durable_at: None, status: Ok(()), ticket: Ticket(self.tickets) }
    }

    fn volatile_bytes(&mut self, _now: Instant) -> u64 {
        u64::MAX
    }

    fn power_cycle(&mut self, _now: Instant) {}

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
