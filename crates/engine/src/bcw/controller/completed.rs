//! What does a completed write tell: where does the drive stand now, and is it as believed?
//!
//! Source: [BCW §4.1] (the actual state follows from size and latency), requirements M15 and M23.

use super::trust::Trust;
use super::{
    Control, Controller, Duration, FAST_PADDING_BYTES, Instant, Look, Origin, SEQUENCE_OVER, State,
    WriteState, Written,
};

/// Writes in a row that contradict the believed stage before it is corrected: one may be noise.
const SURPRISES_MAX: u32 = 4;

impl Controller {
    /// A command of the drive has ended: it drains by itself when nothing comes for a while.
    pub(super) fn note_command(&mut self, now: Instant) {
        assert!(now >= self.last_command, "commands end in the order of time");
        self.last_command = now;
    }

    /// The write in flight is done. Returns the state that it met.
    pub(crate) fn completed(
        &mut self,
        now: Instant,
        bytes: u64,
        latency: Duration,
        padding: bool,
    ) -> WriteState {
        let gap = Duration::from_ns(now.since(self.last_command).ns.saturating_sub(latency.ns));
        self.note_command(now);
        let actual = self.model.classify(bytes, latency);
        self.stats.confusion.count(actual, self.predicted);
        if padding {
            if bytes == FAST_PADDING_BYTES {
                self.stats.fast_padding_bytes += bytes;
            } else {
                self.stats.slow_padding_bytes += bytes;
            }
        } else {
            self.budgets.spend_log(now, bytes);
            self.stats.user_slow_writes += u64::from(actual == WriteState::Slow);
        }
        if !matches!(self.state, State::Fast | State::Mid | State::Slow) {
            return actual;
        }
        let believed = if self.last == WriteState::Slow { WriteState::Mid } else { self.last };
        let stage_bytes = self.stage_bytes;
        let written = Written { bytes, latency, gap, believed, actual, stage_bytes };
        if self.has_to_find_its_place(&written) {
            self.stage_bytes += bytes;
            self.pursued_bytes = self.pursued_bytes.saturating_add(bytes);
            return actual;
        }
        self.learn(now, &written);
        if actual == WriteState::Slow {
            self.passed_slow(now);
        } else {
            self.advance(actual, bytes);
        }
        self.measured(now, bytes, actual);
        actual
    }

    /// The first write after a disturbance pays for the head's way back: what it took says nothing of
    /// the buffer.
    pub(super) fn has_to_find_its_place(&mut self, written: &Written) -> bool {
        let first = std::mem::take(&mut self.unplaced);
        let profile = self.model.profile();
        let longest_ns = profile.slow_latency_ns.max(2 * profile.position_ns);
        first && written.latency.ns <= longest_ns && self.model.learns()
    }

    /// The model follows what was seen, and doubts with it.
    pub(super) fn learn(&mut self, now: Instant, written: &Written) {
        if !self.model.learns() {
            return;
        }
        let odd = self.model.is_odd(written);
        let slow = written.actual == WriteState::Slow;
        let surprising = slow && self.predicted != WriteState::Slow && self.state != State::Slow;
        self.stats.surprises += u64::from(surprising);
        self.model.learn(written);
        let (slow_ns, latency) = (self.model.profile().slow_latency_ns, written.latency);
        let found = self.doubts.look(now, &Look { slow, surprising, odd, slow_ns, latency });
        if let Some(why) = found
            && self.control != Control::Bare
        {
            self.stop(now, why);
        }
    }

    pub(super) fn passed_slow(&mut self, now: Instant) {
        self.model.begin_stage(Origin::Slow);
        self.is_known = true;
        self.interrupted = None;
        self.exploring = false;
        self.explorable.1 = false;
        self.last = WriteState::Slow;
        self.stage_bytes = 0;
        self.surprises = 0;
        self.loops += 1;
        self.state = State::Mid;
        let ends = match self.control {
            // the last one on guard goes on for as long again, rather than leave for a flush
            Control::Full => self.loops > self.loops_max << u32::from(self.is_last),
            Control::FastOnly => true,
            Control::OnDemand | Control::Bare => false,
        };
        if ends && self.trust == Trust::Full {
            // the sequence ends; with demand the next one begins with a flush
            self.state = if self.has_demand(now) { State::Slow } else { State::Draining };
            self.pursued_bytes = SEQUENCE_OVER;
        }
    }

    pub(super) fn advance(&mut self, actual: WriteState, bytes: u64) {
        let believed = if self.last == WriteState::Slow { WriteState::Mid } else { self.last };
        self.stage_bytes += bytes;
        self.last = believed;
        if self.state == State::Slow {
            self.pursued_bytes = self.pursued_bytes.saturating_add(bytes);
            self.go_on_as_before(actual);
        }
        if actual == believed || self.model.is_certain() {
            self.surprises = 0;
            return;
        }
        self.surprises += 1;
        if self.surprises < SURPRISES_MAX || self.state == State::Slow {
            return;
        }
        // the drive is in another stage than believed: it drained, or came past a slow write unseen
        self.surprises = 0;
        match actual {
            WriteState::Fast => self.model.drained_early(),
            WriteState::Mid | WriteState::Slow => self.model.did_not_drain(),
        }
        self.model.begin_stage(Origin::Unknown);
        self.last = actual;
        self.state = if actual == WriteState::Fast { State::Fast } else { State::Mid };
        self.stage_bytes = bytes * u64::from(SURPRISES_MAX);
    }

    /// After a read: a few paddings in a row that look like the stage that it interrupted are as good as
    /// a slow write, and cost less than a stage of padding.
    pub(super) fn go_on_as_before(&mut self, actual: WriteState) {
        let Some((before, looks)) = self.interrupted else { return };
        assert!(before != WriteState::Slow, "a stage is fast or mid");
        if actual != before {
            self.interrupted = None;
        } else if looks + 1 < SURPRISES_MAX {
            self.interrupted = Some((before, looks + 1));
        } else {
            self.interrupted = None;
            self.model.begin_stage(Origin::Resumed);
            self.state = if before == WriteState::Fast { State::Fast } else { State::Mid };
        }
    }
}
