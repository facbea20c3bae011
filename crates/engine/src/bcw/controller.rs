//! What does this HDD do next: a user's write, padding, a flush, or rest?
//!
//! Source:  [BCW §4.2, Alg. 2], mended as listed in B2.
//! Names:   flagHDD → accepting(), ADW → stage_bytes (+ committed_bytes), Loop_max → loops_max
//! Differs: * a state machine driven by events, where the paper loops and spins;
//!          * the predictor is asked before every issue, and a user's write that would be slow goes
//!            back to steering instead of into the slow state;
//!          * "write P_S until the slow state is seen" has a byte limit, then a flush;
//!          * bytes in the stage decay: after the drive's own idle drain it is fast again for free;
//!          * padding stops when nobody has redirected for a while, and when its budget is spent.
//! Tests:   below, per state and event.

use super::padding::{FAST_PADDING_BYTES, PaddingBudget, SLOW_PADDING_BYTES};
use super::predictor::{Confusion, WriteState, predict};
use crate::profile::{HddProfile, latency_ns};
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
    /// The drive failed.
    Faulted,
}

/// What to do with the idle drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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
/// Writes in a row that contradict the believed stage before it is corrected: one may be noise.
const SURPRISES_MAX: u32 = 4;

/// In place of pursued bytes: all stage pairs of the sequence are used, a flush begins the next.
const SEQUENCE_OVER: u64 = u64::MAX;

/// Counts for results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerStats {
    /// Actual against predicted states of all buffered writes, padding included.
    pub confusion: Confusion,
    /// Users' writes that met the slow state: the figure of merit.
    pub user_slow_writes: u64,
    /// Bytes of padding in the mid state.
    pub fast_padding_bytes: u64,
    /// Bytes of padding to bring on slow writes.
    pub slow_padding_bytes: u64,
    /// Times the byte limit on padding was reached and a flush took over.
    pub padding_limits: u64,
    /// Times the padding budget was spent.
    pub budget_stops: u64,
}

/// The controller of one drive.
#[derive(Clone, Debug)]
pub struct Controller {
    profile: HddProfile,
    loops_max: u32,
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
    /// Size of the write that was wanted last.
    demand_bytes: u64,
    budget: PaddingBudget,
    /// What was predicted for the write in flight.
    predicted: WriteState,
    /// For results.
    pub stats: ControllerStats,
}

