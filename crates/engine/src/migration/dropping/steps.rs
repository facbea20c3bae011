//! Copies on an SSD that are dropped, step by step.

use super::{DROP_BLOCKS_MAX, DROP_BLOCKS_SEARCHED_MAX, DROP_LOOKS_MAX};
use crate::io::DeviceIo;
use crate::map::objects::Objects;
use crate::map::{Logical, Map, NONE, Touch};
use crate::migration::moves::Moves;
use crate::store::commit::Commit;

impl Moves {
    /// Drops SSD copies of blocks that are safe at home, or in a log.
    pub(crate) fn drop_clean_copies(
        &mut self,
        commit: &mut Commit,
        map: &mut Map,
        objects: &Objects,
        io: &mut DeviceIo,
    ) {
        if map.spare_copies() == 0
            || !map.is_short_of_space(io.waits_for_space())
            || map.displaced_count() > DROP_BLOCKS_MAX
            || self.dropping.found_nothing(commit.durable())
        {
            return;
        }
        let all = map.leaves().block_count() as Logical;
        if self.dropping.searched == 0 {
            self.dropping.as_of = commit.durable();
        }
        // where nothing is under way there may be no next turn
        let is_last = io.flights().is_empty();
        let (looks_max, range) =
            if is_last { (all, all) } else { (DROP_LOOKS_MAX, DROP_BLOCKS_SEARCHED_MAX) };
        let mut left = range.min(all - self.dropping.searched);
        let (mut dropped, mut looked) = (0, 0);
        while left > 0 && looked < looks_max && dropped < DROP_BLOCKS_MAX {
            let from = if self.dropping.cursor < all { self.dropping.cursor } else { 0 };
            let end = all.min(from + left);
            let found = map.leaves().next_clean(from, end);
            let behind = found.map_or(end, |block| block + 1);
            self.dropping.cursor = behind;
            self.dropping.searched += behind - from;
            left -= behind - from;
            looked += 1;
            if let Some(block) = found {
                dropped += usize::from(drop_copy(block, map, objects, io));
            }
        }
        if dropped > 0 {
            self.dropping.searched = 0;
            io.stats_mut().copies_dropped += dropped as u64;
            commit.note_pending(io.now());
            return;
        }
        // the next turn goes on behind these; once it has seen all, nothing is there to be dropped
        assert!(self.dropping.searched <= all, "each block is looked at once in a search");
        if self.dropping.searched == all {
            self.dropping.searched = 0;
            self.dropping.nothing = Some(self.dropping.as_of);
        }
    }
}

/// Drops the clean copy of a block, if it can go.
fn drop_copy(block: Logical, map: &mut Map, objects: &Objects, io: &DeviceIo) -> bool {
    // a record has to name the home before, or a flush of its drive to cover the log; and where that drive is asked
    // nothing any more nobody else has it
    let log = map.entry(block).log;
    let other = if map.is_safe_in_log(block) {
        map.slots().region(log).device
    } else {
        objects.home_of(block, io).0
    };
    let Some(slot) = map.spare_copy(block).filter(|_| !io[other].is_out()) else { return false };
    let is_dropped = map.drop_place(block, slot);
    assert!(is_dropped, "block {block} lies on an SSD");
    map.touch(Touch { logical: block, count: 1 }, NONE, true);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::fixture::drives;
    use crate::map::SlotRegion;

    /// Seen: each further SSD dropped one copy more.
    #[test]
    fn all_ssds_together_drop_so_many_copies_in_a_step() {
        const SLOTS: u64 = DROP_BLOCKS_MAX as u64 + 10;
        let mut io = drives(3, 1);
        let region = |ssd: usize| SlotRegion::new(io.ssds()[ssd], false, SLOTS, 0);
        let mut map = Map::new((0..3).map(region).collect(), 3 * SLOTS as usize, 4);
        map.assume_home(0, 3 * SLOTS);
        (0..3 * SLOTS).for_each(|block| assert!(map.assume_ssd_copy(block)));
        let (objects, mut commit) = (Objects::new(3 * SLOTS), Commit::default());
        io.note_wait_for_space();
        Moves::default().drop_clean_copies(&mut commit, &mut map, &objects, &mut io);
        assert_eq!(io.stats().copies_dropped, DROP_BLOCKS_MAX as u64);
    }

    /// A search that has come some way goes on to the end when nothing is under way, and ends there.
    #[test]
    fn a_search_that_has_begun_ends_where_nothing_is_under_way() {
        let mut io = drives(1, 1);
        let device = io.ssds()[0];
        let region = SlotRegion::new(device, false, 10, 0);
        let mut map = Map::new(vec![region], 10, 2);
        let slot = map.allocate_ssd(1).expect("there is room").slot;
        map.assign(0, slot, 0);
        // a home that no record names yet keeps its copy
        let copied = map.watch(0);
        assert!(map.note_home(&copied));
        map.forget(copied);
        let (objects, mut commit, mut moves) =
            (Objects::new(10), Commit::default(), Moves::default());
        io.note_wait_for_space();
        (moves.dropping.cursor, moves.dropping.searched) = (3, 3);
        moves.drop_clean_copies(&mut commit, &mut map, &objects, &mut io);
        assert_eq!((io.stats().copies_dropped, moves.dropping.searched), (0, 0));
        assert!(moves.dropping.found_nothing(commit.durable()));
    }
}
