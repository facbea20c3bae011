//! What has become possible?
//!
//! After each event every owner is asked, always in the same order (`advance`). What an owner is to know
//! of the others is gathered here, and what it leads to is handed on.

use super::Mirror;
use super::flight::{MetaRead, Read};
use super::flush::Then;
use super::journal::Demand;
use super::record::{Unequal, Why};
use super::replay;
use super::roles::{LeadState, Phase, Step};
use super::stale::Stale;
use super::start::{Begin, Holds, Resume};
use super::stop;
use super::survivor;
use crate::mutant::Mutant;

/// A journal on a hard drive does not wait for a window while so much of the cache is in use.
const CACHE_PART: u64 = 2;

/// Start.
impl Mirror {
    pub(super) fn run_start(&mut self) {
        match self.start.run() {
            None => {}
            Some(Err(error)) => self.roles.fail_start(error),
            Some(Ok(Begin::Formatted)) => {
                self.records.is_formatted(u32::from(self.journal.is_on()));
                self.journal.is_formatted();
                self.roles.serves(self.commands.now());
            }
            Some(Ok(Begin::Resume(resume))) => self.resume(resume),
        }
    }

    fn resume(&mut self, resume: Resume) {
        let Resume { lead, alive, sequence, marks, behind, all, holds } = resume;
        for found in self.start.records() {
            self.records.found(found.leg, found.slot, found.pair);
        }
        self.roles.resumes(lead, alive);
        self.resume_journal(&holds, sequence, all);
        if self.roles.is_alone() {
            self.finish_start();
            return;
        }
        let stale = self.records.resumes_unequal(&marks, &behind, all);
        let lead_lacks = !stale[0].is_empty();
        let lacks_all = all || !holds.is_for(1 - lead);
        self.resync.resumes(lead, stale, lacks_all);
        self.roles.set_laggard(!self.resync.are_equal());
        if lead_lacks {
            self.roles.restores();
        } else if all {
            self.roles.restores();
            self.write_record(Why::Resynced);
        } else {
            self.finish_start();
        }
    }

    /// What did the journal bring, or will it bring?
    fn resume_journal(&mut self, holds: &Holds, sequence: u64, all: bool) {
        let (generation, head) = self.start.take_journal();
        let counts = if matches!(holds, Holds::Nothing) { 0 } else { generation };
        self.records.resumes(sequence, counts);
        self.journal.resumes(head.as_ref(), generation);
        if head.is_none() && self.start.expects_journal() {
            self.journal.is_missing();
        }
        let lead = self.roles.lead();
        if let Holds::All(head) = holds
            && holds.is_for(lead)
        {
            let is_for =
                |leg: usize| self.roles.is_alive(leg) && (leg == lead || !all) && holds.is_for(leg);
            self.replay.resumes(head, (0..2).filter(|&leg| is_for(leg)).collect(), all);
        }
    }

    /// The legs are as right as they can make each other: now the journal, and then users.
    fn finish_start(&mut self) {
        self.roles.restores();
        self.replay.is_due();
    }

    /// What the lead was behind in is durable there; its record may say so.
    pub(super) fn restored(&mut self) {
        if !self.start.was_alone() {
            self.write_record(Why::CaughtUp);
            return;
        }
        // what was copied from it the other one may not have made durable itself
        self.resync.lacks(self.roles.other(), self.records.behind());
        self.write_record(Why::Resynced);
    }

    pub(super) fn run_replay(&mut self) {
        if self.roles.phase() != Phase::Restoring {
            return;
        }
        let (step, end) = self.replay.run(self.journal.is_on(), &mut self.commands);
        self.replay_ended(end);
        match step {
            None => {}
            Some(replay::Step::Enter) => self.enter(),
            Some(replay::Step::BeginJournal) => {
                let members = self.resync.members(&self.roles);
                self.journal.begins(self.records.pair(), members, &mut self.commands);
            }
        }
    }

