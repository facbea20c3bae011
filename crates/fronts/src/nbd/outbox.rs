//! What goes out on a connection, and who holds its memory until it has left?
//!
//! Replies gather in a batch while another is being sent; small reads are copied into it, large ones go by
//! reference. What they hold of the front end's memory is given back when their batch has left.

use super::body::CANCELED;
use super::hub::Hub;
use super::standstill::Standstill;
use super::tls::{RECORD_BYTES, Records};
use std::os::fd::BorrowedFd;
use tandem_block::{Duration, Instant, PayloadId};
use tandem_live::Done;
use tandem_live::budget::Share;
use tandem_live::front::FrontContext;
use tandem_live::outgoing::Outgoing;
use tandem_live::uring::{Tag, Under};

/// Reads of this size and more are sent by reference.
const SHARED_BYTES_MIN: u32 = 32 * 1024;
/// With this many bytes of replies gathered they are sent at once, while they are in the CPU's cache.
const SEND_AT_ONCE_BYTES: usize = 512 * 1024;
/// With this many bytes of small replies unsent, no more requests are taken.
const STAGED_BYTES_MAX: u64 = 1 << 20;

/// Replies on their way, and what they hold.
#[derive(Debug, Default)]
struct Replies {
    batch: Box<Outgoing>,
    payloads: Vec<PayloadId>,
    /// Bytes of the budget that they hold.
    held_bytes: u64,
}

impl Replies {
    fn clear(&mut self, share: &mut Share, hub: &mut Hub, context: &mut FrontContext<'_>) {
        self.batch.clear();
        for payload in self.payloads.drain(..) {
            context.release(payload);
        }
        hub.budget.give(share, std::mem::take(&mut self.held_bytes));
        hub.strip(&mut self.batch);
    }
}

/// The way out of one connection.
#[derive(Default)]
pub(super) struct Outbox {
    /// TLS of both directions, once it was begun: all that is said goes through it.
    pub records: Option<Box<Records>>,
    gathering: Replies,
    sending: Replies,
    is_sending: bool,
    /// What is being sent.
    under: Option<Under>,
    /// It was cut short, to learn how much of it has left.
    is_asked: bool,
    /// Nothing can be sent any more.
    is_broken: bool,
    sent_bytes: u64,
    /// What the client does with what is for it.
    takes: Standstill,
}

impl Outbox {
    /// Lets `write` append small replies.
    pub fn stage<R>(&mut self, hub: &mut Hub, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let batch = &mut self.gathering.batch;
        hub.equip(batch);
        match &mut self.records {
            None => batch.stage(write),
            Some(records) => records.stage(batch, write),
        }
    }

    /// Lets TLS say what it has to say itself.
    pub fn flush_records(&mut self) {
        if let Some(records) = &mut self.records {
            records.flush(&mut self.gathering.batch);
        }
    }

    /// Says that nothing more comes; false if there is no TLS, or that was said.
    pub fn says_bye(&mut self) -> bool {
        let records = self.records.as_mut().filter(|_| !self.is_broken);
        records.is_some_and(|records| records.say_bye(&mut self.gathering.batch))
    }

    /// Appends the bytes of a read, `length` of them, whose head was staged, with what they hold.
    pub fn push_read(
        &mut self,
        done: &Done,
        (length, held_bytes): (u32, u64),
        context: &mut FrontContext<'_>,
    ) {
        let batch = &mut self.gathering.batch;
        self.gathering.held_bytes += held_bytes;
        if let Some(records) = &mut self.records {
            let end = done.skip_bytes + u64::from(length);
            let payloads = &mut *context.payloads;
            for at in (done.skip_bytes..end).step_by(RECORD_BYTES) {
                let part = (end - at).min(RECORD_BYTES as u64);
                records.stage(batch, |out| payloads.append_to(done.payload, at, part, out));
            }
            context.release(done.payload);
        } else if length >= SHARED_BYTES_MIN && batch.takes_more() {
            let memory = context.payloads.source(done.payload, done.skip_bytes, u64::from(length));
            batch.push_shared(memory, done.skip_bytes as usize, length as usize);
            self.gathering.payloads.push(done.payload);
        } else {
            let payloads = &mut *context.payloads;
            batch.stage(|out| {
                payloads.append_to(done.payload, done.skip_bytes, u64::from(length), out);
            });
            context.release(done.payload);
        }
    }

