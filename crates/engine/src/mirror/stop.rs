//! How does a pair end its life?
//!
//! Both legs get everything and are flushed, and their records say that they are equal.

use super::flush::Then;
use super::record::Why;
use super::{Mirror, Phase, Queue};
use crate::port::Command;

#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    wanted: bool,
    flushing: bool,
    flushed: [bool; 2],
}

impl Mirror {
    /// The engine has stopped and sends nothing more.
    pub fn stop(&mut self) {
        self.stop.wanted = true;
    }

    /// Is it over?
    pub fn has_stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    pub(super) fn run_stop(&mut self, out: &mut Vec<Command>) {
        if !self.stop.wanted || self.phase == Phase::Stopped {
            return;
        }
        if !self.durable || self.alive == [false; 2] {
            self.phase = Phase::Stopped;
            return;
        }
        // a change of roles that has begun ends first
        if matches!(self.phase, Phase::Serving | Phase::Draining) {
            self.phase = Phase::Stopping;
            self.send_writes(out);
        }
        let queues = self.queues.iter().all(Queue::is_empty) && self.held.is_empty();
        let idle = self.flushes.is_idle() && self.resync.is_idle() && !self.records.is_writing();
        let noted = self.journal.is_idle() && self.survivor.is_idle();
        if self.phase != Phase::Stopping || !queues || !idle || !noted || self.records.blocks_all()
        {
            return;
        }
        if !self.stop.flushing {
            self.stop.flushing = true;
            for leg in 0..2 {
                if self.alive[leg] {
                    self.flush_leg(leg, Then::Equal);
                }
            }
        } else if (0..2).all(|leg| !self.alive[leg] || self.stop.flushed[leg]) {
            self.write_record(Why::Stop, out);
        }
    }

    /// A leg died: what was flushed so far counts for nothing.
    pub(super) fn stop_again(&mut self) {
        (self.stop.flushing, self.stop.flushed) = (false, [false; 2]);
    }

    pub(super) fn stop_flushed(&mut self, leg: usize) {
        self.stop.flushed[leg] = true;
    }

    pub(super) fn stop_is_on_record(&mut self, _out: &mut Vec<Command>) {
        self.phase = Phase::Stopped;
    }
}
