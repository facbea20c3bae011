//! What does a FLUSH of the pair settle?
//!
//! Source: B9 "a FLUSH must make data durable on at least one device". The lead is flushed: what it
//! lacks was durable on the other leg before roles changed.

use super::commands::Commands;
use super::flight::Flight;
use super::roles::{Phase, Roles};
use super::survivor::Survivor;
use crate::mutant::Mutant;
use crate::port::{IoId, IoOp};
use std::collections::VecDeque;

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

/// A flush of a leg that is under way.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// For FLUSHes of the pair.
    pub(crate) batch: bool,
    pub(crate) then: Option<Then>,
    /// What the journal knew of the leg when it began.
    pub(crate) ticks: u64,
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
    volatile: [bool; 2],
}

impl Flushes {
    /// Does somebody wait?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        let under_way = self.batch.is_some() || self.running.iter().any(Option::is_some);
        self.waiting.is_empty() && !under_way
    }

    /// Is a leg neither flushed nor about to be?
    pub(crate) fn is_unflushed(&self, leg: usize) -> bool {
        self.wanted[leg].is_none() && self.running[leg].is_none()
    }

    /// A FLUSH of the pair, behind the last write accepted.
    pub(crate) fn begin(&mut self, io: IoId, accepted: u64) {
        let is_last = self.waiting.back().is_none_or(|&(_, upto)| upto <= accepted);
        assert!(is_last, "a FLUSH is behind all that was accepted before");
        self.waiting.push_back((io, accepted));
    }

    /// Flushes a leg for the mirror's own sake.
    pub(crate) fn flush_leg(&mut self, leg: usize, then: Then) {
        self.wanted[leg] = Some(then);
    }

    /// Is a leg flushed for that, or about to be?
    pub(crate) fn wants(&self, leg: usize, then: Then) -> bool {
        self.wanted[leg] == Some(then)
            || self.running[leg].as_ref().is_some_and(|r| r.then == Some(then))
    }

    /// Something that is not on the journal was written to a leg.
    pub(crate) fn is_volatile(&mut self, leg: usize) {
        self.volatile[leg] = true;
    }

    /// A leg died: what the mirror wanted of itself is void, since roles changed by force, and what waited
    /// for the lead waits again, behind all that was accepted. Flushes under way end by themselves.
    pub(crate) fn leg_died(&mut self, accepted: u64) {
        self.wanted = [None; 2];
        self.batch_wanted = [false; 2];
        for running in self.running.iter_mut().flatten() {
            (running.then, running.batch) = (None, false);
        }
        if let Some(Batch { ios, .. }) = self.batch.take() {
            for io in ios.into_iter().rev() {
                self.waiting.push_front((io, accepted));
            }
        }
    }

    /// Both legs are dead.
    pub(crate) fn end_all(&mut self, roles: &Roles, commands: &mut Commands) {
        for (io, _) in std::mem::take(&mut self.waiting) {
            commands.end(io, Err(commands.dead(roles.lead())), Vec::new());
        }
    }

    /// May FLUSHes begin? Only one after the other, and only while the lead is the leg whose flush holds
    /// the promise.
    pub(crate) fn may_gather(&self, roles: &Roles) -> bool {
        let busy = self.batch.is_some() || self.running[roles.lead()].is_some();
        // between the flush of the next writer and its record a flush of the old one would settle what
        // the new one may lose
        !busy && roles.is_started() && roles.phase() != Phase::Turning && !roles.blocks_all()
    }

    /// Takes FLUSHes in that may be answered when the drives were flushed that hold the promise.
    /// Returns whether there are any.
    pub(crate) fn gather(&mut self, has_all_upto: impl Fn(u64) -> bool) -> bool {
        assert!(self.batch.is_none(), "one batch of FLUSHes after the other");
        let mut ios = Vec::new();
        while let Some(&(io, upto)) = self.waiting.front()
            && has_all_upto(upto)
        {
            ios.push(io);
            self.waiting.pop_front();
        }
        let any = !ios.is_empty();
        self.batch = any.then_some(Batch { ios, left: 1 });
        any
    }

    /// The lead is flushed for the FLUSHes that were taken in. So is the other leg if a journal has
    /// users' writes, since what it has not must be durable on both legs, and so is the journal.
    pub(crate) fn begin_batch(&mut self, roles: &Roles, has_journal: bool, flushes_journal: bool) {
        let (lead, other) = (roles.lead(), roles.other());
        assert!(roles.is_alive(lead), "a leg that lives holds the promise");
        assert!(self.running[lead].is_none(), "a flush begins after what it covers");
        assert_eq!(self.batch_wanted, [false; 2], "the batch before has got its flushes");
        self.batch_wanted[lead] = true;
        self.batch_wanted[other] = has_journal && roles.is_alive(other) && self.volatile[other];
        let more = [self.batch_wanted[other], flushes_journal];
        let batch = self.batch.as_mut().expect("it was taken in");
        batch.left += more.iter().map(|&wanted| u32::from(wanted)).sum::<u32>();
    }

    /// Flushes the legs for which that is wanted.
    pub(crate) fn send(
        &mut self,
        ticks: u64,
        roles: &Roles,
        survivor: &mut Survivor,
        commands: &mut Commands,
    ) {
        for leg in 0..2 {
            let waits = self.batch_wanted[leg] || self.wanted[leg].is_some();
            if !roles.is_alive(leg) || self.running[leg].is_some() || !waits {
                continue;
            }
            let then = self.wanted[leg].take();
            let batch = std::mem::take(&mut self.batch_wanted[leg]);
            if commands.breaks(Mutant::PairFlushIgnored) && then.is_none() {
                self.part_done(roles, survivor, commands);
                continue;
            }
            self.volatile[leg] = false;
            if roles.is_alone() && leg == roles.lead() {
                survivor.flush_begins();
            }
            self.running[leg] = Some(Running { batch, then, ticks });
            commands.send(roles, leg, IoOp::Flush, Flight::Flush);
        }
    }

    /// A drive was flushed for the batch, or has died and is not waited for.
    pub(crate) fn part_done(
        &mut self,
        roles: &Roles,
        survivor: &mut Survivor,
        commands: &mut Commands,
    ) {
        let Some(batch) = &mut self.batch else { return };
        assert!(batch.left > 0, "a batch waits for each drive once");
        batch.left -= 1;
        if batch.left == 0 {
            let Batch { ios, .. } = self.batch.take().expect("it is there");
            for io in ios {
                survivor.promise((io, None), Vec::new(), roles, commands);
            }
        }
    }

    /// A flush of a leg has ended.
    pub(crate) fn take_running(&mut self, leg: usize) -> Running {
        self.running[leg].take().expect("a flush was under way")
    }
}
