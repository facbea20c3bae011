//! What if a drive acknowledges flushes and does not do them? The worst of its kind, for tests that
//! must see the loss: it also keeps everything in its buffer for ever, and honours only FUA.

use tandem_block::{
    ContentFault, ContentFaultKind, Drive, DriveEvent, DriveOp, DriveOpKind, Instant, IoError,
    Outcome,
};

/// A model that lies about its flushes.
pub struct Lying {
    model: Box<dyn Drive>,
    ignored: Vec<ContentFault>,
}

impl Lying {
    /// This model, made to lie.
    pub fn new(model: Box<dyn Drive>) -> Lying {
        Lying { model, ignored: Vec::new() }
    }
}

impl Drive for Lying {
    fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        let outcome = self.model.submit(now, op);
        if op.kind == DriveOpKind::Flush {
            let kind = ContentFaultKind::FlushIgnored;
            self.ignored.push(ContentFault { ticket: outcome.ticket, kind });
        }
        outcome
    }

    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        self.model.ticket_ack(outcome)
    }

    fn volatile_bytes(&mut self, _now: Instant) -> u64 {
        u64::MAX
    }

    fn power_cycle(&mut self, now: Instant) {
        self.model.power_cycle(now);
    }

    fn take_events(&mut self) -> Vec<DriveEvent> {
        self.model.take_events()
    }

    fn take_content_faults(&mut self) -> Vec<ContentFault> {
        std::mem::take(&mut self.ignored)
    }

    fn flash_pages(&self) -> (u64, u64) {
        self.model.flash_pages()
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(Lying { model: self.model.fork(), ignored: self.ignored.clone() })
    }
}
