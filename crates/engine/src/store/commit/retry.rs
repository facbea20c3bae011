//! Suspended commits: when is a step tried again that no other drive can stand in for?
//!
//! After three tries who waits is answered with the error. Each FLUSH after that brings about one more.

use super::participants::Participants;
use super::{Commit, Stage};
use crate::io::DeviceIo;
use crate::mutant::Mutant;
use crate::store::Store;
use tandem_block::{Duration, Instant, IoError};

/// Tries of a step before who waits for it is answered with the error.
pub(super) const TRIES_MAX: u32 = 3;
/// The pause before the second try of a step, before the third one, and before each one after it (guess).
const PAUSES: [Duration; 3] = [Duration::from_ms(100), Duration::from_s(1), Duration::from_s(5)];

/// A step that failed, and is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub(super) error: IoError,
    pub(super) tries: u32,
    next: Instant,
    /// A try is under way.
    tried: bool,
}

impl Commit {
    /// A step has failed that no other drive can stand in for.
    pub(super) fn suspend(&mut self, now: Instant, error: IoError) {
        assert!(
            matches!(self.stage, Stage::Writing | Stage::Telling) && self.outstanding == 0,
            "units, or the telling, are suspended when their commands have ended"
        );
        let tries = self.suspended.map_or(0, |suspended| suspended.tries) + 1;
        let pause = PAUSES[(tries as usize - 1).min(PAUSES.len() - 1)];
        self.suspended = Some(Suspended { error, tries, next: now + pause, tried: false });
    }

    /// When a suspended step is tried again, if anybody waits for that.
    pub(super) fn retry_due(&self) -> Instant {
        let Some(suspended) = self.suspended.filter(|suspended| !suspended.tried) else {
            return Instant::NEVER;
        };
        let awaited = suspended.tries < TRIES_MAX || self.waiting() > 0;
        if awaited { suspended.next } else { Instant::NEVER }
    }

    /// A step of the commit failed. Who has waited for several tries is answered.
    pub(super) fn suspend_commit(
        &mut self,
        error: IoError,
        participants: &mut dyn Participants,
        io: &DeviceIo,
    ) {
        self.suspend(io.now(), error);
        if self.is_broken() {
            self.answer(Err(error), participants);
        }
    }

    /// The superblocks could not be told who missed a unit.
    pub(crate) fn telling_failed(
        &mut self,
        error: IoError,
        participants: &mut dyn Participants,
        io: &DeviceIo,
    ) {
        if self.stage == Stage::Telling {
            self.suspend_commit(error, participants, io);
        }
    }
}

impl Store {
    /// Tries the step of a suspended commit again, if it is time, and there is anything to make durable.
    pub(super) fn retry_commit(&mut self, participants: &mut dyn Participants, io: &mut DeviceIo) {
        if io.breaks(Mutant::NeverTriesAgain) {
            return;
        }
        let Some(suspended) = &mut self.commit.suspended else { return };
        let is_wanted = suspended.tries < TRIES_MAX
            || !self.commit.flush_waiting.is_empty()
            || !self.commit.fua_waiting.is_empty()
            || self.commit.oldest_pending.is_some()
            || io.waits_for_space();
        if suspended.tried || io.now() < suspended.next || !is_wanted {
            return;
        }
        suspended.tried = true;
        self.commit.failed = None;
        match self.commit.stage {
            Stage::Writing => self.commit.send_unit(participants, &self.metadata, io),
            Stage::Telling => self.end_told(participants, io),
            Stage::Idle | Stage::Tails | Stage::Flushing => {
                unreachable!("units that are composed, or the telling, are suspended")
            }
        }
    }
}