    /// Everything is as it has to be.
    pub(super) fn enter(&mut self) {
        self.roles.enters();
        if !self.journal.is_on() && self.records.journal() > 0 {
            self.records.set_journal(0);
            self.roles.is_unjournaled();
        }
        self.roles.serves(self.commands.now());
    }
}

/// Requests.
impl Mirror {
    pub(super) fn begin_read(&mut self, read: Read) {
        let (resync, cache) = (&mut self.resync, &mut self.cache);
        self.reads.begin(read, &self.roles, resync, &self.journal, cache, &mut self.commands);
    }

    pub(super) fn begin_meta_read(&mut self, read: MetaRead) {
        let resync = &mut self.resync;
        self.metas.begin_read(read, &self.roles, resync, &self.journal, &mut self.commands);
    }

    pub(super) fn run_acceptance(&mut self) {
        let (cache, journal) = (&mut self.cache, &mut self.journal);
        let (records, commands) = (&mut self.records, &mut self.commands);
        self.writes.admit(&self.roles, cache, journal, records, commands);
    }

    pub(super) fn run_metas(&mut self) {
        let records = &mut self.records;
        self.metas.send(&self.roles, records, &self.resync, &mut self.commands);
    }

    pub(super) fn run_writes(&mut self) {
        self.writes.send(
            self.flushes.is_waiting(),
            &self.roles,
            &mut self.cache,
            &mut self.records,
            &self.resync,
            &mut self.commands,
        );
    }

    pub(super) fn run_journal(&mut self) {
        let demand = Demand {
            members: self.resync.members(&self.roles),
            is_waited_for: self.flushes.is_waiting(),
            cache_fills: self.cache.bytes() > self.config.cache_bytes / CACHE_PART,
        };
        let (pair, cache) = (self.records.pair(), &mut self.cache);
        let pressed = self.journal.run(pair, demand, &self.roles, cache, &mut self.commands);
        for leg in (0..2).filter(|&leg| pressed[leg]) {
            if self.flushes.is_unflushed(leg) {
                self.flushes.flush_leg(leg, Then::Settle);
            }
        }
    }

    pub(super) fn run_flushes(&mut self) {
        if self.roles.are_dead() {
            self.flushes.end_all(&self.roles, &mut self.commands);
            return;
        }
        if self.flushes.may_gather(&self.roles) && !self.resync.holds_flushes() {
            self.gather_flushes();
        }
        let (ticks, survivor) = (self.journal.ticks(), &mut self.survivor);
        self.flushes.send(ticks, &self.roles, survivor, &mut self.commands);
        self.journal.run_flush(&mut self.commands);
    }

    fn gather_flushes(&mut self) {
        let early = self.commands.breaks(Mutant::PairAckBeforeJournal);
        let has_all_upto = |upto: u64| {
            self.writes.lead_has(upto, &self.roles, &self.cache, &self.commands)
                && (early || self.journal.has(upto, &self.cache))
        };
        if self.flushes.gather(has_all_upto) {
            let flushes_journal = self.journal.flush_for_batch(!early);
            self.flushes.begin_batch(&self.roles, self.journal.is_on(), flushes_journal);
        }
    }
}

/// Roles and deaths.
impl Mirror {
    pub(super) fn run_roles(&mut self) {
        let lead = self.roles.lead();
        let known = self.writes.writer(&self.roles, &self.cache, &self.journal, &self.records);
        let is_flushed = self.flushes.wants(lead, Then::CaughtUp);
        let step = self.roles.step(self.commands.now(), &LeadState { is_flushed, ..known });
        match step {
            None => {}
            Some(Step::Rest) => {
                self.writes.writer_rests(self.roles.begins_rest(self.commands.now()));
                // without a time to rest in they change places now
                self.run_roles();
            }
            Some(Step::FlushLevel) => self.flushes.flush_leg(lead, Then::CaughtUp),
            Some(Step::RecordLevel) => self.write_record(Why::CaughtUp),
            Some(Step::FlushWriter) => {
                self.records.relies_on_flushes();
                self.flushes.flush_leg(lead, Then::Durable);
            }
            Some(Step::FlushNext) => self.flushes.flush_leg(1 - lead, Then::TurnReady),
            Some(Step::Record) => self.write_record(Why::Turn),
            Some(Step::Turn) => self.turn(),
        }
    }

