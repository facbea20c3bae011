//! How much has left the buffer by now? The three drain laws, evaluated when somebody looks.
//!
//! Source: models §5.2. Nothing runs in the background: what has drained follows from the last
//! command and the time now, so looking ([`crate::hdd::HddModel::dirty_bytes`]) changes nothing.

use crate::spec::DrainLaw;
use std::collections::VecDeque;

/// Dirty bytes and the law by which they leave.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    law: DrainLaw,
    idle_ns: u64,
    /// Dirty bytes when the drain was last brought up to date.
    dirty_bytes: u64,
    /// Until when bytes have left (continuous), or when the last command ended (the others).
    since_ns: u64,
    /// Bytes that leave when a slow write or a flush under way ends: (when, how many).
    leaving: VecDeque<(u64, u64)>,
}

impl Drain {
    pub(super) fn new(law: DrainLaw, idle_ns: u64) -> Self {
        Drain { law, idle_ns, dirty_bytes: 0, since_ns: 0, leaving: VecDeque::new() }
    }

    /// Other laws from now on; what is dirty stays so.
    pub(super) fn adopt(&mut self, law: DrainLaw, idle_ns: u64) {
        (self.law, self.idle_ns) = (law, idle_ns);
    }

    /// Dirty bytes as of the last command, all of its effects included.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// When bytes begin to leave by themselves; `None` if they never do.
    pub(super) fn begins_ns(&self) -> Option<u64> {
        match self.law {
            DrainLaw::Continuous => Some(self.since_ns),
            DrainLaw::AfterIdle => Some(self.since_ns + self.idle_ns),
            DrainLaw::WhenFull => None,
        }
    }

    /// Bytes that have left by themselves until `now_ns`, at most all; `passed` says how many the
    /// platter takes in a time.
    pub(super) fn drained(&self, now_ns: u64, passed: impl Fn(u64) -> u64) -> u64 {
        match self.begins_ns() {
            Some(begins) if now_ns > begins => passed(now_ns - begins).min(self.dirty_bytes),
            _ => 0,
        }
    }

    /// Bytes that a power cut at `now_ns` may lose.
    pub(super) fn volatile_bytes(&self, now_ns: u64, passed: impl Fn(u64) -> u64) -> u64 {
        let leaving = self.leaving.iter().filter(|(at, _)| *at > now_ns).map(|(_, bytes)| bytes);
        self.dirty_bytes - self.drained(now_ns, passed) + leaving.sum::<u64>()
    }

    /// Makes what has drained until `now_ns` final.
    pub(super) fn settle(&mut self, now_ns: u64, drained: u64) {
        self.dirty_bytes -= drained;
        if self.law == DrainLaw::Continuous {
            self.since_ns = self.since_ns.max(now_ns);
        }
        while self.leaving.front().is_some_and(|(at, _)| *at <= now_ns) {
            self.leaving.pop_front();
        }
    }

    /// A command that ends at `end_ns` keeps the drive busy until then.
    pub(super) fn busy(&mut self, end_ns: u64) {
        // Under the continuous law bytes leave also while commands run.
        if self.law != DrainLaw::Continuous {
            self.since_ns = self.since_ns.max(end_ns);
        }
    }

    /// A write has put `bytes` into the buffer.
    pub(super) fn add(&mut self, bytes: u64) {
        self.dirty_bytes += bytes;
    }

    /// The command that ends at `end_ns` leaves `left` bytes dirty.
    pub(super) fn shrink_to(&mut self, left: u64, end_ns: u64) {
        let gone = self.dirty_bytes.saturating_sub(left);
        if gone > 0 {
            self.leaving.push_back((end_ns, gone));
        }
        self.dirty_bytes = left;
    }

    /// The power failed.
    pub(super) fn clear(&mut self, now_ns: u64) {
        self.leaving.clear();
        self.dirty_bytes = 0;
        self.since_ns = now_ns;
    }
}
