//! What does an audit ask of the extents that come to an SSD?

use super::Stage;
use crate::map::Run;
use crate::tiering::Tiers;

impl Tiers {
    /// The slots of a run of an extent that comes.
    pub(crate) fn promoting_run(&self, number: u32, index: u32) -> Option<Run> {
        let arrivals = &self.share.as_ref()?.arrivals;
        let promoting = arrivals.promoting.iter().find(|promoting| promoting.number == number)?;
        promoting.runs.get(index as usize).map(|(_, run)| *run)
    }

    /// Extents that are being written, and how many commands each says that it waits for.
    pub(crate) fn promoting_counts(&self) -> Vec<(u32, u64)> {
        let Some(tiers) = &self.share else { return Vec::new() };
        let written = tiers.arrivals.promoting.iter().filter(|c| c.stage == Stage::Writing);
        written.map(|promoting| (promoting.number, u64::from(promoting.outstanding))).collect()
    }
}
