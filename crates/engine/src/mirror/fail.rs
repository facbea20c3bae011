//! What if a twin dies?
//!
//! Source: requirements I14. The cache and the other twin are the latest data, so service goes on. What
//! is answered from then on hangs on the survivor alone, so the survivor has to know it durably first.

use super::cache::{EntryId, Progress};
use super::error::PairError;
use super::flush::Then;
use super::stale::Stale;
use super::{Mirror, Phase};
use crate::port::Command;
use tandem_block::IoError;

impl Mirror {
    /// Writes a twin off.
    pub(super) fn fail_twin(&mut self, twin: usize, out: &mut Vec<Command>) {
        if !self.alive[twin] {
            return;
        }
        self.alive[twin] = false;
        self.stats.failures += 1;
        let survivor = 1 - twin;
        let led = self.lead == twin;
        self.lead = survivor;
        self.reader = survivor;
        if self.phase == Phase::Restoring {
            // a start does not change its mind: the next one does without
            self.fail_start(PairError::Device(IoError::Dead(self.twins[twin])));
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
        self.queues[twin].backlog.clear();
        self.queues[twin].fresh.clear();
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
            // what is on its way to the dead twin ends by itself
            if entry.progress[twin] == Progress::Waiting {
                entry.progress[twin] = Progress::Done;
            }
            if self.cache.entry(id).progress[survivor] == Progress::Done || !self.alive[survivor] {
                self.answer_if_written(id);
            }
            self.forget_if_over(id, out);
        }
        self.stale[twin] = Stale::default();
    }

    /// What was settled on the dead twin alone is settled here, without waiting for a FLUSH: the engine
    /// believes that it is.
    pub(super) fn run_exposed(&mut self) {
        let survivor = self.lead;
        let Some(upto) = self.exposed else { return };
        let ready = !self.records.blocks_all() && self.lead_has(upto);
        if ready && !self.wants_flush(survivor, Then::Covered) {
            self.flush_twin(survivor, Then::Covered);
        }
    }

    /// All that a twin lacks is new to it, in the order of acceptance.
    pub(super) fn requeue(&mut self, twin: usize) {
        let queue = &mut self.queues[twin];
        let mut all: Vec<(EntryId, u64)> =
            queue.backlog.drain(..).chain(queue.fresh.drain(..)).collect();
        all.sort_unstable_by_key(|&(_, sequence)| sequence);
        queue.fresh = all.into();
        queue.balance = 0;
    }
}
