//! How does a pair end its life?
//!
//! Both legs get everything and are flushed, and their records say that they are equal.

use super::roles::{Phase, Roles};

/// What has to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Legs that live are flushed.
    Flush,
    /// Their records say that they are equal.
    Record,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    wanted: bool,
    flushing: bool,
    flushed: [bool; 2],
}

impl Stop {
    /// The engine has stopped and sends nothing more.
    pub(crate) fn is_wanted(&mut self) {
        self.wanted = true;
    }

    /// The pair ends; returns whether it takes nothing more from now on, and what it has is to be
    /// written.
    pub(crate) fn begin(&mut self, roles: &mut Roles) -> bool {
        if !self.wanted || roles.phase() == Phase::Stopped {
            return false;
        }
        if !roles.is_durable() || roles.are_dead() {
            roles.has_stopped();
            return false;
        }
        // a change of roles that has begun ends first
        let begins = matches!(roles.phase(), Phase::Serving | Phase::Draining);
        if begins {
            roles.stops();
        }
        begins
    }

    /// What has to be done next, when nothing else is left to do.
    pub(crate) fn step(&mut self, roles: &Roles) -> Option<Step> {
        assert_eq!(roles.phase(), Phase::Stopping, "a pair that ends takes nothing more");
        if !self.flushing {
            self.flushing = true;
            return Some(Step::Flush);
        }
        let flushed = (0..2).all(|leg| !roles.is_alive(leg) || self.flushed[leg]);
        flushed.then_some(Step::Record)
    }

    /// A leg died: what was flushed so far counts for nothing.
    pub(crate) fn leg_died(&mut self) {
        (self.flushing, self.flushed) = (false, [false; 2]);
    }

    pub(crate) fn is_flushed(&mut self, leg: usize) {
        self.flushed[leg] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::PairConfig;
    use super::*;
    use tandem_block::{DeviceId, Instant, IoError};

    #[test]
    fn both_legs_are_flushed_and_then_told_and_a_death_begins_it_again() {
        let mut roles = Roles::new(&PairConfig::default(), true);
        let mut stop = Stop::default();
        roles.serves(Instant::ZERO);
        assert!(!stop.begin(&mut roles), "not wanted");
        stop.is_wanted();
        assert!(stop.begin(&mut roles) && !stop.begin(&mut roles), "once");
        assert_eq!(stop.step(&roles), Some(Step::Flush));
        stop.is_flushed(0);
        assert_eq!(stop.step(&roles), None);
        roles.leg_dies(1, IoError::Dead(DeviceId(1)), 0);
        stop.leg_died();
        assert_eq!(stop.step(&roles), Some(Step::Flush));
        stop.is_flushed(0);
        assert_eq!(stop.step(&roles), Some(Step::Record));
        roles.leg_dies(0, IoError::Dead(DeviceId(0)), 0);
        assert!(!stop.begin(&mut roles) && roles.phase() == Phase::Stopped);
    }
}
