//! Where does this write go now? To the SSD, always: the baseline of every paper.
//!
//! Source: [BCW §5.1] "Baseline", [SERW slide "SFL mode"].

use super::{Decision, PolicyEntry, Reason, Steer, SteerView, Target};

/// Registry line.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "ssd-first",
    summary: "every write goes to the SSD (the papers' baseline, SFL)",
    source: "BCW 5.1, SERW",
    settings: &[],
    build: |_| Box::new(SsdFirst),
};

#[derive(Clone, Copy, Debug)]
struct SsdFirst;

impl Steer for SsdFirst {
    fn decide(&self, _: &SteerView<'_>) -> Decision {
        Decision { target: Target::Ssd, reason: Reason::Policy }
    }

    fn redirects(&self) -> bool {
        false
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(*self)
    }
}
