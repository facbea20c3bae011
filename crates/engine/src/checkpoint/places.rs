//! Which groups of blocks does a checkpoint write next, and how many of them at once?

use crate::map::Map;
use crate::map::checksums::BlockChecksums;
use crate::map::marks::Marks;
use crate::pages::PageWrite;
use std::collections::VecDeque;

/// Groups that are composed for one command. Each takes some 20 us if it is full.
const GROUPS_AT_ONCE: usize = 4;
/// … and in one turn, where they need no page.
pub(super) const GROUPS_A_TURN: usize = 64;

/// What is to be written next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextPlaces {
    /// This.
    Write(PageWrite),
    /// A group for which the area has no room.
    NoRoom,
    /// Something, but not in this turn.
    Later,
    /// Nothing.
    Over,
}

/// The groups of a checkpoint under way.
#[derive(Clone, Debug)]
pub(super) struct PlacesWrite {
    dirty: Marks,
    next: usize,
    /// Groups that were composed.
    composed: u64,
    /// The area has no room for that one.
    is_full: bool,
    /// Pages of groups that were composed.
    writes: VecDeque<PageWrite>,
}

impl Default for PlacesWrite {
    /// Of no group.
    fn default() -> Self {
        PlacesWrite::of(Marks::default())
    }
}

impl PlacesWrite {
    /// All these groups.
    pub(super) fn of(dirty: Marks) -> Self {
        PlacesWrite { dirty, next: 0, composed: 0, is_full: false, writes: VecDeque::new() }
    }

    /// Another part goes on behind what the last one took.
    pub(super) fn go_on(&mut self) {
        assert!(self.writes.is_empty(), "what was composed was written");
        self.is_full = false;
    }

    /// Was something composed that is still to be written?
    pub(super) fn has_composed(&self) -> bool {
        !self.writes.is_empty()
    }

    /// How many groups it has composed.
    pub(super) fn composed(&self) -> u64 {
        self.composed
    }

    /// Does the round take this group?
    pub(super) fn takes(&self, group: u32) -> bool {
        (group as usize) < self.dirty.len() && self.dirty.get(group as usize)
    }

    /// What is next. `left`: groups that may be composed in this turn.
    pub(super) fn next(
        &mut self,
        map: &Map,
        checksums: &mut BlockChecksums,
        left: &mut usize,
    ) -> NextPlaces {
        if let Some(write) = self.writes.pop_front() {
            return NextPlaces::Write(write);
        }
        let mut composed = 0;
        while composed < GROUPS_AT_ONCE && *left > 0 && !self.is_full {
            let Some(group) = self.dirty.next(self.next) else { break };
            *left -= 1;
            self.next = group;
            let group = group as u64;
            let (places, blocks) = (map.places(group), map.blocks_of_group(group));
            let Some(writes) = checksums.write_places(group, &places, blocks) else {
                self.is_full = true;
                break;
            };
            self.next += 1;
            self.composed += 1;
            writes.into_iter().for_each(|write| write.join(&mut self.writes));
            // groups without a page are composed until there is something to write
            composed += usize::from(!self.writes.is_empty());
        }
        match self.writes.pop_front() {
            Some(write) => NextPlaces::Write(write),
            None if self.is_full => NextPlaces::NoRoom,
            None if self.dirty.next(self.next).is_some() => NextPlaces::Later,
            None => NextPlaces::Over,
        }
    }

    /// The attempt has failed: all groups of its round are due again.
    pub(super) fn give_back(self, map: &mut Map) {
        self.dirty.iter().for_each(|group| map.mark_group_dirty(group as u64));
    }
}
