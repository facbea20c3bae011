//! What does every model keep, whatever it models? The last `now`, tickets, and inner events.

use tandem_block::{DriveEvent, DriveEventKind, Instant, IoError, Outcome, Ticket};

/// Bookkeeping that all models share.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    last_now: Instant,
    next_ticket: u64,
    events: Option<Vec<DriveEvent>>,
    /// Power cuts: when, and the first ticket after it.
    cuts: Vec<(Instant, u64)>,
}

impl Ledger {
    pub(crate) fn new(keep_events: bool) -> Self {
        Ledger {
            last_now: Instant::ZERO,
            next_ticket: 0,
            events: keep_events.then(Vec::new),
            cuts: Vec::new(),
        }
    }

    /// Notes that it is `now`.
    ///
    /// # Panics
    /// If time went back.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Instant) {
        assert!(now >= self.last_now, "a drive's time went back");
        self.last_now = now;
    }

    /// The ticket of the next command.
    #[inline]
    pub(crate) fn ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    pub(crate) fn note(&mut self, start_ns: u64, end_ns: u64, kind: DriveEventKind) {
        if let Some(events) = &mut self.events {
            let (start, end) = (Instant::from_ns(start_ns), Instant::from_ns(end_ns));
            events.push(DriveEvent { start, end, kind });
        }
    }

    pub(crate) fn take_events(&mut self) -> Vec<DriveEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The power fails: whatever is in flight is never answered.
    pub(crate) fn cut(&mut self, now: Instant) {
        self.arrive(now);
        self.cuts.push((now, self.next_ticket));
    }

    /// The acknowledgement of `outcome` after all power cuts.
    pub(crate) fn ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        let lost = self
            .cuts
            .iter()
            .any(|(at, first_after)| outcome.ticket.0 < *first_after && outcome.ack_at > *at);
        if lost { (Instant::NEVER, outcome.status) } else { (outcome.ack_at, outcome.status) }
    }
}
