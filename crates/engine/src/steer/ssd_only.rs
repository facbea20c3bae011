//! Where does this write go now? To the SSD, and it stays there.
//!
//! Source: P7 of the requirements: a server of one kind of drive. As ssd-first, but nothing is
//! written home in the quiet: a hard drive, if there is one, only takes what the SSD has no room
//! for. So it shows what the second tier costs, and needs no hard drive at all.

use super::{Decision, PolicyEntry, Reason, Steer, SteerView};
use crate::bcw::controller::Control;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ssd-only",
    summary: "every write goes to the SSD and stays there until its space runs out",
    source: "P7: one kind of drive",
    needs: (1, 0),
    settings: &[],
    build: |_, _| Box::new(SsdOnly),
};

#[derive(Clone, Copy, Debug)]
struct SsdOnly;

impl Steer for SsdOnly {
    fn decide(&mut self, _: &SteerView<'_>) -> Decision {
        Decision::stay(Reason::Policy)
    }

    fn control(&self) -> Option<Control> {
        None
    }

    fn writes_home_when_quiet(&self) -> bool {
        false
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::Target;
    use crate::steer::test_views::{hdd, ssd, view};

    #[test]
    fn p7_hard_drives_are_left_alone() {
        let (ssds, hdds) = ([ssd(0, 10_000)], [hdd(1)]);
        assert_eq!(SsdOnly.decide(&view(&ssds, &hdds)).target, Target::Ssd);
        assert_eq!(SsdOnly.control(), None);
        assert!(!SsdOnly.writes_home_when_quiet(), "what is written stays");
    }
}
