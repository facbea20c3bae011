//! When is a journal on a hard drive written?
//!
//! Source: frontier D4, [BCW §4.2]: a hard drive takes a continuous stream of writes into its buffer in
//! microseconds until a stage of the buffer is used up. So units wait for such a window, and where it is
//! used up a flush opens the next one. FLUSH and FUA do not wait, nor does what would fill the ring or
//! the RAM. Nothing is padded: what keeps the stream going is written anyway, and without it the drive
//! drains by itself. A drive that is not what it is believed to be is written to as it comes.

use super::{Mirror, Phase};
use crate::bcw::controller::{Action, Control, Controller, State};
use crate::port::Command;
use crate::profile::HddProfile;

/// Units wait for a window until they would take this part of the ring.
const RING_PART: u64 = 8;
/// … or of the cache.
const CACHE_PART: u64 = 2;
/// No loops and no padding: flushes lead from one window to the next.
const LOOPS: u32 = 0;
const PADDING_BYTES_PER_DAY: u64 = 0;

/// What decides when a hard drive's journal is written.
pub(super) fn controller(profile: &HddProfile) -> Box<Controller> {
    let mut controller = Controller::new(profile.clone(), LOOPS, PADDING_BYTES_PER_DAY, true);
    controller.enable(Control::FastOnly);
    Box::new(controller)
}

impl Mirror {
    /// Writes the next unit, or flushes, if it is time.
    pub(super) fn run_windows(&mut self, out: &mut Vec<Command>) {
        if self.journal.is_busy() || self.journal.wants_flush() {
            return; // a hard drive is asked for one thing at a time
        }
        let bytes = self.journal.waiting_bytes.min(self.unit_bytes());
        let forced = self.is_pressed();
        let now = self.now;
        let Some(bcw) = &mut self.journal.bcw else { return };
        if bytes > 0 {
            bcw.note_demand(now, bytes);
            let fits = matches!(bcw.next(now, Some(bytes)), Action::Write);
            self.journal.waited += u64::from(!fits && forced);
            if fits || forced {
                self.compose(out);
                return;
            }
        }
        let Some(bcw) = &mut self.journal.bcw else { return };
        match bcw.next(now, None) {
            Action::Flush => self.journal.window_wanted = true,
            Action::Rest(at) if at > now => self.journal.ask_at = at,
            Action::Rest(_) | Action::Pad(_) | Action::Write | Action::Return => {}
        }
    }

    /// Does somebody wait, or would something be full, if units waited for a window?
    fn is_pressed(&self) -> bool {
        let journal = &self.journal;
        let lost = journal.bcw.as_ref().is_some_and(|bcw| {
            matches!(bcw.state(), State::Off | State::Faulted | State::Unreliable)
        });
        lost || self.flushes.is_waiting()
            || journal.is_urgent
            || self.phase == Phase::Stopping
            || journal.waiting_bytes > journal.ring_bytes() / RING_PART
            || self.cache.bytes() > self.config.cache_bytes / CACHE_PART
    }
}
