//! When is a journal on a hard drive written?
//!
//! Source: frontier D4, [BCW §4.2]: a hard drive takes a continuous stream of writes into its buffer in
//! microseconds until a stage of the buffer is used up. So units wait for such a window, and where it is
//! used up a flush opens the next one. FLUSH and FUA do not wait, nor does what would fill the ring or
//! the RAM. Nothing is padded: what keeps the stream going is written anyway, and without it the drive
//! drains by itself. A drive that is not what it is believed to be is written to as it comes.

use crate::bcw::controller::{Action, Control, Controller, State};
use crate::profile::HddProfile;
use tandem_block::Instant;

/// No loops and no padding: flushes lead from one window to the next.
const LOOPS: u32 = 0;
const PADDING_BYTES_PER_DAY: u64 = 0;

/// Decides when a hard drive's journal is written.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    bcw: Box<Controller>,
    /// When it wants to be asked again.
    ask_at: Instant,
    /// A flush opens the next window.
    flush_wanted: bool,
    /// Bytes that are with the drive; 0: none.
    part_bytes: u64,
    /// Units that were written although they would be slow.
    forced: u64,
}

impl Windows {
    pub(crate) fn new(profile: &HddProfile) -> Windows {
        let mut controller = Controller::new(profile.clone(), LOOPS, PADDING_BYTES_PER_DAY, true);
        controller.enable(Control::FastOnly);
        Windows {
            bcw: Box::new(controller),
            ask_at: Instant::NEVER,
            flush_wanted: false,
            part_bytes: 0,
            forced: 0,
        }
    }

    /// Data of a unit at most.
    pub(crate) fn unit_bytes_max(&self) -> u64 {
        self.bcw.write_bytes_max() / 2
    }

    pub(crate) fn ask_at(&self) -> Instant {
        self.ask_at
    }

    pub(crate) fn wants_flush(&self) -> bool {
        self.flush_wanted
    }

    /// Nothing is wanted any more.
    pub(crate) fn forgets(&mut self) {
        (self.flush_wanted, self.ask_at) = (false, Instant::NEVER);
    }

    /// It is being asked.
    pub(crate) fn is_asked(&mut self) {
        self.ask_at = Instant::NEVER;
    }

    /// The drive is given so much.
    pub(crate) fn takes(&mut self, now: Instant, bytes: u64) {
        assert_eq!(self.part_bytes, 0, "a hard drive is given one part after the other");
        assert!(bytes > 0, "a part of a unit has bytes");
        self.bcw.commit(now, bytes);
        self.bcw.issued(bytes, false);
        self.part_bytes = bytes;
    }

    /// The drive has written that.
    pub(crate) fn wrote(&mut self, issued: Instant, now: Instant) {
        let bytes = std::mem::take(&mut self.part_bytes);
        assert!(bytes > 0, "the drive has written what it was given");
        self.bcw.completed(now, bytes, now.since(issued), false);
    }

    pub(crate) fn flush_begins(&mut self, now: Instant) {
        self.flush_wanted = false;
        self.bcw.flush_issued(now);
    }

    pub(crate) fn flush_ends(&mut self, now: Instant, is_ok: bool) {
        self.bcw.flush_done(now, is_ok);
    }

    /// The head is written, which belongs to no stream.
    pub(crate) fn head_begins(&mut self) {
        self.bcw.disturbed(false);
    }

    pub(crate) fn head_ends(&mut self, now: Instant) {
        self.bcw.undisturbed(now);
    }

    /// Is the drive not what it is believed to be?
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.bcw.state(), State::Off | State::Faulted | State::Unreliable)
    }

    /// Is it time to write a unit of so many bytes, which somebody waits for or not? If not, a flush may
    /// be wanted now, or a question later.
    pub(crate) fn may_write(&mut self, now: Instant, bytes: u64, is_pressed: bool) -> bool {
        if bytes > 0 {
            self.bcw.note_demand(now, bytes);
            let fits = matches!(self.bcw.next(now, Some(bytes)), Action::Write);
            self.forced += u64::from(!fits && is_pressed);
            if fits || is_pressed {
                return true;
            }
        }
        match self.bcw.next(now, None) {
            Action::Flush => self.flush_wanted = true,
            Action::Rest(at) if at > now => self.ask_at = at,
            Action::Rest(_) | Action::Pad(_) | Action::Write | Action::Return => {}
        }
        false
    }

    pub(crate) fn state(&self) -> &'static str {
        self.bcw.state().name()
    }

    pub(crate) fn forced(&self) -> u64 {
        self.forced
    }
}
