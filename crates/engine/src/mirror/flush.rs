//! What does a FLUSH of the pair settle?
//!
//! Source: B9 "a FLUSH must make data durable on at least one device". The lead is flushed: what it
//! lacks was settled on the other twin before roles changed.

use super::{Flight, Mirror, Phase};
use crate::mutant::Mutant;
use crate::port::{Command, IoId, IoOp};
use std::collections::VecDeque;
use tandem_block::IoError;

/// Why the mirror itself flushes a twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The writer is done for this period.
    Settled,
    /// The next writer has settled its metadata.
    TurnReady,
    /// The writer has made up for what it was behind in.
    CaughtUp,
    /// The survivor has everything that the dead twin had.
    Covered,
    /// Nothing is under way, and both twins are equal when this is done.
    Equal,
}

#[derive(Clone, Debug)]
struct Running {
    ios: Vec<IoId>,
    then: Option<Then>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    /// Flushes of the pair, with the last write accepted before each.
    waiting: VecDeque<(IoId, u64)>,
    running: [Option<Running>; 2],
    wanted: [Option<Then>; 2],
}

impl Flushes {
    /// Does somebody wait?
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.iter().all(Option::is_none)
    }

    /// Forgets what the mirror wanted of itself: roles changed by force.
    pub fn forget_own(&mut self) {
        self.wanted = [None; 2];
        for running in self.running.iter_mut().flatten() {
            running.then = None;
        }
    }
}

impl Mirror {
    pub(super) fn begin_flush(&mut self, io: IoId) {
        let accepted = self.cache.sequence();
        self.flushes.waiting.push_back((io, accepted));
    }

    /// Flushes a twin for the mirror's own sake.
    pub(super) fn flush_twin(&mut self, twin: usize, then: Then) {
        self.flushes.wanted[twin] = Some(then);
    }

    pub(super) fn wants_flush(&self, twin: usize, then: Then) -> bool {
        self.flushes.wanted[twin] == Some(then)
            || self.flushes.running[twin].as_ref().is_some_and(|r| r.then == Some(then))
    }

    pub(super) fn run_flushes(&mut self, out: &mut Vec<Command>) {
        if self.alive == [false; 2] {
            let twin = self.twins[self.lead];
            for (io, _) in std::mem::take(&mut self.flushes.waiting) {
                self.end(io, Err(IoError::Dead(twin)), Vec::new());
            }
            return;
        }
        for twin in 0..2 {
            if !self.alive[twin] || self.flushes.running[twin].is_some() {
                continue;
            }
            let mut ios = Vec::new();
            if twin == self.lead && self.may_flush() {
                while let Some(&(io, upto)) = self.flushes.waiting.front()
                    && self.lead_has(upto)
                {
                    ios.push(io);
                    self.flushes.waiting.pop_front();
                }
            }
            let then = self.flushes.wanted[twin].take();
            if ios.is_empty() && then.is_none() {
                continue;
            }
            if self.breaks(Mutant::PairFlushIgnored) && then.is_none() {
                ios.into_iter().for_each(|io| self.answer(io, Ok(()), Vec::new()));
                continue;
            }
            self.flushes.running[twin] = Some(Running { ios, then });
            self.send(twin, IoOp::Flush, Flight::Flush, out);
        }
    }

    /// Is the lead the twin whose flush holds the promise?
    fn may_flush(&self) -> bool {
        let started = !matches!(self.phase, Phase::Created | Phase::Opening | Phase::Restoring);
        // between the flush of the next writer and its record a flush of the old one would settle what
        // the new one may lose
        started && self.phase != Phase::Turning && !self.records.blocks_all()
    }

    /// Has the lead everything that was answered up to here and is not settled on the other twin? What
    /// waits for its answer is no part of a flush.
    pub(super) fn lead_has(&self, upto: u64) -> bool {
        let queue = &self.queues[self.lead];
        let waiting = queue
            .fresh
            .iter()
            .take_while(|&&(_, sequence)| sequence <= upto)
            .any(|&(id, sequence)| self.cache.find(id, sequence).is_some_and(|e| e.answered));
        let sent = self.sent.iter().any(|(_, sent)| match sent.flight {
            super::Flight::Entry(id, _) if sent.twin == self.lead => {
                let entry = self.cache.entry(id);
                entry.answered && entry.sequence <= upto
            }
            _ => false,
        });
        !waiting && !sent
    }

    pub(super) fn flushed(
        &mut self,
        twin: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        let Running { ios, then } =
            self.flushes.running[twin].take().expect("a flush was under way");
        if status.is_err() || !self.alive[twin] {
            if self.alive[twin] {
                self.fail_twin(twin, out);
            }
            for io in ios.into_iter().rev() {
                self.flushes.waiting.push_front((io, self.cache.sequence()));
            }
            return;
        }
        for io in ios {
            self.answer(io, Ok(()), Vec::new());
        }
        match then {
            None => {}
            Some(Then::Settled) => self.settled(),
            Some(Then::TurnReady) => self.turn_ready(out),
            Some(Then::CaughtUp) => self.caught_up(out),
            Some(Then::Covered) => self.exposed = None,
            Some(Then::Equal) => self.is_equal(twin, out),
        }
    }
}
