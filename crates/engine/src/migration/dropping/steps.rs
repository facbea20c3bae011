//! Copies on an SSD that are dropped, step by step.

use super::{DROP_BLOCKS_MAX, DROP_LOOKS_MAX};
use crate::format::pointer::NUMBERS_END;
use crate::io::DeviceIo;
use crate::map::allocator::Allocator;
use crate::map::entry::{HOME, SSD};
use crate::map::objects::Objects;
use crate::map::{Map, NONE, Touch};
use crate::migration::moves::Moves;
use crate::store::commit::Commit;

impl Moves {
    /// Drops SSD copies of blocks that are safe at home, the oldest allocations first.
    pub(crate) fn drop_clean_copies(
        &mut self,
        commit: &mut Commit,
        map: &mut Map,
        objects: &Objects,
        io: &mut DeviceIo,
    ) {
        if map.population().clean_ssd == 0
            || !map.is_short_of_space(io.waits_for_space())
            || map.displaced_count() > DROP_BLOCKS_MAX
            || self.dropping.found_nothing(commit.durable())
        {
            return;
        }
        let mut dropped = 0;
        let begins = self.dropping.looked;
        // where nothing is under way there may be no next turn
        let looks_max = if io.flights().is_empty() { NUMBERS_END } else { DROP_LOOKS_MAX };
        for ssd in 0..io.ssds().len() {
            let most = DROP_BLOCKS_MAX - dropped;
            dropped += drop_copies_on(ssd, (begins, looks_max), most, map, objects, io);
        }
        self.dropping.looked = 0;
        if dropped > 0 {
            io.stats_mut().copies_dropped += dropped as u64;
            commit.note_pending(io.now());
            return;
        }
        // the next turn goes on behind these; once it has seen all, nothing is there to be dropped
        let looked = begins + looks_max;
        assert!(looked > begins, "each step of a search comes further");
        let slots_of = |allocator: &Allocator| allocator.slot_count();
        if looked < map.allocators().iter().map(slots_of).max().unwrap_or(0) {
            self.dropping.looked = looked;
            return;
        }
        self.dropping.nothing = Some(commit.durable());
    }
}

/// Drops at most so many clean copies on one SSD, and returns how many. They are looked for `begins` slots
/// behind where its next write goes, in at most `looks_max` slots.
fn drop_copies_on(
    ssd: usize,
    (begins, looks_max): (u64, u64),
    most: usize,
    map: &mut Map,
    objects: &Objects,
    io: &DeviceIo,
) -> usize {
    let allocator = &map.allocators()[ssd];
    let (start, count) = (allocator.cursor(), allocator.slot_count());
    let region = map.slots().regions()[ssd];
    assert!(region.device == io.ssds()[ssd], "the slots of SSDs are numbered as these are");
    assert!(region.count == count, "an allocator has the slots of its SSD");
    assert!(count == 0 || region.contains(start), "the next write goes to a slot of the SSD");
    let first = region.first;
    let mut offset = ((start - first) + begins) % count.max(1);
    let mut dropped = 0;
    for _ in 0..count.min(looks_max) {
        if dropped == most {
            break;
        }
        let slot = first + offset;
        offset = if offset + 1 == count { 0 } else { offset + 1 };
        let owner = map.slots().owner(slot);
        if owner == NONE || map.state(owner) != SSD | HOME {
            continue;
        }
        // a record has to name another place before
        if !map.leaves().recorded_home(owner) {
            continue;
        }
        // nobody else has it where the drive of its home is asked nothing any more
        let (home, _) = objects.home_of(owner, io);
        if io[home].is_out() {
            continue;
        }
        if map.entry(owner).ssd == slot && map.drop_place(owner, slot) {
            map.touch(Touch { logical: owner, count: 1 }, NONE, true);
            dropped += 1;
        }
    }
    dropped
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
        moves.dropping.looked = 3;
        moves.drop_clean_copies(&mut commit, &mut map, &objects, &mut io);
        assert_eq!((io.stats().copies_dropped, moves.dropping.looked), (0, 0));
        assert!(moves.dropping.found_nothing(commit.durable()));
    }
}
