//! Where does this write go now? To the log of a hard drive, as long as one can take it.
//!
//! Source: P7 of the requirements: a server of one kind of drive. The logs are written plainly,
//! without padding. An SSD beside them holds the journal, takes FUA writes, and what no log has room
//! for (a full log, a tail at its bound); `--ssd none` is the drive truly alone.

use super::{Decision, PolicyEntry, Reason, Steer, SteerView};
use crate::bcw::controller::Control;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "hdd-only",
    summary: "every write goes to a hard drive's log, which is written plainly",
    source: "P7: one kind of drive",
    needs: (0, 1),
    settings: &[],
    build: |_, _| Box::new(HddOnly),
};

#[derive(Clone, Copy, Debug)]
struct HddOnly;

impl Steer for HddOnly {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        match view.soonest_hdd() {
            Some(hdd) => Decision::go(hdd, Reason::HddOnly),
            None => Decision::stay(Reason::NotAccepting),
        }
    }

    fn weighs_time(&self) -> bool {
        false
    }

    fn control(&self) -> Option<Control> {
        Some(Control::Bare)
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
    use tandem_block::DeviceId;

    #[test]
    fn p7_every_write_goes_to_a_log_that_takes_it() {
        for (accepting, want) in [(true, Target::Log(DeviceId(1))), (false, Target::Ssd)] {
            let mut drive = hdd(1);
            drive.accepting = accepting;
            let (ssds, hdds) = ([ssd(0, 0)], [drive]);
            assert_eq!(HddOnly.decide(&view(&ssds, &hdds)).target, want, "{accepting}");
        }
        assert_eq!(HddOnly.control(), Some(Control::Bare), "nothing is padded");
    }
}
