//! What does the end of a command lead to?
//!
//! Each owner is told in turn. Before all others stands the death of a drive, which the end of any
//! command may be.
//!
//! Source: requirements I14. The cache and the other leg are the latest data, so service goes on. What
//! is answered from then on hangs on the survivor alone, so the survivor has to know it durably first.

use super::cache::EntryId;
use super::error::PairError;
use super::flight::{MetaRead, Read};
use super::flush::{Running, Then};
use super::meta;
use super::record::{OnRecord, Why};
use super::replay::End;
use super::resync::{self, Unread};
use super::roles::{Death, Phase};
use super::stale::Stale;
use super::write::Landed;
use super::{Mirror, read};
use tandem_block::{Instant, IoError};

/// Deaths.
impl Mirror {
    /// Writes a leg off.
    pub(super) fn fail_leg(&mut self, leg: usize) {
        let (error, accepted) = (self.commands.dead(leg), self.cache.sequence());
        let Some(death) = self.roles.leg_dies(leg, error, accepted) else { return };
        self.flushes.leg_died(accepted);
        self.journal.forget_batch();
        self.stop.leg_died();
        self.writes.leg_died(leg);
        self.resync.leg_died(death, self.journal.is_on());
        self.begin_alone(death);
        for id in self.cache.leg_died(leg) {
            let reached = self.cache.has_reached(id, death.survivor);
            if reached || self.roles.are_dead() {
                self.answer_if_written(id);
            }
            self.commands.release_if(self.cache.forget(id));
        }
    }

    /// What does the survivor lack? Asked while the cache still knows what each of them had.
    fn begin_alone(&mut self, Death { survivor, led, .. }: Death) {
        if !self.roles.is_alive(survivor) {
            self.survivor.ends(self.commands.dead(self.roles.lead()), &mut self.commands);
        } else if self.roles.is_durable() {
            // a journal has what is in RAM
            let in_ram = match (self.journal.is_on(), led) {
                (true, _) => Stale::default(),
                (false, true) => self.records.lead_alone(survivor, &self.cache),
                (false, false) => self.records.behind().clone(),
            };
            self.survivor.begins(&self.resync.stale()[survivor], in_ram);
        }
    }

    /// The journal is dead: the legs have to know before anything is answered that it took part in.
    pub(super) fn fail_journal(&mut self) {
        if !self.journal.is_on() {
            return;
        }
        let batch = self.journal.dies();
        self.records.set_journal(0);
        self.roles.is_unjournaled();
        if batch {
            self.batch_part_done();
        }
        for id in self.cache.journal_died() {
            self.settle(id);
        }
    }

    /// A write may be answered by now, and nobody may need it any more.
    fn settle(&mut self, id: EntryId) {
        self.answer_if_written(id);
        self.commands.release_if(self.cache.forget(id));
    }

    /// Where a death must be recorded first, a write is answered when it is.
    fn answer_if_written(&mut self, id: EntryId) {
        let legs = self.roles.answering();
        let is_durable = |unit| self.journal.has_durably(unit);
        let reply = self.cache.take_reply(id, self.config.answer, legs, is_durable);
        let Some(reply) = reply else { return };
        let (io, checksums) = (reply.io, reply.checksums);
        if legs.is_empty() {
            let dead = self.commands.dead(self.roles.lead());
            self.commands.answer(&self.roles, io, Err(dead), checksums);
        } else if reply.promise.is_some() {
            let promise = (io, reply.promise);
            self.survivor.promise(promise, checksums, &self.roles, &mut self.commands);
        } else {
            self.commands.answer(&self.roles, io, Ok(()), checksums);
        }
    }

    fn batch_part_done(&mut self) {
        self.flushes.part_done(&self.roles, &mut self.survivor, &mut self.commands);
    }

    fn is_new_there(&mut self, leg: usize, range: (u64, u64)) {
        self.resync.is_new_there(leg, range, &self.roles, &mut self.survivor);
    }
}

