//! How does a drive answer that has faults?
//!
//! Times first: a stall moves the acknowledgements of what is in flight, death ends them; an event loop
//! asks [`Drive::ticket_ack`] when an acknowledgement comes due. Contents are the event loop's: what
//! befalls them is queued for [`Drive::take_content_faults`].
//!
//! Divergence from a real drive: the wrapped model does not know of a stall; it is told the time
//! at which the stall ends, so [`Drive::volatile_bytes`] during a stall is that of its end.

use super::script::{Fault, FaultScript};
use crate::ledger::Ledger;
use std::collections::BTreeSet;
use tandem_block::{
    ContentFault, ContentFaultKind, DeviceId, Drive, DriveEvent, DriveEventKind, DriveOp,
    DriveOpKind, Duration, Instant, IoError, Outcome, Rng, SECTOR_BYTES, Ticket,
};

/// What a flush takes that fails or lies. Source: guess, one command.
const FALSE_FLUSH: Duration = Duration::from_us(100);
/// A file gets room in parts of so many bytes. Source: guess.
const EXTENT_BYTES: u64 = 65_536;

/// A drive with faults.
pub struct Faulty {
    inner: Box<dyn Drive>,
    device: DeviceId,
    script: FaultScript,
    /// Per rule: commands matched and faults done.
    tallies: Vec<(u64, u64)>,
    rng: Rng,
    ledger: Ledger,
    /// Latest time that the wrapped drive was told.
    inner_now: Instant,
    /// Stalls begun: when, how long, and the first ticket that is not late for it.
    stalls: Vec<(Instant, Duration, u64)>,
    /// Scheduled stalls begun so far.
    stalls_begun: usize,
    /// When it died, and the first ticket after that.
    died: Option<(Instant, u64)>,
    /// Tickets that the wrapped drive never saw, rising; none are added after death.
    swallowed: Vec<u64>,
    content_faults: Vec<ContentFault>,
    /// Extents that were written to, where the drive may become full.
    written: BTreeSet<u64>,
}

impl Faulty {
    /// Wraps a drive. `device` names it in errors; chance comes from `seed`.
    pub fn new(inner: Box<dyn Drive>, device: DeviceId, script: FaultScript, seed: u64) -> Self {
        assert!(script.stalls.is_sorted(), "stalls are scheduled in the order of time");
        Faulty {
            inner,
            device,
            tallies: vec![(0, 0); script.rules.len()],
            script,
            rng: Rng::new(seed),
            ledger: Ledger::new(true),
            inner_now: Instant::ZERO,
            stalls: Vec::new(),
            stalls_begun: 0,
            died: None,
            swallowed: Vec::new(),
            content_faults: Vec::new(),
            written: BTreeSet::new(),
        }
    }

    /// Has it died by `now`?
    pub fn is_dead(&self, now: Instant) -> bool {
        self.death().is_some_and(|(at, _)| at <= now)
    }

    /// When it died or will die, and the first ticket after that as far as it is known.
    fn death(&self) -> Option<(Instant, u64)> {
        self.died.or(self.script.dies_at.map(|at| (at, u64::MAX)))
    }

    fn die(&mut self, now: Instant, next_ticket: u64) {
        if self.died.is_none() {
            let at = self.script.dies_at.map_or(now, |at| at.min(now));
            self.died = Some((at, next_ticket));
            self.ledger.note(at.ns, at.ns, DriveEventKind::Death);
        }
    }

    fn begin_stall(&mut self, at: Instant, length: Duration, next_ticket: u64) {
        self.stalls.push((at, length, next_ticket));
        self.inner_now = self.inner_now.max(at + length);
        self.ledger.note(at.ns, (at + length).ns, DriveEventKind::Stall);
    }

    /// Does this write want room that a file behind the drive does not get any more?
    fn finds_no_room(&mut self, now: Instant, op: &DriveOp) -> bool {
        let Some((from, upto)) = self.script.full else { return false };
        if !matches!(op.kind, DriveOpKind::Write { .. }) {
            return false;
        }
        let end = (op.offset_bytes + op.length_bytes).div_ceil(EXTENT_BYTES);
        let mut extents = op.offset_bytes / EXTENT_BYTES..end;
        if now >= from && now < upto {
            return extents.any(|extent| !self.written.contains(&extent));
        }
        self.written.extend(extents);
        false
    }

