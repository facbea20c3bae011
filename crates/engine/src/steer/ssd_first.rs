//! Where does this write go now? To the SSD, always: the baseline of every paper.
//!
//! Source: [BCW §5.1] "Baseline", [SERW slide "SFL mode"].

use super::{Decision, PolicyEntry, Reason, Steer, SteerView};
use crate::bcw::controller::Control;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "ssd-first",
    summary: "every write goes to the SSD (the papers' baseline, SFL)",
    source: "BCW 5.1, SERW",
    needs: (1, 0),
    settings: &[],
    build: |_, _| Box::new(SsdFirst),
};

#[derive(Clone, Copy, Debug)]
struct SsdFirst;

impl Steer for SsdFirst {
    fn decide(&mut self, _: &SteerView<'_>) -> Decision {
        Decision::stay(Reason::Policy)
    }

    fn control(&self) -> Option<Control> {
        None
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

    /// M1, S7: also beside an SSD with a long queue and an idle hard drive in its fast state.
    #[test]
    fn every_write_goes_to_the_ssd() {
        for queue in [0, 3, 10_000] {
            for bytes in [512, 4096, 8 << 20] {
                let (ssds, hdds) = ([ssd(0, queue)], [hdd(1)]);
                let mut view = view(&ssds, &hdds);
                (view.bytes, view.request_bytes) = (bytes, bytes);
                assert_eq!(SsdFirst.decide(&view).target, Target::Ssd, "{queue} {bytes}");
            }
        }
        assert_eq!(SsdFirst.control(), None, "hard drives are left alone");
    }
}
