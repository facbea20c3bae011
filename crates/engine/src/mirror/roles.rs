//! Which leg writes, which one is read, and when do they change places?
//!
//! Source: [IANUS §5.1, §5.3], requirements I13, I18. After `T_min`, when the writer has made up for what
//! the other one wrote before; a time without writes before it lets the writer finish its own
//! background work before it is read. What everybody asks is here: which legs live, and what the pair
//! is doing.

use super::config::{Idle, PairConfig, RoleRule};
use super::error::PairError;
use super::residue::Residue;
use tandem_block::{Duration, Instant, IoError};

/// What a mirror is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not started.
    Created,
    /// Reads the legs' records.
    Opening,
    /// Brings back what the leg ahead lacks; nobody is served yet.
    Restoring,
    /// Serves.
    Serving,
    /// Roles are about to change: no more writes, those under way end.
    Draining,
    /// … the writer is flushed
    Settling,
    /// … the writer rests
    Idling(Instant),
    /// … reads have moved; the new writer is flushed and told.
    Turning,
    /// Takes nothing more; both legs get everything.
    Stopping,
    /// Over.
    Stopped,
}

/// What the writer has and lacks, as far as a change of roles hangs on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeadState {
    /// It has been sent what the other one wrote before.
    pub(crate) is_level: bool,
    /// … and its record does not say so yet
    pub(crate) is_behind_on_record: bool,
    /// Something new was accepted that the reader lacks.
    pub(crate) reader_lacks: bool,
    /// A write waits for something that only a change of roles brings, and nothing new is to be sent.
    pub(crate) is_stuck: bool,
    /// Writes with it.
    pub(crate) in_flight: u32,
    /// A record is being written.
    pub(crate) is_recorded: bool,
    /// A flush for the record that it is level is under way, or wanted.
    pub(crate) is_flushed: bool,
}

/// What a change of roles needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The writer has caught up: it is flushed.
    FlushLevel,
    /// … and its record says so.
    RecordLevel,
    /// The writer has everything of this period: it is flushed.
    FlushWriter,
    /// … or it is not, and rests at once.
    Rest,
    /// The next writer is flushed.
    FlushNext,
    /// Both are told who writes from now on.
    Record,
    /// They change places.
    Turn,
}

/// A leg has died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Death {
    pub(crate) leg: usize,
    pub(crate) survivor: usize,
    /// It was the leg that leads.
    pub(crate) led: bool,
    /// Users were served.
    pub(crate) served: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Roles {
    /// Keeps the promise of a power cut; not under fixed placement.
    durable: bool,
    rule: RoleRule,
    /// The writer is flushed before it is read.
    settles: bool,
    period: Duration,
    setting: Idle,
    phase: Phase,
    alive: [bool; 2],
    /// The leg that is right wherever they differ and the cache knows nothing.
    lead: usize,
    /// The leg that is read.
    reader: usize,
    /// A leg is behind, or it is not on record yet that none is.
    has_laggard: bool,
    /// A leg died and the survivor does not know it durably.
    alone_unrecorded: bool,
    /// The journal died, or is not there, and the legs do not know it durably.
    unjournaled_unrecorded: bool,
    /// A leg died, and what it had made durable up to this write is not all durable on the other one yet.
    exposed: Option<u64>,
    /// Since when roles are as they are.
    since: Instant,
    idle: Duration,
    /// The end of the time without writes that has begun.
    rests_until: Instant,
    residue: Residue,
    /// The next writer is flushed; its record may be written.
    next_is_flushed: bool,
    /// The lead is flushed since it has caught up.
    level_is_flushed: bool,
    started: Option<Result<(), PairError>>,
    turns: u64,
    early_turns: u64,
    failures: u64,
}