    /// The fault that this command meets.
    fn meets(&mut self, now: Instant, op: &DriveOp) -> Option<Fault> {
        for (rule, (matched, done)) in self.script.rules.iter().zip(&mut self.tallies) {
            if !rule.matches(now, op) {
                continue;
            }
            *matched += 1;
            let due = *matched > rule.skip && *done < rule.count;
            if due && self.rng.chance_ppm(rule.chance_ppm) {
                *done += 1;
                return Some(rule.fault);
            }
        }
        None
    }

    /// The wrapped drive takes the command, as soon as no stall is in the way.
    fn pass_on(&mut self, now: Instant, op: DriveOp, ticket: Ticket) -> Outcome {
        self.inner_now = self.inner_now.max(now);
        Outcome { ticket, ..self.inner.submit(self.inner_now, op) }
    }

    /// The wrapped drive never sees the command.
    fn swallow(&mut self, ack_at: Instant, status: Result<(), IoError>, ticket: Ticket) -> Outcome {
        if self.died.is_none() {
            self.swallowed.push(ticket.0);
        }
        Outcome { ack_at, durable_at: None, status, ticket }
    }

    fn note(&mut self, ticket: Ticket, kind: ContentFaultKind) {
        self.content_faults.push(ContentFault { ticket, kind });
    }

    fn fail(&mut self, now: Instant, op: DriveOp, ticket: Ticket) -> Outcome {
        let status = Err(IoError::Device(self.device));
        if op.kind == DriveOpKind::Flush {
            return self.swallow(self.inner_now.max(now) + FALSE_FLUSH, status, ticket);
        }
        if matches!(op.kind, DriveOpKind::Write { .. }) {
            let seed = self.rng.bits();
            self.note(ticket, ContentFaultKind::Torn { seed });
        }
        Outcome { status, ..self.pass_on(now, op, ticket) }
    }

    fn answer(
        &mut self,
        now: Instant,
        op: DriveOp,
        fault: Option<Fault>,
        ticket: Ticket,
    ) -> Outcome {
        match fault {
            None => return self.pass_on(now, op, ticket),
            Some(Fault::Error) => return self.fail(now, op, ticket),
            Some(Fault::Stall(length)) => self.begin_stall(now, length, ticket.0),
            Some(Fault::Lost) => self.note(ticket, ContentFaultKind::Lost),
            Some(Fault::Torn) => {
                let seed = self.rng.bits();
                self.note(ticket, ContentFaultKind::Torn { seed });
            }
            Some(Fault::BitFlip) => {
                let sector = self.rng.below(op.length_bytes / SECTOR_BYTES);
                let offset_bytes = op.offset_bytes + sector * SECTOR_BYTES;
                let bit = self.rng.below(SECTOR_BYTES * 8) as u16;
                self.note(ticket, ContentFaultKind::BitFlip { offset_bytes, bit });
            }
            Some(Fault::IgnoreFlush) => {
                self.note(ticket, ContentFaultKind::FlushIgnored);
                return self.swallow(self.inner_now.max(now) + FALSE_FLUSH, Ok(()), ticket);
            }
            Some(Fault::Refused) => {
                let status = Err(IoError::Device(self.device));
                return self.swallow(self.inner_now.max(now) + FALSE_FLUSH, status, ticket);
            }
            Some(Fault::Misdirect(delta_bytes)) => {
                let room = self.inner.capacity_bytes() - op.length_bytes + SECTOR_BYTES;
                let at = (op.offset_bytes + delta_bytes) % room / SECTOR_BYTES * SECTOR_BYTES;
                self.note(ticket, ContentFaultKind::Misdirected { offset_bytes: at });
            }
            Some(Fault::Stale) => self.note(ticket, ContentFaultKind::Stale),
            Some(Fault::Late(by)) => {
                let outcome = self.pass_on(now, op, ticket);
                return Outcome { ack_at: outcome.ack_at + by, ..outcome };
            }
            Some(Fault::Never) => return self.swallow(Instant::NEVER, Ok(()), ticket),
            Some(Fault::Die) => {
                self.die(now, ticket.0);
                return self.swallow(now, Err(IoError::Dead(self.device)), ticket);
            }
        }
        self.pass_on(now, op, ticket)
    }

