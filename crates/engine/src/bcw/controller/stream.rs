//! How far into a stage do users' writes go, and what if the stream of the log breaks?
//!
//! Source: [BCW §4.1, Alg. 1] for the prediction; the guard at the end of a stage is `stage_bytes`,
//! the other drives of a set are requirements M12 [TOS abstract], a broken stream is B2.

use super::{
    Action, Control, Controller, FAST_PADDING_BYTES, Instant, SLOW_PADDING_BYTES, State, Trust,
    WriteState, predict,
};

impl Controller {
    /// May writes go to its log for which no SSD has room, whatever state its buffer is in?
    pub(crate) fn may_spill(&self, now: Instant) -> bool {
        self.state != State::Faulted && self.budgets.has_log_bytes(now)
    }

    /// May a write go there that may be slow, because it would wait for longer elsewhere? Only where slow writes are
    /// brought on when somebody wants them: elsewhere users never meet one.
    pub(crate) fn takes_slow(&self, now: Instant) -> bool {
        let runs = matches!(
            self.state,
            State::Fast | State::Mid | State::Slow | State::Suspended | State::Draining
        );
        let is_trusted = self.trust == Trust::Full;
        self.control == Control::OnDemand && runs && is_trusted && self.may_spill(now)
    }

    /// How many of the writes that were promised will be slow: one for each stage that they fill.
    pub(crate) fn slow_promised(&self) -> u64 {
        if self.control != Control::OnDemand {
            return 0;
        }
        let (fast, mid) = self.last_bounds();
        let stage = if self.last == WriteState::Fast { fast } else { mid };
        let promised = self.stage_bytes + self.committed_bytes;
        if promised <= stage { 0 } else { 1 + (promised - stage) / mid.max(1) }
    }

    /// The state that a write of this size would meet after everything already promised.
    pub(crate) fn predict(&mut self, now: Instant, bytes: u64) -> WriteState {
        self.decay(now);
        self.predict_in(self.bounds(), self.stage_bytes + self.committed_bytes, bytes)
    }

    pub(super) fn predict_after(&self, stage_bytes: u64, bytes: u64) -> WriteState {
        let usable = (self.model.fast_bytes(), self.model.mid_bytes());
        self.predict_in(usable, stage_bytes, bytes)
    }

    /// How far users' writes are sent into a (fast, mid) stage.
    pub(super) fn bounds(&self) -> (u64, u64) {
        if self.has_stand_in { self.model.certain_bytes() } else { self.last_bounds() }
    }

    /// … even if no other drive takes them.
    pub(super) fn last_bounds(&self) -> (u64, u64) {
        if self.is_one_of_several {
            return self.model.careful_bytes();
        }
        (self.model.fast_bytes(), self.model.mid_bytes())
    }

    /// It is one of several drives of a set, which need not go as far into their stages as one that is
    /// alone (M12).
    pub(crate) fn join_others(&mut self) {
        self.is_one_of_several = true;
    }

    pub(super) fn predict_in(
        &self,
        (fast, mid): (u64, u64),
        stage_bytes: u64,
        bytes: u64,
    ) -> WriteState {
        predict(self.last, stage_bytes, bytes, fast, mid)
    }

    /// Would the next write of the size that users want certainly not be slow? Then this drive can
    /// stand in for another one that is near the end of its stage.
    pub(crate) fn has_room(&self) -> bool {
        let takes = self.trust == Trust::Full && matches!(self.state, State::Fast | State::Mid);
        let bytes = self.wanted_bytes();
        let promised = self.stage_bytes + self.committed_bytes;
        takes && self.predict_in(self.model.certain_bytes(), promised, bytes) != WriteState::Slow
    }

    /// Does another drive of the set have room? Then this one keeps users' writes off the uncertain end
    /// of its stage, where slow writes may come early, and brings the slow write on by itself (M12).
    pub(crate) fn note_stand_in(&mut self, has_stand_in: bool) {
        self.has_stand_in = has_stand_in;
    }

    /// The next write is not where the last one ended: it pays for the way there, and what it takes says
    /// nothing of the buffer.
    pub(crate) fn stream_breaks(&mut self) {
        self.unplaced = true;
    }

    /// Size of the writes that users want to send here.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.demand_bytes.max(FAST_PADDING_BYTES)
    }

    /// The stream breaks after `left_bytes`, and users' next write does not fit before: padding over the
    /// break, if they want the drive now.
    pub(crate) fn pad_over_break(&mut self, now: Instant, left_bytes: u64) -> Option<Action> {
        let keeps = matches!(self.state(), State::Fast | State::Mid);
        if self.control == Control::Bare || !keeps || !self.has_demand(now) {
            return None;
        }
        let bytes = left_bytes.clamp(FAST_PADDING_BYTES, SLOW_PADDING_BYTES);
        Some(self.pad(now, bytes))
    }
}