impl Roles {
    pub(crate) fn new(config: &PairConfig, durable: bool) -> Roles {
        let idle = match config.idle {
            Idle::Fixed(length) => length,
            Idle::Adaptive(_) => Duration::from_ns(0),
        };
        Roles {
            durable,
            rule: config.role_rule,
            settles: config.settles,
            period: config.period,
            setting: config.idle,
            phase: Phase::Created,
            alive: [true; 2],
            lead: 0,
            reader: 1,
            has_laggard: false,
            alone_unrecorded: false,
            unjournaled_unrecorded: false,
            exposed: None,
            since: Instant::ZERO,
            idle,
            rests_until: Instant::ZERO,
            residue: Residue::default(),
            next_is_flushed: false,
            level_is_flushed: false,
            started: None,
            turns: 0,
            early_turns: 0,
            failures: 0,
        }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Has the start ended, well or not?
    pub(crate) fn is_started(&self) -> bool {
        !matches!(self.phase, Phase::Created | Phase::Opening | Phase::Restoring)
    }

    pub(crate) fn is_alive(&self, leg: usize) -> bool {
        self.alive[leg]
    }

    pub(crate) fn alive(&self) -> [bool; 2] {
        self.alive
    }

    pub(crate) fn are_dead(&self) -> bool {
        self.alive == [false; 2]
    }

    /// Does a leg serve without the other one?
    pub(crate) fn is_alone(&self) -> bool {
        self.alive != [true; 2]
    }

    pub(crate) fn lead(&self) -> usize {
        self.lead
    }

    /// The leg that does not lead.
    pub(crate) fn other(&self) -> usize {
        1 - self.lead
    }

    pub(crate) fn reader(&self) -> usize {
        self.reader
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle
    }

    /// Do the legs take turns: do both live, and is it on record that neither is behind?
    pub(crate) fn alternates(&self) -> bool {
        self.rule == RoleRule::Alternate && self.alive == [true; 2] && !self.has_laggard
    }

    /// Have the legs no roles: are both written, and either read?
    pub(crate) fn are_alike(&self) -> bool {
        self.rule == RoleRule::Alike
    }

    /// The legs that must have a write before it may be answered; none where no leg lives.
    pub(crate) fn answering(&self) -> &'static [usize] {
        const EACH: [&[usize]; 2] = [&[0], &[1]];
        if self.are_dead() {
            &[]
        } else if self.are_alike() && !self.is_alone() {
            &[0, 1]
        } else {
            EACH[self.lead]
        }
    }

    /// Is only one leg written to at a time?
    pub(crate) fn takes_turns(&self) -> bool {
        self.alternates() && self.phase != Phase::Stopping
    }

    /// Must everything wait until a death is on record?
    pub(crate) fn blocks_all(&self) -> bool {
        self.alone_unrecorded || self.unjournaled_unrecorded
    }

    pub(crate) fn alone_is_unrecorded(&self) -> bool {
        self.alone_unrecorded
    }

    pub(crate) fn unjournaled_is_unrecorded(&self) -> bool {
        self.unjournaled_unrecorded
    }

    /// It is on record who serves alone.
    pub(crate) fn alone_is_on_record(&mut self) {
        self.alone_unrecorded = false;
    }

    /// The legs know which journal counts.
    pub(crate) fn journal_is_on_record(&mut self) {
        self.unjournaled_unrecorded = false;
    }

    /// The journal died, or is missing: the legs are to know before anything is answered without it.
    pub(crate) fn is_unjournaled(&mut self) {
        self.unjournaled_unrecorded = self.durable && !self.are_dead();
    }

    /// The write up to which the survivor must make durable what the dead leg had.
    pub(crate) fn exposed(&self) -> Option<u64> {
        self.exposed
    }

    pub(crate) fn is_covered(&mut self) {
        assert!(self.exposed.is_some(), "a flush covers what the dead leg had");
        self.exposed = None;
    }

    /// What was found at the start, once.
    pub(crate) fn take_started(&mut self) -> Option<Result<(), PairError>> {
        self.started.take()
    }

    /// Remembers how long a read took, for the time without writes.
    pub(crate) fn note_read(&mut self, issued: Instant, now: Instant) {
        self.residue.read(issued, now, self.since, self.period);
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    pub(crate) fn early_turns(&self) -> u64 {
        self.early_turns
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }
}

/// Begin and end.
impl Roles {
    /// The legs' records are read.
    pub(crate) fn opens(&mut self) {
        self.phase = Phase::Opening;
    }

    /// This leg is not there.
    pub(crate) fn is_absent(&mut self, leg: usize) {
        self.alive[leg] = false;
    }

    /// The other one does everything.
    pub(crate) fn does_without(&mut self, leg: usize) {
        (self.alive[leg], self.lead, self.reader) = (false, 1 - leg, 1 - leg);
    }

    /// What the records say.
    pub(crate) fn resumes(&mut self, lead: usize, alive: [bool; 2]) {
        assert!(alive[lead], "a leg that is there leads");
        (self.lead, self.reader, self.alive) = (lead, lead, alive);
    }

    pub(crate) fn restores(&mut self) {
        assert_eq!(self.phase, Phase::Opening, "records are read before anything is brought back");
        self.phase = Phase::Restoring;
    }

