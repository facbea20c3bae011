//! Where does this data belong? On the SSD, until write-back takes it home.

use super::{Intention, Tier, TierEntry, TierView};

/// Registry line.
pub(crate) const ENTRY: TierEntry = TierEntry {
    name: "none",
    summary: "writes belong on the SSD until write-back takes them home",
    source: "design decision 10",
    settings: &[],
    presets: &[],
    build: |_| Box::new(None),
};

#[derive(Clone, Copy, Debug)]
struct None;

impl Tier for None {
    fn intend(&self, _: &TierView) -> Intention {
        Intention::Ssd
    }

    fn boxed_clone(&self) -> Box<dyn Tier> {
        Box::new(*self)
    }
}
