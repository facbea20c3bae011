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
