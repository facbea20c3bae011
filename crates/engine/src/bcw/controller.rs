//! What does this HDD do next: a user's write, padding, a flush, or rest?
//!
//! Source:  [BCW §4.2, Alg. 2], mended as listed in B2.
//! Names:   flagHDD → accepting(), ADW → stage_bytes (+ committed_bytes), Loop_max → loops_max
//! Differs: * a state machine driven by events, where the paper loops and spins;
//!          * the predictor is asked before every issue, and a user's write that would be slow goes
//!            back to steering instead of into the slow state;
//!          * "write P_S until the slow state is seen" has a byte limit, then a flush;
//!          * bytes in the stage decay: after the drive's own idle drain it is fast again for free;
//!          * users' writes keep off the end of a stage as far as its spread is known, and further while
//!            another drive has room; where the log does not go on, padding makes the way (`stream`);
//!          * padding stops when nobody has redirected for a while, and when its budget is spent.
//!          * how much of this a policy wants is its `Control`: MIOS all of it, others less.
//! Tests:   `controller/tests.rs`, per state, event and control.

use self::budget::Budgets;
pub use self::stats::ControllerStats;
use self::trust::{MEASURED_STAGES, Trust};
use super::padding::{FAST_PADDING_BYTES, SLOW_PADDING_BYTES};
use super::predictor::{WriteState, predict};
use super::recalibrate::{Origin, Recalibration, Written};
use super::unreliability::{Doubts, Look, Unreliability};
use crate::profile::HddProfile;
use tandem_block::{Duration, Instant};

/// What the controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No policy redirects to this drive.
    Off,
    /// A flush is under way that begins a sequence.
    Syncing,
    /// The buffer has room: fast writes.
    Fast,
    /// Between slow writes: mid writes.
    Mid,
    /// The stage is used up: padding until a slow write is seen. Users go elsewhere.
    Slow,
    /// A read is being served; it has broken the stream.
    Suspended,
    /// Write-back or log GC has the drive.
    Gc,
    /// Resting until the drive has drained its buffer by itself.
    Draining,
    /// The drive is not what it is believed to be: left alone for a while, then measured anew.
    Unreliable,
    /// The drive failed.
    Faulted,
}

impl State {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            State::Off => "off",
            State::Syncing => "syncing",
            State::Fast => "fast",
            State::Mid => "mid",
            State::Slow => "slow",
            State::Suspended => "suspended",
            State::Gc => "gc",
            State::Draining => "draining",
            State::Unreliable => "unreliable",
            State::Faulted => "faulted",
        }
    }
}

/// How much of the drive's buffer a policy wants controlled. In order of strength: where volumes of
/// one drive differ the strongest wins, because a policy that supposes less of the drive also works
/// when more is done for it, and not the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Control {
    /// None: writes are always taken, slow or not, and the predictor only counts (SeRW, SWR).
    #[default]
    Bare,
    /// The drive drains by itself; padding brings on a slow write only while writes that found no
    /// place here wait for a congested SSD (ours, frontier D1 and D2).
    OnDemand,
    /// No padding: when the fast stage is used up and there is demand, a flush begins the next
    /// sequence. Paper: BCW's F-only variant, [BCW Fig. 12].
    FastOnly,
    /// [BCW Alg. 2]: padding keeps the stream continuous and brings on the slow writes.
    Full,
}

/// What to do with the idle drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Issue the first waiting user write.
    Write,
    /// Hand all waiting user writes back to steering.
    Return,
    /// Write this much padding.
    Pad(u64),
    /// Flush the drive.
    Flush,
    /// Nothing; ask again at this instant if nothing happens before (`NEVER`: only then).
    Rest(Instant),
}

/// Without a redirected write for this long there is no demand, and padding stops: two idle drains
/// of the slowest buffer known (guess).
const DEMAND: Duration = Duration::from_ms(200);
/// A write that found no place here for this long counts as waiting, for padding on demand: a few
/// slow writes (guess).
const MISSED: Duration = Duration::from_ms(50);

/// In place of pursued bytes: all stage pairs of the sequence are used, a flush begins the next.
const SEQUENCE_OVER: u64 = u64::MAX;

