//! Where does this write go now? To the SSD that was given the fewest bytes so far.
//!
//! Source:  [BCW §5.2] "an extra SSD", where the workload is distributed equally over two; P6.
//! Differs: equal in bytes, not in requests, and over any number of SSDs. Under fixed placement,
//!          where a block has one place, the SSDs are striped.
//! Tests:   below.

use super::{Decision, PolicyEntry, Reason, Steer, SteerView};
use crate::bcw::controller::Control;
use std::collections::BTreeMap;
use tandem_block::DeviceId;

/// Registry line.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "even-split",
    summary: "writes are spread evenly over two or more SSDs, none goes to a hard drive",
    source: "BCW 5.2, Fig. 14 (the extra SSD)",
    needs: (2, 0),
    settings: &[],
    build: |_, _| Box::new(EvenSplit::default()),
};

#[derive(Clone, Debug, Default)]
struct EvenSplit {
    given_bytes: BTreeMap<DeviceId, u64>,
}

impl Steer for EvenSplit {
    fn decide(&mut self, view: &SteerView<'_>) -> Decision {
        let given = |device| self.given_bytes.get(&device).copied().unwrap_or(0);
        let next = view.ssds.iter().map(|ssd| (given(ssd.device), ssd.device)).min();
        let Some((_, device)) = next else { return Decision::stay(Reason::EvenSplit) };
        *self.given_bytes.entry(device).or_default() += view.bytes;
        Decision::on(device, Reason::EvenSplit)
    }

    fn control(&self) -> Option<Control> {
        None
    }

    fn is_asked(&self) -> bool {
        true
    }

    fn stripes(&self) -> bool {
        true
    }

    fn boxed_clone(&self) -> Box<dyn Steer> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::Target;
    use crate::steer::test_views::{ssd, view};

    #[test]
    fn bytes_are_even_whatever_the_sizes() {
        let ssds = [ssd(0, 5), ssd(1, 0)];
        let mut split = EvenSplit::default();
        let went = [65_536, 4096, 4096, 131_072, 4096, 4096].map(|bytes| {
            let mut view = view(&ssds, &[]);
            view.bytes = bytes;
            match split.decide(&view).target {
                Target::ThisSsd(device) => device.0,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(went, [0, 1, 1, 1, 0, 0], "fewest bytes so far, not the shorter queue");
    }
}