impl Controller {
    /// A controller at rest. A fresh drive's buffer is empty, so it begins fast.
    pub fn new(profile: HddProfile, loops_max: u32, padding_bytes_per_day: u64) -> Self {
        Controller {
            profile,
            loops_max,
            state: State::Off,
            last: WriteState::Fast,
            stage_bytes: 0,
            committed_bytes: 0,
            loops: 0,
            pursued_bytes: 0,
            surprises: 0,
            last_command: Instant::ZERO,
            last_demand: Instant::ZERO,
            demand_bytes: 0,
            budget: PaddingBudget::new(padding_bytes_per_day),
            predicted: WriteState::Fast,
            stats: ControllerStats::default(),
        }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// The belief it works with.
    pub fn profile(&self) -> &HddProfile {
        &self.profile
    }

    /// A policy wants to redirect to this drive from now on. The state of its buffer is unknown.
    pub fn enable(&mut self) {
        if self.state == State::Off {
            self.state = State::Draining;
        }
    }

    /// May users' writes go to this drive? Paper: `flagHDD`.
    pub fn accepting(&mut self, now: Instant) -> bool {
        self.decay(now);
        matches!(self.state, State::Fast | State::Mid)
    }

    /// The state that a write of this size would meet after everything already promised.
    pub fn predict(&mut self, now: Instant, bytes: u64) -> WriteState {
        self.decay(now);
        self.predict_after(self.stage_bytes + self.committed_bytes, bytes)
    }

    fn predict_after(&self, stage_bytes: u64, bytes: u64) -> WriteState {
        let (fast, mid) = (self.profile.fast_stage_bytes, self.profile.mid_stage_bytes);
        predict(self.last, stage_bytes, bytes, fast, mid)
    }

    /// The largest write that can ever be fast or mid.
    pub fn write_bytes_max(&self) -> u64 {
        self.profile.mid_stage_bytes.min(self.profile.fast_stage_bytes) - 1
    }

    /// A user's write was steered here.
    pub fn commit(&mut self, now: Instant, bytes: u64) {
        self.committed_bytes += bytes;
        self.note_demand(now, bytes);
    }

    /// A steered write was given back unissued.
    pub fn uncommit(&mut self, bytes: u64) {
        assert!(self.committed_bytes >= bytes, "more given back than was committed");
        self.committed_bytes -= bytes;
    }

    /// Would redirect if it could: a policy found the drive not accepting.
    pub fn note_demand(&mut self, now: Instant, bytes: u64) {
        self.last_demand = now;
        // a write that takes most of a stage must not make every stage look used up
        if bytes <= self.profile.mid_stage_bytes / 2 {
            self.demand_bytes = bytes;
        }
    }

    /// Does a policy want this drive now?
    pub fn is_wanted(&self, now: Instant) -> bool {
        !matches!(self.state, State::Off | State::Faulted) && self.has_demand(now)
    }

    /// When demand ends if no more of it comes.
    pub fn demand_ends(&self) -> Instant {
        self.last_demand + DEMAND
    }

    fn has_demand(&self, now: Instant) -> bool {
        // zero: there was none yet, which the first seconds of a world must not take for demand
        self.last_demand > Instant::ZERO && now.since(self.last_demand) < DEMAND
    }

    /// When the drive will have drained its buffer if nothing reaches it before.
    fn drained_at(&self) -> Instant {
        let dirty_bytes = self.profile.fast_stage_bytes + self.stage_bytes;
        let drain_ns = u128::from(dirty_bytes) * 1_000_000_000
            / u128::from(self.profile.drain_bytes_per_s.max(1));
        let drain = Duration::from_ns(u64::try_from(drain_ns).unwrap_or(u64::MAX));
        self.drains_from() + drain
    }

    /// When the drive begins to drain its buffer if nothing reaches it before.
    #[inline]
    fn drains_from(&self) -> Instant {
        self.last_command + Duration::from_ns(self.profile.drain_idle_ns)
    }

    /// If the drive has been left alone long enough, its buffer is empty and it is fast again.
    #[inline]
    fn decay(&mut self, now: Instant) {
        let resting = matches!(self.state, State::Fast | State::Mid | State::Draining);
        // the first comparison spares a busy drive the division
        if resting && now >= self.drains_from() && now >= self.drained_at() {
            self.begin_fast();
        }
    }

    fn begin_fast(&mut self) {
        self.state = State::Fast;
        self.last = WriteState::Fast;
        self.stage_bytes = 0;
        self.loops = 0;
        self.surprises = 0;
    }

    fn begin_slow(&mut self) {
        self.state = State::Slow;
        self.pursued_bytes = 0;
    }

    /// The drive is idle: what now? `waiting` is the size of the first waiting user write.
    pub fn next(&mut self, now: Instant, waiting: Option<u64>) -> Action {
        self.decay(now);
        match (self.state, waiting) {
            (State::Off | State::Faulted, None) | (State::Syncing | State::Gc, None) => {
                Action::Rest(Instant::NEVER)
            }
            (State::Fast | State::Mid, Some(bytes)) => {
                if self.predict_after(self.stage_bytes, bytes) == WriteState::Slow {
                    return Action::Return;
                }
                Action::Write
            }
            (State::Suspended, None) => self.resume(now),
            (State::Fast | State::Mid, None) => self.keep_going(now),
            (State::Slow, None) => self.pursue(now),
            (State::Draining, None) => Action::Rest(self.drained_at()),
            (_, Some(_)) => Action::Return,
        }
    }

    /// Nobody waits in the fast or mid state.
    fn keep_going(&mut self, now: Instant) -> Action {
        // M20: near the end of a stage the slow write is brought on before a user meets it. Near is
        // when the next write of the size that users want does not fit any more.
        let wanted = if self.has_demand(now) { self.demand_bytes } else { 0 };
        let next_bytes = wanted.max(FAST_PADDING_BYTES);
        if self.predict_after(self.stage_bytes, next_bytes) == WriteState::Slow {
            self.begin_slow();
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
        if !self.has_demand(now) {
            return self.rest();
        }
        let limit = self.profile.fast_stage_bytes.max(self.profile.mid_stage_bytes);
        if self.pursued_bytes >= limit {
            if self.pursued_bytes != SEQUENCE_OVER {
                self.stats.padding_limits += 1;
            }
            self.state = State::Syncing;
            return Action::Flush;
        }
        self.pad(now, SLOW_PADDING_BYTES)
    }

    fn resume(&mut self, now: Instant) -> Action {
        if !self.has_demand(now) {
            return self.rest();
        }
        // where in its stage the drive stands is unknown: a slow write tells
        self.last = WriteState::Mid;
        self.begin_slow();
        self.pursue(now)
    }

    fn rest(&mut self) -> Action {
        self.state = State::Draining;
        Action::Rest(self.drained_at())
    }

    fn pad(&mut self, now: Instant, bytes: u64) -> Action {
        if !self.budget.take(now, bytes) {
            self.stats.budget_stops += 1;
            return self.rest();
        }
        Action::Pad(bytes)
    }

    /// A buffered write (user or padding) goes to the drive now.
    pub fn issued(&mut self, bytes: u64, padding: bool) {
        self.predicted = self.predict_after(self.stage_bytes, bytes);
        if !padding {
            self.uncommit(bytes);
        }
    }

    /// The write in flight is done. Returns the state that it met.
    pub fn completed(
        &mut self,
        now: Instant,
        bytes: u64,
        latency: Duration,
        padding: bool,
    ) -> WriteState {
        self.last_command = now;
        let actual = self.classify(bytes, latency);
        self.stats.confusion.count(actual, self.predicted);
        if padding {
            if bytes == FAST_PADDING_BYTES {
                self.stats.fast_padding_bytes += bytes;
            } else {
                self.stats.slow_padding_bytes += bytes;
            }
        } else if actual == WriteState::Slow {
            self.stats.user_slow_writes += 1;
        }
        if !matches!(self.state, State::Fast | State::Mid | State::Slow) {
            return actual;
        }
        if actual == WriteState::Slow {
            self.passed_slow(now);
        } else {
            self.advance(actual, bytes);
        }
        actual
    }

    fn passed_slow(&mut self, now: Instant) {
        self.last = WriteState::Slow;
        self.stage_bytes = 0;
        self.surprises = 0;
        self.loops += 1;
        self.state = State::Mid;
        if self.loops > self.loops_max {
            // the sequence ends; with demand the next one begins with a flush
            self.state = if self.has_demand(now) { State::Slow } else { State::Draining };
            self.pursued_bytes = SEQUENCE_OVER;
        }
    }

    fn advance(&mut self, actual: WriteState, bytes: u64) {
        let believed = if self.last == WriteState::Slow { WriteState::Mid } else { self.last };
        self.stage_bytes += bytes;
        self.last = believed;
        if self.state == State::Slow {
            self.pursued_bytes = self.pursued_bytes.saturating_add(bytes);
        }
        if actual == believed {
            self.surprises = 0;
            return;
        }
        self.surprises += 1;
        if self.surprises < SURPRISES_MAX || self.state == State::Slow {
            return;
        }
        // the drive is in another stage than believed: it drained, or came past a slow write unseen
        self.surprises = 0;
        self.last = actual;
        self.state = if actual == WriteState::Fast { State::Fast } else { State::Mid };
        self.stage_bytes = bytes * u64::from(SURPRISES_MAX);
    }

    /// [BCW §4.1]: the actual state follows from size and latency.
    pub fn classify(&self, bytes: u64, latency: Duration) -> WriteState {
        let fast_ns = latency_ns(&self.profile.fast_latency, bytes);
        let mid_ns = latency_ns(&self.profile.mid_latency, bytes);
        if latency.ns >= mid_ns + self.profile.slow_latency_ns / 2 {
            WriteState::Slow
        } else if latency.ns > fast_ns + (mid_ns.saturating_sub(fast_ns)) / 2 {
            WriteState::Mid
        } else {
            WriteState::Fast
        }
    }

    /// Anything but a log write goes to the drive: the stream is broken.
    pub fn disturbed(&mut self, read: bool) {
        if !matches!(self.state, State::Off | State::Faulted) {
            self.state = if read { State::Suspended } else { State::Gc };
        }
    }

    /// The disturbance is over.
    pub fn undisturbed(&mut self, now: Instant) {
        self.last_command = now;
        if self.state == State::Gc {
            self.state = State::Draining;
        }
    }

    /// A flush goes to the drive.
    pub fn flush_issued(&mut self) {
        if !matches!(self.state, State::Off | State::Faulted) {
            self.state = State::Syncing;
        }
    }

    /// The flush is done.
    pub fn flush_done(&mut self, now: Instant, ok: bool) {
        self.last_command = now;
        if !ok {
            self.state = State::Faulted;
        } else if self.state == State::Syncing {
            self.begin_fast();
        }
    }

    /// The drive failed: no more writes to it.
    pub fn fault(&mut self) {
        self.state = State::Faulted;
    }

    /// What a flush would take now, in ns, by belief.
    pub fn flush_cost_ns(&self) -> u64 {
        let dirty = match self.state {
            State::Fast => self.stage_bytes,
            _ => self.profile.fast_stage_bytes + self.profile.mid_stage_bytes,
        };
        let drain_ns =
            u128::from(dirty) * 1_000_000_000 / u128::from(self.profile.drain_bytes_per_s.max(1));
        self.profile.flush_base_ns + u64::try_from(drain_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_block::{KIB, MIB};

    fn profile() -> HddProfile {
        HddProfile {
            fast_latency: vec![(4 * KIB, 35_000), (16 * KIB, 66_000), (64 * KIB, 180_000)],
            mid_latency: vec![(4 * KIB, 55_000), (16 * KIB, 135_000), (64 * KIB, 280_000)],
            slow_latency_ns: 12_000_000,
            fast_stage_bytes: 16 * MIB,
            mid_stage_bytes: 8 * MIB,
            drain_idle_ns: 50_000_000,
            drain_bytes_per_s: 200_000_000,
            flush_base_ns: 200_000_000,
            position_ns: 14_000_000,
        }
    }

    const FAST: Duration = Duration::from_us(180);
    const MID: Duration = Duration::from_us(280);
    const SLOW: Duration = Duration::from_us(12_180);

    fn fast() -> (Controller, Instant) {
        let mut c = Controller::new(profile(), 10, u64::MAX);
        c.enable();
        let now = Instant::ZERO + Duration::from_s(1);
        assert!(c.accepting(now), "rested for a second: fast");
        (c, now)
    }

    fn write(c: &mut Controller, now: &mut Instant, latency: Duration) -> WriteState {
        c.commit(*now, 64 * KIB);
        c.issued(64 * KIB, false);
        *now += latency;
        c.completed(*now, 64 * KIB, latency, false)
    }

    #[test]
    fn b2_a_user_never_runs_into_the_predicted_slow_write() {
        let (mut c, mut now) = fast();
        for _ in 0..255 {
            assert_eq!(c.next(now, Some(64 * KIB)), Action::Write);
            write(&mut c, &mut now, FAST);
        }
        // 255 x 64 KiB are in the stage; one more would fill it exactly, which is slow
        assert_eq!(c.predict(now, 64 * KIB), WriteState::Slow);
        assert_eq!(c.next(now, Some(64 * KIB)), Action::Return);
        assert_eq!(c.next(now, Some(4 * KIB)), Action::Write, "a smaller one still fits");
    }

    #[test]
    fn b2_committed_bytes_count_before_they_are_written() {
        let (mut c, now) = fast();
        for _ in 0..255 {
            c.commit(now, 64 * KIB);
        }
        assert_eq!(c.predict(now, 64 * KIB), WriteState::Slow);
        c.uncommit(64 * KIB);
        assert_eq!(c.predict(now, 64 * KIB), WriteState::Fast);
    }

    #[test]
    fn bcw_algorithm_2_pads_through_slow_into_mid_and_keeps_the_stream() {
        let (mut c, mut now) = fast();
        for _ in 0..255 {
            write(&mut c, &mut now, FAST);
        }
        c.commit(now, 60 * KIB);
        c.issued(60 * KIB, false);
        c.completed(now, 60 * KIB, FAST, false);
        assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES));
        assert_eq!(c.state(), State::Slow);
        assert!(!c.accepting(now), "users go elsewhere while the slow write is brought on");
        c.issued(SLOW_PADDING_BYTES, true);
        now += SLOW;
        assert_eq!(c.completed(now, SLOW_PADDING_BYTES, SLOW, true), WriteState::Slow);
        assert_eq!(c.state(), State::Mid);
        assert!(c.accepting(now));
        assert_eq!(c.predict(now, 64 * KIB), WriteState::Mid);
        assert_eq!(c.next(now, None), Action::Pad(FAST_PADDING_BYTES));
        write(&mut c, &mut now, MID);
        assert_eq!(c.stats.user_slow_writes, 0);
        assert_eq!(c.stats.confusion.counts[2], [0, 0, 1], "the slow write was predicted");
    }

    #[test]
    fn b2_after_an_idle_drain_the_drive_is_fast_for_free() {
        let (mut c, mut now) = fast();
        for _ in 0..200 {
            write(&mut c, &mut now, FAST);
        }
        assert_eq!(c.predict(now, 7 * MIB), WriteState::Slow);
        now += Duration::from_ms(500);
        assert_eq!(c.predict(now, 7 * MIB), WriteState::Fast);
    }

    #[test]
    fn b2_without_demand_padding_stops_and_the_drive_rests() {
        let (mut c, mut now) = fast();
        c.profile.drain_idle_ns = 900_000_000; // longer than demand lasts
        for _ in 0..256 {
            write(&mut c, &mut now, FAST);
        }
        write(&mut c, &mut now, SLOW);
        assert_eq!(c.state(), State::Mid);
        assert_eq!(c.stats.user_slow_writes, 1);
        now += DEMAND;
        assert!(matches!(c.next(now, None), Action::Rest(at) if at > now));
        assert_eq!(c.state(), State::Draining);
    }

    #[test]
    fn b2_padding_that_never_sees_a_slow_write_ends_in_a_flush() {
        let (mut c, mut now) = fast();
        c.note_demand(now, 4096);
        c.disturbed(true);
        assert!(!c.accepting(now));
        let mut padded = 0;
        loop {
            c.note_demand(now, 4096);
            match c.next(now, None) {
                Action::Pad(bytes) => {
                    padded += bytes;
                    c.issued(bytes, true);
                    now += MID;
                    c.completed(now, bytes, MID, true);
                }
                Action::Flush => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(padded, 16 * MIB);
        assert_eq!(c.stats.padding_limits, 1);
        c.flush_done(now, true);
        assert_eq!(c.state(), State::Fast);
    }

    #[test]
    fn a_spent_budget_means_rest() {
        let mut c = Controller::new(profile(), 10, 100 * KIB);
        c.enable();
        let now = Instant::ZERO + Duration::from_s(1);
        assert!(c.accepting(now));
        c.disturbed(true);
        c.note_demand(now, 4096);
        assert_eq!(c.next(now, None), Action::Pad(SLOW_PADDING_BYTES));
        assert!(matches!(c.next(now, None), Action::Rest(_)));
        assert_eq!(c.stats.budget_stops, 1);
    }

    #[test]
    fn a_failed_flush_is_a_faulted_drive() {
        let (mut c, now) = fast();
        c.flush_issued();
        assert_eq!(c.next(now, Some(4096)), Action::Return);
        c.flush_done(now, false);
        assert_eq!(c.state(), State::Faulted);
        assert!(!c.accepting(now + Duration::from_s(9)));
    }
}