/// The controller of one drive.
#[derive(Clone, Debug)]
pub struct Controller {
    model: Recalibration,
    doubts: Doubts,
    trust: Trust,
    /// Why it is not trusted, and since when.
    unreliable: Option<(Unreliability, Instant)>,
    /// Where the drive stands in its stages follows from what was seen: nothing but log writes and reads
    /// since it was last known.
    is_known: bool,
    /// The next write is the first after a disturbance: the head must find the log again.
    unplaced: bool,
    /// No other drive of the set takes writes just now.
    is_last: bool,
    /// Another drive of the set takes writes and has room for them.
    has_stand_in: bool,
    is_one_of_several: bool,
    /// The stage that a read interrupted, until paddings look like it again, and how many have.
    interrupted: Option<(WriteState, u32)>,
    /// The stage under way is padded to its end for the learner.
    exploring: bool,
    /// Stages that might have been explored, and whether the present one was counted.
    explorable: (u32, bool),
    /// When the flush under way was issued, and what it found, by the model.
    flushing: Option<(Instant, u64)>,
    loops_max: u32,
    control: Control,
    state: State,
    /// State of the last write. Paper: the argument of Algorithm 1.
    last: WriteState,
    stage_bytes: u64,
    committed_bytes: u64,
    loops: u32,
    pursued_bytes: u64,
    surprises: u32,
    last_command: Instant,
    last_demand: Instant,
    /// When a write was last not taken although the SSD was congested.
    last_missed: Instant,
    /// Size of the write that was wanted last.
    demand_bytes: u64,
    budgets: Budgets,
    /// What was predicted for the write in flight.
    predicted: WriteState,
    /// For results.
    pub stats: ControllerStats,
}

impl Controller {
    /// A controller at rest. A fresh drive's buffer is empty, so it begins fast. `recalibrate`: the
    /// profile is where the model begins, not where it ends.
    pub(crate) fn new(
        profile: HddProfile,
        loops_max: u32,
        padding_bytes_per_day: u64,
        recalibrate: bool,
    ) -> Self {
        Controller {
            model: Recalibration::new(profile, recalibrate),
            doubts: Doubts::default(),
            trust: Trust::Full,
            unreliable: None,
            is_known: false,
            unplaced: false,
            is_last: false,
            has_stand_in: false,
            is_one_of_several: false,
            interrupted: None,
            exploring: false,
            explorable: (0, false),
            flushing: None,
            loops_max,
            control: Control::Bare,
            state: State::Off,
            last: WriteState::Fast,
            stage_bytes: 0,
            committed_bytes: 0,
            loops: 0,
            pursued_bytes: 0,
            surprises: 0,
            last_command: Instant::ZERO,
            last_demand: Instant::ZERO,
            last_missed: Instant::ZERO,
            demand_bytes: 0,
            budgets: Budgets::new(padding_bytes_per_day),
            predicted: WriteState::Fast,
            stats: ControllerStats::default(),
        }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        match (self.trust, self.state) {
            (Trust::Away(_) | Trust::Measured(_), state) if state != State::Faulted => {
                State::Unreliable
            }
            (_, state) => state,
        }
    }

    /// The profile that it works with now.
    pub(crate) fn profile(&self) -> &HddProfile {
        self.model.profile()
    }

    /// A policy wants to redirect to this drive from now on, and supposes this much control of it.
    /// The state of its buffer is unknown.
    pub(crate) fn enable(&mut self, control: Control) {
        self.control = self.control.max(control);
        if self.state == State::Off {
            self.state = State::Draining;
        }
    }

    /// May users' writes go to this drive? Paper: `flagHDD`.
    pub(crate) fn accepting(&mut self, now: Instant) -> bool {
        self.decay(now);
        if self.trust != Trust::Full || !self.budgets.takes_log_writes(now, self.committed_bytes) {
            return false;
        }
        match self.control {
            Control::Bare => !matches!(self.state, State::Off | State::Suspended | State::Faulted),
            Control::FastOnly => self.state == State::Fast,
            Control::OnDemand | Control::Full => matches!(self.state, State::Fast | State::Mid),
        }
    }

    /// Is it the last drive of its set that takes writes, while another one is due back?
    pub(crate) fn note_last(&mut self, is_last: bool) {
        self.is_last = is_last;
    }

    /// How much is done for the policies.
    pub(crate) fn control(&self) -> Control {
        self.control
    }

    /// State of the last write.
    pub(crate) fn last_state(&self) -> WriteState {
        self.last
    }

