//! What does a FLUSH of the pair settle?
//!
//! Source: B9 "a FLUSH must make data durable on at least one device". The lead is flushed: what it
//! lacks was durable on the other leg before roles changed.

use super::{Flight, Mirror, Phase};
use crate::mutant::Mutant;
use crate::port::{Command, IoId, IoOp};
use std::collections::VecDeque;
use tandem_block::IoError;

/// Why the mirror itself flushes a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The writer is done for this period.
    Durable,
    /// The next writer has made durable its metadata.
    TurnReady,
    /// The writer has made up for what it was behind in.
    CaughtUp,
    /// The survivor has everything that the dead leg had.
    Covered,
    /// What the survivor lacked and was written since is durable there.
    Narrowed,
    /// Nothing is under way, and both legs are equal when this is done.
    Equal,
    /// The journal needs no longer what the leg has.
    Settle,
    /// What the journal had is on the leg.
    Replayed,
}

#[derive(Clone, Debug)]
struct Running {
    /// For FLUSHes of the pair.
    batch: bool,
    then: Option<Then>,
    /// What the journal knew of the leg when it began.
    ticks: u64,
}

/// FLUSHes of the pair that are answered together.
#[derive(Clone, Debug)]
struct Batch {
    ios: Vec<IoId>,
    /// Drives that are still to be flushed.
    left: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Flushes {
    /// Flushes of the pair, with the last write accepted before each.
    waiting: VecDeque<(IoId, u64)>,
    batch: Option<Batch>,
    running: [Option<Running>; 2],
    wanted: [Option<Then>; 2],
    /// A leg is to be flushed for the batch.
    batch_wanted: [bool; 2],
    /// Something that is not on the journal was written to a leg since its last flush.
    pub volatile: [bool; 2],
}

impl Flushes {
    /// Does somebody wait?
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn is_idle(&self) -> bool {
        let under_way = self.batch.is_some() || self.running.iter().any(Option::is_some);
        self.waiting.is_empty() && !under_way
    }