    /// The wrapped drive's number of one of our tickets; `None` if it never saw it.
    fn inner_ticket(&self, ticket: Ticket) -> Option<Ticket> {
        match self.swallowed.binary_search(&ticket.0) {
            Ok(_) => None,
            Err(before) => Some(Ticket(ticket.0 - before as u64)),
        }
    }

    /// Our number of one of the wrapped drive's tickets.
    fn outer_ticket(&self, ticket: Ticket) -> Ticket {
        let mut outer = ticket.0;
        for swallowed in &self.swallowed {
            if *swallowed > outer {
                break;
            }
            outer += 1;
        }
        Ticket(outer)
    }

    /// How late what was to be acknowledged at `ack` becomes through stalls.
    fn stalled(&self, ticket: Ticket, mut ack: Instant) -> Instant {
        let begun = self.stalls.iter().copied();
        let scheduled = self.script.stalls[self.stalls_begun..]
            .iter()
            .map(|(at, length)| (*at, *length, u64::MAX));
        for (at, length, first_unharmed) in begun.chain(scheduled) {
            if ticket.0 < first_unharmed && ack > at && ack != Instant::NEVER {
                ack += length;
            }
        }
        ack
    }
}

impl Drive for Faulty {
    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn submit(&mut self, now: Instant, op: DriveOp) -> Outcome {
        crate::check_range(&op, self.inner.capacity_bytes());
        self.ledger.arrive(now);
        let ticket = self.ledger.ticket();
        while let Some((at, length)) = self.script.stalls.get(self.stalls_begun).copied()
            && at <= now
        {
            self.stalls_begun += 1;
            self.begin_stall(at, length, ticket.0);
        }
        if self.is_dead(now) {
            self.die(now, ticket.0);
            return self.swallow(now, Err(IoError::Dead(self.device)), ticket);
        }
        let fault = match self.finds_no_room(now, &op) {
            true => Some(Fault::Refused),
            false => self.meets(now, &op),
        };
        self.answer(now, op, fault, ticket)
    }

    fn ticket_ack(&self, outcome: &Outcome) -> (Instant, Result<(), IoError>) {
        if self.died.is_some_and(|(_, first_after)| outcome.ticket.0 >= first_after) {
            return (outcome.ack_at, outcome.status);
        }
        let (ack, mut status) = match self.inner_ticket(outcome.ticket) {
            Some(ticket) => self.inner.ticket_ack(&Outcome { ticket, ..*outcome }),
            None => (outcome.ack_at, outcome.status),
        };
        let mut ack = self.stalled(outcome.ticket, ack);
        if let Some((at, _)) = self.death()
            && ack > at
        {
            (ack, status) = (at, Err(IoError::Dead(self.device)));
        }
        self.ledger.ack(&Outcome { ack_at: ack, status, ..*outcome })
    }

    fn volatile_bytes(&mut self, now: Instant) -> u64 {
        self.ledger.arrive(now);
        self.inner_now = self.inner_now.max(now);
        self.inner.volatile_bytes(self.inner_now)
    }

    fn power_cycle(&mut self, now: Instant) {
        self.ledger.cut(now);
        self.inner_now = self.inner_now.max(now);
        self.inner.power_cycle(self.inner_now);
    }

    fn take_events(&mut self) -> Vec<DriveEvent> {
        let mut events = self.inner.take_events();
        events.extend(self.ledger.take_events());
        events.sort_by_key(|event| event.start);
        events
    }

    fn take_content_faults(&mut self) -> Vec<ContentFault> {
        let mut faults: Vec<ContentFault> = self.inner.take_content_faults();
        for fault in &mut faults {
            fault.ticket = self.outer_ticket(fault.ticket);
        }
        faults.append(&mut self.content_faults);
        faults.sort_by_key(|fault| fault.ticket);
        faults
    }

    fn flash_pages(&self) -> (u64, u64) {
        self.inner.flash_pages()
    }

    fn fork(&self) -> Box<dyn Drive> {
        Box::new(Faulty {
            inner: self.inner.fork(),
            device: self.device,
            script: self.script.clone(),
            tallies: self.tallies.clone(),
            rng: self.rng.clone(),
            ledger: self.ledger.clone(),
            inner_now: self.inner_now,
            stalls: self.stalls.clone(),
            stalls_begun: self.stalls_begun,
            died: self.died,
            swallowed: self.swallowed.clone(),
            content_faults: self.content_faults.clone(),
            written: self.written.clone(),
        })
    }
}