    /// Bytes that were steered here and not issued yet.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }

    /// The largest write that can ever be fast or mid; without control any size will do.
    pub(crate) fn write_bytes_max(&self) -> u64 {
        if self.control == Control::Bare {
            return u64::MAX;
        }
        let stage_bytes = self.model.mid_bytes().min(self.model.fast_bytes());
        assert!(stage_bytes > 0, "a stage takes some bytes");
        stage_bytes - 1
    }

    /// A user's write was steered here.
    pub(crate) fn commit(&mut self, now: Instant, bytes: u64) {
        self.committed_bytes += bytes;
        self.note_wanted(now, bytes);
    }

    /// A steered write was given back unissued.
    pub(crate) fn uncommit(&mut self, bytes: u64) {
        assert!(self.committed_bytes >= bytes, "more given back than was committed");
        self.committed_bytes -= bytes;
    }

    /// Would redirect if it could: a policy found the drive not accepting, and its SSD congested.
    pub(crate) fn note_demand(&mut self, now: Instant, bytes: u64) {
        self.last_missed = now;
        self.note_wanted(now, bytes);
    }

    fn note_wanted(&mut self, now: Instant, bytes: u64) {
        self.last_demand = now;
        // a write that takes most of a stage must not make every stage look used up
        if bytes <= self.model.mid_bytes() / 2 {
            self.demand_bytes = bytes;
        }
    }

    /// Does a policy want this drive now?
    pub(crate) fn is_wanted(&self, now: Instant) -> bool {
        let usable = !matches!(self.state(), State::Off | State::Faulted | State::Unreliable);
        usable && self.has_demand(now)
    }

    /// When demand ends if no more of it comes.
    pub(crate) fn demand_ends(&self) -> Instant {
        self.last_demand + DEMAND
    }

    fn has_demand(&self, now: Instant) -> bool {
        // zero: there was none yet, which the first seconds of an event loop must not take for demand
        self.last_demand > Instant::ZERO && now.since(self.last_demand) < DEMAND
    }

    fn is_missed(&self, now: Instant) -> bool {
        self.last_missed > Instant::ZERO && now.since(self.last_missed) < MISSED
    }

    /// When the drive will have drained its buffer if nothing reaches it before.
    fn drained_at(&self) -> Instant {
        let profile = self.model.profile();
        let dirty_bytes = profile.fast_stage_bytes + self.stage_bytes;
        let drain_ns =
            u128::from(dirty_bytes) * 1_000_000_000 / u128::from(profile.drain_bytes_per_s.max(1));
        let drain = Duration::from_ns(u64::try_from(drain_ns).unwrap_or(u64::MAX));
        self.drains_from() + drain
    }

    /// When the drive begins to drain its buffer if nothing reaches it before.
    #[inline]
    fn drains_from(&self) -> Instant {
        self.last_command + Duration::from_ns(self.model.profile().drain_idle_ns)
    }

    /// If the drive has been left alone long enough, its buffer is empty and it is fast again.
    #[inline]
    fn decay(&mut self, now: Instant) {
        let resting = matches!(self.state, State::Fast | State::Mid | State::Draining);
        // the first comparison spares a busy drive the division
        if resting && now >= self.drains_from() && now >= self.drained_at() {
            // a stage of which nothing was used stays as certain as it was
            let still_fast = self.last == WriteState::Fast && self.stage_bytes == 0;
            if !(still_fast && self.state == State::Fast) {
                self.model.begin_stage(Origin::Rest);
            }
            self.begin_fast();
        }
    }

    fn begin_fast(&mut self) {
        self.state = State::Fast;
        self.is_known = true;
        self.interrupted = None;
        self.last = WriteState::Fast;
        self.stage_bytes = 0;
        self.loops = 0;
        self.surprises = 0;
        self.exploring = false;
        self.explorable.1 = false;
    }

    fn begin_slow(&mut self) {
        self.state = State::Slow;
        // without padding only a flush leads on
        self.pursued_bytes = if self.control == Control::FastOnly { SEQUENCE_OVER } else { 0 };
    }