    pub(crate) fn fail_start(&mut self, error: PairError) {
        assert!(!self.is_started(), "a start fails before it has ended");
        self.phase = Phase::Stopped;
        self.started = Some(Err(error));
    }

    /// Everything is as it has to be.
    pub(crate) fn serves(&mut self, now: Instant) {
        assert!(!self.is_started(), "a start ends once");
        self.phase = Phase::Serving;
        self.since = now;
        self.started = Some(Ok(()));
    }

    /// What is answered from now on hangs on who is there, and a leg that is alone has to say so.
    pub(crate) fn enters(&mut self) {
        assert_eq!(self.phase, Phase::Restoring, "users are served when all is brought back");
        if self.alternates() {
            self.reader = 1 - self.lead;
        }
        self.alone_unrecorded = self.is_alone();
    }

    /// Is a leg behind?
    pub(crate) fn has_laggard(&self) -> bool {
        self.has_laggard
    }

    pub(crate) fn set_laggard(&mut self, has_laggard: bool) {
        self.has_laggard = has_laggard;
    }

    /// Both legs are equal but for what the cache holds: from now on they take turns.
    pub(crate) fn begins_turns(&mut self, now: Instant) {
        assert!(!self.is_alone(), "two legs take turns");
        assert!(self.has_laggard, "legs that take turns begin that once");
        self.has_laggard = false;
        self.since = now;
        self.reader = 1 - self.lead;
    }

    /// Takes nothing more.
    pub(crate) fn stops(&mut self) {
        self.phase = Phase::Stopping;
    }

    pub(crate) fn has_stopped(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// Writes a leg off; `accepted`: the last write until now. Nobody else needs to know if it was
    /// dead before, or if the start fails by it.
    pub(crate) fn leg_dies(&mut self, leg: usize, error: IoError, accepted: u64) -> Option<Death> {
        if !self.alive[leg] {
            return None;
        }
        assert!(self.alive[self.lead], "a leg that lives leads");
        self.alive[leg] = false;
        self.failures += 1;
        let survivor = 1 - leg;
        let led = self.lead == leg;
        (self.lead, self.reader) = (survivor, survivor);
        if self.phase == Phase::Restoring {
            // a start does not change its mind: the next one does without
            self.fail_start(PairError::Device(error));
            return None;
        }
        let served = self.is_started();
        if served && self.phase != Phase::Stopping {
            self.phase = Phase::Serving;
        }
        let promises = self.durable && self.alive[survivor];
        self.exposed = promises.then_some(accepted);
        self.alone_unrecorded = promises;
        // where no leg lives nobody is told, and nothing waits for that
        self.unjournaled_unrecorded &= promises;
        (self.next_is_flushed, self.level_is_flushed) = (false, false);
        self.has_laggard = false;
        Some(Death { leg, survivor, led, served })
    }
}

/// Turns.
impl Roles {
    /// When the next change is due, or the rest before it over.
    pub(crate) fn due(&self, now: Instant, reader_lacks: bool) -> Instant {
        let wants_turn = self.takes_turns() && reader_lacks;
        match self.phase {
            Phase::Serving if wants_turn && now < self.turn_at() => self.turn_at(),
            Phase::Idling(until) => until,
            _ => Instant::NEVER,
        }
    }

    /// The period ends with the time without writes.
    fn turn_at(&self) -> Instant {
        self.since + self.period - self.idle
    }

    /// What a change of roles needs now, if anything.
    pub(crate) fn step(&mut self, now: Instant, writer: &LeadState) -> Option<Step> {
        if self.phase == Phase::Serving && self.takes_turns() {
            if writer.is_level && writer.is_behind_on_record {
                return self.level_step(writer);
            }
            if writer.reader_lacks && writer.is_level && self.turn_is_due(now, writer) {
                self.phase = Phase::Draining;
                self.rests_until = now + self.idle;
            }
        }
        match self.phase {
            Phase::Draining if writer.in_flight == 0 && !self.settles => Some(Step::Rest),
            Phase::Draining if writer.in_flight == 0 => {
                self.phase = Phase::Settling;
                Some(Step::FlushWriter)
            }
            Phase::Idling(until) if now >= until => {
                // the cache and the old writer are the latest data, so reads can move at once
                self.reader = self.lead;
                self.phase = Phase::Turning;
                Some(if self.durable { Step::FlushNext } else { Step::Turn })
            }
            Phase::Turning if self.next_is_flushed && !writer.is_recorded => {
                self.next_is_flushed = false;
                Some(Step::Record)
            }
            _ => None,
        }
    }