/// Commands to legs.
impl Mirror {
    pub(super) fn read_done(
        &mut self,
        leg: usize,
        mut read: Read,
        issued: Instant,
        status: Result<(), IoError>,
        checksums: &[u32],
    ) {
        self.reads.ended(leg);
        let (roles, cache) = (&mut self.roles, &mut self.cache);
        let checksums = status.is_ok().then_some(checksums);
        read::landed(&mut read, issued, checksums, roles, cache, &mut self.commands);
        let Err(error) = status else { return };
        if matches!(error, IoError::NoAnswer(_) | IoError::Dead(_)) {
            self.fail_leg(leg);
        }
        let known = (&self.roles, &self.resync);
        self.reads.again(leg, read, error, known, &mut self.cache, &mut self.commands);
    }

    pub(super) fn meta_read_done(
        &mut self,
        leg: usize,
        read: MetaRead,
        status: Result<(), IoError>,
        bytes: &[u8],
    ) {
        let Err(error) = status else {
            self.commands.end_with_bytes(read.io, bytes.to_vec());
            return;
        };
        if matches!(error, IoError::Dead(_)) {
            self.fail_leg(leg);
        }
        let (roles, resync) = (&self.roles, &self.resync);
        self.metas.read_again(leg, read, error, roles, resync, &mut self.commands);
    }

    pub(super) fn entry_written(
        &mut self,
        landed: Landed,
        status: Result<(), IoError>,
        checksums: &[u32],
    ) {
        self.writes.ended(landed);
        let Landed { leg, id, .. } = landed;
        if status.is_err() && !self.cache.entry(id).is_trim {
            // what it holds there is not known
            self.fail_leg(leg);
        }
        let checksums = status.is_ok().then_some(checksums);
        let (roles, cache) = (&self.roles, &mut self.cache);
        let written = self.writes.landed(landed, checksums, roles, cache, &mut self.journal);
        if let Some((offset, end)) = written {
            self.records.touched(offset, end);
            // it is new there whatever it was before
            if !self.resync.covers(offset, end) {
                self.is_new_there(leg, (offset, end));
            }
        }
        self.settle(id);
    }

    pub(super) fn meta_written(&mut self, leg: usize, key: usize, status: Result<(), IoError>) {
        if status.is_err() {
            self.fail_leg(leg);
        }
        let meta::Landed { start, end, fua } = self.metas.landed(key, status.is_ok());
        self.records.touched(start, end);
        if status.is_ok() && self.roles.is_alive(leg) {
            if !fua {
                self.flushes.is_volatile(leg);
            }
            self.is_new_there(leg, (start, end));
        }
        let Some(meta::Written { io, status, promise }) = self.metas.take_written(key, status)
        else {
            return;
        };
        if promise.is_some() {
            let promise = (io, promise);
            self.survivor.promise(promise, Vec::new(), &self.roles, &mut self.commands);
        } else {
            self.commands.answer(&self.roles, io, status, Vec::new());
        }
    }

    pub(super) fn flushed(&mut self, leg: usize, status: Result<(), IoError>) {
        let Running { batch, then, ticks } = self.flushes.take_running(leg);
        if status.is_err() || !self.roles.is_alive(leg) {
            // FLUSHes wait again since the leg died
            self.fail_leg(leg);
            return;
        }
        self.assert_right_leg(leg, then);
        self.journal.leg_flushed(leg, ticks);
        if self.roles.is_alone() && leg == self.roles.lead() {
            self.survivor.flush_ends(then == Some(Then::Covered));
        }
        if batch {
            self.batch_part_done();
        }
        match then {
            None | Some(Then::Settle | Then::Narrowed) => {}
            Some(Then::Replayed) => self.replay.is_durable(),
            Some(Then::Durable) => {
                self.writes.writer_rests(self.roles.begins_rest(self.commands.now()));
            }
            Some(Then::TurnReady) => self.roles.next_is_durable(),
            Some(Then::CaughtUp) => self.roles.level_is_durable(),
            Some(Then::Covered) => self.roles.is_covered(),
            Some(Then::Equal) => self.is_equal(leg),
        }
    }