    /// The drive is idle: what now? `waiting` is the size of the first waiting user write.
    pub(crate) fn next(&mut self, now: Instant, waiting: Option<u64>) -> Action {
        self.decay(now);
        if self.control == Control::Bare {
            return self.next_bare(waiting);
        }
        let is_trusted = self.trust == Trust::Full;
        assert_eq!(is_trusted, self.unreliable.is_none(), "a drive is left alone for a reason");
        if !is_trusted && !matches!(self.state, State::Off | State::Faulted) {
            return if waiting.is_some() { Action::Return } else { self.regain(now) };
        }
        match (self.state, waiting) {
            (
                State::Off | State::Faulted | State::Unreliable | State::Syncing | State::Gc,
                None,
            ) => Action::Rest(Instant::NEVER),
            (State::Mid, Some(_)) if self.control == Control::FastOnly => Action::Return,
            (State::Fast | State::Mid, Some(bytes)) => {
                let bounds = self.last_bounds();
                match self.predict_in(bounds, self.stage_bytes, bytes) {
                    WriteState::Slow => Action::Return,
                    WriteState::Fast | WriteState::Mid => Action::Write,
                }
            }
            (State::Suspended, None) => self.resume(now),
            (State::Fast | State::Mid, None) => self.keep_going(now),
            (State::Slow, None) => self.pursue(now),
            (State::Draining, None) if self.control == Control::OnDemand => self.resume(now),
            (State::Draining, None) => Action::Rest(self.drained_at()),
            (_, Some(_)) => Action::Return,
        }
    }

    /// Without control: what waits is written, and that is all. After a disturbance nobody knows
    /// where in its stage the drive stands.
    fn next_bare(&mut self, waiting: Option<u64>) -> Action {
        match (self.state, waiting) {
            (State::Off | State::Faulted, Some(_)) => return Action::Return,
            (State::Off | State::Faulted | State::Syncing, None) => {}
            (State::Fast | State::Mid, _) => {}
            (_, None) => self.state = State::Draining,
            (_, Some(_)) => {
                self.state = State::Mid;
                self.last = WriteState::Mid;
                self.stage_bytes = 0;
            }
        }
        if waiting.is_some() { Action::Write } else { Action::Rest(Instant::NEVER) }
    }

    /// Nobody waits in the fast or mid state.
    fn keep_going(&mut self, now: Instant) -> Action {
        // M20: near the end of a stage the slow write is brought on before a user meets it. Near is
        // when the next write of the size that users want does not fit any more.
        let wanted = if self.has_demand(now) { self.demand_bytes } else { 0 };
        let next_bytes = wanted.max(FAST_PADDING_BYTES);
        let next = self.predict_in(self.bounds(), self.stage_bytes, next_bytes);
        let used_up = next == WriteState::Slow;
        if self.control == Control::OnDemand && !(used_up && self.is_missed(now)) {
            if used_up && self.explores() {
                return self.pursue(now);
            }
            // smaller writes may still fit; what nobody uses drains
            return Action::Rest(Instant::NEVER);
        }
        if used_up || (self.control == Control::FastOnly && self.state == State::Mid) {
            if self.control != Control::FastOnly || self.state == State::Mid || !self.explores() {
                self.begin_slow();
            }
            return self.pursue(now);
        }
        if self.state == State::Fast {
            return Action::Rest(Instant::NEVER);
        }
        if !self.has_demand(now) {
            return self.rest();
        }
        self.pad(now, FAST_PADDING_BYTES)
    }

    fn pursue(&mut self, now: Instant) -> Action {
        assert_eq!(self.state, State::Slow, "users go elsewhere while a slow write is brought on");
        if !self.exploring && !self.is_pursuable(now) {
            return self.rest();
        }
        let profile = self.model.profile();
        let limit = profile.fast_stage_bytes.max(profile.mid_stage_bytes);
        if self.pursued_bytes >= limit {
            if self.pursued_bytes != SEQUENCE_OVER {
                self.stats.padding_limits += 1;
                if self.model.outlasted(self.last, self.stage_bytes) {
                    self.doubts.limit_reached();
                }
            }
            if self.control == Control::OnDemand || self.exploring {
                return self.rest();
            }
            self.state = State::Syncing;
            return Action::Flush;
        }
        self.pad(now, SLOW_PADDING_BYTES)
    }

    /// Is there reason to take the drive from everybody, to bring on its next stage?
    fn is_pursuable(&self, now: Instant) -> bool {
        match self.control {
            Control::OnDemand => self.is_missed(now),
            _ => self.has_demand(now),
        }
    }

