//! What if a leg dies?
//!
//! Source: requirements I14. The cache and the other leg are the latest data, so service goes on. What
//! is answered from then on hangs on the survivor alone, so the survivor has to know it durably first.

use super::cache::{EntryId, Progress};
use super::error::PairError;
use super::flush::Then;
use super::stale::Stale;
use super::{Mirror, Phase};
use crate::port::Command;
use tandem_block::IoError;

impl Mirror {
    /// Writes a leg off.
    pub(super) fn fail_leg(&mut self, leg: usize, out: &mut Vec<Command>) {
        if !self.alive[leg] {
            return;
        }
        self.alive[leg] = false;
        self.stats.failures += 1;
        let survivor = 1 - leg;
        let led = self.lead == leg;
        self.lead = survivor;
        self.reader = survivor;
        if self.phase == Phase::Restoring {
            // a start does not change its mind: the next one does without
            self.fail_start(PairError::Device(IoError::Dead(self.legs[leg])));
            return;
        }
        let serves = !matches!(self.phase, Phase::Created | Phase::Opening | Phase::Restoring);
        if serves && self.phase != Phase::Stopping {
            self.phase = Phase::Serving;
        }
        let exposed = self.durable && self.alive[survivor];
        self.exposed = exposed.then(|| self.cache.sequence());
        self.flushes.forget_own();
        self.flush_again();
        self.stop_again();
        self.records.turn_wanted = false;
        self.records.caught_up = false;
        self.records.alone_wanted = self.durable && self.alive[survivor];
        self.queues[leg].backlog.clear();
        self.queues[leg].fresh.clear();
        let wanted = std::mem::take(&mut self.resync.wanted);
        if self.journal.is_on() && !self.resync.all && led && serves {
            // the journal has brought it all that was flushed before the start; what it lacks of the rest
            // nobody was told of, but for this
            self.stale[survivor] = wanted;
        }
        self.stop_resync(out);
        if self.alive[survivor] {
            self.begin_alone(survivor, led);
        } else {
            self.end_alone();
        }
        self.requeue(survivor);
        let all: Vec<EntryId> = self.cache.iter().map(|(id, _)| id).collect();
        for id in all {
            let entry = self.cache.entry_mut(id);
            // what is on its way to the dead leg ends by itself
            if entry.progress[leg] == Progress::Waiting {
                entry.progress[leg] = Progress::Done;
            }
            if self.cache.entry(id).progress[survivor] == Progress::Done || !self.alive[survivor] {
                self.answer_if_written(id);
            }
            self.forget_if_over(id, out);
        }
        self.stale[leg] = Stale::default();
    }

    /// What was durable on the dead leg alone is durable here, without waiting for a FLUSH: the engine
    /// believes that it is.
    pub(super) fn run_exposed(&mut self) {
        let survivor = self.lead;
        let Some(upto) = self.exposed else { return };
        let ready = !self.records.blocks_all() && self.lead_has(upto);
        if ready && !self.wants_flush(survivor, Then::Covered) {
            self.flush_leg(survivor, Then::Covered);
        }
    }

    /// All that a leg lacks is new to it, in the order of acceptance.
    pub(super) fn requeue(&mut self, leg: usize) {
        let queue = &mut self.queues[leg];
        let mut all: Vec<(EntryId, u64)> =
            queue.backlog.drain(..).chain(queue.fresh.drain(..)).collect();
        all.sort_unstable_by_key(|&(_, sequence)| sequence);
        queue.fresh = all.into();
        queue.balance = 0;
    }
}