    /// Between a flush and its end roles change only by a death, which makes its reason void.
    fn assert_right_leg(&self, leg: usize, then: Option<Then>) {
        let is_lead = leg == self.roles.lead();
        match then {
            Some(Then::Durable | Then::CaughtUp) => assert!(is_lead, "the writer is flushed"),
            Some(Then::Covered | Then::Narrowed) => assert!(is_lead, "the survivor is flushed"),
            Some(Then::TurnReady) => assert!(!is_lead, "the next writer is flushed"),
            None | Some(Then::Equal | Then::Settle | Then::Replayed) => {}
        }
    }

    /// A leg was flushed after a piece, or at the end.
    fn is_equal(&mut self, leg: usize) {
        match self.roles.phase() {
            Phase::Restoring => self.restored(),
            _ if self.resync.is_recording() => self.resync.is_flushed(leg),
            Phase::Stopping => self.stop.is_flushed(leg),
            _ => {}
        }
    }

    pub(super) fn resync_read(&mut self, leg: usize, status: Result<(), IoError>) {
        match self.resync.read(status, &self.roles, &mut self.commands) {
            None => {}
            Some(Unread::Start(error)) => self.roles.fail_start(PairError::Device(error)),
            Some(Unread::Leg) => self.fail_leg(leg),
            Some(Unread::Block) => {
                let range = self.resync.take_piece(&mut self.commands).expect("it was read");
                self.is_equal_there(1 - leg, range);
            }
        }
    }

    pub(super) fn resync_written(&mut self, leg: usize, status: Result<(), IoError>) {
        let Some(range) = self.resync.take_piece(&mut self.commands) else { return };
        if status.is_err() {
            self.fail_leg(leg);
            return;
        }
        self.flushes.is_volatile(leg);
        self.is_equal_there(leg, range);
    }

    /// A leg lacks nothing there any more.
    fn is_equal_there(&mut self, leg: usize, range: (u64, u64)) {
        self.is_new_there(leg, range);
        let step = self.resync.written(range, &self.roles);
        self.resync_step(step);
    }

    pub(super) fn resync_step(&mut self, step: Option<resync::Step>) {
        match step {
            None => {}
            Some(resync::Step::FlushBoth) => {
                self.records.relies_on_flushes();
                self.flushes.flush_leg(0, Then::Equal);
                self.flushes.flush_leg(1, Then::Equal);
            }
            Some(resync::Step::FlushLead) => {
                self.flushes.flush_leg(self.roles.lead(), Then::Equal);
            }
        }
    }
}

/// Records.
impl Mirror {
    pub(super) fn record_written(&mut self, leg: usize, status: Result<(), IoError>) {
        if status.is_err() {
            self.records.gives_up();
            self.fail_leg(leg);
            return;
        }
        let durable = self.records.written(leg, &mut self.roles, &mut self.commands);
        self.is_on_record(durable);
    }

    /// A record is durable: who waited for it goes on.
    pub(super) fn is_on_record(&mut self, durable: Option<OnRecord>) {
        let Some(OnRecord { why, journal }) = durable else { return };
        match why {
            Why::Mark => {}
            Why::Journal => self.journal_is_on_record(journal),
            Why::Turn => self.turn(),
            Why::CaughtUp => self.start_is_on_record(),
            Why::Alone => {
                self.survivor.is_on_record(&self.roles, &mut self.commands);
                self.journal_is_on_record(journal);
            }
            Why::Resynced => {
                self.resync_is_on_record();
                self.start_is_on_record();
            }
            Why::Stop => {
                assert_eq!(self.roles.phase(), Phase::Stopping, "a pair stops when it is told to");
                assert!(self.writes.is_idle(), "all was written when it stops");
                self.roles.has_stopped();
            }
        }
    }

