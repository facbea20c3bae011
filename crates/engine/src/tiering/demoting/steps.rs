//! Demotions, step by step: what leaves an SSD, and how.

use super::{LOOK_MAX, Need};
use crate::io::DeviceIo;
use crate::map::entry::{FRAGMENTS, HOME, LOG, SSD};
use crate::map::objects::Objects;
use crate::map::{Logical, Map, NONE, Slot, Touch};
use crate::migration::Migration;
use crate::migration::moves::{HOMED_BLOCKS_MAX, Moves};
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::requests::Requests;
use crate::store::Store;
use crate::tier::collect::Extent;
use crate::tiering::Tiers;
use crate::volumes::Volumes;
use tandem_block::BLOCK_BYTES;

impl Tiers {
    /// Do blocks that leave wait to be written home? Then a flush for those that were would come too
    /// early.
    pub(crate) fn demoting_can_move(&self) -> bool {
        self.share.as_ref().is_some_and(|tiers| tiers.demoting.has_dirty)
    }

    /// A move ended, or homes were durable.
    pub(crate) fn look_at_demoting(&mut self) {
        if let Some(tiers) = &mut self.share {
            tiers.demoting.look();
        }
    }

    fn drop_copy(&self, block: Logical, slot: Slot, map: &mut Map) -> bool {
        let dropped = map.drop_place(block, slot);
        if dropped {
            map.touch(Touch { logical: block, count: 1 }, NONE, true);
        }
        dropped
    }

    /// `searches`: for the slot that a home would be written from, too.
    fn demoting_need(
        &self,
        block: Logical,
        searches: bool,
        moves: &Moves,
        map: &Map,
        objects: &Objects,
        io: &DeviceIo,
    ) -> Need {
        let state = map.state(block);
        if state & LOG != 0
            && let Some(slot) = map.spare_copy(block).or_else(|| volatile_copy(block, map, io))
        {
            // the log's place is enough, while anybody can read it
            let is_out = io[map.slots().region(map.entry(block).log).device].is_out();
            return if is_out { Need::Wait } else { Need::Drop(slot) };
        }
        if state & SSD == 0 || state & LOG != 0 {
            // at home, absent, or in a log with a copy that goes when its drive was flushed, since nothing holds
            // its extent: none of this is a tier's doing
            return if state & FRAGMENTS != 0 && state & LOG == 0 {
                Need::Merge
            } else {
                Need::Nothing
            };
        }
        if state & FRAGMENTS != 0 {
            return Need::Merge;
        }
        if state & HOME != 0 {
            let slot = map.entry(block).ssd;
            let safe = map.leaves().recorded_home(block);
            return if safe { Need::Drop(slot) } else { Need::Wait };
        }
        if moves.is_homed(block) || io[objects.home_of(block, io).0].is_faulted() {
            return Need::Wait;
        }
        let source = if searches { map.writeback_source(block) } else { None };
        source.map_or(Need::Wait, Need::Home)
    }
}

/// For a mutant: the copy of a block in a log that was not flushed.
fn volatile_copy(block: Logical, map: &Map, io: &DeviceIo) -> Option<Slot> {
    let is_broken = io.breaks(Mutant::EvictsVolatile) && map.state(block) == LOG | SSD;
    is_broken.then(|| map.entry(block).ssd)
}

impl Policy {
    fn look_at(
        &mut self,
        extents: &[Extent],
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        assert!(extents.len() <= LOOK_MAX, "one step looks at no more than its bound");
        let blocks_max = (io.config().writeback_run_bytes / BLOCK_BYTES) as usize;
        let can_move = migration.moves.takes_home_move(&migration.evacuation)
            && migration.moves.homed_count() < HOMED_BLOCKS_MAX;
        let (mut home, mut merge, mut dropped) = (Vec::new(), None, 0u64);
        let mut dirty = false;
        for &extent in extents {
            let tiers = self.tiers.share.as_ref().expect("asked by the caller");
            let (from, to) = tiers.space.blocks_of(extent);
            let to = to.min(store.map.leaves().block_count() as u64);
            let held = tiers.space.is_held(extent);
            assert!(!held, "what is held does not leave");
            let mut left = true;
            for block in from as Logical..to as Logical {
                // where no more can go now, that one wants to is all that has to be known
                let searches = !dirty || (can_move && home.len() < blocks_max);
                match self.tiers.demoting_need(
                    block,
                    searches,
                    &migration.moves,
                    &store.map,
                    &volumes.objects,
                    io,
                ) {
                    Need::Nothing => {}
                    Need::Drop(slot) => {
                        dropped += u64::from(self.tiers.drop_copy(block, slot, &mut store.map));
                    }
                    Need::Home(slot) => {
                        (left, dirty) = (false, true);
                        if home.len() < blocks_max {
                            home.push((block, slot));
                        }
                    }
                    Need::Merge => {
                        left = false;
                        let movable = || !migration.moves.is_unmovable(block, &store.map, io);
                        merge = merge.or_else(|| movable().then_some(block));
                    }
                    Need::Wait => left = false,
                }
            }
            if left {
                self.tiers.share.as_mut().expect("asked by the caller").space.gone(extent);
            }
        }
        if dropped > 0 {
            io.stats_mut().tiers.dropped_blocks += dropped;
            store.commit.note_pending(io.now());
        }
        self.tiers.share.as_mut().expect("asked by the caller").demoting.has_dirty = dirty;
        if !can_move {
            return;
        }
        home.sort_unstable();
        if !home.is_empty() {
            io.stats_mut().tiers.demoted_blocks += home.len() as u64;
            migration.moves.begin_writeback_of(
                &home,
                &store.commit,
                &mut store.map,
                &migration.evacuation,
                io,
            );
        } else if let Some(block) = merge {
            migration.moves.start_merge(block, &mut store.map, requests, io);
        }
    }

    pub(crate) fn run_demoting(
        &mut self,
        store: &mut Store,
        volumes: &Volumes,
        requests: &mut Requests,
        migration: &mut Migration,
        io: &mut DeviceIo,
    ) {
        let durable = store.commit.durable();
        let tiers = self.tiers.share.as_mut().expect("asked by the caller");
        assert!(tiers.demoting.durable <= durable, "what is durable stays so");
        if tiers.space.demoting() == 0 {
            tiers.demoting.has_dirty = false;
            return;
        }
        if tiers.demoting.durable != durable {
            tiers.demoting.durable = durable;
            tiers.demoting.look();
        }
        if !tiers.demoting.looks {
            return;
        }
        let all = tiers.space.demoting();
        let mut extents: Vec<Extent> =
            tiers.space.demoting_from(tiers.demoting.cursor).take(LOOK_MAX).collect();
        let wraps = extents.len() < LOOK_MAX;
        if wraps && extents.len() < all {
            let rest = LOOK_MAX.min(all) - extents.len();
            extents.extend(tiers.space.demoting_from(Extent(0)).take(rest));
        }
        self.look_at(&extents, store, volumes, requests, migration, io);
        let tiers = self.tiers.share.as_mut().expect("asked by the caller");
        tiers.demoting.cursor = extents.last().map_or(Extent(0), |last| Extent(last.0 + 1));
        tiers.demoting.fruitless += extents.len();
        if tiers.demoting.fruitless >= tiers.space.demoting() {
            tiers.demoting.looks = false;
        }
    }
}