    /// What was durable on the dead leg alone is durable here, without waiting for a FLUSH: the engine
    /// believes that it is.
    pub(super) fn run_exposed(&mut self) {
        let survivor = self.roles.lead();
        let Some(upto) = self.roles.exposed() else { return };
        let ready = !self.roles.blocks_all()
            && self.writes.lead_has(upto, &self.roles, &self.cache, &self.commands);
        if ready && !self.flushes.wants(survivor, Then::Covered) {
            self.flushes.flush_leg(survivor, Then::Covered);
        }
    }

    /// Tells the survivor's record what it lacks no longer, and lets answers go.
    pub(super) fn run_survivor(&mut self) {
        let lead = self.roles.lead();
        let alone = self.roles.is_alone() && self.roles.is_alive(lead);
        if !alone || self.roles.blocks_all() || self.records.is_writing() {
            return;
        }
        match self.survivor.step(&self.roles, &mut self.commands) {
            Some(survivor::Step::Record) => self.write_record(Why::Alone),
            Some(survivor::Step::Flush) if self.flushes.is_unflushed(lead) => {
                self.flushes.flush_leg(lead, Then::Narrowed);
            }
            Some(survivor::Step::Flush) | None => {}
        }
    }

    pub(super) fn run_resync(&mut self) {
        let has_meta = |start, end| self.metas.touches(start, end);
        let step = self.resync.run(&self.roles, has_meta, &self.cache, &mut self.commands);
        self.resync_step(step);
    }

    /// What was reached goes on record when both legs are flushed.
    pub(super) fn run_resync_record(&mut self) {
        let free = !self.records.is_writing() && !self.roles.alone_is_unrecorded();
        if self.resync.is_ready() && free {
            self.resync.record_begins();
            self.write_record(Why::Resynced);
        }
    }

    pub(super) fn run_records(&mut self) {
        if let Some(why) = self.records.wants(&self.roles) {
            self.write_record(why);
        }
    }

    pub(super) fn write_record(&mut self, why: Why) {
        let missing = match why {
            _ if !self.roles.is_alone() => Stale::default(),
            _ if self.commands.breaks(Mutant::PairAloneIsWhole) => Stale::default(),
            // at the end of its life all is flushed that was written
            Why::Stop => self.resync.stale()[self.roles.lead()].clone(),
            _ => self.survivor.next_missing(),
        };
        let unequal = Unequal {
            cache: &self.cache,
            metas: self.metas.extents().collect(),
            stale: self.resync.stale(),
            missing,
        };
        let durable = self.records.write(why, &unequal, &mut self.roles, &mut self.commands);
        self.is_on_record(durable);
    }

    pub(super) fn run_stop(&mut self) {
        if self.stop.begin(&mut self.roles) {
            self.run_writes();
        }
        let idle = self.writes.is_idle()
            && self.flushes.is_idle()
            && self.resync.is_idle()
            && !self.records.is_writing()
            && self.journal.is_idle()
            && self.survivor.is_idle();
        if self.roles.phase() != Phase::Stopping || !idle || self.roles.blocks_all() {
            return;
        }
        match self.stop.step(&self.roles) {
            None => {}
            Some(stop::Step::Flush) => {
                for leg in (0..2).filter(|&leg| self.roles.is_alive(leg)) {
                    self.flushes.flush_leg(leg, Then::Equal);
                }
            }
            Some(stop::Step::Record) => self.write_record(Why::Stop),
        }
    }
}
