//! What does a dead drive say? That it is dead, to whatever it is asked.

use tandem_block::{DeviceId, Drive, DriveOp, Duration, Instant, IoError, Outcome, Ticket};

/// How long a dead drive takes to be found dead.
const ANSWER: Duration = Duration::from_us(10);

/// A drive that has died, in the place of what it was.
#[derive(Clone, Debug)]
pub struct Gone {
    /// Its id, for the errors.
    pub device: DeviceId,
    /// Its size.
    pub capacity_bytes: u64,
    /// When it died.
    pub since: Instant,
}

impl Drive for Gone {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn submit(&mut self, now: Instant, _: DriveOp) -> Outcome {
        let status = Err(IoError::Dead(self.device));
        Outcome { ack_at: now + ANSWER, durable_at: None, status, ticket: Ticket(u64::MAX) }
    }

    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        // what was under way when it died is never answered well
        (outcome.ack_at.max(self.since), Err(IoError::Dead(self.device)))
    }

    fn volatile_bytes(&mut self, _: Instant) -> u64 {
        u64::MAX
    }

    fn power_cycle(&mut self, _: Instant) {}

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(self.clone())
    }
}
