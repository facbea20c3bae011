//! When do the legs change places?
//!
//! Source: [IANUS §5.1, §5.3], requirements I13, I18. After `T_min`, when the writer has made up for what
//! the other one wrote before; a time without writes before it lets the writer finish its own
//! background work before it is read.

use super::flush::Then;
use super::record::Why;
use super::{Mirror, Phase};
use crate::port::Command;
use tandem_block::Instant;

impl Mirror {
    /// When the next change is due, or the rest before it over.
    pub(super) fn roles_due(&self) -> Instant {
        match self.phase {
            Phase::Serving if self.wants_turn() && self.now < self.turn_at() => self.turn_at(),
            Phase::Idling(until) => until,
            _ => Instant::NEVER,
        }
    }

    /// The period ends with the time without writes.
    fn turn_at(&self) -> Instant {
        self.since + self.config.period - self.idle
    }

    /// Is there anything that the reader lacks?
    fn wants_turn(&self) -> bool {
        self.takes_turns() && !self.queues[1 - self.lead].backlog.is_empty()
    }

    pub(super) fn run_roles(&mut self, out: &mut Vec<Command>) {
        let lead = self.lead;
        if self.phase == Phase::Serving {
            self.catch_up(out);
            if self.wants_turn() && self.is_caught_up() && self.turn_is_due() {
                self.phase = Phase::Draining;
                self.rests_until = self.now + self.idle;
            }
        }
        if self.phase == Phase::Draining && self.queues[lead].in_flight == 0 {
            self.phase = Phase::Settling;
            self.records.recent.clear();
            self.flush_leg(lead, Then::Durable);
        }
        if let Phase::Idling(until) = self.phase
            && self.now >= until
        {
            // the cache and the old writer are the latest data, so reads can move at once
            self.reader = lead;
            self.phase = Phase::Turning;
            if self.durable {
                self.flush_leg(1 - lead, Then::TurnReady);
            } else {
                self.turn();
            }
        }
        if self.phase == Phase::Turning && self.records.turn_wanted && !self.records.is_writing() {
            self.records.turn_wanted = false;
            self.write_record(Why::Turn, out);
        }
    }

    fn is_caught_up(&self) -> bool {
        let queue = &self.queues[self.lead];
        queue.backlog.is_empty() && queue.catching_up == 0 && self.records.behind.is_empty()
    }

    fn turn_is_due(&mut self) -> bool {
        if self.now >= self.turn_at() {
            return true;
        }
        let queue = &self.queues[self.lead];
        let early = self.is_stuck() && queue.fresh.is_empty() && queue.in_flight == 0;
        self.stats.early_turns += u64::from(early);
        early
    }

    /// When the writer has everything that the other one wrote, its record may say so.
    fn catch_up(&mut self, out: &mut Vec<Command>) {
        let queue = &self.queues[self.lead];
        let done = queue.backlog.is_empty() && queue.catching_up == 0;
        if !done || self.records.behind.is_empty() || !self.takes_turns() {
            return;
        }
        if self.records.caught_up {
            if !self.records.is_writing() {
                self.records.caught_up = false;
                self.write_record(Why::CaughtUp, out);
            }
        } else if !self.records.is_writing() && !self.wants_flush(self.lead, Then::CaughtUp) {
            self.flush_leg(self.lead, Then::CaughtUp);
        }
    }

    pub(super) fn caught_up(&mut self, _out: &mut Vec<Command>) {
        self.records.caught_up = true;
    }

    /// The writer has made durable everything. That was part of its time without writes; what took longer
    /// is what its writes cost.
    pub(super) fn durable(&mut self) {
        let rests_until = self.rests_until.max(self.now);
        let wrote_until = rests_until - self.idle;
        self.pace.turns(wrote_until, wrote_until.since(self.since));
        self.phase = Phase::Idling(rests_until);
    }

    /// The next writer has made durable the metadata that it was sent while it was read.
    pub(super) fn turn_ready(&mut self, _out: &mut Vec<Command>) {
        self.records.turn_wanted = true;
    }

    /// The other leg writes from now on.
    pub(super) fn turn(&mut self) {
        let (old, new) = (self.lead, 1 - self.lead);
        self.lead = new;
        self.reader = old;
        self.since = self.now;
        self.phase = Phase::Serving;
        self.stats.turns += 1;
        self.idle = self.residue.next_idle(self.idle, self.config.idle);
        self.pace.writes_for(super::pace::share_ppm(self.config.period, self.idle));
        // what the old writer did not get to is new to both
        let unwritten = std::mem::take(&mut self.queues[old].fresh);
        let first = unwritten.front().map(|&(_, sequence)| sequence);
        let queue = &mut self.queues[new];
        if let Some(first) = first {
            let at = queue.backlog.partition_point(|&(_, sequence)| sequence < first);
            queue.fresh = queue.backlog.split_off(at);
        }
        queue.balance = 0;
        self.queues[old].backlog = unwritten;
        self.records.lacking = super::stale::Stale::default();
        for &(id, sequence) in &self.queues[old].backlog {
            if let Some(entry) = self.cache.find(id, sequence)
                && !entry.is_trim
            {
                self.records.lacking.add(entry.offset, entry.end());
            }
        }
    }
}
