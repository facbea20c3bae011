//! How often was it asked for?
//!
//! Source: Azor's counts of accesses, as [LORIS §III] tells of them.

use super::by_heat::{ByHeat, Measure};
use super::heat::Heat;
use super::{CollectConfig, CollectorEntry, Touch};

/// Registry line.
pub(crate) const ENTRY: CollectorEntry = CollectorEntry {
    name: "counts",
    summary: "every request heats an extent alike",
    source: "Loris, section III; Azor",
    ranks: true,
    build: |config| Box::new(ByHeat::<Counts, 0>::new(config)),
};

#[derive(Clone, Debug)]
struct Counts;

impl Measure<0> for Counts {
    fn new(_: &CollectConfig) -> Self {
        Counts
    }

    fn heat(&self, was: u64, _: &mut [u64; 0], _: &Touch, epoch: u32) -> u64 {
        Heat::from_number(was).plus(1, epoch).number()
    }
}
