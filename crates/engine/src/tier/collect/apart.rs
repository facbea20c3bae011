//! Where do the extents of the SSD lie, and where those of the hard drives? In a table each, if these are many more.
//!
//! What the SSD holds is mostly little of what is tracked and most of what is asked for. Among all others it
//! is one extent in a group, or none, and each is a cache line or two of its own; in a table for it alone
//! twelve of them are neighbours, and more of them fit near the processor (measured: a request of zipf 1.0
//! in a million objects takes a seventh less time). An extent that comes or goes moves to the other table.
//!
//! The hard drives' table has room for all that is tracked, because at first nothing is on the SSD. So two
//! tables take more memory than one; and where the SSD holds much of what is tracked, all lie in one.

use super::ranks::{Rank, Ranks, Side};
use super::{Extent, Memory};

/// The SSD has this part of what is tracked at most, if it has a table of its own.
const NEAR_PART: usize = 4;

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In the table for those of the SSD alone.
    is_near: bool,
    slot: u32,
}

/// Every tracked extent in its order, with so many words of each for whoever uses it.
#[derive(Clone, Debug)]
pub(crate) struct Apart<const KEPT_WORDS: usize> {
    /// Those of the hard drives, or all.
    far: Ranks<KEPT_WORDS>,
    /// Those of the SSD.
    near: Option<Ranks<KEPT_WORDS>>,
    entries_max: usize,
}

impl<const KEPT_WORDS: usize> Apart<KEPT_WORDS> {
    /// For so many extents at most, of which the SSD has so many at most.
    pub(crate) fn new(entries_max: usize, of_ssd_max: usize) -> Self {
        let near = (of_ssd_max * NEAR_PART <= entries_max).then(|| Ranks::new(of_ssd_max));
        Apart { far: Ranks::new(entries_max), near, entries_max }
    }

    /// Its place; it stays the same till something is used, moved or removed.
    #[inline]
    pub(crate) fn find(&self, extent: Extent) -> Option<Place> {
        let near = self.near.as_ref().and_then(|near| near.find(extent));
        near.map(|slot| Place { is_near: true, slot })
            .or_else(|| self.far.find(extent).map(|slot| Place { is_near: false, slot }))
    }

    /// Like [`Self::find`], of an extent that is used, which the next time is found sooner.
    #[inline]
    pub(crate) fn find_used(&mut self, extent: Extent) -> Option<Place> {
        if let Some(near) = &mut self.near
            && let Some(slot) = near.find_used(extent)
        {
            return Some(Place { is_near: true, slot });
        }
        self.far.find_used(extent).map(|slot| Place { is_near: false, slot })
    }

    /// Does the extent lie here?
    #[inline]
    pub(crate) fn is_at(&self, place: Place, extent: Extent) -> bool {
        self.table(place).is_at(place.slot, extent)
    }

    /// Is there no room?
    pub(crate) fn is_full(&self) -> bool {
        let near = self.near.as_ref().map_or(0, Ranks::len);
        self.far.len() + near == self.entries_max
    }

    /// Adds an extent that has no place.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn insert(&mut self, extent: Extent, side: Side, rank: Rank) -> Place {
        self.put(extent, side, rank, [0; KEPT_WORDS])
    }

    fn put(&mut self, extent: Extent, side: Side, rank: Rank, kept: [u64; KEPT_WORDS]) -> Place {
        match &mut self.near {
            Some(near) if side == Side::Ssd => {
                Place { is_near: true, slot: near.insert(extent, side, rank, kept) }
            }
            _ => Place { is_near: false, slot: self.far.insert(extent, side, rank, kept) },
        }
    }

    /// Forgets an extent.
    pub(crate) fn remove(&mut self, place: Place) {
        self.table_mut(place).remove(place.slot);
    }

    /// Moves an extent to a side, with its rank and all that is kept of it.
    pub(crate) fn shift(&mut self, place: Place, side: Side) {
        if self.near.is_none() {
            self.far.shift(place.slot, side);
        } else if self.side(place) != side {
            let table = self.table_mut(place);
            let (extent, rank) = (table.extent(place.slot), table.rank(place.slot));
            let kept = table.kept(place.slot);
            table.remove(place.slot);
            self.put(extent, side, rank, kept);
        }
    }

    /// It was used: its heat is what is made of the heat it had, and of what is kept of it, which is
    /// zero at first. On which side is it?
    #[inline]
    pub(crate) fn heat_up(
        &mut self,
        place: Place,
        used: u64,
        heat: impl FnOnce(u64, &mut [u64; KEPT_WORDS]) -> u64,
    ) -> Side {
        self.table_mut(place).heat_up(place.slot, used, heat)
    }

    /// Its rank.
    #[inline]
    pub(crate) fn rank(&self, place: Place) -> Rank {
        self.table(place).rank(place.slot)
    }

    /// Its side.
    #[inline]
    pub(crate) fn side(&self, place: Place) -> Side {
        self.table(place).side(place.slot)
    }

    /// The extent that lies here.
    #[inline]
    pub(crate) fn extent(&self, place: Place) -> Extent {
        self.table(place).extent(place.slot)
    }

    /// The hottest on the hard drives, the coldest on the SSD.
    #[inline]
    pub(crate) fn first(&self, side: Side) -> Option<Place> {
        let is_near = side == Side::Ssd && self.near.is_some();
        let table = self.table(Place { is_near, slot: 0 });
        table.first(side).map(|slot| Place { is_near, slot })
    }

    /// One that may be forgotten: one of the coldest of the hard drives'.
    pub(crate) fn cold(&mut self) -> Option<Place> {
        self.far.cold().map(|slot| Place { is_near: false, slot })
    }

    /// What it takes.
    pub(crate) fn memory(&self) -> Memory {
        let near = self.near.as_ref().map_or(0, Ranks::memory_bytes);
        let bytes = (self.far.memory_bytes() + near) as u64;
        Memory { tracked_max: self.entries_max as u64, bytes }
    }

    #[inline]
    fn table(&self, place: Place) -> &Ranks<KEPT_WORDS> {
        match &self.near {
            Some(near) if place.is_near => near,
            _ => &self.far,
        }
    }

    #[inline]
    fn table_mut(&mut self, place: Place) -> &mut Ranks<KEPT_WORDS> {
        match &mut self.near {
            Some(near) if place.is_near => near,
            _ => &mut self.far,
        }
    }
}
