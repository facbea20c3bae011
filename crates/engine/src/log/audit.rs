//! What does an audit count of a log?

use super::{Log, SegmentState};
use crate::map::Run;

impl Log {
    /// Every segment: its slots, how many live, and whether it can be appended to from its beginning.
    pub(crate) fn segments_in_use(&self) -> impl Iterator<Item = (Run, u64, bool)> + '_ {
        (0..self.segments.len()).map(|index| {
            let segment = &self.segments[index];
            (self.segment_run(index), segment.live, segment.state == SegmentState::Free)
        })
    }

    /// Share of the log in use, in percent, counted by segment.
    pub(crate) fn used_percent_found(&self) -> u64 {
        let is_used = |state| state != SegmentState::Free;
        let used = self.segments.iter().filter(|segment| is_used(segment.state)).count();
        (used * 100 / self.segments.len()) as u64
    }
}