    /// Appends what holds memory although it is small.
    pub fn hold(&mut self, held_bytes: u64) {
        self.gathering.held_bytes += held_bytes;
    }

    /// Is there so much to say that it should leave now?
    pub fn is_urgent(&self) -> bool {
        !self.is_sending && self.gathering.batch.remaining() >= SEND_AT_ONCE_BYTES
    }

    /// Is more unsent than a client should leave lying?
    pub fn is_full(&self) -> bool {
        // what reads hold is counted elsewhere
        let of = |it: &Replies| (it.batch.staged_bytes() as u64).saturating_sub(it.held_bytes);
        of(&self.gathering) + of(&self.sending) >= STAGED_BYTES_MAX
    }

    /// Can nothing be sent any more?
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Nothing more is sent.
    pub fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Has everything left that can leave?
    pub fn is_quiet(&self) -> bool {
        let sealed = self.records.as_ref().is_none_or(|records| records.is_sealed());
        let idle = sealed && self.gathering.batch.is_empty() && self.sending.batch.is_empty();
        !self.is_sending && (idle || self.is_broken)
    }

    /// Sends what was gathered, unless something is being sent.
    pub fn send(
        &mut self,
        (tag, socket): (Tag, BorrowedFd<'_>),
        share: &mut Share,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        if self.is_broken {
            self.gathering.clear(share, hub, context);
            return;
        }
        if self.is_sending {
            return;
        }
        if let Some(records) = &mut self.records {
            records.seal(&mut self.gathering.batch);
        }
        if self.sending.batch.is_empty() {
            std::mem::swap(&mut self.sending, &mut self.gathering);
        }
        if !self.sending.batch.is_empty() {
            self.is_sending = true;
            let batch = std::mem::take(&mut self.sending.batch);
            self.under = Some(context.ring.send(tag, socket, batch));
        }
    }

    /// Notes whether the client is waited for.
    pub fn watch(&mut self, now: Instant) {
        self.takes.note(self.is_sending && !self.is_broken, self.sent_bytes, now);
    }

    /// Has the client taken too little of what is for it, for so long?
    pub fn stands_still(&self, now: Instant, most: Duration) -> bool {
        self.takes.is_over(now, most)
    }

    /// Learns, when it is time for that, how much of what is being sent has left.
    pub fn asks(&mut self, tag: Tag, most: Duration, context: &mut FrontContext<'_>) {
        if self.takes.asks(context.now, most)
            && let Some(under) = self.under
        {
            self.is_asked = context.ring.cut_short(tag, under);
        }
    }

    /// A batch comes back of which so many bytes were sent; or nothing can be sent any more.
    pub fn sent(
        &mut self,
        batch: Box<Outgoing>,
        count: std::io::Result<usize>,
        share: &mut Share,
        hub: &mut Hub,
        context: &mut FrontContext<'_>,
    ) {
        (self.is_sending, self.under) = (false, None);
        self.sending.batch = batch;
        // one that was cut short may have sent nothing yet
        let is_asked = std::mem::take(&mut self.is_asked);
        match count {
            Ok(count) if count > 0 => self.sent_bytes += count as u64,
            Err(why) if is_asked && why.raw_os_error() == Some(CANCELED) => {}
            _ => self.is_broken = true,
        }
        if self.is_broken || self.sending.batch.is_empty() {
            self.sending.clear(share, hub, context);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self, share: &mut Share, hub: &mut Hub, context: &mut FrontContext<'_>) {
        self.sending.clear(share, hub, context);
        self.gathering.clear(share, hub, context);
    }
}