    /// When the writer has everything that the other one wrote, its record may say so.
    fn level_step(&mut self, writer: &LeadState) -> Option<Step> {
        if writer.is_recorded {
            None
        } else if self.level_is_flushed {
            self.level_is_flushed = false;
            Some(Step::RecordLevel)
        } else {
            (!writer.is_flushed).then_some(Step::FlushLevel)
        }
    }

    fn turn_is_due(&mut self, now: Instant, writer: &LeadState) -> bool {
        if now >= self.turn_at() {
            return true;
        }
        let early = writer.is_stuck && writer.in_flight == 0;
        self.early_turns += u64::from(early);
        early
    }

    /// The lead is flushed since it has caught up.
    pub(crate) fn level_is_durable(&mut self) {
        self.level_is_flushed = true;
    }

    /// The writer has made durable everything, if it settles. That was part of its time without writes;
    /// what took longer is what its writes cost. Returns when it wrote last, and since when.
    pub(crate) fn begins_rest(&mut self, now: Instant) -> (Instant, Duration) {
        let writes_no_more = if self.settles { Phase::Settling } else { Phase::Draining };
        assert_eq!(self.phase, writes_no_more, "the writer rests when it writes no more");
        let rests_until = self.rests_until.max(now);
        let wrote_until = rests_until - self.idle;
        self.phase = Phase::Idling(rests_until);
        (wrote_until, wrote_until.since(self.since))
    }

    /// The next writer has made durable the metadata that it was sent while it was read.
    pub(crate) fn next_is_durable(&mut self) {
        assert_eq!(self.phase, Phase::Turning, "the next writer is flushed before roles change");
        self.next_is_flushed = true;
    }