    /// Is a leg neither flushed nor about to be?
    pub fn is_unflushed(&self, leg: usize) -> bool {
        self.wanted[leg].is_none() && self.running[leg].is_none()
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

    /// Flushes a leg for the mirror's own sake.
    pub(super) fn flush_leg(&mut self, leg: usize, then: Then) {
        self.flushes.wanted[leg] = Some(then);
    }

    pub(super) fn wants_flush(&self, leg: usize, then: Then) -> bool {
        self.flushes.wanted[leg] == Some(then)
            || self.flushes.running[leg].as_ref().is_some_and(|r| r.then == Some(then))
    }

    pub(super) fn run_flushes(&mut self, out: &mut Vec<Command>) {
        if self.alive == [false; 2] {
            let leg = self.legs[self.lead];
            for (io, _) in std::mem::take(&mut self.flushes.waiting) {
                self.end(io, Err(IoError::Dead(leg)), Vec::new());
            }
            return;
        }
        self.gather_flushes();
        for leg in 0..2 {
            let waits = self.flushes.batch_wanted[leg] || self.flushes.wanted[leg].is_some();
            if !self.alive[leg] || self.flushes.running[leg].is_some() || !waits {
                continue;
            }
            let then = self.flushes.wanted[leg].take();
            let batch = std::mem::take(&mut self.flushes.batch_wanted[leg]);
            if self.breaks(Mutant::PairFlushIgnored) && then.is_none() {
                self.batch_part_done();
                continue;
            }
            self.flushes.volatile[leg] = false;
            self.survivor_flush_begins(leg);
            self.flushes.running[leg] = Some(Running { batch, then, ticks: self.journal.ticks() });
            self.send(leg, IoOp::Flush, Flight::Flush, out);
        }
        self.run_journal_flush(out);
    }

    /// FLUSHes that may be answered when the drives were flushed that hold the promise.
    fn gather_flushes(&mut self) {
        let lead = self.lead;
        let busy = self.flushes.batch.is_some() || self.flushes.running[lead].is_some();
        if busy || !self.may_flush() || !self.resync.wanted.is_empty() {
            return;
        }
        let early = self.breaks(Mutant::PairAckBeforeJournal);
        let mut ios = Vec::new();
        while let Some(&(io, upto)) = self.flushes.waiting.front()
            && self.lead_has(upto)
            && (early || self.journal_has(upto))
        {
            ios.push(io);
            self.flushes.waiting.pop_front();
        }
        if ios.is_empty() {
            return;
        }
        let other = 1 - lead;
        self.flushes.batch_wanted[lead] = true;
        // the journal has users' writes; what it has not must be durable on both legs
        self.flushes.batch_wanted[other] =
            self.journal.is_on() && self.alive[other] && self.flushes.volatile[other];
        self.journal.flush_wanted = self.journal_is_volatile() && !early;
        let drives = [true, self.flushes.batch_wanted[other], self.journal.flush_wanted];
        let left = drives.iter().map(|&wanted| u32::from(wanted)).sum();
        self.flushes.batch = Some(Batch { ios, left });
    }

    /// A drive was flushed for the batch, or has died and is not waited for.
    pub(super) fn batch_part_done(&mut self) {
        let Some(batch) = &mut self.flushes.batch else { return };
        batch.left -= 1;
        if batch.left == 0 {
            let Batch { ios, .. } = self.flushes.batch.take().expect("it is there");
            for io in ios {
                self.promise(io, None, Vec::new());
            }
        }
    }

    /// The lead died: what waited for it waits again. Flushes under way end by themselves.
    pub(super) fn flush_again(&mut self) {
        self.flushes.batch_wanted = [false; 2];
        for running in self.flushes.running.iter_mut().flatten() {
            running.batch = false;
        }
        self.journal.forget_batch();
        let accepted = self.cache.sequence();
        if let Some(Batch { ios, .. }) = self.flushes.batch.take() {
            for io in ios.into_iter().rev() {
                self.flushes.waiting.push_front((io, accepted));
            }
        }
    }

    /// Is the lead the leg whose flush holds the promise?
    fn may_flush(&self) -> bool {
        let started = !matches!(self.phase, Phase::Created | Phase::Opening | Phase::Restoring);
        // between the flush of the next writer and its record a flush of the old one would settle what
        // the new one may lose
        started && self.phase != Phase::Turning && !self.records.blocks_all()
    }

    /// Has the lead everything that was answered up to here and is not durable on the other leg? What
    /// waits for its answer is no part of a flush.
    pub(super) fn lead_has(&self, upto: u64) -> bool {
        let queue = &self.queues[self.lead];
        let waiting = queue
            .fresh
            .iter()
            .take_while(|&&(_, sequence)| sequence <= upto)
            .any(|&(id, sequence)| self.cache.find(id, sequence).is_some_and(|e| e.answered));
        let sent = self.sent.iter().any(|(_, sent)| match sent.flight {
            super::Flight::Entry(id, _) if sent.leg == self.lead => {
                let entry = self.cache.entry(id);
                entry.answered && entry.sequence <= upto
            }
            _ => false,
        });
        !waiting && !sent
    }

    pub(super) fn flushed(
        &mut self,
        leg: usize,
        status: Result<(), IoError>,
        out: &mut Vec<Command>,
    ) {
        let Running { batch, then, ticks } =
            self.flushes.running[leg].take().expect("a flush was under way");
        if status.is_err() || !self.alive[leg] {
            // FLUSHes wait again since the leg died
            self.fail_leg(leg, out);
            return;
        }
        self.journal.leg_flushed(leg, ticks);
        self.survivor_flushed(leg, then);
        if batch {
            self.batch_part_done();
        }
        match then {
            None | Some(Then::Settle | Then::Narrowed) => {}
            Some(Then::Replayed) => self.replay_durable(),
            Some(Then::Durable) => self.durable(),
            Some(Then::TurnReady) => self.turn_ready(out),
            Some(Then::CaughtUp) => self.caught_up(out),
            Some(Then::Covered) => self.exposed = None,
            Some(Then::Equal) => self.is_equal(leg, out),
        }
    }
}
