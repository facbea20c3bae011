//! What does a drive look like that costs nothing? The smallest model; copy it to begin another.
//!
//! Divergence from a real drive: everything is durable the moment it is written.

use crate::ledger::Ledger;
use tandem_block::{Drive, DriveOp, Instant, Outcome};

/// Answers every command at the moment it is submitted.
#[derive(Clone, Debug)]
pub struct NullDrive {
    capacity_bytes: u64,
    ledger: Ledger,
}

impl NullDrive {
    /// A null drive of this size.
    pub fn new(capacity_bytes: u64) -> Self {
        NullDrive { capacity_bytes, ledger: Ledger::new(false) }
    }
}

impl Drive for NullDrive {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        crate::check_range(&op, self.capacity_bytes);
        self.ledger.arrive(now);
        Outcome { ack_at: now, durable_at: Some(now), status: Ok(()), ticket: self.ledger.ticket() }
    }

    fn volatile_bytes(&mut self, now: Instant) -> u64 {
        self.ledger.arrive(now);
        0
    }

    fn power_cycle(&mut self, now: Instant) {
        self.ledger.cut(now);
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