    /// The other leg writes from now on. Returns the share of a period in which it may, in millionths.
    pub(crate) fn turn(&mut self, now: Instant) -> u64 {
        assert_eq!(self.phase, Phase::Turning, "reads have moved before roles change");
        assert!(self.alternates(), "two equal legs change places");
        (self.lead, self.reader) = (1 - self.lead, self.lead);
        self.since = now;
        self.phase = Phase::Serving;
        self.turns += 1;
        self.idle = self.residue.next_idle(self.idle, self.setting);
        super::pace::share_ppm(self.period, self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::DeviceId;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn serving(idle_ms: u64) -> Roles {
        let idle = Idle::Fixed(Duration::from_ms(idle_ms));
        let config = PairConfig { period: Duration::from_ms(1_000), idle, ..PairConfig::default() };
        let mut roles = Roles::new(&config, true);
        roles.serves(at(0));
        roles
    }

    const LEVEL: LeadState = LeadState {
        is_level: true,
        is_behind_on_record: false,
        reader_lacks: true,
        is_stuck: false,
        in_flight: 0,
        is_recorded: false,
        is_flushed: false,
    };

    /// At so many ms, with such a writer: the step, and what comes of it.
    type Row = (u64, LeadState, Option<Step>, fn(&mut Roles));

    /// A period with a rest of 100 ms, from its begin to the change: at a time, with such a writer.
    #[test]
    fn a_change_of_roles_is_flush_rest_flush_record() {
        let mut roles = serving(100);
        let behind = LeadState { is_behind_on_record: true, ..LEVEL };
        let busy = LeadState { in_flight: 2, ..LEVEL };
        let recording = LeadState { is_recorded: true, ..LEVEL };
        let table: &[Row] = &[
            (0, LeadState { is_level: false, ..behind }, None, |_| {}),
            (1, behind, Some(Step::FlushLevel), |_| {}),
            (2, LeadState { is_flushed: true, ..behind }, None, Roles::level_is_durable),
            (3, behind, Some(Step::RecordLevel), |_| {}),
            (4, LeadState { is_recorded: true, ..behind }, None, |_| {}),
            (899, LEVEL, None, |_| {}),
            (900, LeadState { reader_lacks: false, ..LEVEL }, None, |_| {}),
            (900, busy, None, |_| {}),
            (910, LEVEL, Some(Step::FlushWriter), |roles| {
                assert_eq!(roles.begins_rest(at(920)).1, Duration::from_ms(900));
            }),
            (930, LEVEL, None, |_| {}),
            (1_000, LEVEL, Some(Step::FlushNext), Roles::next_is_durable),
            (1_001, recording, None, |_| {}),
            (1_002, LEVEL, Some(Step::Record), |roles| {
                assert_eq!((roles.lead(), roles.reader()), (0, 0), "reads have moved");
                roles.turn(at(1_003));
                assert_eq!((roles.lead(), roles.reader()), (1, 0));
            }),
            (1_003, LEVEL, None, |_| {}),
        ];
        for (ms, writer, step, then) in table {
            assert_eq!(roles.step(at(*ms), writer), *step, "at {ms} ms");
            then(&mut roles);
        }
        assert_eq!((roles.turns(), roles.early_turns()), (1, 0));
    }

    /// As in the paper: a rest of 100 ms, or none, without a flush before it.
    #[test]
    fn a_writer_that_does_not_settle_rests_at_once() {
        for (idle_ms, due_ms) in [(100, 900), (0, 1_000)] {
            let idle = Idle::Fixed(Duration::from_ms(idle_ms));
            let period = Duration::from_ms(1_000);
            let config = PairConfig { period, idle, settles: false, ..PairConfig::default() };
            let mut roles = Roles::new(&config, false);
            roles.serves(at(0));
            assert_eq!(roles.step(at(due_ms - 1), &LEVEL), None);
            assert_eq!(roles.step(at(due_ms), &LeadState { in_flight: 1, ..LEVEL }), None);
            // what was under way took 5 ms of the rest
            assert_eq!(roles.step(at(due_ms + 5), &LEVEL), Some(Step::Rest));
            let (wrote_until, _) = roles.begins_rest(at(due_ms + 5));
            let ends = 1_000 + if idle_ms == 0 { 5 } else { 0 };
            assert_eq!(wrote_until, at(ends - idle_ms));
            if idle_ms > 0 {
                assert_eq!(roles.step(at(999), &LEVEL), None);
                assert_eq!(roles.due(at(999), true), at(1_000));
            }
            assert_eq!(roles.step(at(ends), &LEVEL), Some(Step::Turn));
            roles.turn(at(ends));
            assert_eq!((roles.lead(), roles.reader(), roles.turns()), (1, 0, 1));
        }
    }

    #[test]
    fn legs_without_roles_never_change_and_both_answer() {
        let config = PairConfig { role_rule: RoleRule::Alike, ..PairConfig::default() };
        let mut roles = Roles::new(&config, false);
        roles.serves(at(0));
        assert!(!roles.alternates() && !roles.takes_turns());
        assert_eq!(roles.due(at(0), true), Instant::NEVER);
        assert_eq!(roles.step(at(100_000), &LEVEL), None);
        assert_eq!(roles.answering(), [0, 1]);
        let dead = |leg| IoError::Dead(DeviceId(leg));
        roles.leg_dies(0, dead(0), 0);
        assert_eq!(roles.answering(), [1]);
        roles.leg_dies(1, dead(1), 0);
        assert!(roles.answering().is_empty());
    }

    #[test]
    fn a_write_that_waits_for_a_change_brings_it_about() {
        let mut roles = serving(0);
        let stuck = LeadState { is_stuck: true, ..LEVEL };
        assert_eq!(roles.step(at(5), &LeadState { in_flight: 1, ..stuck }), None);
        assert_eq!(roles.step(at(6), &stuck), Some(Step::FlushWriter));
        assert_eq!(roles.early_turns(), 1);
    }

    #[test]
    fn a_death_ends_a_change_of_roles() {
        let mut roles = serving(0);
        roles.step(at(1_000), &LEVEL);
        roles.begins_rest(at(1_001));
        roles.step(at(1_001), &LEVEL);
        roles.next_is_durable();
        let dead = IoError::Dead(tandem_block::DeviceId(0));
        let death = Death { leg: 0, survivor: 1, led: true, served: true };
        assert_eq!(roles.leg_dies(0, dead, 7), Some(death));
        assert_eq!(roles.leg_dies(0, dead, 7), None, "once");
        assert_eq!((roles.lead(), roles.reader(), roles.exposed()), (1, 1, Some(7)));
        assert!(roles.blocks_all() && !roles.takes_turns());
        assert_eq!(roles.step(at(1_002), &LEVEL), None);
        roles.alone_is_on_record();
        assert!(!roles.blocks_all());
    }

    /// Seen: the journal died, and then both legs before that was on record. Everything waited for the record.
    #[test]
    fn nothing_waits_for_a_record_of_dead_legs() {
        let mut roles = serving(100);
        roles.is_unjournaled();
        for (leg, blocks) in [(0, true), (1, false)] {
            assert!(roles.blocks_all());
            roles.leg_dies(leg, IoError::Dead(DeviceId(leg as u8)), 0);
            assert_eq!(roles.blocks_all(), blocks, "leg {leg}");
        }
    }
}
