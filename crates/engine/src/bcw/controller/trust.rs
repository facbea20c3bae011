//! May a drive be steered to that did not do as believed, and how is it measured anew?
//!
//! Source: requirements M11 and B6, frontier D6. What makes a drive unreliable is in `unreliability`.

use super::{
    Action, Controller, ControllerStats, FAST_PADDING_BYTES, Instant, SLOW_PADDING_BYTES, State,
    Unreliability,
};
use crate::bcw::predictor::WriteState;

/// May the drive be steered to, as far as its behaviour goes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It does as believed.
    Full,
    /// It did not; left alone until then.
    Away(Instant),
    /// It is being measured: slow writes still to be seen, and bytes padded since the last one.
    /// `None`: a flush comes first.
    Measured(Option<(u32, u64)>),
}

/// Slow writes that a new measurement waits for: one ends a fast stage, the others mid stages.
pub(super) const MEASURED_STAGES: u32 = 4;
/// The first paddings of a measured stage are small, to learn their latency too.
const MEASURED_SMALL: u64 = 8 * FAST_PADDING_BYTES;
/// Of so many stages that would be left as they are, used up, one is padded to its end.
const EXPLORED: u32 = 32;

impl Controller {
    /// Why steering to the drive has stopped, the latest reason, and since when; `None` if it has not.
    pub fn unreliable(&self) -> Option<(Unreliability, Instant)> {
        self.unreliable
    }

    /// What was counted until now, with the time away that has not ended.
    pub fn stats_at(&self, now: Instant) -> ControllerStats {
        let since = self.unreliable.map_or(now, |(_, since)| since);
        let unreliable_ns = self.stats.unreliable_ns + now.since(since).ns;
        ControllerStats { unreliable_ns, ..self.stats }
    }

    /// The stage is used up, and nobody asks for the next: is this one of those that are padded to
    /// their end all the same? Otherwise a policy that never pads would hide the slow writes from the
    /// learner (frontier D6). At most once a stage, and never with a user's write.
    pub(super) fn explores(&mut self) -> bool {
        let counted = std::mem::replace(&mut self.explorable.1, true);
        if counted || !self.model.learns() {
            return false;
        }
        self.explorable.0 += 1;
        if !self.explorable.0.is_multiple_of(EXPLORED) {
            return false;
        }
        self.state = State::Slow;
        self.pursued_bytes = 0;
        self.exploring = true;
        self.stats.explorations += 1;
        true
    }

    /// Steering to the drive stops.
    pub(super) fn stop(&mut self, now: Instant, why: Unreliability) {
        self.stats.unreliable_times[why as usize] += 1;
        let since = self.unreliable.map_or(now, |(_, since)| since);
        self.unreliable = Some((why, since));
        self.trust = Trust::Away(self.doubts.stop(now));
    }

    /// The drive is unreliable and idle: when its time away is over it is measured with padding, from
    /// an empty buffer through several slow writes.
    pub(super) fn regain(&mut self, now: Instant) -> Action {
        assert!(self.unreliable.is_some(), "a drive that is measured anew was unreliable");
        match self.trust {
            Trust::Full => unreachable!("asked before"),
            Trust::Away(until) if now < until => Action::Rest(until),
            Trust::Away(_) | Trust::Measured(None) => {
                self.trust = Trust::Measured(None);
                self.state = State::Syncing;
                Action::Flush
            }
            Trust::Measured(Some((_, padded))) => {
                let profile = self.model.profile();
                if padded >= 4 * profile.fast_stage_bytes.max(profile.mid_stage_bytes) {
                    self.stop(now, Unreliability::NoStaircase);
                    return self.regain(now);
                }
                let small = padded < MEASURED_SMALL;
                let bytes = if small { FAST_PADDING_BYTES } else { SLOW_PADDING_BYTES };
                if !self.budgets.take_padding(now, bytes) {
                    self.stats.budget_stops += 1;
                    self.trust = Trust::Away(self.doubts.stop(now));
                    return self.regain(now);
                }
                Action::Pad(bytes)
            }
        }
    }

    pub(super) fn measured(&mut self, now: Instant, bytes: u64, actual: WriteState) {
        let Trust::Measured(Some((stages, padded))) = &mut self.trust else { return };
        assert!(*stages > 0, "a measurement waits for a slow write");
        *padded += bytes;
        if actual == WriteState::Slow {
            (*stages, *padded) = (*stages - 1, 0);
            if *stages == 0 {
                self.trust = Trust::Full;
                self.stats = self.stats_at(now);
                self.unreliable = None;
                self.doubts.trusted(now);
                self.stats.measurements += 1;
            }
        }
    }
}
