//! When are blocks merged with the fragments over them, and which one is next?
//!
//! Source: design decision 9. A merge may read a hard drive, which shall rest. So the quiet is for merges once they are
//! many. How one goes on is in `migration/merge.rs`.

use crate::io::DeviceIo;
use crate::map::{Logical, Map};

/// Blocks in parts that are tolerated before they are merged without waiting for idle time (guess).
const FRAGMENTED_MAX: u64 = 65_536;
/// They are merged in the quiet when they are as many as this share of the slots of the SSDs (guess).
const FRAGMENTED_SHARE: u64 = 64;

/// How far merging has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merging {
    /// Blocks in parts are being merged, until none is left.
    is_under_way: bool,
    cursor: Logical,
}

impl Merging {
    /// Are there so many blocks in parts that the quiet is for them?
    pub(super) fn wants_quiet(&self, map: &Map) -> bool {
        wants_quiet(map.population().fragmented, map.ssd_slots(), self.is_under_way)
    }

    /// The next block to merge, if it is time for one.
    pub(crate) fn next(&mut self, map: &Map, io: &DeviceIo) -> Option<Logical> {
        let fragmented = map.population().fragmented;
        if fragmented == 0 || io.is_fixed() {
            self.is_under_way = false;
            return None;
        }
        let presses = fragmented >= FRAGMENTED_MAX || io.waits_for_space();
        let has_time = io.is_quiet() && self.wants_quiet(map);
        if !presses && !has_time {
            return None;
        }
        self.is_under_way = true;
        let block = map.next_fragmented(self.cursor).or_else(|| map.next_fragmented(0))?;
        self.cursor = block + 1;
        Some(block)
    }
}

fn wants_quiet(fragmented: u64, ssd_slots: u64, is_under_way: bool) -> bool {
    let many = (ssd_slots / FRAGMENTED_SHARE).clamp(1, FRAGMENTED_MAX);
    fragmented >= many || fragmented > 0 && is_under_way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quiet_is_for_many_and_then_for_all() {
        for (fragmented, ssd_slots, is_under_way, wanted) in [
            (0, 0, true, false),
            (1, 0, false, true),
            (1, 63, false, true),
            (63, 4_096, false, false),
            (64, 4_096, false, true),
            (1, 4_096, true, true),
            (0, 4_096, true, false),
            (FRAGMENTED_MAX - 1, u64::MAX, false, false),
            (FRAGMENTED_MAX, u64::MAX, false, true),
        ] {
            let wants = wants_quiet(fragmented, ssd_slots, is_under_way);
            assert_eq!(wants, wanted, "{fragmented} of {ssd_slots}, {is_under_way}");
        }
    }
}