    /// All legs know which journal counts.
    fn journal_is_on_record(&mut self, generation: u32) {
        if generation == self.records.journal() {
            self.roles.journal_is_on_record();
            self.journal.opens(generation);
            if self.roles.phase() == Phase::Restoring {
                self.enter();
            }
        }
        if !self.roles.blocks_all() {
            self.commands.answer_after();
        }
    }

    /// A record that the start waited for is durable.
    fn start_is_on_record(&mut self) {
        if self.roles.phase() == Phase::Restoring {
            self.replay.is_due();
        }
    }

    fn resync_is_on_record(&mut self) {
        let Some(lacked_all) = self.resync.is_on_record(&self.roles) else { return };
        if lacked_all {
            // the ring brings the leg that lacked everything what it lacks from now on
            self.journal.wants_head();
        }
        self.roles.begins_turns(self.commands.now());
        self.writes.begin_turns(&self.roles, &self.cache, &mut self.records);
    }

    /// The other leg writes from now on.
    pub(super) fn turn(&mut self) {
        let share_ppm = self.roles.turn(self.commands.now());
        self.writes.turn(share_ppm, &self.roles, &self.cache, &mut self.records);
    }
}

/// The journal.
impl Mirror {
    pub(super) fn unit_written(&mut self, issued: Instant, status: Result<(), IoError>) {
        if status.is_err() {
            self.fail_journal();
        }
        let noted = self.journal.unit_written(issued, &mut self.cache, &mut self.commands);
        noted.into_iter().for_each(|id| self.settle(id));
    }

    pub(super) fn journal_flushed(&mut self, status: Result<(), IoError>) {
        if status.is_err() {
            self.fail_journal();
        }
        let now = self.commands.now();
        let (durable, batch) = self.journal.flushed(status.is_ok(), &self.cache, now);
        durable.into_iter().for_each(|id| self.settle(id));
        if batch {
            self.batch_part_done();
        }
    }

    pub(super) fn head_written(&mut self, status: Result<(), IoError>) {
        if status.is_err() {
            self.fail_journal();
        }
        if self.journal.head_written(self.commands.now()) {
            self.journal_is_begun();
        }
    }

    /// The head of the new generation is durable.
    fn journal_is_begun(&mut self) {
        self.records.set_journal(self.journal.generation());
        if self.roles.is_alone() {
            // it goes with the record that it serves alone
            self.enter();
        } else {
            self.write_record(Why::Journal);
        }
    }

    pub(super) fn ring_data(&mut self, end: u64, status: Result<(), IoError>, checksums: &[u32]) {
        let (roles, commands) = (&self.roles, &mut self.commands);
        let end = self.replay.ring_data(end, status, checksums, roles, commands);
        self.replay_ended(end);
    }

    pub(super) fn brought(&mut self, status: Result<(), IoError>) {
        self.replay.brought();
        if self.roles.phase() == Phase::Stopped {
            return;
        }
        if let Err(error) = status {
            self.roles.fail_start(PairError::Device(error));
            return;
        }
        let end = self.replay.bring(&self.roles, &mut self.commands);
        self.replay_ended(end);
    }

    /// Where the legs have what they need from each other, a ring that cannot be read is done without.
    pub(super) fn replay_ended(&mut self, end: Option<End>) {
        match end {
            None => {}
            Some(End::Replayed) => {
                for &leg in self.replay.legs() {
                    self.flushes.flush_leg(leg, Then::Replayed);
                }
            }
            Some(End::Failed(error)) if self.replay.gives_up() => self.roles.fail_start(error),
            Some(End::Failed(_)) => {
                self.resync.lacks_all();
                self.fail_journal();
            }
        }
    }
}