    fn resume(&mut self, now: Instant) -> Action {
        if !self.is_pursuable(now) {
            return self.rest();
        }
        // where in its stage the drive stands is unknown: a slow write tells (M23), or that it looks
        // as it did before
        self.last = self.interrupted.map_or(WriteState::Mid, |interrupted| interrupted.0);
        self.begin_slow();
        self.pursue(now)
    }

    fn rest(&mut self) -> Action {
        self.state = State::Draining;
        self.exploring = false;
        Action::Rest(self.drained_at())
    }

    fn pad(&mut self, now: Instant, bytes: u64) -> Action {
        assert!(bytes <= SLOW_PADDING_BYTES, "padding is no longer than its buffer");
        if !self.budgets.take_padding(now, bytes) {
            self.stats.budget_stops += 1;
            return self.rest();
        }
        Action::Pad(bytes)
    }

    /// A buffered write (user or padding) goes to the drive now.
    pub(crate) fn issued(&mut self, bytes: u64, padding: bool) {
        self.predicted = self.predict_after(self.stage_bytes, bytes);
        if !padding {
            self.uncommit(bytes);
        }
    }

    /// Anything but a log write goes to the drive: the stream is broken.
    pub(crate) fn disturbed(&mut self, read: bool) {
        if !matches!(self.state, State::Off | State::Faulted) {
            self.interrupted = match self.state {
                _ if !read || !self.model.learns() => None,
                State::Fast | State::Mid | State::Draining if self.is_known => {
                    let fast = self.last == WriteState::Fast;
                    Some((if fast { WriteState::Fast } else { WriteState::Mid }, 0))
                }
                State::Suspended => self.interrupted,
                _ => None,
            };
            self.is_known &= read;
            self.stats.suspensions += u64::from(read && self.state != State::Suspended);
            self.state = if read { State::Suspended } else { State::Gc };
            self.unplaced = true;
            self.exploring = false;
            self.model.begin_stage(Origin::Unknown);
            if let Trust::Measured(_) = self.trust {
                // begins anew
                self.trust = Trust::Measured(None);
            }
        }
    }

    /// The disturbance is over.
    pub(crate) fn undisturbed(&mut self, now: Instant) {
        assert!(now >= self.last_command, "commands end in the order of time");
        self.last_command = now;
        let over = self.control == Control::Bare && self.state == State::Suspended;
        if self.state == State::Gc || over {
            self.state = State::Draining;
        }
    }

    /// A flush goes to the drive.
    pub(crate) fn flush_issued(&mut self, now: Instant) {
        self.flushing = Some((now, self.dirty_bytes()));
        if !matches!(self.state, State::Off | State::Faulted) {
            self.state = State::Syncing;
        }
    }

    /// The flush is done.
    pub(crate) fn flush_done(&mut self, now: Instant, ok: bool) {
        assert!(now >= self.last_command, "commands end in the order of time");
        self.last_command = now;
        if let (Some((issued, dirty_bytes)), true) = (self.flushing.take(), ok) {
            self.model.flushed(dirty_bytes, now.since(issued));
        }
        if !ok {
            self.state = State::Faulted;
        } else if matches!(self.state, State::Syncing | State::Faulted) {
            self.begin_fast();
            self.model.begin_stage(Origin::Flush);
            if self.trust == Trust::Measured(None) {
                self.trust = Trust::Measured(Some((MEASURED_STAGES, 0)));
            }
        }
    }

    /// What the buffer holds, by the model.
    fn dirty_bytes(&self) -> u64 {
        match self.state {
            State::Fast => self.stage_bytes,
            _ => self.profile().fast_stage_bytes + self.profile().mid_stage_bytes,
        }
    }

    /// The drive failed: no more writes to it.
    pub(crate) fn fault(&mut self) {
        self.state = State::Faulted;
    }

    /// What a flush would take now, in ns, by the model.
    pub(crate) fn flush_cost_ns(&self) -> u64 {
        let profile = self.profile();
        let drain_ns = u128::from(self.dirty_bytes()) * 1_000_000_000
            / u128::from(profile.drain_bytes_per_s.max(1));
        profile.flush_base_ns + u64::try_from(drain_ns).unwrap_or(u64::MAX)
    }
}

mod budget;
mod completed;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod trust;
