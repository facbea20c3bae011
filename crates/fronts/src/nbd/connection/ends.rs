//! How does a connection end? When its client is gone, says goodbye, or has been waited for long enough.

use super::super::hub::Hub;
use super::{Connection, Purpose};
use tandem_block::{Duration, Instant, IoError};
use tandem_live::front::FrontContext;

/// A request that needs its memory at once is refused after so many times as long as a client may stand
/// still: whoever held the memory has been sent away by then.
const ROOM_STALLS: u64 = 4;

impl Connection {
    /// Notes whether it is waited for; what we do not receive is not late.
    pub(super) fn watch(&mut self, now: Instant) {
        let is_mid_record = self.outbox.records.as_ref().is_some_and(|it| it.is_mid_record());
        let has_begun = self.body.is_some() || self.end > self.start || is_mid_record;
        let is_awaited = self.wants_receive || self.is_lent();
        let is_waited_for =
            (has_begun || self.session.is_skipping()) && is_awaited && !self.closing;
        self.receives.note(is_waited_for, self.received_bytes, now);
        self.outbox.watch(now);
    }

    /// Sends it away if it has stood still for too long.
    pub fn check(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        if self.outbox.is_broken() || self.closing && self.outbox.is_quiet() {
            return;
        }
        let (now, stall) = (context.now, hub.config.stall_timeout);
        let is_negotiating = !self.is_serving;
        let why = if self.outbox.stands_still(now, stall) {
            "it did not take its answers ('stall_timeout' in [serve])"
        } else if self.receives.is_over(now, stall) {
            "it stopped in the middle of a request ('stall_timeout' in [serve])"
        } else if is_negotiating && now.since(self.accepted) >= hub.config.negotiation_timeout {
            "it had chosen no export in time ('negotiation_timeout' in [serve])"
        } else {
            let tag = self.tag(context, Purpose::Other);
            if self.receives.asks(now, stall)
                && let Some(receiving) = &mut self.receiving_body
            {
                receiving.asks(tag, context);
            }
            self.outbox.asks(tag, stall, context);
            return;
        };
        self.cut();
        hub.notice(now, why);
    }

    /// Refuses a request for which there was no room for too long.
    pub fn give_up_waiting(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) {
        // who stands still meanwhile is sent away first, and others may have come in between
        let most = Duration::from_ns(hub.config.stall_timeout.ns.saturating_mul(ROOM_STALLS));
        if let Some(held) = self.held.take_if(|held| context.now.since(held.since) >= most) {
            self.fail(held.ask, IoError::NoMemory, hub);
            self.advance(hub, context);
        }
    }

    /// Takes no more requests; those under way are answered.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Ends it: what is under way is forgotten when it is done.
    pub fn cut(&mut self) {
        self.closing = true;
        self.outbox.break_off();
        // what the ring does with it ends by that
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Is every request answered, and every answer sent (or the client gone)?
    pub fn is_quiet(&self) -> bool {
        self.parts.is_empty() && self.outbox.is_quiet()
    }

    /// Can it be forgotten? Where only a receive is under way, that is ended first.
    pub fn is_over(&mut self, hub: &mut Hub, context: &mut FrontContext<'_>) -> bool {
        if !self.closing || !self.is_quiet() {
            return false;
        }
        if self.outbox.says_bye() {
            self.send(hub, context);
            return false; // over when that is sent
        }
        if self.is_lent() {
            // its result comes back as an end of the stream
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            return false;
        }
        if let Some(body) = self.body.take() {
            body.forget(&mut self.share, hub, context);
        }
        self.outbox.clear(&mut self.share, hub, context);
        assert_eq!(self.share.held_bytes(), 0, "all that a client held is given back");
        if let Some(buffer) = self.buffer.take() {
            hub.keep_buffer(buffer);
        }
        let way = &mut hub.ways[self.way];
        let count = if self.is_serving { &mut way.serving } else { &mut way.negotiating };
        *count -= 1;
        true
    }
}
