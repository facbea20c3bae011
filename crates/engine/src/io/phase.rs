//! The life of an engine, from its creation to its stop.

use super::DeviceIo;
use tandem_block::Instant;

/// Life of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for `Event::Start`.
    Created,
    /// Formats or recovers.
    Starting,
    /// Serves.
    Running,
    /// Takes nothing new and settles.
    Stopping,
    /// Over.
    Stopped,
}

impl DeviceIo {
    /// Where in its life the engine is.
    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// It goes on to this phase: never back.
    pub(crate) fn enter(&mut self, phase: Phase) {
        assert!(phase as u8 >= self.phase as u8, "{:?} comes before {:?}", phase, self.phase);
        self.phase = phase;
    }

    /// Is the engine past its start?
    #[inline]
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Stopping)
    }

    /// Does it settle what there is, and take nothing new?
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase == Phase::Stopping
    }

    /// A user asks for something.
    #[inline]
    pub(crate) fn note_request(&mut self) {
        self.last_request = self.now;
    }

    /// Has no user asked for anything for `writeback_idle`?
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.now >= self.quiet_from()
    }

    /// When it is quiet, if no user asks for anything.
    pub(crate) fn quiet_from(&self) -> Instant {
        self.last_request + self.config.writeback_idle
    }
}
