//! When are blocks merged with the fragments over them, and which one is next?
//!
//! Source: design decision 9. A merge may read a hard drive, which shall rest. So the quiet is for merges once they are
//! many. How one goes on is in `migration/merge.rs`.

use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Logical, Map, NONE};

/// Blocks in parts that are tolerated before they are merged without waiting for idle time (guess).
const FRAGMENTED_MAX: u64 = 65_536;
/// They are merged in the quiet when they are as many as this share of the slots of the SSDs (guess).
const FRAGMENTED_SHARE: u64 = 64;

/// Blocks that one step looks at.
const LOOK_MAX: u64 = 64;

/// How far merging has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merging {
    /// Blocks in parts are being merged, until none is left.
    is_under_way: bool,
    cursor: Logical,
    /// Blocks in a row that could not be merged.
    barren: u64,
}

impl Merging {
    /// Are there so many blocks in parts that the quiet is for them?
    pub(super) fn wants_quiet(&self, map: &Map) -> bool {
        wants_quiet(map.population().fragmented, map.ssd_slots(), self.is_under_way)
    }

    /// The next block to merge, if it is time for one. `can_move`: may this one be?
    pub(super) fn next(
        &mut self,
        map: &Map,
        io: &DeviceIo,
        can_move: impl Fn(Logical) -> bool,
    ) -> Option<Logical> {
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
        self.is_under_way = self.is_under_way || has_time;
        for _ in 0..LOOK_MAX {
            let next = map.next_fragmented(self.cursor).or_else(|| map.next_fragmented(0));
            let block = next.expect("there are blocks in parts");
            self.cursor = block + 1;
            if can_move(block) {
                self.barren = 0;
                return Some(block);
            }
            self.barren += 1;
            if self.barren >= fragmented {
                // none of them can be merged now: the quiet is not for them
                (self.barren, self.is_under_way) = (0, false);
                return None;
            }
        }
        None
    }
}

/// Does the drive answer on which the block lies that is merged with its fragments? A read would fail else, and all
/// other moves rest after that.
pub(super) fn is_readable(block: Logical, map: &Map, objects: &Objects, io: &DeviceIo) -> bool {
    let entry = map.entry(block);
    let slot = if entry.ssd != NONE { entry.ssd } else { entry.log };
    let device = match slot {
        NONE => objects.home_of(block, io).0,
        slot => map.slots().region(slot).device,
    };
    !io[device].is_faulted() && !io[device].is_gone()
}

fn wants_quiet(fragmented: u64, ssd_slots: u64, is_under_way: bool) -> bool {
    let many = (ssd_slots / FRAGMENTED_SHARE).clamp(1, FRAGMENTED_MAX);
    fragmented >= many || fragmented > 0 && is_under_way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::map::SlotRegion;
    use tandem_block::DeviceId;

    /// A block whose drive is gone would fail, and all moves rest after one that failed.
    #[test]
    fn blocks_that_cannot_be_merged_are_passed_and_end_the_merging() {
        let mut io = drives(1, 1);
        io.note_wait_for_space();
        let mut map = Map::new(vec![SlotRegion::new(DeviceId(0), false, 1_000, 0)], 1_000, 2);
        for block in 0..200 {
            let slot = map.allocate_ssd(2).expect("there is room").slot;
            map.assign(block, slot, 0);
            assert!(map.assign_fragment(block, slot + 1, 1, 0));
        }
        let mut merging = Merging { is_under_way: true, ..Merging::default() };
        assert_eq!(merging.next(&map, &io, |_| true), Some(0));
        assert_eq!(merging.next(&map, &io, |block| block == 50), Some(50));
        assert_eq!(merging.next(&map, &io, |block| block == 150), None, "one step looks at 64");
        assert_eq!(merging.next(&map, &io, |block| block == 150), Some(150));
        for step in 1..=4 {
            assert!(merging.is_under_way, "{step}");
            assert_eq!(merging.next(&map, &io, |_| false), None);
        }
        assert!(!merging.is_under_way, "200 were looked at");
    }

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
